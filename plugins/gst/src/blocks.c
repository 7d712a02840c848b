/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/blocks.h"

#include "wire/blocks.h"

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

enum gpud_status blocks_copy(const struct blocks *blocks, struct gpud_frame *frame,
                             GstAllocator *allocator, struct counters *counters, GstBuffer **buffer,
                             struct gpud_error *error)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    void *data;

    gpud_frame_get_info(frame, &info);
    enum gpud_status status = gpud_frame_map(frame, GPUD_READ, GPUD_SEC, &data, error);
    if (status != GPUD_OK)
        return status;
    *buffer = gst_buffer_new_allocate(allocator, (gsize)info.bytes, NULL);
    if (!*buffer) /* of a file, say, where descriptors run out */
        *buffer = gst_buffer_new_allocate(NULL, (gsize)info.bytes, NULL);
    gst_buffer_fill(*buffer, 0, data, (gsize)info.bytes);
    gpud_frame_unmap(frame);
    counter_add(&counters->copies_cpu);
    if (blocks->are_sound && blocks->info.layout == GST_AUDIO_LAYOUT_NON_INTERLEAVED)
        gst_buffer_add_audio_meta(*buffer, &blocks->info, samples_of(blocks, (gsize)info.bytes),
                                  NULL);
    return GPUD_OK;
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
