/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a capture says of colours is what the driver did to them. vivid has a picture whose eight
 * bars it converts by itself, from sRGB into whatever colorspace and transfer function are set. The
 * test converts the same bars by what H.273 says of the numbers that the capture gave, and finds
 * the driver's samples, as R'G'B' and as Y'CbCr.
 *     colors_vivid_test NODE */
#include "support/check.h"
#include "support/configure.h"
#include <gpudirect/capture.h>

#include <linux/videodev2.h>
#include <math.h>
#include <string.h>

#define WAIT (20 * INT64_C(1000000000))
#define WIDTH 320
#define HEIGHT 180
#define BARS 8
#define TOLERANCE 2.0 /* codes of 255: the driver rounds more than once */

static struct gpud_context *context;

/* --- what H.273 says of its numbers -------------------------------------------------------- */

struct matrix {
    double m[3][3];
};

struct chromaticity {
    uint8_t primaries;
    double xy[3][2], white[2];
};

static const double d65[2] = {0.3127, 0.3290};
static const struct chromaticity spaces[] = {
    {1, {{0.640, 0.330}, {0.300, 0.600}, {0.150, 0.060}}, {0.3127, 0.3290}},
    {4, {{0.67, 0.33}, {0.21, 0.71}, {0.14, 0.08}}, {0.310, 0.316}},
    {5, {{0.64, 0.33}, {0.29, 0.60}, {0.15, 0.06}}, {0.3127, 0.3290}},
    {6, {{0.630, 0.340}, {0.310, 0.595}, {0.155, 0.070}}, {0.3127, 0.3290}},
    {7, {{0.630, 0.340}, {0.310, 0.595}, {0.155, 0.070}}, {0.3127, 0.3290}},
    {9, {{0.708, 0.292}, {0.170, 0.797}, {0.131, 0.046}}, {0.3127, 0.3290}},
    {11, {{0.680, 0.320}, {0.265, 0.690}, {0.150, 0.060}}, {0.314, 0.351}},
    {12, {{0.680, 0.320}, {0.265, 0.690}, {0.150, 0.060}}, {0.3127, 0.3290}},
    {GPUD_PRIMARIES_OPRGB, {{0.64, 0.33}, {0.21, 0.71}, {0.15, 0.06}}, {0.3127, 0.3290}},
};

static struct matrix multiply(struct matrix a, struct matrix b)
{
    struct matrix c = {0};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            for (int n = 0; n < 3; n++)
                c.m[i][k] += a.m[i][n] * b.m[n][k];
    return c;
}

static void apply(struct matrix a, const double in[3], double out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = a.m[i][0] * in[0] + a.m[i][1] * in[1] + a.m[i][2] * in[2];
}

static struct matrix invert(struct matrix a)
{
    struct matrix b;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            int r = (k + 1) % 3, s = (k + 2) % 3, c = (i + 1) % 3, d = (i + 2) % 3;
            b.m[i][k] = a.m[r][c] * a.m[s][d] - a.m[r][d] * a.m[s][c];
        }
    double determinant = a.m[0][0] * b.m[0][0] + a.m[0][1] * b.m[1][0] + a.m[0][2] * b.m[2][0];
    for (int i = 0; i < 9; i++)
        b.m[i / 3][i % 3] /= determinant;
    return b;
}

static void xyz_of(const double xy[2], double xyz[3])
{
    xyz[0] = xy[0] / xy[1];
    xyz[1] = 1;
    xyz[2] = (1 - xy[0] - xy[1]) / xy[1];
}

/* Linear R, G, B to X, Y, Z. */
static struct matrix to_xyz(const struct chromaticity *space)
{
    struct matrix columns;
    double white[3], scale[3];
    for (int k = 0; k < 3; k++) {
        double xyz[3];
        xyz_of(space->xy[k], xyz);
        for (int i = 0; i < 3; i++)
            columns.m[i][k] = xyz[i];
    }
    xyz_of(space->white, white);
    apply(invert(columns), white, scale);
    for (int i = 0; i < 9; i++)
        columns.m[i / 3][i % 3] *= scale[i % 3];
    return columns;
}

/* Bradford's: white stays white. */
static struct matrix adapt(const double from[2], const double to[2])
{
    static const struct matrix cone = {
        {{0.8951, 0.2664, -0.1614}, {-0.7502, 1.7135, 0.0367}, {0.0389, -0.0685, 1.0296}}};
    double a[3], b[3], before[3], after[3];
    struct matrix scale = {0};
    xyz_of(from, a);
    xyz_of(to, b);
    apply(cone, a, before);
    apply(cone, b, after);
    for (int i = 0; i < 3; i++)
        scale.m[i][i] = after[i] / before[i];
    return multiply(invert(cone), multiply(scale, cone));
}

static struct matrix from_709_to(uint8_t primaries)
{
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++)
        if (spaces[i].primaries == primaries)
            return multiply(invert(to_xyz(&spaces[i])),
                            multiply(adapt(d65, spaces[i].white), to_xyz(&spaces[0])));
    FAIL("the primaries are %u", primaries);
}

static double from_srgb(double v)
{
    return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

static double encode(uint8_t transfer, double l)
{
    l = l < 0 ? 0 : l > 1 ? 1 : l;
    switch (transfer) {
    case 1:
    case 6:
    case 14:
        return l < 0.018 ? 4.5 * l : 1.099 * pow(l, 0.45) - 0.099;
    case 7:
        return l < 0.0228 ? 4 * l : 1.1115 * pow(l, 0.45) - 0.1115;
    case 8:
        return l;
    case 13:
        return l <= 0.0031308 ? 12.92 * l : 1.055 * pow(l, 1 / 2.4) - 0.055;
    case 16: { /* absolute, to 10,000 cd/m²: the driver takes its bars for up to 100 */
        double p = pow(l / 100, 0.1593017578125);
        return pow((0.8359375 + 18.8515625 * p) / (1 + 18.6875 * p), 78.84375);
    }
    case 17: /* up to the largest value, not to the reference white below it */
        return pow(l, 1 / 2.6);
    case GPUD_TRANSFER_OPRGB:
        return pow(l, 1 / 2.19921875);
    default:
        FAIL("the transfer function is %u", transfer);
    }
}

static void weights_of(uint8_t matrix, double *red, double *blue)
{
    *red = matrix == 1 ? 0.2126 : matrix == 6 ? 0.299 : matrix == 7 ? 0.212 : 0.2627;
    *blue = matrix == 1 ? 0.0722 : matrix == 6 ? 0.114 : matrix == 7 ? 0.087 : 0.0593;
    CHECK(matrix == 1 || matrix == 6 || matrix == 7 || matrix == 9, "the matrix is %u", matrix);
}

/* R', G', B' of 0 to 1 as three codes of 8 bits: the same, or Y', Cb, Cr. */
static void quantize(const struct gpud_colorimetry *colors, const double rgb[3], double codes[3])
{
    bool full = colors->range == GPUD_RANGE_FULL;
    double scale = full ? 255 : 219, offset = full ? 0 : 16, red, blue;
    CHECK(full || colors->range == GPUD_RANGE_LIMITED, "the range is %u", colors->range);
    for (int i = 0; i < 3; i++)
        codes[i] = offset + scale * rgb[i];
    if (colors->matrix == GPUD_MATRIX_RGB)
        return;
    weights_of(colors->matrix, &red, &blue);
    double luma = red * rgb[0] + (1 - red - blue) * rgb[1] + blue * rgb[2];
    double chroma = full ? 255 : 224;
    codes[0] = offset + scale * luma;
    codes[1] = 128 + chroma * (rgb[2] - luma) / (2 - 2 * blue);
    codes[2] = 128 + chroma * (rgb[0] - luma) / (2 - 2 * red);
}

/* The bars before the driver converts them: the eight corners of a cube within every gamut. */
static void expect_codes(const struct gpud_colorimetry *colors, int bar, double codes[3])
{
    static const bool on[BARS][3] = {{1, 1, 1}, {1, 1, 0}, {0, 1, 1}, {0, 1, 0},
                                     {1, 0, 1}, {1, 0, 0}, {0, 0, 1}, {0, 0, 0}};
    double linear[3], converted[3];
    for (int i = 0; i < 3; i++)
        linear[i] = from_srgb((on[bar][i] ? 191 : 50) / 255.0);
    apply(from_709_to(colors->primaries), linear, converted);
    for (int i = 0; i < 3; i++)
        converted[i] = encode(colors->transfer, converted[i]);
    quantize(colors, converted, codes);
}

/* --- the driver's -------------------------------------------------------------------------- */

/* A pixel of each bar, in the order of quantize(). */
static void read_bars(struct gpud_capture *capture, bool rgb, double codes[BARS][3])
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    struct gpud_frame *frame;
    void *data;
    WORKS(gpud_capture_acquire(capture, WAIT, &frame, &e));
    gpud_frame_get_info(frame, &info);
    WORKS(gpud_frame_map(frame, GPUD_READ, WAIT, &data, &e));
    const struct gpud_plane *plane = &info.layout.plane[0];
    const uint8_t *row = (uint8_t *)data + plane->offset + (size_t)HEIGHT / 2 * plane->stride;
    for (size_t bar = 0; bar < BARS; bar++) {
        size_t x = WIDTH / BARS * bar + WIDTH / BARS / 2;
        const uint8_t *pixel = row + x * (rgb ? 3 : 2);
        for (size_t i = 0; i < 3; i++) /* BGR; UYVY */
            codes[bar][i] = rgb ? pixel[2 - i] : pixel[i == 0 ? 1 : i == 1 ? 0 : 2];
    }
    gpud_frame_unmap(frame);
    gpud_frame_release(&frame);
}

static double worst_of(const struct gpud_colorimetry *colors, double codes[BARS][3])
{
    double worst = 0, wanted[3];
    for (int bar = 0; bar < BARS; bar++) {
        expect_codes(colors, bar, wanted);
        for (int i = 0; i < 3; i++)
            worst = fmax(worst, fabs(wanted[i] - codes[bar][i]));
    }
    return worst;
}

static void check_space(struct gpud_capture *capture, int space, int transfer, bool rgb)
{
    const struct gpud_capture_control controls[] = {
        {.name = "Colorspace", .value = space}, {.name = "Transfer Function", .value = transfer}};
    struct gpud_capture_info info = GPUD_INFO_INIT(info);
    double codes[BARS][3], wanted[3];
    WORKS(configure_controls(capture, controls, 2, &e));
    WORKS(configure_format(capture, rgb ? "BGR" : "UYVY", WIDTH, HEIGHT, 60, 1, &e));
    gpud_capture_get_info(capture, &info);
    const struct gpud_colorimetry *colors = &info.media.picture.colorimetry;
    read_bars(capture, rgb, codes);
    double worst = worst_of(colors, codes);
    printf("colorspace %d, transfer %d, %s: %u/%u/%u range %u is within %.1f codes", space,
           transfer, rgb ? "BGR" : "UYVY", colors->primaries, colors->transfer, colors->matrix,
           colors->range, worst);
    /* The errors that other colorimetries would give, for comparison. */
    struct gpud_colorimetry other = *colors;
    other.primaries = colors->primaries == 11 ? 12 : 1;
    printf("; by primaries %u %.1f", other.primaries, worst_of(&other, codes));
    other = *colors;
    other.range = colors->range == GPUD_RANGE_FULL ? GPUD_RANGE_LIMITED : GPUD_RANGE_FULL;
    printf(", by the other range %.1f\n", worst_of(&other, codes));
    for (int bar = 0; bar < BARS && worst > TOLERANCE; bar++) {
        expect_codes(colors, bar, wanted);
        printf("  bar %d is %3.0f %3.0f %3.0f, not %5.1f %5.1f %5.1f\n", bar, codes[bar][0],
               codes[bar][1], codes[bar][2], wanted[0], wanted[1], wanted[2]);
    }
    CHECK(worst <= TOLERANCE, "the driver's samples are others: see above");
}

int main(int argc, char **argv)
{
    struct gpud_capture_params params = GPUD_PARAMS_INIT(params);
    const struct gpud_capture_control controls[] = {
        {.name = "Test Pattern", .text = "CSC Colorbar"},
        {.name = "OSD Text Mode", .text = "None"}};
    struct gpud_capture *capture;
    char address[64];
    CHECK(argc == 2, "usage: colors_vivid_test NODE");
    snprintf(address, sizeof(address), "v4l2://%s", argv[1]);
    params.address = address;
    params.controls = controls;
    params.control_count = 2;
    WORKS(gpud_context_create(NULL, &context, &e));
    WORKS(gpud_capture_create(context, &params, &capture, &e));
    for (int space = 0; space <= 8; space++)
        for (int transfer = 0; transfer <= 7; transfer++)
            for (int rgb = 0; rgb <= 1; rgb++)
                check_space(capture, space, transfer, rgb);
    gpud_capture_destroy(&capture);
    gpud_context_destroy(&context);
    puts("ok");
    return 0;
}
