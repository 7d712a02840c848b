/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GStreamer's converter reads every format that it has a name for, and libjpeg-turbo encodes. */
#include "monitor/picture.h"

#include "gstpicture.h"

#include <math.h>
#include <turbojpeg.h>

#define WIDTH 320
#define HEIGHT_MAX 320
#define STRIDE (3 * WIDTH) /* of RGB */
#define QUALITY 80

static void free_jpeg(gpointer data)
{
    tjFree(data);
}

static GBytes *compress(const guint8 *pixels, int height)
{
    unsigned char *jpeg = NULL;
    unsigned long size = 0;
    GBytes *bytes = NULL;
    tjhandle compressor = tjInitCompress();
    if (compressor && tjCompress2(compressor, pixels, WIDTH, STRIDE, height, TJPF_RGB, &jpeg, &size,
                                  TJSAMP_420, QUALITY, 0) == 0)
        bytes = g_bytes_new_with_free_func(jpeg, size, free_jpeg, jpeg);
    if (compressor)
        tjDestroy(compressor);
    return bytes;
}

static GBytes *encode(struct picture *picture, struct gpud_frame *frame,
                      struct monitor_content *content, struct gpud_error *error)
{
    GstVideoFrame mapped;
    int height = (int)CLAMP(WIDTH / picture->aspect, 16, HEIGHT_MAX);
    if (!picture_map(picture, frame, &mapped, error))
        return NULL;
    guint8 *pixels = g_malloc((gsize)height * STRIDE);
    bool converted = picture_convert(picture, &mapped, GST_VIDEO_FORMAT_RGB, WIDTH, height, pixels,
                                     STRIDE, error);
    picture_unmap(frame, &mapped);
    if (converted)
        monitor_content_look(content, pixels, (gsize)height * STRIDE);
    GBytes *bytes = converted ? compress(pixels, height) : NULL;
    if (converted && !bytes) {
        error->status = GPUD_UNSUPPORTED;
        g_strlcpy(error->reason, "the picture cannot be encoded as JPEG", sizeof(error->reason));
    }
    g_free(pixels);
    return bytes;
}

GBytes *monitor_picture_encode(struct gpud_frame *frame, const struct gpud_media *media,
                               struct monitor_content *content, struct gpud_error *error)
{
    struct picture picture;
    struct gpud_media plain = *media;
    /* Both fields at once: rows are left out, none is moved in time. */
    if (plain.kind == GPUD_MEDIA_PICTURE && plain.picture.scan != GPUD_SCAN_ALTERNATE)
        plain.picture.scan = GPUD_SCAN_PROGRESSIVE;
    if (!picture_init(&picture, &plain, error))
        return NULL;
    picture.quick = true;
    GBytes *bytes = encode(&picture, frame, content, error);
    picture_finish(&picture);
    return bytes;
}

/* --- sound -------------------------------------------------------------------------------------
 */

#define LEVELS_HEIGHT 180
#define LEVELS_TOP 20.0
#define LEVELS_BOTTOM 160.0
#define LEVELS_LEFT 34.0
#define LEVEL_MIN -60.0    /* dBFS */
#define WRITTEN_CHANNELS 8 /* more have no room for a number */
#define NUMBERED_CHANNELS 24

static double level_y(double level)
{
    double part = CLAMP(level / LEVEL_MIN, 0, 1);
    return LEVELS_TOP + part * (LEVELS_BOTTOM - LEVELS_TOP);
}

static void draw_scale(GString *svg)
{
    static const int marks[] = {0, -9, -18, -30, -40, -50, -60};
    for (size_t i = 0; i < G_N_ELEMENTS(marks); i++) {
        int y = (int)level_y(marks[i]);
        g_string_append_printf(svg,
                               "<path d=\"M%d %dH%d\" stroke=\"#444\"/>"
                               "<text x=\"28\" y=\"%d\" text-anchor=\"end\">%d</text>\n",
                               (int)LEVELS_LEFT, y, WIDTH, y + 4, marks[i]);
    }
}

/* The colors change at EBU R 68's alignment level, -18 dBFS, and its permitted maximum, -9. */
static void draw_level(GString *svg, double level, int x, int width)
{
    static const struct {
        double from, to;
        const char *color;
    } parts[] = {{-60, -18, "#3a3"}, {-18, -9, "#cc3"}, {-9, 0, "#d33"}};
    for (size_t i = 0; i < G_N_ELEMENTS(parts) && level > parts[i].from; i++) {
        int top = (int)level_y(MIN(level, parts[i].to)), bottom = (int)level_y(parts[i].from);
        g_string_append_printf(svg,
                               "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n",
                               x, top, width, bottom - top, parts[i].color);
    }
}

static void draw_text(GString *svg, int x, int y, const char *text)
{
    g_string_append_printf(svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x, y,
                           text);
}

GBytes *monitor_picture_draw_levels(const double *peaks, unsigned channels)
{
    GString *svg = g_string_new(NULL);
    g_string_append_printf(svg,
                           "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                           "font-family=\"sans-serif\" font-size=\"11\" fill=\"#bbb\">\n",
                           WIDTH, LEVELS_HEIGHT);
    draw_scale(svg);
    double step = (WIDTH - LEVELS_LEFT) / channels;
    for (unsigned i = 0; i < channels; i++) {
        double level = peaks[i] > 0 ? 20 * log10(peaks[i]) : -INFINITY;
        int width = (int)CLAMP(step * 0.7, 1, 40), x = (int)(LEVELS_LEFT + step * (i + 0.5));
        char text[16];
        draw_level(svg, level, x - width / 2, width);
        g_snprintf(text, sizeof(text), "%u", i + 1);
        if (channels <= NUMBERED_CHANNELS)
            draw_text(svg, x, LEVELS_HEIGHT - 5, text);
        g_snprintf(text, sizeof(text), level > LEVEL_MIN ? "%.0f dB" : "silent", level);
        if (channels <= WRITTEN_CHANNELS)
            draw_text(svg, x, 13, text);
    }
    g_string_append(svg, "</svg>\n");
    return g_string_free_to_bytes(svg);
}
