/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc's loop: a frame becomes a buffer.
 *
 * Normally a buffer is the slot itself. Two things force a copy: downstream cannot read strides, or
 * it keeps so many buffers that the ring has no slot left, which would stop the stream for good. */
#include "endstats.h"
#include "errors.h"
#include "memory/pool.h"
#include "src/src.h"
#include "wire/event.h"
#include "wire/flags.h"
#include "wire/meta.h"

#define GST_CAT_DEFAULT gst_gpudirect_src_debug

/* How long downstream has to give a slot back before it gets a copy instead. */
#define HOARD_TIMEOUT (20 * G_TIME_SPAN_MILLISECOND)

/* An acquire that took so long has slept: none that finds a frame takes nearly that. */
#define SLEPT (200 * GST_USECOND)

/* --- what is known about the picture ------------------------------------------------------ */

static void note_drops(GstGpudirectSrc *self, guint64 dropped, GstBuffer *buffer)
{
    guint64 lost = dropped > self->dropped_seen ? dropped - self->dropped_seen : 0;

    self->dropped_seen = dropped;
    lost += self->skipped_unreported;
    self->skipped_unreported = 0;
    if (lost == 0)
        return;
    self->dropped_total += lost;
    GstClockTime pts = GST_BUFFER_PTS(buffer);
    GstMessage *message =
        gst_message_new_qos(GST_OBJECT(self), TRUE, pts, pts, pts, GST_BUFFER_DURATION(buffer));
    gst_message_set_qos_stats(message, GST_FORMAT_BUFFERS, self->frames, self->dropped_total);
    gst_element_post_message(GST_ELEMENT(self), message);
}

static void describe_linked(GstGpudirectSrc *self, const struct gpud_frame_info *info,
                            GstBuffer *buffer)
{
    struct wire_head head = {0};
    struct meta_loss loss = {self->lost_metas, GST_ELEMENT(self), self->names};

    head.drops = info->meta_size == 0; /* who says nothing may do so */
    if (!meta_decode(info->meta, info->meta_size, &head, buffer, &loss) && info->meta_size > 0)
        lost_metas_note(self->lost_metas, GST_ELEMENT(self), "unreadable",
                        "the sender's bytes are of no release that is known here");
    gst_gpudirect_src_stamp_linked(self, info, &head, buffer);
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

static void describe(GstGpudirectSrc *self, const struct gpud_frame_info *info, GstBuffer *buffer)
{
    frame_flags_to_buffer(info->flags, buffer);
    GST_BUFFER_DURATION(buffer) = wire_time(info->duration);
    GST_BUFFER_OFFSET(buffer) = info->offset;
    GST_BUFFER_OFFSET_END(buffer) = GST_BUFFER_OFFSET_NONE;
    if (self->input->ops->has_signal)
        set_fields(info->flags, buffer);
    if (self->input->ops->configure)
        gst_gpudirect_src_stamp_captured(self, info, buffer);
    else
        describe_linked(self, info, buffer);
    if (self->discont) {
        GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DISCONT);
        self->discont = FALSE;
    }
    self->frames++;
    end_stats_note(&self->stats_due);
    self->ended = FALSE;
    self->moves = 0;
    note_drops(self, info->dropped, buffer);
}

/* --- a frame becomes a buffer ------------------------------------------------------------- */

static gboolean must_copy(GstGpudirectSrc *self)
{
    gint limit = MAX(1, (gint)self->running.slots - 1);

    /* Elements that asked for a GPU's memory find the strides in it; those that take anything may
     * not. */
    if ((!self->gpu || self->follows) && !self->planes_default && !self->downstream_video_meta)
        return TRUE;
    return outstanding_count(self->outstanding) >= limit &&
           !outstanding_wait_below(self->outstanding, limit, HOARD_TIMEOUT);
}

GstFlowReturn gst_gpudirect_src_new_picture(GstGpudirectSrc *self, GstBuffer **buffer)
{
    GstBaseSrc *base = GST_BASE_SRC(self);

    if (!self->gpu)
        return GST_BASE_SRC_GET_CLASS(base)->alloc(base, 0, (guint)self->info.size, buffer);
    *buffer = gst_gpudirect_pool_stand_in(self->pool);
    return *buffer ? GST_FLOW_OK : GST_FLOW_ERROR;
}

static gboolean copy_by_cpu(GstGpudirectSrc *self, GstBuffer *slot, GstBuffer *to_buffer)
{
    GstVideoFrame from, to;
    gboolean copied = FALSE;

    if (gst_video_frame_map(&from, &self->info, slot, GST_MAP_READ)) {
        if (gst_video_frame_map(&to, &self->info, to_buffer,
                                GST_MAP_WRITE | (GstMapFlags)GST_VIDEO_FRAME_MAP_FLAG_NO_REF)) {
            copied = gst_video_frame_copy(&to, &from);
            gst_video_frame_unmap(&to);
        }
        gst_video_frame_unmap(&from);
    }
    if (copied)
        __atomic_fetch_add(&self->copies_cpu, 1, __ATOMIC_RELAXED);
    return copied;
}

GstFlowReturn gst_gpudirect_src_copy_picture(GstGpudirectSrc *self, GstBuffer *slot,
                                             GstBuffer **buffer)
{
    GstFlowReturn flow = gst_gpudirect_src_new_picture(self, buffer);

    if (flow != GST_FLOW_OK)
        return flow;
    if (self->gpu ? gpu_copy_picture(&self->info, slot, *buffer) : copy_by_cpu(self, slot, *buffer))
        return GST_FLOW_OK;
    gst_clear_buffer(buffer);
    return GST_FLOW_ERROR;
}

/* Caps and pool say how large a buffer is, so a frame of another layout must never become one,
 * whatever the sender said, or did not say, before it. */
static GstFlowReturn refuse_layout(GstGpudirectSrc *self, const struct gpud_layout *layout)
{
    const struct gpud_layout *wanted = &self->layout;
    gchar *name = layout_format_name(layout);

    GST_ELEMENT_ERROR(
        self, STREAM, FORMAT,
        ("A frame of %ux%u %s came where %ux%u %s was announced: the sender breaks the "
         "protocol, use a gpudirectsink of the same release.",
         layout->width, layout->height, name, wanted->width, wanted->height, wanted->format),
        ("%" G_GUINT64_FORMAT " bytes in %u planes instead of %" G_GUINT64_FORMAT " in %u",
         layout->size, layout->planes, wanted->size, wanted->planes));
    g_free(name);
    return GST_FLOW_ERROR;
}

/* A card's driver may put a picture elsewhere in its buffer than it did before (V4L2 calls it
 * data_offset), and a frame of another epoch is of another signal, or in other buffers: the core
 * may have gone on by another method. The pool, which knows each slot's memory, is made anew. */
static GstFlowReturn follow_card(GstGpudirectSrc *self, const struct gpud_frame_info *info)
{
    const struct gpud_layout *layout = &info->layout;
    const struct input_ops *ops = self->input->ops;
    gboolean first = ops->configure && !self->card_epoch;
    gboolean other = ops->configure && !first && self->card_epoch != info->epoch;

    /* The signal may have become another one since the caps were negotiated. */
    bool overtaken =
        first && !layout_is_equal(layout, &self->layout) && !layout_is_moved(layout, &self->layout);
    if ((other || overtaken) && ops->has_signal && !gst_gpudirect_src_follow_signal(self))
        return g_atomic_int_get(&self->flushing) ? GST_FLOW_FLUSHING : GST_FLOW_NOT_NEGOTIATED;
    gboolean moved = !layout_is_equal(layout, &self->layout);
    if (moved && (!ops->configure || !layout_is_moved(layout, &self->layout) ||
                  gpud_layout_check(layout, NULL) != GPUD_OK))
        return refuse_layout(self, layout);
    if (moved || (other && !ops->has_signal)) {
        GstCaps *caps = gst_pad_get_current_caps(GST_BASE_SRC_PAD(self));
        gboolean followed = caps && gst_gpudirect_src_set_format(self, caps, layout);
        gst_clear_caps(&caps);
        if (!followed)
            return refuse_layout(self, layout);
    }
    if (ops->configure && self->card_epoch != info->epoch) {
        self->card_epoch = info->epoch;
        g_object_notify(G_OBJECT(self), "active-path"); /* the first frame proves it */
        g_object_notify(G_OBJECT(self), "fallback-reason");
    }
    return GST_FLOW_OK;
}

static GstFlowReturn deliver(GstGpudirectSrc *self, struct gpud_frame *frame, GstBuffer **buffer)
{
    struct gpud_frame_info info;

    info.size = sizeof(info);
    if (!self->pool) {
        gpud_frame_release(&frame);
        GST_ELEMENT_ERROR(self, STREAM, FORMAT,
                          ("A frame came before its format: restart the sender."), (NULL));
        return GST_FLOW_ERROR;
    }
    gpud_frame_get_info(frame, &info);
    GstFlowReturn flow = follow_card(self, &info);
    if (flow != GST_FLOW_OK) {
        gpud_frame_release(&frame);
        return flow;
    }
    gboolean copy = must_copy(self);
    flow = gst_gpudirect_pool_wrap(self->pool, frame, buffer);
    if (flow == GST_FLOW_OK && copy) {
        GstBuffer *slot = g_steal_pointer(buffer);
        flow = gst_gpudirect_src_copy_picture(self, slot, buffer);
        gst_buffer_unref(slot);
        if (flow == GST_FLOW_ERROR)
            GST_ELEMENT_ERROR(self, RESOURCE, READ,
                              ("A frame cannot be copied: look at the log of gpudirectcore."),
                              (NULL));
    }
    if (flow != GST_FLOW_OK)
        return flow;
    describe(self, &info, *buffer);
    GST_LOG_OBJECT(self, "%s %" GST_PTR_FORMAT, copy ? "a copy:" : "a slot:", *buffer);
    gst_gpudirect_src_signal_here(self, *buffer);
    return GST_FLOW_OK;
}

/* --- the loop ----------------------------------------------------------------------------- */

/* Whether a sender's frame is no beginning: newer ones wait behind it, or no right time can be told
 * for it. */
static gboolean is_no_beginning(GstGpudirectSrc *self, const struct gpud_frame_info *info,
                                const struct wire_head *head)
{
    /* No more than the ring holds are skipped, so that frames of a sender that is always ahead are
     * shown. */
    if ((self->input->ops->count_frames(self->input) > 0 ||
         gst_gpudirect_src_is_arrival_unknown(self, info, head)) &&
        self->skipped_in_row++ < self->running.slots)
        return TRUE;
    return gst_gpudirect_src_is_past(self, info, head);
}

/* Whether a frame is to be skipped, after connecting and after a pause. Frames of a sender that
 * waits for slow receivers never are: whoever receives from it wants each of them. */
static gboolean is_stale(GstGpudirectSrc *self, struct gpud_frame *frame)
{
    struct gpud_frame_info info;
    struct wire_head head;

    info.size = sizeof(info);
    if (g_atomic_int_compare_and_exchange(&self->resumed, TRUE, FALSE)) {
        self->starting = TRUE;
        gst_gpudirect_src_break_times(self);
    }
    if (self->input->ops->has_signal)
        return gst_gpudirect_src_is_stale_capture(self, frame);
    if (!self->starting)
        return FALSE;
    gpud_frame_get_info(frame, &info);
    struct unpack unpack = {.data = info.meta, .left = info.meta_size};
    self->starting = gst_gpudirect_src_get_options(self).start == START_NEWEST &&
                     self->input->ops->count_frames && wire_head_unpack(&unpack, &head) &&
                     head.drops && is_no_beginning(self, &info, &head);
    if (!self->starting)
        self->skipped_in_row = 0;
    return self->starting;
}

static void skip(GstGpudirectSrc *self, struct gpud_frame **frame)
{
    gpud_frame_release(frame);
    gst_gpudirect_src_note_skipped(self);
    self->discont = TRUE;
    self->skipped_unreported++;
    __atomic_fetch_add(&self->skipped, 1, __ATOMIC_RELAXED);
}

/* Takes the next frame, and notes whether it had to be waited for. */
static enum gpud_status take(GstGpudirectSrc *self, struct gpud_frame **frame,
                             struct gpud_error *error)
{
    const struct input_ops *ops = self->input->ops;
    GstClockTime before = monotonic_now();
    gint64 max_wait = gst_gpudirect_src_max_wait(self, before);

    if (self->card_lost) {
        enum gpud_status back = ops->wait(self->input, max_wait, error);
        if (back != GPUD_OK)
            return back;
        gst_gpudirect_src_card_back(self);
    }
    gst_gpudirect_src_select_input(self);
    if (ops->count_frames)
        self->waited = ops->count_frames(self->input) == 0;
    enum gpud_status status = ops->acquire(self->input, max_wait, frame, error);
    GstClockTime now = monotonic_now();
    if (!ops->count_frames) /* to ask for one first would be a call to the driver for each frame */
        self->waited = now - before >= SLEPT;
    if (status == GPUD_OK)
        gst_gpudirect_src_note_taken(self, now);
    return status;
}

static GstFlowReturn next(GstGpudirectSrc *self, GstBuffer **buffer)
{
    for (;;) {
        struct gpud_frame *frame = NULL;
        struct gpud_error error;
        if (gst_gpudirect_src_stand_in(self, buffer))
            return GST_FLOW_OK;
        if (gst_gpudirect_src_is_held_off(self))
            continue;
        enum gpud_status status = take(self, &frame, &error);
        gboolean yielded = gst_gpudirect_src_end_yield(self) && status == GPUD_AGAIN, moved;
        GstFlowReturn flow = gst_gpudirect_src_take_updates(self, &moved);

        if (status == GPUD_OK && flow == GST_FLOW_OK && !moved &&
            !gst_gpudirect_src_must_cut(self)) {
            if (!is_stale(self, frame))
                return deliver(self, frame, buffer);
            skip(self, &frame);
            continue;
        }
        gpud_frame_release(&frame);
        if (flow == GST_FLOW_OK && self->waiting.length > 0 && self->frames > 0)
            gst_gpudirect_src_push_events(self, FALSE);
        if (flow == GST_FLOW_OK && gst_gpudirect_src_must_cut(self))
            flow = gst_gpudirect_src_cut_link(self);
        else if (flow == GST_FLOW_OK && !yielded && !moved)
            flow = gst_gpudirect_src_no_frame(self, status, &error);
        if (flow != GST_FLOW_OK)
            return flow;
    }
}

/* The base class lets an EOS follow an error, which no receiver behind a link of ours shall take
 * for the end of the stream. */
GstFlowReturn gst_gpudirect_src_create(GstPushSrc *push, GstBuffer **buffer)
{
    GstGpudirectSrc *self = GST_GPUDIRECT_SRC(push);
    GstFlowReturn flow = next(self, buffer);

    if (flow < GST_FLOW_EOS)
        gst_pad_push_event(GST_BASE_SRC_PAD(self), event_new_broken_off());
    return flow;
}
