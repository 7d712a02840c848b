/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The running times that gpudirectsrc hands downstream: they never go back, whatever becomes of the
 * sender, of its times, or of the clocks. Muxers, videorate and compositor count on that.
 *
 * Where frames belong is for the time map to say. What it says goes back when the receiver was
 * paused and finds frames that waited meanwhile, when a sender that is ahead of the clock is
 * flushed or restarted, when a file's sender had to wait for this receiver. From there on frames
 * are handed on behind the last one, as far from each other as they were, and later than the map
 * says, until it says something later by itself: a live stream makes up for it, another one begins
 * anew. */
#ifndef GPUD_GST_WIRE_TIMELINE_H
#define GPUD_GST_WIRE_TIMELINE_H

#include <gst/gst.h>

/* Zeroed: nothing was handed on. */
struct timeline {
    gboolean begun;
    gboolean broken; /* the next frame does not belong to the last one */
    gint64 mapped;   /* the last frame, where the map had it */
    gint64 last;     /* nothing may be put before this: the last frame, or a gap behind it */
    gint64 before;   /* what `last` was before the last frame */
    gint64 delay;    /* how much later than by the map the last frame was put; never negative */
    gint64 spacing;  /* between the last two frames; 0: unknown */
};

/* The running time for a frame that the map has at `mapped`. live: frames come when they come, so
 * that a delay is a loss, and is made up for where that takes no more than a moment; else they come
 * when they are wanted, and none of the time between them is lost. */
GstClockTime timeline_stamp(struct timeline *line, gint64 mapped, GstClockTime duration,
                            gboolean live);

/* Another stream follows, or the same one from elsewhere: what there was between its frames and the
 * last one is no part of either. */
void timeline_break(struct timeline *line);

/* The same for a gap. comes_before: it belongs before the last frame. */
GstClockTime timeline_stamp_gap(struct timeline *line, gint64 mapped, gboolean comes_before);

/* The segment of the last frame, and of those after it. Buffers' times are running
 * times here, so it only says which stream time belongs to them. The map has its begin at `mapped`,
 * where the stream time is `stream_time` (or NONE: 0) and goes `rate` times as fast. */
void timeline_segment(const struct timeline *line, gint64 mapped, GstClockTime stream_time,
                      gdouble rate, GstSegment *segment);

#endif
