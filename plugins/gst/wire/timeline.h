/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The running times that gpudirectsrc pushes: they never go back, whatever the sender, its times or
 * the clocks do. Muxers, videorate and compositor rely on that.
 *
 * The time map says when a frame is to be shown. Its times go back when the receiver was paused and
 * finds frames that waited meanwhile, when a sender that is ahead of the clock is flushed or
 * restarted, or when a file's sender had to wait for this receiver. Then frames follow the last one
 * at the distance that they had, later than the map says, until the map's times are later again: a
 * live stream catches up, another one keeps the delay.
 *
 * A live stream whose frames arrive more than a second (or the user's latency) after their time
 * does not follow this pipeline's clock. Its first frame gets its time of arrival, and the others
 * follow at their intervals. */
#ifndef GPUD_GST_WIRE_TIMELINE_H
#define GPUD_GST_WIRE_TIMELINE_H

#include <gst/gst.h>

/* Zeroed: nothing was pushed yet. */
struct timeline {
    gboolean begun;
    gboolean broken; /* the next frame does not belong to the last one */
    gint64 mapped;   /* the last frame's time by the map */
    gint64 last;     /* no time may be before this: that of the last frame, or of a gap behind it */
    gint64 before;   /* what `last` was before the last frame */
    gint64 delay;    /* how much later than by the map the last frame is; never negative */
    gint64 spacing;  /* between the last two frames; 0: unknown */
    gint64 late_since;    /* since when all live frames are too late; 0: they are not */
    gboolean out_of_step; /* a live stream was put at its arrival, and has a delay since */
    gint64 late_max;      /* the owner's: how late live ones may be; 1 s at the least */
};

#define TIMELINE_UNKNOWN G_MAXINT64

/* Running times, which may lie before 0. */
struct timeline_frame {
    gint64 mapped;  /* the frame's time by the map */
    gint64 arrived; /* or TIMELINE_UNKNOWN */
    GstClockTime duration;
    gboolean live; /* a delay is caught up; otherwise no time between frames is cut */
};

/* How late a live frame may be and still keep its own time. */
gint64 timeline_late_max(const struct timeline *line);

/* The running time to push the frame with. */
GstClockTime timeline_stamp(struct timeline *line, const struct timeline_frame *frame);

/* What is left of the delay of a live stream after that much of its time, which may be negative. */
gint64 timeline_catch_up(const struct timeline *line, gint64 delay, gint64 since);

/* Puts the last frame so much later than by the map. Returns its running time. */
GstClockTime timeline_delay(struct timeline *line, gint64 delay);

/* Whether a frame belongs before this pipeline's start, so that no running time is right for it,
 * or is late. `arrived` is known, or a later time. */
gboolean timeline_is_past(const struct timeline *line, const struct timeline_frame *frame);

/* Another stream follows, or the same one from another position: the time between its frames and
 * the last one belongs to neither. */
void timeline_break(struct timeline *line);

/* The same for a gap. comes_before: it belongs before the last frame. */
GstClockTime timeline_stamp_gap(struct timeline *line, gint64 mapped, gboolean comes_before);

/* The segment of the last frame, and of those after it. Buffers' times are running times here, so
 * it only gives their stream time. It begins at `mapped` by the map, where the stream time is
 * `stream_time` (or NONE: 0) and advances `rate` times as fast. */
void timeline_segment(const struct timeline *line, gint64 mapped, GstClockTime stream_time,
                      gdouble rate, GstSegment *segment);

#endif
