/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What gpudirectsrc says of a capture card's signal, on the kernel's test card in the guest,
 * against what the driver itself makes of it and what v4l2src says. */
#include "inputs.h"

#include <gst/video/video.h>
#include <linux/videodev2.h>
#include <stdlib.h>
#include <string.h>

#define THEIRS "v4l2src device=" CARD

struct picture take(const gchar *source, const gchar *rest)
{
    struct picture picture;
    gchar *text;
    gboolean taken = card_take(source, rest, 2, &picture, &text);

    check(taken, "%s ! %s: %s", source, rest, text);
    return picture;
}

/* --- colours ------------------------------------------------------------------------------ */

#define HD "width=1280,height=720"

/* The pixel at the middle of a bar, in a picture of UYVY or NV12, as its caps say that it is to be
 * read. */
static void read_yuv(const struct picture *picture, gint bar, gint rgb[3])
{
    GstVideoInfo info;
    const guint8 *data = g_bytes_get_data(picture->bytes, NULL);
    gint offset[4], scale[4];
    gdouble kr, kb;

    check(gst_video_info_from_caps(&info, picture->caps) &&
              gst_video_color_matrix_get_Kr_Kb(info.colorimetry.matrix, &kr, &kb),
          "no matrix in %s", picture_field(picture, "colorimetry"));
    gint x = (2 * bar + 1) * info.width / 16 & ~1;
    gboolean packed = GST_VIDEO_INFO_N_PLANES(&info) == 1;
    const guint8 *chroma = packed ? data + 2 * x : data + GST_VIDEO_INFO_PLANE_OFFSET(&info, 1) + x;
    gst_video_color_range_offsets(info.colorimetry.range, info.finfo, offset, scale);
    gdouble y = (gdouble)((packed ? data[2 * x + 1] : data[x]) - offset[0]) / scale[0];
    gdouble u = (gdouble)(chroma[0] - offset[1]) / scale[1];
    gdouble v = (gdouble)(chroma[packed ? 2 : 1] - offset[2]) / scale[2];
    gdouble r = y + 2 * (1 - kr) * v, b = y + 2 * (1 - kb) * u;
    gdouble g = (y - kr * r - kb * b) / (1 - kr - kb);
    const gdouble all[3] = {r, g, b};
    for (gint i = 0; i < 3; i++)
        rgb[i] = (gint)(CLAMP(all[i], 0, 1) * 255 + 0.5);
}

static void check_colors(const gchar *format, const gchar *size)
{
    g_autofree gchar *yuv = g_strdup_printf("video/x-raw,format=%s,%s", format, size);
    g_autofree gchar *rgb = g_strdup_printf("video/x-raw,format=BGRx,%s", size);
    struct picture ours = take(OURS, yuv), own = take(OURS, rgb);
    GstVideoInfo info;
    const guint8 *data = g_bytes_get_data(own.bytes, NULL);
    gint most = 0;

    check(gst_video_info_from_caps(&info, own.caps), "no video info");
    for (gint bar = 0; bar < 8; bar++) {
        gint got[3];
        const guint8 *pixel = data + ((2 * bar + 1) * info.width / 16 & ~1) * 4;
        read_yuv(&ours, bar, got);
        for (gint i = 0; i < 3; i++)
            most = MAX(most, ABS(got[i] - pixel[2 - i]));
    }
    g_print("  %s %s: %s, off by %d\n", format, size, picture_field(&ours, "colorimetry"), most);
    check(most <= 3, "%s of %s is %d away from the driver's own RGB", format, size, most);
    picture_clear(&ours);
    picture_clear(&own);
}

static void test_colors(void)
{
    /* vivid's menu: 170M, 709, sRGB, opRGB, BT.2020, DCI-P3, 240M, 470 M, 470 BG. */
    card_select(CARD_WEBCAM);
    card_set("Test Pattern", 0);
    card_set("OSD Text Mode", 2);
    for (gint space = 0; space < 9; space++) {
        card_set("Colorspace", space);
        check_colors("UYVY", SMALL);
    }
    card_set("Colorspace", 5);
    struct picture p3 = take(OURS, "video/x-raw,format=UYVY," SMALL);
    GstVideoInfo info;
    check(gst_video_info_from_caps(&info, p3.caps), "no video info");
    check(info.colorimetry.primaries == GST_VIDEO_COLOR_PRIMARIES_SMPTERP431 &&
              info.colorimetry.matrix == GST_VIDEO_COLOR_MATRIX_BT709,
          "DCI-P3 is %s", picture_field(&p3, "colorimetry"));
    check(info.chroma_site == GST_VIDEO_CHROMA_SITE_NONE, "the chroma site is %s",
          picture_field(&p3, "chroma-site"));
    picture_clear(&p3);

    /* 601 from 720 lines up, where a picture without a word would be read as 709; each matrix; full
     * range. */
    card_set("Colorspace", 0);
    check_colors("UYVY", HD);
    check_colors("NV12", HD);
    card_set("Colorspace", 1);
    static const gint encodings[] = {1, 2, 6}; /* 601, 709, BT.2020 */
    for (guint i = 0; i < G_N_ELEMENTS(encodings); i++) {
        card_set("Y'CbCr Encoding", encodings[i]);
        check_colors("UYVY", SMALL);
    }
    card_set("Y'CbCr Encoding", 0);
    card_set("Quantization", 1);
    check_colors("UYVY", SMALL);
    card_set("Quantization", 0);

    /* Beside v4l2src, where it knows the space. */
    for (gint space = 0; space < 5; space++) {
        card_set("Colorspace", space);
        struct picture ours = take(OURS, "video/x-raw,format=UYVY," SMALL);
        struct picture theirs = take(THEIRS, "video/x-raw,format=UYVY," SMALL);
        check(g_bytes_equal(ours.bytes, theirs.bytes), "other bytes than v4l2src's in space %d",
              space);
        g_print("  space %d: %s, v4l2src %s\n", space, picture_field(&ours, "colorimetry"),
                picture_field(&theirs, "colorimetry"));
        GstVideoInfo a, b;
        check(gst_video_info_from_caps(&a, ours.caps) && gst_video_info_from_caps(&b, theirs.caps),
              "no video info");
        check(a.colorimetry.matrix == b.colorimetry.matrix &&
                  a.colorimetry.range == b.colorimetry.range &&
                  a.colorimetry.primaries == b.colorimetry.primaries,
              "v4l2src says %s of what is %s here", picture_field(&theirs, "colorimetry"),
              picture_field(&ours, "colorimetry"));
        picture_clear(&ours);
        picture_clear(&theirs);
    }
    card_set("Colorspace", 2);

    /* What the driver has not is not negotiated. */
    struct picture none;
    g_autofree gchar *text = NULL;
    check(!card_take(OURS, "video/x-raw,format=UYVY," SMALL ",colorimetry=bt2020", 1, &none, &text),
          "sRGB as BT.2020");
}

/* --- fields ------------------------------------------------------------------------------- */

static void check_field(const struct picture *picture, const gchar *name, const gchar *value)
{
    const GValue *has = gst_structure_get_value(gst_caps_get_structure(picture->caps, 0), name);
    g_autofree gchar *text = has ? gst_value_serialize(has) : g_strdup("(none)");

    check(g_str_equal(text, value), "%s is %s where %s is right", name, text, value);
}

static void check_picture(const struct picture *picture, const gchar *const *fields, guint flags)
{
    const guint all = GST_VIDEO_BUFFER_FLAG_INTERLACED | GST_VIDEO_BUFFER_FLAG_TFF |
                      GST_VIDEO_BUFFER_FLAG_ONEFIELD;
    g_autofree gchar *text = gst_caps_to_string(picture->caps);

    g_print("  %s, flags %x\n", text, picture->flags & all);
    for (guint i = 0; fields[i]; i += 2)
        check_field(picture, fields[i], fields[i + 1]);
    check((picture->flags & all) == flags, "flags %x where %x is right", picture->flags & all,
          flags);
}

static void test_fields(void)
{
    static const gchar *const pal[] = {"width",
                                       "720",
                                       "height",
                                       "576",
                                       "interlace-mode",
                                       "interleaved",
                                       "field-order",
                                       "top-field-first",
                                       "framerate",
                                       "25/1",
                                       "pixel-aspect-ratio",
                                       "59/54",
                                       NULL};
    static const gchar *const ntsc[] = {"width",
                                        "720",
                                        "height",
                                        "480",
                                        "interlace-mode",
                                        "interleaved",
                                        "field-order",
                                        "bottom-field-first",
                                        "framerate",
                                        "30000/1001",
                                        "pixel-aspect-ratio",
                                        "10/11",
                                        NULL};
    static const gchar *const alternate[] = {"width",          "720",       "height", "576",
                                             "interlace-mode", "alternate", NULL};

    card_select(CARD_TV);
    card_set_standard(V4L2_STD_PAL);
    struct picture picture = take(OURS, "video/x-raw,format=UYVY");
    check_picture(&picture, pal, GST_VIDEO_BUFFER_FLAG_INTERLACED | GST_VIDEO_BUFFER_FLAG_TFF);
    picture_clear(&picture);

    picture = take(OURS, "video/x-raw(format:Interlaced),format=UYVY");
    guint field = picture.flags & GST_VIDEO_BUFFER_FLAG_TOP_FIELD;
    check_picture(&picture, alternate, GST_VIDEO_BUFFER_FLAG_INTERLACED | field);
    check(field & GST_VIDEO_BUFFER_FLAG_ONEFIELD, "no field");
    check(g_bytes_get_size(picture.bytes) == 720 * 288 * 2, "%" G_GSIZE_FORMAT " bytes of a field",
          g_bytes_get_size(picture.bytes));
    picture_clear(&picture);

    card_set_standard(V4L2_STD_NTSC_M);
    picture = take(OURS, "video/x-raw,format=UYVY");
    check_picture(&picture, ntsc, GST_VIDEO_BUFFER_FLAG_INTERLACED);
    picture_clear(&picture);

    g_autofree gchar *text = NULL;
    check(
        !card_take(OURS, "video/x-raw,format=UYVY,interlace-mode=progressive", 1, &picture, &text),
        "interlaced pictures as progressive ones");
    card_set_standard(V4L2_STD_PAL);
    card_select(CARD_WEBCAM);
}

/* --- rates -------------------------------------------------------------------------------- */

static void test_rates(void)
{
    static const gchar *const never[] = {"7/1", "13/2", "30000/1001"};

    card_select(CARD_WEBCAM);
    for (guint i = 0; i < G_N_ELEMENTS(never); i++) {
        g_autofree gchar *rest =
            g_strdup_printf("video/x-raw,format=UYVY," SMALL ",framerate=%s", never[i]);
        g_autofree gchar *text = NULL;
        struct picture picture;
        if (card_take(OURS, rest, 1, &picture, &text)) {
            check_field(&picture, "framerate", never[i]);
            picture_clear(&picture);
        } else {
            g_print("  %s: %s\n", never[i], text);
        }
    }
}

/* ------------------------------------------------------------------------------------------ */

static const struct {
    const gchar *name;
    void (*run)(void);
} tests[] = {
    {"colors", test_colors},     {"fields", test_fields}, {"rates", test_rates},
    {"signal", test_signal},     {"pause", test_pause},   {"unplug", test_unplug},
    {"settings", test_settings},
};

/* In a process of its own: v4l2src leaves the card's node open behind it, and a lost card whose old
 * node is open returns with another number. */
static gint run_apart(gchar *program, const gchar *name)
{
    gchar *args[] = {program, (gchar *)name, NULL};
    GError *error = NULL;
    gint status = 0;

    gboolean ran = g_spawn_sync(NULL, args, NULL, G_SPAWN_CHILD_INHERITS_STDIN, NULL, NULL, NULL,
                                NULL, &status, &error);
    check(ran, "%s", ran ? "" : error->message);
    return status;
}

static gint run_part(const gchar *name)
{
    for (guint i = 0; i < G_N_ELEMENTS(tests); i++) {
        if (strcmp(name, tests[i].name) != 0)
            continue;
        g_print("-- %s\n", name);
        tests[i].run();
        return 0;
    }
    g_print("FAILED: there is no part %s\n", name);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        gst_init(NULL, NULL);
        return run_part(argv[1]);
    }
    for (guint i = 0; i < G_N_ELEMENTS(tests); i++)
        if ((argc == 1 || g_strv_contains((const gchar *const *)argv + 1, tests[i].name)) &&
            run_apart(argv[0], tests[i].name) != 0)
            return 1;
    g_print("ok\n");
    return 0;
}
