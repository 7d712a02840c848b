/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/vivid_picture.h"

#include "support/check.h"

#include <stdlib.h>

enum kind {
    YUV,
    RGB,
    GREY,
};

/* Where a format has its three components: a plane, the bytes from one pixel (or pair) to the next,
 * the byte in it. */
struct component {
    uint8_t plane, step, byte, pixels, rows; /* pixels, rows: that share one value */
};

static const struct {
    const char *name;
    enum kind kind;
    struct component component[3];
} pictures[] = {
    {"UYVY", YUV, {{0, 2, 1, 1, 1}, {0, 4, 0, 2, 1}, {0, 4, 2, 2, 1}}},
    {"YUY2", YUV, {{0, 2, 0, 1, 1}, {0, 4, 1, 2, 1}, {0, 4, 3, 2, 1}}},
    {"YVYU", YUV, {{0, 2, 0, 1, 1}, {0, 4, 3, 2, 1}, {0, 4, 1, 2, 1}}},
    {"VYUY", YUV, {{0, 2, 1, 1, 1}, {0, 4, 2, 2, 1}, {0, 4, 0, 2, 1}}},
    {"NV12", YUV, {{0, 1, 0, 1, 1}, {1, 2, 0, 2, 2}, {1, 2, 1, 2, 2}}},
    {"NV21", YUV, {{0, 1, 0, 1, 1}, {1, 2, 1, 2, 2}, {1, 2, 0, 2, 2}}},
    {"NV16", YUV, {{0, 1, 0, 1, 1}, {1, 2, 0, 2, 1}, {1, 2, 1, 2, 1}}},
    {"NV61", YUV, {{0, 1, 0, 1, 1}, {1, 2, 1, 2, 1}, {1, 2, 0, 2, 1}}},
    {"NV24", YUV, {{0, 1, 0, 1, 1}, {1, 2, 0, 1, 1}, {1, 2, 1, 1, 1}}},
    {"NV42", YUV, {{0, 1, 0, 1, 1}, {1, 2, 1, 1, 1}, {1, 2, 0, 1, 1}}},
    {"I420", YUV, {{0, 1, 0, 1, 1}, {1, 1, 0, 2, 2}, {2, 1, 0, 2, 2}}},
    {"YV12", YUV, {{0, 1, 0, 1, 1}, {2, 1, 0, 2, 2}, {1, 1, 0, 2, 2}}},
    {"Y42B", YUV, {{0, 1, 0, 1, 1}, {1, 1, 0, 2, 1}, {2, 1, 0, 2, 1}}},
    {"Y444", YUV, {{0, 1, 0, 1, 1}, {1, 1, 0, 1, 1}, {2, 1, 0, 1, 1}}},
    {"AYUV", YUV, {{0, 4, 1, 1, 1}, {0, 4, 2, 1, 1}, {0, 4, 3, 1, 1}}},
    {"GRAY8", GREY, {{0, 1, 0, 1, 1}}},
    {"GRAY16_LE", GREY, {{0, 2, 1, 1, 1}}},
    {"GRAY16_BE", GREY, {{0, 2, 0, 1, 1}}},
    {"BGRx", RGB, {{0, 4, 2, 1, 1}, {0, 4, 1, 1, 1}, {0, 4, 0, 1, 1}}},
    {"BGRA", RGB, {{0, 4, 2, 1, 1}, {0, 4, 1, 1, 1}, {0, 4, 0, 1, 1}}},
    {"RGBx", RGB, {{0, 4, 0, 1, 1}, {0, 4, 1, 1, 1}, {0, 4, 2, 1, 1}}},
    {"RGBA", RGB, {{0, 4, 0, 1, 1}, {0, 4, 1, 1, 1}, {0, 4, 2, 1, 1}}},
    {"xRGB", RGB, {{0, 4, 1, 1, 1}, {0, 4, 2, 1, 1}, {0, 4, 3, 1, 1}}},
    {"ARGB", RGB, {{0, 4, 1, 1, 1}, {0, 4, 2, 1, 1}, {0, 4, 3, 1, 1}}},
    {"xBGR", RGB, {{0, 4, 3, 1, 1}, {0, 4, 2, 1, 1}, {0, 4, 1, 1, 1}}},
    {"ABGR", RGB, {{0, 4, 3, 1, 1}, {0, 4, 2, 1, 1}, {0, 4, 1, 1, 1}}},
    {"RGB", RGB, {{0, 3, 0, 1, 1}, {0, 3, 1, 1, 1}, {0, 3, 2, 1, 1}}},
    {"BGR", RGB, {{0, 3, 2, 1, 1}, {0, 3, 1, 1, 1}, {0, 3, 0, 1, 1}}},
};
#define PICTURES (sizeof(pictures) / sizeof(pictures[0]))

static int sample(const struct gpud_layout *layout, const unsigned char *data,
                  const struct component *of, uint32_t x, uint32_t y)
{
    const struct gpud_plane *plane = &layout->plane[of->plane];
    return data[plane->offset + (uint64_t)(y / of->rows) * plane->stride +
                x / of->pixels * of->step + of->byte];
}

/* Those of a little-endian word: GStreamer's RGB16 has 5, 6 and 5 bits of it, RGB15 and BGR15 5 of
 * each, GRAY10_LE16 the lower 10. */
static const char *const words[] = {"RGB16", "RGB15", "BGR15", "GRAY10_LE16"};

static bool is_word(const char *format)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i], format) == 0)
            return true;
    return false;
}

static void sample_word(const struct gpud_layout *layout, const unsigned char *data, uint32_t x,
                        uint32_t y, int rgb[3])
{
    const unsigned char *at =
        data + layout->plane[0].offset + (uint64_t)y * layout->plane[0].stride + 2 * x;
    int word = at[0] | at[1] << 8;
    int high = (word >> 10 & 31) << 3, low = (word & 31) << 3;
    bool swapped = strcmp(layout->format, "BGR15") == 0;
    if (strcmp(layout->format, "GRAY10_LE16") == 0) {
        rgb[0] = word >> 2;
    } else if (strcmp(layout->format, "RGB16") == 0) {
        rgb[0] = (word >> 11) << 3;
        rgb[1] = (word >> 5 & 63) << 2;
        rgb[2] = low;
    } else {
        rgb[0] = swapped ? low : high;
        rgb[1] = (word >> 5 & 31) << 3;
        rgb[2] = swapped ? high : low;
    }
}

/* The samples of a square of four pixels, each behind a filter of the colour that the format's name
 * says, in bytes or in little-endian words of 10 bits or more. */
static bool is_mosaic(const char *format)
{
    return strspn(format, "rgb") == 4;
}

static void sample_mosaic(const struct gpud_layout *layout, const unsigned char *data, uint32_t x,
                          uint32_t y, int rgb[3])
{
    int bits = layout->format[4] ? atoi(layout->format + 4) : 8;
    for (uint32_t i = 0; i < 4; i++) {
        const unsigned char *row = data + layout->plane[0].offset +
                                   (uint64_t)((y & ~1u) + i / 2) * layout->plane[0].stride;
        uint32_t at = (x & ~1u) + i % 2;
        int value = bits == 8 ? row[at] : (row[2 * at] | row[2 * at + 1] << 8) >> (bits - 8);
        rgb[strchr("rgb", layout->format[i]) - "rgb"] = value;
    }
}

/* BT.601, limited range: what vivid makes of its sRGB picture. */
static void to_yuv(const int rgb[3], int yuv[3])
{
    double y = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
    yuv[0] = (int)(16 + y * 219 / 255 + 0.5);
    yuv[1] = (int)(128 + (rgb[2] - y) / 1.772 * 224 / 255 + 0.5);
    yuv[2] = (int)(128 + (rgb[0] - y) / 1.402 * 224 / 255 + 0.5);
}

void check_bars(const struct gpud_layout *layout, const void *data)
{
    static const char *const names[8] = {"white",   "yellow", "cyan", "green",
                                         "magenta", "red",    "blue", "black"};
    bool word = is_word(layout->format), grey = strncmp(layout->format, "GRAY", 4) == 0;
    bool mosaic = is_mosaic(layout->format);
    size_t i = 0;
    while (i < PICTURES && strcmp(pictures[i].name, layout->format) != 0)
        i++;
    CHECK(i < PICTURES || word || mosaic, "no picture of %s", layout->format);
    enum kind kind = i < PICTURES ? pictures[i].kind : grey ? GREY : RGB;
    uint32_t components = kind == GREY ? 1 : 3;

    for (uint32_t bar = 0; bar < 8; bar++) {
        const int rgb[3] = {bar & 2 ? 0 : 191, bar & 4 ? 0 : 191, bar & 1 ? 0 : 191};
        int wanted[3], got[3];
        if (kind == RGB)
            memcpy(wanted, rgb, sizeof(wanted));
        else if (kind == GREY) /* BT.709's luma, full range */
            wanted[0] = (int)(0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2] + 0.5);
        else
            to_yuv(rgb, wanted);
        uint32_t x = (2 * bar + 1) * layout->width / 16, y = layout->height - 3;
        if (word)
            sample_word(layout, data, x, y, got);
        if (mosaic)
            sample_mosaic(layout, data, x, y, got);
        for (uint32_t c = 0; c < components; c++) {
            if (i < PICTURES)
                got[c] = sample(layout, data, &pictures[i].component[c], x, y);
            CHECK(abs(got[c] - wanted[c]) <= (word ? 8 : 3),
                  "%s: component %u of the %s bar is %d, not %d", layout->format, c, names[bar],
                  got[c], wanted[c]);
        }
    }
}

uint64_t hash_picture(const struct gpud_layout *layout, const void *data)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (uint32_t i = 0; i < layout->planes; i++)
        for (uint32_t row = 0; row < layout->plane[i].rows; row++) {
            const unsigned char *at = (const unsigned char *)data + layout->plane[i].offset +
                                      (uint64_t)row * layout->plane[i].stride;
            for (uint32_t x = 0; x < layout->plane[i].row_bytes; x++)
                hash = (hash ^ at[x]) * UINT64_C(1099511628211);
        }
    return hash;
}
