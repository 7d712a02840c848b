/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Through host pages that both devices read and write; an end on the host itself copies nothing.
 *
 *     staged         pages of the sender, which all its receivers map; other processes read-only
 *     staged-push    pages of the receiver, which this one sender writes: for a receiver whose
 *                    driver cannot pin read-only pages, so that its CPU would copy every
 *                    frame. hipHostRegister() has no flag for such pages; whether a driver takes
 *                    them is tried when the device is opened.
 */
#include "device/device.h"
#include "route/route.h"

#include <string.h>

static bool share_memory(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver,
                         char why[GPUD_REASON_MAX])
{
    if (memcmp(sender->host, receiver->host, sizeof(sender->host)) == 0)
        return true;
    gpud_print_n(why, GPUD_REASON_MAX,
                 "the two ends run on different machines and share no memory");
    return false;
}

static bool staged_can_connect(const struct gpud_endpoint *sender,
                               const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    return share_memory(sender, receiver, why);
}

/* For frames on the host, a push would make the sender's CPU copy instead of the receiver's, and no
 * fewer times. In one process the receiver can already write the sender's pages. */
static bool can_push(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver,
                     char why[GPUD_REASON_MAX])
{
    if (!share_memory(sender, receiver, why))
        return false;
    if (!((sender->caps | receiver->caps) & GPUD_CAP_HOST) && sender->token != receiver->token &&
        receiver->caps & GPUD_CAP_PINS_WRITABLE)
        return true;
    gpud_print_n(why, GPUD_REASON_MAX,
                 "only from a device to one of another process whose driver pins no host memory "
                 "that it may only read: staged does as well");
    return false;
}

/* Seconds for a byte between a device and the host's memory, 0 for the host itself. far: the
 * kernel's figure will do if the driver has none; see select.c. */
static bool add_time(const struct gpud_endpoint *end, bool far, double *time)
{
    uint32_t rate = end->host_rate;
    if (end->caps & GPUD_CAP_HOST)
        return true;
    if (rate == 0 && far)
        rate = gpud_place_bus_rate(end->pci);
    if (rate == 0)
        return false;
    *time += 1 / (rate * 1e6);
    return true;
}

/* Down to the host, then up. */
static double staged_rate(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver)
{
    bool far = gpud_endpoints_distance(sender, receiver) == GPUD_DISTANCE_SYS;
    double time = 0;
    return add_time(sender, far, &time) && add_time(receiver, far, &time) && time > 0 ? 1 / time
                                                                                      : 0;
}

const struct gpud_route_ops gpud_staged_route = {
    .name = "staged",
    .ring = GPUD_RING_SENDER_HOST,
    .can_connect = staged_can_connect,
    .rate = staged_rate,
};

const struct gpud_route_ops gpud_staged_push_route = {
    .name = "staged-push",
    .ring = GPUD_RING_RECEIVER_HOST,
    .substitute = true,
    .can_connect = can_push,
    .rate = staged_rate,
};
