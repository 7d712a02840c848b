/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* staged: through host pages of the sender that both devices read and write; at an end that is the
 * host itself nothing is copied. */
#include "route/ops.h"

#include <string.h>

static bool can_connect(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver,
                        char why[GPUD_WHY_MAX])
{
    if (memcmp(sender->host, receiver->host, sizeof(sender->host)) != 0) {
        gpud_print_n(why, GPUD_WHY_MAX,
                     "the two ends run on different machines and share no memory");
        return false;
    }
    return true;
}

const struct gpud_route_ops gpud_staged_route = {
    .name = "staged",
    .ring = GPUD_RING_SENDER_HOST,
    .can_connect = can_connect,
};
