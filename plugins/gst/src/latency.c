/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The latency that gpudirectsrc reports.
 *
 *     lateness   how far a picture is behind its time when it is here
 *     min        what the user says, or the lateness that pictures have, as far as the ring holds
 *                those that are earlier; and the processing deadline
 *     max        the least lateness, and how long the ring can hold pictures back
 *
 * A picture is here when it is submitted, or when it is taken, if it was waited for. One that waits
 * in the ring because downstream holds this thread (a sink without a queue before it, until the
 * picture before is due) is in time all the same: to reckon with the time at which it is taken
 * would raise the latency, hence the time that downstream holds this thread, and so on. */
#include "src/src.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

#define LATENCY_AUTO (-1)

/* Until lateness has been measured: a sender's sink delays each picture by 20 ms unless it is set
 * otherwise, and the picture takes a moment to arrive. */
#define LATENESS_GUESS (25 * GST_MSECOND)

/* The first pictures of a sender, or after a pause, are not measured: they may have waited in the
 * ring. */
#define UNMEASURED_FRAMES 4

/* What a sink adds to this element's latency by its property processing-deadline: the ring has to
 * hold pictures that long, too. */
#define SINK_DEADLINE (20 * GST_MSECOND)

/* Bounds for what caps and applications may claim: a frame in 68 years, a deadline in 500. */
#define LONGEST (3600 * GST_SECOND)

/* Between two messages, whatever a sender does. */
#define TELL (1 * G_TIME_SPAN_SECOND)

void latency_install(GObjectClass *klass, guint id)
{
    g_object_class_install_property(
        klass, id,
        g_param_spec_int("latency", "Latency",
                         "Milliseconds that pictures may be late, as in rtpjitterbuffer: what is "
                         "reported as the latency whatever is measured (-1 = what is measured, up "
                         "to a second and what the ring holds)",
                         LATENCY_AUTO, 3600 * 1000, LATENCY_AUTO,
                         G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING));
}

void latency_init(GstGpudirectSrc *self)
{
    self->options.latency = LATENCY_AUTO;
}

gint64 gst_gpudirect_src_late_max(GstGpudirectSrc *self)
{
    gint latency = g_atomic_int_get(&self->options.latency);

    return latency < 0 ? 0 : latency * (gint64)GST_MSECOND;
}

/* Under the object lock. Jitter counts only as far as the ring holds a sink's share, too: to wait
 * for a picture that is later would lose those that are in time. */
static void compute(GstGpudirectSrc *self, GstClockTime *min, GstClockTime *max)
{
    const struct src_latency *latency = &self->latency;
    GstClockTime deadline = MIN(self->options.processing_deadline, LONGEST);
    GstClockTime jitter = latency->most - latency->least;
    GstClockTime hold = GST_CLOCK_TIME_NONE;

    if (GST_CLOCK_TIME_IS_VALID(self->frame_duration) && !latency->sender_waits)
        hold = latency->slots * MIN(self->frame_duration, LONGEST);
    if (GST_CLOCK_TIME_IS_VALID(hold))
        jitter = MIN(jitter, hold > deadline + SINK_DEADLINE ? hold - deadline - SINK_DEADLINE : 0);
    gboolean fixed = self->options.latency >= 0;
    GstClockTime least = fixed ? 0 : latency->least;
    *min = deadline + (fixed ? (GstClockTime)self->options.latency * GST_MSECOND : least + jitter);
    *max = GST_CLOCK_TIME_IS_VALID(hold) ? MAX(*min, least + hold) : GST_CLOCK_TIME_NONE;
}

void gst_gpudirect_src_get_latency(GstGpudirectSrc *self, GstClockTime *min, GstClockTime *max)
{
    GST_OBJECT_LOCK(self);
    compute(self, min, max);
    GST_OBJECT_UNLOCK(self);
}

/* Takes other figures than those that were told; posts a message where that changes the latency. */
static gboolean replace(GstGpudirectSrc *self, const struct src_latency *with,
                        GstClockTime interval)
{
    GstClockTime min, max, new_min, new_max;

    GST_OBJECT_LOCK(self);
    compute(self, &min, &max);
    self->latency = *with;
    self->frame_duration = interval;
    compute(self, &new_min, &new_max);
    GST_OBJECT_UNLOCK(self);
    if (min == new_min && max == new_max)
        return FALSE;
    GST_INFO_OBJECT(self, "pictures are %" GST_TIME_FORMAT " to %" GST_TIME_FORMAT " late",
                    GST_TIME_ARGS(with->least), GST_TIME_ARGS(with->most));
    gst_element_post_message(GST_ELEMENT(self), gst_message_new_latency(GST_OBJECT(self)));
    return TRUE;
}

static void tell(GstGpudirectSrc *self, const struct src_latency *latency)
{
    gint64 now = g_get_monotonic_time();

    if (self->latency_told && now - self->latency_told < TELL)
        return;
    if (replace(self, latency, self->frame_duration))
        self->latency_told = now;
}

void gst_gpudirect_src_measure(GstGpudirectSrc *self, gint64 late, gboolean sender_waits)
{
    struct src_latency latency = self->latency; /* only this thread writes it */

    if (self->unmeasured > 0)
        self->unmeasured--;
    else if (late <= timeline_late_max(&self->line))
        lateness_note(&self->lateness, late > 0 ? (GstClockTime)late : 0, self->taken,
                      self->frame_duration);
    latency.least = self->lateness.least;
    latency.most = self->lateness.most;
    latency.sender_waits = sender_waits;
    if (memcmp(&latency, &self->latency, sizeof(latency)) != 0)
        tell(self, &latency);
}

void gst_gpudirect_src_note_slots(GstGpudirectSrc *self, guint slots)
{
    struct src_latency latency = self->latency;

    latency.slots = slots;
    replace(self, &latency, self->frame_duration);
}

void gst_gpudirect_src_note_interval(GstGpudirectSrc *self, GstClockTime interval)
{
    struct src_latency latency = self->latency;

    replace(self, &latency, interval);
}

/* Pictures that have the time at which their exposure began come a picture later at the earliest:
 * so the first ones are in time, too. */
void gst_gpudirect_src_note_stamps(GstGpudirectSrc *self)
{
    struct src_latency latency = self->latency;
    struct input_info info;

    self->input->ops->get_info(self->input, &info);
    if (self->lateness.measured || !info.stamps_start ||
        !GST_CLOCK_TIME_IS_VALID(self->frame_duration))
        return;
    lateness_begin(&self->lateness,
                   MIN(self->frame_duration, (GstClockTime)timeline_late_max(&self->line)));
    latency.least = latency.most = self->lateness.most;
    replace(self, &latency, self->frame_duration);
}

void gst_gpudirect_src_break_latency(GstGpudirectSrc *self)
{
    lateness_break(&self->lateness);
    self->unmeasured = UNMEASURED_FRAMES;
}

/* A card's driver always needs a slot to write into. */
void gst_gpudirect_src_reset_latency(GstGpudirectSrc *self, gboolean card)
{
    lateness_begin(&self->lateness, card ? 0 : LATENESS_GUESS);
    self->unmeasured = UNMEASURED_FRAMES;
    self->latency_told = 0;
    GST_OBJECT_LOCK(self);
    self->latency = (struct src_latency){
        .least = self->lateness.least,
        .most = self->lateness.most,
        .slots = self->running.slots - (card ? 1 : 0),
    };
    self->frame_duration = GST_CLOCK_TIME_NONE;
    GST_OBJECT_UNLOCK(self);
}
