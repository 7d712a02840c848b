/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Times on their way from the sender's pipeline to the receiver's.
 *
 * Running times travel, and with each frame and event the sender's base time. Where both pipelines
 * run on the system's monotonic clock, running time + base time is one time line for both. Else the
 * running time is kept, if the two pipelines started together; a receiver that joins a stream which
 * has run for long sees it begin now. */
#ifndef GPUD_GST_WIRE_TIMING_H
#define GPUD_GST_WIRE_TIMING_H

#include "wire/pack.h"

#include <gst/gst.h>

/* Before the metas of a frame and the payload of an event. */
struct wire_head {
    gboolean drops;         /* the sender waits for no slow receiver */
    gboolean live;          /* its frames come in real time */
    gboolean monotonic;     /* base_time is a time of the system's monotonic clock */
    GstClockTime base_time; /* the sender's; 0: of a clock that is not known here */
    guint64 run;            /* another number after each pause of the sender */
};

void wire_head_pack(struct pack *pack, const struct wire_head *head);

/* FALSE: it is none, and *head says nothing. */
gboolean wire_head_unpack(struct unpack *unpack, struct wire_head *head);

/* Whether times of this clock are CLOCK_MONOTONIC's. */
gboolean clock_is_monotonic(GstClock *clock);

/* CLOCK_MONOTONIC, now. */
GstClockTime monotonic_now(void);

/* A time that a peer sent; GST_CLOCK_TIME_NONE where it is out of range: GStreamer computes in
 * gint64. */
GstClockTime wire_time(guint64 said);

/* The receiver's view. Zeroed: nothing known. */
struct time_map {
    gboolean anchored; /* shift was found by comparing a frame with the clock */
    gboolean before;   /* shift had been found before */
    gint64 shift;      /* added to the sender's running times */
    guint64 run;       /* the sender's, when shift was found */
};

/* The receiver's clock, beside the system's monotonic one. */
struct time_now {
    gboolean monotonic;   /* they are the same */
    GstClockTime base;    /* its pipeline's base time, by its own clock */
    GstClockTime running; /* its pipeline's running time; NONE: it has none */
    GstClockTime system;  /* CLOCK_MONOTONIC at that moment */
};

void time_now_take(struct time_now *now, GstElement *receiver, gboolean monotonic);

/* The running time here when CLOCK_MONOTONIC showed `then`, which a peer said and which may be NONE
 * or lie in the future: that is now. */
gint64 time_now_at(const struct time_now *now, GstClockTime then);

/* Learns from the head of a frame that belongs at `running` on the sender's time line and was
 * submitted when CLOCK_MONOTONIC showed `submitted` (NONE: unknown). */
void time_map_update(struct time_map *map, const struct wire_head *head, GstClockTime running,
                     GstClockTime submitted, const struct time_now *now);

/* The comparison no longer holds: one of the two pipelines was paused, or starts again. */
void time_map_lose(struct time_map *map);

/* The sender's running time on the receiver's time line, where it may lie before the start. */
gint64 time_map_apply(const struct time_map *map, GstClockTime running);

#endif
