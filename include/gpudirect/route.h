/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which ways there are between two devices, and what speaks against each. */
#ifndef GPUDIRECT_ROUTE_H
#define GPUDIRECT_ROUTE_H

#include <gpudirect/device.h>

GPUD_BEGIN_DECLS

struct gpud_route_info {
    size_t size;
    char name[32];
    bool possible; /* by what is known without moving a byte: a test decides when a link is made */
    char reason[GPUD_REASON_MAX]; /* if not possible: why not, and what would change that */
};

/* The routes for frames from one device of this machine to another, best first; same_process: both
 * ends live in one process and context. Writes up to max entries and returns how many there are.
 * routes[0].size is that of each. */
GPUD_API size_t gpud_route_explain(struct gpud_device *from, struct gpud_device *to,
                                   bool same_process, struct gpud_route_info *routes, size_t max);

GPUD_END_DECLS

#endif
