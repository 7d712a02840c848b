/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A side that polls its connection is woken by one KICK per sleep. Unsolicited KICKs change
 * nothing, and a flood of them ends the link. */
#include "actor.h"

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

int main(int argc, char **argv)
{
    static const struct background_test tests[] = {
        {"a receiver that polls is told of frames", polling_receiver},
        {"unsolicited KICKs", stray_kicks},
        {"a sender that polls is told of credits", polling_sender},
        {"a descriptor that is made while another thread acquires", descriptor_beside_acquire},
    };
    return background_main(&background, tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
