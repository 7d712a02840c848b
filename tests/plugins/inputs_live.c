/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What happens to a card while a pipeline shows it. */
#include "inputs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- another signal ------------------------------------------------------------------------ */

struct live {
    GMutex lock;
    GCond cond;
    guint pictures, width, back, discont;
    GstClockTime last;
};

static void on_live(GstElement *sink, GstBuffer *buffer, GstPad *pad, struct live *live)
{
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(pad);
    gint width = 0;

    gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", &width);
    g_mutex_lock(&live->lock);
    live->pictures++;
    live->width = (guint)width;
    if (GST_CLOCK_TIME_IS_VALID(live->last) && GST_BUFFER_PTS(buffer) <= live->last)
        live->back++;
    live->discont += GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_DISCONT);
    live->last = GST_BUFFER_PTS(buffer);
    g_cond_broadcast(&live->cond);
    g_mutex_unlock(&live->lock);
}

/* That many pictures more, the last of them of this width (0: any). */
static void await(struct live *live, guint more, guint width)
{
    gint64 end = g_get_monotonic_time() + 60 * G_TIME_SPAN_SECOND;

    g_mutex_lock(&live->lock);
    guint wanted = live->pictures + more;
    while (live->pictures < wanted || (width && live->width != width))
        check(g_cond_wait_until(&live->cond, &live->lock, end),
              "no more pictures of width %u after %u of %u", width, live->pictures, live->width);
    g_mutex_unlock(&live->lock);
}

static void await_signal(GstElement *src, gboolean wanted)
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
static GstElement *play(struct live *live, GstElement **src)
{
    GstElement *pipeline =
        gst_parse_launch(OURS " name=src ! video/x-raw,format=UYVY ! fakesink name=sink sync=false "
                              "signal-handoffs=true enable-last-sample=false",
                         NULL);
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");

    *live = (struct live){.last = GST_CLOCK_TIME_NONE};
    g_mutex_init(&live->lock);
    g_cond_init(&live->cond);
    g_signal_connect(sink, "handoff", G_CALLBACK(on_live), live);
    *src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    return pipeline;
}

static void stop(GstElement *pipeline, GstElement *src)
{
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR | GST_MESSAGE_EOS);

    check(!message, "the pipeline ended");
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(src);
    gst_object_unref(pipeline);
}

/* vivid's list of timings: 2 is 720x480p59.94, 7 is 1280x720p30, 12 is 1080p30. */
void test_signal(void)
{
    struct live live;
    GstElement *src;

    card_select(CARD_HDMI);
    card_set("DV Timings Signal Mode", 4);
    card_set("DV Timings", 7);
    GstElement *pipeline = play(&live, &src);
    await(&live, 3, 1280);
    for (guint i = 0; i < 3; i++) {
        card_set("DV Timings", 12);
        await(&live, 3, 1920);
        card_set("DV Timings", 7);
        await(&live, 3, 1280);
    }
    for (gint mode = 1; mode <= 3; mode++) {
        card_set("DV Timings Signal Mode", mode);
        await_signal(src, FALSE);
        card_set("DV Timings Signal Mode", 4);
        await_signal(src, TRUE);
        await(&live, 3, 1280);
    }
    check(live.back == 0, "PTS went back %u times", live.back);
    stop(pipeline, src);
    card_select(CARD_WEBCAM);
}

void test_pause(void)
{
    struct live live;
    GstElement *src;
    GstElement *pipeline = play(&live, &src);

    card_select(CARD_WEBCAM);
    await(&live, 5, 0);
    for (guint i = 0; i < 3; i++) {
        gst_element_set_state(pipeline, GST_STATE_PAUSED);
        g_usleep(500000);
        guint disconts = live.discont;
        gst_element_set_state(pipeline, GST_STATE_PLAYING);
        await(&live, 5, 0);
        check(live.discont > disconts, "no DISCONT after a pause");
    }
    check(live.back == 0, "PTS went back %u times", live.back);
    stop(pipeline, src);
}

/* --- what the card is set to -------------------------------------------------------------- */

void test_settings(void)
{
    struct live live;
    GstElement *src;
    struct picture none;
    gchar *text;

    card_select(CARD_HDMI);
    card_set("DV Timings Signal Mode", 4);
    card_set("DV Timings", 7);
    GstElement *pipeline = play(&live, &src);
    for (guint i = 0; i < 3; i++) {
        await(&live, 3, 1280);
        g_object_set(src, "input", "1", NULL);
        await(&live, 3, 720);
        g_object_set(src, "input", "2", NULL);
    }
    await(&live, 3, 1280);
    stop(pipeline, src);
    card_select(CARD_WEBCAM);

    struct picture bars =
        take(OURS " extra-controls=c,test_pattern=0", "video/x-raw,format=BGRx," SMALL);
    struct picture black = take(OURS " extra-controls=c,test_pattern=5,osd_text_mode=(string)None",
                                "video/x-raw,format=BGRx," SMALL);
    const guint8 *data = g_bytes_get_data(black.bytes, NULL);
    check(data[0] < 3 && data[1] < 3 && data[2] < 3, "black is %d %d %d", data[0], data[1],
          data[2]);
    data = g_bytes_get_data(bars.bytes, NULL);
    check(data[1] > 100, "a bar is %d %d %d", data[0], data[1], data[2]);
    picture_clear(&bars);
    picture_clear(&black);
    struct picture alpha = take(OURS, "video/x-raw,format=BGRA," SMALL);
    data = g_bytes_get_data(alpha.bytes, NULL);
    check(data[3] == 255, "alpha is %d", data[3]);
    picture_clear(&alpha);
    check(!card_take(OURS " extra-controls=c,brightness=999", "identity", 1, &none, &text) &&
              strstr(text, "takes 0 to 255"),
          "%s", text);
    g_free(text);
    check(!card_take(OURS " input=SDI", "identity", 1, &none, &text) && strstr(text, "2 \"HDMI"),
          "%s", text);
    g_free(text);
    card_set("Test Pattern", 0);
}

/* --- the card itself ---------------------------------------------------------------------- */

static void await_element(GstElement *pipeline, const gchar *name)
{
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    gboolean found = FALSE;

    while (!found) {
        g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(
            bus, CARD_WAIT, GST_MESSAGE_ELEMENT | GST_MESSAGE_ERROR | GST_MESSAGE_EOS);
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

void test_unplug(void)
{
    struct live live;
    GstElement *src;

    card_select(CARD_WEBCAM);
    GstElement *pipeline = play(&live, &src);
    await(&live, 3, 0);
    for (guint i = 0; i < 3; i++) {
        bind_driver(FALSE);
        await_element(pipeline, "gpudirect-card-lost");
        await_signal(src, FALSE);
        await_closed_node();
        bind_driver(TRUE);
        await_element(pipeline, "gpudirect-card-back");
        await(&live, 3, 0);
    }
    /* Here it is back as soon as everybody has let go of it, without a word. */
    for (guint i = 0; i < 3; i++) {
        card_set("Disconnect", 1);
        await_element(pipeline, "gpudirect-card-lost");
        await_element(pipeline, "gpudirect-card-back");
        await(&live, 3, 0);
    }
    check(live.back == 0, "PTS went back %u times", live.back);
    stop(pipeline, src);
}
