/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Everything in the plugin that reads a peer's bytes, called with the same bytes: bytes that make
 * GStreamer complain end the run, as an application may have asked for that (G_DEBUG). The corpus
 * is tests/fuzz/wire_seeds'; tests/fuzz/run searches for more. */
#include "wire_fuzz.h"

#include "wire/codec.h"

#include <stdlib.h>
#include <string.h>

static void read_meta(const uint8_t *bytes, size_t size)
{
    GstBuffer *buffer = gst_buffer_new();
    struct meta_loss loss = {lost_metas_new(NULL), NULL};
    struct wire_head head;

    meta_decode(bytes, (uint32_t)size, &head, buffer, &loss);
    meta_decode_large(bytes, size, buffer, &loss);
    /* Whatever came out must survive what elements do with it. */
    wire_use_metas(buffer);
    GstBuffer *copy = gst_buffer_copy(buffer);
    uint8_t again[GPUD_FRAME_META_MAX];
    struct meta_large large = {NULL};
    meta_encode(copy, &head, again, &large, &loss);
    g_free(large.data);
    lost_metas_free(loss.lost);
    gst_buffer_unref(copy);
    gst_buffer_unref(buffer);
}

static void read_event(uint32_t kind, const uint8_t *bytes, size_t size)
{
    struct wire_event event;

    if (event_decode(kind, bytes, size, NULL, &event))
        wire_use_event(&event);
    wire_event_clear(&event);
}

/* Extra fields of a picture; the rest of what a peer says of its media are checked numbers. */
static void read_media(const uint8_t *bytes, size_t size)
{
    struct gpud_media media = {.kind = GPUD_MEDIA_PICTURE};
    GstVideoInfo info;
    gchar *reason = NULL;

    gpud_layout_init(&media.picture.layout, "UYVY", 64, 16, 0, NULL);
    memcpy(media.extra, bytes, MIN(size, sizeof(media.extra) - 1));
    GstCaps *caps = media_to_caps(&media, NULL, &info, &reason);
    if (caps)
        g_free(gst_caps_to_string(caps));
    g_clear_pointer(&caps, gst_caps_unref);
    g_free(reason);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static gsize once;

    if (g_once_init_enter(&once)) {
        /* No plugin is needed, and foreign ones, loaded to see what is in them, leak. */
        setenv("GST_REGISTRY_DISABLE", "yes", 1);
        gst_init(NULL, NULL);
        gst_meta_register_custom("GpudFuzzMeta", (const gchar *[]){NULL}, NULL, NULL, NULL);
        g_log_set_always_fatal(G_LOG_LEVEL_CRITICAL | G_LOG_LEVEL_WARNING | G_LOG_FATAL_MASK);
        g_once_init_leave(&once, 1);
    }
    if (size < 1)
        return 0;
    switch (bytes[0] % 3) {
    case 0:
        read_meta(bytes + 1, size - 1);
        break;
    case 1:
        read_media(bytes + 1, size - 1);
        break;
    default:
        read_event(1 + bytes[0] / 3u % 7, bytes + 1, size - 1);
    }
    return 0;
}
