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
    capture_colors_to_structure(&mode->colorimetry, structure);
    return structure;
}

/* What was negotiated may lack a field that is known now; none of them may be another one. */
static gboolean agrees(const GstStructure *wanted, const GstStructure *made, const gchar *field)
{
    const GValue *a = gst_structure_get_value(wanted, field);
    const GValue *b = gst_structure_get_value(made, field);

    return !a || !b || gst_value_compare(a, b) == GST_VALUE_EQUAL;
}

gboolean capture_caps_complete(GstCaps **caps, const struct gpud_capture_info *info, gchar **reason)
{
    static const gchar *const fields[] = {"colorimetry", "chroma-site"};
    GstStructure *made = gst_structure_new_empty("video/x-raw");

    *caps = gst_caps_make_writable(*caps);
    GstStructure *structure = gst_caps_get_structure(*caps, 0);
    capture_colors_to_structure(&info->colorimetry, made);
    capture_hdr_to_structure(&info->hdr, made);
    for (guint i = 0; i < G_N_ELEMENTS(fields) && !*reason; i++) {
        if (agrees(structure, made, fields[i]))
            continue;
        gchar *wanted = gst_value_serialize(gst_structure_get_value(structure, fields[i]));
        gchar *has = gst_value_serialize(gst_structure_get_value(made, fields[i]));
        *reason =
            g_strdup_printf("its driver makes %s %s of %s: ask for that with a capsfilter, or for "
                            "none",
                            fields[i], has, wanted);
        g_free(wanted);
        g_free(has);
    }
    for (gint i = 0; i < gst_structure_n_fields(made); i++) {
        const gchar *name = gst_structure_nth_field_name(made, (guint)i);
        gst_structure_set_value(structure, name, gst_structure_get_value(made, name));
    }
    gst_structure_free(made);
    return !*reason;
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
