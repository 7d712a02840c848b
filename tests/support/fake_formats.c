/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The formats that the fake driver has. */
#include "support/fake_input.h"

#include <errno.h>
#include <string.h>

static const uint32_t one_area[] = {V4L2_PIX_FMT_UYVY, V4L2_PIX_FMT_MJPEG, V4L2_PIX_FMT_NV12,
                                    V4L2_PIX_FMT_SBGGR10P, V4L2_PIX_FMT_BGR24};
static const uint32_t more_areas[] = {V4L2_PIX_FMT_UYVY, V4L2_PIX_FMT_NV12M, V4L2_PIX_FMT_NV12,
                                      V4L2_PIX_FMT_YUV420M};

uint32_t fake_type(const struct fake_driver *driver)
{
    return driver->multiplanar ? V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE : V4L2_BUF_TYPE_VIDEO_CAPTURE;
}

/* The nearest that the driver has. */
static void round_format(const struct fake_driver *driver, struct gpud_v4l2_format *format)
{
    uint32_t width = driver->sizes == FAKE_SILENT ? 320 : format->width < 480 ? 320 : 640;
    uint32_t height = width == 320 ? 180 : 360;
    if (driver->sizes == FAKE_STEPWISE) {
        width = format->width > 640 ? 640 : (format->width + 15) & ~15u;
        height = format->height > 360 ? 360 : (format->height + 3) & ~3u;
    }
    if (driver->digital) {
        width = driver->timings.width;
        height = driver->timings.height;
        if (driver->field == V4L2_FIELD_ALTERNATE)
            height /= 2;
    }
    if (driver->substitutes)
        format->fourcc = V4L2_PIX_FMT_UYVY;
    struct gpud_v4l2_format made = {.fourcc = format->fourcc, .width = width, .height = height};
    made.field = driver->field ? driver->field : V4L2_FIELD_NONE;
    uint32_t bytes = made.fourcc == V4L2_PIX_FMT_UYVY     ? 2
                     : made.fourcc == V4L2_PIX_FMT_BGR24  ? 3
                     : made.fourcc == V4L2_PIX_FMT_ABGR32 ? 4
                                                          : 1;
    made.plane[0].stride = width * bytes + driver->padding;
    made.plane[0].size = made.plane[0].stride * height;
    if (made.fourcc == V4L2_PIX_FMT_NV12)
        made.plane[0].size += made.plane[0].stride * height / 2;
    bool two = made.fourcc == V4L2_PIX_FMT_NV12M;
    made.planes = two ? 2 : made.fourcc == V4L2_PIX_FMT_YUV420M ? 3 : 1;
    for (uint32_t i = 1; i < made.planes; i++) {
        made.plane[i].stride = (two ? width : width / 2) + driver->padding;
        made.plane[i].size = made.plane[i].stride * height / 2;
    }
    if (driver->multiplanar)
        made.plane[0].size += 128; /* room for a data_offset */
    *format = made;
}

int fake_format_call(struct fake_driver *driver, unsigned long request_code,
                     struct v4l2_format *raw)
{
    bool set = request_code == VIDIOC_S_FMT, ask = request_code == VIDIOC_TRY_FMT;
    if (raw->type != fake_type(driver) || (set && driver->count))
        return raw->type != fake_type(driver) ? EINVAL : EBUSY;
    bool extended =
        driver->multiplanar || raw->fmt.pix.priv == V4L2_PIX_FMT_PRIV_MAGIC || !(set || ask);
    struct v4l2_pix_format *one = &raw->fmt.pix;
    struct v4l2_pix_format_mplane *many = &raw->fmt.pix_mp;
    struct gpud_v4l2_format format = driver->format;
    if (set || ask) {
        format.fourcc = driver->multiplanar ? many->pixelformat : one->pixelformat;
        format.width = driver->multiplanar ? many->width : one->width;
        format.height = driver->multiplanar ? many->height : one->height;
        round_format(driver, &format);
    }
    if (set)
        driver->format = format;
    memset(&raw->fmt, 0, sizeof(raw->fmt));
    if (driver->multiplanar) {
        many->pixelformat = format.fourcc;
        many->width = format.width;
        many->height = format.height;
        many->field = format.field;
        many->num_planes = (uint8_t)format.planes;
        many->colorspace = driver->colors.space;
        many->xfer_func = (uint8_t)driver->colors.transfer;
        many->ycbcr_enc = (uint8_t)driver->colors.encoding;
        many->quantization = (uint8_t)driver->colors.quantization;
        for (uint32_t i = 0; i < format.planes; i++) {
            many->plane_fmt[i].bytesperline = format.plane[i].stride;
            many->plane_fmt[i].sizeimage = format.plane[i].size;
        }
    } else {
        one->pixelformat = format.fourcc;
        one->width = format.width;
        one->height = format.height;
        one->field = format.field;
        one->colorspace = driver->colors.space;
        one->priv = extended ? V4L2_PIX_FMT_PRIV_MAGIC : 0;
        one->xfer_func = extended ? driver->colors.transfer : 0;
        one->ycbcr_enc = extended ? driver->colors.encoding : 0;
        one->quantization = extended ? driver->colors.quantization : 0;
        one->bytesperline = format.plane[0].stride;
        one->sizeimage = format.plane[0].size;
    }
    return 0;
}

int fake_enum_format(const struct fake_driver *driver, struct v4l2_fmtdesc *raw)
{
    size_t count = driver->multiplanar ? sizeof(more_areas) / 4 : sizeof(one_area) / 4;
    if (raw->index == count && driver->more_format && raw->type == fake_type(driver)) {
        raw->pixelformat = driver->more_format;
        return 0;
    }
    if (raw->type != fake_type(driver) || raw->index >= count)
        return EINVAL;
    raw->pixelformat = (driver->multiplanar ? more_areas : one_area)[raw->index];
    raw->flags = raw->pixelformat == V4L2_PIX_FMT_MJPEG ? V4L2_FMT_FLAG_COMPRESSED : 0;
    return 0;
}
