/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The running times that gpudirectsrc pushes, all from 0 to G_MAXINT64. Mapped times may lie before
 * 0. */
#include "wire/timeline.h"
#include "wire/signedtime.h"

/* How late a live frame may be and still keep its own time, unless the user allows more. Later
 * frames belong to a sender whose times do not follow the clock. */
#define LATE_MAX (1 * (gint64)GST_SECOND)

/* The longest time that counts as the one between frames: longer is a pause. */
#define SPACING_MAX (1 * (gint64)GST_SECOND)

/* A live stream that is late shortens the time between its frames by this part of it. */
#define CATCH_UP 4

gint64 timeline_late_max(const struct timeline *line)
{
    return MAX(line->late_max, LATE_MAX);
}

/* The usual interval between two frames, if it is known. */
static gint64 usual_step(const struct timeline *line, const struct timeline_frame *frame)
{
    gint64 usual = GST_CLOCK_TIME_IS_VALID(frame->duration) ? signed_time(frame->duration) : 0;

    return line->spacing > 0 && (usual == 0 || usual > line->spacing) ? line->spacing : usual;
}

/* The interval from the last frame to this one, if the map cannot be used. */
static gint64 step(const struct timeline *line, const struct timeline_frame *frame)
{
    gboolean catches_up = frame->live && line->delay <= timeline_late_max(line);
    gint64 since = time_difference(frame->mapped, line->mapped);
    gint64 usual = usual_step(line, frame);

    if (since <= 0 || line->broken)
        since = usual;
    else if (catches_up && usual > 0 &&
             since > usual) /* the stream is late already: it need not wait that long */
        since = usual;
    if (catches_up)
        since -= since / CATCH_UP;
    return since;
}

/* Whether a live stream is out of step from this frame on. A single late frame after others on time
 * is not enough, since a process may have been stopped. */
static gboolean leaves_step(struct timeline *line, const struct timeline_frame *frame, gint64 time)
{
    gint64 before = line->late_since;
    gboolean begins = !line->begun || line->broken;

    line->late_since = 0;
    if (time_difference(frame->arrived, time) <= timeline_late_max(line))
        return FALSE;
    line->late_since = before ? before : frame->arrived;
    return begins || time_difference(frame->arrived, line->late_since) >= LATE_MAX;
}

/* The first live frame that is out of step is put at its arrival. The others keep their distance to
 * it, and those that arrive earlier than that are put earlier. */
static gint64 keep_step(struct timeline *line, const struct timeline_frame *frame, gint64 time)
{
    gboolean follows = line->begun && !line->broken && line->delay > timeline_late_max(line);

    if (!frame->live || frame->arrived == TIMELINE_UNKNOWN)
        return time;
    if (leaves_step(line, frame, follows ? time : frame->mapped)) {
        line->out_of_step = TRUE;
        return MAX(frame->arrived, time);
    }
    if (!follows || time <= frame->arrived)
        return time;
    gint64 usual = usual_step(line, frame);
    return MAX(MAX(frame->arrived, frame->mapped), time_sum(line->last, usual - usual / 4));
}

GstClockTime timeline_stamp(struct timeline *line, const struct timeline_frame *frame)
{
    gint64 mapped = frame->mapped, time = MAX(mapped, line->last);

    if (line->begun && (line->delay > 0 || mapped < line->last))
        time = MAX(mapped, time_sum(line->last, step(line, frame)));
    time = keep_step(line, frame, time);
    if (line->begun && !line->broken && mapped > line->mapped)
        line->spacing = MIN(time_difference(mapped, line->mapped), SPACING_MAX);
    line->begun = TRUE;
    line->broken = FALSE;
    line->mapped = mapped;
    line->before = line->last;
    line->last = time;
    line->delay = time_difference(time, mapped);
    line->out_of_step &= line->delay > 0;
    return (GstClockTime)time;
}

gint64 timeline_catch_up(const struct timeline *line, gint64 delay, gint64 since)
{
    return delay > timeline_late_max(line) ? delay
                                           : MAX(time_difference(delay, since / CATCH_UP), 0);
}

GstClockTime timeline_delay(struct timeline *line, gint64 delay)
{
    line->last = MAX(time_sum(line->mapped, delay), line->before);
    line->delay = time_difference(line->last, line->mapped);
    return (GstClockTime)line->last;
}

gboolean timeline_is_past(const struct timeline *line, const struct timeline_frame *frame)
{
    return frame->live && frame->mapped < 0 &&
           time_difference(frame->arrived, frame->mapped) <= timeline_late_max(line);
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
