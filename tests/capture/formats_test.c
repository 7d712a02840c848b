/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* V4L2's formats: their names, and where their planes lie when a driver gives its strides and
 * sizes. */
#include "capture/internal.h"
#include "support/check.h"

#include <linux/videodev2.h>
#include <unistd.h>

static const struct {
    const char *name;
    char fourcc[5];
    uint32_t areas;
} known[] = {
    {"UYVY", "UYVY", 1},      {"YUY2", "YUYV", 1},        {"YVYU", "YVYU", 1},
    {"VYUY", "VYUY", 1},      {"v210", "v210", 1},        {"Y210", "Y210", 1},
    {"NV12", "NV12", 1},      {"NV12", "NM12", 2},        {"NV21", "NV21", 1},
    {"NV21", "NM21", 2},      {"NV16", "NV16", 1},        {"NV16", "NM16", 2},
    {"NV61", "NV61", 1},      {"NV61", "NM61", 2},        {"NV24", "NV24", 1},
    {"P010_10LE", "P010", 1}, {"I420", "YU12", 1},        {"I420", "YM12", 3},
    {"YV12", "YV12", 1},      {"YV12", "YM21", 3},        {"Y42B", "422P", 1},
    {"Y42B", "YM16", 3},      {"Y444", "YM24", 3},        {"BGRx", "XR24", 1},
    {"BGRA", "AR24", 1},      {"RGBx", "XB24", 1},        {"RGBA", "AB24", 1},
    {"xRGB", "BX24", 1},      {"ARGB", "BA24", 1},        {"xBGR", "RX24", 1},
    {"ABGR", "RA24", 1},      {"AYUV", "AYUV", 1},        {"RGB", "RGB3", 1},
    {"BGR", "BGR3", 1},       {"GRAY8", "GREY", 1},       {"GRAY16_LE", "Y16 ", 1},
    {"NV42", "NV42", 1},      {"RGB15", "XR15", 1},       {"RGB15", "RGBO", 1},
    {"BGR15", "XB15", 1},     {"GRAY10_LE16", "Y10 ", 1}, {"P012_LE", "P012", 1},
    {"RGB16", "RGBP", 1},     {"BGRx", "BGR4", 1},        {"xRGB", "RGB4", 1},
    {"bggr", "BA81", 1},      {"gbrg", "GBRG", 1},        {"grbg", "GRBG", 1},
    {"rggb", "RGGB", 1},      {"bggr10le", "BG10", 1},    {"gbrg10le", "GB10", 1},
    {"grbg10le", "BA10", 1},  {"rggb10le", "RG10", 1},    {"bggr12le", "BG12", 1},
    {"gbrg12le", "GB12", 1},  {"grbg12le", "BA12", 1},    {"rggb12le", "RG12", 1},
    {"bggr14le", "BG14", 1},  {"gbrg14le", "GB14", 1},    {"grbg14le", "GR14", 1},
    {"rggb14le", "RG14", 1},  {"bggr16le", "BYR2", 1},    {"gbrg16le", "GB16", 1},
    {"grbg16le", "GR16", 1},  {"rggb16le", "RG16", 1},
};
#define KNOWN (sizeof(known) / sizeof(known[0]))

static uint32_t code(const char *text)
{
    return v4l2_fourcc(text[0], text[1], text[2], (uint32_t)text[3]);
}

/* Generous in both, and the same for each area. */
static struct gpud_v4l2_format plenty(uint32_t fourcc, uint32_t areas)
{
    struct gpud_v4l2_format format = {
        .fourcc = fourcc, .width = 320, .height = 180, .planes = areas};
    for (uint32_t i = 0; i < areas; i++) {
        format.plane[i].stride = 4096;
        format.plane[i].size = 4096 * 180 * 4;
    }
    return format;
}

static void test_names(void)
{
    for (size_t i = 0; i < KNOWN; i++) {
        uint32_t fourcc = code(known[i].fourcc);
        const char *name = gpud_format_name(fourcc);
        CHECK(name && strcmp(name, known[i].name) == 0, "%s is %s", known[i].fourcc, name);
        bool found = false;
        for (size_t place = 0; gpud_format_fourcc(name, place); place++)
            found |= gpud_format_fourcc(name, place) == fourcc;
        CHECK(found, "%s does not lead to %s", name, known[i].fourcc);

        /* The layer below knows the geometry of each. */
        struct gpud_placement placement;
        struct gpud_v4l2_format format = plenty(fourcc, known[i].areas);
        WORKS(gpud_format_place(&format, &placement, &e));
        CHECK(strcmp(placement.layout.format, name) == 0, "%s", placement.layout.format);
        WORKS(gpud_layout_check(&placement.layout, &e));
        CHECK_EQUAL(placement.areas, known[i].areas);
    }
    CHECK(!gpud_format_name(V4L2_PIX_FMT_MJPEG) && !gpud_format_name(0), "not raw");
    CHECK_EQUAL(gpud_format_fourcc("JPEG", 0), 0);
    CHECK_EQUAL(gpud_format_fourcc("NV12", 0), V4L2_PIX_FMT_NV12);
    CHECK_EQUAL(gpud_format_fourcc("NV12", 1), V4L2_PIX_FMT_NV12M);
    CHECK_EQUAL(gpud_format_fourcc("NV12", 2), 0);
}

static void check_plane(const struct gpud_placement *placement, uint32_t i, uint64_t offset,
                        uint32_t stride, uint32_t rows)
{
    const struct gpud_plane *plane = &placement->layout.plane[i];
    CHECK_EQUAL(plane->offset, offset);
    CHECK_EQUAL(plane->stride, stride);
    CHECK_EQUAL(plane->rows, rows);
}

static void test_strides(void)
{
    struct gpud_placement placement;
    struct gpud_v4l2_format format = {.fourcc = V4L2_PIX_FMT_NV12,
                                      .width = 320,
                                      .height = 180,
                                      .planes = 1,
                                      .plane = {{384, 384 * 270}}};
    WORKS(gpud_format_place(&format, &placement, &e));
    check_plane(&placement, 0, 0, 384, 180);
    check_plane(&placement, 1, 384 * 180, 384, 90);
    CHECK_EQUAL(placement.layout.size, 384 * 270);
    CHECK_EQUAL(placement.area[0].filled, 384 * 269 + 320);

    format.fourcc = V4L2_PIX_FMT_YVU420;
    WORKS(gpud_format_place(&format, &placement, &e));
    check_plane(&placement, 1, 384 * 180, 192, 90);
    check_plane(&placement, 2, 384 * 180 + 192 * 90, 192, 90);

    format.fourcc = V4L2_PIX_FMT_NV24;
    format.plane[0].size = 384 * 180 * 3;
    WORKS(gpud_format_place(&format, &placement, &e));
    check_plane(&placement, 1, 384 * 180, 768, 180);

    /* What a driver has beyond the picture is its own affair. */
    format.fourcc = V4L2_PIX_FMT_UYVY;
    format.plane[0].stride = 1024;
    format.plane[0].size = 1024 * 180 + 12345;
    WORKS(gpud_format_place(&format, &placement, &e));
    check_plane(&placement, 0, 0, 1024, 180);
    CHECK_EQUAL(placement.layout.size, 1024 * 180 + 12345);

    /* v210: 128 bytes for each 48 pixels. */
    format = (struct gpud_v4l2_format){
        .fourcc = code("v210"), .width = 1280, .height = 720, .planes = 1};
    format.plane[0].stride = 3456;
    format.plane[0].size = 3456 * 720;
    WORKS(gpud_format_place(&format, &placement, &e));
    check_plane(&placement, 0, 0, 3456, 720);
}

static void test_areas(void)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct gpud_placement placement;
    struct gpud_v4l2_format format = {
        .fourcc = V4L2_PIX_FMT_YUV420M,
        .width = 320,
        .height = 180,
        .planes = 3,
        .plane = {{320, 320 * 180}, {256, 256 * 90}, {192, 192 * 90 + 7}}};
    WORKS(gpud_format_place(&format, &placement, &e));
    uint64_t second = (320 * 180 + page - 1) / page * page;
    uint64_t third = (second + 256 * 90 + page - 1) / page * page;
    check_plane(&placement, 0, 0, 320, 180);
    check_plane(&placement, 1, second, 256, 90);
    check_plane(&placement, 2, third, 192, 90);
    CHECK_EQUAL(placement.area[1].start, second);
    CHECK_EQUAL(placement.layout.size, third + 192 * 90 + 7);
    CHECK_EQUAL(placement.area_of[2], 2);
    CHECK_EQUAL(placement.area[2].filled, 192 * 89 + 160);
}

static void test_refusals(void)
{
    struct gpud_placement placement;
    struct gpud_v4l2_format good = {.fourcc = V4L2_PIX_FMT_NV12,
                                    .width = 320,
                                    .height = 180,
                                    .planes = 1,
                                    .plane = {{320, 320 * 270}}};
    struct gpud_v4l2_format format = good;
    WORKS(gpud_format_place(&format, &placement, &e));

    format.fourcc = V4L2_PIX_FMT_SBGGR10P;
    EXPECT(GPUD_UNSUPPORTED, "pBAA", gpud_format_place(&format, &placement, &e));
    format = good;
    format.planes = 2;
    EXPECT(GPUD_UNSUPPORTED, "2 areas", gpud_format_place(&format, &placement, &e));
    format = good;
    format.plane[0].stride = 0;
    EXPECT(GPUD_UNSUPPORTED, "stride of 0", gpud_format_place(&format, &placement, &e));
    format.plane[0].stride = 319;
    EXPECT(GPUD_UNSUPPORTED, "stride of 319", gpud_format_place(&format, &placement, &e));
    format.plane[0].stride = UINT32_MAX;
    EXPECT(GPUD_UNSUPPORTED, "stride", gpud_format_place(&format, &placement, &e));
    format = good;
    format.plane[0].size = 320 * 270 - 1;
    EXPECT(GPUD_UNSUPPORTED, "plane 1", gpud_format_place(&format, &placement, &e));
    format = good;
    format.fourcc = V4L2_PIX_FMT_YUV420;
    format.plane[0].stride = 321;
    format.plane[0].size = 321 * 270;
    EXPECT(GPUD_UNSUPPORTED, "321", gpud_format_place(&format, &placement, &e));
    format = plenty(V4L2_PIX_FMT_NV24, 1);
    format.plane[0].stride = 0x80000000;
    format.plane[0].size = UINT32_MAX;
    EXPECT(GPUD_UNSUPPORTED, "stride", gpud_format_place(&format, &placement, &e));
    format = good;
    format.height = 0;
    EXPECT(GPUD_INVALID, "", gpud_format_place(&format, &placement, &e));
    format.height = GPUD_DIMENSION_MAX + 1;
    EXPECT(GPUD_INVALID, "", gpud_format_place(&format, &placement, &e));
}

int main(void)
{
    test_names();
    test_strides();
    test_areas();
    test_refusals();
    puts("ok");
    return 0;
}
