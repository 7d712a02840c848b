/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where the bytes of a frame that is submitted come from. All without the lock. */
#ifndef GPUD_STREAM_SENDER_SOURCE_H
#define GPUD_STREAM_SENDER_SOURCE_H

#include "stream/sender/targets.h"

/* Enqueues a copy between the frame's layout and the sender's: plane by plane, or in one go where
 * both sides place every byte alike. */
enum gpud_status gpud_source_copy(struct gpud_sender *sender, struct gpud_queue *queue,
                                  const struct gpud_layout *to_layout,
                                  const struct gpud_layout *from_layout, struct gpud_memory *from,
                                  uint64_t from_offset, struct gpud_memory *to, uint64_t to_offset,
                                  struct gpud_error *error);

/* The frame's memory as the sender's device sees it. */
enum gpud_status gpud_source_find(struct gpud_sender *sender, const struct gpud_frame *frame,
                                  struct gpud_memory **source, struct gpud_error *error);

/* What is put on the queue from now on comes after the frame's bytes. */
enum gpud_status gpud_source_order(struct gpud_sender *sender, struct gpud_queue *queue,
                                   struct gpud_delivery *delivery, struct gpud_error *error);

/* Whether the sender is on the host and the frame is not, and what is done then: the frame's device
 * has copied it into the delivery's slot. */
bool gpud_source_is_elsewhere(const struct gpud_sender *sender, const struct gpud_frame *frame);
enum gpud_status gpud_source_fetch(struct gpud_sender *sender, struct gpud_delivery *delivery,
                                   struct gpud_error *error);

/* After the copies were enqueued: a kept frame of somebody else's may be given back as soon as the
 * call returns, so that they have to be done. */
enum gpud_status gpud_source_finish(struct gpud_sender *sender,
                                    const struct gpud_delivery *delivery, struct gpud_error *error);

#endif
