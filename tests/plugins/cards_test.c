/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirectsrc on a capture card that is unplugged and comes back, alone and with a link behind it.
 */
#include "fakecard.h"

static void test_wait(void)
{
    struct card card = {0};
    struct line line;

    card_begin(&card);
    line_begin_card(&line, "", SHOWN);
    expect_signal(&line, TRUE, "");
    for (guint i = 1; i <= 5; i++) {
        await_pictures(&line, 3);
        card_unplug(&card);
        expect_signal(&line, FALSE, "unplugged");
        gst_message_unref(await_message(&line, GST_MESSAGE_WARNING, NULL));
        CHECK(line_stat(&line, "disconnects") == i, "%u", i);
        card_plug_in(&card);
        expect_message(&line, "gpudirect-card-back");
        expect_signal(&line, TRUE, "");
        await_pictures(&line, 3);
        CHECK(line_stat(&line, "reconnects") == i, "%u", i);
    }
    CHECK(line.back == 0, "PTS went back");

    /* Stopped while it waits. */
    card_unplug(&card);
    expect_message(&line, "gpudirect-card-lost");
    nothing_ended(&line);
    line_finish(&line);
    card_end(&card);
}

static void test_stand_in(const gchar *mode)
{
    struct card card = {0};
    struct line line;
    g_autofree gchar *properties = g_strdup_printf("on-disconnect=%s", mode);

    card_begin(&card);
    line_begin_card(&line, properties, SHOWN);
    for (guint i = 0; i < 2; i++) {
        expect_signal(&line, TRUE, "");
        card_unplug(&card);
        expect_signal(&line, FALSE, "unplugged");
        expect_message(&line, "gpudirect-card-lost");
        guint64 before = line_stat(&line, "stood-in");
        await_pictures(&line, 5);
        CHECK(line_stat(&line, "stood-in") >= before + 4, "they are not stand-ins");
        card_plug_in(&card);
        expect_message(&line, "gpudirect-card-back");
    }
    expect_signal(&line, TRUE, "");
    CHECK(line.back == 0, "PTS went back");
    nothing_ended(&line);
    line_finish(&line);
    card_end(&card);
}

static void test_end(const gchar *mode, GstMessageType type)
{
    struct card card = {0};
    struct line line;
    g_autofree gchar *properties = g_strdup_printf("on-disconnect=%s", mode);

    card_begin(&card);
    line_begin_card(&line, properties, SHOWN);
    await_pictures(&line, 3);
    card_unplug(&card);
    g_autoptr(GstMessage) message =
        gst_bus_timed_pop_filtered(line.bus, WAIT, GST_MESSAGE_ERROR | GST_MESSAGE_EOS);
    CHECK(message && GST_MESSAGE_TYPE(message) == type, "%s",
          message ? GST_MESSAGE_TYPE_NAME(message) : "nothing");
    if (type == GST_MESSAGE_ERROR) {
        g_autoptr(GError) error = NULL;
        gst_message_parse_error(message, &error, NULL);
        CHECK(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND) &&
                  strstr(error->message, "unplugged"),
              "%s", error->message);
    }
    line_finish(&line);
    card_end(&card);
}

/* Receivers behind a link see a loss of signal, but no EOS, whatever happens to the pipeline. */
static void test_link(const gchar *mode)
{
    struct card card = {0};
    struct line sender, receiver;
    gboolean fails = g_str_equal(mode, "error");
    g_autofree gchar *properties = g_strdup_printf("on-disconnect=%s", mode);

    card_begin(&card);
    line_begin(&receiver, "gpudirectsrc name=src address=cards ! " SHOWN);
    line_begin_card(&sender, properties, "gpudirectsink address=cards sync=false");
    expect_signal(&receiver, TRUE, "");
    await_pictures(&receiver, 3);
    card_unplug(&card);
    if (fails) {
        g_autoptr(GstMessage) message =
            gst_bus_timed_pop_filtered(sender.bus, WAIT, GST_MESSAGE_ERROR | GST_MESSAGE_EOS);
        CHECK(message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR, "no error");
    }
    expect_signal(&receiver, FALSE, "sends nothing");
    if (!fails) {
        card_plug_in(&card);
        expect_signal(&receiver, TRUE, "");
        await_pictures(&receiver, 3);
    }
    nothing_ended(&receiver);
    line_finish(&sender);
    line_finish(&receiver);
    card_end(&card);
}

int main(int argc, char **argv)
{
    cards_init(&argc, &argv);
    test_wait();
    test_stand_in("freeze");
    test_stand_in("black");
    test_end("eos", GST_MESSAGE_EOS);
    test_end("error", GST_MESSAGE_ERROR);
    test_link("wait");
    test_link("error");
    return cards_done();
}
