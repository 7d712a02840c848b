/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The source of a submitted frame's bytes. All without the lock. */
#ifndef GPUD_STREAM_SENDER_SOURCE_H
#define GPUD_STREAM_SENDER_SOURCE_H

#include "stream/sender/targets.h"

/* Enqueues a copy of the frame's bytes in use from its memory, as the queue sees it, to the
 * delivery's layout: plane by plane, or at once if the layouts are equal; where one of them is an
 * image, the device rearranges it. With `begun` the rows that earlier steps have copied are left
 * out. */
enum gpud_status gpud_source_copy(struct gpud_sender *sender, struct gpud_queue *queue,
                                  const struct gpud_delivery *delivery, bool begun,
                                  struct gpud_memory *from, struct gpud_memory *to,
                                  uint64_t to_offset, struct gpud_error *error);

/* The frame's memory as the sender's device sees it. */
enum gpud_status gpud_source_find(struct gpud_sender *sender, const struct gpud_frame *frame,
                                  struct gpud_memory **source, struct gpud_error *error);

/* Orders later work on the queue after the frame's bytes. */
enum gpud_status gpud_source_order(struct gpud_sender *sender, struct gpud_queue *queue,
                                   struct gpud_delivery *delivery, struct gpud_error *error);

/* Whether the sender is on the host and the frame is not; then gpud_source_fetch() lets the frame's
 * device copy it into the delivery's slot. */
bool gpud_source_is_elsewhere(const struct gpud_sender *sender, const struct gpud_frame *frame);
enum gpud_status gpud_source_fetch(struct gpud_sender *sender, struct gpud_delivery *delivery,
                                   struct gpud_error *error);

/* Call after enqueuing the copies: waits for them if the frame is kept and has another owner, to
 * which it may be released as soon as the call returns. */
enum gpud_status gpud_source_finish(struct gpud_sender *sender,
                                    const struct gpud_delivery *delivery, struct gpud_error *error);

#endif
