/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The path of a buffer through gpudirectsink.
 *
 * A buffer of the proposed pool is already a slot, and is submitted without a copy. The sink keeps
 * the frame, because other elements may still hold the buffer (tee), or push it again (imagefreeze,
 * videorate); the frame is released with the last reference to its memory. Receivers hold the slot
 * independently of that. */
#include "sink/render.h"

#include "base/errors.h"
#include "memory/dmabuf.h"
#include "memory/gpuframe.h"
#include "memory/map.h"
#include "memory/pool.h"
#include "sink/blocks.h"
#include "sink/copy.h"
#include "sink/device.h"
#include "sink/dmabufs.h"
#include "sink/events.h"
#include "sink/policy.h"
#include "sink/report.h"
#include "sink/standby.h"
#include "sink/wait.h"
#include "wire/blocks.h"
#include "wire/dmabufcaps.h"

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

/* The longest interval, in frames, between queries whether upstream is live. */
#define FRAMES_BETWEEN_QUERIES 64

void gst_gpudirect_sink_reset_stream(GstGpudirectSink *self)
{
    gst_gpudirect_sink_drop_prepared(self);
    if (self->copies.pool)
        gst_buffer_pool_set_active(self->copies.pool, FALSE);
    gst_clear_object(&self->copies.pool);
    self->format.configured = FALSE;
    self->format.gpu = NULL;
    self->reported.lack = FALSE;
    self->frames = 0;
}

/* --- caps and allocation ------------------------------------------------------------------ */

/* lent: to upstream. */
static GstBufferPool *new_pool(GstGpudirectSink *self, GstCaps *caps, gboolean lent)
{
    struct slot_pool_params params = {
        .info = &self->format.slot_info,
        .gpu = self->format.gpu,
        .dmabufs = self->format.dmabufs && lent,
        .sender = self->sender,
        .counters = self->endpoint.counters,
    };
    return gst_gpudirect_pool_new(&params, caps);
}

static gboolean refuse_caps(GstGpudirectSink *self, GstCaps *caps)
{
    GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("These caps describe no frame that can be sent."),
                      ("%" GST_PTR_FORMAT, caps));
    return FALSE;
}

static const struct gpu_vendor *gpu_vendor(const GstGpudirectSink *self)
{
    return self->format.gpu ? self->format.gpu->vendor : NULL;
}

static gboolean configure(GstGpudirectSink *self, const struct gpud_media *media)
{
    struct gpud_error error;

    self->format.dmabufs = gst_gpudirect_sink_wants_dmabufs(self);
    if (shared_sender_configure(self->sender, media, self->format.dmabufs, &error) == GPUD_OK) {
        gst_gpudirect_sink_tell_dmabufs(self);
        if (self->sender_is_new)
            gst_gpudirect_sink_repeat_events(self);
        self->sender_is_new = FALSE;
        self->live_known = gst_gpudirect_sink_query_live(self);
        return TRUE;
    }
    gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_WRITE, &error, "The new format cannot be sent");
    return FALSE;
}

static gboolean configure_blocks(GstGpudirectSink *self)
{
    struct gpud_layout layout;

    gst_video_info_init(&self->format.info);
    self->format.slot_info = self->format.info;
    if (gpud_media_get_layout(&self->format.media, &layout, NULL) == GPUD_OK)
        self->format.slot_info.size = (gsize)layout.size;
    self->format.configured = configure(self, &self->format.media);
    return self->format.configured;
}

static gboolean sends_blocks(const GstGpudirectSink *self)
{
    return self->format.media.kind != GPUD_MEDIA_PICTURE;
}

static gboolean sink_set_caps(GstBaseSink *base, GstCaps *caps)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);
    const struct gpu_vendor *vendor = gpu_vendor_of_caps(caps);
    struct gpud_media media;
    GstVideoInfo info;
    guint left_out;

    if (!media_from_caps(&media, caps, &left_out) ||
        !(media.kind == GPUD_MEDIA_PICTURE ? video_info_from_caps(&info, caps)
                                           : gst_gpudirect_sink_size_blocks(self, caps, &media)))
        return refuse_caps(self, caps);
    if (left_out > 0)
        GST_WARNING_OBJECT(self, "too long to travel with all fields: %" GST_PTR_FORMAT, caps);
    gboolean in_dmabufs = caps_are_dmabufs(caps);
    if (self->format.configured && vendor == gpu_vendor(self) &&
        in_dmabufs == self->format.in_dmabufs && gpud_media_equal(&media, &self->format.media))
        return TRUE;

    gst_gpudirect_sink_reset_stream(self);
    if (!gst_gpudirect_sink_follow(self, vendor))
        return FALSE;
    self->format.media = media;
    self->format.in_dmabufs = in_dmabufs;
    if (media.kind != GPUD_MEDIA_PICTURE)
        return configure_blocks(self);
    self->format.info = self->format.slot_info = info;
    if (self->format.gpu)
        gpu_align_info(self->format.gpu, &self->format.slot_info);
    if (!layout_from_info(&media.picture.layout, &self->format.slot_info))
        return refuse_caps(self, caps);
    if (!configure(self, &media))
        return FALSE;
    GST_DEBUG_OBJECT(self, "slots of %" G_GSIZE_FORMAT " bytes on %s for %" GST_PTR_FORMAT,
                     self->format.slot_info.size, self->format.gpu ? "a GPU" : "the host", caps);
    GstCaps *slot_caps = in_dmabufs ? caps_out_of_dmabufs(caps) : gst_caps_ref(caps);
    self->copies.pool = new_pool(self, slot_caps, FALSE);
    gst_caps_unref(slot_caps);
    self->format.configured =
        self->copies.pool && gst_buffer_pool_set_active(self->copies.pool, TRUE);
    return self->format.configured;
}

static gboolean sink_propose_allocation(GstBaseSink *base, GstQuery *query)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);
    GstVideoInfo info;
    GstCaps *caps;
    gboolean need_pool;

    gst_query_parse_allocation(query, &caps, &need_pool);
    if (caps && blocks_are_caps(caps)) {
        gst_query_add_allocation_meta(query, GST_AUDIO_META_API_TYPE, NULL);
        return TRUE;
    }
    if (!caps || !video_info_from_caps(&info, caps))
        return FALSE;
    if (need_pool) {
        /* Slots exist for the current caps only; upstream may query with other ones first. */
        gboolean current = self->format.configured &&
                           gst_video_info_is_equal(&info, &self->format.info) &&
                           gpu_vendor_of_caps(caps) == gpu_vendor(self) &&
                           caps_are_dmabufs(caps) == self->format.in_dmabufs;
        gboolean has_slots = current && (self->format.dmabufs || !self->format.in_dmabufs);
        GstBufferPool *pool = has_slots ? new_pool(self, caps, TRUE) : NULL;
        gsize size = current ? self->format.slot_info.size : info.size;
        gst_query_add_allocation_pool(query, pool, (guint)size, 0, 0);
        gst_clear_object(&pool);
    }
    gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL);
    GST_DEBUG_OBJECT(self, "upstream may use this: %" GST_PTR_FORMAT, query);
    return TRUE;
}

/* --- one frame ---------------------------------------------------------------------------- */

static GstFlowReturn not_submitted(GstGpudirectSink *self, const struct gpud_error *error)
{
    gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_WRITE, error, "A frame cannot be sent");
    return GST_FLOW_ERROR;
}

/* Ordering queues through a GPU's driver takes as long as waking a receiver, so both overlap. On
 * the host, a receiver that wakes early would only compete for the CPU. */
static void wake_receivers_early(GstGpudirectSink *self)
{
    if (self->format.gpu)
        gpud_sender_announce(shared_sender_core(self->sender));
}

/* The buffer's slot, if it is one of the current epoch; else NULL. */
static struct slot_memory *own_slot(GstGpudirectSink *self, GstBuffer *buffer)
{
    struct slot_memory *slot = slot_memory_of_buffer(buffer);

    if (!slot || slot->sender != self->sender || slot->epoch != shared_sender_epoch(self->sender) ||
        !slot->frame)
        return NULL;
    return slot;
}

/* Whether other elements may hold the slot: branches of a tee, say. A copy is the sink's alone. */
static gboolean is_shared(const struct slot_memory *slot, GstBuffer *buffer)
{
    return gst_buffer_peek_memory(buffer, 0) == slot->memory &&
           (GST_MINI_OBJECT_REFCOUNT_VALUE(buffer) > 1 ||
            GST_MINI_OBJECT_REFCOUNT_VALUE(slot->memory) > 1);
}

/* buffer: its times and metas describe the picture in the slot. If *use is not SLOT_FREE, nothing
 * was sent, and the caller must copy. */
static GstFlowReturn submit_slot(GstGpudirectSink *self, struct slot_memory *slot,
                                 GstBuffer *buffer, enum slot_use *use)
{
    GstFlowReturn flow = GST_FLOW_OK;
    struct gpud_frame_info info;
    struct gpud_error error;
    enum gpud_status status;

    info.size = sizeof(info);
    wake_receivers_early(self);
    gst_gpudirect_sink_describe(self, buffer, &info);
    slot->store->kind->leaving(slot);
    *use = slot_memory_begin_submit(slot, is_shared(slot, buffer), &info);
    if (*use != SLOT_FREE)
        return GST_FLOW_OK;
    do {
        status = gpud_sender_submit_keep(shared_sender_core(self->sender), slot->frame, SINK_WAIT,
                                         &error);
        if (status != GPUD_OK)
            flow = gst_gpudirect_sink_may_retry(self, status);
    } while (status != GPUD_OK && flow == GST_FLOW_OK);
    return flow == GST_FLOW_ERROR ? not_submitted(self, &error) : flow;
}

static GstFlowReturn submit_wrapped(GstGpudirectSink *self, struct gpud_frame *frame,
                                    GstBuffer *buffer)
{
    GstFlowReturn flow = GST_FLOW_OK;
    struct gpud_frame_info info;
    struct gpud_error error;
    enum gpud_status status;

    info.size = sizeof(info);
    wake_receivers_early(self);
    gst_gpudirect_sink_describe(self, buffer, &info);
    gpud_frame_set_info(frame, &info, NULL);
    do {
        status = gpud_sender_submit(shared_sender_core(self->sender), &frame, SINK_WAIT, &error);
        if (status != GPUD_OK)
            flow = gst_gpudirect_sink_may_retry(self, status);
    } while (status != GPUD_OK && flow == GST_FLOW_OK);
    gpud_frame_release(&frame);
    return flow == GST_FLOW_ERROR ? not_submitted(self, &error) : flow;
}

/* Whether the CPU copies host buffers into slots: it does if the slot is host memory, or the device
 * maps it as pinned memory, since pinning the buffer would take longer. OpenCL devices read the
 * buffer themselves. */
static gboolean copies_itself(GstGpudirectSink *self)
{
    return !self->format.gpu && !self->reads_buffers;
}

static GstFlowReturn submit_from_gpu(GstGpudirectSink *self, GstBuffer *buffer)
{
    struct gpud_error error;
    struct gpud_frame *frame =
        gpu_wrap_buffer(self->format.gpu->vendor, buffer, self->endpoint.counters, &error);

    return frame ? submit_wrapped(self, frame, buffer) : not_submitted(self, &error);
}

static GstFlowReturn submit_copy(GstGpudirectSink *self, GstBuffer *buffer)
{
    GstFlowReturn flow = GST_FLOW_OK;
    enum gpud_status status;
    enum slot_use use;

    while ((status = gst_gpudirect_sink_copy(self, buffer, SINK_WAIT)) != GPUD_OK &&
           (flow = gst_gpudirect_sink_may_retry(self, status)) == GST_FLOW_OK)
        ;
    if (flow != GST_FLOW_OK)
        return flow;
    flow = submit_slot(self, slot_memory_of(gst_buffer_peek_memory(self->copies.slot, 0)), buffer,
                       &use);
    gst_gpudirect_sink_drop_prepared(self);
    return flow;
}

/* use: that of the buffer's slot; SLOT_FREE: the buffer is no slot that can be sent as it is. */
static GstFlowReturn submit_foreign(GstGpudirectSink *self, GstBuffer *buffer, enum slot_use use)
{
    struct gpud_frame *frame = NULL;

    if (self->format.gpu)
        return submit_from_gpu(self, buffer);
    if ((use == SLOT_READ || gst_gpudirect_sink_may_pass(self, buffer)) &&
        (frame = gst_gpudirect_sink_pass(self, buffer)))
        return submit_wrapped(self, frame, buffer);
    if (gst_gpudirect_sink_may_import(self, buffer) &&
        (frame = gst_gpudirect_sink_import(self, buffer)))
        return submit_wrapped(self, frame, buffer);
    if (!copies_itself(self) && (frame = gst_gpudirect_sink_wrap(self, buffer)))
        return submit_wrapped(self, frame, buffer);
    return submit_copy(self, buffer);
}

/* --- before and after a frame ------------------------------------------------------------- */

static GstFlowReturn sink_prepare(GstBaseSink *base, GstBuffer *buffer)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);

    if (!self->format.configured || sends_blocks(self) || own_slot(self, buffer) ||
        !copies_itself(self) || gst_gpudirect_sink_may_pass(self, buffer) ||
        gst_gpudirect_sink_may_import(self, buffer) || sink_clients_count(&self->clients) == 0 ||
        !dmabuf_wait_for_buffer(buffer, 0) ||
        !layout_buffer_holds_picture(&self->format.info, buffer))
        return GST_FLOW_OK;
    /* If no slot is free, render() waits for one. */
    enum gpud_status status = gst_gpudirect_sink_copy(self, buffer, 0);
    return status == GPUD_OK || status == GPUD_TIMEOUT || status == GPUD_AGAIN ? GST_FLOW_OK
                                                                               : GST_FLOW_ERROR;
}

/* Upstream may learn whether it is live only with its first frames, and some elements never answer.
 * A query costs more than everything else that the sink does for a frame, so it backs off. */
static gboolean may_know_live(guint frames)
{
    return frames < FRAMES_BETWEEN_QUERIES ? (frames & (frames - 1)) == 0
                                           : frames % FRAMES_BETWEEN_QUERIES == 0;
}

static GstFlowReturn sink_render(GstBaseSink *base, GstBuffer *buffer)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);

    if (!self->format.configured)
        return GST_FLOW_NOT_NEGOTIATED;
    if (!sends_blocks(self) && !gst_gpudirect_sink_check(self, buffer))
        return GST_FLOW_OK;
    if (!self->live_known && may_know_live(self->frames))
        self->live_known = gst_gpudirect_sink_query_live(self);
    if (gst_gpudirect_sink_stands_by(self))
        return GST_FLOW_OK;
    GstFlowReturn flow = gst_gpudirect_sink_wait_for_client(self);
    if (flow != GST_FLOW_OK)
        return flow;
    gst_gpudirect_sink_send_unsent(self);
    gst_gpudirect_sink_tell_opened(self);
    gboolean written;
    flow = gst_gpudirect_sink_await_writes(self, buffer, &written);
    if (flow != GST_FLOW_OK || !written)
        return flow;
    /* Without a receiver a copy is not worth making. */
    gboolean copies = gst_gpudirect_sink_waits(self) || sink_clients_count(&self->clients) > 0;
    if (sends_blocks(self)) {
        flow = copies ? gst_gpudirect_sink_submit_blocks(self, buffer) : GST_FLOW_OK;
        gst_gpudirect_sink_report(self, buffer);
        return flow;
    }
    struct slot_memory *slot = own_slot(self, buffer);
    enum slot_use use = SLOT_FREE;
    GST_LOG_OBJECT(self, "%s %" GST_PTR_FORMAT, slot ? "a slot:" : "no slot:", buffer);
    if (slot)
        flow = submit_slot(self, slot, buffer, &use);
    if ((!slot || use != SLOT_FREE) && flow == GST_FLOW_OK && copies)
        flow = submit_foreign(self, buffer, use);
    gst_gpudirect_sink_report(self, buffer);
    return flow;
}

/* --- time --------------------------------------------------------------------------------- */

static void sink_get_times(GstBaseSink *base, GstBuffer *buffer, GstClockTime *start,
                           GstClockTime *end)
{
    GstGpudirectSink *self = GST_GPUDIRECT_SINK(base);
    const GstVideoInfo *info = &self->format.info;

    *start = GST_BUFFER_PTS_IS_VALID(buffer) ? GST_BUFFER_PTS(buffer) : GST_BUFFER_DTS(buffer);
    if (!GST_CLOCK_TIME_IS_VALID(*start))
        return;
    if (GST_BUFFER_DURATION_IS_VALID(buffer))
        *end = *start + GST_BUFFER_DURATION(buffer);
    else if (self->format.configured && info->fps_n > 0)
        *end = *start + layout_interval(info);
}

void gst_gpudirect_sink_class_init_render(GstBaseSinkClass *klass)
{
    klass->set_caps = sink_set_caps;
    klass->propose_allocation = sink_propose_allocation;
    klass->prepare = sink_prepare;
    klass->render = sink_render;
    klass->get_times = sink_get_times;
}
