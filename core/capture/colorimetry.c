/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "capture/colorimetry.h"

#include "capture/formats.h"

#include <linux/v4l2-controls.h>
#include <linux/videodev2.h>
#include <string.h>

static enum gpud_primaries primaries_of(uint32_t colorspace)
{
    switch (colorspace) {
    case V4L2_COLORSPACE_SMPTE170M:
    case V4L2_COLORSPACE_BT878:
        return GPUD_PRIMARIES_SMPTE170M;
    case V4L2_COLORSPACE_SMPTE240M:
        return GPUD_PRIMARIES_SMPTE240M;
    case V4L2_COLORSPACE_REC709:
    case V4L2_COLORSPACE_SRGB:
    case V4L2_COLORSPACE_JPEG:
        return GPUD_PRIMARIES_BT709;
    case V4L2_COLORSPACE_470_SYSTEM_M:
        return GPUD_PRIMARIES_BT470M;
    case V4L2_COLORSPACE_470_SYSTEM_BG:
        return GPUD_PRIMARIES_BT470BG;
    case V4L2_COLORSPACE_OPRGB:
        return GPUD_PRIMARIES_OPRGB;
    case V4L2_COLORSPACE_BT2020:
        return GPUD_PRIMARIES_BT2020;
    case V4L2_COLORSPACE_DCI_P3:
        return GPUD_PRIMARIES_SMPTE431; /* V4L2 means the theatre's white point: SMPTE RP 431-2 */
    default:
        return GPUD_PRIMARIES_UNKNOWN;
    }
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

static enum gpud_transfer_function transfer_of(const struct gpud_v4l2_format *format,
                                               const char *name)
{
    uint32_t transfer = format->transfer;
    if (transfer == V4L2_XFER_FUNC_DEFAULT)
        transfer = V4L2_MAP_XFER_FUNC_DEFAULT(format->colorspace);
    switch (transfer) {
    case V4L2_XFER_FUNC_709:
        return curve_709(format->colorspace, name);
    case V4L2_XFER_FUNC_SRGB:
        return GPUD_TRANSFER_SRGB;
    case V4L2_XFER_FUNC_OPRGB:
        return GPUD_TRANSFER_OPRGB;
    case V4L2_XFER_FUNC_SMPTE240M:
        return GPUD_TRANSFER_SMPTE240M;
    case V4L2_XFER_FUNC_NONE:
        return GPUD_TRANSFER_LINEAR;
    case V4L2_XFER_FUNC_DCI_P3:
        return GPUD_TRANSFER_SMPTE428;
    case V4L2_XFER_FUNC_SMPTE2084:
        return GPUD_TRANSFER_PQ;
    default:
        return GPUD_TRANSFER_UNKNOWN;
    }
}

/* V4L2's xvYCC encodings have the matrices of 601 and 709. */
static enum gpud_matrix matrix_of(const struct gpud_v4l2_format *format)
{
    uint32_t encoding = format->encoding;
    if (encoding == V4L2_YCBCR_ENC_DEFAULT)
        encoding = V4L2_MAP_YCBCR_ENC_DEFAULT(format->colorspace);
    switch (encoding) {
    case V4L2_YCBCR_ENC_601:
    case V4L2_YCBCR_ENC_XV601:
    case V4L2_YCBCR_ENC_SYCC:
        return GPUD_MATRIX_BT601;
    case V4L2_YCBCR_ENC_709:
    case V4L2_YCBCR_ENC_XV709:
        return GPUD_MATRIX_BT709;
    case V4L2_YCBCR_ENC_BT2020:
        return GPUD_MATRIX_BT2020;
    case V4L2_YCBCR_ENC_BT2020_CONST_LUM:
        return GPUD_MATRIX_BT2020_CL;
    case V4L2_YCBCR_ENC_SMPTE240M:
        return GPUD_MATRIX_SMPTE240M;
    default:
        return GPUD_MATRIX_UNKNOWN;
    }
}

static enum gpud_range range_of(const struct gpud_v4l2_format *format, bool rgb)
{
    uint32_t range = format->quantization;
    if (range == V4L2_QUANTIZATION_DEFAULT)
        range = V4L2_MAP_QUANTIZATION_DEFAULT(rgb, format->colorspace, format->encoding);
    return range == V4L2_QUANTIZATION_FULL_RANGE  ? GPUD_RANGE_FULL
           : range == V4L2_QUANTIZATION_LIM_RANGE ? GPUD_RANGE_LIMITED
                                                  : GPUD_RANGE_UNKNOWN;
}

void gpud_capture_read_colors(const struct gpud_v4l2_format *format,
                              struct gpud_colorimetry *colorimetry)
{
    const char *name = gpud_format_name(format->fourcc);
    enum gpud_samples samples = gpud_format_samples(name);
    *colorimetry = (struct gpud_colorimetry){
        .matrix = samples == GPUD_SAMPLES_RGB ? GPUD_MATRIX_RGB : GPUD_MATRIX_UNKNOWN,
        /* V4L2's documentation says so for all formats with subsampled colour. */
        .chroma_site =
            samples == GPUD_SAMPLES_SUBSAMPLED ? GPUD_CHROMA_CENTER : GPUD_CHROMA_UNKNOWN,
    };
    if (!name || samples == GPUD_SAMPLES_RAW || format->colorspace == V4L2_COLORSPACE_DEFAULT ||
        format->colorspace == V4L2_COLORSPACE_RAW)
        return;
    colorimetry->primaries = primaries_of(format->colorspace);
    colorimetry->transfer = transfer_of(format, name);
    if (samples != GPUD_SAMPLES_RGB)
        colorimetry->matrix = matrix_of(format);
    colorimetry->range = range_of(format, samples == GPUD_SAMPLES_RGB);
}

/* --- HDR ----------------------------------------------------------------------------------- */

static bool get_compound(const struct gpud_v4l2 *node, uint32_t id, void *value, uint32_t size)
{
    struct v4l2_ext_control control = {.id = id, .size = size, .ptr = value};
    struct v4l2_ext_controls controls = {
        .which = V4L2_CTRL_WHICH_CUR_VAL, .count = 1, .controls = &control};
    return gpud_v4l2_call(node, VIDIOC_G_EXT_CTRLS, &controls) == 0;
}

void gpud_capture_read_hdr(const struct gpud_v4l2 *node, struct gpud_hdr_metadata *hdr)
{
    struct v4l2_ctrl_hdr10_cll_info light = {0};
    struct v4l2_ctrl_hdr10_mastering_display display = {0};
    *hdr = (struct gpud_hdr_metadata){0};
    if (get_compound(node, V4L2_CID_COLORIMETRY_HDR10_CLL_INFO, &light, sizeof(light)) &&
        light.max_content_light_level) {
        hdr->has_light_level = true;
        hdr->max_content_light = light.max_content_light_level;
        hdr->max_frame_average_light = light.max_pic_average_light_level;
    }
    if (!get_compound(node, V4L2_CID_COLORIMETRY_HDR10_MASTERING_DISPLAY, &display,
                      sizeof(display)) ||
        !display.max_display_mastering_luminance)
        return;
    hdr->has_display = true;
    for (unsigned i = 0; i < 3; i++) { /* V4L2: green, blue, red */
        hdr->display_x[i] = display.display_primaries_x[(i + 2) % 3];
        hdr->display_y[i] = display.display_primaries_y[(i + 2) % 3];
    }
    hdr->white_x = display.white_point_x;
    hdr->white_y = display.white_point_y;
    hdr->max_luminance = display.max_display_mastering_luminance;
    hdr->min_luminance = display.min_display_mastering_luminance;
}
