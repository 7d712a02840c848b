/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The running times that gpudirectsrc hands downstream: they never go back, whatever becomes of the
 * sender, of its times, or of the clocks. Muxers, videorate and compositor count on that.
 *
 * The time map says when a frame is to be shown. Its times go back when the receiver was paused and
 * finds frames that waited meanwhile, when a sender that is ahead of the clock is flushed or
 * restarted, or when a file's sender had to wait for this receiver. Then frames follow the last one
 * at the distance that they had, later than the map says, until the map's times are later again: a
 * live stream catches up, another one keeps the delay. */
#ifndef GPUD_GST_WIRE_TIMELINE_H
#define GPUD_GST_WIRE_TIMELINE_H

#include <gst/gst.h>

/* Zeroed: nothing was pushed yet. */
struct timeline {
    gboolean begun;
    gboolean broken; /* the next frame does not belong to the last one */
    gint64 mapped;   /* the last frame, where the map had it */
    gint64 last;     /* no time may be before this: that of the last frame, or of a gap behind it */
    gint64 before;   /* what `last` was before the last frame */
    gint64 delay;    /* how much later than by the map the last frame is; never negative */
    gint64 spacing;  /* between the last two frames; 0: unknown */
};

/* The running time for a frame that the map has at `mapped`. live: a delay is a loss, and
 * is caught up where that takes no more than a moment; otherwise no time between frames is cut. */
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
