/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* When a frame is handed over; and the sender's lock, whose holder publishes what has been copied
 * meanwhile. */
#ifndef GPUD_STREAM_SENDER_DELIVERY_H
#define GPUD_STREAM_SENDER_DELIVERY_H

#include "stream/sender/targets.h"

void gpud_sender_lock(struct gpud_sender *sender);
void gpud_sender_unlock(struct gpud_sender *sender);

/* Sleeps until a link changes, at most until the deadline and no longer than a slice; the lock is
 * dropped meanwhile. */
void gpud_sender_wait_for_change(struct gpud_sender *sender, int64_t deadline);

/* One of `references` less; the last one frees the sender. */
void gpud_sender_unref(struct gpud_sender *sender);

/* Copies where needed, posts, publishes. Called with the lock held, which is dropped meanwhile.
 * Takes over the targets and slots (one user each, which the delivery drops) and, with consume, the
 * frame. */
enum gpud_status gpud_deliver(struct gpud_sender *sender, const struct gpud_delivery *delivery,
                              struct gpud_error *error);

#endif
