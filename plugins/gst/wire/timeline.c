/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The running times that gpudirectsrc hands downstream. All of them are 0 to G_MAXINT64; where the
 * map has something may be before 0. */
#include "wire/timeline.h"
#include "wire/signedtime.h"

/* A live stream's delay up to this is caught up, by a quarter of the time between frames. A larger
 * one comes of a sender whose times do not follow the clock: it could never be caught up. */
#define CATCH_UP_MAX (1 * (gint64)GST_SECOND)

/* The longest time that counts as the one between frames: longer is a pause. */
#define SPACING_MAX (1 * (gint64)GST_SECOND)

/* How long after the last frame this one is, where the map is of no use. */
static gint64 step(const struct timeline *line, gint64 mapped, GstClockTime duration, gboolean live)
{
    gint64 since = time_difference(mapped, line->mapped);
    gint64 usual = GST_CLOCK_TIME_IS_VALID(duration) ? signed_time(duration) : 0;

    if (line->spacing > 0 && (usual == 0 || usual > line->spacing))
        usual = line->spacing;
    if (since <= 0 || line->broken)
        since = usual;
    else if (live && usual > 0 &&
             since > usual) /* the stream is late already: it need not wait that long */
        since = usual;
    if (live && line->delay <= CATCH_UP_MAX)
        since -= since / 4;
    return since;
}

GstClockTime timeline_stamp(struct timeline *line, gint64 mapped, GstClockTime duration,
                            gboolean live)
{
    gint64 time = MAX(mapped, line->last);

    if (line->begun && (line->delay > 0 || mapped < line->last))
        time = MAX(mapped, time_sum(line->last, step(line, mapped, duration, live)));
    if (line->begun && !line->broken && mapped > line->mapped)
        line->spacing = MIN(time_difference(mapped, line->mapped), SPACING_MAX);
    line->begun = TRUE;
    line->broken = FALSE;
    line->mapped = mapped;
    line->before = line->last;
    line->last = time;
    line->delay = time_difference(time, mapped);
    return (GstClockTime)time;
}

void timeline_break(struct timeline *line)
{
    line->broken = TRUE;
}

GstClockTime timeline_stamp_gap(struct timeline *line, gint64 mapped, gboolean comes_before)
{
    gint64 time = time_sum(mapped, line->delay);

    if (comes_before)
        return (GstClockTime)CLAMP(time, line->before, line->last);
    line->last = MAX(line->last, time);
    return (GstClockTime)line->last;
}

/* A product that may be out of the range of times. */
static gint64 time_of_double(gdouble value)
{
    if (value >= (gdouble)G_MAXINT64)
        return G_MAXINT64;
    return value > -(gdouble)G_MAXINT64 ? (gint64)value : -G_MAXINT64;
}

void timeline_segment(const struct timeline *line, gint64 mapped, GstClockTime stream_time,
                      gdouble rate, GstSegment *segment)
{
    gint64 start = MIN(time_sum(mapped, line->delay), line->last);
    gint64 cut = start < 0 ? -start : 0; /* what lies before this pipeline's start */
    gint64 there = GST_CLOCK_TIME_IS_VALID(stream_time) ? signed_time(stream_time) : 0;

    there = time_sum(there, time_of_double((gdouble)cut * rate));
    gst_segment_init(segment, GST_FORMAT_TIME);
    segment->applied_rate = rate;
    segment->start = segment->base = segment->position = (guint64)MAX(start, 0);
    segment->time = there < 0 ? 0 : (guint64)there;
}
