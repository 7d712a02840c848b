/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc on a capture card whose driver is in this program, as the core is: `cards_test lost`
 * where it is unplugged and comes back, alone and with a link behind it; `cards_test set` what is
 * set of it, its controls and its input. */
#include "capture/internal.h"
#include "base/plugin.h"
#include "sink/sink.h"
#include "src/src.h"
#include "support/check.h"
#include "support/fake_driver.h"
#include "support/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <gst/gst.h>
#include <unistd.h>

#define WAIT (60 * GST_SECOND)
#define CAPS "video/x-raw,format=UYVY,width=320,height=180"
#define SHOWN "fakesink name=sink signal-handoffs=true sync=false"

/* --- the card ----------------------------------------------------------------------------- */

static struct gpud_v4l2_system card_system;
static char folder[] = "/tmp/gpudirect-cards-XXXXXX";
static gchar *nodes[2]; /* where the card may be */

static struct {
    struct fake_driver driver;
    GThread *signal; /* which gives it frames */
    gint over;       /* atomic */
} card;

/* The linker puts it in the place of the core's, which has the kernel behind it. */
__typeof__(gpud_v4l2_open) __real_gpud_v4l2_open, __wrap_gpud_v4l2_open;
enum gpud_status __wrap_gpud_v4l2_open(struct gpud_v4l2 *node, struct gpud_error *error)
{
    node->system = &card_system;
    return __real_gpud_v4l2_open(node, error);
}

static gpointer run_signal(gpointer data)
{
    for (guint32 i = 0; !g_atomic_int_get(&card.over); i++) {
        fake_frame(&card.driver, i, (unsigned char)i);
        g_usleep(10000);
    }
    return NULL;
}

static void make_node(const gchar *path)
{
    int fd = open(path, O_CREAT | O_EXCL | O_CLOEXEC | O_WRONLY, 0600);

    CHECK(fd >= 0 && close(fd) == 0, "%s", path);
}

/* The driver is as it is given beside the usual. Frames come by themselves. */
static void card_begin(struct fake_driver driver)
{
    card.over = FALSE;
    card.driver = driver;
    card.driver.node = nodes[0];
    card.driver.place = "PCI:0000:03:00.0";
    card.driver.stamp = V4L2_BUF_FLAG_TIMESTAMP_UNKNOWN;
    fake_install(&card.driver);
    make_node(nodes[0]);
    card.signal = g_thread_new("signal", run_signal, NULL);
}

static void card_end(void)
{
    g_atomic_int_set(&card.over, TRUE);
    g_thread_join(card.signal);
    fake_remove(&card.driver);
    unlink(nodes[0]);
    unlink(nodes[1]);
}

static void card_unplug(void)
{
    unlink(card.driver.node);
    fake_unplug(&card.driver, true);
}

/* At another node than before. */
static void card_plug_in(void)
{
    pthread_mutex_lock(&card.driver.lock);
    card.driver.node = card.driver.node == nodes[0] ? nodes[1] : nodes[0];
    pthread_mutex_unlock(&card.driver.lock);
    fake_unplug(&card.driver, false);
    make_node(card.driver.node);
}

/* --- pipelines ---------------------------------------------------------------------------- */

struct line {
    GstElement *pipeline, *src;
    GstBus *bus;
    gint pictures, width; /* atomic: the latter of the last one */
    guint back;           /* times that are before the last one's */
    GstClockTime last;
};
static struct line shown; /* of most cases */

static void on_picture(GstElement *sink, GstBuffer *buffer, GstPad *pad, struct line *line)
{
    g_autoptr(GstCaps) caps = gst_pad_get_current_caps(pad);
    gint width = 0;

    if (GST_BUFFER_PTS_IS_VALID(buffer)) {
        line->back += GST_CLOCK_TIME_IS_VALID(line->last) && GST_BUFFER_PTS(buffer) < line->last;
        line->last = GST_BUFFER_PTS(buffer);
    }
    gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", &width);
    g_atomic_int_set(&line->width, width);
    g_atomic_int_inc(&line->pictures);
}

static void await_pictures(struct line *line, guint more)
{
    guint wanted = g_atomic_int_get(&line->pictures) + more;

    PEER_UNTIL("pictures", 60000, (guint)g_atomic_int_get(&line->pictures) >= wanted);
}

static void await_width(struct line *line, gint width)
{
    PEER_UNTIL("pictures of that width", 60000, g_atomic_int_get(&line->width) == width);
}

/* Plays; "src" is the source of interest, "sink" what shows its pictures. */
static void line_begin(struct line *line, const gchar *launch)
{
    g_autoptr(GError) error = NULL;

    memset(line, 0, sizeof(*line));
    line->last = GST_CLOCK_TIME_NONE;
    line->pipeline = gst_parse_launch(launch, &error);
    CHECK(line->pipeline && !error, "%s: %s", launch, error ? error->message : "");
    line->src = gst_bin_get_by_name(GST_BIN(line->pipeline), "src");
    line->bus = GST_ELEMENT_BUS(line->pipeline);
    g_autoptr(GstElement) sink = gst_bin_get_by_name(GST_BIN(line->pipeline), "sink");
    if (sink)
        g_signal_connect(sink, "handoff", G_CALLBACK(on_picture), line);
    gst_element_set_state(line->pipeline, GST_STATE_PLAYING);
}

static void line_begin_card(struct line *line, const gchar *properties, const gchar *rest)
{
    g_autofree gchar *launch = g_strdup_printf(
        "gpudirectsrc name=src address=v4l2://%s %s ! " CAPS " ! %s", nodes[0], properties, rest);

    line_begin(line, launch);
}

static void line_finish(struct line *line)
{
    gst_element_set_state(line->pipeline, GST_STATE_NULL);
    gst_object_unref(line->src);
    gst_object_unref(line->pipeline);
}

static GstMessage *await_message(struct line *line, GstMessageType type, const gchar *name)
{
    for (;;) {
        GstMessage *message =
            gst_bus_timed_pop_filtered(line->bus, WAIT, GST_MESSAGE_ERROR | GST_MESSAGE_EOS | type);
        CHECK(message, "no %s", name ? name : gst_message_type_get_name(type));
        if (GST_MESSAGE_TYPE(message) == type && (!name || gst_message_has_name(message, name)))
            return message;
        CHECK(GST_MESSAGE_TYPE(message) == type, "%s comes, and not %s",
              GST_MESSAGE_TYPE_NAME(message), name ? name : gst_message_type_get_name(type));
        gst_message_unref(message);
    }
}

static void expect_message(struct line *line, const gchar *name)
{
    gst_message_unref(await_message(line, GST_MESSAGE_ELEMENT, name));
}

static void expect_signal(struct line *line, gboolean wanted, const gchar *why)
{
    g_autoptr(GstMessage) message = await_message(line, GST_MESSAGE_ELEMENT, "gpudirect-signal");
    const GstStructure *said = gst_message_get_structure(message);
    gboolean signal = !wanted;

    gst_structure_get_boolean(said, "signal", &signal);
    CHECK(signal == wanted && strstr(gst_structure_get_string(said, "reason"), why),
          "the signal is %d: %s", signal, gst_structure_get_string(said, "reason"));
}

static guint64 line_stat(struct line *line, const gchar *name)
{
    g_autoptr(GstStructure) stats = NULL;
    guint64 value = G_MAXUINT64;

    g_object_get(line->src, "stats", &stats, NULL);
    CHECK(gst_structure_get_uint64(stats, name, &value), "no %s", name);
    return value;
}

static void nothing_ended(struct line *line)
{
    GstMessage *message = gst_bus_pop_filtered(line->bus, GST_MESSAGE_ERROR | GST_MESSAGE_EOS);

    CHECK(!message, "%s", GST_MESSAGE_TYPE_NAME(message));
}

static void expect_warning(struct line *line, const gchar *text)
{
    g_autoptr(GstMessage) message = await_message(line, GST_MESSAGE_WARNING, NULL);
    g_autoptr(GError) error = NULL;

    gst_message_parse_warning(message, &error, NULL);
    CHECK(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_SETTINGS) &&
              strstr(error->message, text),
          "%s", error->message);
}

/* The next message that ends a pipeline, which is this error. */
static void expect_error(struct line *line, gint code, const gchar *text)
{
    g_autoptr(GstMessage) message =
        gst_bus_timed_pop_filtered(line->bus, WAIT, GST_MESSAGE_ERROR | GST_MESSAGE_EOS);
    g_autoptr(GError) error = NULL;

    CHECK(message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR, "no error");
    gst_message_parse_error(message, &error, NULL);
    CHECK((code < 0 || g_error_matches(error, GST_RESOURCE_ERROR, code)) &&
              strstr(error->message, text),
          "%s", error->message);
}

/* The card cannot be opened with these properties, and an error says so. */
static void expect_refusal(const gchar *properties, const gchar *text)
{
    line_begin_card(&shown, properties, SHOWN);
    expect_error(&shown, -1, text);
    line_finish(&shown);
}

/* --- a card that is lost ------------------------------------------------------------------- */

static void test_wait(void)
{
    card_begin((struct fake_driver){0});
    line_begin_card(&shown, "", SHOWN);
    expect_signal(&shown, TRUE, "");
    for (guint i = 1; i <= 5; i++) {
        await_pictures(&shown, 3);
        card_unplug();
        expect_signal(&shown, FALSE, "unplugged");
        gst_message_unref(await_message(&shown, GST_MESSAGE_WARNING, NULL));
        CHECK(line_stat(&shown, "disconnects") == i, "%u", i);
        card_plug_in();
        expect_message(&shown, "gpudirect-card-back");
        expect_signal(&shown, TRUE, "");
        await_pictures(&shown, 3);
        CHECK(line_stat(&shown, "reconnects") == i, "%u", i);
    }
    CHECK(shown.back == 0, "PTS went back");

    /* Stopped while it waits. */
    card_unplug();
    expect_message(&shown, "gpudirect-card-lost");
    nothing_ended(&shown);
    line_finish(&shown);
    card_end();
}

static void test_stand_in(const gchar *properties)
{
    card_begin((struct fake_driver){0});
    line_begin_card(&shown, properties, SHOWN);
    for (guint i = 0; i < 2; i++) {
        expect_signal(&shown, TRUE, "");
        card_unplug();
        expect_signal(&shown, FALSE, "unplugged");
        expect_message(&shown, "gpudirect-card-lost");
        guint64 before = line_stat(&shown, "stood-in");
        await_pictures(&shown, 5);
        CHECK(line_stat(&shown, "stood-in") >= before + 4, "they are not stand-ins");
        card_plug_in();
        expect_message(&shown, "gpudirect-card-back");
    }
    expect_signal(&shown, TRUE, "");
    CHECK(shown.back == 0, "PTS went back");
    nothing_ended(&shown);
    line_finish(&shown);
    card_end();
}

static void test_end(const gchar *properties, gboolean fails)
{
    card_begin((struct fake_driver){0});
    line_begin_card(&shown, properties, SHOWN);
    await_pictures(&shown, 3);
    card_unplug();
    if (fails)
        expect_error(&shown, GST_RESOURCE_ERROR_NOT_FOUND, "unplugged");
    else
        gst_message_unref(await_message(&shown, GST_MESSAGE_EOS, NULL));
    line_finish(&shown);
    card_end();
}

/* Receivers behind a link see a loss of signal, but no EOS, whatever happens to the pipeline. */
static void test_link(const gchar *properties, gboolean fails)
{
    struct line sender, receiver;

    card_begin((struct fake_driver){0});
    line_begin(&receiver, "gpudirectsrc name=src address=cards ! " SHOWN);
    line_begin_card(&sender, properties, "gpudirectsink address=cards sync=false");
    expect_signal(&receiver, TRUE, "");
    await_pictures(&receiver, 3);
    card_unplug();
    if (fails)
        expect_error(&sender, -1, "");
    expect_signal(&receiver, FALSE, "sends nothing");
    if (!fails) {
        card_plug_in();
        expect_signal(&receiver, TRUE, "");
        await_pictures(&receiver, 3);
    }
    nothing_ended(&receiver);
    line_finish(&sender);
    line_finish(&receiver);
    card_end();
}

/* --- what is set of it -------------------------------------------------------------------- */

static void set_controls(struct line *line, const gchar *text)
{
    g_autoptr(GstStructure) controls = gst_structure_from_string(text, NULL);

    CHECK(controls, "%s", text);
    g_object_set(line->src, "extra-controls", controls, NULL);
}

static void test_controls(void)
{
    const gint64 *now = card.driver.controls;

    card_begin((struct fake_driver){.has_controls = true});
    line_begin_card(
        &shown, "extra-controls=c,exposure-time-absolute=7,exposure-auto=1,brightness=10", SHOWN);
    await_pictures(&shown, 3);
    CHECK(now[FAKE_BRIGHTNESS] == 10 && now[FAKE_EXPOSURE] == 7, "%d, %d", (int)now[0],
          (int)now[FAKE_EXPOSURE]);
    set_controls(&shown, "c,brightness=100,long-one=(gint64)-99999999999,serial=abc,"
                         "exposure-auto=(string)\"Auto Mode\",bits=(bitmask)0x4");
    CHECK(now[FAKE_BRIGHTNESS] == 100 && now[FAKE_LONG] == -99999999999 && now[FAKE_AUTO] == 0 &&
              now[FAKE_BITS] == 4,
          "not set");
    CHECK(g_str_equal(card.driver.serial, "abc"), "%s", card.driver.serial);
    set_controls(&shown, "c,brightness=300");
    expect_warning(&shown, "takes 0 to 250 in steps of 5, not 300");
    set_controls(&shown, "c,contrast=1");
    expect_warning(&shown, "it has brightness");
    set_controls(&shown, "c,brightness=0.5");
    expect_warning(&shown, "brightness of extra-controls is neither a whole number nor a text");
    await_pictures(&shown, 3);
    nothing_ended(&shown);
    line_finish(&shown);
    expect_refusal("extra-controls=c,contrast=1", "it has brightness");
    card_end();
}

static void test_inputs(void)
{
    card_begin((struct fake_driver){
        .inputs = {"HDMI 0", "HDMI 1"}, .widths = {320, 640}, .digital = true, .tells = true});
    fake_signal(&card.driver, 320, 180, false, 0);
    g_autofree gchar *launch =
        g_strdup_printf("gpudirectsrc name=src address=v4l2://%s input=hdmi\\ 0 ! "
                        "video/x-raw,format=UYVY ! " SHOWN,
                        nodes[0]);
    expect_refusal("input=SDI", "it has 0 \"HDMI 0\", 1 \"HDMI 1\"");
    line_begin(&shown, launch);
    for (guint i = 0; i < 6; i++) {
        gchar *input;
        await_pictures(&shown, 3);
        await_width(&shown, i % 2 ? 640 : 320);
        g_object_get(shown.src, "input", &input, NULL);
        CHECK(g_str_equal(input, i % 2 ? "HDMI 1" : "HDMI 0"), "%s", input);
        g_free(input);
        g_object_set(shown.src, "input", i % 2 ? "0" : "HDMI 1", NULL);
        await_width(&shown, i % 2 ? 320 : 640);
    }
    g_object_set(shown.src, "input", "SDI", NULL);
    expect_warning(&shown, "no input \"SDI\"; it has 0 \"HDMI 0\", 1 \"HDMI 1\"");
    await_pictures(&shown, 3);

    /* It has the same input when it comes back. */
    g_object_set(shown.src, "input", "1", NULL);
    await_width(&shown, 640);
    card_unplug();
    expect_message(&shown, "gpudirect-card-lost");
    card.driver.input = 0;
    card_plug_in();
    expect_message(&shown, "gpudirect-card-back");
    CHECK(card.driver.input == 1, "the input is %d", card.driver.input);
    nothing_ended(&shown);
    line_finish(&shown);
    card_end();
}

/* --- what the card has -------------------------------------------------------------------- */

/* Opened in READY, where its caps are known; there it does not stream. */
static void test_ready(void)
{
    card_begin((struct fake_driver){0});
    line_begin_card(&shown, "", SHOWN);
    await_pictures(&shown, 3);
    for (guint i = 0; i < 3; i++) {
        gst_element_set_state(shown.pipeline, GST_STATE_READY);
        CHECK(!card.driver.streaming && card.driver.opened == 1, "it streams in READY");
        g_autoptr(GstPad) pad = gst_element_get_static_pad(shown.src, "src");
        g_autoptr(GstCaps) caps = gst_pad_query_caps(pad, NULL), own = gst_caps_from_string(CAPS);
        CHECK(gst_caps_can_intersect(caps, own) && !gst_caps_is_any(caps) &&
                  gst_structure_has_field(gst_caps_get_structure(caps, 0), "framerate"),
              "%s", gst_caps_to_string(caps));
        gst_element_set_state(shown.pipeline, GST_STATE_PLAYING);
        await_pictures(&shown, 3);
        CHECK(line_stat(&shown, "connects") == 1, "connects");
    }

    /* Unplugged and plugged in meanwhile. */
    gst_element_set_state(shown.pipeline, GST_STATE_READY);
    card_unplug();
    card_plug_in();
    gst_element_set_state(shown.pipeline, GST_STATE_PLAYING);
    await_pictures(&shown, 3);
    nothing_ended(&shown);
    gst_element_set_state(shown.pipeline, GST_STATE_NULL);
    CHECK(card.driver.opened == 0, "open in NULL");
    line_finish(&shown);
    card_end();
}

/* One error, where the card is opened. */
static void test_no_card(void)
{
    GstElement *src = gst_element_factory_make("gpudirectsrc", NULL);
    g_autoptr(GstBus) bus = gst_bus_new();
    g_autoptr(GError) error = NULL;

    card_begin((struct fake_driver){0});
    gst_element_set_bus(src, bus);
    g_object_set(src, "address", "v4l2:///dev/nowhere/video9", NULL);
    CHECK(gst_element_set_state(src, GST_STATE_READY) == GST_STATE_CHANGE_FAILURE, "it is READY");
    g_autoptr(GstMessage) message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    CHECK(message, "no error");
    gst_message_parse_error(message, &error, NULL);
    CHECK(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND), "%s",
          error->message);
    CHECK(!gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR), "two errors");
    gst_element_set_state(src, GST_STATE_NULL);
    gst_object_unref(src);
    card_end();
}

/* A control that the card lacks is refused with a list of those that it has. */
static void test_refusals(void)
{
    card_begin((struct fake_driver){0});
    static const gchar *const wishes[][2] = {
        {"video/x-raw,format=I420", "it has UYVY, NV12, BGR: ask for one of these"},
        {"video/x-raw,width=333", "it has UYVY, NV12, BGR in 320x180, 640x360: ask for one of"}};
    for (guint i = 0; i < G_N_ELEMENTS(wishes); i++) {
        g_autofree gchar *launch = g_strdup_printf(
            "gpudirectsrc name=src address=v4l2://%s ! %s ! " SHOWN, nodes[0], wishes[i][0]);
        line_begin(&shown, launch);
        expect_error(&shown, -1, wishes[i][1]);
        line_finish(&shown);
    }
    card_end();
}

/* Negotiated for the card's settings, before there was a signal. */
static void test_late_signal(void)
{
    card_begin((struct fake_driver){.digital = true,
                                    .tells = true,
                                    .needs_signal = true,
                                    .timings = {.width = 640, .height = 360, .pixelclock = 1000}});
    fake_signal(&card.driver, 0, 0, false, ENOLINK);
    g_autofree gchar *launch = g_strdup_printf("gpudirectsrc name=src address=v4l2://%s ! "
                                               "video/x-raw,format=UYVY ! " SHOWN,
                                               nodes[0]);
    line_begin(&shown, launch);
    gst_message_unref(await_message(&shown, GST_MESSAGE_WARNING, NULL)); /* of no signal */
    fake_signal(&card.driver, 320, 180, false, 0);
    await_pictures(&shown, 3);
    await_width(&shown, 320);
    nothing_ended(&shown);
    line_finish(&shown);
    card_end();
}

int main(int argc, char **argv)
{
    const gchar *what = argc > 1 ? argv[1] : "";

    alarm(170);
    runtime_make();
    CHECK(mkdtemp(folder), "no folder");
    gst_init(&argc, &argv);
    gpud_gst_context_init();
    CHECK(GST_ELEMENT_REGISTER(gpudirectsrc, NULL) && GST_ELEMENT_REGISTER(gpudirectsink, NULL),
          "the elements are not registered");
    card_system = fake_system;
    card_system.folder = folder;
    for (guint i = 0; i < 2; i++)
        nodes[i] = g_strdup_printf("%s/video%u", folder, i);
    if (g_str_equal(what, "lost")) {
        test_wait();
        test_stand_in("on-disconnect=freeze");
        test_stand_in("on-disconnect=black");
        test_end("on-disconnect=eos", FALSE);
        test_end("on-disconnect=error", TRUE);
        test_link("on-disconnect=wait", FALSE);
        test_link("on-disconnect=error", TRUE);
    } else {
        CHECK(g_str_equal(what, "set"), "usage: cards_test lost|set");
        test_controls();
        test_inputs();
        test_ready();
        test_no_card();
        test_refusals();
        test_late_signal();
    }
    CHECK(rmdir(folder) == 0, "%s is not empty", folder);
    runtime_done();
    puts("ok");
    return 0;
}
