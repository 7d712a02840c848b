/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "picture.h"

#include <inttypes.h>

/* How long a frame's bytes may be on their way. */
#define ARRIVAL GPUD_SEC

G_GNUC_PRINTF(3, 4)
static bool refuse(struct gpud_error *error, enum gpud_status status, const char *format, ...)
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

static bool is_opaque(const GstVideoInfo *info)
{
    return GST_VIDEO_FORMAT_INFO_IS_TILED(info->finfo) ||
           GST_VIDEO_FORMAT_INFO_HAS_PALETTE(info->finfo);
}

bool picture_init(struct picture *picture, const struct gpud_media *media, struct gpud_error *error)
{
    char text[GPUD_MEDIA_TEXT_MAX];
    struct gpud_media plain = *media;
    struct gpud_picture *given = &plain.picture;
    *picture = (struct picture){0};
    if (media->kind != GPUD_MEDIA_PICTURE)
        return refuse(error, GPUD_UNSUPPORTED,
                      "the channel carries sound or data: only pictures can be shown");
    if (given->layout.modifier != 0)
        return refuse(error, GPUD_UNSUPPORTED,
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
        return refuse(error, GPUD_UNSUPPORTED,
                      "GStreamer %u.%u has no conversion of this format: %.200s", GST_VERSION_MAJOR,
                      GST_VERSION_MINOR, text);
    const GstVideoInfo *info = &picture->info;
    picture->aspect = (double)info->width * MAX(1, info->par_n) / rows / MAX(1, info->par_d);
    return true;
}

void picture_finish(struct picture *picture)
{
    g_clear_pointer(&picture->converter, gst_video_converter_free);
}

/* --- a frame --------------------------------------------------------------------------------- */

/* Bytes of a plane's row that the converter reads. Formats that pack several pixels into words have
 * no pixel stride: it reads whole words of them. */
static gsize row_bytes(const GstVideoInfo *info, guint plane)
{
    const GstVideoFormatInfo *format = info->finfo;
    GstVideoInfo packed;
    gsize bytes = 0;
    for (guint c = 0; c < GST_VIDEO_FORMAT_INFO_N_COMPONENTS(format); c++)
        if (GST_VIDEO_FORMAT_INFO_PLANE(format, c) == plane)
            bytes = MAX(bytes, (gsize)GST_VIDEO_INFO_COMP_WIDTH(info, c) *
                                   (gsize)GST_VIDEO_FORMAT_INFO_PSTRIDE(format, c));
    if (bytes > 0 && !GST_VIDEO_FORMAT_INFO_IS_COMPLEX(format))
        return bytes;
    gst_video_info_set_format(&packed, GST_VIDEO_INFO_FORMAT(info), (guint)info->width,
                              (guint)info->height);
    return (gsize)GST_VIDEO_INFO_PLANE_STRIDE(&packed, plane);
}

/* The sender says how its frames lie: nothing outside of them may be read. */
static bool layout_fits(const struct gpud_layout *layout, const GstVideoInfo *info)
{
    if (gpud_layout_check(layout, NULL) != GPUD_OK || layout->modifier != 0)
        return false;
    if (is_opaque(info))
        return layout->planes == 1 && layout->plane[0].offset == 0 && layout->size >= info->size;
    if (layout->planes != GST_VIDEO_INFO_N_PLANES(info))
        return false;
    for (guint i = 0; i < layout->planes; i++) {
        gint component[GST_VIDEO_MAX_COMPONENTS];
        gst_video_format_info_component(info->finfo, i, component);
        if (layout->plane[i].stride > G_MAXINT || layout->plane[i].row_bytes < row_bytes(info, i) ||
            layout->plane[i].rows < (guint)GST_VIDEO_INFO_COMP_HEIGHT(info, component[0]))
            return false;
    }
    return true;
}

static bool wrap(GstVideoFrame *mapped, const GstVideoInfo *info, void *data, gsize size,
                 gsize *offset, gint *stride, GstMapFlags access)
{
    GstBuffer *buffer = gst_buffer_new_wrapped_full(
        access == GST_MAP_READ ? GST_MEMORY_FLAG_READONLY : 0, data, size, 0, size, NULL, NULL);
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(info),
                                   (guint)info->width, (guint)info->height,
                                   GST_VIDEO_INFO_N_PLANES(info), offset, stride);
    bool done = gst_video_frame_map(mapped, info, buffer, access);
    gst_buffer_unref(buffer); /* the mapped frame has its own reference */
    return done;
}

bool picture_map(const struct picture *picture, struct gpud_frame *frame, GstVideoFrame *mapped,
                 struct gpud_error *error)
{
    const GstVideoInfo *info = &picture->info;
    struct gpud_frame_info given = GPUD_INFO_INIT(given);
    gsize offset[GST_VIDEO_MAX_PLANES];
    gint stride[GST_VIDEO_MAX_PLANES];
    void *data;
    gpud_frame_get_info(frame, &given);
    if (!layout_fits(&given.layout, info))
        return refuse(error, GPUD_PEER,
                      "the sender's frames do not lie as their format (%s, %d × %d) requires",
                      GST_VIDEO_INFO_NAME(info), info->width, info->height);
    for (guint i = 0; i < GST_VIDEO_INFO_N_PLANES(info); i++) {
        offset[i] = is_opaque(info) ? info->offset[i] : given.layout.plane[i].offset;
        stride[i] = is_opaque(info) ? info->stride[i] : (gint)given.layout.plane[i].stride;
    }
    if (gpud_frame_map(frame, GPUD_READ, ARRIVAL, &data, error) != GPUD_OK)
        return false;
    if (wrap(mapped, info, data, given.layout.size, offset, stride, GST_MAP_READ))
        return true;
    gpud_frame_unmap(frame);
    return refuse(error, GPUD_UNSUPPORTED, "GStreamer cannot read a frame of %s",
                  GST_VIDEO_INFO_NAME(info));
}

void picture_unmap(struct gpud_frame *frame, GstVideoFrame *mapped)
{
    gst_video_frame_unmap(mapped);
    gpud_frame_unmap(frame);
}

/* --- its conversion -------------------------------------------------------------------------- */

static GstVideoConverter *new_converter(const GstVideoInfo *from, const GstVideoInfo *to)
{
    /* As many threads as there are processors: 4K at 60 frames a second needs several. */
    GstStructure *config =
        gst_structure_new("convert", GST_VIDEO_CONVERTER_OPT_THREADS, G_TYPE_UINT, 0u, NULL);
    return gst_video_converter_new(from, to, config);
}

bool picture_convert(struct picture *picture, GstVideoFrame *mapped, GstVideoFormat format,
                     void *pixels, int stride, struct gpud_error *error)
{
    GstVideoInfo to;
    GstVideoFrame result;
    const GstVideoInfo *from = &picture->info;
    gsize offset[GST_VIDEO_MAX_PLANES] = {0};
    gst_video_info_set_interlaced_format(&to, format, GST_VIDEO_INFO_INTERLACE_MODE(from),
                                         (guint)from->width, (guint)from->height);
    to.fps_n = from->fps_n;
    to.fps_d = from->fps_d;
    if (picture->converter && picture->converted != format)
        picture_finish(picture);
    if (!picture->converter)
        picture->converter = new_converter(from, &to);
    picture->converted = format;
    if (!picture->converter || !wrap(&result, &to, pixels, (gsize)stride * (gsize)from->height,
                                     offset, &stride, GST_MAP_WRITE))
        return refuse(error, GPUD_UNSUPPORTED, "GStreamer cannot convert %s",
                      GST_VIDEO_INFO_NAME(from));
    gst_video_converter_frame(picture->converter, mapped, &result);
    gst_video_frame_unmap(&result);
    return true;
}
