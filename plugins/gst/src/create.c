/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc's loop: a frame becomes a buffer. */
#include "src/create.h"

#include "base/errors.h"
#include "src/apply.h"
#include "src/events.h"
#include "src/format.h"
#include "src/wait.h"
#include "wire/caps.h"
#include "wire/flags.h"
#include "wire/meta.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* Between two looks at the number of slots. */
#define SLOTS_INTERVAL (100 * GST_MSECOND)

/* An acquire that took this long has slept: one that finds a frame is much faster. */
#define SLEPT (200 * GST_USECOND)

/* --- describing the picture --------------------------------------------------------------- */

/* Once: further losses are in QoS messages and stats. A receiver with a policy of its own loses
 * pictures by intention. */
static void report_loss(GstGpudirectSrc *self, guint64 lost)
{
    GstClockTime interval = self->latency.interval;

    if (self->loss_reported || !GST_CLOCK_TIME_IS_VALID(interval) ||
        self->blocked_longest <= interval ||
        self->endpoint.running.slow_receiver != GPUD_SLOW_DEFAULT)
        return;
    self->loss_reported = TRUE;
    GST_ELEMENT_WARNING(
        self, RESOURCE, READ,
        ("Pictures are lost, %" G_GUINT64_FORMAT " so far: the elements downstream took %u ms for "
         "one, while one comes every %u ms and the ring has %u slots. If they only wait, put this "
         "behind gpudirectsrc: queue max-size-buffers=0 max-size-bytes=0 max-size-time=3000000000. "
         "If they are too slow, let them do less.",
         lost, (guint)(self->blocked_longest / GST_MSECOND), (guint)(interval / GST_MSECOND),
         self->pictures.slots),
        (NULL));
}

static void note_drops(GstGpudirectSrc *self, guint64 dropped, GstBuffer *buffer)
{
    guint64 lost = feed_count_lost(&self->feed, dropped) + self->skipped_unreported;

    self->skipped_unreported = 0;
    if (lost > 0)
        report_loss(self, lost);
    self->blocked_longest = 0;
    if (lost == 0)
        return;
    self->dropped += lost;
    if (self->blocks.expected) /* samples are missing, which cannot be shown once more */
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DISCONT);
    GstClockTime pts = GST_BUFFER_PTS(buffer);
    GstMessage *message =
        gst_message_new_qos(GST_OBJECT(self), TRUE, pts, pts, pts, GST_BUFFER_DURATION(buffer));
    gst_message_set_qos_stats(message, GST_FORMAT_BUFFERS, self->frames, self->dropped);
    gst_element_post_message(GST_ELEMENT(self), message);
}

static gboolean adds_submit_time(GstGpudirectSrc *self)
{
    return g_atomic_int_get(&self->options.adds_submit_time);
}

static void measure(GstGpudirectSrc *self, gint64 late, gboolean sender_waits)
{
    latency_measure(&self->latency, late, timeline_late_max(&self->times.line),
                    self->times.acquired_at, sender_waits);
}

/* To a sink behind this element a sender that is not live is like a file: it waits for receivers. A
 * sender without metadata does not say. */
static void note_sender_live(GstGpudirectSrc *self, gboolean live)
{
    gboolean changed = (g_atomic_int_get(&self->sender_live) != FALSE) != live;

    g_atomic_int_set(&self->sender_live, live);
    if (changed)
        gst_pad_push_event(GST_BASE_SRC_PAD(self), event_new_sender_live());
}

static void describe_linked(GstGpudirectSrc *self, struct gpud_frame_info *info, GstBuffer *buffer)
{
    struct wire_head head = {0};
    struct times_frame timing;
    struct meta_loss loss = {self->endpoint.lost_metas, GST_ELEMENT(self), self->names};

    gboolean read = meta_decode(info->meta, info->meta_size, &head, buffer, &loss);
    head.drops |= !read; /* a sender without metadata may drop */
    if ((!read && info->meta_size > 0) ||
        (read && !meta_decode_large(info->large_meta, info->large_meta_size, buffer, &loss)))
        lost_metas_note(self->endpoint.lost_metas, GST_ELEMENT(self), "unreadable",
                        "the sender's metadata is of an unknown release");
    note_sender_live(self, !read || head.live);
    if (self->feed.input->ops->place)
        self->feed.input->ops->place(self->feed.input, info, &head);
    times_stamp_linked(&self->times, self->feed.input, info, &head, buffer, &timing);
    gst_gpudirect_src_push_events(self, TRUE);
    if (GST_CLOCK_TIME_IS_VALID(timing.frame.submitted) && adds_submit_time(self))
        meta_add_submit_time(buffer, timing.frame.submitted);
    measure(self, times_learn(&self->times, self->feed.input, &head, &timing, buffer), !head.drops);
}

static void describe_captured(GstGpudirectSrc *self, const struct gpud_frame_info *info,
                              GstBuffer *buffer)
{
    GstClockTime captured = wire_time(info->pts_ns);
    gint64 late;

    if (GST_CLOCK_TIME_IS_VALID(captured) && adds_submit_time(self))
        meta_add_capture_time(buffer, captured);
    if (times_stamp_captured(&self->times, info, buffer, &late))
        measure(self, late, FALSE);
}

static void set_fields(uint32_t flags, GstBuffer *buffer)
{
    if (flags & GPUD_FRAME_INTERLACED)
        GST_BUFFER_FLAG_SET(buffer, GST_VIDEO_BUFFER_FLAG_INTERLACED);
    if (flags & GPUD_FRAME_TOP_FIELD)
        GST_BUFFER_FLAG_SET(buffer, GST_VIDEO_BUFFER_FLAG_TOP_FIELD);
    else if (flags & GPUD_FRAME_BOTTOM_FIELD)
        GST_BUFFER_FLAG_SET(buffer, GST_VIDEO_BUFFER_FLAG_BOTTOM_FIELD);
    else if (flags & GPUD_FRAME_TOP_FIRST)
        GST_BUFFER_FLAG_SET(buffer, GST_VIDEO_BUFFER_FLAG_TFF);
}

static void describe(GstGpudirectSrc *self, struct gpud_frame_info *info, GstBuffer *buffer)
{
    frame_flags_to_buffer(info->flags, buffer);
    GST_BUFFER_DURATION(buffer) = wire_time(info->duration_ns);
    GST_BUFFER_OFFSET(buffer) = info->offset;
    GST_BUFFER_OFFSET_END(buffer) = GST_BUFFER_OFFSET_NONE;
    if (self->feed.input->ops->has_signal)
        set_fields(info->flags, buffer);
    if (self->feed.input->ops->configure)
        describe_captured(self, info, buffer);
    else
        describe_linked(self, info, buffer);
    if (self->discont) {
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DISCONT);
        self->discont = FALSE;
    }
    self->frames++;
    endpoint_note_stats(&self->endpoint);
    self->link.ended = FALSE;
    self->follow.moves = 0;
    note_drops(self, info->dropped, buffer);
}

/* --- a frame becomes a buffer ------------------------------------------------------------- */

/* A buffer's size follows from caps and pool, so a frame of any other layout must be refused,
 * whatever the sender announced. */
static GstFlowReturn refuse_layout(GstGpudirectSrc *self, const struct gpud_layout *layout)
{
    const struct gpud_layout *wanted = &self->pictures.layout;
    gchar *name = layout_format_name(layout);

    GST_ELEMENT_ERROR(
        self, STREAM, FORMAT,
        ("A frame of %ux%u %s arrived, but %ux%u %s was announced: the sender breaks the "
         "protocol, use a gpudirectsink of the same release.",
         layout->width, layout->height, name, wanted->width, wanted->height, wanted->format),
        ("%" G_GUINT64_FORMAT " bytes in %u planes instead of %" G_GUINT64_FORMAT " in %u",
         layout->size, layout->planes, wanted->size, wanted->planes));
    g_free(name);
    return GST_FLOW_ERROR;
}

/* A driver may move a picture within its buffer (V4L2's data_offset), and a frame of another epoch
 * belongs to another signal or to other buffers, because the core may have switched methods. The
 * pool, which knows each slot's memory, is then recreated. */
static GstFlowReturn follow_card(GstGpudirectSrc *self, const struct gpud_frame_info *info)
{
    const struct gpud_layout *layout = &info->layout;
    const struct input_ops *ops = self->feed.input->ops;
    gboolean first = ops->configure && !self->pictures.epoch;
    gboolean other = ops->configure && !first && self->pictures.epoch != info->epoch;

    /* The signal may have changed since the caps were negotiated. */
    bool overtaken = first && !layout_is_equal(layout, &self->pictures.layout) &&
                     !layout_is_moved(layout, &self->pictures.layout);
    if ((other || overtaken) && ops->has_signal && !gst_gpudirect_src_follow_signal(self))
        return feed_is_flushing(&self->feed) ? GST_FLOW_FLUSHING : GST_FLOW_NOT_NEGOTIATED;
    gboolean moved = !layout_is_equal(layout, &self->pictures.layout);
    if (moved && (!ops->configure || !layout_is_moved(layout, &self->pictures.layout) ||
                  gpud_layout_check(layout, NULL) != GPUD_OK))
        return refuse_layout(self, layout);
    if (moved || (other && !ops->has_signal)) {
        GstCaps *caps = gst_pad_get_current_caps(GST_BASE_SRC_PAD(self));
        gboolean followed = caps && gst_gpudirect_src_set_format(self, caps, layout);
        gst_clear_caps(&caps);
        if (!followed)
            return refuse_layout(self, layout);
    }
    if (ops->configure && self->pictures.epoch != info->epoch) {
        self->pictures.epoch = info->epoch;
        g_object_notify(G_OBJECT(self), "active-path"); /* the first frame verifies it */
        g_object_notify(G_OBJECT(self), "fallback-reason");
    }
    return GST_FLOW_OK;
}

static void note_skipped(GstGpudirectSrc *self)
{
    times_note_skipped(&self->times);
    self->discont = TRUE;
    self->skipped_unreported++;
    __atomic_fetch_add(&self->feed.skipped, 1, __ATOMIC_RELAXED);
}

static void skip(GstGpudirectSrc *self, struct gpud_frame **frame)
{
    gpud_frame_release(frame);
    note_skipped(self);
}

/* *buffer stays NULL where the sender died within the block. */
static GstFlowReturn deliver_block(GstGpudirectSrc *self, struct gpud_frame *frame,
                                   GstBuffer **buffer)
{
    struct gpud_frame_info info;
    struct gpud_error error;
    GstAllocator *allocator = NULL;
    guint passed = self->feed.input->skip;

    if (g_atomic_int_get(&self->pictures.fills_files))
        gst_base_src_get_allocator(GST_BASE_SRC(self), &allocator, NULL);
    enum gpud_status status = blocks_copy(&self->blocks, frame, passed, allocator,
                                          self->endpoint.counters, buffer, &error);
    gst_clear_object(&allocator);
    info.size = sizeof(info);
    gpud_frame_get_info(frame, &info);
    if (status != GPUD_OK) {
        GST_WARNING_OBJECT(self, "a block is left out: %s", error.reason);
        skip(self, &frame);
        return GST_FLOW_OK;
    }
    blocks_skip(&self->blocks, passed, &info);
    describe(self, &info, *buffer);
    gpud_frame_release(&frame); /* it has the large meta */
    blocks_describe(&self->blocks, *buffer);
    GST_LOG_OBJECT(self, "a block: %" GST_PTR_FORMAT, *buffer);
    src_signal_here(&self->signal, *buffer);
    return GST_FLOW_OK;
}

/* The core does not say when the sender gave more slots; that is looked up while downstream holds
 * many, at times. */
static void note_more_slots(GstGpudirectSrc *self)
{
    struct input_info info;

    if (!self->pictures.is_hoarded || !self->feed.input->ops->want_slots ||
        self->pictures.slots >= self->latency.figures.slots_max ||
        self->times.acquired_at - self->slots_seen < SLOTS_INTERVAL)
        return;
    self->slots_seen = self->times.acquired_at;
    feed_get_info(&self->feed, &info);
    gst_gpudirect_src_note_slots(self, &info);
}

static GstFlowReturn deliver(GstGpudirectSrc *self, struct gpud_frame *frame, GstBuffer **buffer)
{
    struct gpud_frame_info info;

    if (self->blocks.expected)
        return deliver_block(self, frame, buffer);
    info.size = sizeof(info);
    if (!self->pictures.pool) {
        gpud_frame_release(&frame);
        GST_ELEMENT_ERROR(self, STREAM, FORMAT,
                          ("A frame arrived before its format: restart the sender."), (NULL));
        return GST_FLOW_ERROR;
    }
    gpud_frame_get_info(frame, &info);
    GstFlowReturn flow = follow_card(self, &info);
    if (flow != GST_FLOW_OK) {
        gpud_frame_release(&frame);
        return flow;
    }
    note_more_slots(self);
    gboolean copy = pictures_need_copy(&self->pictures, self->follow.enabled,
                                       self->latency.figures.sender_waits);
    /* The buffer of a copy does not keep the frame, which has the large meta. */
    gboolean may_copy = copy || self->pictures.dmabufs;
    struct gpud_frame *described =
        may_copy && info.large_meta_size > 0 ? gpud_frame_ref(frame) : NULL;
    flow = pictures_wrap(&self->pictures, frame, copy, &copy, buffer);
    if (flow == GST_FLOW_OK)
        describe(self, &info, *buffer);
    gpud_frame_release(&described);
    if (flow == GST_FLOW_CUSTOM_SUCCESS) {
        GST_WARNING_OBJECT(self, "a picture that its writer did not finish is left out");
        note_skipped(self);
        return GST_FLOW_OK;
    }
    if (flow == GST_FLOW_ERROR)
        GST_ELEMENT_ERROR(self, RESOURCE, READ,
                          ("A frame cannot be passed on: look at the log of gpudirectcore."),
                          (NULL));
    if (flow != GST_FLOW_OK)
        return flow;
    GST_LOG_OBJECT(self, "%s %" GST_PTR_FORMAT, copy ? "a copy:" : "a slot:", *buffer);
    src_signal_here(&self->signal, *buffer);
    return GST_FLOW_OK;
}

/* --- the group ---------------------------------------------------------------------------- */

static void drop_for_group(GstGpudirectSrc *self, GstBuffer **buffer)
{
    gst_clear_buffer(buffer);
    self->discont = TRUE;
    self->skipped_unreported++;
    __atomic_fetch_add(&self->feed.skipped, 1, __ATOMIC_RELAXED);
}

/* Holds a picture until those of the group's other sources are there. *buffer becomes NULL if it is
 * dropped. */
static GstFlowReturn wait_for_group(GstGpudirectSrc *self, GstBuffer **buffer)
{
    struct gpud_error error = {.status = GPUD_AGAIN};
    struct group_frame frame = {
        .running = GST_BUFFER_PTS(*buffer),
        .now = self->times.stamped_at,
        .interval = self->latency.interval,
        .acquired = self->times.acquired_at,
        .waited = self->times.waited,
    };

    if (self->blocks.expected || !GST_CLOCK_TIME_IS_VALID(frame.running) ||
        !GST_CLOCK_TIME_IS_VALID(frame.now))
        return GST_FLOW_OK;
    GST_OBJECT_LOCK(self);
    frame.latency = self->options.group_latency;
    GST_OBJECT_UNLOCK(self);
    switch (group_offer(self->feed.group, &frame)) {
    case GROUP_SEND:
        return GST_FLOW_OK;
    case GROUP_DROP:
        drop_for_group(self, buffer);
        return GST_FLOW_OK;
    default:
        drop_for_group(self, buffer);
        return gst_gpudirect_src_no_frame(self, GPUD_AGAIN, &error);
    }
}

/* --- the loop ----------------------------------------------------------------------------- */

/* Whether to skip a sender's frame at the beginning: newer ones wait behind it, or its time cannot
 * be determined. */
static gboolean is_no_beginning(GstGpudirectSrc *self, const struct gpud_frame_info *info,
                                const struct wire_head *head)
{
    const struct input_ops *ops = self->feed.input->ops;
    gboolean is_pair = ops->place != NULL;
    /* A pair holds frames of one sender while the other's are still in its ring, so that their
     * number does not say which is the newest. */
    gboolean in_pause = info->submitted_ns > 0 && info->submitted_ns < self->beginning.resumed_at;
    /* A newer block does not replace the one before it. */
    gboolean counts = !self->blocks.expected || info->submitted_ns == 0;
    guint rings = is_pair ? 2 : 1;

    if (self->blocks.expected && !self->blocks.are_sound)
        return in_pause || times_is_past(&self->times, info, head);
    /* At most what the rings hold is skipped, so that a sender that is always ahead is still shown.
     */
    if (((counts && ops->count_frames(self->feed.input) > 0) ||
         (in_pause && (is_pair || self->blocks.expected)) ||
         times_is_arrival_unknown(&self->times, info, head)) &&
        self->beginning.skipped_in_row++ < rings * self->pictures.slots)
        return TRUE;
    return times_is_past(&self->times, info, head);
}

/* Whether a frame was captured before PLAYING, while the pipeline's time did not run. A driver
 * without a clock has at most as many of these as it has buffers. */
static gboolean is_stale_capture(GstGpudirectSrc *self, struct gpud_frame *frame)
{
    struct gpud_frame_info info;

    if (!self->beginning.pending)
        return FALSE;
    info.size = sizeof(info);
    gpud_frame_get_info(frame, &info);
    if (info.pts_ns != GPUD_TIME_NONE)
        self->beginning.pending = info.pts_ns < self->beginning.resumed_at;
    else
        self->beginning.pending = !self->times.waited && self->beginning.skipped_in_row++ <
                                                             self->endpoint.running.slots + 2;
    if (!self->beginning.pending)
        self->beginning.skipped_in_row = 0;
    return self->beginning.pending;
}

/* Whether to skip a frame after connecting and after a pause. Frames of a sender that waits for
 * slow receivers are never skipped, as its receivers want every frame. */
static gboolean is_stale(GstGpudirectSrc *self, struct gpud_frame *frame)
{
    struct gpud_frame_info info;
    struct wire_head head;

    info.size = sizeof(info);
    if (g_atomic_int_compare_and_exchange(&self->beginning.resumed, TRUE, FALSE)) {
        self->beginning.pending = TRUE;
        gst_gpudirect_src_break_stream(self);
    }
    if (self->feed.input->ops->has_signal)
        return is_stale_capture(self, frame);
    if (!self->beginning.pending)
        return FALSE;
    gpud_frame_get_info(frame, &info);
    struct unpack unpack = {.data = info.meta, .left = info.meta_size};
    self->beginning.pending = src_options_read(&self->options, self).start == START_NEWEST &&
                              self->feed.input->ops->count_frames &&
                              wire_head_unpack(&unpack, &head) && head.drops &&
                              is_no_beginning(self, &info, &head);
    if (!self->beginning.pending)
        self->beginning.skipped_in_row = 0;
    return self->beginning.pending;
}

/* Takes the next frame, and notes whether it had to be waited for. */
static enum gpud_status take(GstGpudirectSrc *self, struct gpud_frame **frame,
                             struct gpud_error *error)
{
    const struct input_ops *ops = self->feed.input->ops;
    GstClockTime before = monotonic_now();
    gint64 max_wait = gst_gpudirect_src_max_wait(self, before);

    if (self->link.card_lost) {
        enum gpud_status back = ops->wait(self->feed.input, max_wait, error);
        if (back != GPUD_OK)
            return back;
        gst_gpudirect_src_card_back(self);
    }
    card_select_input(&self->card, &self->feed, GST_ELEMENT(self));
    if (ops->count_frames)
        self->times.waited = ops->count_frames(self->feed.input) == 0;
    enum gpud_status status = ops->acquire(self->feed.input, max_wait, frame, error);
    GstClockTime now = monotonic_now();
    if (!ops->count_frames) /* trying without waiting first would cost a system call per frame */
        self->times.waited = now - before >= SLEPT;
    if (status == GPUD_OK)
        times_note_acquired(&self->times, now, src_options_late_max(&self->options));
    return status;
}

static GstFlowReturn next(GstGpudirectSrc *self, GstBuffer **buffer)
{
    for (;;) {
        struct gpud_frame *frame = NULL;
        struct gpud_error error;
        if (src_signal_stand_in(&self->signal, buffer))
            return GST_FLOW_OK;
        if (gst_gpudirect_src_is_held_off(self))
            continue;
        enum gpud_status status = take(self, &frame, &error);
        gboolean yielded = gst_gpudirect_src_end_yield(self) && status == GPUD_AGAIN, moved;
        GstFlowReturn flow = gst_gpudirect_src_take_updates(self, &moved);

        if (status == GPUD_OK && flow == GST_FLOW_OK && !moved &&
            !updates_end_link(&self->updates)) {
            if (is_stale(self, frame)) {
                skip(self, &frame);
                continue;
            }
            *buffer = NULL;
            flow = deliver(self, frame, buffer);
            if (flow == GST_FLOW_OK && *buffer && self->feed.group)
                flow = wait_for_group(self, buffer);
            if (flow != GST_FLOW_OK || *buffer)
                return flow;
            continue;
        }
        gpud_frame_release(&frame);
        if (flow == GST_FLOW_OK && self->frames > 0)
            gst_gpudirect_src_push_events(self, FALSE);
        if (flow == GST_FLOW_OK && updates_end_link(&self->updates))
            flow = gst_gpudirect_src_cut_link(self);
        else if (flow == GST_FLOW_OK && !yielded && !moved)
            flow = gst_gpudirect_src_no_frame(self, status, &error);
        if (flow != GST_FLOW_OK)
            return flow;
    }
}

/* The base class sends EOS after an error; receivers behind a link of ours must not take it for the
 * end of the stream. */
GstFlowReturn gst_gpudirect_src_create(GstPushSrc *push, GstBuffer **buffer)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(push);

    /* A pause is not downstream's. */
    if (self->returned_at && !g_atomic_int_get(&self->beginning.resumed))
        self->blocked_longest = MAX(self->blocked_longest, monotonic_now() - self->returned_at);
    GstFlowReturn flow = next(self, buffer);
    self->returned_at = monotonic_now();
    if (flow < GST_FLOW_EOS)
        gst_pad_push_event(GST_BASE_SRC_PAD(self), event_new_broken_off());
    return flow;
}
