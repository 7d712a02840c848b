/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* v4l2src writes into the buffers that gpudirectsink gives it, on the kernel's test card: straight
 * into the ring by addresses and, of a kernel that has udmabuf, by dma-bufs; else into dma-bufs of
 * vgem, from where each picture is copied once. Run in the guest. What arrives is what v4l2src
 * shows by itself, byte for byte. */
#include "card.h"

#include <gst/video/video.h>
#include <string.h>

#define FILTER "video/x-raw,format=UYVY,width=640,height=360"
#define ADDRESS "import"

static GBytes *wanted; /* the card's picture, which stands still */

/* --- both ends ---------------------------------------------------------------------------- */

static GstElement *launch(const gchar *format, ...) G_GNUC_PRINTF(1, 2);
static GstElement *launch(const gchar *format, ...)
{
    va_list args;
    GError *error = NULL;

    va_start(args, format);
    g_autofree gchar *text = g_strdup_vprintf(format, args);
    va_end(args);
    GstElement *pipeline = gst_parse_launch(text, &error);
    check(pipeline && !error, "%s: %s", text, error ? error->message : "");
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    return pipeline;
}

/* Ends it as Ctrl-C does (gst-launch -e), and says what was counted. */
static GstStructure *finish(GstElement *pipeline)
{
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    GstStructure *stats;

    gst_element_send_event(pipeline, gst_event_new_eos());
    g_autoptr(GstMessage) message =
        gst_bus_timed_pop_filtered(bus, CARD_WAIT, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    check(message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS, "it does not end");
    g_object_get(sink, "stats", &stats, NULL);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(pipeline);
    return stats;
}

static guint64 number(const GstStructure *stats, const gchar *field)
{
    guint64 value = G_MAXUINT64;

    check(gst_structure_get_uint64(stats, field, &value), "no %s", field);
    return value;
}

/* Takes so many pictures; each is the card's. */
static void receive(guint count)
{
    struct picture picture;
    gchar *text;

    for (guint i = 0; i < count; i += 10) {
        gboolean taken =
            card_take("gpudirectsrc address=" ADDRESS, "identity", 10, &picture, &text);
        check(taken, "nothing arrives: %s", text);
        check(g_bytes_equal(picture.bytes, wanted), "picture %u is another one", i + 10);
        picture_clear(&picture);
        g_free(text);
    }
}

static GstElement *send_by(const gchar *mode)
{
    return launch("v4l2src device=" CARD " io-mode=%s ! " FILTER " ! gpudirectsink name=sink "
                  "address=" ADDRESS,
                  mode);
}

/* --- scenes ------------------------------------------------------------------------------- */

static void say(const gchar *what)
{
    g_print("%s\n", what);
}

static void by_address(void)
{
    say("by addresses: no copy");
    GstElement *pipeline = send_by("userptr");
    receive(30);
    g_autoptr(GstStructure) stats = finish(pipeline);
    check(number(stats, "copies-cpu") == 0, "%" G_GUINT64_FORMAT " copies",
          number(stats, "copies-cpu"));
    check(number(stats, "delivered") >= 30, "few were delivered");
}

/* Receivers cannot map vgem's memory, which causes a warning. */
static void expect_words(GstBus *bus)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GstMessage) message = gst_bus_timed_pop_filtered(bus, CARD_WAIT, GST_MESSAGE_WARNING);

    check(message != NULL, "there is no warning that pictures are copied");
    gst_message_parse_warning(message, &error, NULL);
    check(strstr(error->message, "copied once") != NULL, "%s", error->message);
}

static void by_dmabuf(gboolean in_place)
{
    say(in_place ? "by dma-bufs of the ring: no copy; no receiver at first, then late ones"
                 : "by dma-bufs of vgem: one copy, with a warning; late receivers");
    GstElement *pipeline = send_by("dmabuf-import");
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    if (!in_place)
        expect_words(bus);
    receive(30);
    GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_WARNING);
    check(!message, "there is a warning");
    g_autoptr(GstStructure) stats = finish(pipeline);
    guint64 copies = number(stats, "copies-cpu"), frames = number(stats, "frames");
    guint64 delivered = number(stats, "delivered"), connects = number(stats, "connects");
    g_print("%" G_GUINT64_FORMAT " frames, %" G_GUINT64_FORMAT " delivered, %" G_GUINT64_FORMAT
            " copied\n",
            frames, delivered, copies);
    /* One may be made for a receiver that is gone when its picture is due. */
    check(in_place ? copies == 0 : copies >= delivered && copies <= frames + connects,
          "%" G_GUINT64_FORMAT " copies of %" G_GUINT64_FORMAT " frames", copies, frames);
    check(delivered >= 30, "few were delivered");
    check(connects == 3, "%" G_GUINT64_FORMAT " came", connects);
}

/* Again, and again: nothing of one time is left for the next. */
static void restarted(void)
{
    say("stopped and started");
    for (guint i = 0; i < 3; i++) {
        GstElement *pipeline = send_by("dmabuf-import");
        receive(10);
        gst_structure_free(finish(pipeline));
    }
}

static void without_receiver(void)
{
    say("without a receiver");
    g_autoptr(GstElement) pipeline =
        launch("v4l2src device=" CARD " io-mode=dmabuf-import num-buffers=30 ! " FILTER
               " ! gpudirectsink name=sink address=" ADDRESS);
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    g_autoptr(GstMessage) message =
        gst_bus_timed_pop_filtered(bus, CARD_WAIT, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    check(message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS, "it stops");
    gst_element_set_state(pipeline, GST_STATE_NULL);
}

int main(int argc, char **argv)
{
    gboolean in_place = g_file_test("/dev/udmabuf", G_FILE_TEST_EXISTS);
    struct picture picture;
    gchar *text;

    check(in_place || argc < 2, "this kernel has no udmabuf");
    gst_init(&argc, &argv);
    card_select(CARD_WEBCAM);
    card_set("Test Pattern", 0);
    card_set("OSD Text Mode", 2);
    check(card_take("v4l2src device=" CARD " io-mode=mmap", FILTER, 3, &picture, &text),
          "v4l2src shows nothing: %s", text);
    wanted = g_bytes_ref(picture.bytes);
    picture_clear(&picture);
    by_address();
    by_dmabuf(in_place);
    restarted();
    without_receiver();
    g_bytes_unref(wanted);
    say("ok");
    return 0;
}
