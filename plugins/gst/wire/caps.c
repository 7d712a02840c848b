/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GStreamer's caps and GstVideoInfo on one side, the core's layout and media bytes on the other. */
#include "wire/caps.h"
#include "wire/pack.h"

#include <string.h>

/* --- the picture's geometry --------------------------------------------------------------- */

static gboolean format_is_opaque(const GstVideoInfo *info)
{
    return GST_VIDEO_FORMAT_INFO_IS_TILED(info->finfo) ||
           GST_VIDEO_FORMAT_INFO_HAS_PALETTE(info->finfo);
}

static guint field_height(gint height)
{
    return ((guint)height + 1) / 2;
}

static gboolean structure_is_of_fields(const GstStructure *structure)
{
    const gchar *mode = gst_structure_get_string(structure, "interlace-mode");

    return mode && strcmp(mode, "alternate") == 0;
}

gboolean caps_are_fields(const GstCaps *caps)
{
    return structure_is_of_fields(gst_caps_get_structure(caps, 0));
}

GstClockTime layout_interval(const GstVideoInfo *info)
{
    guint64 buffers = (guint64)MAX(0, info->fps_n);

    if (GST_VIDEO_INFO_INTERLACE_MODE(info) == GST_VIDEO_INTERLACE_MODE_ALTERNATE)
        buffers *= 2;
    return buffers > 0 ? gst_util_uint64_scale(GST_SECOND, (guint64)info->fps_d, buffers)
                       : GST_CLOCK_TIME_NONE;
}

/* What GStreamer makes of the width, without padding for an element's sake. */
static gsize plain_stride(const GstVideoInfo *info, guint plane)
{
    GstVideoInfo plain;

    if (!gst_video_info_set_format(&plain, GST_VIDEO_INFO_FORMAT(info), (guint)info->width,
                                   (guint)info->height))
        return 0;
    return (gsize)GST_VIDEO_INFO_PLANE_STRIDE(&plain, plane);
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
    return words ? plain_stride(info, plane) : bytes;
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

    if (!meta)
        return size >= info->size &&
               fill_layout(layout, info, info->offset, info->stride, info->size);
    if (meta->n_planes != GST_VIDEO_INFO_N_PLANES(info))
        return FALSE;
    if (format_is_opaque(info)) {
        for (guint i = 0; i < meta->n_planes; i++)
            if (meta->offset[i] != info->offset[i] || meta->stride[i] != info->stride[i])
                return FALSE;
        return size >= info->size &&
               fill_layout(layout, info, info->offset, info->stride, info->size);
    }
    return fill_layout(layout, info, meta->offset, meta->stride, size);
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
    if (strcmp(layout->format, GST_VIDEO_INFO_NAME(info)) != 0 ||
        layout->width != (guint)info->width ||
        layout->height != (guint)GST_VIDEO_INFO_FIELD_HEIGHT(info))
        return FALSE;
    if (format_is_opaque(info))
        return layout->planes == 1 && layout->plane[0].offset == 0 && layout->size >= info->size;
    if (layout->planes != GST_VIDEO_INFO_N_PLANES(info))
        return FALSE;
    for (guint i = 0; i < layout->planes; i++) {
        const struct gpud_plane *plane = &layout->plane[i];
        if (plane->stride > G_MAXINT || plane->row_bytes < plane_row_bytes(info, i) ||
            plane->rows < plane_rows(info, i))
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
        a->planes != b->planes || strncmp(a->format, b->format, sizeof(a->format)) != 0)
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

/* --- media bytes: "GPDC", u8 version, the caps' structure, and maybe that of a GPU --------- */

static const uint8_t media_magic[4] = {'G', 'P', 'D', 'C'};
#define MEDIA_VERSION 1

size_t media_from_caps(uint8_t media[GPUD_MEDIA_MAX], const GstCaps *caps)
{
    struct pack pack = {.data = media, .size = GPUD_MEDIA_MAX};

    pack_bytes(&pack, media_magic, sizeof(media_magic));
    pack_u8(&pack, MEDIA_VERSION);
    pack_structure(&pack, gst_caps_get_structure(caps, 0), NULL);
    return pack.full ? 0 : pack.used;
}

#define GPU_STRUCTURE "place"
#define GPU_FIELD "gpu"

size_t media_add_gpu(uint8_t media[GPUD_MEDIA_MAX], size_t size, const gchar *pci)
{
    struct pack pack = {.data = media, .size = GPUD_MEDIA_MAX, .used = size};
    GstStructure *structure = gst_structure_new(GPU_STRUCTURE, GPU_FIELD, G_TYPE_STRING, pci, NULL);

    if (size > 0)
        pack_structure(&pack, structure, NULL);
    gst_structure_free(structure);
    return pack.full ? size : pack.used;
}

gchar *media_get_gpu(const void *media, size_t size, struct names *names)
{
    struct unpack unpack = {.data = media, .left = size, .names = names};
    const uint8_t *magic = unpack_bytes(&unpack, sizeof(media_magic));
    gchar *pci = NULL;

    if (!magic || memcmp(magic, media_magic, sizeof(media_magic)) != 0 ||
        unpack_u8(&unpack) != MEDIA_VERSION)
        return NULL;
    GstStructure *caps = unpack_structure(&unpack);
    GstStructure *structure = caps && unpack.left > 0 ? unpack_structure(&unpack) : NULL;
    if (structure && gst_structure_has_name(structure, GPU_STRUCTURE))
        pci = g_strdup(gst_structure_get_string(structure, GPU_FIELD));
    g_clear_pointer(&structure, gst_structure_free);
    g_clear_pointer(&caps, gst_structure_free);
    return pci;
}

static GstCaps *caps_from_layout(const struct gpud_layout *layout)
{
    return gst_caps_new_simple(video_media_type(layout->format), "format", G_TYPE_STRING,
                               layout->format, "width", G_TYPE_INT, (gint)layout->width, "height",
                               G_TYPE_INT, (gint)layout->height, "framerate", GST_TYPE_FRACTION, 0,
                               1, NULL);
}

static gboolean structure_fits_layout(const GstStructure *structure,
                                      const struct gpud_layout *layout)
{
    const gchar *format = gst_structure_get_string(structure, "format");
    gint width = 0, height = 0;

    gst_structure_get_int(structure, "width", &width);
    gst_structure_get_int(structure, "height", &height);
    if (height > 0 && structure_is_of_fields(structure))
        height = (gint)field_height(height);
    return gst_structure_has_name(structure, video_media_type(layout->format)) && format &&
           strcmp(format, layout->format) == 0 && width == (gint)layout->width &&
           height == (gint)layout->height;
}

/* What elements calculate with, and no honest caps say. */
static gboolean fractions_are_sane(const GstStructure *structure)
{
    gint numerator, denominator;

    if (gst_structure_get_fraction(structure, "framerate", &numerator, &denominator) &&
        numerator < 0)
        return FALSE;
    return !gst_structure_get_fraction(structure, "pixel-aspect-ratio", &numerator, &denominator) ||
           numerator > 0;
}

static GstCaps *caps_from_media(const struct gpud_layout *layout, struct unpack *unpack,
                                gchar **reason)
{
    uint8_t version = unpack_u8(unpack);
    if (version != MEDIA_VERSION) {
        *reason = g_strdup_printf(
            "the sender describes its caps by version %u, this plugin knows %d: use the same "
            "release on both sides",
            version, MEDIA_VERSION);
        return NULL;
    }
    GstStructure *structure = unpack_structure(unpack);
    GstCaps *caps = gst_caps_new_empty();
    if (structure)
        gst_caps_append_structure_full(
            caps, structure,
            structure_is_of_fields(structure)
                ? gst_caps_features_new(GST_CAPS_FEATURE_FORMAT_INTERLACED, NULL)
                : NULL);
    if (structure && structure_fits_layout(structure, layout) && fractions_are_sane(structure) &&
        gst_caps_is_fixed(caps))
        return caps;
    gst_caps_unref(caps);
    *reason = g_strdup_printf("the sender's caps do not describe its frames of %ux%u %s",
                              layout->width, layout->height, layout->format);
    return NULL;
}

GstCaps *media_to_caps(const struct gpud_layout *layout, const void *media, size_t size,
                       struct names *names, GstVideoInfo *info, gchar **reason)
{
    struct unpack unpack = {.data = media, .left = size, .names = names};
    const uint8_t *magic = unpack_bytes(&unpack, sizeof(media_magic));
    gboolean ours = magic && memcmp(magic, media_magic, sizeof(media_magic)) == 0;

    if (gpud_layout_check(layout, NULL) != GPUD_OK || !video_media_type(layout->format)) {
        gchar *name = layout_format_name(layout);
        *reason = g_strdup_printf("the sender's format \"%s\" is none that GStreamer knows", name);
        g_free(name);
        return NULL;
    }
    GstCaps *caps = ours ? caps_from_media(layout, &unpack, reason) : caps_from_layout(layout);
    if (!caps)
        return NULL;
    if (!video_info_from_caps(info, caps) || !layout_fits_info(layout, info)) {
        *reason = g_strdup_printf("the sender's frames have too little room for %ux%u %s",
                                  layout->width, layout->height, layout->format);
        gst_caps_unref(caps);
        return NULL;
    }
    return caps;
}
