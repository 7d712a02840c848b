/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages, in both directions, and the ends of connections. */
#include "channels.h"

#include <signal.h>
#include <sys/mman.h>

#define MESSAGES 3000

/* --- what travels ------------------------------------------------------------------------------
 */

static struct gpud_handle network_handle(uint64_t number)
{
    return (struct gpud_handle){
        .type = GPUD_HANDLE_NETWORK, .fd = -1, .size = number, .word = {~number, number + 1}};
}

static void fill_ring(struct gpud_ring_description *ring, uint64_t number)
{
    *ring = (struct gpud_ring_description){
        .slot_size = number, .slots_per_memory = 3, .memories = (uint32_t)(number % 65)};
    for (uint32_t i = 0; i < ring->memories; i++)
        ring->handle[i] = network_handle(number + i);
}

static bool is_ring(const struct gpud_ring_description *ring, uint64_t number)
{
    bool same = ring->slot_size == number && ring->memories == number % 65;
    for (uint32_t i = 0; i < ring->memories && same; i++)
        same =
            ring->handle[i].type == GPUD_HANDLE_NETWORK && ring->handle[i].word[0] == ~(number + i);
    return same;
}

static const enum gpud_message_type types[] = {
    GPUD_MESSAGE_HELLO,  GPUD_MESSAGE_OFFER, GPUD_MESSAGE_ACCEPT, GPUD_MESSAGE_CANARY,
    GPUD_MESSAGE_READY,  GPUD_MESSAGE_EVENT, GPUD_MESSAGE_EOS,    GPUD_MESSAGE_BYE,
    GPUD_MESSAGE_STATUS, GPUD_MESSAGE_KICK,  GPUD_MESSAGE_QUERY,
};

static void fill(struct gpud_message *message, uint32_t number)
{
    memset(message, 0, sizeof(*message));
    message->type = types[number % (sizeof(types) / sizeof(types[0]))];
    message->position = number;
    switch (message->type) {
    case GPUD_MESSAGE_HELLO:
        gpud_print(message->hello.network.card, "card%u", number);
        break;
    case GPUD_MESSAGE_OFFER:
        message->offer.page = network_handle(number);
        memset(message->offer.media.extra, 'a' + (int)(number % 26), GPUD_MEDIA_EXTRA_MAX - 1);
        break;
    case GPUD_MESSAGE_ACCEPT:
        fill_ring(&message->accept.ring, number);
        break;
    case GPUD_MESSAGE_EVENT:
        message->event.kind = number;
        message->event.size = number % (GPUD_EVENT_SIZE_MAX + 1);
        memset(message->event.data, (int)(number & 0xff), message->event.size);
        break;
    default:
        break;
    }
}

static void check(const struct gpud_message *message, uint32_t number)
{
    char card[32];
    CHECK_EQUAL(message->position, number);
    switch (message->type) {
    case GPUD_MESSAGE_HELLO:
        gpud_print(card, "card%u", number);
        CHECK(strcmp(message->hello.network.card, card) == 0, "\"%s\"",
              message->hello.network.card);
        break;
    case GPUD_MESSAGE_OFFER:
        CHECK(message->offer.page.type == GPUD_HANDLE_NETWORK &&
                  message->offer.page.word[1] == number + 1 &&
                  strlen(message->offer.media.extra) == GPUD_MEDIA_EXTRA_MAX - 1 &&
                  message->offer.media.extra[0] == 'a' + (char)(number % 26),
              "another OFFER");
        break;
    case GPUD_MESSAGE_ACCEPT:
        CHECK(is_ring(&message->accept.ring, number), "another ring");
        break;
    case GPUD_MESSAGE_EVENT:
        CHECK(message->event.size == number % (GPUD_EVENT_SIZE_MAX + 1) &&
                  (message->event.size == 0 ||
                   message->event.data[message->event.size - 1] == (uint8_t)number),
              "another EVENT");
        break;
    default:
        break;
    }
}

static void send_all(struct gpud_channel *channel)
{
    struct gpud_message message;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        fill(&message, i);
        send_one(channel, &message);
    }
}

static void receive_all(struct gpud_channel *channel)
{
    struct gpud_message message;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        receive_one(channel, &message, types[i % (sizeof(types) / sizeof(types[0]))]);
        check(&message, i);
    }
}

static void send_messages(int other)
{
    AUTO(gpud_listener_close)
    struct gpud_listener *listener = listen_on(address_of(7011, ""), NULL);
    say(other, 1);
    AUTO(gpud_channel_unref) struct gpud_channel *channel = accept_one(listener);
    CHECK(strcmp(channel->peer.host, getenv("GPUDIRECT_ADDRESS")) == 0, "from \"%s\"",
          channel->peer.host);
    await_connected(channel);
    send_all(channel);
    receive_all(channel);
}

static void receive_messages(int other)
{
    hear(other);
    AUTO(gpud_channel_unref) struct gpud_channel *channel = connect_to(address_of(7011, ""));
    receive_all(channel);
    send_all(channel);
    expect_end(channel, GPUD_CLOSED, "closed the connection");
}

void test_messages(void)
{
    run_both(send_messages, receive_messages);
}

/* --- before there is a connection --------------------------------------------------------------
 */

static void send_after_early(int other)
{
    struct gpud_message message;
    AUTO(gpud_listener_close)
    struct gpud_listener *listener = listen_on(address_of(7012, ""), NULL);
    say(other, 1);
    hear(other);
    AUTO(gpud_channel_unref) struct gpud_channel *channel = accept_one(listener);
    for (uint32_t i = 0; i < 4; i++) {
        receive_one(channel, &message, GPUD_MESSAGE_EVENT);
        CHECK_EQUAL(message.event.kind, i);
    }
}

static void receive_early(int other)
{
    hear(other);
    struct gpud_channel *channel = begin_to_connect(address_of(7012, ""), NULL);
    struct gpud_message message = {.type = GPUD_MESSAGE_EVENT};
    for (uint32_t i = 0; i < 4; i++) {
        message.event.kind = i;
        WORKS(gpud_channel_send(channel, &message, &e));
    }
    EXPECT(GPUD_AGAIN, "not connected yet", gpud_channel_send(channel, &message, &e));
    CHECK(!atomic_load(&channel->connected), "connected, but not accepted");
    say(other, 1);
    expect_end(channel, GPUD_CLOSED, "closed");
    gpud_channel_unref(&channel);
}

void test_early_messages(void)
{
    run_both(send_after_early, receive_early);
}

/* --- what cannot travel ------------------------------------------------------------------------
 */

static void send_local_memory(int other)
{
    struct gpud_listener *listener = listen_on(address_of(7013, ""), NULL);
    say(other, 1);
    struct gpud_channel *channel = accept_one(listener);
    await_connected(channel);
    static const enum gpud_handle_type local[] = {GPUD_HANDLE_LOCAL, GPUD_HANDLE_MEMFD,
                                                  GPUD_HANDLE_BUS_ADDRESS};
    int fd = memfd_create("memory", MFD_CLOEXEC);
    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
        struct gpud_message message = {.type = GPUD_MESSAGE_OFFER};
        message.offer.page = (struct gpud_handle){.type = local[i], .fd = fd};
        EXPECT(GPUD_INVALID, "memory of this host", gpud_channel_send(channel, &message, &e));
        message = (struct gpud_message){.type = GPUD_MESSAGE_GROW, .grow = {.memories = 1}};
        message.grow.handle[0] = (struct gpud_handle){.type = local[i], .fd = fd};
        EXPECT(GPUD_INVALID, "memory of this host", gpud_channel_send(channel, &message, &e));
    }
    close(fd);
    gpud_channel_unref(&channel);
    gpud_listener_close(&listener);
}

static void receive_nothing(int other)
{
    hear(other);
    struct gpud_channel *channel = connect_to(address_of(7013, ""));
    expect_end(channel, GPUD_CLOSED, "closed");
    gpud_channel_unref(&channel);
}

void test_local_memory(void)
{
    run_both(send_local_memory, receive_nothing);
}

/* --- the end -----------------------------------------------------------------------------------
 */

/* Ways to leave behind the last word. */
enum { HANG_UP, UNREF, EXIT, WAYS };

static void send_last_words(int other)
{
    struct gpud_listener *listener = listen_on(address_of(7014, ""), NULL);
    say(other, 1);
    for (int way = 0; way < WAYS; way++) {
        struct gpud_message message = {.type = GPUD_MESSAGE_EVENT,
                                       .event.size = GPUD_EVENT_SIZE_MAX};
        struct gpud_channel *channel = accept_one(listener);
        await_connected(channel);
        for (int i = 0; i < 20; i++)
            send_one(channel, &message);
        message = (struct gpud_message){.type = GPUD_MESSAGE_BYE};
        gpud_print(message.refuse.reason, "that was all");
        send_one(channel, &message);
        if (way == EXIT) {
            gpud_channel_unref(&channel);
            exit(0);
        }
        if (way == HANG_UP) {
            gpud_channel_hang_up(channel);
            EXPECT(GPUD_CLOSED, "hung up", gpud_channel_receive(channel, &message, &e));
            CHECK(gpud_channel_is_dead(channel), "hung up, and alive");
        }
        if (way == UNREF)
            gpud_channel_unref(&channel);
        hear(other);
        gpud_channel_unref(&channel);
    }
}

static void receive_last_words(int other)
{
    hear(other);
    for (int way = 0; way < WAYS; way++) {
        struct gpud_message message;
        struct gpud_channel *channel = connect_to(address_of(7014, ""));
        for (int i = 0; i < 20; i++)
            receive_one(channel, &message, GPUD_MESSAGE_EVENT);
        receive_one(channel, &message, GPUD_MESSAGE_BYE);
        CHECK(strcmp(message.refuse.reason, "that was all") == 0, "\"%s\"", message.refuse.reason);
        expect_end(channel, GPUD_CLOSED, "closed the connection");
        gpud_channel_unref(&channel);
        if (way != EXIT)
            say(other, 1);
    }
}

void test_last_words(void)
{
    run_both(send_last_words, receive_last_words);
}

/* Says what the process of its child is, which lives on; 0: it has none. */
static void send_until_killed(int other, bool forks)
{
    struct gpud_listener *listener = listen_on(address_of(7015, ""), NULL);
    say(other, 1);
    struct gpud_channel *channel = accept_one(listener);
    struct gpud_message message = {.type = GPUD_MESSAGE_EVENT};
    await_connected(channel);
    send_one(channel, &message);
    pid_t child = forks ? fork() : 0;
    CHECK(child >= 0, "fork: %m");
    if (!forks || child > 0)
        say(other, (uint64_t)child);
    pause();
}

static void send_alone(int other)
{
    send_until_killed(other, false);
}

static void send_with_child(int other)
{
    send_until_killed(other, true);
}

/* What a process that is killed said is heard, and its end is seen, whatever a child that it has
 * forked keeps. */
static void see_death(end_fn *end)
{
    int other;
    struct gpud_message message;
    pid_t sender = run_apart(end, &other);
    hear(other);
    struct gpud_channel *channel = connect_to(address_of(7015, ""));
    pid_t child = (pid_t)hear(other);
    kill(sender, SIGKILL);
    receive_one(channel, &message, GPUD_MESSAGE_EVENT);
    expect_end(channel, GPUD_CLOSED, "closed");
    gpud_channel_unref(&channel);
    close(other);
    if (child)
        CHECK(kill(child, 0) == 0, "the child has ended: %m");

    /* The port is free again, while the child lives. */
    struct gpud_listener *listener = listen_on(address_of(7015, ""), NULL);
    gpud_listener_close(&listener);
    if (child)
        kill(child, SIGKILL);
}

void test_death(void)
{
    see_death(send_alone);
}

void test_death_of_a_parent(void)
{
    see_death(send_with_child);
}
