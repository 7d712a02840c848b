/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/layout.h"

#include <string.h>

static gboolean format_is_opaque(const GstVideoInfo *info)
{
    return GST_VIDEO_FORMAT_INFO_IS_TILED(info->finfo) ||
           GST_VIDEO_FORMAT_INFO_HAS_PALETTE(info->finfo);
}

GstClockTime layout_interval(const GstVideoInfo *info)
{
    guint64 buffers = (guint64)MAX(0, info->fps_n);

    if (GST_VIDEO_INFO_INTERLACE_MODE(info) == GST_VIDEO_INTERLACE_MODE_ALTERNATE)
        buffers *= 2;
    return buffers > 0 ? gst_util_uint64_scale(GST_SECOND, (guint64)info->fps_d, buffers)
                       : GST_CLOCK_TIME_NONE;
}

/* Bytes of picture in a row of a plane. Formats that pack several pixels into words have no pixel
 * stride: their rows are as long as their stride. */
static gsize plane_row_bytes(const GstVideoInfo *info, guint plane)
{
    const GstVideoFormatInfo *format = info->finfo;
    gboolean words = GST_VIDEO_FORMAT_INFO_IS_COMPLEX(format);
    gsize bytes = 0;

    for (guint c = 0; c < GST_VIDEO_FORMAT_INFO_N_COMPONENTS(format) && !words; c++) {
        if (GST_VIDEO_FORMAT_INFO_PLANE(format, c) != plane)
            continue;
        gsize row = (gsize)GST_VIDEO_INFO_COMP_WIDTH(info, c) *
                    (gsize)GST_VIDEO_FORMAT_INFO_PSTRIDE(format, c);
        words = row == 0;
        bytes = MAX(bytes, row);
    }
    if (!words)
        return bytes;
    /* GStreamer's default stride for the width, without an element's padding. */
    GstVideoInfo plain;
    return gst_video_info_set_format(&plain, GST_VIDEO_INFO_FORMAT(info), (guint)info->width,
                                     (guint)info->height)
               ? (gsize)GST_VIDEO_INFO_PLANE_STRIDE(&plain, plane)
               : 0;
}

static guint plane_rows(const GstVideoInfo *info, guint plane)
{
    gint component[GST_VIDEO_MAX_COMPONENTS];

    gst_video_format_info_component(info->finfo, plane, component);
    return component[0] < 0 ? 0 : (guint)GST_VIDEO_INFO_COMP_HEIGHT(info, component[0]);
}

static gboolean fill_layout(struct gpud_layout *layout, const GstVideoInfo *info,
                            const gsize *offset, const gint *stride, gsize size)
{
    struct gpud_layout made = {.width = (guint)info->width,
                               .height = (guint)GST_VIDEO_INFO_FIELD_HEIGHT(info),
                               .size = size};

    g_strlcpy(made.format, GST_VIDEO_INFO_NAME(info), sizeof(made.format));
    if (format_is_opaque(info)) {
        made.planes = 1;
        made.plane[0] =
            (struct gpud_plane){.stride = (uint32_t)size, .row_bytes = (uint32_t)size, .rows = 1};
    } else {
        made.planes = GST_VIDEO_INFO_N_PLANES(info);
        for (guint i = 0; i < made.planes; i++) {
            if (stride[i] <= 0)
                return FALSE;
            made.plane[i].offset = offset[i];
            made.plane[i].stride = (uint32_t)stride[i];
            made.plane[i].row_bytes = (uint32_t)plane_row_bytes(info, i);
            made.plane[i].rows = plane_rows(info, i);
        }
    }
    if (gpud_layout_check(&made, NULL) != GPUD_OK)
        return FALSE;
    *layout = made;
    return TRUE;
}

gboolean layout_from_info(struct gpud_layout *layout, const GstVideoInfo *info)
{
    return fill_layout(layout, info, info->offset, info->stride, info->size);
}

gboolean layout_from_buffer(struct gpud_layout *layout, const GstVideoInfo *info, GstBuffer *buffer,
                            gsize size)
{
    const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);

    if (meta && meta->n_planes != GST_VIDEO_INFO_N_PLANES(info))
        return FALSE;
    if (meta && !format_is_opaque(info))
        return fill_layout(layout, info, meta->offset, meta->stride, size);
    for (guint i = 0; meta && i < meta->n_planes; i++)
        if (meta->offset[i] != info->offset[i] || meta->stride[i] != info->stride[i])
            return FALSE;
    return size >= info->size && layout_from_info(layout, info);
}

/* Rows may run backwards: then the first one lies last. */
static gboolean plane_lies_within(const GstVideoInfo *info, guint plane, gsize offset, gint stride,
                                  gsize size)
{
    guint64 rows = plane_rows(info, plane), row_bytes = plane_row_bytes(info, plane);
    guint64 reach = rows > 0 ? (rows - 1) * (guint64)ABS((gint64)stride) : 0;

    if (offset > size || row_bytes > size - offset)
        return FALSE;
    return stride < 0 ? reach <= offset : reach <= size - offset - row_bytes;
}

gboolean layout_buffer_holds_picture(const GstVideoInfo *info, GstBuffer *buffer)
{
    const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
    gsize size = gst_buffer_get_size(buffer);

    if (!meta || (format_is_opaque(info) && size < info->size))
        return size >= info->size;
    if (meta->format != GST_VIDEO_INFO_FORMAT(info) || meta->width < (guint)info->width ||
        meta->height < (guint)info->height || meta->n_planes != GST_VIDEO_INFO_N_PLANES(info))
        return FALSE;
    for (guint i = 0; i < meta->n_planes && !format_is_opaque(info); i++)
        if (!plane_lies_within(info, i, meta->offset[i], meta->stride[i], size))
            return FALSE;
    return TRUE;
}

gboolean layout_fits_info(const struct gpud_layout *layout, const GstVideoInfo *info)
{
    if (gpud_layout_check(layout, NULL) != GPUD_OK || layout->modifier != 0 ||
        strcmp(layout->format, GST_VIDEO_INFO_NAME(info)) != 0 ||
        layout->width != (guint)info->width ||
        layout->height != (guint)GST_VIDEO_INFO_FIELD_HEIGHT(info))
        return FALSE;
    if (format_is_opaque(info))
        return layout->planes == 1 && layout->plane[0].offset == 0 && layout->size >= info->size &&
               info->size <= G_MAXINT;
    if (layout->planes != GST_VIDEO_INFO_N_PLANES(info))
        return FALSE;
    for (guint i = 0; i < layout->planes; i++) {
        const struct gpud_plane *plane = &layout->plane[i];
        guint64 rows = plane_rows(info, i);
        /* Elements and the converter find a row by a product of two gints. */
        if (plane->rows < rows || plane->row_bytes < plane_row_bytes(info, i) ||
            plane->stride * rows > G_MAXINT)
            return FALSE;
    }
    return TRUE;
}

gchar *layout_format_name(const struct gpud_layout *layout)
{
    gchar *name = g_strndup(layout->format, sizeof(layout->format));

    for (gchar *c = name; *c; c++)
        if (!g_ascii_isgraph(*c))
            *c = '?';
    return name;
}

gboolean layout_is_moved(const struct gpud_layout *a, const struct gpud_layout *b)
{
    if (a->size != b->size || a->width != b->width || a->height != b->height ||
        a->planes != b->planes || a->modifier != b->modifier ||
        strncmp(a->format, b->format, sizeof(a->format)) != 0)
        return FALSE;
    for (guint i = 0; i < MIN(a->planes, GPUD_PLANES_MAX); i++) {
        const struct gpud_plane *p = &a->plane[i], *q = &b->plane[i];
        if (p->stride != q->stride || p->row_bytes != q->row_bytes || p->rows != q->rows)
            return FALSE;
    }
    return TRUE;
}

gboolean layout_is_equal(const struct gpud_layout *a, const struct gpud_layout *b)
{
    if (!layout_is_moved(a, b))
        return FALSE;
    for (guint i = 0; i < MIN(a->planes, GPUD_PLANES_MAX); i++)
        if (a->plane[i].offset != b->plane[i].offset)
            return FALSE;
    return TRUE;
}

void layout_to_planes(const struct gpud_layout *layout, const GstVideoInfo *info,
                      struct video_planes *planes)
{
    gboolean opaque = format_is_opaque(info);

    planes->count = GST_VIDEO_INFO_N_PLANES(info);
    for (guint i = 0; i < planes->count; i++) {
        planes->offset[i] = opaque ? info->offset[i] : layout->plane[i].offset;
        planes->stride[i] = opaque ? info->stride[i] : (gint)layout->plane[i].stride;
    }
}

gboolean planes_are_default(const struct video_planes *planes, const GstVideoInfo *info)
{
    for (guint i = 0; i < planes->count; i++)
        if (planes->offset[i] != info->offset[i] || planes->stride[i] != info->stride[i])
            return FALSE;
    return TRUE;
}
