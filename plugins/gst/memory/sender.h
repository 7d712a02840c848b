/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The core's sender, shared by gpudirectsink and the buffer pools that it proposed: upstream's
 * threads acquire slots while the sink submits, and may still do so after the sink has stopped. */
#ifndef GPUD_GST_MEMORY_SENDER_H
#define GPUD_GST_MEMORY_SENDER_H

#include "memory/outstanding.h"

#include <gpudirect/sender.h>
#include <gst/gst.h>

struct shared_sender;

/* Takes the core's sender. slots: its ring's; host: its slots are host memory. */
struct shared_sender *shared_sender_new(struct gpud_sender *core, guint slots, gboolean host);
struct shared_sender *shared_sender_ref(struct shared_sender *sender);
void shared_sender_unref(struct shared_sender *sender);

/* The core's sender, which is the caller's from now on, to be replaced or destroyed. Slots that
 * buffers still hold stay valid. */
struct gpud_sender *shared_sender_take(struct shared_sender *sender);

/* The core's sender, for the sink's streaming thread and for thread-safe calls. NULL after take.
 */
struct gpud_sender *shared_sender_core(struct shared_sender *sender);

/* Sets the sender's policy, from any thread. If it blocks, upstream also waits briefly for a slot.
 */
void shared_sender_set_slow_receiver(struct shared_sender *sender, enum gpud_slow_receiver policy);

gboolean shared_sender_is_host(struct shared_sender *sender);

/* From any thread; after take *info is left unchanged. */
void shared_sender_get_info(struct shared_sender *sender, struct gpud_sender_info *info);

/* The highest latency of the receivers' last frames, ns; 0: unknown. From any thread. */
guint64 shared_sender_latency(struct shared_sender *sender);

/* Starts a new epoch; slots of older ones can only be released. dmabufs: slots shall have them. */
enum gpud_status shared_sender_configure(struct shared_sender *sender,
                                         const struct gpud_media *media, gboolean dmabufs,
                                         struct gpud_error *error);

/* Counts the epochs from 1; 0 before the first. */
guint shared_sender_epoch(struct shared_sender *sender);
struct outstanding *shared_sender_outstanding(struct shared_sender *sender);

/* Makes waiting calls return GPUD_AGAIN, until FALSE is set. */
void shared_sender_interrupt(struct shared_sender *sender, gboolean interrupted);
gboolean shared_sender_is_interrupted(struct shared_sender *sender);

/* Takes a slot for upstream. Upstream never gets the last one: copies need it.
 * GPUD_TIMEOUT: none is free; GPUD_CLOSED: the epoch has ended. */
enum gpud_status shared_sender_acquire(struct shared_sender *sender, guint epoch, gboolean may_wait,
                                       struct gpud_frame **frame);

/* TRUE, once per epoch: there are no slots at all, and *error says why. From any thread. */
gboolean shared_sender_take_lack(struct shared_sender *sender, struct gpud_error *error);

#endif
