/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which route a receiver is offered, and how. In the listener's thread, without the lock. */
#ifndef GPUD_STREAM_SENDER_OFFER_H
#define GPUD_STREAM_SENDER_OFFER_H

#include "stream/sender/link.h"

/* The best route that was not tried in vain; NULL: none, link->fallback_reason says why. */
const struct gpud_route_ops *gpud_link_choose_route(struct gpud_link *link);

/* Offers a route. What the system has none of at the moment (descriptors, say) it may have in a
 * while: the link waits IDLE for that, some seconds at most. */
void gpud_link_offer(struct gpud_link *link);

/* The same, where it has not been offered the ring of this epoch yet, or waited long enough. */
void gpud_link_offer_if_due(struct gpud_link *link, int64_t now);

/* The route that was offered does not work: the next one. */
void gpud_link_try_next(struct gpud_link *link, const char *reason);

#endif
