/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The latencies of the last 4096 frames from another host, if both ends follow one clock, or from a
 * capture card, by its driver's timestamps. Between two ends on one host the core counts them.
 * Thread-safe. */
#ifndef GPUD_GST_SRC_LATENCIES_H
#define GPUD_GST_SRC_LATENCIES_H

#include <gst/gst.h>

struct latencies;

struct latencies *latencies_new(void);
void latencies_free(struct latencies *latencies);

/* Ignores latencies that are negative, as inexact clocks give, or longer than 4 s. */
void latencies_note(struct latencies *latencies, gint64 latency);

void latencies_clear(struct latencies *latencies);

/* FALSE: there were none. */
gboolean latencies_get(struct latencies *latencies, guint64 *p50, guint64 *p99, guint64 *max);

#endif
