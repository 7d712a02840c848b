/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* map: the receivers map the sender's ring and read the frames where they are, also by another
 * driver of the same GPU. */
#include "device/device.h"
#include "route/route.h"

#include <string.h>

static bool map_can_connect(const struct gpud_endpoint *sender,
                            const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    if (memcmp(sender->host, receiver->host, sizeof(sender->host)) != 0) {
        gpud_print_n(why, GPUD_REASON_MAX, "the two ends run on different machines");
        return false;
    }
    if (gpud_endpoints_are_of_two_drivers(sender, receiver)) {
        char clause[GPUD_REASON_MAX];
        if (gpud_endpoint_imports(receiver, sender, clause))
            return true;
        gpud_print_n(why, GPUD_REASON_MAX, "the frames are on %s and are wanted on %s: %s",
                     sender->device, receiver->device, clause);
        return false;
    }
    if (!gpud_endpoints_share_device(sender, receiver) &&
        !(sender->caps & receiver->caps & GPUD_CAP_HOST)) {
        gpud_print_n(why, GPUD_REASON_MAX, "the frames are on %s and are wanted on %s",
                     sender->device, receiver->device);
        return false;
    }
    if (sender->token == receiver->token)
        return true; /* same process: the pointer is shared */
    if (!(sender->caps & GPUD_CAP_SHARE)) {
        gpud_print_n(why, GPUD_REASON_MAX,
                     "the driver of %s cannot export memory to other processes", sender->device);
        return false;
    }
    return true;
}

/* Only host memory can be shared read-only. */
static const char *refuse_foreign(const struct gpud_endpoint *sender)
{
    return sender->caps & GPUD_CAP_HOST
               ? NULL
               : "mapping a GPU's memory allows writing it, and the receiver is another user's";
}

const struct gpud_route_ops gpud_map_route = {
    .name = "map",
    .ring = GPUD_RING_SENDER_DEVICE,
    .direct = true,
    .signal = GPUD_SIGNAL_PAGE,
    .shrinks = true,
    .can_connect = map_can_connect,
    .refuse_foreign = refuse_foreign,
};
