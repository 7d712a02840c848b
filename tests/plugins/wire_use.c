/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Uses metas and events as other elements do: prints them, and calculates with them. */
#include "wire_fuzz.h"

#include <gst/video/video.h>

static void show_structure(const GstStructure *structure)
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

static void use_region(const GstVideoRegionOfInterestMeta *roi)
{
    for (const GList *at = roi->params; at; at = at->next)
        show_structure(at->data);
}

static void use_meta(const GstMeta *meta)
{
    if (meta->info->api == GST_VIDEO_TIME_CODE_META_API_TYPE)
        use_timecode(&((const GstVideoTimeCodeMeta *)meta)->tc);
    else if (meta->info->api == GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE)
        use_region((const GstVideoRegionOfInterestMeta *)meta);
    else if (meta->info->api == GST_REFERENCE_TIMESTAMP_META_API_TYPE)
        g_free(gst_caps_to_string(((const GstReferenceTimestampMeta *)meta)->reference));
    else if (gst_meta_info_is_custom(meta->info))
        show_structure(gst_custom_meta_get_structure((GstCustomMeta *)meta));
}

void wire_use_metas(GstBuffer *buffer)
{
    gpointer state = NULL;
    const GstMeta *meta;

    while ((meta = gst_buffer_iterate_meta(buffer, &state)))
        use_meta(meta);
}

void wire_use_event(const struct wire_event *event)
{
    if (event->structure)
        show_structure(event->structure);
    if (event->tags)
        g_free(gst_tag_list_to_string(event->tags));
}
