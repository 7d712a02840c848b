/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender that refuses gpudirectsrc, or whose offer cannot be used. Where waiting was asked for
 * (on-disconnect=wait, the default) that is a warning, once for a cause, and the next sender is
 * shown; with on-disconnect=error it is an error. */
#include "hostile.h"
#include "pipes.h"

#include "support/encode.h"

#include <glib/gstdio.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static struct hostile hostile;

/* The receiver's next HELLO, unanswered. A waiting receiver also queries channels, over separate
 * connections, which are ignored. */
static void meet(void)
{
    struct gpud_message message;

    for (;;) {
        hostile_serve(&hostile, -1, RAW_SERVER_ACCEPTED);
        if (raw_receive(hostile.server.fd, &message, 5 * GPUD_SEC) &&
            message.type == GPUD_MESSAGE_HELLO)
            break;
        raw_hang_up(&hostile.server);
    }
}

static void greet(void)
{
    struct gpud_message message;

    meet();
    raw_hello(&message);
    fail_unless(raw_send_message(hostile.server.fd, &message));
}

static void refuse(enum gpud_status status, const gchar *reason)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_REFUSE};

    greet();
    message.refuse.status = status;
    gpud_print(message.refuse.reason, "%s", reason);
    fail_unless(raw_send_message(hostile.server.fd, &message));
}

/* Its offer, which the change spoils. */
static void offer(void (*spoil)(struct gpud_message *message))
{
    struct gpud_message message;

    greet();
    raw_offer(&hostile.server, &message);
    spoil(&message);
    fail_unless(raw_send_message(hostile.server.fd, &message));
}

static void spoil_route(struct gpud_message *message)
{
    gpud_print(message->offer.route, "pigeon");
}

static void spoil_format(struct gpud_message *message)
{
    gpud_print(message->offer.media.picture.layout.format, "PIGEON");
}

/* Media for which there are no caps. */
static void spoil_media(struct gpud_message *message)
{
    gpud_print(message->offer.media.extra, "pixel-aspect-ratio=(fraction)0/1");
}

/* As an honest sender that has no other route does. */
static void offer_unknown_route(void)
{
    struct gpud_message message, answer = {.type = GPUD_MESSAGE_REFUSE};

    offer(spoil_route);
    fail_unless(raw_receive(hostile.server.fd, &message, 5 * GPUD_SEC));
    fail_unless_equals_int(message.type, GPUD_MESSAGE_REFUSE);
    answer.refuse.status = GPUD_UNSUPPORTED;
    gpud_print(answer.refuse.reason, "no route is left; %.400s", message.refuse.reason);
    fail_unless(raw_send_message(hostile.server.fd, &answer));
}

static void speak_another_version(void)
{
    struct gpud_message message;
    uint8_t bytes[GPUD_MESSAGE_MAX];
    int fds[GPUD_MESSAGE_HANDLES];
    size_t count;

    meet();
    raw_hello(&message);
    size_t size = encode_message(&message, bytes, fds, &count);
    bytes[4] = GPUD_MESSAGE_VERSION + 1;
    fail_unless(raw_send(hostile.server.fd, bytes, size, NULL, 0));
}

/* An EOS of a stream that did not begin. */
static void end_too_soon(void)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_EOS};

    greet();
    fail_unless(raw_send_message(hostile.server.fd, &message));
}

static const struct {
    void (*attempt)(void);    /* or NULL, and */
    enum gpud_status refusal; /* a REFUSE with that status, or 0, and */
    void (*spoil)(struct gpud_message *message);
    const gchar *says;
    gboolean waited_for; /* also with on-disconnect=error, as there was no connection */
} cases[] = {
    {NULL, GPUD_UNSUPPORTED, NULL, "the test refuses you"},
    {NULL, GPUD_NO_ACCESS, NULL, "the test refuses you"},
    {NULL, GPUD_AGAIN, NULL, "the test refuses you", TRUE},
    {NULL, (enum gpud_status)99, NULL, "the test refuses you"}, /* of a later release */
    {offer_unknown_route, 0, NULL, "pigeon"},
    {NULL, 0, spoil_format, "PIGEON"},
    {NULL, 0, spoil_media, "format cannot be used"},
    {speak_another_version, 0, NULL, "speaks version"},
    {end_too_soon, 0, NULL, "an unexpected EOS", TRUE},
};

static void attempt(gint i)
{
    if (cases[i].attempt)
        cases[i].attempt();
    else if (cases[i].refusal)
        refuse(cases[i].refusal, "the test refuses you");
    else
        offer(cases[i].spoil);
}

static void expect_complaint(GstMessageType type, const gchar *says)
{
    g_autoptr(GError) error = NULL;

    fail_unless_equals_int(hostile_complaint(&hostile, &error), type);
    fail_unless(strstr(error->message, says), "\"%s\" does not say \"%s\"", error->message, says);
}

static void expect_picture(void)
{
    greet();
    hostile_serve(&hostile, RAW_SERVER_HELLO, RAW_SERVER_STREAMING);
    gst_buffer_unref(ends_pull(hostile.src));
}

/* The receiver has left; what it said before is thrown away. */
static void await_leaving(void)
{
    fail_unless(raw_wait_hangup(hostile.server.fd, 10 * GPUD_SEC), "the link is not given up");
    raw_hang_up(&hostile.server);
}

/* Four attempts are one warning, and a later sender with another format is shown. */
TEST(test_waited_for, .times = G_N_ELEMENTS(cases))
{
    gint64 start = g_get_monotonic_time();

    hostile_open(&hostile, NULL, 64, 64);
    for (guint i = 0; i < 4; i++) {
        attempt(__i__);
        await_leaving();
    }
    expect_complaint(GST_MESSAGE_WARNING, cases[__i__].says);
    expect_no_complaint(hostile.bus);
    expect_picture();
    g_print("%s: four attempts, and a picture, within %" G_GINT64_FORMAT " ms\n", cases[__i__].says,
            (g_get_monotonic_time() - start) / 1000);
    expect_no_complaint(hostile.bus);
    hostile_close(&hostile);
}

/* The same after a picture: it is the loss of the sender that is told. */
TEST(test_waited_for_again, .times = G_N_ELEMENTS(cases))
{
    hostile_open(&hostile, NULL, 64, 64);
    expect_picture();
    raw_hang_up(&hostile.server);
    expect_complaint(GST_MESSAGE_WARNING, "The sender is lost");
    for (guint i = 0; i < 2; i++) {
        attempt(__i__);
        await_leaving();
    }
    expect_complaint(GST_MESSAGE_WARNING, cases[__i__].says);
    expect_picture();
    expect_no_complaint(hostile.bus);
    hostile_close(&hostile);
}

/* A sender that is connected, and goes on with a format that cannot be read. */
TEST(test_changed_to_unreadable)
{
    struct gpud_message message;

    hostile_open(&hostile, NULL, 64, 64);
    expect_picture();
    hostile.server.epoch++;
    raw_offer(&hostile.server, &message);
    message.position = hostile.server.view.head;
    spoil_media(&message);
    fail_unless(hostile_say(&hostile, &message));
    expect_complaint(GST_MESSAGE_WARNING, "format cannot be used");
    raw_hang_up(&hostile.server);
    offer(spoil_media);
    await_leaving();
    expect_picture();
    expect_no_complaint(hostile.bus);
    hostile_close(&hostile);
}

/* A sender that varies its reason does not fill the bus. */
TEST(test_many_reasons)
{
    hostile_open(&hostile, NULL, 64, 64);
    for (guint i = 0; i < 8; i++) {
        g_autofree gchar *reason = g_strdup_printf("reason number %u", i);
        refuse(GPUD_UNSUPPORTED, reason);
        await_leaving();
    }
    expect_complaint(GST_MESSAGE_WARNING, "reason number 0");
    guint more = 0;
    GstMessage *message;
    while ((message = gst_bus_pop_filtered(hostile.bus, GST_MESSAGE_ERROR | GST_MESSAGE_WARNING))) {
        fail_unless_equals_int(GST_MESSAGE_TYPE(message), GST_MESSAGE_WARNING);
        gst_message_unref(message);
        more++;
    }
    g_print("%u more warnings for seven more reasons\n", more);
    fail_unless(more < 7);
    hostile_close(&hostile);
}

TEST(test_error_is_asked_for, .times = G_N_ELEMENTS(cases))
{
    hostile_open(&hostile, "on-disconnect=error", 64, 64);
    attempt(__i__);
    expect_complaint(cases[__i__].waited_for ? GST_MESSAGE_WARNING : GST_MESSAGE_ERROR,
                     cases[__i__].says);
    hostile_close(&hostile);
}

static void write_key(const gchar *path)
{
    fail_unless(g_file_set_contents_full(path, "sixteen bytes or more", -1,
                                         G_FILE_SET_CONTENTS_CONSISTENT, 0600, NULL));
}

/* A key file that is not there while the sender is restarted, and comes back. */
TEST(test_replaced_key)
{
    g_autofree gchar *host = ends_host(0);
    g_autofree gchar *here = g_build_filename(g_getenv("XDG_RUNTIME_DIR"), "here", NULL);
    g_autofree gchar *there = g_build_filename(g_getenv("XDG_RUNTIME_DIR"), "there", NULL);

    write_key(here);
    write_key(there);
    g_autoptr(EndsPipeline) sender =
        ends_pipeline("videotestsrc is-live=true ! " CAPS_SMALL
                      " ! gpudirectsink address=tcp://%s/cam psk-file=%s",
                      host, there);
    g_autoptr(EndsPipeline) receiver = ends_pipeline(
        "gpudirectsrc name=src address=tcp://%s/cam psk-file=%s ! fakesink", host, here);
    GstElement *src = ends_in(receiver, "src");
    g_autoptr(GstBus) bus = gst_element_get_bus(receiver);
    ends_play(sender);
    ends_play(receiver);
    ENDS_UNTIL(20, ends_stat_of(src, "frames") > 0);
    fail_unless(g_unlink(here) == 0);
    gst_element_set_state(sender, GST_STATE_NULL);
    ends_play(sender);
    ends_expect(bus, GST_MESSAGE_WARNING, 20, "The sender is lost");
    ends_expect(bus, GST_MESSAGE_WARNING | GST_MESSAGE_ERROR, 20, "there is no key file");
    guint64 before = ends_stat_of(src, "frames");
    write_key(here);
    ENDS_UNTIL(20, ends_stat_of(src, "frames") > before);
    ends_fail_on_errors(receiver);
}

/* A host that takes the connection and says nothing, as one that is behind a firewall. */
TEST(test_silent_host)
{
    struct sockaddr_in bound = {.sin_family = AF_INET};
    socklen_t size = sizeof(bound);
    bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    fail_unless(bind(fd, (const struct sockaddr *)&bound, size) == 0 && listen(fd, 1) == 0 &&
                getsockname(fd, (struct sockaddr *)&bound, &size) == 0);
    g_autoptr(EndsPipeline) receiver = ends_pipeline(
        "gpudirectsrc address=tcp://127.0.0.1:%u/cam ! fakesink", ntohs(bound.sin_port));
    g_autoptr(GstBus) bus = gst_element_get_bus(receiver);
    ends_play(receiver);
    ends_expect(bus, GST_MESSAGE_INFO, 20, "does a firewall drop");
    close(fd);
}

ENDS_MAIN(60)
