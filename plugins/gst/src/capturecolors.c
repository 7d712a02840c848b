/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "src/capturecolors.h"

#include <gst/video/video.h>

static GstVideoColorPrimaries primaries_of(guint number)
{
    return number == GPUD_COLOR_OPRGB ? GST_VIDEO_COLOR_PRIMARIES_ADOBERGB
                                      : gst_video_color_primaries_from_iso(number);
}

static GstVideoTransferFunction transfer_of(guint number)
{
    return number == GPUD_COLOR_OPRGB ? GST_VIDEO_TRANSFER_ADOBERGB
                                      : gst_video_transfer_function_from_iso(number);
}

static GstVideoColorMatrix matrix_of(guint number)
{
    /* BT.2020 with constant luminance is no matrix, and GStreamer has no word for it. */
    return number == 10 ? GST_VIDEO_COLOR_MATRIX_UNKNOWN : gst_video_color_matrix_from_iso(number);
}

static GstVideoColorRange range_of(guint range)
{
    return range == GPUD_RANGE_FULL      ? GST_VIDEO_COLOR_RANGE_0_255
           : range == GPUD_RANGE_LIMITED ? GST_VIDEO_COLOR_RANGE_16_235
                                         : GST_VIDEO_COLOR_RANGE_UNKNOWN;
}

void capture_colors_to_structure(const struct gpud_colorimetry *from, GstStructure *structure)
{
    const GstVideoColorimetry colorimetry = {
        .range = range_of(from->range),
        .matrix = matrix_of(from->matrix),
        .transfer = transfer_of(from->transfer),
        .primaries = primaries_of(from->primaries),
    };
    gboolean known = colorimetry.range != GST_VIDEO_COLOR_RANGE_UNKNOWN ||
                     colorimetry.primaries != GST_VIDEO_COLOR_PRIMARIES_UNKNOWN ||
                     colorimetry.transfer != GST_VIDEO_TRANSFER_UNKNOWN;
    gchar *text = known ? gst_video_colorimetry_to_string(&colorimetry) : NULL;

    if (text)
        gst_structure_set(structure, "colorimetry", G_TYPE_STRING, text, NULL);
    if (from->chroma_site != GPUD_CHROMA_UNKNOWN)
        gst_structure_set(structure, "chroma-site", G_TYPE_STRING,
                          from->chroma_site == GPUD_CHROMA_LEFT ? "mpeg2" : "jpeg", NULL);
    g_free(text);
}

void capture_hdr_to_structure(const struct gpud_hdr_metadata *hdr, GstStructure *structure)
{
    if (hdr->has_display) {
        GstVideoMasteringDisplayInfo display = {
            .white_point = {hdr->white_x, hdr->white_y},
            .max_display_mastering_luminance = hdr->max_luminance,
            .min_display_mastering_luminance = hdr->min_luminance,
        };
        for (guint i = 0; i < 3; i++) {
            display.display_primaries[i].x = hdr->display_x[i];
            display.display_primaries[i].y = hdr->display_y[i];
        }
        gchar *text = gst_video_mastering_display_info_to_string(&display);
        gst_structure_set(structure, "mastering-display-info", G_TYPE_STRING, text, NULL);
        g_free(text);
    }
    if (hdr->has_light_level) {
        GstVideoContentLightLevel level = {
            .max_content_light_level = hdr->max_content_light,
            .max_frame_average_light_level = hdr->max_frame_average_light,
        };
        gchar *text = gst_video_content_light_level_to_string(&level);
        gst_structure_set(structure, "content-light-level", G_TYPE_STRING, text, NULL);
        g_free(text);
    }
}
