/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The conversion of times from the sender's pipeline to the receiver's.
 *
 * Running times are sent, and with each frame and event the sender's base time and its clock's
 * identity. They give one of these relations between the two pipelines' clocks:
 *
 *     shared      the same: the host's monotonic clock, or a named one that both follow, also on
 *                 two hosts. Running time + base time is one time line for both
 *     followed    the sender's is the host's monotonic clock, this pipeline has its own
 *     unknown     running times are kept if the two pipelines started together, or begin now if the
 *                 stream is older; then frames keep their distance to the clock: see wire/drift.h
 */
#ifndef GPUD_GST_WIRE_TIMING_H
#define GPUD_GST_WIRE_TIMING_H

#include "wire/drift.h"
#include "wire/pack.h"

#include <gst/gst.h>

/* Before the metas of a frame and the payload of an event. */
struct wire_head {
    gboolean drops;         /* the sender does not wait for slow receivers */
    gboolean live;          /* its frames are produced in real time */
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

/* Validates a peer's time; GST_CLOCK_TIME_NONE if it exceeds gint64, in which GStreamer computes.
 */
GstClockTime wire_time(guint64 said);

/* The receiver's clock, beside the system's monotonic one. */
struct time_now {
    gboolean monotonic;   /* they are the same */
    guint64 clock;        /* clock_name.id of the former; 0: it has none */
    gboolean local;       /* that name is valid only on this host */
    gboolean same_clock;  /* the sender is on this host: its CLOCK_MONOTONIC is this one */
    GstClockTime base;    /* its pipeline's base time, by its own clock */
    GstClockTime running; /* its pipeline's running time; NONE: it has none */
    GstClockTime system;  /* CLOCK_MONOTONIC at that moment */
};

/* The running time here when CLOCK_MONOTONIC was `then`, a peer's number; NONE and future times
 * mean now. */
gint64 time_now_at(const struct time_now *now, GstClockTime then);

/* How the sender's clock relates to this pipeline's. */
enum time_relation { TIME_UNKNOWN, TIME_FOLLOWED, TIME_SHARED };
enum time_relation time_relation(const struct wire_head *head, const struct time_now *now);

/* A frame's times, by CLOCK_MONOTONIC. */
struct time_frame {
    GstClockTime running;   /* on the sender's time line; NONE: it has none */
    GstClockTime submitted; /* NONE: unknown, because another host's clock measured it */
    GstClockTime arrived;   /* the latest possible arrival */
    gboolean waited_for;    /* it is also the earliest */
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

/* Learns from the head of a frame, or of an event (frame is NULL), which only shows the clocks. */
void time_map_update(struct time_map *map, const struct wire_head *head,
                     const struct time_frame *frame, const struct time_now *now);

/* The comparison no longer holds: one of the two pipelines was paused, or starts again. */
void time_map_lose(struct time_map *map);

/* The sender's running time on the receiver's time line, where it may lie before the start. */
gint64 time_map_apply(const struct time_map *map, GstClockTime running);

/* When a frame was submitted, on the receiver's time line. FALSE: that is not known. */
gboolean time_map_sent(const struct wire_head *head, const struct time_frame *frame,
                       const struct time_now *now, gint64 *running);

/* Its arrival on the receiver's time line, as far as it is known: its submission, its arrival, or
 * its expected arrival by the frames before it. */
gint64 time_map_arrival(const struct time_map *map, const struct wire_head *head,
                        const struct time_frame *frame, const struct time_now *now);

#endif
