/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/** @file
 * Which routes frames can take between two devices, and why each of the others is not possible.
 */
#ifndef GPUDIRECT_ROUTE_H
#define GPUDIRECT_ROUTE_H

#include <gpudirect/device.h>

GPUD_BEGIN_DECLS

/** A route between two devices. */
struct gpud_route_info {
    size_t size;   /**< sizeof(the struct), as the caller knows it */
    char name[32]; /**< "map", "peer"…: as gpud_sender_params.route has it */
    /** judged without moving a byte: a test frame decides when a link is made */
    bool possible;
    char reason[GPUD_REASON_MAX]; /**< if not possible: why not, and what would change that */
};

/** Why a link's route is worse than its devices allow, if that can be mended. Its fallback_reason
 * says it in a sentence. */
enum gpud_degraded {
    /** It is not worse: it is the best that the devices and their drivers have for these frames, it
     * was asked for, or a route through host memory is faster than the direct one. */
    GPUD_DEGRADED_NO = 0,
    GPUD_DEGRADED_HIDDEN, /**< the receiver's GPU is hidden from the sender, which cannot write
                               there: by a container's devices, or CUDA_VISIBLE_DEVICES */
    /** the driver does not let the sender's GPU write the receiver's, although they are of one
     * vendor: because of the IOMMU, ACS or the BIOS, or because such cards cannot (then ask for the
     * route "staged") */
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
