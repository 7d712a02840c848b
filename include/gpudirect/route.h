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
