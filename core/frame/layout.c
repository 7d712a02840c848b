/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How the planes of a picture lie in memory, and which of their rows are a step. */
#include "frame/frame.h"

#include "base/base.h"

#include <string.h>
#include <strings.h>

/* === layout ================================================================================== */
/* The arithmetic of planes. A layout may come from a peer, so every value is checked, and overflow
 * is impossible. */

struct plane_geometry {
    uint8_t group_pixels; /* pixels across that share one group of bytes */
    uint8_t group_bytes;
    uint8_t rows_divisor; /* vertical subsampling */
};

struct format {
    struct plane_geometry plane[GPUD_PLANES_MAX];
    const char *names[24]; /* GStreamer's names for what lies so; NULL ends them */
};

static const struct format formats[] = {
    {{{2, 4, 1}}, {"UYVY", "YUY2", "YVYU", "VYUY"}},
    {{{48, 128, 1}}, {"v210"}},
    {{{2, 8, 1}}, {"v216", "Y210", "Y212_LE", "Y216_LE"}},
    {{{2, 5, 1}}, {"UYVP"}},
    {{{1, 1, 1}, {2, 2, 2}}, {"NV12", "NV21"}},
    {{{1, 1, 1}, {2, 2, 1}}, {"NV16", "NV61"}},
    {{{1, 1, 1}, {1, 2, 1}}, {"NV24", "NV42"}},
    {{{1, 2, 1}, {2, 4, 2}}, {"P010_10LE", "P012_LE", "P016_LE"}},
    {{{1, 1, 1}, {2, 1, 2}, {2, 1, 2}}, {"I420", "YV12"}},
    {{{1, 1, 1}, {2, 1, 1}, {2, 1, 1}}, {"Y42B"}},
    {{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, {"Y444", "GBR", "RGBP", "BGRP"}},
    {{{1, 2, 1}, {2, 2, 2}, {2, 2, 2}}, {"I420_10LE", "I420_12LE"}},
    {{{1, 2, 1}, {2, 2, 1}, {2, 2, 1}}, {"I422_10LE", "I422_12LE"}},
    {{{1, 2, 1}, {1, 2, 1}, {1, 2, 1}},
     {"Y444_10LE", "Y444_12LE", "Y444_16LE", "GBR_10LE", "GBR_12LE", "GBR_16LE"}},
    {{{1, 1, 1}, {4, 1, 1}, {4, 1, 1}}, {"Y41B"}},
    {{{1, 1, 1}, {4, 1, 4}, {4, 1, 4}}, {"YUV9", "YVU9"}},
    {{{1, 1, 1}, {2, 1, 2}, {2, 1, 2}, {1, 1, 1}}, {"A420"}},
    {{{1, 2, 1}, {2, 2, 2}, {2, 2, 2}, {1, 2, 1}}, {"A420_10LE", "A420_12LE", "A420_16LE"}},
    {{{1, 1, 1}, {2, 1, 1}, {2, 1, 1}, {1, 1, 1}}, {"A422"}},
    {{{1, 2, 1}, {2, 2, 1}, {2, 2, 1}, {1, 2, 1}}, {"A422_10LE", "A422_12LE", "A422_16LE"}},
    {{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, {"A444", "GBRA"}},
    {{{1, 2, 1}, {1, 2, 1}, {1, 2, 1}, {1, 2, 1}},
     {"A444_10LE", "A444_12LE", "A444_16LE", "GBRA_10LE", "GBRA_12LE"}},
    {{{1, 1, 1}, {2, 2, 2}, {1, 1, 1}}, {"AV12"}},
    {{{1, 4, 1}},
     {"BGRx", "BGRA", "RGBx", "RGBA", "xRGB", "ARGB", "xBGR", "ABGR", "RBGA", "AYUV", "VUYA",
      "Y410", "r210", "RGB10A2_LE", "BGR10A2_LE"}},
    {{{1, 3, 1}}, {"v308", "IYU2", "RGB", "BGR"}},
    {{{1, 8, 1}},
     {"AYUV64", "ARGB64", "Y412_LE", "Y416_LE", "RGBA64_LE", "BGRA64_LE", "ARGB64_LE",
      "ABGR64_LE"}},
    {{{1, 2, 1}}, {"RGB16",    "BGR16",    "RGB15",    "BGR15",    "GRAY16_LE", "GRAY10_LE16",
                   "bggr10le", "gbrg10le", "grbg10le", "rggb10le", "bggr12le",  "gbrg12le",
                   "grbg12le", "rggb12le", "bggr14le", "gbrg14le", "grbg14le",  "rggb14le",
                   "bggr16le", "gbrg16le", "grbg16le", "rggb16le"}},
    {{{1, 1, 1}}, {"GRAY8", "bggr", "gbrg", "grbg", "rggb"}},
};

#define FORMATS (sizeof(formats) / sizeof(formats[0]))

/* NULL: it is not known. Big-endian samples lie as little-endian ones do. */
static const struct format *layout_find_format(const char *name)
{
    size_t length = strlen(name), order = length - 2;
    bool big = length > 2 && strcmp(name + order, "BE") == 0;
    for (size_t i = 0; i < FORMATS; i++)
        for (const char *const *known = formats[i].names; *known; known++)
            if (strcmp(*known, name) == 0 ||
                (big && strlen(*known) == length && strncmp(*known, name, order) == 0 &&
                 strcmp(*known + order, "LE") == 0))
                return &formats[i];
    return NULL;
}

static enum gpud_status fail_unknown(const char *name, struct gpud_error *error)
{
    for (size_t i = 0; i < FORMATS; i++)
        for (const char *const *known = formats[i].names; *known; known++)
            if (strcasecmp(*known, name) == 0)
                return gpud_fail(error, GPUD_UNSUPPORTED,
                                 "there is no format \"%s\": it is spelled \"%s\"", name, *known);
    return gpud_fail(error, GPUD_UNSUPPORTED,
                     "the geometry of format \"%.16s\" is not known: choose another, as RGBA "
                     "(videoconvert ! video/x-raw,format=RGBA), or describe its planes",
                     name);
}

static enum gpud_status check_dimensions(uint32_t width, uint32_t height, struct gpud_error *error)
{
    if (width < 1 || height < 1 || width > GPUD_DIMENSION_MAX || height > GPUD_DIMENSION_MAX)
        return gpud_fail(error, GPUD_INVALID, "a picture of %ux%u: 1x1 to %dx%d is possible", width,
                         height, GPUD_DIMENSION_MAX, GPUD_DIMENSION_MAX);
    return GPUD_OK;
}

enum gpud_status gpud_layout_init(struct gpud_layout *layout, const char *name, uint32_t width,
                                  uint32_t height, uint32_t stride_align, struct gpud_error *error)
{
    enum gpud_status status = check_dimensions(width, height, error);
    if (status != GPUD_OK)
        return status;
    if (stride_align == 0)
        stride_align = 4;
    if (stride_align & (stride_align - 1) || stride_align > 4096)
        return gpud_fail(error, GPUD_INVALID,
                         "strides cannot be aligned to %u: a power of two up to 4096 is possible",
                         stride_align);
    const struct format *format = layout_find_format(name);
    if (!format)
        return fail_unknown(name, error);

    struct gpud_layout made = {.width = width, .height = height};
    gpud_print(made.format, "%s", name);
    uint64_t offset = 0;
    for (; made.planes < GPUD_PLANES_MAX && format->plane[made.planes].group_pixels;
         made.planes++) {
        const struct plane_geometry *geometry = &format->plane[made.planes];
        struct gpud_plane *plane = &made.plane[made.planes];
        plane->row_bytes =
            (width + geometry->group_pixels - 1u) / geometry->group_pixels * geometry->group_bytes;
        plane->rows = (height + geometry->rows_divisor - 1u) / geometry->rows_divisor;
        plane->stride = (plane->row_bytes + stride_align - 1) & ~(stride_align - 1);
        plane->offset = offset;
        offset += (uint64_t)plane->stride * plane->rows;
    }
    made.size = offset;
    *layout = made;
    return GPUD_OK;
}

enum gpud_status gpud_layout_check(const struct gpud_layout *layout, struct gpud_error *error)
{
    enum gpud_status status = check_dimensions(layout->width, layout->height, error);
    if (status != GPUD_OK)
        return status;
    if (!memchr(layout->format, '\0', sizeof(layout->format)) || !layout->format[0])
        return gpud_fail(error, GPUD_INVALID, "a layout without the name of a format");
    if (layout->planes < 1 || layout->planes > GPUD_PLANES_MAX)
        return gpud_fail(error, GPUD_INVALID, "a layout of %u planes: 1 to %d are possible",
                         layout->planes, GPUD_PLANES_MAX);
    if (layout->size < 1 || layout->size > GPUD_FRAME_SIZE_MAX)
        return gpud_fail(error, GPUD_INVALID, "a frame of %llu bytes: 1 to %llu are possible",
                         (unsigned long long)layout->size, (unsigned long long)GPUD_FRAME_SIZE_MAX);
    for (uint32_t i = 0; i < layout->planes; i++) {
        const struct gpud_plane *plane = &layout->plane[i];
        uint64_t end;
        if (plane->rows < 1 || plane->rows > GPUD_DIMENSION_MAX || plane->row_bytes < 1)
            return gpud_fail(error, GPUD_INVALID, "plane %u has %u rows of %u bytes", i,
                             plane->rows, plane->row_bytes);
        if (plane->stride < plane->row_bytes)
            return gpud_fail(error, GPUD_INVALID,
                             "plane %u has a stride of %u for rows of %u bytes", i, plane->stride,
                             plane->row_bytes);
        if (__builtin_mul_overflow((uint64_t)plane->stride, plane->rows - 1u, &end) ||
            __builtin_add_overflow(end, plane->row_bytes, &end) ||
            __builtin_add_overflow(end, plane->offset, &end) || end > layout->size)
            return gpud_fail(error, GPUD_INVALID, "plane %u leaves the frame of %llu bytes", i,
                             (unsigned long long)layout->size);
    }
    return GPUD_OK;
}

bool gpud_layout_same_picture(const struct gpud_layout *a, const struct gpud_layout *b)
{
    if (strcmp(a->format, b->format) != 0 || a->width != b->width || a->height != b->height ||
        a->planes != b->planes || a->modifier != b->modifier)
        return false;
    for (uint32_t i = 0; i < a->planes; i++)
        if (a->plane[i].row_bytes != b->plane[i].row_bytes || a->plane[i].rows != b->plane[i].rows)
            return false;
    return true;
}

bool gpud_layout_is_block(const struct gpud_layout *layout)
{
    return layout->width == 1 && layout->height == 1 && layout->planes == 1 &&
           layout->plane[0].offset == 0 && layout->plane[0].rows == 1 &&
           layout->plane[0].row_bytes == layout->size;
}

#define PAGE UINT64_C(4096)
#define ROUNDED_UP (UINT64_C(1) << 20)
#define PIXEL_MAX UINT64_C(32) /* bytes; no format has as many */

uint64_t gpud_layout_reasonable_size(const struct gpud_layout *layout)
{
    struct gpud_layout known;
    uint64_t bytes = 0, pages = 0, most = PIXEL_MAX * layout->width * layout->height;
    if (gpud_layout_is_block(layout))
        return layout->size;
    /* A peer describes the rows of formats that are not known. */
    if (gpud_layout_init(&known, layout->format, layout->width, layout->height, 0, NULL) == GPUD_OK)
        layout = &known;
    for (uint32_t i = 0; i < layout->planes; i++) {
        const struct gpud_plane *plane = &layout->plane[i];
        bytes += (uint64_t)plane->row_bytes * plane->rows;
        pages += (plane->row_bytes + PAGE - 1) / PAGE * PAGE * plane->rows;
    }
    if (bytes > most)
        bytes = pages = most;
    return (2 * bytes > pages ? 2 * bytes : pages) + ROUNDED_UP;
}

bool gpud_layout_equal(const struct gpud_layout *a, const struct gpud_layout *b)
{
    if (a->size != b->size || !gpud_layout_same_picture(a, b))
        return false;
    for (uint32_t i = 0; i < a->planes; i++)
        if (a->plane[i].offset != b->plane[i].offset || a->plane[i].stride != b->plane[i].stride)
            return false;
    return true;
}

/* === rows ==================================================================================== */

/* The rows of a plane above a row of the picture. */
static uint32_t rows_above(const struct gpud_layout *layout, const struct gpud_plane *plane,
                           uint32_t row)
{
    return row < layout->height ? (uint32_t)((uint64_t)plane->rows * row / layout->height)
                                : plane->rows;
}

void gpud_rows_of_plane(const struct gpud_layout *layout, uint32_t plane, struct gpud_rows rows,
                        uint64_t *offset, uint64_t *size)
{
    const struct gpud_plane *its = &layout->plane[plane];
    uint64_t from = rows_above(layout, its, rows.from), to = rows_above(layout, its, rows.to);
    *offset = its->offset + from * its->stride;
    *size = to > from ? (to - from - 1) * its->stride + its->row_bytes : 0;
}

enum gpud_status gpud_rows_copy(struct gpud_queue *queue, const struct gpud_copy *frames,
                                const struct gpud_layout *to, const struct gpud_layout *from,
                                struct gpud_rows rows, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < to->planes && status == GPUD_OK; i++) {
        const struct gpud_plane *to_plane = &to->plane[i], *from_plane = &from->plane[i];
        uint32_t first = rows_above(to, to_plane, rows.from);
        struct gpud_copy copy = {
            .to = frames->to,
            .from = frames->from,
            .to_offset = frames->to_offset + to_plane->offset + (uint64_t)first * to_plane->stride,
            .from_offset =
                frames->from_offset + from_plane->offset + (uint64_t)first * from_plane->stride,
            .to_stride = to_plane->stride,
            .from_stride = from_plane->stride,
            .row_bytes = to_plane->row_bytes,
            .rows = rows_above(to, to_plane, rows.to) - first,
        };
        status = gpud_queue_copy(queue, &copy, error);
    }
    return status;
}
