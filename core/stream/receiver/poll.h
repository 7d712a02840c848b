/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A descriptor for applications that wait in a loop of their own: readable when acquiring has
 * something to do. It is armed whenever an acquire ends with nothing, and costs nothing before it
 * was asked for. All in the acquiring thread, but for what says otherwise. */
#ifndef GPUD_STREAM_RECEIVER_POLL_H
#define GPUD_STREAM_RECEIVER_POLL_H

#include "stream/receiver/state.h"

void gpud_receiver_poll_init(struct gpud_receiver *receiver);
void gpud_receiver_poll_finish(struct gpud_receiver *receiver);

/* An acquire found nothing. true: frames come by the page; look for one once more after the call,
 * and wake the loop if there is one. */
bool gpud_receiver_poll_arm(struct gpud_receiver *receiver);

/* The next one begins. */
void gpud_receiver_poll_disarm(struct gpud_receiver *receiver);

/* The channel is about to go; frames that are held may keep its descriptor. */
void gpud_receiver_poll_unwatch(struct gpud_receiver *receiver);

/* Readable now. In the acquiring thread, or under the receiver's lock. */
void gpud_receiver_poll_wake(struct gpud_receiver *receiver);

#endif
