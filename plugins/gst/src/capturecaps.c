/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A capture card's modes as caps. */
#include "src/capturecaps.h"

#include <gst/video/video.h>

static void set_size(GstStructure *structure, const char *name, uint32_t min, uint32_t max,
                     uint32_t step)
{
    if (min >= max) {
        gst_structure_set(structure, name, G_TYPE_INT, (gint)max, NULL);
        return;
    }
    /* GStreamer wants both ends to be multiples of the step. */
    gint by = step > 0 && min % step == 0 && max % step == 0 ? (gint)step : 1;
    GValue range = G_VALUE_INIT;
    g_value_init(&range, GST_TYPE_INT_RANGE);
    gst_value_set_int_range_step(&range, (gint)min, (gint)max, by);
    gst_structure_take_value(structure, name, &range);
}

static GstStructure *mode_structure(const struct gpud_capture_mode *mode)
{
    if (gst_video_format_from_string(mode->format) <= GST_VIDEO_FORMAT_ENCODED ||
        mode->width_max == 0 || mode->height_max == 0)
        return NULL;
    GstStructure *structure =
        gst_structure_new("video/x-raw", "format", G_TYPE_STRING, mode->format, NULL);
    set_size(structure, "width", mode->width_min, mode->width_max, mode->width_step);
    set_size(structure, "height", mode->height_min, mode->height_max, mode->height_step);
    if (mode->fps_num == 0 || mode->fps_den == 0)
        gst_structure_set(structure, "framerate", GST_TYPE_FRACTION_RANGE, 0, 1, G_MAXINT, 1, NULL);
    else
        gst_structure_set(structure, "framerate", GST_TYPE_FRACTION_RANGE, 0, 1,
                          (gint)mode->fps_num, (gint)mode->fps_den, NULL);
    return structure;
}

GstCaps *capture_caps(struct gpud_capture *capture)
{
    GstCaps *caps = gst_caps_new_empty();
    size_t count = gpud_capture_list_modes(capture, NULL, 0);
    struct gpud_capture_mode *modes = g_new0(struct gpud_capture_mode, count + 1);

    modes[0].size = sizeof(modes[0]);
    count = MIN(count, gpud_capture_list_modes(capture, modes, count));
    for (size_t i = 0; i < count; i++) {
        GstStructure *structure = mode_structure(&modes[i]);
        if (structure)
            gst_caps_append_structure(caps, structure);
    }
    g_free(modes);
    return gst_caps_simplify(caps);
}
