/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "capture/formats.h"

#include <linux/videodev2.h>
#include <string.h>
#include <unistd.h>

/* V4L2 gives the stride of the first plane in an area; the others' follow from it by this
 * factor. */
enum chroma {
    SAME,
    HALF,
    DOUBLE,
};

struct known_format {
    const char *name;
    uint32_t fourcc;
    uint8_t areas;
    uint8_t chroma; /* enum chroma */
};

/* Formats of one name: the one with fewer areas first. Those written as letters are newer than some
 * systems' headers, or a vendor's own. */
static const struct known_format formats[] = {
    {"UYVY", V4L2_PIX_FMT_UYVY, 1, SAME},
    {"YUY2", V4L2_PIX_FMT_YUYV, 1, SAME},
    {"YVYU", V4L2_PIX_FMT_YVYU, 1, SAME},
    {"VYUY", V4L2_PIX_FMT_VYUY, 1, SAME},
    {"v210", v4l2_fourcc('v', '2', '1', '0'), 1, SAME},
    {"Y210", v4l2_fourcc('Y', '2', '1', '0'), 1, SAME},
    {"NV12", V4L2_PIX_FMT_NV12, 1, SAME},
    {"NV12", V4L2_PIX_FMT_NV12M, 2, SAME},
    {"NV21", V4L2_PIX_FMT_NV21, 1, SAME},
    {"NV21", V4L2_PIX_FMT_NV21M, 2, SAME},
    {"NV16", V4L2_PIX_FMT_NV16, 1, SAME},
    {"NV16", V4L2_PIX_FMT_NV16M, 2, SAME},
    {"NV61", V4L2_PIX_FMT_NV61, 1, SAME},
    {"NV61", V4L2_PIX_FMT_NV61M, 2, SAME},
    {"NV24", V4L2_PIX_FMT_NV24, 1, DOUBLE},
    {"NV42", V4L2_PIX_FMT_NV42, 1, DOUBLE},
    {"P010_10LE", V4L2_PIX_FMT_P010, 1, SAME},
    {"P012_LE", v4l2_fourcc('P', '0', '1', '2'), 1, SAME},
    {"I420", V4L2_PIX_FMT_YUV420, 1, HALF},
    {"I420", V4L2_PIX_FMT_YUV420M, 3, SAME},
    {"YV12", V4L2_PIX_FMT_YVU420, 1, HALF},
    {"YV12", V4L2_PIX_FMT_YVU420M, 3, SAME},
    {"Y42B", V4L2_PIX_FMT_YUV422P, 1, HALF},
    {"Y42B", V4L2_PIX_FMT_YUV422M, 3, SAME},
    {"Y444", V4L2_PIX_FMT_YUV444M, 3, SAME},
    {"BGRx", V4L2_PIX_FMT_XBGR32, 1, SAME},
    {"BGRx", V4L2_PIX_FMT_BGR32, 1, SAME},
    {"BGRA", V4L2_PIX_FMT_ABGR32, 1, SAME},
    {"RGBx", V4L2_PIX_FMT_RGBX32, 1, SAME},
    {"RGBA", V4L2_PIX_FMT_RGBA32, 1, SAME},
    {"xRGB", V4L2_PIX_FMT_XRGB32, 1, SAME},
    {"xRGB", V4L2_PIX_FMT_RGB32, 1, SAME},
    {"ARGB", V4L2_PIX_FMT_ARGB32, 1, SAME},
    {"xBGR", V4L2_PIX_FMT_BGRX32, 1, SAME},
    {"ABGR", V4L2_PIX_FMT_BGRA32, 1, SAME},
    {"AYUV", V4L2_PIX_FMT_AYUV32, 1, SAME},
    {"RGB", V4L2_PIX_FMT_RGB24, 1, SAME},
    {"BGR", V4L2_PIX_FMT_BGR24, 1, SAME},
    {"RGB16", V4L2_PIX_FMT_RGB565, 1, SAME},
    {"RGB15", V4L2_PIX_FMT_XRGB555, 1, SAME},
    {"RGB15", V4L2_PIX_FMT_RGB555, 1, SAME},
    {"BGR15", v4l2_fourcc('X', 'B', '1', '5'), 1, SAME},
    {"GRAY8", V4L2_PIX_FMT_GREY, 1, SAME},
    {"GRAY16_LE", V4L2_PIX_FMT_Y16, 1, SAME},
    {"GRAY16_BE", V4L2_PIX_FMT_Y16_BE, 1, SAME},
    {"GRAY10_LE16", V4L2_PIX_FMT_Y10, 1, SAME},
    {"bggr", V4L2_PIX_FMT_SBGGR8, 1, SAME},
    {"gbrg", V4L2_PIX_FMT_SGBRG8, 1, SAME},
    {"grbg", V4L2_PIX_FMT_SGRBG8, 1, SAME},
    {"rggb", V4L2_PIX_FMT_SRGGB8, 1, SAME},
    {"bggr10le", V4L2_PIX_FMT_SBGGR10, 1, SAME},
    {"gbrg10le", V4L2_PIX_FMT_SGBRG10, 1, SAME},
    {"grbg10le", V4L2_PIX_FMT_SGRBG10, 1, SAME},
    {"rggb10le", V4L2_PIX_FMT_SRGGB10, 1, SAME},
    {"bggr12le", V4L2_PIX_FMT_SBGGR12, 1, SAME},
    {"gbrg12le", V4L2_PIX_FMT_SGBRG12, 1, SAME},
    {"grbg12le", V4L2_PIX_FMT_SGRBG12, 1, SAME},
    {"rggb12le", V4L2_PIX_FMT_SRGGB12, 1, SAME},
    {"bggr14le", V4L2_PIX_FMT_SBGGR14, 1, SAME},
    {"gbrg14le", V4L2_PIX_FMT_SGBRG14, 1, SAME},
    {"grbg14le", V4L2_PIX_FMT_SGRBG14, 1, SAME},
    {"rggb14le", V4L2_PIX_FMT_SRGGB14, 1, SAME},
    {"bggr16le", V4L2_PIX_FMT_SBGGR16, 1, SAME},
    {"gbrg16le", V4L2_PIX_FMT_SGBRG16, 1, SAME},
    {"grbg16le", V4L2_PIX_FMT_SGRBG16, 1, SAME},
    {"rggb16le", V4L2_PIX_FMT_SRGGB16, 1, SAME},
};
#define FORMATS (sizeof(formats) / sizeof(formats[0]))

static const struct known_format *find(uint32_t fourcc)
{
    for (size_t i = 0; i < FORMATS; i++)
        if (formats[i].fourcc == fourcc)
            return &formats[i];
    return NULL;
}

const char *gpud_format_name(uint32_t fourcc)
{
    const struct known_format *known = find(fourcc);
    return known ? known->name : NULL;
}

const char *gpud_format_opaque(const char *name)
{
    static const char *const pairs[][2] = {
        {"BGRA", "BGRx"}, {"RGBA", "RGBx"}, {"ARGB", "xRGB"}, {"ABGR", "xBGR"}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (strcmp(pairs[i][0], name) == 0)
            return pairs[i][1];
    return NULL;
}

bool gpud_format_has_alpha(const char *name)
{
    return gpud_format_opaque(name) || strcmp(name, "AYUV") == 0;
}

enum gpud_samples gpud_format_samples(const char *name)
{
    static const char *const full[] = {"NV24", "NV42", "Y444", "AYUV", "GRAY"};
    static const char *const mosaics[] = {"bggr", "gbrg", "grbg", "rggb"};
    if (!name)
        return GPUD_SAMPLES_RAW;
    for (size_t i = 0; i < sizeof(mosaics) / sizeof(mosaics[0]); i++)
        if (strncmp(name, mosaics[i], 4) == 0)
            return GPUD_SAMPLES_RAW;
    if (strstr(name, "RGB") || strstr(name, "BGR"))
        return GPUD_SAMPLES_RGB;
    for (size_t i = 0; i < sizeof(full) / sizeof(full[0]); i++)
        if (strncmp(name, full[i], 4) == 0)
            return GPUD_SAMPLES_YUV;
    return GPUD_SAMPLES_SUBSAMPLED;
}

uint32_t gpud_format_fourcc(const char *name, size_t place)
{
    for (size_t i = 0; i < FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0 && place-- == 0)
            return formats[i].fourcc;
    return 0;
}

/* The stride of plane i, which is not the first of its area. False: the driver's stride is not
 * divisible. */
static bool further_stride(const struct known_format *known, uint32_t first, uint32_t *stride)
{
    switch ((enum chroma)known->chroma) {
    case HALF:
        *stride = first / 2;
        return first % 2 == 0;
    case DOUBLE:
        return !__builtin_mul_overflow(first, 2u, stride);
    case SAME:
        break;
    }
    *stride = first;
    return true;
}

enum gpud_status gpud_format_place(const struct gpud_v4l2_format *format,
                                   struct gpud_placement *placement, struct gpud_error *error)
{
    const struct known_format *known = find(format->fourcc);
    if (!known)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the driver chose a format that has no name here (%.4s)",
                         (const char *)&format->fourcc);
    if (format->planes != known->areas)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the driver puts %s into %u areas of memory, V4L2 into %u", known->name,
                         format->planes, known->areas);

    struct gpud_placement made = {.areas = known->areas};
    struct gpud_layout *layout = &made.layout;
    enum gpud_status status =
        gpud_layout_init(layout, known->name, format->width, format->height, 1, error);
    if (status != GPUD_OK)
        return status;

    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    layout->size = 0;
    for (uint32_t i = 0; i < made.areas; i++) {
        made.area[i].start = (layout->size + page - 1) / page * page;
        made.area[i].size = format->plane[i].size;
        layout->size = made.area[i].start + format->plane[i].size;
    }

    uint64_t offset = 0; /* within the area */
    for (uint32_t i = 0; i < layout->planes; i++) {
        uint32_t area = made.areas > 1 ? i : 0;
        bool first = i == 0 || made.areas > 1;
        struct gpud_plane *plane = &layout->plane[i];
        plane->stride = format->plane[area].stride;
        if (first)
            offset = 0;
        else if (!further_stride(known, format->plane[area].stride, &plane->stride))
            return gpud_fail(error, GPUD_UNSUPPORTED, "the driver's stride of %u does not fit %s",
                             format->plane[area].stride, known->name);
        plane->offset = made.area[area].start + offset;
        made.area_of[i] = (uint8_t)area;

        uint64_t end = offset + (uint64_t)plane->stride * (plane->rows - 1) + plane->row_bytes;
        if (plane->stride < plane->row_bytes || end > format->plane[area].size)
            return gpud_fail(
                error, GPUD_UNSUPPORTED,
                "the driver's stride of %u and size of %u cannot hold plane %u of %s %ux%u",
                plane->stride, format->plane[area].size, i, known->name, format->width,
                format->height);
        made.area[area].filled = (uint32_t)end;
        offset += (uint64_t)plane->stride * plane->rows;
    }
    status = gpud_layout_check(layout, error);
    if (status == GPUD_OK)
        *placement = made;
    return status;
}
