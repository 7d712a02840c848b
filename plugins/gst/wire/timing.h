/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Times on their way from the sender's pipeline to the receiver's.
 *
 * Running times travel, and with each frame and event the sender's base time and what is known of
 * its clock. By that the two pipelines' clocks are one of these to each other:
 *
 *     shared      the same: the host's monotonic clock, or one with a name that both follow, be it
 *                 on two hosts. Running time + base time is one time line for both
 *     followed    the sender's is the host's monotonic clock, which shows the time here, too,
 * beside this pipeline's own clock unknown     the running time is kept, if the two pipelines
 * started together; a receiver that joins a stream which has run for long sees it begin now. From
 * then on frames keep their distance to the clock here: see wire/drift.h */
#ifndef GPUD_GST_WIRE_TIMING_H
#define GPUD_GST_WIRE_TIMING_H

#include "wire/drift.h"
#include "wire/pack.h"

#include <gst/gst.h>

/* Before the metas of a frame and the payload of an event. */
struct wire_head {
    gboolean drops;         /* the sender waits for no slow receiver */
    gboolean live;          /* its frames come in real time */
    gboolean monotonic;     /* its clock is its host's monotonic one */
    guint64 clock;          /* it has a name: clock_name.id; 0: none */
    GstClockTime base_time; /* the sender's; 0: of a clock that is not known here */
    GstClockTime sent;      /* when this was sent, by a clock with a name; else NONE */
    guint64 run;            /* another number after each pause of the sender */
};

void wire_head_pack(struct pack *pack, const struct wire_head *head);

/* FALSE: the bytes are no head, and *head is undefined. */
gboolean wire_head_unpack(struct unpack *unpack, struct wire_head *head);

/* CLOCK_MONOTONIC, now. */
GstClockTime monotonic_now(void);

/* A time that a peer sent; GST_CLOCK_TIME_NONE where it is out of range: GStreamer computes in
 * gint64. */
GstClockTime wire_time(guint64 said);

/* The receiver's clock, beside the system's monotonic one. */
struct time_now {
    gboolean monotonic;   /* they are the same */
    guint64 clock;        /* clock_name.id of the former; 0: it has none */
    gboolean local;       /* that name says something on this host alone */
    gboolean same_clock;  /* the sender is on this host: its CLOCK_MONOTONIC is this one */
    GstClockTime base;    /* its pipeline's base time, by its own clock */
    GstClockTime running; /* its pipeline's running time; NONE: it has none */
    GstClockTime system;  /* CLOCK_MONOTONIC at that moment */
};

/* The running time here when CLOCK_MONOTONIC showed `then`, which a peer said and which may be NONE
 * or lie in the future: that is now. */
gint64 time_now_at(const struct time_now *now, GstClockTime then);

/* What the sender's clock is to this pipeline's. */
enum time_relation { TIME_UNKNOWN, TIME_FOLLOWED, TIME_SHARED };
enum time_relation time_relation(const struct wire_head *head, const struct time_now *now);

/* How a frame came. Times are CLOCK_MONOTONIC's. */
struct time_frame {
    GstClockTime running;   /* where it belongs on the sender's time line; NONE: nowhere */
    GstClockTime submitted; /* NONE: not known, it was by another host's clock */
    GstClockTime arrived;   /* it was here by then */
    gboolean waited_for;    /* and not before */
};

/* The receiver's view. Zeroed: nothing known. */
struct time_map {
    gboolean anchored;  /* shift was found */
    gboolean before;    /* shift had been found before */
    gint64 shift;       /* added to the sender's running times */
    guint64 run;        /* the sender's, when shift was found */
    GstClockTime moved; /* FOLLOWED: when shift was, by CLOCK_MONOTONIC */
    struct drift drift; /* UNKNOWN */
};

/* Learns from the head of a frame; or of an event, which tells the clocks and no more: frame is
 * NULL. */
void time_map_update(struct time_map *map, const struct wire_head *head,
                     const struct time_frame *frame, const struct time_now *now);

/* The comparison no longer holds: one of the two pipelines was paused, or starts again. */
void time_map_lose(struct time_map *map);

/* The sender's running time on the receiver's time line, where it may lie before the start. */
gint64 time_map_apply(const struct time_map *map, GstClockTime running);

/* When a frame was submitted, on the receiver's time line. FALSE: that is not known. */
gboolean time_map_sent(const struct wire_head *head, const struct time_frame *frame,
                       const struct time_now *now, gint64 *running);

/* When it came, on the receiver's time line, as far as that is known: when it was submitted, or
 * arrived, or should have by the frames before it. */
gint64 time_map_arrival(const struct time_map *map, const struct wire_head *head,
                        const struct time_frame *frame, const struct time_now *now);

#endif
