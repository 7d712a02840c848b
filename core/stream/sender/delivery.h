/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Hands frames over to receivers; and the sender's lock, whose holder publishes frames whose copies
 * have completed meanwhile. */
#ifndef GPUD_STREAM_SENDER_DELIVERY_H
#define GPUD_STREAM_SENDER_DELIVERY_H

#include "stream/sender/targets.h"

void gpud_sender_lock(struct gpud_sender *sender);
void gpud_sender_unlock(struct gpud_sender *sender);

/* Sleeps until a link changes, at most until the deadline or for a slice; drops the lock
 * meanwhile. */
void gpud_sender_wait_for_change(struct gpud_sender *sender, int64_t deadline);

/* Drops one of `references`; the last one frees the sender. */
void gpud_sender_unref(struct gpud_sender *sender);

/* Copies if needed, posts and publishes. Called with the lock held, which is dropped meanwhile.
 * Takes over the targets, the slots (one user each, which the delivery drops) and, with consume,
 * the frame. */
enum gpud_status gpud_deliver(struct gpud_sender *sender, const struct gpud_delivery *delivery,
                              struct gpud_error *error);

/* With delivery->by_lines, gpud_deliver() publishes the frame only for those receivers that take it
 * while it is written, and keeps it as sender->writing. The calls that follow are for that one. */
const struct gpud_frame *gpud_deliver_writing(const struct gpud_sender *sender);

/* More rows are valid, but not all. If they are enough for a step, copies them, and drops the lock
 * meanwhile; the receivers' words follow when the queue is done. A failure loses the frame for
 * those that it is copied for. */
enum gpud_status gpud_deliver_lines(struct gpud_sender *sender, uint32_t lines,
                                    struct gpud_error *error);

/* The frame is whole, or lost: delivers it to the other receivers. Drops the lock meanwhile. */
enum gpud_status gpud_deliver_rest(struct gpud_sender *sender, bool lost, struct gpud_error *error);

#endif
