/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/times.h"

#include <gst/base/gstbasesrc.h>

/* Longer than a clock takes from one value to the next: a graph's advances by whole cycles. */
#define STANDS (200 * GST_MSECOND)

void times_init(struct times *times, struct endpoint *endpoint)
{
    times->endpoint = endpoint;
    times->latencies = latencies_new();
}

void times_finish(struct times *times)
{
    latencies_free(times->latencies);
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

void times_now(struct times *times, struct time_now *now)
{
    struct clock_name name;

    *now = read_clocks(times);
    endpoint_get_clock(times->endpoint, &name);
    now->clock = name.id;
    now->local = name.local;
}

void times_meet_sender(struct times *times, const struct gpud_peer_info *peer)
{
    latencies_clear(times->latencies);
    times->map = (struct time_map){0};
    times_switch_sender(times, peer);
}

void times_switch_sender(struct times *times, const struct gpud_peer_info *peer)
{
    GstElement *element = times->endpoint->element;

    times->same_clock = peer->same_clock;
    g_atomic_int_set(&times->relation, times->same_clock ? RELATION_SAME_HOST : RELATION_UNKNOWN);
    shared_map_leave(&times->shared);
    times->shared.process = peer->pid;
    GST_OBJECT_LOCK(element);
    g_strlcpy(times->sender_host, peer->host, sizeof(times->sender_host));
    GST_OBJECT_UNLOCK(element);
}

void times_note_acquired(struct times *times, GstClockTime now, gint64 late_max)
{
    times->acquired_at = now;
    times->line.late_max = late_max;
    if (times->waited)
        arrivals_clear(&times->arrivals);
}

void times_note_skipped(struct times *times)
{
    arrivals_clear(&times->arrivals);
}

/* --- frames over a link ------------------------------------------------------------------- */

/* With do-timestamp a picture's time is that of its arrival. The base class would use the time of
 * its acquire, which is late if downstream blocks this thread, and a sink, which reads DTS first,
 * would then delay it once more. */
static gboolean stamp_by_arrival(struct times *times, const struct time_now *now, gint64 arrived,
                                 GstBuffer *buffer)
{
    if (!ignores_sender(times) || !GST_CLOCK_TIME_IS_VALID(now->running))
        return FALSE;
    struct timeline_frame placed = {
        .mapped = arrived, .arrived = arrived, .duration = GST_CLOCK_TIME_NONE, .live = TRUE};
    GST_BUFFER_PTS(buffer) = GST_BUFFER_DTS(buffer) = timeline_stamp(&times->line, &placed);
    return TRUE;
}

static void stamp_by_sender(struct times *times, const struct wire_head *head,
                            const struct time_now *now, GstClockTime pts, GstClockTime dts,
                            gint64 here, GstBuffer *buffer)
{
    GstClockTime time = GST_CLOCK_TIME_IS_VALID(pts) ? pts : dts;

    GST_BUFFER_PTS(buffer) = GST_BUFFER_DTS(buffer) = GST_CLOCK_TIME_NONE;
    if (!GST_CLOCK_TIME_IS_VALID(time))
        return;
    struct timeline_frame placed = {.mapped = time_map_apply(&times->map, time),
                                    .arrived = here,
                                    .duration = GST_BUFFER_DURATION(buffer),
                                    .live = head->live};
    timeline_stamp(&times->line, &placed);
    GstClockTime stamp = shared_map_delay(&times->shared, head, now, &times->line);
    if (GST_CLOCK_TIME_IS_VALID(pts))
        GST_BUFFER_PTS(buffer) = stamp;
    if (GST_CLOCK_TIME_IS_VALID(dts)) /* as far before PTS as the sender's; never after it */
        GST_BUFFER_DTS(buffer) = stamp - MIN(stamp, time > dts ? time - dts : 0);
}

/* The time by which the frame had arrived; also notes the frames that have arrived by now. */
static GstClockTime note_arrivals(struct times *times, struct input *input,
                                  const struct gpud_frame_info *info)
{
    if (info->submitted_ns)
        return times->acquired_at; /* the submit time is more precise */
    if (info->flags & GPUD_FRAME_DISCONTINUITY)
        arrivals_clear(&times->arrivals);
    GstClockTime arrived = arrivals_take(&times->arrivals, times->acquired_at);
    arrivals_see(&times->arrivals, input->ops->count_frames(input), monotonic_now());
    return arrived;
}

static void note_latency(struct times *times, struct input *input, gint64 latency)
{
    latencies_note(times->latencies, latency);
    if (latency > 0)
        input->ops->set_latency(input, (guint64)latency);
}

/* Notes how the two clocks are related, and the latency if they are one. */
static void note_clocks(struct times *times, struct input *input, const struct wire_head *head,
                        const struct time_frame *frame, const struct time_now *now)
{
    enum clock_relation relation = times->same_clock ? RELATION_SAME_HOST : RELATION_UNKNOWN;
    gint64 sent;

    if (!times->same_clock && time_relation(head, now) == TIME_SHARED) {
        relation = RELATION_COMMON;
        if (GST_CLOCK_TIME_IS_VALID(now->running) && time_map_sent(head, frame, now, &sent))
            note_latency(times, input, time_now_at(now, times->acquired_at) - sent);
    }
    g_atomic_int_set(&times->relation, (gint)relation);
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

static struct time_frame frame_of(struct times *times, const struct gpud_frame_info *info,
                                  GstClockTime arrived)
{
    return (struct time_frame){
        .running = wire_time(info->pts_ns),
        .submitted = info->submitted_ns ? wire_time(info->submitted_ns) : GST_CLOCK_TIME_NONE,
        .arrived = arrived,
        .waited_for = times->waited,
    };
}

void times_learn_event(struct times *times, const struct wire_head *head,
                       const struct time_now *now)
{
    shared_map_update(&times->shared, &times->map, head, NULL, now);
}

/* A clock may begin to run only once pictures come, as pipewiresink's does. */
static gboolean clock_stands(struct times *times, const struct time_now *now)
{
    if (now->running != times->running) {
        times->running = now->running;
        times->stands_since = now->system;
    }
    return now->system - times->stands_since > STANDS;
}

/* The frame is not used to learn the sender's clock: a later one may tell it more exactly. */
gboolean times_is_past(struct times *times, const struct gpud_frame_info *info,
                       const struct wire_head *head)
{
    struct time_frame frame = frame_of(times, info, times->acquired_at);
    struct time_map map = times->map;
    struct time_now now;

    times_now(times, &now);
    if (!GST_CLOCK_TIME_IS_VALID(frame.running) || !GST_CLOCK_TIME_IS_VALID(now.running) ||
        clock_stands(times, &now))
        return FALSE;
    shared_map_try(&times->shared, &map, head, &frame, &now);
    struct timeline_frame placed = {.mapped = time_map_apply(&map, frame.running),
                                    .arrived = time_map_arrival(&map, head, &frame, &now),
                                    .live = head->live};
    if (ignores_sender(times))
        placed.mapped = placed.arrived;
    return timeline_is_past(&times->line, &placed);
}

gboolean times_is_arrival_unknown(struct times *times, const struct gpud_frame_info *info,
                                  const struct wire_head *head)
{
    struct time_frame frame = frame_of(times, info, times->acquired_at);
    struct time_now now;

    times_now(times, &now);
    return head->live && time_relation(head, &now) == TIME_UNKNOWN &&
           arrival_of(head, &frame, &now) == TIMELINE_UNKNOWN;
}

void times_stamp_linked(struct times *times, struct input *input,
                        const struct gpud_frame_info *info, const struct wire_head *head,
                        GstBuffer *buffer, struct times_frame *timing)
{
    struct time_frame *frame = &timing->frame;
    struct time_now *now = &timing->now;

    *frame = frame_of(times, info, note_arrivals(times, input, info));
    times_now(times, now);
    times->stamped_at = now->running;
    shared_map_update(&times->shared, &times->map, head, frame, now);
    __atomic_store_n(&times->offset, times->map.shift, __ATOMIC_RELAXED);
    timing->arrived = arrival_of(head, frame, now);
    if (!stamp_by_arrival(times, now, time_map_arrival(&times->map, head, frame, now), buffer))
        stamp_by_sender(times, head, now, frame->running, wire_time(info->dts_ns), timing->arrived,
                        buffer);
}

gint64 times_learn(struct times *times, struct input *input, const struct wire_head *head,
                   const struct times_frame *timing, const GstBuffer *buffer)
{
    note_clocks(times, input, head, &timing->frame, &timing->now);
    if (timing->arrived == TIMELINE_UNKNOWN || !GST_BUFFER_PTS_IS_VALID(buffer))
        return TIMELINE_UNKNOWN;
    return timing->arrived - (gint64)GST_BUFFER_PTS(buffer);
}

/* --- frames of a capture card ------------------------------------------------------------- */

/* Notes the time of capture: the driver's timestamp, which some compute ahead of the frame, or only
 * that the frame has arrived. */
static void note_capture(struct times *times, const struct gpud_frame_info *info,
                         const struct time_now *now)
{
    GstClockTime captured = wire_time(info->pts_ns);
    gboolean known = GST_CLOCK_TIME_IS_VALID(captured);

    g_atomic_int_set(&times->relation, known ? RELATION_SAME_HOST : RELATION_UNKNOWN);
    if (known)
        latencies_note(times->latencies,
                       (gint64)(now->system - MIN(captured, wire_time(info->submitted_ns))));
}

/* A card's timestamps are arrival times on the monotonic clock, so do-timestamp changes nothing. */
gboolean times_stamp_captured(struct times *times, const struct gpud_frame_info *info,
                              GstBuffer *buffer, gint64 *late)
{
    struct time_now now = read_clocks(times);

    times->stamped_at = now.running;
    note_capture(times, info, &now);
    GST_BUFFER_PTS(buffer) = GST_BUFFER_DTS(buffer) = GST_CLOCK_TIME_NONE;
    if (!GST_CLOCK_TIME_IS_VALID(now.running))
        return FALSE;
    gint64 captured = time_now_at(&now, wire_time(info->pts_ns));
    struct timeline_frame placed = {
        .mapped = captured,
        .arrived = times->waited ? (gint64)now.running : TIMELINE_UNKNOWN,
        .duration = GST_BUFFER_DURATION(buffer),
        .live = TRUE,
    };
    GST_BUFFER_PTS(buffer) = timeline_stamp(&times->line, &placed);
    if (ignores_sender(times))
        GST_BUFFER_DTS(buffer) =
            GST_BUFFER_PTS(buffer); /* else the base class sets one of its own */
    *late = (gint64)(now.running - GST_BUFFER_PTS(buffer));
    return times->waited;
}

/* --- beginning ---------------------------------------------------------------------------- */

void times_break(struct times *times)
{
    shared_map_leave(&times->shared);
    time_map_lose(&times->map);
    timeline_break(&times->line);
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
