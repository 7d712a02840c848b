/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Times of buffers, and latency. A frame arrives; the map puts its time on this pipeline's time
 * line; what lies between both is its lateness, from which the latency follows. wire/times.c has
 * the arithmetic of each. */
#include "src/src.h"

#include <gst/base/gstbasesrc.h>
#include <stdlib.h>
#include <string.h>

/* === latencies =============================================================================== */

#define LATENCIES_MAX 4096

struct latencies {
    GMutex lock;
    guint64 count;                  /* of all; the last ones are kept */
    guint32 latency[LATENCIES_MAX]; /* ns */
};

/* Ignores latencies that are negative, as inexact clocks give, or longer than 4 s. */
static void latencies_note(struct latencies *latencies, gint64 latency)
{
    if (latency <= 0 || latency > G_MAXUINT32)
        return;
    g_mutex_lock(&latencies->lock);
    latencies->latency[latencies->count++ % LATENCIES_MAX] = (guint32)latency;
    g_mutex_unlock(&latencies->lock);
}

static void latencies_clear(struct latencies *latencies)
{
    g_mutex_lock(&latencies->lock);
    latencies->count = 0;
    g_mutex_unlock(&latencies->lock);
}

static gint latencies_compare(gconstpointer a, gconstpointer b)
{
    guint32 x = *(const guint32 *)a, y = *(const guint32 *)b;

    return x < y ? -1 : x > y;
}

gboolean latencies_get(struct latencies *latencies, guint64 *p50, guint64 *p99, guint64 *max)
{
    guint32 *sorted = g_new(guint32, LATENCIES_MAX);

    g_mutex_lock(&latencies->lock);
    gsize count = (gsize)MIN(latencies->count, LATENCIES_MAX);
    memcpy(sorted, latencies->latency, count * sizeof(*sorted));
    g_mutex_unlock(&latencies->lock);
    if (count > 0) {
        qsort(sorted, count, sizeof(*sorted), latencies_compare);
        *p50 = sorted[count / 2];
        *p99 = sorted[count * 99 / 100];
        *max = sorted[count - 1];
    }
    g_free(sorted);
    return count > 0;
}

/* === latency ================================================================================= */
/* The latency that gpudirectsrc reports; see src.h. */

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

gboolean latency_replace(struct latency *latency, const struct latency_figures *with,
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
    if (memcmp(&figures, &latency->figures, sizeof(figures)) == 0)
        return;
    gint64 now = g_get_monotonic_time();
    if (latency->reported_at && now - latency->reported_at < REPORT_INTERVAL)
        return;
    if (latency_replace(latency, &figures, latency->interval))
        latency->reported_at = now;
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

/* === times =================================================================================== */

/* The longest time by which a codec's pictures are out of order. */
#define REORDER_MAX (1 * (gint64)GST_SECOND)

/* Longer than a clock takes from one value to the next: a graph's advances by whole cycles. */
#define STANDS (200 * GST_MSECOND)

void times_init(struct times *times, struct endpoint *endpoint)
{
    times->endpoint = endpoint;
    times->latencies = g_new0(struct latencies, 1);
    g_mutex_init(&times->latencies->lock);
}

void times_finish(struct times *times)
{
    g_mutex_clear(&times->latencies->lock);
    g_free(times->latencies);
    shared_map_leave(&times->shared);
    shared_map_unref(times->shared.map);
}

void times_share(struct times *times, struct shared_map *shared)
{
    times->shared.map = shared_map_ref(shared);
}

/* With do-timestamp the sender's times mean nothing here. */
static gboolean ignores_sender(const struct times *times)
{
    return gst_base_src_get_do_timestamp(GST_BASE_SRC(times->endpoint->element));
}

/* --- clocks ------------------------------------------------------------------------------- */

/* Reads the pipeline's clock and the system's, which may be the same. */
static struct time_now read_clocks(struct times *times)
{
    GstElement *element = times->endpoint->element;
    enum clock_kind kind = (enum clock_kind)g_atomic_int_get(&times->endpoint->clock_kind);
    struct time_now now = {
        .monotonic = kind == CLOCK_KIND_MONOTONIC,
        .same_clock = times->same_clock,
        .running = GST_CLOCK_TIME_NONE,
    };

    GST_OBJECT_LOCK(element);
    now.base = element->base_time;
    GST_OBJECT_UNLOCK(element);
    if (!now.monotonic)
        now.running = gst_element_get_current_running_time(element);
    now.system = monotonic_now();
    if (now.monotonic && now.base <= now.system) /* NONE is later */
        now.running = now.system - now.base;
    return now;
}

/* The same, and the name of the pipeline's clock. */
static struct time_now times_now(struct times *times)
{
    struct time_now now = read_clocks(times);
    struct clock_name name;

    endpoint_get_clock(times->endpoint, &name);
    now.clock = name.id;
    now.local = name.local;
    return now;
}

/* --- arrival ------------------------------------------------------------------------------ */

/* The time in whose order frames come. */
static GstClockTime order_of(const struct times *times, const struct gpud_frame_info *info)
{
    GstClockTime pts = wire_time(info->pts_ns), dts = wire_time(info->dts_ns);
    gboolean by_dts = times->by_dts && GST_CLOCK_TIME_IS_VALID(dts);

    return by_dts || !GST_CLOCK_TIME_IS_VALID(pts) ? dts : pts;
}

static struct time_frame frame_of(struct times *times, const struct gpud_frame_info *info,
                                  GstClockTime arrived)
{
    return (struct time_frame){
        .running = times->by_dts ? order_of(times, info) : wire_time(info->pts_ns),
        .submitted = info->submitted_ns ? wire_time(info->submitted_ns) : GST_CLOCK_TIME_NONE,
        .arrived = arrived,
        .waited_for = times->waited,
    };
}

/* The arrival of a frame in running time, if it is known for certain. */
static gint64 arrival_of(const struct wire_head *head, const struct time_frame *frame,
                         const struct time_now *now)
{
    gint64 here = time_now_at(now, frame->arrived);

    if (!GST_CLOCK_TIME_IS_VALID(now->running) ||
        (!frame->waited_for && !time_map_sent(head, frame, now, &here)))
        return TIMELINE_UNKNOWN;
    return here;
}

gboolean times_is_arrival_unknown(struct times *times, const struct gpud_frame_info *info,
                                  const struct wire_head *head)
{
    struct time_frame frame = frame_of(times, info, times->acquired_at);
    struct time_now now = times_now(times);

    return head->live && time_relation(head, &now) == TIME_UNKNOWN &&
           arrival_of(head, &frame, &now) == TIMELINE_UNKNOWN;
}

/* --- the map of the sender's time line ---------------------------------------------------- */

void times_meet_sender(struct times *times, const struct gpud_peer_info *peer, gboolean same_line)
{
    GstElement *element = times->endpoint->element;

    if (!same_line) {
        latencies_clear(times->latencies);
        times->map = (struct time_map){0};
    }
    times->same_clock = peer->same_clock;
    g_atomic_int_set(&times->relation, times->same_clock ? RELATION_SAME_HOST : RELATION_UNKNOWN);
    shared_map_leave(&times->shared);
    times->shared.process = peer->pid;
    GST_OBJECT_LOCK(element);
    g_strlcpy(times->sender_host, peer->host, sizeof(times->sender_host));
    GST_OBJECT_UNLOCK(element);
}

void times_reset(struct times *times, gboolean card)
{
    GstElement *element = times->endpoint->element;

    shared_map_leave(&times->shared);
    times->map = (struct time_map){0};
    times->line = (struct timeline){0};
    arrivals_clear(&times->arrivals);
    GST_OBJECT_LOCK(element);
    times->sender_host[0] = '\0';
    GST_OBJECT_UNLOCK(element);
    g_atomic_int_set(&times->relation, card ? RELATION_SAME_HOST : RELATION_NONE);
    latencies_clear(times->latencies);
}

GstClockTime times_stamp_gap(struct times *times, const struct wire_event *event,
                             gboolean with_frame)
{
    struct time_now now = times_now(times);

    if (!with_frame) /* a frame's own time is more precise */
        shared_map_update(&times->shared, &times->map, &event->head, NULL, &now);
    gint64 mapped = ignores_sender(times) ? time_now_at(&now, GST_CLOCK_TIME_NONE)
                                          : time_map_apply(&times->map, event->time);
    return timeline_stamp_gap(&times->line, mapped, with_frame);
}

/* The frame is not used to learn the sender's clock: a later one may tell it more exactly. */
gboolean times_is_past(struct times *times, const struct gpud_frame_info *info,
                       const struct wire_head *head)
{
    struct time_frame frame = frame_of(times, info, times->acquired_at);
    struct time_map map = times->map;
    struct time_now now = times_now(times);

    if (!GST_CLOCK_TIME_IS_VALID(frame.running) || !GST_CLOCK_TIME_IS_VALID(now.running))
        return FALSE;
    /* A clock may begin to run only once pictures come, as pipewiresink's does. */
    if (now.running != times->running) {
        times->running = now.running;
        times->stands_since = now.system;
    }
    if (now.system - times->stands_since > STANDS)
        return FALSE;
    shared_map_try(&times->shared, &map, head, &frame, &now);
    struct timeline_frame placed = {.mapped = time_map_apply(&map, frame.running),
                                    .arrived = time_map_arrival(&map, head, &frame, &now),
                                    .live = head->live};
    if (ignores_sender(times))
        placed.mapped = placed.arrived;
    return timeline_is_past(&times->line, &placed);
}

void times_stamp_linked(struct times *times, struct input *input,
                        const struct gpud_frame_info *info, const struct wire_head *head,
                        GstBuffer *buffer, struct times_frame *timing)
{
    struct time_frame *frame = &timing->frame;
    struct time_now *now = &timing->now;
    GstClockTime arrived = times->acquired_at, pts, dts;

    if (!info->submitted_ns) { /* the submit time is more precise */
        if (info->flags & GPUD_FRAME_DISCONTINUITY)
            arrivals_clear(&times->arrivals);
        arrived = arrivals_take(&times->arrivals, times->acquired_at);
        arrivals_see(&times->arrivals, input->ops->count_frames(input), monotonic_now());
    }
    *frame = frame_of(times, info, arrived);
    *now = times_now(times);
    times->stamped_at = now->running;
    shared_map_update(&times->shared, &times->map, head, frame, now);
    __atomic_store_n(&times->offset, times->map.shift, __ATOMIC_RELAXED);
    timing->arrived = arrival_of(head, frame, now);

    /* With do-timestamp a picture's time is that of its arrival. The base class would use the time
     * of its acquire, which is late if downstream blocks this thread, and a sink, which reads DTS
     * first, would then delay it once more. */
    if (ignores_sender(times) && GST_CLOCK_TIME_IS_VALID(now->running)) {
        gint64 here = time_map_arrival(&times->map, head, frame, now);
        struct timeline_frame placed = {
            .mapped = here, .arrived = here, .duration = GST_CLOCK_TIME_NONE, .live = TRUE};
        GST_BUFFER_PTS(buffer) = GST_BUFFER_DTS(buffer) = timeline_stamp(&times->line, &placed);
        return;
    }
    pts = wire_time(info->pts_ns);
    dts = wire_time(info->dts_ns);
    GstClockTime time = order_of(times, info);
    GST_BUFFER_PTS(buffer) = GST_BUFFER_DTS(buffer) = GST_CLOCK_TIME_NONE;
    if (!GST_CLOCK_TIME_IS_VALID(time))
        return;
    struct timeline_frame placed = {.mapped = time_map_apply(&times->map, time),
                                    .arrived = timing->arrived,
                                    .duration = GST_BUFFER_DURATION(buffer),
                                    .live = head->live};
    times->reorders |= times->by_dts && info->flags & GPUD_FRAME_DELTA;
    gint64 back = time_difference(times->line.mapped, placed.mapped);
    GstClockTime stamp;
    if (times->reorders && times->line.begun && back > 0 && back < REORDER_MAX) {
        /* A codec's picture without a decoding time, which comes after those that it needs. */
        stamp = (GstClockTime)MAX(time_difference(times->line.last, back), 0);
    } else {
        timeline_stamp(&times->line, &placed);
        stamp = shared_map_delay(&times->shared, head, now, &times->line);
    }
    __atomic_store_n(&times->to_sender, time_difference(signed_time(time), signed_time(stamp)),
                     __ATOMIC_RELAXED);
    if (GST_CLOCK_TIME_IS_VALID(pts)) /* as far after DTS as the sender's */
        GST_BUFFER_PTS(buffer) =
            pts > time ? stamp + MIN(pts - time, (GstClockTime)G_MAXINT64) : stamp;
    if (GST_CLOCK_TIME_IS_VALID(dts)) /* as far before PTS as the sender's; never after it */
        GST_BUFFER_DTS(buffer) = stamp - MIN(stamp, time > dts ? time - dts : 0);
}

gint64 times_learn(struct times *times, struct input *input, const struct wire_head *head,
                   const struct times_frame *timing, const GstBuffer *buffer)
{
    const struct time_now *now = &timing->now;
    enum clock_relation relation = times->same_clock ? RELATION_SAME_HOST : RELATION_UNKNOWN;
    gint64 sent;

    if (!times->same_clock && time_relation(head, now) == TIME_SHARED) {
        relation = RELATION_COMMON;
        if (GST_CLOCK_TIME_IS_VALID(now->running) &&
            time_map_sent(head, &timing->frame, now, &sent)) {
            gint64 latency = time_now_at(now, times->acquired_at) - sent;
            latencies_note(times->latencies, latency);
            if (latency > 0)
                input->ops->set_latency(input, (guint64)latency);
        }
    }
    g_atomic_int_set(&times->relation, (gint)relation);
    if (timing->arrived == TIMELINE_UNKNOWN || !GST_BUFFER_PTS_IS_VALID(buffer))
        return TIMELINE_UNKNOWN;
    return timing->arrived - (gint64)GST_BUFFER_PTS(buffer);
}

/* --- frames of a capture card ------------------------------------------------------------- */

/* A card's timestamps are arrival times on the monotonic clock, so do-timestamp changes nothing.
 * Some drivers compute them ahead of the frame; without one only the arrival is known. */
gboolean times_stamp_captured(struct times *times, const struct gpud_frame_info *info,
                              GstBuffer *buffer, gint64 *late)
{
    struct time_now now = read_clocks(times);
    GstClockTime captured = wire_time(info->pts_ns);
    gboolean known = GST_CLOCK_TIME_IS_VALID(captured);

    times->stamped_at = now.running;
    g_atomic_int_set(&times->relation, known ? RELATION_SAME_HOST : RELATION_UNKNOWN);
    if (known)
        latencies_note(times->latencies,
                       (gint64)(now.system - MIN(captured, wire_time(info->submitted_ns))));
    GST_BUFFER_PTS(buffer) = GST_BUFFER_DTS(buffer) = GST_CLOCK_TIME_NONE;
    if (!GST_CLOCK_TIME_IS_VALID(now.running))
        return FALSE;
    struct timeline_frame placed = {
        .mapped = time_now_at(&now, captured),
        .arrived = times->waited ? (gint64)now.running : TIMELINE_UNKNOWN,
        .duration = GST_BUFFER_DURATION(buffer),
        .live = TRUE,
    };
    GST_BUFFER_PTS(buffer) = timeline_stamp(&times->line, &placed);
    if (ignores_sender(times)) /* else the base class sets one of its own */
        GST_BUFFER_DTS(buffer) = GST_BUFFER_PTS(buffer);
    *late = (gint64)(now.running - GST_BUFFER_PTS(buffer));
    return times->waited;
}

void gst_gpudirect_src_break_stream(GstGpudirectSrc *self)
{
    shared_map_leave(&self->times.shared);
    time_map_lose(&self->times.map);
    timeline_break(&self->times.line);
    lateness_break(&self->latency.lateness);
    self->latency.unmeasured = UNMEASURED_FRAMES;
}
