/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames, written into another process's ring by the card. */
#include "link.h"

#include <pthread.h>
#include <signal.h>

#define FRAMES 10000
#define SMALL 4096
#define LARGE (1280 * 720 * 2 + 44)
#define LARGE_FRAMES 60

/* --- frames ------------------------------------------------------------------------------------
 */

static void stream_out(struct tx_link *link, unsigned frames)
{
    for (unsigned i = 0; i < frames; i++)
        CHECK(send_frame(link), "the link failed");
    while (link->page.free_count < ENTRIES) {
        reap(link);
        usleep(1000);
    }
}

static void stream_in(struct rx_link *link, unsigned frames)
{
    uint32_t entry;
    for (unsigned i = 0; i < frames; i++) {
        CHECK(take_frame(link, &entry), "the link failed");
        give_back(link, entry);
    }
}

static void send_frames(int other)
{
    AUTO(end_tx) struct tx_link link = {.channel = NULL};
    begin_tx(&link, accept_from(other, 7021), SMALL, NULL);
    stream_out(&link, FRAMES);
    hear(other);
}

static void receive_frames(int other)
{
    AUTO(end_rx) struct rx_link link = {.channel = NULL};
    begin_rx(&link, connect_from(other, 7021), SMALL);
    stream_in(&link, FRAMES);
    say(other, 1);
    expect_end(link.channel, GPUD_CLOSED, "closed");
}

static void send_large_frames(int other)
{
    AUTO(end_tx) struct tx_link link = {.channel = NULL};
    begin_tx(&link, accept_from(other, 7022), LARGE, NULL);
    stream_out(&link, LARGE_FRAMES);
    hear(other);
}

static void receive_large_frames(int other)
{
    AUTO(end_rx) struct rx_link link = {.channel = NULL};
    begin_rx(&link, connect_from(other, 7022), LARGE);
    stream_in(&link, LARGE_FRAMES);
    say(other, 1);
}

void test_frames(void)
{
    run_both(send_frames, receive_frames);
    run_both(send_large_frames, receive_large_frames);
}

/* --- sleeping ----------------------------------------------------------------------------------
 */

struct sleeper {
    struct gpud_page_end *end;
    atomic_bool ready, asleep;
    int64_t woken;
};

static bool is_ready(void *arg)
{
    struct sleeper *sleeper = arg;
    atomic_store(&sleeper->asleep, true);
    return atomic_load(&sleeper->ready);
}

static void *sleep_long(void *arg)
{
    struct sleeper *sleeper = arg;
    while (!atomic_load(&sleeper->ready))
        gpud_page_sleep(sleeper->end, is_ready, sleeper, gpud_deadline(PATIENCE));
    sleeper->woken = gpud_now();
    return NULL;
}

/* A thread of this side that sleeps is woken by another one of it. */
static void rouse_own(struct gpud_page_end *end)
{
    struct sleeper sleeper = {.end = end};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sleep_long, &sleeper) == 0, "no thread");
    while (!atomic_load(&sleeper.asleep))
        usleep(1000);
    int64_t start = gpud_now();
    atomic_store(&sleeper.ready, true);
    gpud_page_rouse(end);
    pthread_join(thread, NULL);
    CHECK(sleeper.woken - start < PATIENCE / 2, "only the deadline woke it");
}

static bool never(void *arg)
{
    return false;
}

/* Sleeps until the other side sends something, before the deadline. */
static void sleep_for_notice(struct gpud_page_end *end, bool (*ready)(void *arg), void *arg)
{
    int64_t start = gpud_now();
    while (!ready(arg)) {
        gpud_page_sleep(end, ready, arg, start + PATIENCE);
        CHECK(gpud_now() - start < PATIENCE / 2, "only the deadline ended the sleep");
    }
}

static bool has_frame(void *arg)
{
    return gpud_page_has_frames(arg);
}

static bool has_return(void *arg)
{
    return gpud_page_has_returns(arg);
}

#define TURNS 200

/* Both sleep for each other in turn. In between the sender's other thread, which receives, is the
 * one that deals with what comes. */
static void send_in_turn(int other)
{
    AUTO(end_tx) struct tx_link link = {.channel = NULL};
    struct gpud_message message;
    begin_tx(&link, accept_from(other, 7023), SMALL, NULL);
    rouse_own(&link.page.end);
    int64_t start = gpud_now();
    gpud_page_sleep(&link.page.end, never, NULL, start + 100 * GPUD_MSEC);
    for (int i = 0; i < TURNS; i++) {
        CHECK(send_frame(&link), "the link failed");
        if (i % 3 == 0)
            CHECK(gpud_channel_receive(link.channel, &message, NULL) == GPUD_AGAIN, "a message");
        sleep_for_notice(&link.page.end, has_return, &link.page);
        reap(&link);
    }
    hear(other);
}

static void receive_in_turn(int other)
{
    AUTO(end_rx) struct rx_link link = {.channel = NULL};
    struct gpud_message message;
    uint32_t entry;
    begin_rx(&link, connect_from(other, 7023), SMALL);
    rouse_own(&link.page.end);
    for (int i = 0; i < TURNS; i++) {
        if (i % 3 == 1)
            CHECK(gpud_channel_receive(link.channel, &message, NULL) == GPUD_AGAIN, "a message");
        sleep_for_notice(&link.page.end, has_frame, &link.page);
        CHECK(take_frame(&link, &entry), "the link failed");
        give_back(&link, entry);
    }
    say(other, 1);
}

void test_sleep(void)
{
    run_both(send_in_turn, receive_in_turn);
}

/* Another thread of the side polls the channel all the time, and takes what makes it readable. */
static atomic_bool stop_polling;

static void *poll_channel(void *arg)
{
    struct gpud_channel *channel = arg;
    struct gpud_message message;
    while (!atomic_load(&stop_polling)) {
        gpud_channel_wait(channel, gpud_now() + 20 * GPUD_MSEC, NULL);
        enum gpud_status status = gpud_channel_receive(channel, &message, NULL);
        CHECK(status == GPUD_AGAIN || (status == GPUD_OK && message.type == GPUD_MESSAGE_EOS),
              "the poller gets %s", gpud_status_string(status));
        if (status == GPUD_OK)
            break;
    }
    return NULL;
}

#define POLLED_TURNS 1000

static void send_beside_poller(int other)
{
    AUTO(end_tx) struct tx_link link = {.channel = NULL};
    pthread_t thread;
    begin_tx(&link, accept_from(other, 7024), SMALL, NULL);
    CHECK(pthread_create(&thread, NULL, poll_channel, link.channel) == 0, "no thread");
    for (int i = 0; i < POLLED_TURNS; i++) {
        CHECK(send_frame(&link), "the link failed");
        sleep_for_notice(&link.page.end, has_return, &link.page);
        reap(&link);
    }
    /* The poller is the one that is to hear of messages, though this thread sleeps beside it. */
    say(other, 1);
    int64_t start = gpud_now();
    while (gpud_now() - start < 200 * GPUD_MSEC)
        gpud_page_sleep(&link.page.end, never, NULL, gpud_now() + 50 * GPUD_MSEC);
    pthread_join(thread, NULL);
    hear(other);
}

static void receive_beside_poller(int other)
{
    AUTO(end_rx) struct rx_link link = {.channel = NULL};
    struct gpud_message message = {.type = GPUD_MESSAGE_EOS};
    uint32_t entry;
    begin_rx(&link, connect_from(other, 7024), SMALL);
    for (int i = 0; i < POLLED_TURNS; i++) {
        CHECK(take_frame(&link, &entry), "the link failed");
        give_back(&link, entry);
    }
    hear(other);
    usleep(50000); /* it sleeps by then, and need not */
    send_one(link.channel, &message);
    say(other, 1);
}

void test_pollers(void)
{
    run_both(send_beside_poller, receive_beside_poller);
}
