/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sound and data. A buffer is copied into a slot, of which only that much is sent. Sound that is
 * longer than a slot is split between samples. Larger data gets a ring of larger slots. */
#include "sink/blocks.h"

#include "base/errors.h"
#include "sink/events.h"
#include "sink/policy.h"
#include "sink/wait.h"
#include "wire/blocks.h"
#include "wire/event.h"

#include <string.h>

#define GST_CAT_DEFAULT gst_gpudirect_sink_debug

/* The slots of data: at first, and at most. They grow to this many times what is needed, because
 * each time is a new ring for all receivers. */
#define DATA_FIRST (UINT64_C(64) << 10)
#define DATA_LARGEST (UINT64_C(16) << 20)
#define DATA_GROWTH 4

/* After a receiver was waited for in vain, there is no waiting for so many times as long, and twice
 * that the next time, up to a limit. */
#define IMPATIENCE 10
#define IMPATIENCE_DOUBLINGS 5

/* A part of a buffer, at the same offset in each plane. */
struct part {
    GstBuffer *buffer;
    guint planes;
    gsize offsets[GPUD_AUDIO_CHANNELS_MAX];
    gsize bytes; /* of a plane */
};

gboolean gst_gpudirect_sink_size_blocks(GstGpudirectSink *self, const GstCaps *caps,
                                        struct gpud_media *media)
{
    const struct gpud_media *last = &self->format.media;

    if (!blocks_are_caps(caps))
        return FALSE;
    if (blocks_are_sound(media)) {
        media->audio.block = CLAMP(media->audio.rate / 10, 1, GPUD_AUDIO_BLOCK_MAX);
        return gst_audio_info_from_caps(&self->format.audio, caps);
    }
    media->data.max_size = CLAMP(media->data.max_size, DATA_FIRST, DATA_LARGEST);
    if (self->format.configured && last->kind == media->kind &&
        g_str_equal(last->data.type, media->data.type))
        media->data.max_size = MAX(media->data.max_size, last->data.max_size);
    return TRUE;
}

static void refuse(GstGpudirectSink *self, GstBuffer *buffer, const gchar *reason)
{
    if (__atomic_fetch_add(&self->malformed, 1, __ATOMIC_RELAXED) == 0)
        GST_ELEMENT_WARNING(self, STREAM, FORMAT,
                            ("A buffer of %" G_GSIZE_FORMAT " bytes is dropped: %s. The stats "
                             "count those that follow (dropped-malformed).",
                             gst_buffer_get_size(buffer), reason),
                            (NULL));
    else
        GST_WARNING_OBJECT(self, "%s: %" GST_PTR_FORMAT, reason, buffer);
}

static GstFlowReturn fail(GstGpudirectSink *self, const struct gpud_error *error)
{
    gpud_gst_error_post(GST_ELEMENT(self), GPUD_GST_WRITE, error, "A block cannot be sent");
    return GST_FLOW_ERROR;
}

/* --- patience ----------------------------------------------------------------------------- */

/* A live stream drops what a receiver does not take in time. The parts of one buffer, which come at
 * once, are not late, and wait for it: for a limited time, so that a receiver that has stopped
 * holds up the others for a fraction of theirs at most. */
static void begin_patience(GstGpudirectSink *self, GstClockTime most)
{
    gint64 now = g_get_monotonic_time();

    if (gst_gpudirect_sink_policy(self) == GPUD_SLOW_BLOCK || now < self->patience.none_until)
        return;
    self->patience.since = now;
    self->patience.until = now + (gint64)GST_TIME_AS_USECONDS(most);
    shared_sender_set_slow_receiver(self->sender, GPUD_SLOW_BLOCK);
}

static void end_patience(GstGpudirectSink *self)
{
    if (!self->patience.until)
        return;
    gst_gpudirect_sink_apply_policy(self);
    self->patience.until = 0;
    self->patience.in_vain = 0;
}

/* How long the core may wait. */
static gint64 get_timeout(const GstGpudirectSink *self)
{
    gint64 left = (self->patience.until - g_get_monotonic_time()) * GPUD_USEC;

    return self->patience.until ? CLAMP(left, 0, SINK_WAIT) : SINK_WAIT;
}

static GstFlowReturn may_retry(GstGpudirectSink *self, enum gpud_status status)
{
    gint64 now = g_get_monotonic_time();

    if (status == GPUD_TIMEOUT && self->patience.until && now >= self->patience.until) {
        GST_INFO_OBJECT(self, "a receiver does not take the parts of a buffer in time");
        self->patience.none_until =
            now + (IMPATIENCE << self->patience.in_vain) * (now - self->patience.since);
        self->patience.in_vain = MIN(self->patience.in_vain + 1, IMPATIENCE_DOUBLINGS);
        gst_gpudirect_sink_apply_policy(self);
        self->patience.until = 0;
    }
    return gst_gpudirect_sink_may_retry(self, status);
}

/* --- a block ------------------------------------------------------------------------------ */

static enum gpud_status fill(const struct part *part, struct gpud_frame *frame,
                             const struct gpud_frame_info *info, struct gpud_error *error)
{
    void *data;
    enum gpud_status status = gpud_frame_set_size(frame, part->bytes * part->planes, error);

    if (status == GPUD_OK)
        status = gpud_frame_map(frame, GPUD_WRITE, GPUD_SEC, &data, error);
    if (status != GPUD_OK)
        return status;
    for (guint i = 0; i < part->planes; i++)
        gst_buffer_extract(part->buffer, part->offsets[i], (gchar *)data + i * part->bytes,
                           part->bytes);
    gpud_frame_unmap(frame);
    return gpud_frame_set_info(frame, info, error);
}

static GstFlowReturn submit(GstGpudirectSink *self, const struct part *part,
                            const struct gpud_frame_info *info)
{
    struct gpud_sender *core = shared_sender_core(self->sender);
    struct gpud_frame *frame = NULL;
    GstFlowReturn flow = GST_FLOW_OK;
    struct gpud_error error;
    enum gpud_status status;

    while ((status = gpud_sender_acquire(core, get_timeout(self), &frame, &error)) != GPUD_OK)
        if ((flow = may_retry(self, status)) != GST_FLOW_OK)
            return flow == GST_FLOW_ERROR ? fail(self, &error) : flow;
    if (fill(part, frame, info, &error) != GPUD_OK)
        flow = GST_FLOW_ERROR;
    while (flow == GST_FLOW_OK &&
           (status = gpud_sender_submit(core, &frame, get_timeout(self), &error)) != GPUD_OK)
        flow = may_retry(self, status);
    gpud_frame_release(&frame);
    return flow == GST_FLOW_ERROR ? fail(self, &error) : flow;
}

/* --- sound -------------------------------------------------------------------------------- */

static GstClockTime running_time_of(GstGpudirectSink *self, gsize samples)
{
    guint64 rate = (guint64)self->format.audio.rate;

    return event_running_duration(&GST_BASE_SINK(self)->segment,
                                  gst_util_uint64_scale(samples, GST_SECOND, rate));
}

/* The times of the samples from `first` on; metas, and what applies to the first sample alone, go
 * with the first part. */
static void shift(GstGpudirectSink *self, GstBuffer *buffer, struct gpud_frame_info *info,
                  gsize first, gsize samples)
{
    if (first > 0) {
        GstBuffer *rest = gst_buffer_new();
        gst_buffer_copy_into(rest, buffer, GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS, 0,
                             0);
        GST_BUFFER_FLAG_UNSET(rest, GST_BUFFER_FLAG_DISCONT | GST_BUFFER_FLAG_RESYNC);
        gst_gpudirect_sink_describe(self, rest, info);
        gst_buffer_unref(rest);
        if (info->pts_ns != GPUD_TIME_NONE)
            info->pts_ns += running_time_of(self, first);
        if (info->offset != GST_BUFFER_OFFSET_NONE)
            info->offset += first;
    }
    info->duration_ns = running_time_of(self, first + samples) - running_time_of(self, first);
}

static GstFlowReturn submit_sound(GstGpudirectSink *self, GstBuffer *buffer,
                                  struct gpud_frame_info *info)
{
    gboolean planar = self->format.audio.layout == GST_AUDIO_LAYOUT_NON_INTERLEAVED;
    gsize frame = (gsize)self->format.audio.bpf, total, offsets[GPUD_AUDIO_CHANNELS_MAX];
    struct part part = {.buffer = buffer,
                        .planes = planar ? (guint)self->format.audio.channels : 1};
    GstFlowReturn flow = GST_FLOW_OK;

    if (!blocks_find_samples(&self->format.audio, buffer, &total, offsets)) {
        refuse(self, buffer, "it does not hold whole samples of its caps");
        return GST_FLOW_OK;
    }
    frame /= part.planes;
    for (gsize first = 0; first < total && flow == GST_FLOW_OK;) {
        gsize samples = MIN(total - first, (gsize)self->format.media.audio.block);
        for (guint i = 0; i < part.planes; i++)
            part.offsets[i] = offsets[i] + first * frame;
        part.bytes = samples * frame;
        if (samples < total)
            shift(self, buffer, info, first, samples);
        flow = submit(self, &part, info);
        if (first == 0 && samples < total)
            begin_patience(self, running_time_of(self, total));
        first += samples;
    }
    end_patience(self);
    return flow;
}

/* --- data --------------------------------------------------------------------------------- */

static gboolean grow(GstGpudirectSink *self, guint64 size)
{
    struct gpud_error error;

    while (self->format.media.data.max_size < MIN(DATA_GROWTH * size, DATA_LARGEST))
        self->format.media.data.max_size *= 2;
    self->format.slot_info.size = (gsize)self->format.media.data.max_size;
    GST_DEBUG_OBJECT(self, "slots of %" G_GSIZE_FORMAT " bytes", self->format.slot_info.size);
    self->format.configured =
        shared_sender_configure(self->sender, &self->format.media, FALSE, &error) == GPUD_OK;
    if (!self->format.configured)
        fail(self, &error);
    return self->format.configured;
}

static GstFlowReturn submit_data(GstGpudirectSink *self, GstBuffer *buffer,
                                 const struct gpud_frame_info *info)
{
    struct part part = {.buffer = buffer, .planes = 1, .bytes = gst_buffer_get_size(buffer)};

    if (part.bytes > DATA_LARGEST) {
        refuse(self, buffer, "a block of data can have 16 MiB");
        return GST_FLOW_OK;
    }
    if (part.bytes > self->format.media.data.max_size && !grow(self, part.bytes))
        return GST_FLOW_ERROR;
    return submit(self, &part, info);
}

/* No data at a time are data, too: a picture without a caption. A block has a byte at least, so
 * they become a gap. */
static void submit_nothing(GstGpudirectSink *self, GstBuffer *buffer)
{
    gpointer state = NULL;
    GstMeta *meta;

    if (!GST_BUFFER_PTS_IS_VALID(buffer)) {
        refuse(self, buffer, "it is empty, and has no time that a gap could have");
        return;
    }
    while ((meta = gst_buffer_iterate_meta(buffer, &state)))
        lost_metas_note(self->endpoint.lost_metas, GST_ELEMENT(self), g_type_name(meta->info->type),
                        "its buffer is empty, and becomes a gap");
    gst_gpudirect_sink_send_gap(self, buffer);
}

GstFlowReturn gst_gpudirect_sink_submit_blocks(GstGpudirectSink *self, GstBuffer *buffer)
{
    struct gpud_frame_info info;

    if (gst_buffer_get_size(buffer) == 0) {
        if (!blocks_are_sound(&self->format.media))
            submit_nothing(self, buffer);
        return GST_FLOW_OK;
    }
    info.size = sizeof(info);
    gst_gpudirect_sink_describe(self, buffer, &info);
    return blocks_are_sound(&self->format.media) ? submit_sound(self, buffer, &info)
                                                 : submit_data(self, buffer, &info);
}
