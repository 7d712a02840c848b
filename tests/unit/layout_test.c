/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The arithmetic of planes: the formats against their definitions written out by hand, at even and
 * odd sizes, and every layout that does not fit or does not add up. */
#include "frame/frame.h"
#include "support/check.h"
#include "support/make.h"

static const char *const names[] = {
    "UYVY",      "YUY2",        "YVYU",      "VYUY",      "v210",      "v216",       "Y210",
    "UYVP",      "NV12",        "NV21",      "NV16",      "NV61",      "NV24",       "P010_10LE",
    "P012_LE",   "P016_LE",     "I420",      "YV12",      "Y42B",      "Y444",       "I420_10LE",
    "I422_10LE", "Y444_10LE",   "BGRx",      "BGRA",      "RGBx",      "RGBA",       "xRGB",
    "ARGB",      "xBGR",        "ABGR",      "AYUV",      "r210",      "RGB10A2_LE", "BGR10A2_LE",
    "RGBA64_LE", "RGB",         "BGR",       "RGB16",     "BGR16",     "GRAY8",      "GRAY16_LE",
    "GRAY16_BE", "GRAY10_LE16", "NV42",      "RGB15",     "BGR15",     "bggr",       "gbrg",
    "grbg",      "rggb",        "bggr10le",  "gbrg10le",  "grbg10le",  "rggb10le",   "bggr12le",
    "gbrg12le",  "grbg12le",    "rggb12le",  "bggr14le",  "gbrg14le",  "grbg14le",   "rggb14le",
    "bggr16le",  "gbrg16le",    "grbg16le",  "rggb16le",  "BGRA64_LE", "ARGB64_LE",  "ABGR64_LE",
    "Y212_LE",   "Y216_LE",     "I420_12LE", "I422_12LE", "Y444_12LE", "Y444_16LE",  "Y41B",
    "YUV9",      "YVU9",        "A420",      "A420_10LE", "A420_12LE", "A420_16LE",  "A422",
    "A422_10LE", "A422_12LE",   "A422_16LE", "A444",      "A444_10LE", "A444_12LE",  "A444_16LE",
    "AV12",      "GBR",         "GBR_10LE",  "GBR_12LE",  "GBR_16LE",  "GBRA",       "GBRA_10LE",
    "GBRA_12LE", "RGBP",        "BGRP",      "RBGA",      "VUYA",      "Y410",       "v308",
    "IYU2",      "AYUV64",      "ARGB64",    "Y412_LE",   "Y416_LE",
};

/* Row bytes and rows of each plane, worked out from the definition of the format. */
static const struct expected {
    const char *name;
    uint32_t width, height, planes;
    struct {
        uint32_t row_bytes, rows;
    } plane[4];
} expected[] = {
    {"UYVY", 1920, 1080, 1, {{3840, 1080}}},
    {"UYVY", 1366, 767, 1, {{2732, 767}}},
    {"UYVY",
     1365,
     767,
     1,
     {{2732, 767}}}, /* a last pixel without a partner still has both chroma bytes */
    {"UYVY", 1, 1, 1, {{4, 1}}},
    {"v210", 1920, 1080, 1, {{5120, 1080}}},
    {"v210", 1280, 720, 1, {{3456, 720}}}, /* 1280 is no multiple of 48 */
    {"v210", 1366, 767, 1, {{3712, 767}}},
    {"v210", 1, 1, 1, {{128, 1}}},
    {"UYVP", 1366, 767, 1, {{3415, 767}}},
    {"NV12", 1366, 767, 2, {{1366, 767}, {1366, 384}}},
    {"NV12", 1365, 767, 2, {{1365, 767}, {1366, 384}}},
    {"NV12", 1, 1, 2, {{1, 1}, {2, 1}}},
    {"NV16", 1365, 767, 2, {{1365, 767}, {1366, 767}}},
    {"NV24", 1365, 767, 2, {{1365, 767}, {2730, 767}}},
    {"P010_10LE", 1366, 767, 2, {{2732, 767}, {2732, 384}}},
    {"P010_10LE", 1365, 767, 2, {{2730, 767}, {2732, 384}}},
    {"I420", 1366, 767, 3, {{1366, 767}, {683, 384}, {683, 384}}},
    {"I420", 1365, 767, 3, {{1365, 767}, {683, 384}, {683, 384}}},
    {"Y42B", 1365, 767, 3, {{1365, 767}, {683, 767}, {683, 767}}},
    {"Y444", 1365, 767, 3, {{1365, 767}, {1365, 767}, {1365, 767}}},
    {"I420_10LE", 1365, 767, 3, {{2730, 767}, {1366, 384}, {1366, 384}}},
    {"BGRx", 1366, 767, 1, {{5464, 767}}},
    {"RGB", 1366, 767, 1, {{4098, 767}}},
    {"RGBA64_LE", 1366, 767, 1, {{10928, 767}}},
    {"BGRA64_LE", 1366, 767, 1, {{10928, 767}}},
    {"ARGB64_LE", 1366, 767, 1, {{10928, 767}}},
    {"ABGR64_LE", 1366, 767, 1, {{10928, 767}}},
    {"Y41B", 1365, 767, 3, {{1365, 767}, {342, 767}, {342, 767}}},
    {"YVU9", 1365, 767, 3, {{1365, 767}, {342, 192}, {342, 192}}},
    {"A420_10LE", 1365, 767, 4, {{2730, 767}, {1366, 384}, {1366, 384}, {2730, 767}}},
    {"A444_16LE", 1365, 767, 4, {{2730, 767}, {2730, 767}, {2730, 767}, {2730, 767}}},
    {"AV12", 1365, 767, 3, {{1365, 767}, {1366, 384}, {1365, 767}}},
    {"GBR_12LE", 1365, 767, 3, {{2730, 767}, {2730, 767}, {2730, 767}}},
    {"Y412_LE", 1365, 767, 1, {{10920, 767}}},
    {"Y212_LE", 1365, 767, 1, {{5464, 767}}},
    {"Y212_BE", 1365, 767, 1, {{5464, 767}}},
    {"I422_10BE", 1365, 767, 3, {{2730, 767}, {1366, 767}, {1366, 767}}},
    {"GRAY8", 1366, 767, 1, {{1366, 767}}},
    {"rggb", 1365, 767, 1, {{1365, 767}}},
    {"rggb10le", 1365, 767, 1, {{2730, 767}}},
};

static void check_consistent(const struct gpud_layout *layout, uint32_t align)
{
    uint64_t end = 0;
    WORKS(gpud_layout_check(layout, &e));
    for (uint32_t p = 0; p < layout->planes; p++) {
        const struct gpud_plane *plane = &layout->plane[p];
        CHECK(plane->offset >= end, "%s: plane %u overlaps the one before", layout->format, p);
        CHECK(plane->stride >= plane->row_bytes && plane->stride < plane->row_bytes + align &&
                  plane->stride % align == 0,
              "%s %ux%u: a stride of %u for rows of %u aligned to %u", layout->format,
              layout->width, layout->height, plane->stride, plane->row_bytes, align);
        end = plane->offset + (uint64_t)plane->stride * plane->rows;
    }
    CHECK_EQUAL(layout->size, end);
}

/* One field of a good layout bent at a time. */
#define BENT(text, change)                                     \
    do {                                                       \
        struct gpud_layout l;                                  \
        WORKS(gpud_layout_init(&l, "NV12", 1366, 767, 0, &e)); \
        change;                                                \
        EXPECT(GPUD_INVALID, text, gpud_layout_check(&l, &e)); \
    } while (0)
#define STILL_GOOD(change)                                     \
    do {                                                       \
        struct gpud_layout l;                                  \
        WORKS(gpud_layout_init(&l, "NV12", 1366, 767, 0, &e)); \
        change;                                                \
        WORKS(gpud_layout_check(&l, &e));                      \
    } while (0)

int main(void)
{
    SAY("formats against their definitions");
    struct gpud_layout layout;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        const struct expected *want = &expected[i];
        layout = LAYOUT(want->name, want->width, want->height, 0);
        CHECK(layout.planes == want->planes, "%s has %u planes", want->name, layout.planes);
        for (uint32_t p = 0; p < want->planes; p++)
            CHECK(layout.plane[p].row_bytes == want->plane[p].row_bytes &&
                      layout.plane[p].rows == want->plane[p].rows,
                  "%s %ux%u: plane %u has %u rows of %u bytes", want->name, want->width,
                  want->height, p, layout.plane[p].rows, layout.plane[p].row_bytes);
    }
    SAY("%zu formats at odd and extreme sizes and alignments", sizeof(names) / sizeof(names[0]));
    static const uint32_t sizes[][2] = {{1, 1},      {2, 2},       {3, 5},       {47, 1},
                                        {1366, 767}, {1920, 1080}, {4096, 2160}, {32768, 32768},
                                        {32768, 1},  {1, 32768}};
    static const uint32_t aligns[] = {0, 1, 2, 4, 64, 256, 4096};
    for (size_t f = 0; f < sizeof(names) / sizeof(names[0]); f++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
            for (size_t a = 0; a < sizeof(aligns) / sizeof(aligns[0]); a++) {
                struct gpud_error error = {.reason = ""};
                enum gpud_status status = gpud_layout_init(&layout, names[f], sizes[s][0],
                                                           sizes[s][1], aligns[a], &error);
                /* RGBA64 at the greatest size is 8 GiB: refused, now or by the check. */
                if (status == GPUD_OK && layout.size > GPUD_FRAME_SIZE_MAX)
                    EXPECT(GPUD_INVALID, "bytes", gpud_layout_check(&layout, &e));
                else if (status == GPUD_OK)
                    check_consistent(&layout, aligns[a] ? aligns[a] : 4);
                else
                    FAIL("%s %ux%u: %s", names[f], sizes[s][0], sizes[s][1], error.reason);
            }
    SAY("refusals");
    layout.planes = 77;
    EXPECT(GPUD_INVALID, "0x1080", gpud_layout_init(&layout, "UYVY", 0, 1080, 0, &e));
    EXPECT(GPUD_INVALID, "1920x0", gpud_layout_init(&layout, "UYVY", 1920, 0, 0, &e));
    EXPECT(GPUD_INVALID, "32769", gpud_layout_init(&layout, "UYVY", 32769, 1, 0, &e));
    EXPECT(GPUD_INVALID, "4294967295", gpud_layout_init(&layout, "UYVY", 1, UINT32_MAX, 0, &e));
    EXPECT(GPUD_INVALID, "power of two", gpud_layout_init(&layout, "UYVY", 64, 64, 3, &e));
    EXPECT(GPUD_INVALID, "power of two", gpud_layout_init(&layout, "UYVY", 64, 64, 8192, &e));
    EXPECT(GPUD_UNSUPPORTED, "it is spelled \"UYVY\"",
           gpud_layout_init(&layout, "uyvy", 64, 64, 0, &e));
    EXPECT(GPUD_UNSUPPORTED, "it is spelled \"RGBx\"",
           gpud_layout_init(&layout, "RGBX", 64, 64, 0, &e));
    EXPECT(GPUD_UNSUPPORTED, "\"NV12_4L4\" is not known",
           gpud_layout_init(&layout, "NV12_4L4", 64, 64, 0, &e));
    EXPECT(GPUD_UNSUPPORTED, "not known", gpud_layout_init(&layout, "", 64, 64, 0, &e));
    EXPECT(GPUD_UNSUPPORTED, "not known", gpud_layout_init(&layout, "BE", 64, 64, 0, &e));
    EXPECT(GPUD_UNSUPPORTED, "not known", gpud_layout_init(&layout, "RGBABE", 64, 64, 0, &e));
    EXPECT(
        GPUD_UNSUPPORTED, "not known",
        gpud_layout_init(&layout, "a name that is much longer than any format's", 64, 64, 0, &e));
    CHECK(layout.planes == 77, "an output was written by a call that failed");

    BENT("0x767", l.width = 0);
    BENT("1366x0", l.height = 0);
    BENT("32769", l.width = 32769);
    BENT("4294967295", l.height = UINT32_MAX);
    BENT("format", l.format[0] = '\0');
    BENT("format", memset(l.format, 'x', sizeof(l.format)));
    BENT("0 planes", l.planes = 0);
    BENT("5 planes", l.planes = 5);
    BENT("4294967295 planes", l.planes = UINT32_MAX);
    BENT("0 bytes", l.size = 0);
    BENT("bytes", l.size = GPUD_FRAME_SIZE_MAX + 1);
    BENT("bytes", l.size = UINT64_MAX);
    BENT("plane 1 leaves",
         l.size -= 3); /* the last row's padding may be missing, its picture may not */
    BENT("plane 1 has 0 rows", l.plane[1].rows = 0);
    BENT("rows", l.plane[0].rows = 32769);
    BENT("rows", l.plane[0].rows = UINT32_MAX);
    BENT("rows of 0", l.plane[0].row_bytes = 0);
    BENT("stride", l.plane[0].row_bytes = l.plane[0].stride + 1);
    BENT("stride", l.plane[0].stride = l.plane[0].row_bytes - 1);
    BENT("stride", l.plane[0].row_bytes = UINT32_MAX);
    BENT("stride", l.plane[0].stride = 0);
    BENT("plane 0 leaves", l.plane[0].stride = UINT32_MAX);
    BENT("plane 0 leaves", (l.plane[0].stride = l.plane[0].row_bytes = UINT32_MAX));
    BENT("plane 1 leaves", l.plane[1].offset = l.size);
    BENT("plane 1 leaves", l.plane[1].offset = UINT64_MAX);
    BENT("plane 1 leaves", l.plane[1].offset = UINT64_MAX - l.plane[1].row_bytes);
    BENT("plane 0 leaves", l.plane[0].offset = UINT64_MAX - (uint64_t)l.plane[0].stride * 766 - 1);
    BENT("plane 1 leaves", l.plane[1].offset += 3);
    STILL_GOOD(l.size -= 2); /* the padding behind the last row */
    STILL_GOOD(l.plane[1].offset += 2);
    STILL_GOOD(l.size = GPUD_FRAME_SIZE_MAX);
    STILL_GOOD(memset(&l.plane[2], 0xff, sizeof(l.plane[2]))); /* what is no plane does not count */
    struct gpud_layout largest = LAYOUT("BGRx", 32768, 32768, 0);
    CHECK_EQUAL(largest.size, GPUD_FRAME_SIZE_MAX);
    WORKS(gpud_layout_check(&largest, &e));
    SAY("comparison");
    struct gpud_layout a = LAYOUT("NV12", 1366, 767, 4);
    struct gpud_layout b = LAYOUT("NV12", 1366, 767, 256);
    CHECK(gpud_layout_same_picture(&a, &b) && !gpud_layout_equal(&a, &b),
          "strides alone make no other picture");
    CHECK(gpud_layout_equal(&a, &a), "a layout is not equal to itself");
    b = LAYOUT("NV12", 1366, 766, 4);
    CHECK(!gpud_layout_same_picture(&a, &b), "one row less is another picture");
    b = LAYOUT("NV21", 1366, 767, 4);
    CHECK(!gpud_layout_same_picture(&a, &b),
          "NV21 in the place of NV12: the colours would be wrong");
    b = LAYOUT("I420", 1366, 767, 4);
    CHECK(!gpud_layout_same_picture(&a, &b), "another number of planes is another picture");
    return 0;
}
