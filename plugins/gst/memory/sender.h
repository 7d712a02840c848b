/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender, as it is shared by gpudirectsink and the buffer pools that it proposed: upstream's
 * threads take slots from it while the sink submits, and may still try when the sink has long
 * stopped. */
#ifndef GPUD_GST_MEMORY_SENDER_H
#define GPUD_GST_MEMORY_SENDER_H

#include "memory/outstanding.h"

#include <gpudirect/sender.h>
#include <gst/gst.h>

struct lender;

/* Takes the sender. slots: its ring's; host: its slots are host memory. */
struct lender *lender_new(struct gpud_sender *sender, guint slots, gboolean host);
struct lender *lender_ref(struct lender *lender);
void lender_unref(struct lender *lender);

/* The sink stops: destroys the sender. Slots that are still lent stay valid. */
void lender_close(struct lender *lender);

/* The sender, for the sink's streaming thread and for what may be called from any thread. NULL
 * after close. */
struct gpud_sender *lender_sender(struct lender *lender);

/* The sender's policy, from any thread. Where it blocks, upstream is patient, too: it waits a
 * moment for a slot rather than do without. */
void lender_set_slow_receiver(struct lender *lender, enum gpud_slow_receiver policy);

gboolean lender_is_host(struct lender *lender);

/* From any thread; leaves *info as it is after close. */
void lender_get_info(struct lender *lender, struct gpud_sender_info *info);

/* Starts a new epoch; slots of the older ones can only go back. */
enum gpud_status lender_configure(struct lender *lender, const struct gpud_layout *layout,
                                  const void *media, size_t media_size, struct gpud_error *error);

/* Counts the epochs from 1; 0 before the first. */
guint lender_generation(struct lender *lender);
struct ledger *lender_ledger(struct lender *lender);

/* Makes waiting calls return GPUD_AGAIN, until FALSE is set. */
void lender_interrupt(struct lender *lender, gboolean interrupted);
gboolean lender_is_interrupted(struct lender *lender);

/* Lends a slot to upstream. Upstream never gets the last one: copies must have a place.
 * GPUD_TIMEOUT: there is none; GPUD_CLOSED: not in this generation any more. */
enum gpud_status lender_lend(struct lender *lender, guint generation, gboolean may_wait,
                             struct gpud_frame **frame);

#endif
