/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The times of gpudirectsrc's buffers. */
#include "src/src.h"
#include "wire/meta.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* --- clocks ------------------------------------------------------------------------------- */

static GstElementClass *parent_class;

static gboolean set_clock(GstElement *element, GstClock *clock)
{
    g_atomic_int_set(&GST_GPUDIRECT_SRC(element)->clock_kind, (gint)clock_kind_of(clock));
    return parent_class->set_clock(element, clock);
}

void gst_gpudirect_src_class_init_times(GstElementClass *klass)
{
    parent_class = g_type_class_peek_parent(klass);
    klass->set_clock = set_clock;
}

/* The pipeline's clock beside the system's, which it may be: then there is no other to be asked. */
static struct time_now read_clocks(GstGpudirectSrc *self)
{
    enum clock_kind kind = (enum clock_kind)g_atomic_int_get(&self->clock_kind);
    struct time_now now = {
        .monotonic = kind == CLOCK_KIND_MONOTONIC,
        .here = self->here,
        .running = GST_CLOCK_TIME_NONE,
    };

    GST_OBJECT_LOCK(self);
    now.base = GST_ELEMENT(self)->base_time;
    GST_OBJECT_UNLOCK(self);
    if (!now.monotonic)
        now.running = gst_element_get_current_running_time(GST_ELEMENT(self));
    now.system = monotonic_now();
    if (now.monotonic && now.base <= now.system) /* NONE is later */
        now.running = now.system - now.base;
    return now;
}

void gst_gpudirect_src_time_now(GstGpudirectSrc *self, struct time_now *now)
{
    struct clock_name name;

    *now = read_clocks(self);
    clock_name_of(&name, GST_ELEMENT(self), (enum clock_kind)g_atomic_int_get(&self->clock_kind),
                  self->running.common_clock);
    now->clock = name.id;
    now->local = name.local;
}

void gst_gpudirect_src_meet_clock(GstGpudirectSrc *self, const struct gpud_peer_info *peer)
{
    self->here = peer->same_clock;
    g_atomic_int_set(&self->relation, self->here ? RELATION_HERE : RELATION_UNKNOWN);
    latencies_clear(self->latencies);
    GST_OBJECT_LOCK(self);
    g_strlcpy(self->sender_host, peer->host, sizeof(self->sender_host));
    GST_OBJECT_UNLOCK(self);
}

void gst_gpudirect_src_note_taken(GstGpudirectSrc *self, GstClockTime now)
{
    self->taken = now;
    self->line.late_max = gst_gpudirect_src_late_max(self);
    if (self->waited)
        arrivals_clear(&self->arrivals);
}

void gst_gpudirect_src_note_skipped(GstGpudirectSrc *self)
{
    arrivals_clear(&self->arrivals);
}

/* --- frames over a link ------------------------------------------------------------------- */

/* With do-timestamp a picture's time is that of its arrival. The base class would use the time at
 * which it is taken from the ring, which is late where downstream blocks this thread, and a sink,
 * which looks at DTS first, would then delay it once more. */
static gboolean stamp_by_arrival(GstGpudirectSrc *self, const struct time_now *now, gint64 arrived,
                                 GstBuffer *buffer)
{
    if (!gst_base_src_get_do_timestamp(GST_BASE_SRC(self)) ||
        !GST_CLOCK_TIME_IS_VALID(now->running))
        return FALSE;
    struct timeline_frame placed = {
        .mapped = arrived, .here = arrived, .duration = GST_CLOCK_TIME_NONE, .live = TRUE};
    GST_BUFFER_PTS(buffer) = GST_BUFFER_DTS(buffer) = timeline_stamp(&self->line, &placed);
    return TRUE;
}

static void stamp_by_sender(GstGpudirectSrc *self, const struct wire_head *head, GstClockTime pts,
                            GstClockTime dts, gint64 here, GstBuffer *buffer)
{
    GstClockTime time = GST_CLOCK_TIME_IS_VALID(pts) ? pts : dts;

    GST_BUFFER_PTS(buffer) = GST_BUFFER_DTS(buffer) = GST_CLOCK_TIME_NONE;
    if (!GST_CLOCK_TIME_IS_VALID(time))
        return;
    struct timeline_frame placed = {.mapped = time_map_apply(&self->map, time),
                                    .here = here,
                                    .duration = GST_BUFFER_DURATION(buffer),
                                    .live = head->live};
    GstClockTime stamp = timeline_stamp(&self->line, &placed);
    if (GST_CLOCK_TIME_IS_VALID(pts))
        GST_BUFFER_PTS(buffer) = stamp;
    if (GST_CLOCK_TIME_IS_VALID(dts)) /* as far before PTS as the sender's; never after it */
        GST_BUFFER_DTS(buffer) = stamp - MIN(stamp, time > dts ? time - dts : 0);
}

/* By when the frame had come; and which ones have by now. */
static GstClockTime note_arrivals(GstGpudirectSrc *self, const struct gpud_frame_info *info)
{
    if (info->submit_time)
        return self->taken; /* that tells more */
    if (info->flags & GPUD_FRAME_DISCONTINUITY)
        arrivals_clear(&self->arrivals);
    GstClockTime arrived = arrivals_take(&self->arrivals, self->taken);
    arrivals_see(&self->arrivals, self->input->ops->count_frames(self->input), monotonic_now());
    return arrived;
}

static void note_latency(GstGpudirectSrc *self, gint64 latency)
{
    latencies_note(self->latencies, latency);
    if (latency > 0)
        self->input->ops->set_latency(self->input, (guint64)latency);
}

/* What is told of the two clocks, and the latency, if they are one. */
static void note_clocks(GstGpudirectSrc *self, const struct wire_head *head,
                        const struct time_frame *frame, const struct time_now *now)
{
    enum src_relation relation = self->here ? RELATION_HERE : RELATION_UNKNOWN;
    gint64 sent;

    if (!self->here && time_relation(head, now) == TIME_SHARED) {
        relation = RELATION_COMMON;
        if (GST_CLOCK_TIME_IS_VALID(now->running) && time_map_sent(head, frame, now, &sent))
            note_latency(self, time_now_at(now, self->taken) - sent);
    }
    g_atomic_int_set(&self->relation, (gint)relation);
}

/* When a frame was here, in running time, where that is known for certain. */
static gint64 time_here(const struct wire_head *head, const struct time_frame *frame,
                        const struct time_now *now)
{
    gint64 here = time_now_at(now, frame->arrived);

    if (!GST_CLOCK_TIME_IS_VALID(now->running) ||
        (!frame->waited_for && !time_map_sent(head, frame, now, &here)))
        return TIMELINE_UNKNOWN;
    return here;
}

static struct time_frame frame_of(GstGpudirectSrc *self, const struct gpud_frame_info *info,
                                  GstClockTime arrived)
{
    return (struct time_frame){
        .running = wire_time(info->pts),
        .submitted = info->submit_time ? wire_time(info->submit_time) : GST_CLOCK_TIME_NONE,
        .arrived = arrived,
        .waited_for = self->waited,
    };
}

/* Looked at without learning from it: a later frame may tell the sender's clock more exactly. */
gboolean gst_gpudirect_src_is_past(GstGpudirectSrc *self, const struct gpud_frame_info *info,
                                   const struct wire_head *head)
{
    struct time_frame frame = frame_of(self, info, self->taken);
    struct time_map map = self->map;
    struct time_now now;

    gst_gpudirect_src_time_now(self, &now);
    if (!GST_CLOCK_TIME_IS_VALID(frame.running) || !GST_CLOCK_TIME_IS_VALID(now.running))
        return FALSE;
    time_map_update(&map, head, &frame, &now);
    struct timeline_frame placed = {.mapped = time_map_apply(&map, frame.running),
                                    .here = time_map_arrival(&map, head, &frame, &now),
                                    .live = head->live};
    if (gst_base_src_get_do_timestamp(GST_BASE_SRC(self)))
        placed.mapped = placed.here;
    return timeline_is_past(&self->line, &placed);
}

gboolean gst_gpudirect_src_is_arrival_unknown(GstGpudirectSrc *self,
                                              const struct gpud_frame_info *info,
                                              const struct wire_head *head)
{
    struct time_frame frame = frame_of(self, info, self->taken);
    struct time_now now;

    gst_gpudirect_src_time_now(self, &now);
    return head->live && time_relation(head, &now) == TIME_UNKNOWN &&
           time_here(head, &frame, &now) == TIMELINE_UNKNOWN;
}

void gst_gpudirect_src_stamp_linked(GstGpudirectSrc *self, const struct gpud_frame_info *info,
                                    const struct wire_head *head, GstBuffer *buffer)
{
    struct time_frame frame = frame_of(self, info, note_arrivals(self, info));
    struct time_now now;

    gst_gpudirect_src_time_now(self, &now);
    self->came = now.running;
    time_map_update(&self->map, head, &frame, &now);
    gint64 here = time_here(head, &frame, &now);
    if (!stamp_by_arrival(self, &now, time_map_arrival(&self->map, head, &frame, &now), buffer))
        stamp_by_sender(self, head, frame.running, wire_time(info->dts), here, buffer);
    if (!g_queue_is_empty(&self->waiting))
        gst_gpudirect_src_push_events(self, TRUE);
    if (GST_CLOCK_TIME_IS_VALID(frame.submitted) &&
        g_atomic_int_get(&self->options.tells_submit_time))
        meta_add_submit_time(buffer, frame.submitted);
    note_clocks(self, head, &frame, &now);
    gboolean measurable = here != TIMELINE_UNKNOWN && GST_BUFFER_PTS_IS_VALID(buffer);
    gst_gpudirect_src_measure(
        self, measurable ? here - (gint64)GST_BUFFER_PTS(buffer) : TIMELINE_UNKNOWN, !head->drops);
}

/* --- frames of a capture card ------------------------------------------------------------- */

/* What was captured before PLAYING waited at the driver: the pipeline's time did not run then. A
 * driver without a clock has no more of these than it has buffers. */
gboolean gst_gpudirect_src_is_stale_capture(GstGpudirectSrc *self, struct gpud_frame *frame)
{
    struct gpud_frame_info info;

    if (!self->starting)
        return FALSE;
    info.size = sizeof(info);
    gpud_frame_get_info(frame, &info);
    if (info.pts != GPUD_TIME_NONE)
        self->starting = info.pts < self->resumed_at;
    else
        self->starting = !self->waited && self->skipped_in_row++ < self->running.slots + 2;
    if (!self->starting)
        self->skipped_in_row = 0;
    return self->starting;
}

/* What is known of a frame's capture: by the driver's stamp, which some compute ahead of the frame,
 * or no more than that it came. */
static void note_capture(GstGpudirectSrc *self, const struct gpud_frame_info *info,
                         const struct time_now *now, GstBuffer *buffer)
{
    GstClockTime captured = wire_time(info->pts);
    gboolean known = GST_CLOCK_TIME_IS_VALID(captured);

    g_atomic_int_set(&self->relation, known ? RELATION_HERE : RELATION_UNKNOWN);
    if (!known)
        return;
    latencies_note(self->latencies,
                   (gint64)(now->system - MIN(captured, wire_time(info->submit_time))));
    if (g_atomic_int_get(&self->options.tells_submit_time))
        meta_add_capture_time(buffer, captured);
}

/* A card's times are of the monotonic clock, and say when the picture came: do-timestamp changes
 * nothing. */
void gst_gpudirect_src_stamp_captured(GstGpudirectSrc *self, const struct gpud_frame_info *info,
                                      GstBuffer *buffer)
{
    struct time_now now = read_clocks(self);

    self->came = now.running;
    note_capture(self, info, &now, buffer);
    GST_BUFFER_PTS(buffer) = GST_BUFFER_DTS(buffer) = GST_CLOCK_TIME_NONE;
    if (!GST_CLOCK_TIME_IS_VALID(now.running))
        return;
    gint64 captured = time_now_at(&now, wire_time(info->pts));
    struct timeline_frame placed = {
        .mapped = captured,
        .here = self->waited ? (gint64)now.running : TIMELINE_UNKNOWN,
        .duration = GST_BUFFER_DURATION(buffer),
        .live = TRUE,
    };
    GST_BUFFER_PTS(buffer) = timeline_stamp(&self->line, &placed);
    if (gst_base_src_get_do_timestamp(GST_BASE_SRC(self)))
        GST_BUFFER_DTS(buffer) =
            GST_BUFFER_PTS(buffer); /* else the base class sets one of its own */
    if (self->waited)
        gst_gpudirect_src_measure(self, (gint64)(now.running - GST_BUFFER_PTS(buffer)), FALSE);
}

/* --- beginning ---------------------------------------------------------------------------- */

void gst_gpudirect_src_break_times(GstGpudirectSrc *self)
{
    time_map_lose(&self->map);
    timeline_break(&self->line);
    gst_gpudirect_src_break_latency(self);
}

void gst_gpudirect_src_reset_times(GstGpudirectSrc *self)
{
    self->map = (struct time_map){0};
    self->line = (struct timeline){0};
    arrivals_clear(&self->arrivals);
    gboolean card =
        self->running.address && input_ops_for(self->running.address)->configure != NULL;
    gst_gpudirect_src_reset_latency(self, card);
    GST_OBJECT_LOCK(self);
    self->sender_host[0] = '\0';
    GST_OBJECT_UNLOCK(self);
    g_atomic_int_set(&self->relation, card ? RELATION_HERE : RELATION_NONE);
    latencies_clear(self->latencies);
}
