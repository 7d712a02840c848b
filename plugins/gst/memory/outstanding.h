/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Counts the slots of one ring that buffers hold, with a way to wait until some are returned.
 * Shared by the pool and by every memory that may outlive it. */
#ifndef GPUD_GST_MEMORY_OUTSTANDING_H
#define GPUD_GST_MEMORY_OUTSTANDING_H

#include <glib.h>

struct outstanding;

struct outstanding *outstanding_new(void);
struct outstanding *outstanding_ref(struct outstanding *outstanding);
void outstanding_unref(struct outstanding *outstanding);

void outstanding_add(struct outstanding *outstanding);
void outstanding_remove(struct outstanding *outstanding);
gint outstanding_count(struct outstanding *outstanding);

/* Waits until buffers hold fewer than `limit` slots, at most this long. FALSE: it timed out. */
gboolean outstanding_wait_below(struct outstanding *outstanding, gint limit, gint64 microseconds);

#endif
