/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/latency.h"

#include "src/debug.h"
#include "wire/timeline.h"

#include <string.h>

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* The assumed lateness before the first measurement: a sender's sink delays pictures by 20 ms by
 * default, and they take a moment to arrive. */
#define LATENESS_GUESS (25 * GST_MSECOND)

/* The first pictures of a sender, or after a pause, are not measured: they may have waited in the
 * ring. */
#define UNMEASURED_FRAMES 4

/* What a sink's property processing-deadline adds by default: the ring has to hold pictures that
 * long, too. */
#define SINK_DEADLINE (20 * GST_MSECOND)

/* Bounds for what caps and applications may claim: a frame in 68 years, a deadline in 500. */
#define LONGEST (3600 * GST_SECOND)

/* The shortest time between two messages, whatever a sender does. */
#define REPORT_INTERVAL (1 * G_TIME_SPAN_SECOND)

void latency_init(struct latency *latency, GstElement *element, const struct src_options *options)
{
    latency->element = element;
    latency->options = options;
    latency->interval = GST_CLOCK_TIME_NONE;
}

/* Under the object lock. Jitter is limited to what the ring can hold beside a sink's share: waiting
 * for later pictures would lose those that are on time. */
static void compute(const struct latency *latency, GstClockTime *min, GstClockTime *max)
{
    const struct latency_figures *figures = &latency->figures;
    GstClockTime deadline = MIN(latency->options->processing_deadline, LONGEST) +
                            src_options_group_latency(latency->options) + figures->hold;
    GstClockTime jitter = figures->most - figures->least;
    GstClockTime hold = GST_CLOCK_TIME_NONE;

    if (GST_CLOCK_TIME_IS_VALID(latency->interval) && !figures->sender_waits)
        hold = figures->slots * MIN(latency->interval, LONGEST);
    if (GST_CLOCK_TIME_IS_VALID(hold))
        jitter = MIN(jitter, hold > deadline + SINK_DEADLINE ? hold - deadline - SINK_DEADLINE : 0);
    gboolean fixed = latency->options->latency >= 0;
    GstClockTime least = fixed ? 0 : figures->least;
    *min =
        deadline + (fixed ? (GstClockTime)latency->options->latency * GST_MSECOND : least + jitter);
    if (GST_CLOCK_TIME_IS_VALID(hold) && figures->slots_max > figures->slots)
        hold = figures->slots_max * MIN(latency->interval, LONGEST);
    *max = GST_CLOCK_TIME_IS_VALID(hold) ? MAX(*min, least + hold) : GST_CLOCK_TIME_NONE;
}

void latency_get(struct latency *latency, GstClockTime *min, GstClockTime *max)
{
    GST_OBJECT_LOCK(latency->element);
    compute(latency, min, max);
    GST_OBJECT_UNLOCK(latency->element);
}

/* Replaces the reported figures; posts a message if that changes the latency. */
static gboolean replace(struct latency *latency, const struct latency_figures *with,
                        GstClockTime interval)
{
    GstClockTime min, max, new_min, new_max;

    GST_OBJECT_LOCK(latency->element);
    compute(latency, &min, &max);
    latency->figures = *with;
    latency->interval = interval;
    compute(latency, &new_min, &new_max);
    GST_OBJECT_UNLOCK(latency->element);
    if (min == new_min && max == new_max)
        return FALSE;
    GST_INFO_OBJECT(latency->element,
                    "pictures are %" GST_TIME_FORMAT " to %" GST_TIME_FORMAT " late",
                    GST_TIME_ARGS(with->least), GST_TIME_ARGS(with->most));
    gst_element_post_message(latency->element,
                             gst_message_new_latency(GST_OBJECT(latency->element)));
    return TRUE;
}

static void report(struct latency *latency, const struct latency_figures *figures)
{
    gint64 now = g_get_monotonic_time();

    if (latency->reported_at && now - latency->reported_at < REPORT_INTERVAL)
        return;
    if (replace(latency, figures, latency->interval))
        latency->reported_at = now;
}

void latency_measure(struct latency *latency, gint64 late, gint64 late_max,
                     GstClockTime acquired_at, gboolean sender_waits)
{
    struct latency_figures figures = latency->figures; /* only this thread writes it */

    if (latency->unmeasured > 0)
        latency->unmeasured--;
    else if (late <= late_max)
        lateness_note(&latency->lateness, late > 0 ? (GstClockTime)late : 0, acquired_at,
                      latency->interval);
    figures.least = latency->lateness.least;
    figures.most = latency->lateness.most;
    figures.sender_waits = sender_waits;
    if (memcmp(&figures, &latency->figures, sizeof(figures)) != 0)
        report(latency, &figures);
}

void latency_note_pipeline(struct latency *latency, GstClockTime pipeline)
{
    GST_OBJECT_LOCK(latency->element);
    latency->pipeline = pipeline;
    GST_OBJECT_UNLOCK(latency->element);
}

/* Beside those that wait: the one that is shown, the next one, and one more for jitter. */
#define SLOTS_BESIDE 3

guint latency_slots(struct latency *latency, GstClockTime interval, GstClockTime later)
{
    GST_OBJECT_LOCK(latency->element);
    GstClockTime pipeline = GST_CLOCK_TIME_IS_VALID(latency->pipeline) ? latency->pipeline : 0;
    GstClockTime least = latency->lateness.measured ? latency->figures.least : 0;
    GST_OBJECT_UNLOCK(latency->element);
    GstClockTime after = MIN(pipeline, LONGEST) + MIN(later, LONGEST);
    if (after == 0 || !GST_CLOCK_TIME_IS_VALID(interval) || interval == 0)
        return 0;
    GstClockTime wait = after > least ? after - least : 0;
    return (guint)MIN((wait + interval - 1) / interval + SLOTS_BESIDE, GPUD_SLOTS_MAX);
}

void latency_note_slots(struct latency *latency, guint slots, guint slots_max, GstClockTime hold)
{
    struct latency_figures figures = latency->figures;

    figures.slots = slots;
    figures.slots_max = slots_max;
    figures.hold = hold;
    replace(latency, &figures, latency->interval);
}

void latency_note_interval(struct latency *latency, GstClockTime interval)
{
    struct latency_figures figures = latency->figures;

    replace(latency, &figures, interval);
}

/* Pictures stamped at the start of exposure arrive at least a picture later; knowing that, the
 * first ones are on time, too. */
void latency_expect_exposure(struct latency *latency, gint64 late_max)
{
    struct latency_figures figures = latency->figures;

    if (latency->lateness.measured || !GST_CLOCK_TIME_IS_VALID(latency->interval))
        return;
    lateness_begin(&latency->lateness, MIN(latency->interval, (GstClockTime)late_max));
    figures.least = figures.most = latency->lateness.most;
    replace(latency, &figures, latency->interval);
}

void latency_break(struct latency *latency)
{
    lateness_break(&latency->lateness);
    latency->unmeasured = UNMEASURED_FRAMES;
}

/* A card's driver always needs a slot to write into. */
void latency_reset(struct latency *latency, guint slots, gboolean card)
{
    lateness_begin(&latency->lateness, card ? 0 : LATENESS_GUESS);
    latency->unmeasured = UNMEASURED_FRAMES;
    latency->reported_at = 0;
    GST_OBJECT_LOCK(latency->element);
    latency->figures = (struct latency_figures){
        .least = latency->lateness.least,
        .most = latency->lateness.most,
        .slots = slots - (card ? 1 : 0),
    };
    latency->interval = GST_CLOCK_TIME_NONE;
    GST_OBJECT_UNLOCK(latency->element);
}
