/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/** @file
 * Which ways there are between two devices, and what speaks against each.
 */
#ifndef GPUDIRECT_ROUTE_H
#define GPUDIRECT_ROUTE_H

#include <gpudirect/device.h>

GPUD_BEGIN_DECLS

/** A route between two devices. */
struct gpud_route_info {
    size_t size;   /**< sizeof(the struct), as the caller knows it */
    char name[32]; /**< "map", "peer"…: as gpud_sender_params.route has it */
    /** by what is known without moving a byte: a test decides when a link is made */
    bool possible;
    char reason[GPUD_REASON_MAX]; /**< if not possible: why not, and what would change that */
};

/** Why a link's route is worse than its devices allow, if that can be mended. Its fallback_reason
 * says it in a sentence. */
enum gpud_degraded {
    /** It is not: it is the best that the devices and their drivers have for these frames, it was
     * asked for, or a way through the host's memory is faster than the direct one. */
    GPUD_DEGRADED_NO = 0,
    GPUD_DEGRADED_HIDDEN, /**< the sender does not see the receiver's GPU, so that it cannot write
                               there: a container's devices, CUDA_VISIBLE_DEVICES */
    /** the driver lets the sender's GPU not write the receiver's, which is of the same vendor: the
     * IOMMU, ACS, the BIOS, or cards of a class that cannot (then ask for the route "staged") */
    GPUD_DEGRADED_PEER_ACCESS,
    GPUD_DEGRADED_USER, /**< the ends belong to different users, who do not share a GPU's memory */
    GPUD_DEGRADED_FAILED, /**< a better route seemed possible, and failed when it was tried */
};

/** Lists the routes for frames from one device of this machine to another, best first, with the
 * reason against each that is not possible. No byte is moved: a test picture decides when a link is
 * made. Thread-safe.
 *
 * @param from  where the frames are made
 * @param to  where they are wanted
 * @param same_process  both ends live in one process and one context
 * @param routes  an array of max entries, filled from the start; routes[0].size is the size of each
 * @param max  entries that routes has room for
 * @return how many routes there are, which may be more than max
 */
GPUD_API size_t gpud_route_explain(struct gpud_device *from, struct gpud_device *to,
                                   bool same_process, struct gpud_route_info *routes, size_t max);

GPUD_END_DECLS

#endif
