/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* directgma: the sender's copy engine writes over the bus into memory of the receiver's GPU, then
 * its marker. */
#include "device/device.h"
#include "route/route.h"

#include <string.h>

static bool is_opencl(const struct gpud_endpoint *end, char why[GPUD_REASON_MAX])
{
    if (strcmp(end->kind, "opencl") == 0)
        return true;
    gpud_print_n(why, GPUD_REASON_MAX, "only between OpenCL devices, not %s", end->device);
    return false;
}

static bool has_directgma(const struct gpud_endpoint *end, const char *role,
                          char why[GPUD_REASON_MAX])
{
    if (end->caps & GPUD_CAP_BUS_ADDRESSABLE)
        return true;
    gpud_print_n(why, GPUD_REASON_MAX, "%s: %s", role, end->no_direct);
    return false;
}

/* The cause that a user cannot change comes first: a layer for one end is no help if the other has
 * no OpenCL. */
static bool directgma_can_connect(const struct gpud_endpoint *sender,
                                  const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    if (memcmp(sender->host, receiver->host, sizeof(sender->host)) != 0) {
        gpud_print_n(why, GPUD_REASON_MAX, "the two ends run on different machines");
        return false;
    }
    return is_opencl(sender, why) && is_opencl(receiver, why) &&
           has_directgma(sender, "sender", why) && has_directgma(receiver, "receiver", why);
}

const struct gpud_route_ops gpud_directgma_route = {
    .name = "directgma",
    .ring = GPUD_RING_RECEIVER,
    .direct = true,
    .signal = GPUD_SIGNAL_MEMORY,
    .memory_per_slot = true, /* each has its own marker */
    .can_connect = directgma_can_connect,
};
