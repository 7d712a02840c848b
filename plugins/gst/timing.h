/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Times on their way from the sender's pipeline to the receiver's.
 *
 * Running times travel, and with each frame and event the sender's base time. Where both pipelines
 * run on the system's monotonic clock, running time + base time is one time line for both. Else the
 * running time is kept, if the two pipelines started together; a receiver that joins a stream which
 * has run for long sees it begin now. */
#ifndef GPUD_GST_TIMING_H
#define GPUD_GST_TIMING_H

#include "pack.h"

#include <gst/gst.h>

/* Before the metas of a frame and the payload of an event. */
struct wire_head {
    gboolean drops;         /* the sender waits for no slow receiver */
    gboolean monotonic;     /* base_time is a time of the system's monotonic clock */
    GstClockTime base_time; /* the sender's */
};

void wire_head_pack(struct pack *pack, const struct wire_head *head);

/* FALSE: it is none, and *head says nothing. */
gboolean wire_head_unpack(struct unpack *unpack, struct wire_head *head);

/* Whether times of this clock are CLOCK_MONOTONIC's. */
gboolean clock_is_monotonic(GstClock *clock);

/* CLOCK_MONOTONIC, now. */
GstClockTime monotonic_now(void);

/* A time as a peer said it; GST_CLOCK_TIME_NONE for what is none: GStreamer reckons in gint64. */
GstClockTime wire_time(guint64 said);

/* The receiver's view. Zeroed: nothing known. */
struct time_map {
    gboolean anchored; /* shift was found by comparing a frame with the clock */
    gint64 shift;      /* added to the sender's running times */
};

/* Learns from a head that came with something that belongs at `running` on the sender's time line.
 */
void time_map_update(struct time_map *map, const struct wire_head *head, GstClockTime running,
                     GstElement *receiver, gboolean receiver_is_monotonic);

/* The sender's running time on the receiver's time line; what would lie before its start is put at
 * its start. */
GstClockTime time_map_apply(const struct time_map *map, GstClockTime running);

/* The segment of buffers whose times are running times here: it only says which stream time belongs
 * to them. It begins at the sender's `time`, where the stream time is `stream_time` (or NONE: 0)
 * and goes `rate` times as fast. */
void time_map_segment(const struct time_map *map, GstClockTime time, GstClockTime stream_time,
                      gdouble rate, GstSegment *segment);

#endif
