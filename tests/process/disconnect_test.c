/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The end of a connection: closing one with unread messages makes the kernel reset it, and what its
 * owner sent before must still arrive. Also, a peer of another process cannot pass for one of this
 * process. */
#include "actor.h"
#include "base/base.h"
#include "stream/sender/sender.h"

/* A receiver that streams from a sender which this process plays. */
static struct gpud_receiver *make_receiver(struct gpud_context *context, struct raw_server *server)
{
    struct gpud_frame *frame;
    struct gpud_error error = {.reason = ""};
    raw_listen(server, "disconnect");
    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = "disconnect");
    for (int at = -1; at < RAW_SERVER_CANARY; at++) {
        enum gpud_status status = gpud_receiver_acquire(receiver, 20 * GPUD_MSEC, &frame, &error);
        CHECK(status == GPUD_TIMEOUT, "%s: %s", gpud_status_string(status), error.reason);
        raw_serve(server, at, (enum raw_server_step)(at + 1));
    }
    EXPECT(GPUD_TIMEOUT, "", gpud_receiver_acquire(receiver, 100 * GPUD_MSEC, &frame, &e));
    return receiver;
}

static void end_of_stream(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    struct gpud_frame *frame;
    AUTO(raw_server_close) struct raw_server server;
    struct gpud_message message = {.type = GPUD_MESSAGE_EOS};
    AUTO(gpud_receiver_destroy) struct gpud_receiver *receiver = make_receiver(context, &server);
    /* READY lies in our socket, unread. Two frames, the end of the stream, and this process is
     * gone. */
    uint32_t entry;
    for (int i = 0; i < 2; i++)
        CHECK(raw_publish(&server, &entry), "no credit");
    message.epoch = server.epoch;
    message.position = server.view.head;
    CHECK(raw_send_message(server.fd, &message), "not sent");
    gpud_page_count_message(&server.view);
    raw_hang_up(&server);
    for (int i = 0; i < 2; i++) {
        frame = ACQUIRE_FRAME(receiver, GPUD_SEC);
        gpud_frame_release(&frame);
    }
    EXPECT(GPUD_CLOSED, "ended the stream", gpud_receiver_acquire(receiver, GPUD_SEC, &frame, &e));
    EXPECT(GPUD_PEER, "vanished", gpud_receiver_acquire(receiver, GPUD_SEC, &frame, &e));

    /* A refusal, with our HELLO unread. */
    EXPECT(GPUD_TIMEOUT, "", gpud_receiver_acquire(receiver, 100 * GPUD_MSEC, &frame, &e));
    raw_serve(&server, -1, RAW_SERVER_ACCEPTED);
    message = (struct gpud_message){.type = GPUD_MESSAGE_REFUSE};
    strcpy(message.refuse.reason, "no route to you");
    CHECK(raw_send_message(server.fd, &message), "not sent");
    raw_hang_up(&server);
    EXPECT(GPUD_UNSUPPORTED, "no route to you",
           gpud_receiver_acquire(receiver, GPUD_SEC, &frame, &e));
}

/* A sender that blocks for slow receivers must not wait for one that is gone. */
static void frames_kept(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    struct gpud_frame *frame;
    AUTO(raw_server_close) struct raw_server server;
    AUTO(gpud_receiver_destroy) struct gpud_receiver *receiver = make_receiver(context, &server);
    uint32_t entry;
    CHECK(raw_publish(&server, &entry), "no credit");
    struct gpud_frame *kept = ACQUIRE_FRAME(receiver, GPUD_SEC);
    server.sequence = 0;
    CHECK(raw_publish(&server, &entry), "no credit");
    EXPECT(GPUD_PEER, "went back", gpud_receiver_acquire(receiver, GPUD_SEC, &frame, &e));
    struct gpud_message message;
    do /* READY was not read yet */
        CHECK(raw_receive(server.fd, &message, GPUD_SEC),
              "the receiver gave the connection up, and the sender does not see it");
    while (message.type != GPUD_MESSAGE_BYE);
    CHECK(strstr(message.refuse.reason, "went back"), "the sender is told: %s",
          message.refuse.reason);
    MAP_FRAME(kept, GPUD_READ, GPUD_SEC);
    gpud_frame_unmap(kept);
    CHECK(!raw_is_hung_up(server.fd), "the connection ends while a frame of it is held");
    gpud_frame_release(&kept);
    CHECK(raw_wait_hangup(server.fd, GPUD_SEC), "the last frame is back, and the sender waits on");
}

static struct gpud_sender *make_sender(struct gpud_context *context)
{
    struct gpud_sender *sender = NEW_SENDER(context, .address = "disconnect");
    CONFIGURE(sender, "GRAY8", 64, 64);
    return sender;
}

static void goodbye(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    AUTO(gpud_sender_destroy) struct gpud_sender *sender = make_sender(context);
    struct raw raw;
    struct gpud_message message = {.type = GPUD_MESSAGE_BYE};
    raw_log_clear();
    raw_open(&raw, "disconnect", RAW_READY_SENT);
    WORKS(gpud_sender_wait(sender, 1, GPUD_SEC, &e));
    WORKS(gpud_sender_send_event(sender, 1, "unread", 6, &e));
    raw_send_message(raw.fd, &message);
    raw_close(&raw);
    if (!raw_log_says("said goodbye", GPUD_SEC)) {
        raw_log_print();
        FAIL("the goodbye was not heard");
    }
    CHECK(!raw_log_says("vanished", 0) && !raw_log_says("ended by a signal", 0),
          "the goodbye was taken for a crash");
}

/* A violation that the submitting thread detects: that thread ends the link, and continues. The
 * listener's thread is woken to disconnect the peer. */
static void hung_up_by_listener(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    AUTO(gpud_sender_destroy) struct gpud_sender *sender = make_sender(context);
    AUTO(raw_close) struct raw raw;
    raw_open(&raw, "disconnect", RAW_READY_SENT);
    WORKS(gpud_sender_wait(sender, 1, GPUD_SEC, &e));
    atomic_store(&raw.page->receiver.returned, 1000);
    struct gpud_frame *frame = ACQUIRE_SLOT(sender, GPUD_SEC);
    WORKS(gpud_sender_submit(sender, &frame, GPUD_SEC, &e));
    CHECK(raw_wait_hangup(raw.fd, 10 * GPUD_SEC), "a liar is still connected");
    EXPECT(GPUD_TIMEOUT, "receivers have connected", gpud_sender_wait(sender, 1, 0, &e));
}

/* Says that it is the process with this token. */
static void pass_for_another(const void *token)
{
    struct raw raw;
    struct gpud_message message;
    raw_connect(&raw, "disconnect");
    raw_hello(&message);
    message.hello.token = *(const uint64_t *)token;
    bool good = raw_send_message(raw.fd, &message) && raw_receive(raw.fd, &message, GPUD_SEC) &&
                raw_receive(raw.fd, &message, GPUD_SEC) && message.type == GPUD_MESSAGE_OFFER;
    CHECK(good && message.offer.ring.memories &&
              message.offer.ring.handle[0].type == GPUD_HANDLE_MEMFD,
          "a peer that repeats the token gets pointers into this process");
}

static void impostor(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    AUTO(gpud_sender_destroy) struct gpud_sender *sender = make_sender(context);
    struct raw raw;
    struct gpud_message message;
    struct actor actor;
    raw_open(&raw, "disconnect", RAW_HELLO_SENT);
    CHECK(raw_receive(raw.fd, &message, GPUD_SEC) && message.type == GPUD_MESSAGE_HELLO,
          "no HELLO");
    raw_close(&raw);
    actor_fork(&actor, pass_for_another, &message.hello.token);
    actor_finish(&actor);
}

int main(void)
{
    test_begin(60);
    struct baseline before = baseline_take();
    CASE("the end of the stream, before a reset", end_of_stream());
    CASE("a connection that is given up while frames of it are held", frames_kept());
    CASE("a receiver's goodbye, before a reset", goodbye());
    CASE("a link that the submitting thread ends", hung_up_by_listener());
    CASE("a token proves nothing by itself", impostor());
    BASELINE_CHECK(before);
    return runtime_done();
}
