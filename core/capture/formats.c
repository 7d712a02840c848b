/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a card can give: formats, modes, colorimetry; and what is agreed on. */
#include "capture/internal.h"

#include "base/base.h"

#include <errno.h>
#include <linux/videodev2.h>
#include <string.h>
#include <unistd.h>

/* === formats ================================================================================= */

/* The kind of a format's samples. */
enum gpud_samples {
    GPUD_SAMPLES_RGB,
    GPUD_SAMPLES_YUV,        /* luma alone, or as many samples of colour */
    GPUD_SAMPLES_SUBSAMPLED, /* fewer samples of colour than of luma */
    GPUD_SAMPLES_RAW,        /* a sensor's, behind a mosaic of filters */
};

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

static const struct known_format *formats_find(uint32_t fourcc)
{
    for (size_t i = 0; i < FORMATS; i++)
        if (formats[i].fourcc == fourcc)
            return &formats[i];
    return NULL;
}

const char *gpud_format_name(uint32_t fourcc)
{
    const struct known_format *known = formats_find(fourcc);
    return known ? known->name : NULL;
}

/* The names of formats with alpha, and of the same ones whose alpha is not filled in. */
static const char *const opaque[][2] = {
    {"BGRA", "BGRx"}, {"RGBA", "RGBx"}, {"ARGB", "xRGB"}, {"ABGR", "xBGR"}};

#define OPAQUE (sizeof(opaque) / sizeof(opaque[0]))

/* NULL: it has no alpha, or no such name. */
static const char *format_opaque(const char *name)
{
    for (size_t i = 0; i < OPAQUE; i++)
        if (strcmp(opaque[i][0], name) == 0)
            return opaque[i][1];
    return NULL;
}

static bool format_has_alpha(const char *name)
{
    return format_opaque(name) || strcmp(name, "AYUV") == 0;
}

static enum gpud_samples format_samples(const char *name)
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
    const struct known_format *known = formats_find(format->fourcc);
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

/* === colorimetry ============================================================================= */

/* By V4L2's numbers; what is not here is unknown, 0. */
static const uint8_t primaries[] = {
    [V4L2_COLORSPACE_SMPTE170M] = GPUD_PRIMARIES_SMPTE170M,
    [V4L2_COLORSPACE_BT878] = GPUD_PRIMARIES_SMPTE170M,
    [V4L2_COLORSPACE_SMPTE240M] = GPUD_PRIMARIES_SMPTE240M,
    [V4L2_COLORSPACE_REC709] = GPUD_PRIMARIES_BT709,
    [V4L2_COLORSPACE_SRGB] = GPUD_PRIMARIES_BT709,
    [V4L2_COLORSPACE_JPEG] = GPUD_PRIMARIES_BT709,
    [V4L2_COLORSPACE_470_SYSTEM_M] = GPUD_PRIMARIES_BT470M,
    [V4L2_COLORSPACE_470_SYSTEM_BG] = GPUD_PRIMARIES_BT470BG,
    [V4L2_COLORSPACE_OPRGB] = GPUD_PRIMARIES_OPRGB,
    [V4L2_COLORSPACE_BT2020] = GPUD_PRIMARIES_BT2020,
    /* V4L2 means the theatre's white point: SMPTE RP 431-2 */
    [V4L2_COLORSPACE_DCI_P3] = GPUD_PRIMARIES_SMPTE431,
};
static const uint8_t transfers[] = {
    [V4L2_XFER_FUNC_SRGB] = GPUD_TRANSFER_SRGB,
    [V4L2_XFER_FUNC_OPRGB] = GPUD_TRANSFER_OPRGB,
    [V4L2_XFER_FUNC_SMPTE240M] = GPUD_TRANSFER_SMPTE240M,
    [V4L2_XFER_FUNC_NONE] = GPUD_TRANSFER_LINEAR,
    [V4L2_XFER_FUNC_DCI_P3] = GPUD_TRANSFER_SMPTE428,
    [V4L2_XFER_FUNC_SMPTE2084] = GPUD_TRANSFER_PQ,
};
/* V4L2's xvYCC encodings have the matrices of 601 and 709. */
static const uint8_t matrices[] = {
    [V4L2_YCBCR_ENC_601] = GPUD_MATRIX_BT601,
    [V4L2_YCBCR_ENC_XV601] = GPUD_MATRIX_BT601,
    [V4L2_YCBCR_ENC_SYCC] = GPUD_MATRIX_BT601,
    [V4L2_YCBCR_ENC_709] = GPUD_MATRIX_BT709,
    [V4L2_YCBCR_ENC_XV709] = GPUD_MATRIX_BT709,
    [V4L2_YCBCR_ENC_BT2020] = GPUD_MATRIX_BT2020,
    [V4L2_YCBCR_ENC_BT2020_CONST_LUM] = GPUD_MATRIX_BT2020_CL,
    [V4L2_YCBCR_ENC_SMPTE240M] = GPUD_MATRIX_SMPTE240M,
};

static unsigned look_up(const uint8_t *list, size_t count, uint32_t number)
{
    return number < count ? list[number] : 0;
}

/* H.273 has four numbers for the one curve of BT.709: this returns the system's own. */
static enum gpud_transfer_function curve_709(uint32_t colorspace, const char *name)
{
    switch (colorspace) {
    case V4L2_COLORSPACE_SMPTE170M:
    case V4L2_COLORSPACE_BT878:
    case V4L2_COLORSPACE_470_SYSTEM_M:
    case V4L2_COLORSPACE_470_SYSTEM_BG:
        return GPUD_TRANSFER_BT601;
    case V4L2_COLORSPACE_BT2020:
        /* P012_LE, Y012… have 12 bits */
        return strstr(name, "012") ? GPUD_TRANSFER_BT2020_12 : GPUD_TRANSFER_BT2020_10;
    default:
        return GPUD_TRANSFER_BT709;
    }
}

void gpud_capture_read_colors(const struct gpud_v4l2_format *format,
                              struct gpud_colorimetry *colorimetry)
{
    const char *name = gpud_format_name(format->fourcc);
    enum gpud_samples samples = format_samples(name);
    *colorimetry = (struct gpud_colorimetry){
        .matrix = samples == GPUD_SAMPLES_RGB ? GPUD_MATRIX_RGB : GPUD_MATRIX_UNKNOWN,
        /* V4L2's documentation says so for all formats with subsampled colour. */
        .chroma_site =
            samples == GPUD_SAMPLES_SUBSAMPLED ? GPUD_CHROMA_CENTER : GPUD_CHROMA_UNKNOWN,
    };
    if (!name || samples == GPUD_SAMPLES_RAW || format->colorspace == V4L2_COLORSPACE_DEFAULT ||
        format->colorspace == V4L2_COLORSPACE_RAW)
        return;
    uint32_t transfer = format->transfer, encoding = format->encoding, range = format->quantization;
    if (transfer == V4L2_XFER_FUNC_DEFAULT)
        transfer = V4L2_MAP_XFER_FUNC_DEFAULT(format->colorspace);
    if (encoding == V4L2_YCBCR_ENC_DEFAULT)
        encoding = V4L2_MAP_YCBCR_ENC_DEFAULT(format->colorspace);
    colorimetry->primaries =
        (enum gpud_primaries)look_up(primaries, sizeof(primaries), format->colorspace);
    colorimetry->transfer =
        transfer == V4L2_XFER_FUNC_709
            ? curve_709(format->colorspace, name)
            : (enum gpud_transfer_function)look_up(transfers, sizeof(transfers), transfer);
    if (samples != GPUD_SAMPLES_RGB)
        colorimetry->matrix = (enum gpud_matrix)look_up(matrices, sizeof(matrices), encoding);
    if (range == V4L2_QUANTIZATION_DEFAULT)
        range = V4L2_MAP_QUANTIZATION_DEFAULT(samples == GPUD_SAMPLES_RGB, format->colorspace,
                                              format->encoding);
    colorimetry->range = range == V4L2_QUANTIZATION_FULL_RANGE  ? GPUD_RANGE_FULL
                         : range == V4L2_QUANTIZATION_LIM_RANGE ? GPUD_RANGE_LIMITED
                                                                : GPUD_RANGE_UNKNOWN;
}

/* === modes =================================================================================== */
/* What the driver offers: its formats, their sizes, and the fastest rate of each size. */

/* Limits a driver that never ends its list. */
#define LIST_MAX 256

/* The driver's list of formats, read once for all names. */
struct offers {
    uint32_t fourcc[LIST_MAX];
    size_t count;
    bool alpha; /* the driver fills it in */
};

static void read_offers(const struct gpud_v4l2 *node, struct offers *offers)
{
    offers->alpha = gpud_controls_have_alpha(node);
    for (offers->count = 0; offers->count < LIST_MAX; offers->count++) {
        struct v4l2_fmtdesc raw = {.index = (uint32_t)offers->count, .type = node->type};
        if (gpud_v4l2_call(node, VIDIOC_ENUM_FMT, &raw) < 0)
            return;
        offers->fourcc[offers->count] = raw.flags & V4L2_FMT_FLAG_COMPRESSED ? 1 : raw.pixelformat;
        if (!offers->fourcc[offers->count])
            return;
    }
}

/* The first of the format's fourccs that the driver offers; 0: none. */
static uint32_t find_offer(const struct offers *offers, const char *name)
{
    uint32_t fourcc;
    for (size_t place = 0; (fourcc = gpud_format_fourcc(name, place)); place++)
        for (size_t i = 0; i < offers->count; i++)
            if (offers->fourcc[i] == fourcc)
                return fourcc;
    return 0;
}

/* The driver's format of this name; 0: it has none. Frames of a card that fills no alpha in are
 * called by the name without. */
static uint32_t modes_find_format(const struct offers *offers, const char *name)
{
    if (format_has_alpha(name) && !offers->alpha)
        return 0;
    uint32_t fourcc = find_offer(offers, name);
    for (size_t i = 0; i < OPAQUE && !fourcc; i++)
        if (!offers->alpha && strcmp(opaque[i][1], name) == 0)
            fourcc = find_offer(offers, opaque[i][0]);
    return fourcc;
}

static const char *modes_name_of(uint32_t fourcc, bool alpha)
{
    const char *name = gpud_format_name(fourcc);
    const char *plain = name ? format_opaque(name) : NULL;
    return plain && !alpha ? plain : name;
}

const char *gpud_capture_name_format(const struct gpud_v4l2 *node, uint32_t fourcc)
{
    return modes_name_of(fourcc, gpud_controls_have_alpha(node));
}

/* The name of the format at this index of the driver's list, if a user of that name gets this
 * format. */
static const char *name_at(const struct offers *offers, size_t place)
{
    const char *name = modes_name_of(offers->fourcc[place], offers->alpha);
    return name && modes_find_format(offers, name) == offers->fourcc[place] ? name : NULL;
}

/* "UYVY, YUY2, NV12": the driver's formats, for a reason. */
static void capture_name_formats(const struct gpud_v4l2 *node, char *text, size_t size)
{
    struct offers offers;
    read_offers(node, &offers);
    text[0] = '\0';
    for (size_t i = 0; i < offers.count; i++) {
        const char *name = name_at(&offers, i);
        size_t used = strlen(text);
        if (name)
            gpud_print_n(text + used, size - used, "%s%s", used ? ", " : "", name);
    }
    if (!text[0])
        gpud_print_n(text, size, "no raw format that is known here");
}

struct mode_list {
    const struct gpud_v4l2 *node;
    const struct gpud_input *source;
    struct gpud_capture_mode *modes;
    size_t max, count;
};

/* What is asked for: the height is that of both fields together, format.height that of one
 * buffer. */
static struct gpud_v4l2_format whole_picture(uint32_t fourcc, uint32_t field, uint32_t width,
                                             uint32_t height)
{
    return (struct gpud_v4l2_format){
        .fourcc = fourcc,
        .width = width,
        .height = field == V4L2_FIELD_ALTERNATE ? height / 2 : height,
        .field = field,
    };
}

/* What the driver would make of one size of a whole picture. */
static void try_size(const struct gpud_v4l2 *node, uint32_t fourcc, uint32_t field, uint32_t width,
                     uint32_t height, struct gpud_v4l2_format *format)
{
    *format = whole_picture(fourcc, field, width, height);
    if (gpud_v4l2_call_format(node, VIDIOC_TRY_FMT, format) < 0 || format->fourcc != fourcc)
        *format = (struct gpud_v4l2_format){.fourcc = fourcc};
}

/* The sizes at this index of the format's list, into mode; false: no more. */
static bool enum_size(const struct gpud_v4l2 *node, uint32_t fourcc, uint32_t place,
                      struct gpud_capture_mode *mode)
{
    struct v4l2_frmsizeenum raw = {.index = place, .pixel_format = fourcc};
    if (gpud_v4l2_call(node, VIDIOC_ENUM_FRAMESIZES, &raw) < 0)
        return false;
    if (raw.type == V4L2_FRMSIZE_TYPE_DISCRETE) {
        mode->width_min = mode->width_max = raw.discrete.width;
        mode->height_min = mode->height_max = raw.discrete.height;
        mode->width_step = mode->height_step = 0;
        return true;
    }
    if (place > 0)
        return false; /* a range is its list's only entry */
    mode->width_min = raw.stepwise.min_width;
    mode->width_max = raw.stepwise.max_width;
    mode->width_step = raw.stepwise.step_width ? raw.stepwise.step_width : 1;
    mode->height_min = raw.stepwise.min_height;
    mode->height_max = raw.stepwise.max_height;
    mode->height_step = raw.stepwise.step_height ? raw.stepwise.step_height : 1;
    return true;
}

/* V4L2 has the duration of a frame, this library frames a second. */
static struct gpud_capture_rate rate_of(struct v4l2_fract interval)
{
    bool sane = interval.numerator && interval.denominator && interval.numerator <= INT32_MAX &&
                interval.denominator <= INT32_MAX;
    return sane ? (struct gpud_capture_rate){.num = interval.denominator, .den = interval.numerator}
                : (struct gpud_capture_rate){.num = 0, .den = 1};
}

/* The rates at the mode's largest size, into mode. A driver that lists none has its current one, or
 * the signal's. */
static void complete_rates(const struct mode_list *list, uint32_t fourcc,
                           struct gpud_capture_mode *mode)
{
    mode->fps_num = mode->rate_count = 0;
    mode->fps_den = 1;
    mode->slowest = (struct gpud_capture_rate){.num = 0, .den = 1};
    for (uint32_t place = 0; place < LIST_MAX; place++) {
        struct v4l2_frmivalenum raw = {.index = place,
                                       .pixel_format = fourcc,
                                       .width = mode->width_max,
                                       .height = mode->height_max};
        if (gpud_v4l2_call(list->node, VIDIOC_ENUM_FRAMEINTERVALS, &raw) < 0)
            break;
        bool discrete = raw.type == V4L2_FRMIVAL_TYPE_DISCRETE;
        struct gpud_capture_rate rate = rate_of(discrete ? raw.discrete : raw.stepwise.min);
        if ((uint64_t)rate.num * mode->fps_den > (uint64_t)mode->fps_num * rate.den) {
            mode->fps_num = rate.num;
            mode->fps_den = rate.den;
        }
        if (!discrete) {
            mode->slowest = rate_of(raw.stepwise.max);
            break;
        }
        if (rate.num && mode->rate_count < GPUD_CAPTURE_RATES_MAX)
            mode->rates[mode->rate_count++] = rate;
    }
    if (mode->fps_num)
        return;
    gpud_v4l2_rate(list->node, &mode->fps_num, &mode->fps_den);
    if (!mode->fps_num && list->source->fps_num) {
        mode->fps_num = list->source->fps_num;
        mode->fps_den = list->source->fps_den;
    }
    mode->rate_count = mode->fps_num ? 1 : 0;
    mode->rates[0] = (struct gpud_capture_rate){.num = mode->fps_num, .den = mode->fps_den};
}

/* Colours may depend on the size: for a range, only values that are the same at both ends are
 * stated. */
static void modes_complete(const struct mode_list *list, uint32_t fourcc,
                           const struct gpud_v4l2_format *format, struct gpud_capture_mode *mode)
{
    gpud_capture_read_colors(format, &mode->colorimetry);
    mode->aspect_x = list->source->aspect_x;
    mode->aspect_y = list->source->aspect_y;
    if (mode->width_min == mode->width_max && mode->height_min == mode->height_max) {
        gpud_input_aspect(list->source, format, &mode->aspect_x, &mode->aspect_y);
        return;
    }
    struct gpud_v4l2_format least;
    struct gpud_colorimetry other;
    mode->aspect_x = mode->aspect_y = 0; /* depends on the size */
    try_size(list->node, fourcc, format->field, mode->width_min, mode->height_min, &least);
    gpud_capture_read_colors(&least, &other);
    if (memcmp(&other, &mode->colorimetry, sizeof(other)) != 0)
        gpud_capture_read_colors(&(struct gpud_v4l2_format){.fourcc = fourcc}, &mode->colorimetry);
}

/* Lists a size in each scan that the driver has, its own choice first. The driver is asked for
 * others only if that is not progressive, because some need long to answer. */
static void add_scans(struct mode_list *list, uint32_t fourcc, struct gpud_capture_mode *mode)
{
    static const uint32_t fields[] = {V4L2_FIELD_ANY, V4L2_FIELD_INTERLACED, V4L2_FIELD_ALTERNATE};
    enum gpud_scan first = GPUD_SCAN_ANY;
    complete_rates(list, fourcc, mode);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        struct gpud_v4l2_format format;
        try_size(list->node, fourcc, fields[i], mode->width_max, mode->height_max, &format);
        mode->scan = gpud_scan_of_field(format.field);
        bool other = mode->scan != first && mode->scan == gpud_scan_of_field(fields[i]);
        if (i > 0 && !other)
            continue;
        if (mode->scan == GPUD_SCAN_ANY)
            continue; /* two fields, one below the other: needs a request for another scan */
        if (i == 0)
            first = mode->scan;
        modes_complete(list, fourcc, &format, mode);
        gpud_sized_entry(list->modes, list->max, list->count++, mode, sizeof(*mode));
        if (mode->scan == GPUD_SCAN_PROGRESSIVE)
            return;
    }
}

size_t gpud_capture_modes_of(const struct gpud_v4l2 *node, const struct gpud_input *source,
                             const char *format, struct gpud_capture_mode *modes, size_t max)
{
    struct mode_list list = {.node = node, .source = source, .modes = modes, .max = max};
    struct offers offers;
    read_offers(node, &offers);
    for (size_t i = 0; i < offers.count; i++) {
        uint32_t fourcc = offers.fourcc[i];
        const char *name = name_at(&offers, i);
        if (!name || (format && strcmp(name, format) != 0))
            continue;
        struct gpud_capture_mode mode = {.fps_den = 1};
        gpud_print(mode.format, "%s", name);
        uint32_t sizes = 0;
        for (; sizes < LIST_MAX && enum_size(node, fourcc, sizes, &mode); sizes++)
            add_scans(&list, fourcc, &mode);
        struct gpud_v4l2_format current;
        if (sizes > 0 || gpud_v4l2_get_format(node, &current) < 0)
            continue;
        /* A card that follows its signal lists no sizes; its current one is listed. */
        bool own = source->width && source->height;
        uint32_t fields = current.field == V4L2_FIELD_ALTERNATE ? 2 : 1;
        mode.width_min = mode.width_max = own ? source->width : current.width;
        mode.height_min = mode.height_max = own ? source->height : current.height * fields;
        add_scans(&list, fourcc, &mode);
    }
    return list.count;
}

size_t gpud_capture_list_modes(struct gpud_capture *capture, const char *format,
                               struct gpud_capture_mode *modes, size_t max)
{
    gpud_lock_take(&capture->node_lock);
    size_t count = gpud_capture_modes_of(&capture->node, &capture->signal.now, format, modes, max);
    gpud_lock_release(&capture->node_lock);
    return count;
}

/* === negotiate =============================================================================== */
/* Agrees with the driver on a format: its name, size and fields. */

static const char *scan_name(uint32_t field)
{
    switch (gpud_scan_of_field(field)) {
    case GPUD_SCAN_PROGRESSIVE:
        return "progressive pictures";
    case GPUD_SCAN_INTERLEAVED:
        return "interleaved fields";
    case GPUD_SCAN_ALTERNATE:
        return "single fields";
    default:
        break;
    }
    return "two fields one below the other, which no frame can be";
}

static bool one_below_the_other(uint32_t field)
{
    return field == V4L2_FIELD_SEQ_TB || field == V4L2_FIELD_SEQ_BT;
}

/* Sets the format. A driver that is free to choose uses its signal's fields. Single fields have a
 * height of their own; if both lie one below the other, the driver may support another way. */
static int ask_for_scan(const struct gpud_v4l2 *node, enum gpud_scan scan, uint32_t width,
                        uint32_t height, struct gpud_v4l2_format *format)
{
    uint32_t field = scan == GPUD_SCAN_PROGRESSIVE   ? V4L2_FIELD_NONE
                     : scan == GPUD_SCAN_INTERLEAVED ? V4L2_FIELD_INTERLACED
                     : scan == GPUD_SCAN_ALTERNATE   ? V4L2_FIELD_ALTERNATE
                                                     : V4L2_FIELD_ANY;
    *format = whole_picture(format->fourcc, field, width, height);
    int result = gpud_v4l2_call_format(node, VIDIOC_S_FMT, format);
    if (scan != GPUD_SCAN_ANY)
        return result;
    if (result == 0 && one_below_the_other(format->field)) {
        *format = whole_picture(format->fourcc, V4L2_FIELD_INTERLACED, width, height);
        result = gpud_v4l2_call_format(node, VIDIOC_S_FMT, format);
    }
    bool single = format->field == V4L2_FIELD_ALTERNATE; /* with the height of both */
    if (result == 0 && (single || one_below_the_other(format->field))) {
        *format = whole_picture(format->fourcc, V4L2_FIELD_ALTERNATE, width, height);
        result = gpud_v4l2_call_format(node, VIDIOC_S_FMT, format);
    }
    return result;
}

/* Makes the picture fill its whole format. A driver may place it elsewhere, and such a rectangle
 * outlives its format. Older kernels know only the single-planar type here. */
static void reset_compose(const struct gpud_v4l2 *node)
{
    struct v4l2_selection selection = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
                                       .target = V4L2_SEL_TGT_COMPOSE_DEFAULT};
    if (gpud_v4l2_call(node, VIDIOC_G_SELECTION, &selection) < 0)
        return;
    selection.target = V4L2_SEL_TGT_COMPOSE;
    selection.flags = 0;
    gpud_v4l2_call(node, VIDIOC_S_SELECTION, &selection);
}

static enum gpud_status refused(struct gpud_capture *capture, const char *name, uint32_t width,
                                uint32_t height, struct gpud_error *error)
{
    int number = errno;
    if (number == EBUSY)
        return gpud_fail_native(error, GPUD_IO, "errno", EBUSY, "%s is in use by another program",
                                capture->node.path);
    char offered[128];
    capture_name_formats(&capture->node, offered, sizeof(offered));
    errno = number;
    return gpud_fail_errno(error, "%s does not take the format %s %ux%u; it has %s",
                           capture->node.path, name, width, height, offered);
}

enum gpud_status gpud_capture_negotiate(struct gpud_capture *capture,
                                        struct gpud_v4l2_format *format,
                                        struct gpud_placement *placement, struct gpud_error *error)
{
    const struct gpud_capture_mode *wanted = &capture->wanted.mode;
    const char *name = wanted->format;
    /* If another input has no size of its own, the pictures keep their size. */
    const struct gpud_layout *last =
        &capture->info.media.picture.layout; /* written by this thread only */
    bool own = capture->signal.now.width && capture->signal.now.height;
    bool asked = wanted->width_min && (capture->wanted.scales || !own);
    uint32_t width = asked ? wanted->width_min : own ? capture->signal.now.width : last->width;
    uint32_t height = asked ? wanted->height_min
                      : own ? capture->signal.now.height
                            : last->height * (capture->stream.alternate ? 2 : 1);
    if (!width || !height)
        return gpud_fail(error, GPUD_INVALID,
                         "%s has no signal with a size of its own: ask for one of its sizes",
                         capture->node.path);
    if (!capture->wanted.fourcc) { /* a change of the signal does not change it */
        struct offers offers;
        read_offers(&capture->node, &offers);
        capture->wanted.fourcc = modes_find_format(&offers, name);
    }
    format->fourcc = capture->wanted.fourcc;
    if (!format->fourcc && gpud_format_fourcc(name, 0) == 0)
        return gpud_fail(error, GPUD_UNSUPPORTED, "\"%.16s\" is not a format that is captured here",
                         name);
    if (!format->fourcc) {
        char offered[128];
        capture_name_formats(&capture->node, offered, sizeof(offered));
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s does not offer %s; it has %s",
                         capture->node.path, name, offered);
    }
    /* From a signal of the other kind the card makes what it can. */
    enum gpud_scan asked_scan =
        capture->signal.now.interlaced == capture->wanted.interlaced ? wanted->scan : GPUD_SCAN_ANY;
    if (ask_for_scan(&capture->node, asked_scan, width, height, format) < 0)
        return refused(capture, name, width, height, error);
    reset_compose(&capture->node);
    enum gpud_scan scan = gpud_scan_of_field(format->field);
    if (scan == GPUD_SCAN_ANY || (asked_scan != GPUD_SCAN_ANY && scan != asked_scan))
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s makes %s of its signal%s", capture->node.path,
                         scan_name(format->field),
                         scan == GPUD_SCAN_ANY ? ": set the source to progressive"
                                               : ": ask for these");
    enum gpud_status status = gpud_format_place(format, placement, error);
    const char *plain = status == GPUD_OK ? format_opaque(placement->layout.format) : NULL;
    if (plain && strcmp(plain, name) == 0) /* its alpha is meaningless */
        gpud_print(placement->layout.format, "%s", plain);
    else if (format_has_alpha(name) && !gpud_controls_set_alpha(&capture->wanted.controls))
        gpud_controls_make_opaque(&capture->node);
    if (status == GPUD_OK && strcmp(placement->layout.format, name) != 0)
        status = gpud_fail(error, GPUD_UNSUPPORTED, "%s offers %s, but gives %s instead",
                           capture->node.path, name, placement->layout.format);
    return status;
}
