/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* migrate: both ends are in one process and their devices in one OpenCL context, so that the
 * sender's slots are the receiver's, too: the runtime moves each to the receiver's device, from the
 * moment on at which its frame is submitted, and back when it is written anew. */
#include "device/ops.h"
#include "route/route.h"

#include <string.h>

static bool can_connect(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver,
                        char why[GPUD_REASON_MAX])
{
    const struct gpud_endpoint *ends[] = {sender, receiver};
    for (int i = 0; i < 2; i++) {
        if (strcmp(ends[i]->kind, "opencl") != 0) {
            gpud_print_n(why, GPUD_REASON_MAX, "only between OpenCL devices, not %s",
                         ends[i]->device);
            return false;
        }
    }
    if (sender->token != receiver->token) {
        gpud_print_n(why, GPUD_REASON_MAX,
                     "not the same process: only inside one, with one gpud_context, do two "
                     "devices have an OpenCL context in common");
        return false;
    }
    for (int i = 0; i < 2; i++) {
        if (ends[i]->caps & GPUD_CAP_BUS_ADDRESSABLE) {
            gpud_print_n(why, GPUD_REASON_MAX,
                         "no common context: %s has DirectGMA, for which it needs an OpenCL "
                         "context of its own",
                         ends[i]->device);
            return false;
        }
    }
    if (strcmp(sender->device, receiver->device) == 0) {
        gpud_print_n(why, GPUD_REASON_MAX, "both ends are on %s: nothing has to move",
                     sender->device);
        return false;
    }
    if (!sender->common || sender->common != receiver->common) {
        gpud_print_n(why, GPUD_REASON_MAX,
                     "no common context: %s and %s belong to different OpenCL drivers, or their "
                     "driver has refused one for both, as the log says",
                     sender->device, receiver->device);
        return false;
    }
    return true;
}

const struct gpud_route_ops gpud_migrate_route = {
    .name = "migrate",
    .ring = GPUD_RING_SENDER_DEVICE,
    .direct = true,
    .moves = true,
    .can_connect = can_connect,
};
