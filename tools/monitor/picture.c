/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GStreamer's converter reads every format that it has a name for, and libjpeg-turbo encodes. */
#include "monitor/picture.h"

#include <gst/video/video.h>
#include <string.h>
#include <turbojpeg.h>

#define WIDTH 320
#define HEIGHT_MAX 320
#define QUALITY 80

static void refuse(struct gpud_error *error, const char *format, ...) G_GNUC_PRINTF(2, 3);
static void refuse(struct gpud_error *error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    error->status = GPUD_UNSUPPORTED;
    g_vsnprintf(error->reason, sizeof(error->reason), format, args);
    va_end(args);
}

/* The converter trusts that each plane is as large as the format wants it. The library has checked
 * only that the planes lie inside the frame. */
static bool is_whole(const struct gpud_layout *layout, struct gpud_error *error)
{
    struct gpud_layout usual;
    if (gpud_layout_init(&usual, layout->format, layout->width, layout->height, 0, error) !=
        GPUD_OK)
        return false;
    bool whole = layout->modifier == 0 && layout->planes == usual.planes;
    for (uint32_t i = 0; i < usual.planes && whole; i++)
        whole = layout->plane[i].rows >= usual.plane[i].rows &&
                layout->plane[i].row_bytes >= usual.plane[i].row_bytes;
    if (!whole)
        refuse(error, "%s in an arrangement that only its GPU can read", layout->format);
    return whole;
}

static bool describe(const struct gpud_layout *layout, GstVideoInfo *info, struct gpud_error *error)
{
    GstVideoFormat format = gst_video_format_from_string(layout->format);
    if (!is_whole(layout, error))
        return false;
    if (format == GST_VIDEO_FORMAT_UNKNOWN || format == GST_VIDEO_FORMAT_ENCODED ||
        !gst_video_info_set_format(info, format, layout->width, layout->height) ||
        GST_VIDEO_INFO_N_PLANES(info) != layout->planes) {
        refuse(error, "%s cannot be shown", layout->format);
        return false;
    }
    for (uint32_t i = 0; i < layout->planes; i++) {
        info->offset[i] = layout->plane[i].offset;
        info->stride[i] = (gint)layout->plane[i].stride;
    }
    info->size = layout->size;
    return true;
}

/* As it is meant to be seen: a field has half of the rows, and pixels need not be square. */
static int height_of(const struct gpud_layout *layout, const struct gpud_picture *picture)
{
    const struct gpud_fraction *pixel = &picture->pixel_aspect;
    double height = (double)WIDTH * layout->height / layout->width;
    if (pixel->num > 0 && pixel->den > 0)
        height = height * pixel->den / pixel->num;
    if (picture->scan == GPUD_SCAN_ALTERNATE)
        height *= 2;
    return (int)CLAMP(height, 16, HEIGHT_MAX);
}

static bool convert(const GstVideoInfo *info, const void *data, const GstVideoInfo *small,
                    GstBuffer *out)
{
    GstVideoFrame from, to;
    GstBuffer *in = gst_buffer_new_wrapped_full(GST_MEMORY_FLAG_READONLY, (gpointer)data,
                                                info->size, 0, info->size, NULL, NULL);
    bool done = false;
    if (gst_video_frame_map(&from, (GstVideoInfo *)info, in, GST_MAP_READ)) {
        if (gst_video_frame_map(&to, (GstVideoInfo *)small, out, GST_MAP_WRITE)) {
            GstVideoConverter *converter = gst_video_converter_new(
                info, small,
                gst_structure_new("config", GST_VIDEO_CONVERTER_OPT_RESAMPLER_METHOD,
                                  GST_TYPE_VIDEO_RESAMPLER_METHOD,
                                  GST_VIDEO_RESAMPLER_METHOD_NEAREST, NULL));
            if (converter) {
                gst_video_converter_frame(converter, &from, &to);
                gst_video_converter_free(converter);
                done = true;
            }
            gst_video_frame_unmap(&to);
        }
        gst_video_frame_unmap(&from);
    }
    gst_buffer_unref(in);
    return done;
}

static void free_jpeg(gpointer data)
{
    tjFree(data);
}

static GBytes *compress(const GstVideoInfo *small, GstBuffer *buffer, struct gpud_error *error)
{
    unsigned char *jpeg = NULL;
    unsigned long size = 0;
    GstMapInfo map;
    GBytes *bytes = NULL;
    tjhandle compressor = tjInitCompress();
    if (compressor && gst_buffer_map(buffer, &map, GST_MAP_READ)) {
        if (tjCompress2(compressor, map.data, small->width, small->stride[0], small->height,
                        TJPF_RGB, &jpeg, &size, TJSAMP_420, QUALITY, 0) == 0)
            bytes = g_bytes_new_with_free_func(jpeg, size, free_jpeg, jpeg);
        gst_buffer_unmap(buffer, &map);
    }
    if (!bytes)
        refuse(error, "the picture cannot be encoded as JPEG");
    if (compressor)
        tjDestroy(compressor);
    return bytes;
}

GBytes *monitor_picture_encode(struct gpud_frame *frame, const struct gpud_picture *picture,
                               struct gpud_error *error)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    GstVideoInfo full, small;
    void *data;
    gpud_frame_get_info(frame, &info);
    if (!describe(&info.layout, &full, error) ||
        !gst_video_info_set_format(&small, GST_VIDEO_FORMAT_RGB, WIDTH,
                                   (guint)height_of(&info.layout, picture)) ||
        gpud_frame_map(frame, GPUD_READ, GPUD_SEC, &data, error) != GPUD_OK)
        return NULL;
    GBytes *bytes = NULL;
    GstBuffer *buffer = gst_buffer_new_allocate(NULL, small.size, NULL);
    if (convert(&full, data, &small, buffer))
        bytes = compress(&small, buffer, error);
    else
        refuse(error, "%s cannot be shown", info.layout.format);
    gst_buffer_unref(buffer);
    gpud_frame_unmap(frame);
    return bytes;
}
