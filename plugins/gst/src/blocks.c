/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/blocks.h"

#include "wire/blocks.h"
#include "wire/timing.h"

gboolean blocks_set_format(struct blocks *blocks, const struct gpud_media *media, GstCaps *caps)
{
    blocks->expected = media->kind != GPUD_MEDIA_PICTURE;
    blocks->are_sound = blocks_are_sound(media);
    if (blocks->are_sound && !gst_audio_info_from_caps(&blocks->info, caps))
        return FALSE;
    return blocks->expected;
}

static gsize samples_of(const struct blocks *blocks, gsize bytes)
{
    return bytes / (gsize)blocks->info.bpf;
}

/* Each channel's samples, where they lie apart, or all. */
static void fill(const struct blocks *blocks, GstBuffer *buffer, const guint8 *data, gsize bytes,
                 gsize skipped)
{
    gboolean apart = blocks->are_sound && blocks->info.layout == GST_AUDIO_LAYOUT_NON_INTERLEAVED;
    gsize planes = apart ? (gsize)blocks->info.channels : 1;
    gsize plane = bytes / planes, left = (bytes - skipped) / planes;

    for (gsize i = 0; i < planes; i++)
        gst_buffer_fill(buffer, i * left, data + i * plane + (plane - left), left);
}

enum gpud_status blocks_copy(const struct blocks *blocks, struct gpud_frame *frame, guint skip,
                             GstAllocator *allocator, struct counters *counters, GstBuffer **buffer,
                             struct gpud_error *error)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    void *data;

    gpud_frame_get_info(frame, &info);
    enum gpud_status status = gpud_frame_map(frame, GPUD_READ, GPUD_SEC, &data, error);
    if (status != GPUD_OK)
        return status;
    gsize skipped = blocks->are_sound ? skip * (gsize)blocks->info.bpf : 0;
    gsize size = info.bytes > skipped ? (gsize)info.bytes - skipped : 0;
    *buffer = gst_buffer_new_allocate(allocator, size, NULL);
    if (!*buffer) /* of a file, say, where descriptors run out */
        *buffer = gst_buffer_new_allocate(NULL, size, NULL);
    fill(blocks, *buffer, data, (gsize)info.bytes, (gsize)info.bytes - size);
    gpud_frame_unmap(frame);
    counter_add(&counters->copies_cpu);
    if (blocks->are_sound && blocks->info.layout == GST_AUDIO_LAYOUT_NON_INTERLEAVED)
        gst_buffer_add_audio_meta(*buffer, &blocks->info, samples_of(blocks, size), NULL);
    return GPUD_OK;
}

static guint64 moved_by(guint64 time, gint64 by)
{
    return GST_CLOCK_TIME_IS_VALID(wire_time(time)) ? time + (guint64)by : time;
}

void blocks_skip(const struct blocks *blocks, guint skip, struct gpud_frame_info *info)
{
    if (!blocks->are_sound || skip == 0)
        return;
    gint64 time = (gint64)gst_util_uint64_scale(skip, GST_SECOND, (guint64)blocks->info.rate);
    info->pts_ns = moved_by(info->pts_ns, time);
    info->dts_ns = moved_by(info->dts_ns, time);
    info->duration_ns = moved_by(info->duration_ns, -MIN(time, (gint64)info->duration_ns));
    if (info->offset != GST_BUFFER_OFFSET_NONE)
        info->offset += skip;
}

void blocks_describe(const struct blocks *blocks, GstBuffer *buffer)
{
    /* Of a part, if the sender split the buffer. */
    if (blocks->are_sound)
        GST_BUFFER_OFFSET_END(buffer) =
            GST_BUFFER_OFFSET_IS_VALID(buffer)
                ? GST_BUFFER_OFFSET(buffer) + samples_of(blocks, gst_buffer_get_size(buffer))
                : GST_BUFFER_OFFSET_NONE;
}
