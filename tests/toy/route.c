/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* toy: a route that no machine needs, into pages of a receiver on the host. What passes the suite
 * of the routes here shows how little a new one needs elsewhere: its line in the table of select.c,
 * by GPUD_TEST_ROUTE here, and its line in meson.build. */
#include "device/device.h"
#include "route/route.h"

#include <string.h>

/* Only where an end asks for it, so that all other tests of this core go by the others. */
static bool can_connect(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver,
                        char why[GPUD_REASON_MAX])
{
    bool asked = strcmp(sender->route, "toy") == 0 || strcmp(receiver->route, "toy") == 0;
    if (asked && receiver->caps & GPUD_CAP_HOST &&
        memcmp(sender->host, receiver->host, sizeof(sender->host)) == 0)
        return true;
    gpud_print_n(why, GPUD_REASON_MAX,
                 "only to a receiver on the host, on one machine, if asked for");
    return false;
}

const struct gpud_route_ops gpud_toy_route = {
    .name = "toy",
    .ring = GPUD_RING_RECEIVER_HOST,
    .direct = true,
    .can_connect = can_connect,
};
