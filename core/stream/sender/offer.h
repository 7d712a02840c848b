/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Chooses a route for a receiver and offers it. In the listener's thread, without the lock. */
#ifndef GPUD_STREAM_SENDER_OFFER_H
#define GPUD_STREAM_SENDER_OFFER_H

#include "stream/sender/link.h"

/* The best route that has not failed; NULL: none, and link->fallback_reason says why. */
const struct gpud_route_ops *gpud_link_choose_route(struct gpud_link *link);

/* Offers a route. On a temporary shortage (of descriptors, for example) the link waits IDLE, some
 * seconds at most. */
void gpud_link_offer(struct gpud_link *link);

/* The same, if the ring of this epoch was not offered yet, or the wait is over. */
void gpud_link_offer_if_due(struct gpud_link *link, int64_t now);

/* Records that the offered route does not work, and offers the next one. */
void gpud_link_try_next(struct gpud_link *link, const char *reason);

#endif
