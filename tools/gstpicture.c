/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "gstpicture.h"

#include "wire/layout.h"

#include <inttypes.h>
#include <string.h>

/* How long a frame's bytes may be on their way. */
#define ARRIVAL GPUD_SEC
/* Of copies: behind the last byte, and their size at most. */
#define PADDING 65536
#define COPY_MAX (256 << 20)

G_GNUC_PRINTF(3, 4)
static bool gstpicture_refuse(struct gpud_error *error, enum gpud_status status, const char *format,
                              ...)
{
    va_list args;
    *error = (struct gpud_error){.status = status};
    va_start(args, format);
    g_vsnprintf(error->reason, sizeof(error->reason), format, args);
    va_end(args);
    return false;
}

void picture_start(void)
{
    /* No element is used, and a scan of the plugins may take seconds. */
    g_setenv("GST_REGISTRY_DISABLE", "yes", TRUE);
    gst_init(NULL, NULL);
}

/* --- the format ------------------------------------------------------------------------------ */

bool picture_init(struct picture *picture, const struct gpud_media *media, struct gpud_error *error)
{
    char text[GPUD_MEDIA_TEXT_MAX];
    struct gpud_media plain = *media;
    struct gpud_picture *given = &plain.picture;
    *picture = (struct picture){0};
    if (media->kind != GPUD_MEDIA_PICTURE)
        return gstpicture_refuse(error, GPUD_UNSUPPORTED,
                                 "the channel carries no pictures: only these can be shown");
    if (given->layout.modifier != 0)
        return gstpicture_refuse(
            error, GPUD_UNSUPPORTED,
            "the pictures are arranged by a GPU's driver (DRM modifier 0x%016" PRIx64
            "): send them row by row",
            given->layout.modifier);
    int rows = (int)given->layout.height;
    if (given->scan == GPUD_SCAN_ALTERNATE) { /* each field is shown by itself */
        rows *= 2;
        given->scan = GPUD_SCAN_PROGRESSIVE;
        given->picture_height = 0;
    }
    plain.extra[0] = '\0';
    if (gpud_media_to_string(&plain, text, sizeof(text), error) != GPUD_OK)
        return false;
    GstCaps *caps = gst_caps_from_string(text);
    bool known = caps && gst_structure_has_name(gst_caps_get_structure(caps, 0), "video/x-raw") &&
                 gst_video_info_from_caps(&picture->info, caps);
    gst_clear_caps(&caps);
    if (!known || GST_VIDEO_INFO_FORMAT(&picture->info) <= GST_VIDEO_FORMAT_ENCODED)
        return gstpicture_refuse(error, GPUD_UNSUPPORTED,
                                 "GStreamer %u.%u has no conversion of this format: %.200s",
                                 GST_VERSION_MAJOR, GST_VERSION_MINOR, text);
    const GstVideoInfo *info = &picture->info;
    picture->aspect = (double)info->width * MAX(1, info->par_n) / rows / MAX(1, info->par_d);
    return true;
}

void picture_finish(struct picture *picture)
{
    g_clear_pointer(&picture->converter, gst_video_converter_free);
}

/* --- a frame --------------------------------------------------------------------------------- */

static bool gstpicture_wrap(GstVideoFrame *mapped, const GstVideoInfo *info, void *data, gsize size,
                            struct video_planes *planes, GstMapFlags access, GDestroyNotify release)
{
    GstBuffer *buffer =
        gst_buffer_new_wrapped_full(access == GST_MAP_READ ? GST_MEMORY_FLAG_READONLY : 0, data,
                                    size, 0, size, release ? data : NULL, release);
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(info),
                                   (guint)info->width, (guint)info->height, planes->count,
                                   planes->offset, planes->stride);
    bool done = gst_video_frame_map(mapped, info, buffer, access);
    gst_buffer_unref(buffer); /* the mapped frame has its own reference */
    return done;
}

/* Of formats that pack several pixels into words, or in tiles, the converter reads whole words, and
 * GStreamer's own sizes are too small for that where the width is odd. */
static bool reads_beyond(const GstVideoInfo *info)
{
    return info->width % 2 && (GST_VIDEO_FORMAT_INFO_IS_COMPLEX(info->finfo) ||
                               GST_VIDEO_FORMAT_INFO_IS_TILED(info->finfo));
}

/* A copy with GStreamer's strides, and some bytes behind it; NULL: it is too large. */
static guint8 *copy_padded(const GstVideoInfo *info, const struct gpud_layout *layout,
                           const guint8 *data, struct video_planes *planes)
{
    guint8 *copy = info->size <= COPY_MAX ? g_try_malloc0(info->size + PADDING) : NULL;
    bool is_block = GST_VIDEO_FORMAT_INFO_IS_TILED(info->finfo);
    if (copy && is_block)
        memcpy(copy, data, info->size);
    for (guint i = 0; copy && !is_block && i < planes->count; i++) {
        const struct gpud_plane *plane = &layout->plane[i];
        gsize row_bytes = MIN(plane->row_bytes, (gsize)info->stride[i]);
        gint component[GST_VIDEO_MAX_COMPONENTS];
        gst_video_format_info_component(info->finfo, i, component);
        for (gint row = 0; row < GST_VIDEO_INFO_COMP_HEIGHT(info, component[0]); row++)
            memcpy(copy + info->offset[i] + (gsize)row * (gsize)info->stride[i],
                   data + plane->offset + (gsize)row * plane->stride, row_bytes);
        planes->offset[i] = info->offset[i];
        planes->stride[i] = info->stride[i];
    }
    return copy;
}

bool picture_map(const struct picture *picture, struct gpud_frame *frame, GstVideoFrame *mapped,
                 struct gpud_error *error)
{
    const GstVideoInfo *info = &picture->info;
    struct gpud_frame_info given = GPUD_INFO_INIT(given);
    struct video_planes planes;
    void *data;
    gpud_frame_get_info(frame, &given);
    if (!layout_fits_info(&given.layout, info))
        return gstpicture_refuse(
            error, GPUD_PEER,
            "the sender's frames do not lie as their format (%s, %d × %d) requires",
            GST_VIDEO_INFO_NAME(info), info->width, info->height);
    layout_to_planes(&given.layout, info, &planes);
    if (gpud_frame_map(frame, GPUD_READ, ARRIVAL, &data, error) != GPUD_OK)
        return false;
    guint8 *copy = reads_beyond(info) ? copy_padded(info, &given.layout, data, &planes) : NULL;
    bool wrapped =
        copy ? gstpicture_wrap(mapped, info, copy, info->size + PADDING, &planes, GST_MAP_READ,
                               g_free)
             : !reads_beyond(info) && gstpicture_wrap(mapped, info, data, given.layout.size,
                                                      &planes, GST_MAP_READ, NULL);
    if (wrapped)
        return true;
    gpud_frame_unmap(frame);
    return gstpicture_refuse(error, GPUD_UNSUPPORTED, "GStreamer cannot read a frame of %s",
                             GST_VIDEO_INFO_NAME(info));
}

void picture_unmap(struct gpud_frame *frame, GstVideoFrame *mapped)
{
    gst_video_frame_unmap(mapped);
    gpud_frame_unmap(frame);
}

/* --- its conversion -------------------------------------------------------------------------- */

bool picture_convert(struct picture *picture, GstVideoFrame *mapped, GstVideoFormat format,
                     int width, int height, void *pixels, int stride, struct gpud_error *error)
{
    GstVideoInfo to;
    GstVideoFrame result;
    const GstVideoInfo *from = &picture->info;
    struct video_planes planes = {.count = 1, .stride = {stride}};
    if (height == 0)
        width = from->width, height = from->height;
    gst_video_info_set_interlaced_format(&to, format, GST_VIDEO_INFO_INTERLACE_MODE(from),
                                         (guint)width, (guint)height);
    to.fps_n = from->fps_n;
    to.fps_d = from->fps_d;
    if (picture->converter && !gst_video_info_is_equal(&picture->converted, &to))
        picture_finish(picture);
    if (!picture->converter) {
        /* As many threads as there are processors: 4K at 60 frames a second needs several. */
        GstStructure *config = gst_structure_new("convert", GST_VIDEO_CONVERTER_OPT_THREADS,
                                                 G_TYPE_UINT, picture->quick ? 1u : 0u, NULL);
        if (picture->quick)
            gst_structure_set(config, GST_VIDEO_CONVERTER_OPT_RESAMPLER_METHOD,
                              GST_TYPE_VIDEO_RESAMPLER_METHOD, GST_VIDEO_RESAMPLER_METHOD_NEAREST,
                              NULL);
        picture->converter = gst_video_converter_new(from, &to, config);
    }
    picture->converted = to;
    if (!picture->converter || !gstpicture_wrap(&result, &to, pixels, (gsize)stride * (gsize)height,
                                                &planes, GST_MAP_WRITE, NULL))
        return gstpicture_refuse(error, GPUD_UNSUPPORTED, "GStreamer cannot convert %s",
                                 GST_VIDEO_INFO_NAME(from));
    gst_video_converter_frame(picture->converter, mapped, &result);
    gst_video_frame_unmap(&result);
    return true;
}
