/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/videoinfo.h"

#include "wire/dmabufcaps.h"

#include <string.h>

#define PATTERNS 4
#define DEPTHS 5

/* GStreamer's own description of a grey format, under another name. */
struct mosaic {
    gchar name[12];
    GstVideoFormatInfo format;
};

static gpointer make_mosaics(gpointer ignored)
{
    static const gchar *const patterns[PATTERNS] = {"bggr", "gbrg", "grbg", "rggb"};
    static const gchar *const depths[DEPTHS] = {"", "10le", "12le", "14le", "16le"};
    static struct mosaic mosaics[PATTERNS * DEPTHS];

    for (guint i = 0; i < PATTERNS * DEPTHS; i++) {
        struct mosaic *mosaic = &mosaics[i];
        guint depth = i / PATTERNS;
        g_snprintf(mosaic->name, sizeof(mosaic->name), "%s%s", patterns[i % PATTERNS],
                   depths[depth]);
        mosaic->format = *gst_video_format_get_info(depth > 0 ? GST_VIDEO_FORMAT_GRAY16_LE
                                                              : GST_VIDEO_FORMAT_GRAY8);
        mosaic->format.name = mosaic->name;
    }
    return mosaics;
}

static const struct mosaic *find_mosaic(const gchar *format)
{
    static GOnce once = G_ONCE_INIT;
    const struct mosaic *mosaics = g_once(&once, make_mosaics, NULL);

    for (guint i = 0; format && i < PATTERNS * DEPTHS; i++)
        if (strcmp(mosaics[i].name, format) == 0)
            return &mosaics[i];
    return NULL;
}

static gboolean info_of_mosaic(GstVideoInfo *info, const GstStructure *structure)
{
    const struct mosaic *mosaic = find_mosaic(gst_structure_get_string(structure, "format"));
    gint width = 0, height = 0;

    if (!mosaic || !gst_structure_get_int(structure, "width", &width) ||
        !gst_structure_get_int(structure, "height", &height) || width < 1 || height < 1 ||
        !gst_video_info_set_format(info, mosaic->format.format, (guint)width, (guint)height))
        return FALSE;
    info->finfo = &mosaic->format;
    gst_structure_get_fraction(structure, "framerate", &info->fps_n, &info->fps_d);
    gst_structure_get_fraction(structure, "pixel-aspect-ratio", &info->par_n, &info->par_d);
    return TRUE;
}

gboolean video_info_from_caps(GstVideoInfo *info, const GstCaps *caps)
{
    if (!gst_caps_is_fixed(caps))
        return FALSE;
    if (caps_are_dmabufs(caps)) {
        GstCaps *plain = caps_out_of_dmabufs(caps);
        gboolean read = plain && gst_video_info_from_caps(info, plain);
        gst_clear_caps(&plain);
        return read;
    }
    const GstStructure *structure = gst_caps_get_structure(caps, 0);

    return gst_structure_has_name(structure, VIDEO_BAYER) ? info_of_mosaic(info, structure)
                                                          : gst_video_info_from_caps(info, caps);
}

const gchar *video_media_type(const gchar *format)
{
    if (find_mosaic(format))
        return VIDEO_BAYER;
    return format && gst_video_format_from_string(format) > GST_VIDEO_FORMAT_ENCODED ? VIDEO_RAW
                                                                                     : NULL;
}
