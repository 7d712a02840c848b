/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What gpudirectsrc says of a capture card's signal, on the kernel's test card in the guest,
 * against what the driver itself makes of it and what v4l2src says. */
#include "card.h"

#include <errno.h>
#include <gst/video/video.h>
#include <linux/videodev2.h>
#include <stdio.h>
#include <string.h>

#define OURS "gpudirectsrc address=v4l2://" CARD
#define SMALL "width=320,height=180"
#define THEIRS "v4l2src device=" CARD

/* The second picture that comes. */
static struct picture take(const gchar *source, const gchar *rest)
{
    struct picture picture;
    gchar *text;
    gboolean taken = card_take(source, rest, 1, 1, &picture, &text);

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
    g_auto(Picture) ours = take(OURS, yuv), own = take(OURS, rgb);
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
    g_auto(Picture) p3 = take(OURS, "video/x-raw,format=UYVY," SMALL);
    GstVideoInfo info;
    check(gst_video_info_from_caps(&info, p3.caps), "no video info");
    check(info.colorimetry.primaries == GST_VIDEO_COLOR_PRIMARIES_SMPTERP431 &&
              info.colorimetry.matrix == GST_VIDEO_COLOR_MATRIX_BT709,
          "DCI-P3 is %s", picture_field(&p3, "colorimetry"));
    check(info.chroma_site == GST_VIDEO_CHROMA_SITE_NONE, "the chroma site is %s",
          picture_field(&p3, "chroma-site"));

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
        g_auto(Picture) ours = take(OURS, "video/x-raw,format=UYVY," SMALL);
        g_auto(Picture) theirs = take(THEIRS, "video/x-raw,format=UYVY," SMALL);
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
    }
    card_set("Colorspace", 2);

    /* What the driver has not is not negotiated. */
    struct picture none;
    g_autofree gchar *text = NULL;
    check(!card_take(OURS, "video/x-raw,format=UYVY," SMALL ",colorimetry=bt2020", 0, 1, &none,
                     &text),
          "sRGB as BT.2020");
}

/* --- fields ------------------------------------------------------------------------------- */

/* Its caps are these, among other fields. */
static void check_caps(const struct picture *picture, const gchar *wanted)
{
    g_autofree gchar *text = gst_caps_to_string(picture->caps);
    g_autoptr(GstCaps) caps = gst_caps_from_string(wanted);

    check(gst_caps_is_subset(picture->caps, caps), "%s where %s is right", text, wanted);
}

static void check_picture(const struct picture *picture, const gchar *caps, guint flags)
{
    const guint all = GST_VIDEO_BUFFER_FLAG_INTERLACED | GST_VIDEO_BUFFER_FLAG_TFF |
                      GST_VIDEO_BUFFER_FLAG_ONEFIELD;
    g_autofree gchar *text = gst_caps_to_string(picture->caps);

    g_print("  %s, flags %x\n", text, picture->flags & all);
    check_caps(picture, caps);
    check((picture->flags & all) == flags, "flags %x where %x is right", picture->flags & all,
          flags);
}

static void test_fields(void)
{
    card_select(CARD_TV);
    card_set_standard(V4L2_STD_PAL);
    g_auto(Picture) pal = take(OURS, "video/x-raw,format=UYVY");
    check_picture(&pal,
                  "video/x-raw,width=720,height=576,interlace-mode=interleaved,"
                  "field-order=top-field-first,framerate=25/1,pixel-aspect-ratio=59/54",
                  GST_VIDEO_BUFFER_FLAG_INTERLACED | GST_VIDEO_BUFFER_FLAG_TFF);

    g_auto(Picture) alternate = take(OURS, "video/x-raw(format:Interlaced),format=UYVY");
    guint field = alternate.flags & GST_VIDEO_BUFFER_FLAG_TOP_FIELD;
    check_picture(&alternate,
                  "video/x-raw(format:Interlaced),width=720,height=576,"
                  "interlace-mode=alternate",
                  GST_VIDEO_BUFFER_FLAG_INTERLACED | field);
    check(field & GST_VIDEO_BUFFER_FLAG_ONEFIELD, "no field");
    check(g_bytes_get_size(alternate.bytes) == 720 * 288 * 2,
          "%" G_GSIZE_FORMAT " bytes of a field", g_bytes_get_size(alternate.bytes));

    card_set_standard(V4L2_STD_NTSC_M);
    g_auto(Picture) ntsc = take(OURS, "video/x-raw,format=UYVY");
    check_picture(&ntsc,
                  "video/x-raw,width=720,height=480,interlace-mode=interleaved,"
                  "field-order=bottom-field-first,framerate=30000/1001,pixel-aspect-ratio=10/11",
                  GST_VIDEO_BUFFER_FLAG_INTERLACED);

    struct picture none;
    g_autofree gchar *text = NULL;
    check(
        !card_take(OURS, "video/x-raw,format=UYVY,interlace-mode=progressive", 0, 1, &none, &text),
        "interlaced pictures as progressive ones");
    card_set_standard(V4L2_STD_PAL);
    card_select(CARD_WEBCAM);
}

static void test_rates(void)
{
    static const gchar *const never[] = {"7/1", "13/2", "30000/1001"};

    card_select(CARD_WEBCAM);
    for (guint i = 0; i < G_N_ELEMENTS(never); i++) {
        g_autofree gchar *rest =
            g_strdup_printf("video/x-raw,format=UYVY," SMALL ",framerate=%s", never[i]);
        g_autofree gchar *text = NULL;
        g_auto(Picture) picture;
        if (card_take(OURS, rest, 0, 1, &picture, &text)) {
            g_autofree gchar *wanted = g_strdup_printf("video/x-raw,framerate=%s", never[i]);
            check_caps(&picture, wanted);
        } else {
            g_print("  %s: %s\n", never[i], text);
        }
    }
}

/* --- another signal ------------------------------------------------------------------------ */

static GstElement *pipeline, *src;
static struct {
    GMutex lock;
    guint pictures, width, back, discont;
    GstClockTime last;
} live;

static void on_live(GstElement *sink, GstBuffer *buffer, GstPad *pad, gpointer user)
{
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(pad);
    gint width = 0;

    gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", &width);
    g_mutex_lock(&live.lock);
    live.pictures++;
    live.width = (guint)width;
    if (GST_CLOCK_TIME_IS_VALID(live.last) && GST_BUFFER_PTS(buffer) <= live.last)
        live.back++;
    live.discont += GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT);
    live.last = GST_BUFFER_PTS(buffer);
    g_mutex_unlock(&live.lock);
}

/* That many pictures more, the last of them of this width (0: any). */
static void await(guint more, guint width)
{
    gint64 end = g_get_monotonic_time() + 60 * G_TIME_SPAN_SECOND;

    g_mutex_lock(&live.lock);
    guint wanted = live.pictures + more;
    while (live.pictures < wanted || (width && live.width != width)) {
        check(g_get_monotonic_time() < end, "no more pictures of width %u after %u of %u", width,
              live.pictures, live.width);
        g_mutex_unlock(&live.lock);
        g_usleep(5000);
        g_mutex_lock(&live.lock);
    }
    g_mutex_unlock(&live.lock);
}

static void await_signal(gboolean wanted)
{
    gint64 end = g_get_monotonic_time() + 60 * G_TIME_SPAN_SECOND;
    gboolean present = !wanted;

    while (present != wanted) {
        check(g_get_monotonic_time() < end, "signal stays %s", wanted ? "away" : "there");
        g_usleep(20000);
        g_object_get(src, "signal", &present, NULL);
    }
}

/* No last sample: a picture that is held keeps the card's node open. */
static void play(void)
{
    pipeline = launch(OURS " name=src ! video/x-raw,format=UYVY ! fakesink name=sink sync=false "
                           "signal-handoffs=true enable-last-sample=false");
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");

    memset(&live, 0, sizeof(live));
    live.last = GST_CLOCK_TIME_NONE;
    g_signal_connect(sink, "handoff", G_CALLBACK(on_live), NULL);
    src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
}

static void stop(void)
{
    GstMessage *message =
        gst_bus_pop_filtered(GST_ELEMENT_BUS(pipeline), GST_MESSAGE_ERROR | GST_MESSAGE_EOS);

    check(!message, "the pipeline ended");
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(src);
    gst_object_unref(pipeline);
}

/* vivid's list of timings: 2 is 720x480p59.94, 7 is 1280x720p30, 12 is 1080p30. */
static void test_signal(void)
{
    card_select(CARD_HDMI);
    card_set("DV Timings Signal Mode", 4);
    card_set("DV Timings", 7);
    play();
    await(3, 1280);
    for (guint i = 0; i < 3; i++) {
        card_set("DV Timings", 12);
        await(3, 1920);
        card_set("DV Timings", 7);
        await(3, 1280);
    }
    for (gint mode = 1; mode <= 3; mode++) {
        card_set("DV Timings Signal Mode", mode);
        await_signal(FALSE);
        card_set("DV Timings Signal Mode", 4);
        await_signal(TRUE);
        await(3, 1280);
    }
    check(live.back == 0, "PTS went back %u times", live.back);
    stop();
    card_select(CARD_WEBCAM);
}

static void test_pause(void)
{
    play();
    card_select(CARD_WEBCAM);
    await(5, 0);
    for (guint i = 0; i < 3; i++) {
        gst_element_set_state(pipeline, GST_STATE_PAUSED);
        g_usleep(500000);
        guint disconts = live.discont;
        gst_element_set_state(pipeline, GST_STATE_PLAYING);
        await(5, 0);
        check(live.discont > disconts, "no DISCONT after a pause");
    }
    check(live.back == 0, "PTS went back %u times", live.back);
    stop();
}

static void test_settings(void)
{
    struct picture none;
    gchar *text;

    card_select(CARD_HDMI);
    card_set("DV Timings Signal Mode", 4);
    card_set("DV Timings", 7);
    play();
    for (guint i = 0; i < 3; i++) {
        await(3, 1280);
        g_object_set(src, "input", "1", NULL);
        await(3, 720);
        g_object_set(src, "input", "2", NULL);
    }
    await(3, 1280);
    stop();
    card_select(CARD_WEBCAM);

    g_auto(Picture) bars =
        take(OURS " extra-controls=c,test_pattern=0", "video/x-raw,format=BGRx," SMALL);
    g_auto(Picture) black = take(OURS " extra-controls=c,test_pattern=5,osd_text_mode=(string)None",
                                 "video/x-raw,format=BGRx," SMALL);
    const guint8 *data = g_bytes_get_data(black.bytes, NULL);
    check(data[0] < 3 && data[1] < 3 && data[2] < 3, "black is %d %d %d", data[0], data[1],
          data[2]);
    data = g_bytes_get_data(bars.bytes, NULL);
    check(data[1] > 100, "a bar is %d %d %d", data[0], data[1], data[2]);
    g_auto(Picture) alpha = take(OURS, "video/x-raw,format=BGRA," SMALL);
    data = g_bytes_get_data(alpha.bytes, NULL);
    check(data[3] == 255, "alpha is %d", data[3]);
    check(!card_take(OURS " extra-controls=c,brightness=999", "identity", 0, 1, &none, &text) &&
              strstr(text, "takes 0 to 255"),
          "%s", text);
    g_free(text);
    check(!card_take(OURS " input=SDI", "identity", 0, 1, &none, &text) && strstr(text, "2 \"HDMI"),
          "%s", text);
    g_free(text);
    card_set("Test Pattern", 0);
}

/* --- the card itself ---------------------------------------------------------------------- */

static void await_element(const gchar *name)
{
    gboolean found = FALSE;

    while (!found) {
        g_autoptr(GstMessage) message =
            await_message(pipeline, GST_MESSAGE_ELEMENT | GST_MESSAGE_ERROR | GST_MESSAGE_EOS);
        check(message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_ELEMENT, "no %s", name);
        found = gst_message_has_name(message, name);
    }
}

static gboolean has_open_node(void)
{
    g_autoptr(GDir) fds = g_dir_open("/proc/self/fd", 0, NULL);
    gboolean found = FALSE;

    check(fds != NULL, "no /proc");
    for (const gchar *name; !found && (name = g_dir_read_name(fds));) {
        g_autofree gchar *path = g_build_filename("/proc/self/fd", name, NULL);
        g_autofree gchar *target = g_file_read_link(path, NULL);
        found = target && g_str_has_prefix(target, CARD);
    }
    return found;
}

/* The word that the card is lost comes before the element has let go of it; until then its number
 * is taken, and the driver would give it another one. */
static void await_closed_node(void)
{
    gint64 deadline = g_get_monotonic_time() + 30 * G_TIME_SPAN_SECOND;

    while (has_open_node()) {
        check(g_get_monotonic_time() < deadline, "the lost card stays open");
        g_usleep(1000);
    }
}

/* The driver lets go of its card, or takes it again: the node disappears, and appears. */
static void bind_driver(gboolean bound)
{
    const gchar *path =
        bound ? "/sys/bus/platform/drivers/vivid/bind" : "/sys/bus/platform/drivers/vivid/unbind";
    FILE *file = fopen(path, "w");

    check(file && fputs("vivid.0", file) >= 0 && fclose(file) == 0, "%s: %s", path,
          g_strerror(errno));
    check(g_file_test(CARD, G_FILE_TEST_EXISTS) == bound, "the node is%s there",
          bound ? " not" : "");
}

static void test_unplug(void)
{
    card_select(CARD_WEBCAM);
    play();
    await(3, 0);
    for (guint i = 0; i < 3; i++) {
        bind_driver(FALSE);
        await_element("gpudirect-card-lost");
        await_signal(FALSE);
        await_closed_node();
        bind_driver(TRUE);
        await_element("gpudirect-card-back");
        await(3, 0);
    }
    /* Here it is back as soon as everybody has let go of it, without a word. */
    for (guint i = 0; i < 3; i++) {
        card_set("Disconnect", 1);
        await_element("gpudirect-card-lost");
        await_element("gpudirect-card-back");
        await(3, 0);
    }
    check(live.back == 0, "PTS went back %u times", live.back);
    stop();
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

int main(int argc, char **argv)
{
    if (argc == 2) {
        gst_init(NULL, NULL);
        for (guint i = 0; i < G_N_ELEMENTS(tests); i++) {
            if (strcmp(argv[1], tests[i].name) != 0)
                continue;
            g_print("-- %s\n", argv[1]);
            tests[i].run();
            return 0;
        }
        check(FALSE, "there is no part %s", argv[1]);
    }
    for (guint i = 0; i < G_N_ELEMENTS(tests); i++)
        if ((argc == 1 || g_strv_contains((const gchar *const *)argv + 1, tests[i].name)) &&
            run_apart(argv[0], tests[i].name) != 0)
            return 1;
    g_print("ok\n");
    return 0;
}
