/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a driver says of its colours, in H.273's numbers: each of V4L2's words, and what it means to
 * leave one to the default; then on the way to a capture's info and its list of modes. */
#include "bench.h"
#include "capture/internal.h"
#include "support/fake_driver.h"
#include "support/check.h"

static struct gpud_colorimetry words(uint32_t fourcc, uint32_t space, uint32_t transfer,
                                     uint32_t encoding, uint32_t quantization)
{
    struct gpud_v4l2_format format = {
        .fourcc = fourcc,
        .colorspace = space,
        .transfer = transfer,
        .encoding = encoding,
        .quantization = quantization,
    };
    struct gpud_colorimetry got;
    gpud_capture_read_colors(&format, &got);
    return got;
}

static void expect(struct gpud_colorimetry got, const char *what, uint32_t primaries,
                   uint32_t transfer, uint32_t matrix, uint32_t range)
{
    CHECK(got.primaries == primaries && got.transfer == transfer && got.matrix == matrix &&
              got.range == range,
          "%s: %u/%u/%u range %u", what, got.primaries, got.transfer, got.matrix, got.range);
}

/* The defaults are those of V4L2's documentation of each colorspace. */
static void test_defaults(void)
{
    static const struct {
        uint32_t space;
        uint8_t primaries, transfer, matrix, range; /* H.273's numbers */
    } spaces[] = {
        {V4L2_COLORSPACE_SMPTE170M, 6, 6, 6, GPUD_RANGE_LIMITED},
        {V4L2_COLORSPACE_REC709, 1, 1, 1, GPUD_RANGE_LIMITED},
        {V4L2_COLORSPACE_SRGB, 1, 13, 6, GPUD_RANGE_LIMITED},
        {V4L2_COLORSPACE_OPRGB, GPUD_PRIMARIES_OPRGB, GPUD_TRANSFER_OPRGB, 6, GPUD_RANGE_LIMITED},
        {V4L2_COLORSPACE_BT2020, 9, 14, 9, GPUD_RANGE_LIMITED},
        {V4L2_COLORSPACE_DCI_P3, 11, 17, 1, GPUD_RANGE_LIMITED},
        {V4L2_COLORSPACE_SMPTE240M, 7, 7, 7, GPUD_RANGE_LIMITED},
        {V4L2_COLORSPACE_470_SYSTEM_M, 4, 6, 6, GPUD_RANGE_LIMITED},
        {V4L2_COLORSPACE_470_SYSTEM_BG, 5, 6, 6, GPUD_RANGE_LIMITED},
        {V4L2_COLORSPACE_JPEG, 1, 13, 6, GPUD_RANGE_FULL},
        {V4L2_COLORSPACE_RAW, 0, 0, 0, GPUD_RANGE_UNKNOWN},
        {V4L2_COLORSPACE_DEFAULT, 0, 0, 0, GPUD_RANGE_UNKNOWN},
        {77, 0, 1, 6, GPUD_RANGE_LIMITED},
    };
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        char what[32];
        snprintf(what, sizeof(what), "colorspace %u", spaces[i].space);
        expect(words(V4L2_PIX_FMT_UYVY, spaces[i].space, 0, 0, 0), what, spaces[i].primaries,
               spaces[i].transfer, spaces[i].matrix, spaces[i].range);
    }
    expect(words(v4l2_fourcc('P', '0', '1', '2'), V4L2_COLORSPACE_BT2020, 0, 0, 0), "12 bits", 9,
           15, 9, GPUD_RANGE_LIMITED);
}

static void test_words(void)
{
    expect(words(V4L2_PIX_FMT_NV12, V4L2_COLORSPACE_BT2020, V4L2_XFER_FUNC_SMPTE2084, 0, 0), "PQ",
           9, 16, 9, GPUD_RANGE_LIMITED);
    expect(words(V4L2_PIX_FMT_NV12, V4L2_COLORSPACE_BT2020, 0, V4L2_YCBCR_ENC_BT2020_CONST_LUM,
                 V4L2_QUANTIZATION_FULL_RANGE),
           "constant luminance", 9, 14, 10, GPUD_RANGE_FULL);
    expect(words(V4L2_PIX_FMT_UYVY, V4L2_COLORSPACE_REC709, V4L2_XFER_FUNC_SRGB, V4L2_YCBCR_ENC_601,
                 V4L2_QUANTIZATION_FULL_RANGE),
           "mixed", 1, 13, 6, GPUD_RANGE_FULL);
    expect(words(V4L2_PIX_FMT_UYVY, V4L2_COLORSPACE_REC709, V4L2_XFER_FUNC_NONE,
                 V4L2_YCBCR_ENC_XV709, 0),
           "linear xvYCC", 1, 8, 1, GPUD_RANGE_LIMITED);
    expect(words(V4L2_PIX_FMT_UYVY, V4L2_COLORSPACE_REC709, 99, 99, 99), "words of the future", 1,
           0, 0, GPUD_RANGE_UNKNOWN);
    expect(words(V4L2_PIX_FMT_BGR24, V4L2_COLORSPACE_REC709, 0, V4L2_YCBCR_ENC_709, 0), "RGB", 1, 1,
           GPUD_MATRIX_RGB, GPUD_RANGE_FULL);
    expect(words(V4L2_PIX_FMT_BGR24, V4L2_COLORSPACE_REC709, 0, 0, V4L2_QUANTIZATION_LIM_RANGE),
           "RGB of limited range", 1, 1, GPUD_MATRIX_RGB, GPUD_RANGE_LIMITED);

    CHECK_EQUAL(words(V4L2_PIX_FMT_NV12, V4L2_COLORSPACE_REC709, 0, 0, 0).chroma_site,
                GPUD_CHROMA_CENTER);
    CHECK_EQUAL(words(V4L2_PIX_FMT_BGR24, V4L2_COLORSPACE_REC709, 0, 0, 0).chroma_site,
                GPUD_CHROMA_UNKNOWN);
    CHECK_EQUAL(words(V4L2_PIX_FMT_GREY, V4L2_COLORSPACE_REC709, 0, 0, 0).chroma_site,
                GPUD_CHROMA_UNKNOWN);
}

static void test_capture(bool multiplanar)
{
    struct gpud_capture_mode modes[16] = {GPUD_INFO_INIT(modes[0])};
    struct bench bench = {.driver = {.multiplanar = multiplanar, .has_hdr = true}};
    bench.driver.colors.space = V4L2_COLORSPACE_BT2020;
    bench.driver.colors.transfer = V4L2_XFER_FUNC_SMPTE2084;
    bench_open(&bench);
    CHECK(gpud_capture_list_modes(bench.capture, NULL, modes, 16) > 2, "few modes");
    expect(modes[0].colorimetry, "a mode", 9, 16, 9, GPUD_RANGE_LIMITED);

    WORKS(configure_format(bench.capture, "UYVY", 320, 180, 30, 1, &e));
    struct gpud_capture_info info = GPUD_INFO_INIT(info);
    gpud_capture_get_info(bench.capture, &info);
    expect(info.media.picture.colorimetry, "the capture", 9, 16, 9, GPUD_RANGE_LIMITED);
    CHECK(info.media.picture.hdr.has_light_level &&
              info.media.picture.hdr.max_content_light == 1000 &&
              info.media.picture.hdr.max_frame_average_light == 400,
          "light level");
    CHECK(info.media.picture.hdr.has_display && info.media.picture.hdr.display_x[0] == 35400 &&
              info.media.picture.hdr.display_x[1] == 8500 &&
              info.media.picture.hdr.display_y[2] == 2300 &&
              info.media.picture.hdr.max_luminance == 10000000 &&
              info.media.picture.hdr.min_luminance == 50,
          "red %u green %u", info.media.picture.hdr.display_x[0],
          info.media.picture.hdr.display_x[1]);

    /* Another source: nothing of the last one's stays. */
    bench.driver.has_hdr = false;
    bench.driver.colors.space = V4L2_COLORSPACE_REC709;
    bench.driver.colors.transfer = 0;
    WORKS(configure_format(bench.capture, "UYVY", 320, 180, 30, 1, &e));
    gpud_capture_get_info(bench.capture, &info);
    expect(info.media.picture.colorimetry, "the capture", 1, 1, 1, GPUD_RANGE_LIMITED);
    CHECK(!info.media.picture.hdr.has_light_level && !info.media.picture.hdr.has_display,
          "the last source's metadata");
    bench_close(&bench);
}

int main(void)
{
    test_defaults();
    test_words();
    test_capture(false);
    test_capture(true);
    puts("ok");
    return 0;
}
