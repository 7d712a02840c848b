/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A side that polls its connection is woken by one KICK per sleep. Unsolicited KICKs change
 * nothing, and a flood of them ends the link. */
#include "actor.h"

#include <poll.h>
#include <sys/epoll.h>

#define ADDRESS "polled"

static struct background background;
static struct acquirer acquirer;
static struct raw_server server;

static void take_all(struct raw *raw)
{
    struct gpud_descriptor descriptor;
    struct gpud_error error;
    uint32_t entry;
    while (gpud_page_claim(&raw->view, gpud_page_head(&raw->view), &entry, &descriptor, &error) > 0)
        gpud_page_give_back(&raw->view, entry, &(const atomic_bool){true});
}

static void wait_for_kick(int fd)
{
    struct gpud_message message;
    CHECK(raw_receive(fd, &message, 5 * GPUD_SEC), "the poller was not woken");
    CHECK(message.type == GPUD_MESSAGE_KICK, "a %s instead of a KICK",
          gpud_message_name(message.type));
}

static void polling_receiver(void)
{
    AUTO(raw_close) struct raw raw;
    struct gpud_message message;
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_STREAMING);
    for (int i = 0; i < 20; i++) {
        take_all(&raw);
        uint32_t messages = gpud_page_messages(&raw.view), kicks = raw.page->sender.kicks;
        gpud_sleep_begin(&raw.view.end.sleeper, GPUD_SLEEP_POLL);
        take_all(&raw);
        wait_for_kick(raw.fd);
        /* Frames go on, and there is nothing more to say while it sleeps. */
        unsigned long long number = atomic_load(&background.number);
        PEER_UNTIL("more frames", 20000,
                   (take_all(&raw), atomic_load(&background.number) > number + 10));
        CHECK(!raw_receive(raw.fd, &message, 0), "one sleep, and a %s after the KICK",
              gpud_message_name(message.type));
        gpud_sleep_end(&raw.view.end.sleeper);
        CHECK_EQUAL(gpud_page_messages(&raw.view), messages); /* it has no place among the frames */
        CHECK_EQUAL(atomic_load(&raw.page->sender.kicks), kicks);
    }
}

static void stray_kicks(void)
{
    struct raw raw;
    struct gpud_message kick = {.type = GPUD_MESSAGE_KICK};
    static const enum raw_step steps[] = {RAW_OFFERED, RAW_ACCEPTED, RAW_READY_SENT};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        raw_open(&raw, BACKGROUND_ADDRESS, steps[i]);
        for (int k = 0; k < 10; k++)
            CHECK(raw_send_message(raw.fd, &kick), "not sent");
        raw_to(&raw, steps[i], RAW_STREAMING);
        for (int k = 0; k < 10; k++)
            CHECK(raw_send_message(raw.fd, &kick), "not sent");
        uint32_t head = gpud_page_head(&raw.view);
        PEER_UNTIL("frames after the KICKs", 20000,
                   (take_all(&raw), gpud_page_head(&raw.view) - head > 10));
        raw_close(&raw);
    }
    raw_open(&raw, BACKGROUND_ADDRESS, RAW_STREAMING);
    while (raw_send_message(raw.fd, &kick)) /* until it hangs up, or the socket is full */
        ;
    TURNED_OUT(&raw, "unrequested KICKs");
}

/* A sender that polls, and a receiver of the library. */
static void polling_sender(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    struct gpud_message message, kick = {.type = GPUD_MESSAGE_KICK};
    uint32_t entry;
    raw_listen(&server, ADDRESS);
    acquirer_start(&acquirer, context, ADDRESS);
    raw_serve(&server, -1, RAW_SERVER_OFFERED);
    CHECK(raw_send_message(server.fd, &kick), "not sent");
    raw_serve(&server, RAW_SERVER_OFFERED, RAW_SERVER_STREAMING);
    for (int i = 0; i < 20; i++) {
        PEER_UNTIL("every credit is back", 20000,
                   (gpud_page_reap(&server.view, &entry), server.view.free_count == 4));
        atomic_store(&server.page->sender.wanted, 1);
        gpud_sleep_begin(&server.view.end.sleeper, GPUD_SLEEP_POLL);
        if (i % 2)
            CHECK(raw_send_message(server.fd, &kick), "not sent");
        CHECK(raw_publish(&server, &entry), "no credit");
        wait_for_kick(server.fd);
        CHECK(!raw_receive(server.fd, &message, 0), "one sleep, and a %s after the KICK",
              gpud_message_name(message.type));
        gpud_sleep_end(&server.view.end.sleeper);
    }
    raw_hang_up(&server);
    acquirer_stop(&acquirer);
    raw_server_close(&server);
}

/* The thread sanitizer watches: another thread acquires when the descriptor is made. */
static void descriptor_beside_acquire(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    raw_listen(&server, ADDRESS);
    for (int i = 0; i < 20; i++) {
        int fd, again;
        uint32_t entry;
        acquirer_start(&acquirer, context, ADDRESS);
        raw_serve(&server, -1, RAW_SERVER_STREAMING);
        PEER_UNTIL("a frame", 20000, atomic_load(&acquirer.frames) > 0);
        WORKS(gpud_receiver_get_fd(acquirer.receiver, &fd, &e));
        unsigned long long frames = atomic_load(&acquirer.frames);
        CHECK(raw_publish(&server, &entry), "no credit");
        PEER_UNTIL("the next frame", 20000, atomic_load(&acquirer.frames) > frames);
        WORKS(gpud_receiver_get_fd(acquirer.receiver, &again, &e));
        CHECK_EQUAL(again, fd);
        acquirer_stop(&acquirer);
        raw_hang_up(&server);
    }
    raw_server_close(&server);
}

/* --- edge-triggered loops ------------------------------------------------------------------ */

static void count_user_event(void *user, enum gpud_event event, const void *data)
{
    *(unsigned *)user += event == GPUD_EVENT_USER;
}

/* One turn of an edge-triggered loop: waits for an edge, and acquires until GPUD_TIMEOUT. Returns
 * how many frames came. */
static unsigned turn(int edges, struct gpud_receiver *receiver, const char *missing)
{
    struct epoll_event event;
    struct gpud_frame *frame;
    struct gpud_error error;
    enum gpud_status status;
    unsigned frames = 0;
    CHECK(epoll_wait(edges, &event, 1, 5000) == 1, "no edge, and %s is missing", missing);
    while ((status = gpud_receiver_acquire(receiver, 0, &frame, &error)) == GPUD_OK) {
        gpud_frame_release(&frame);
        frames++;
    }
    CHECK(status == GPUD_TIMEOUT, "%s", error.reason);
    return frames;
}

/* Turns until the receiver has answered. */
static void turn_until_answer(int edges, struct gpud_receiver *receiver, const char *answer)
{
    struct pollfd fd = {.fd = server.fd, .events = POLLIN};
    while (poll(&fd, 1, 0) == 0)
        turn(edges, receiver, answer);
}

static void publish_and_kick(void)
{
    struct gpud_message kick = {.type = GPUD_MESSAGE_KICK};
    uint32_t entry;
    CHECK(raw_publish(&server, &entry), "no credit");
    CHECK(raw_send_message(server.fd, &kick), "not sent");
}

/* Several messages wait, and the kernel announces them by one edge. */
static void edge_triggered(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = raw_context();
    unsigned told = 0, frames = 0;
    raw_listen(&server, ADDRESS);
    struct gpud_receiver *receiver =
        NEW_RECEIVER(context, .address = ADDRESS, .on_event = count_user_event, .user = &told);
    struct epoll_event wish = {.events = EPOLLIN | EPOLLET};
    int fd, loop = epoll_create1(EPOLL_CLOEXEC);
    WORKS(gpud_receiver_get_fd(receiver, &fd, &e));
    CHECK(loop >= 0 && epoll_ctl(loop, EPOLL_CTL_ADD, fd, &wish) == 0, "no epoll");

    turn(loop, receiver, "the connection");
    raw_serve(&server, -1, RAW_SERVER_OFFERED);
    turn_until_answer(loop, receiver, "the ACCEPT of the OFFER behind the HELLO");
    raw_serve(&server, RAW_SERVER_OFFERED, RAW_SERVER_CANARY);
    turn_until_answer(loop, receiver, "READY");
    raw_serve(&server, RAW_SERVER_CANARY, RAW_SERVER_READY);

    struct gpud_message event = {.type = GPUD_MESSAGE_EVENT, .position = server.view.head};
    event.event.kind = 1;
    for (int i = 0; i < 5; i++) {
        CHECK(raw_send_message(server.fd, &event), "not sent");
        gpud_page_count_message(&server.view);
    }
    publish_and_kick();
    publish_and_kick();
    while (told < 5 || frames < 2)
        frames += turn(loop, receiver, told < 5 ? "an event" : "a frame");
    close(loop);
    gpud_receiver_destroy(&receiver);
    raw_hang_up(&server);
    raw_server_close(&server);
}

int main(int argc, char **argv)
{
    static const struct background_test tests[] = {
        {"a receiver that polls is told of frames", polling_receiver},
        {"unsolicited KICKs", stray_kicks},
        {"a sender that polls is told of credits", polling_sender},
        {"a descriptor that is made while another thread acquires", descriptor_beside_acquire},
        {"an edge-triggered loop", edge_triggered},
    };
    return background_main(&background, tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
