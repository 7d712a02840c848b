/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender that makes a receiver wait for something that will never arrive, or that changes the
 * format without notice. The receiver detects each within its deadlines, reports the reason, and
 * connects to the next sender. */
#include "acquirer.h"
#include "support/make.h"
#include "support/peer.h"

#define ADDRESS "stalling"

static struct acquirer acquirer;
static struct raw_server server;

#define ENDS(says, ...)                                        \
    do {                                                       \
        unsigned before_ = acquirer_ends(&acquirer);           \
        __VA_ARGS__;                                           \
        acquirer_ended_at(__LINE__, &acquirer, before_, says); \
        raw_hang_up(&server);                                  \
    } while (0)

static void serve(enum raw_server_step to)
{
    raw_serve(&server, -1, to);
}

static void streaming(void)
{
    unsigned long long frames = atomic_load(&acquirer.frames);
    serve(RAW_SERVER_STREAMING);
    PEER_UNTIL("the first frame", 10000, atomic_load(&acquirer.frames) > frames);
}

/* A message positioned this many frames after the published ones. */
static void say(enum gpud_message_type type, uint32_t ahead)
{
    struct gpud_message message = {.type = type, .position = server.view.head + ahead};
    if (type == GPUD_MESSAGE_EOS)
        message.epoch = server.epoch;
    CHECK(raw_send_message(server.fd, &message), "not sent");
    gpud_page_count_message(&server.view);
    gpud_page_notify(&server.view.end);
}

/* --- places that are never reached ------------------------------------------------------------ */

static void messages_that_are_never_due(void)
{
    for (uint32_t ahead = 1; ahead <= 4; ahead++) {
        streaming();
        say(GPUD_MESSAGE_EVENT, ahead);
        gpud_test_nap(20); /* it is read, and waits */
        ENDS("vanished", raw_hang_up(&server));
    }
    /* What was published before the death is still handed out. The end of the stream that was
     * announced behind frames that died is none: they are missing. */
    uint32_t entry;
    streaming();
    unsigned ended = acquirer_ends(&acquirer);
    unsigned long long frames = atomic_load(&acquirer.frames);
    say(GPUD_MESSAGE_EOS, 3);
    CHECK(raw_publish(&server, &entry) && raw_publish(&server, &entry), "no credit");
    raw_hang_up(&server);
    acquirer_ended_at(__LINE__, &acquirer, ended, "vanished");
    CHECK_EQUAL(atomic_load(&acquirer.frames), frames + 2);
    CHECK_EQUAL(acquirer_ends_of_stream(&acquirer), 0);
    /* Behind those that came it is one. */
    streaming();
    ended = acquirer_ends(&acquirer);
    say(GPUD_MESSAGE_EOS, 2);
    CHECK(raw_publish(&server, &entry) && raw_publish(&server, &entry), "no credit");
    raw_hang_up(&server);
    acquirer_ended_at(__LINE__, &acquirer, ended + 1, "vanished");
    CHECK_EQUAL(acquirer_ends_of_stream(&acquirer), 1);

    /* Further ahead than frames can be. */
    static const uint32_t beyond[] = {5, 64, 1000, INT32_MAX};
    for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
        streaming();
        ENDS("behind more frames than there are entries", say(GPUD_MESSAGE_EVENT, beyond[i]));
    }
}

static void heads_that_are_nowhere(void)
{
    static const uint32_t ahead[] = {(UINT32_C(1) << 31) - 1, UINT32_C(1) << 31,
                                     (UINT32_C(1) << 31) + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++) {
        streaming();
        ENDS("more frames waiting than entries", {
            atomic_fetch_add(&server.page->sender.head, ahead[i]);
            gpud_page_notify(&server.view.end);
        });
    }
}

static void test_frames_that_never_come(void)
{
    serve(RAW_SERVER_PAGE);
    struct gpud_message message = {.type = GPUD_MESSAGE_CANARY};
    message.canary.epoch = server.epoch;
    CHECK(raw_send_message(server.fd, &message), "not sent");
    gpud_test_nap(20);
    acquirer_longest(&acquirer);
    ENDS("vanished", raw_hang_up(&server));
    CHECK(acquirer_longest(&acquirer) < GPUD_SEC,
          "acquire does not come back while the test frame is waited for");
}

/* --- formats ---------------------------------------------------------------------------------- */

static void offer(const struct gpud_layout *layout, uint32_t rate)
{
    struct gpud_message message;
    raw_offer(&server, &message);
    message.offer.media.picture.layout = *layout;
    message.offer.media.picture.rate = (struct gpud_fraction){rate, 1};
    if (server.page)
        message.position = server.view.head;
    CHECK(raw_send_message(server.fd, &message), "not sent");
    if (server.page) {
        gpud_page_count_message(&server.view);
        gpud_page_notify(&server.view.end);
    }
}

static void formats_behind_the_back(void)
{
    struct gpud_layout smaller = LAYOUT("GRAY8", 32, 32, 0);
    serve(RAW_SERVER_HELLO);
    offer(&server.layout, 1);
    raw_serve(&server, RAW_SERVER_OFFERED, RAW_SERVER_STREAMING);
    unsigned long long formats = atomic_load(&acquirer.formats);
    /* Once more the same, by another route, say: nothing to tell. */
    offer(&server.layout, 1);
    raw_serve(&server, RAW_SERVER_OFFERED, RAW_SERVER_STREAMING);
    CHECK_EQUAL(atomic_load(&acquirer.formats), formats);
    /* Another epoch is told, whatever its number. */
    server.epoch = 77;
    offer(&smaller, 2);
    raw_serve(&server, RAW_SERVER_OFFERED, RAW_SERVER_READY);
    PEER_UNTIL("word of the format", 10000, atomic_load(&acquirer.formats) == formats + 1);
    /* The same epoch with another layout, or other media, is a lie. */
    ENDS("another format, and the same epoch", offer(&server.layout, 2));
    serve(RAW_SERVER_HELLO);
    offer(&server.layout, 1);
    raw_serve(&server, RAW_SERVER_OFFERED, RAW_SERVER_STREAMING);
    ENDS("another format, and the same epoch", offer(&server.layout, 3));
    /* So is an epoch that was never begun. */
    server.epoch = 0;
    serve(RAW_SERVER_HELLO);
    ENDS("epochs count from 1", offer(&server.layout, 1));
    server.epoch = 1;
}

/* --- times ------------------------------------------------------------------------------------ */

static void times_from_nowhere(void)
{
    static const uint64_t times[] = {1, INT64_MAX, UINT64_C(1) << 63, (UINT64_C(1) << 63) + 1,
                                     UINT64_MAX};
    streaming();
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        unsigned long long frames = atomic_load(&acquirer.frames);
        uint32_t entry, back;
        while (gpud_page_reap(&server.view, &back) > 0)
            ;
        CHECK(gpud_page_take(&server.view, &entry), "no credit");
        server.page->sender.descriptor[entry] = (struct gpud_descriptor){
            .slot = entry, .sequence = ++server.sequence, .submit_time = times[i]};
        gpud_page_publish(&server.view, entry);
        gpud_page_notify(&server.view.end);
        PEER_UNTIL("the frame", 10000, atomic_load(&acquirer.frames) > frames);
    }
    struct gpud_receiver_info info = INFO(receiver, acquirer.receiver);
    CHECK(info.latency_max_ns <= UINT32_MAX, "a latency of %llu ns",
          (unsigned long long)info.latency_max_ns);
    ENDS("vanished", raw_hang_up(&server));
}

int main(void)
{
    test_alarm(110);
    setenv("GPUDIRECT_LOG", "error", 0);
    runtime_make();
    struct baseline before = baseline_take();
    struct gpud_context *context = raw_context();
    raw_listen(&server, ADDRESS);
    acquirer_start(&acquirer, context, ADDRESS);
    SAY("messages behind frames that never come");
    messages_that_are_never_due();
    SAY("heads that are nowhere");
    heads_that_are_nowhere();
    SAY("test frames that never come");
    test_frames_that_never_come();
    SAY("formats that change behind the back");
    formats_behind_the_back();
    SAY("times from nowhere");
    times_from_nowhere();
    acquirer_stop(&acquirer);
    raw_server_close(&server);
    gpud_context_destroy(&context);
    BASELINE_CHECK(before);
    runtime_done();
    return 0;
}
