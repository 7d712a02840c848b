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

static struct gpud_channel *accept_from(int other, uint16_t port)
{
    struct gpud_listener *listener = listen_on(address_of(port, ""), NULL);
    say(other, 1);
    struct gpud_channel *channel = accept_one(listener);
    await_connected(channel);
    gpud_listener_close(&listener);
    return channel;
}

static struct gpud_channel *connect_from(int other, uint16_t port)
{
    hear(other);
    return connect_to(address_of(port, ""));
}

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
    struct tx_link link = {.channel = NULL};
    begin_tx(&link, accept_from(other, 7021), SMALL);
    stream_out(&link, FRAMES);
    hear(other);
    end_tx(&link);
}

static void receive_frames(int other)
{
    struct rx_link link = {.channel = NULL};
    begin_rx(&link, connect_from(other, 7021), SMALL);
    stream_in(&link, FRAMES);
    say(other, 1);
    expect_end(link.channel, GPUD_CLOSED, "closed");
    end_rx(&link);
}

static void send_large_frames(int other)
{
    struct tx_link link = {.channel = NULL};
    begin_tx(&link, accept_from(other, 7022), LARGE);
    stream_out(&link, LARGE_FRAMES);
    hear(other);
    end_tx(&link);
}

static void receive_large_frames(int other)
{
    struct rx_link link = {.channel = NULL};
    begin_rx(&link, connect_from(other, 7022), LARGE);
    stream_in(&link, LARGE_FRAMES);
    say(other, 1);
    end_rx(&link);
}

void test_frames(void)
{
    run_both(send_frames, receive_frames);
    run_both(send_large_frames, receive_large_frames);
}
