/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Everything in the plugin that reads a peer's bytes, called with the same bytes: bytes that make
 * GStreamer complain end the run, as an application may have asked for that (G_DEBUG). The corpus
 * is tests/fuzz/wire_seeds'; tests/fuzz/run searches for more. */
#include "wire_fuzz.h"

#ifdef WIRE_ANALYTICS
#include <gst/analytics/analytics.h>
#endif
#include <gst/video/video.h>
#include <stdlib.h>
#include <string.h>

/* --- what other elements do: they print, and calculate ------------------------------------ */

static void show_structure(gpointer structure, gpointer unused)
{
    g_free(gst_structure_to_string(structure));
    gst_structure_free(gst_structure_copy(structure));
}

static void use_timecode(const GstVideoTimeCode *code)
{
    GstVideoTimeCode *copy = gst_video_time_code_copy(code);
    GDateTime *when = gst_video_time_code_to_date_time(code);

    g_free(gst_video_time_code_to_string(code));
    gst_video_time_code_nsec_since_daily_jam(code);
    gst_video_time_code_frames_since_daily_jam(code);
    gst_video_time_code_increment_frame(copy);
    /* GStreamer 1.26 increments some of less than a frame a second to one that is invalid. */
    if (gst_video_time_code_is_valid(copy))
        gst_video_time_code_compare(code, copy);
    gst_video_time_code_free(copy);
    g_clear_pointer(&when, g_date_time_unref);
}

#ifdef WIRE_ANALYTICS

/* As decoders and overlays do: the bytes that the dimensions promise, positions, relations. */
static void use_inference(GstBuffer *buffer)
{
    GstTensorMeta *tensors = gst_buffer_get_tensor_meta(buffer);
    GstAnalyticsRelationMeta *found = gst_buffer_get_analytics_relation_meta(buffer);
    gint x, y, w, h, sum = 0;
    gpointer state = NULL;
    GstAnalyticsODMtd object;
    gfloat level;

    for (gsize i = 0; tensors && i < tensors->num_tensors; i++) {
        const GstTensor *tensor = gst_tensor_meta_get(tensors, i);
        gsize elements = 1;
        GstMapInfo map;
        for (gsize dim = 0; dim < tensor->num_dims; dim++)
            elements *= tensor->dims[dim];
        g_assert(gst_buffer_map(tensor->data, &map, GST_MAP_READ));
        for (gsize k = 0; k < elements / 2; k++)
            sum += map.data[k];
        gst_buffer_unmap(tensor->data, &map);
        gst_tensor_free(gst_tensor_copy(tensor));
    }
    while (found && gst_analytics_relation_meta_iterate(
                        found, &state, gst_analytics_od_mtd_get_mtd_type(), &object)) {
        gst_analytics_od_mtd_get_location(&object, &x, &y, &w, &h, &level);
        gst_analytics_relation_meta_exist(found, object.id, 0, -1, GST_ANALYTICS_REL_TYPE_ANY,
                                          NULL);
        sum += x + w;
    }
    if (found)
        gst_analytics_relation_meta_add_od_mtd(found, 0, sum, 0, 1, 1, 1, &object);
}

#else

static void use_inference(GstBuffer *buffer)
{
}

#endif

void wire_use_metas(GstBuffer *buffer)
{
    gpointer state = NULL;
    const GstMeta *meta;

    while ((meta = gst_buffer_iterate_meta(buffer, &state)))
        if (meta->info->api == GST_VIDEO_TIME_CODE_META_API_TYPE)
            use_timecode(&((const GstVideoTimeCodeMeta *)meta)->tc);
        else if (meta->info->api == GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE)
            g_list_foreach(((const GstVideoRegionOfInterestMeta *)meta)->params, show_structure,
                           NULL);
        else if (meta->info->api == GST_REFERENCE_TIMESTAMP_META_API_TYPE)
            g_free(gst_caps_to_string(((const GstReferenceTimestampMeta *)meta)->reference));
        else if (gst_meta_info_is_custom(meta->info))
            show_structure(gst_custom_meta_get_structure((GstCustomMeta *)meta), NULL);
    use_inference(buffer);
}

void wire_use_event(const struct wire_event *event)
{
    if (event->structure)
        show_structure(event->structure, NULL);
    if (event->tags)
        g_free(gst_tag_list_to_string(event->tags));
}

/* --- what reads ---------------------------------------------------------------------------- */

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

    struct caps_rest rest = {.hash = 1};

    if (event_take_caps(kind, bytes, size, &rest)) {
        GstCaps *caps = gst_caps_new_empty_simple("video/x-h264");
        caps_add_rest(caps, &rest, NULL);
        g_free(gst_caps_to_string(caps));
        gst_caps_unref(caps);
    }
    if (event_decode(kind, bytes, size, NULL, &event))
        wire_use_event(&event);
    wire_event_clear(&event);
}

static void read_caps(const struct gpud_media *media)
{
    GstVideoInfo info;
    gchar *reason = NULL;
    GstCaps *caps = media_to_caps(media, NULL, &info, &reason);

    media_rest_hash(media);
    if (caps)
        g_free(gst_caps_to_string(caps));
    g_clear_pointer(&caps, gst_caps_unref);
    g_free(reason);
}

/* Extra fields of a picture and of data; the rest of what a peer says of its media are checked
 * numbers. */
static void read_media(const uint8_t *bytes, size_t size)
{
    struct gpud_media media = {.kind = GPUD_MEDIA_PICTURE};
    struct gpud_media data = {.kind = GPUD_MEDIA_DATA,
                              .data = {.type = "video/x-h264", .max_size = 1}};

    gpud_layout_init(&media.picture.layout, "UYVY", 64, 16, 0, NULL);
    memcpy(media.extra, bytes, MIN(size, sizeof(media.extra) - 1));
    memcpy(data.extra, bytes, MIN(size, sizeof(data.extra) - 1));
    read_caps(&media);
    read_caps(&data);
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
