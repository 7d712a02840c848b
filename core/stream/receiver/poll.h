/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A descriptor for an application's event loop: readable when acquiring has something to do. An
 * acquire that finds nothing arms it; it costs nothing before its first use. All in the acquiring
 * thread, except where noted. */
#ifndef GPUD_STREAM_RECEIVER_POLL_H
#define GPUD_STREAM_RECEIVER_POLL_H

#include "stream/receiver/state.h"

void gpud_receiver_poll_init(struct gpud_receiver *receiver);
void gpud_receiver_poll_finish(struct gpud_receiver *receiver);

/* Call when an acquire finds nothing. true: frames arrive in the page; check for one once more
 * after the call, and wake the loop if there is one. */
bool gpud_receiver_poll_arm(struct gpud_receiver *receiver);

/* Call when the next acquire begins. true: it was armed, and only the channel can have woken the
 * loop: if there is nothing to receive, the sender may have ended. */
bool gpud_receiver_poll_disarm(struct gpud_receiver *receiver);

/* Call when an acquire was interrupted: it is readable again only once it is woken. */
void gpud_receiver_poll_rest(struct gpud_receiver *receiver);

/* Call before releasing the channel; held frames may keep its descriptor open. */
void gpud_receiver_poll_unwatch(struct gpud_receiver *receiver);

/* Makes it readable. In the acquiring thread, or under the receiver's lock. */
void gpud_receiver_poll_wake(struct gpud_receiver *receiver);

#endif
