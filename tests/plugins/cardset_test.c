/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc's properties for a capture card: its controls, its input. */
#include "fakecard.h"

#include <errno.h>

static void set_controls(struct line *line, const gchar *text)
{
    g_autoptr(GstStructure) controls = gst_structure_from_string(text, NULL);

    CHECK(controls, "%s", text);
    g_object_set(line->src, "extra-controls", controls, NULL);
}

static void test_controls(void)
{
    struct card card = {.driver.has_controls = true};
    struct line line;
    const gint64 *now = card.driver.controls;

    card_begin(&card);
    line_begin_card(
        &line, "extra-controls=c,exposure-time-absolute=7,exposure-auto=1,brightness=10", SHOWN);
    await_pictures(&line, 3);
    CHECK(now[FAKE_BRIGHTNESS] == 10 && now[FAKE_EXPOSURE] == 7, "%d, %d", (int)now[0],
          (int)now[FAKE_EXPOSURE]);
    set_controls(&line, "c,brightness=100,long-one=(gint64)-99999999999,serial=abc,"
                        "exposure-auto=(string)\"Auto Mode\",bits=(bitmask)0x4");
    CHECK(now[FAKE_BRIGHTNESS] == 100 && now[FAKE_LONG] == -99999999999 && now[FAKE_AUTO] == 0 &&
              now[FAKE_BITS] == 4,
          "not set");
    CHECK(g_str_equal(card.driver.serial, "abc"), "%s", card.driver.serial);
    set_controls(&line, "c,brightness=300");
    expect_warning(&line, "takes 0 to 250 in steps of 5, not 300");
    set_controls(&line, "c,contrast=1");
    expect_warning(&line, "it has brightness");
    set_controls(&line, "c,brightness=0.5");
    expect_warning(&line, "brightness of extra-controls is neither a whole number nor a text");
    await_pictures(&line, 3);
    nothing_ended(&line);
    line_finish(&line);
    expect_refusal("extra-controls=c,contrast=1", "it has brightness");
    card_end(&card);
}

static void test_inputs(void)
{
    struct card card = {
        .driver = {
            .inputs = {"HDMI 0", "HDMI 1"}, .widths = {320, 640}, .digital = true, .tells = true}};
    struct line line;

    card_begin(&card);
    fake_signal(&card.driver, 320, 180, false, 0);
    g_autofree gchar *launch =
        g_strdup_printf("gpudirectsrc name=src address=v4l2://%s input=hdmi\\ 0 ! "
                        "video/x-raw,format=UYVY ! " SHOWN,
                        nodes[0]);
    expect_refusal("input=SDI", "it has 0 \"HDMI 0\", 1 \"HDMI 1\"");
    line_begin(&line, launch);
    for (guint i = 0; i < 6; i++) {
        gchar *input;
        await_pictures(&line, 3);
        await_width(&line, i % 2 ? 640 : 320);
        g_object_get(line.src, "input", &input, NULL);
        CHECK(g_str_equal(input, i % 2 ? "HDMI 1" : "HDMI 0"), "%s", input);
        g_free(input);
        g_object_set(line.src, "input", i % 2 ? "0" : "HDMI 1", NULL);
        await_width(&line, i % 2 ? 320 : 640);
    }
    g_object_set(line.src, "input", "SDI", NULL);
    expect_warning(&line, "no input \"SDI\"; it has 0 \"HDMI 0\", 1 \"HDMI 1\"");
    await_pictures(&line, 3);

    /* It has the same input when it comes back. */
    g_object_set(line.src, "input", "1", NULL);
    await_width(&line, 640);
    card_unplug(&card);
    expect_message(&line, "gpudirect-card-lost");
    card.driver.input = 0;
    card_plug_in(&card);
    expect_message(&line, "gpudirect-card-back");
    CHECK(card.driver.input == 1, "the input is %d", card.driver.input);
    nothing_ended(&line);
    line_finish(&line);
    card_end(&card);
}

/* --- what the card has -------------------------------------------------------------------- */

static GstCaps *query_caps(GstElement *src)
{
    g_autoptr(GstPad) pad = gst_element_get_static_pad(src, "src");
    GstCaps *caps = gst_pad_query_caps(pad, NULL);

    return caps;
}

/* Opened in READY, where its caps are known; there it does not stream. */
static void test_ready(void)
{
    struct card card = {0};
    struct line line;

    card_begin(&card);
    line_begin_card(&line, "", SHOWN);
    await_pictures(&line, 3);
    for (guint i = 0; i < 3; i++) {
        gst_element_set_state(line.pipeline, GST_STATE_READY);
        CHECK(!card.driver.streaming && card.driver.opened == 1, "it streams in READY");
        g_autoptr(GstCaps) caps = query_caps(line.src), own = gst_caps_from_string(CAPS);
        CHECK(gst_caps_can_intersect(caps, own) && !gst_caps_is_any(caps) &&
                  gst_structure_has_field(gst_caps_get_structure(caps, 0), "framerate"),
              "%s", gst_caps_to_string(caps));
        gst_element_set_state(line.pipeline, GST_STATE_PLAYING);
        await_pictures(&line, 3);
        CHECK(line_stat(&line, "connects") == 1, "connects");
    }

    /* Unplugged and plugged in meanwhile. */
    gst_element_set_state(line.pipeline, GST_STATE_READY);
    card_unplug(&card);
    card_plug_in(&card);
    gst_element_set_state(line.pipeline, GST_STATE_PLAYING);
    await_pictures(&line, 3);
    nothing_ended(&line);
    gst_element_set_state(line.pipeline, GST_STATE_NULL);
    CHECK(card.driver.opened == 0, "open in NULL");
    line_finish(&line);
    card_end(&card);
}

/* One error, where the card is opened. */
static void test_no_card(void)
{
    GstElement *src = gst_element_factory_make("gpudirectsrc", NULL);
    g_autoptr(GstBus) bus = gst_bus_new();
    struct card card = {0};
    g_autoptr(GError) error = NULL;

    card_begin(&card);
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
    card_end(&card);
}

/* A control that the card lacks is refused with a list of those that it has. */
static void test_refusals(void)
{
    struct card card = {0};

    card_begin(&card);
    static const gchar *const wishes[][2] = {
        {"video/x-raw,format=I420", "it has UYVY, NV12, BGR: ask for one of these"},
        {"video/x-raw,width=333", "it has UYVY, NV12, BGR in 320x180, 640x360: ask for one of"}};
    for (guint i = 0; i < G_N_ELEMENTS(wishes); i++) {
        struct line line;
        g_autofree gchar *launch = g_strdup_printf(
            "gpudirectsrc name=src address=v4l2://%s ! %s ! " SHOWN, nodes[0], wishes[i][0]);
        g_autoptr(GError) error = NULL;
        line_begin(&line, launch);
        g_autoptr(GstMessage) message =
            gst_bus_timed_pop_filtered(line.bus, WAIT, GST_MESSAGE_ERROR);
        CHECK(message, "no error");
        gst_message_parse_error(message, &error, NULL);
        CHECK(strstr(error->message, wishes[i][1]), "%s", error->message);
        line_finish(&line);
    }
    card_end(&card);
}

/* Negotiated for the card's settings, before there was a signal. */
static void test_late_signal(void)
{
    struct card card = {.driver = {.digital = true, .tells = true, .needs_signal = true}};
    struct line line;

    card.driver.timings = (struct v4l2_bt_timings){.width = 640, .height = 360, .pixelclock = 1000};
    card_begin(&card);
    fake_signal(&card.driver, 0, 0, false, ENOLINK);
    g_autofree gchar *launch = g_strdup_printf("gpudirectsrc name=src address=v4l2://%s ! "
                                               "video/x-raw,format=UYVY ! " SHOWN,
                                               nodes[0]);
    line_begin(&line, launch);
    GstMessage *message = await_message(&line, GST_MESSAGE_WARNING, NULL);
    gst_message_unref(message); /* that there is no signal */
    fake_signal(&card.driver, 320, 180, false, 0);
    await_pictures(&line, 3);
    await_width(&line, 320);
    nothing_ended(&line);
    line_finish(&line);
    card_end(&card);
}

int main(int argc, char **argv)
{
    cards_init(&argc, &argv);
    test_controls();
    test_inputs();
    test_ready();
    test_no_card();
    test_refusals();
    test_late_signal();
    return cards_done();
}
