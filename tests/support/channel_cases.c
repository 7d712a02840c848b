/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Control channels between processes, by any kind between hosts. */
#include "base/base.h"
#include "support/channels.h"
#include "support/peer.h"

#include <gpudirect/channel.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static void test_nobody(void)
{
    struct gpud_channel *channel = begin_to_connect(address_of(""), NULL);
    CHECK(!atomic_load(&channel->connected), "connected without a listener");
    CHECK(network.is_tcp || !gpud_channel_is_dead(channel), "given up at once");
    CHECK(channel->peer.pid == 0 && channel->peer.foreign && !channel->peer.same_process &&
              strcmp(channel->peer.host, network.host) == 0,
          "the peer is at \"%s\"", channel->peer.host);
    lose(channel, GPUD_CLOSED, "no sender listens on ");

    expect_lost(address_at("no-such-host.invalid", ""), "no-such-host.invalid");

    /* Given up on before it came to anything. */
    channel = begin_to_connect(address_of(""), NULL);
    gpud_channel_hang_up(channel);
    lose(channel, GPUD_CLOSED, "this side hung up");
    channel = begin_to_connect(address_at("no-such-host.invalid", ""), NULL);
    gpud_channel_unref(&channel);

    struct gpud_address address;
    struct gpud_access_rule access = everybody();
    WORKS(gpud_address_resolve(address_at("0.0.0.0", ""), &address, &e));
    EXPECT(GPUD_INVALID, "to listen on", gpud_channel_connect(&address, &access, &channel, &e));
}

static void expect_taken(const char *text, const char *says)
{
    struct gpud_listener *listener;
    struct gpud_error error = {.reason = ""};
    enum gpud_status status = try_to_listen(text, NULL, &listener, &error);
    CHECK(status == GPUD_IO && error.native == EADDRINUSE && strstr(error.reason, says),
          "listening on %s once more: %s: %s", text, gpud_status_string(status), error.reason);
}

/* "(rdma-channel); stop that one": how this program is named in a reason. */
static const char *own_name(const char *rest)
{
    static char text[64];
    snprintf(text, sizeof(text), "(%s)%s", program_invocation_short_name, rest);
    return text;
}

/* From now on this process knows no more of the senders here than one on another host. */
static void leave_host(void)
{
    char own[GPUD_ADDRESS_MAX];
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    snprintf(own, sizeof(own), "%s/away-XXXXXX", runtime ? runtime : "/tmp");
    CHECK(mkdtemp(own) && setenv("XDG_RUNTIME_DIR", own, 1) == 0, "mkdtemp: %m");
}

static void send_names(int other)
{
    struct gpud_listener *cam1 = listen_on(address_of("/cam1"), NULL);
    expect_taken(address_of("/cam1"), "this process itself");
    expect_taken(address_at("0.0.0.0", "/cam1"), "listens on the port");

    say(other, 1); /* one channel: also without a name */
    AUTO(gpud_channel_unref) struct gpud_channel *first = accept_connected(cam1);
    greet(first, 1);

    struct gpud_listener *cam2 = listen_on(address_of("/cam2"), NULL);
    say(other, 2); /* two channels */
    AUTO(gpud_channel_unref) struct gpud_channel *second = accept_connected(cam2);
    greet(second, 2);
    AUTO(gpud_channel_unref) struct gpud_channel *third = accept_connected(cam1);
    greet(third, 3);

    /* Whichever looks at the descriptor, the other one is told. */
    hear(other);
    AUTO(gpud_channel_unref) struct gpud_channel *channel = NULL;
    struct gpud_peer peer;
    CHECK(gpud_fd_wait(cam1->fd, gpud_deadline(PATIENCE), NULL) == GPUD_OK, "no connection");
    EXPECT(GPUD_AGAIN, "",
           (gpud_fail(&e, GPUD_AGAIN, "no receiver waits to connect"),
            gpud_listener_accept(cam1, &channel, &peer, &e)));
    CHECK(gpud_fd_wait(cam2->fd, gpud_deadline(PATIENCE), NULL) == GPUD_OK,
          "the listener is not notified");
    WORKS(gpud_listener_accept(cam2, &channel, &peer, &e));
    await_connected(channel);
    greet(channel, 4);

    struct gpud_listener *nameless = listen_on(address_of(""), NULL);
    say(other, 3);
    AUTO(gpud_channel_unref) struct gpud_channel *fourth = accept_connected(nameless);
    greet(fourth, 5);

    hear(other);
    gpud_listener_close(&cam1);
    gpud_listener_close(&cam2);
    gpud_listener_close(&nameless);
    greet(fourth, 6); /* what was accepted lives on */
    say(other, 4);
    hear(other);
}

/* By this process. */
static void expect_received(const char *address)
{
    struct gpud_channel_list *channels;
    struct gpud_channel_info info = GPUD_INFO_INIT(info);
    bool found = false;
    uint32_t count;
    WORKS(gpud_channel_list_create(NULL, PATIENCE, &channels, &count, NULL, &e));
    for (uint32_t i = 0; i < count; i++) {
        WORKS(gpud_channel_list_get_info(channels, i, &info, &e));
        found |= strcmp(info.address, address) == 0 && info.receiver_pid == getpid();
    }
    gpud_channel_list_destroy(&channels);
    CHECK(found, "%s is not listed as received here", address);
}

static void receive_names(int other)
{
    hear(other);
    expect_taken(address_of("/cam1"), own_name("; stop that one"));
    expect_taken(address_at("0.0.0.0", "/cam3"), own_name(" listens on the port"));
    leave_host(); /* the sender is not asked */
    struct gpud_channel *first = connect_to(address_of(""));
    expect_greeting(first, 1);
    expect_received(address_of(""));

    hear(other);
    struct gpud_channel *lost = begin_to_connect(address_of("/cam9"), NULL);
    expect_end(lost, GPUD_CLOSED, "no channel \"cam9\"");
    lose(lost, GPUD_CLOSED, "there are: cam1, cam2");
    expect_lost(address_of(""), "several channels");
    AUTO(gpud_channel_unref) struct gpud_channel *second = connect_to(address_of("/cam2"));
    expect_greeting(second, 2);
    AUTO(gpud_channel_unref) struct gpud_channel *third = connect_to(address_of("/cam1"));
    expect_greeting(third, 3);

    say(other, 1);
    AUTO(gpud_channel_unref) struct gpud_channel *fourth = connect_to(address_of("/cam2"));
    expect_greeting(fourth, 4);

    hear(other);
    AUTO(gpud_channel_unref) struct gpud_channel *fifth = connect_to(address_of(""));
    expect_greeting(fifth, 5);

    say(other, 2);
    hear(other);
    expect_greeting(fifth, 6);
    expect_lost(address_of("/cam1"), "no sender listens");
    say(other, 3);
    lose(first, GPUD_CLOSED, "closed the connection");
}

#define STREAMS 24 /* more than fit into one answer */

static void send_list(int other)
{
    struct gpud_listener *listeners[STREAMS + 1];
    char name[32];
    listeners[0] = listen_on(address_of("/cam1"), NULL);
    for (int i = 1; i <= STREAMS; i++) {
        snprintf(name, sizeof(name), "/cam1/s%02d", i);
        listeners[i] = listen_on(address_of(name), NULL);
    }
    say(other, 1);
    AUTO(gpud_channel_unref)
    struct gpud_channel *channel = accept_connected(listeners[0]); /* answers the questions, too */
    for (int i = 0; i <= STREAMS; i++)
        gpud_listener_close(&listeners[i]);
    say(other, 2);
    hear(other);
}

static void receive_list(int other)
{
    struct gpud_channel_list *list;
    struct gpud_channel_search_info search = GPUD_INFO_INIT(search);
    struct gpud_channel_info info = GPUD_INFO_INIT(info);
    uint32_t count;
    char wanted[80];
    hear(other);
    WORKS(gpud_channel_list_create(address_of("/"), PATIENCE, &list, &count, &search, &e));
    CHECK(count == STREAMS + 1 && search.omitted == 0, "%u channels", count);
    for (int i = 0; i <= STREAMS; i++) {
        WORKS(gpud_channel_list_get_info(list, (uint32_t)i, &info, &e));
        snprintf(wanted, sizeof(wanted), i ? "%s/s%02d" : "%s", address_of("/cam1"), i);
        CHECK(strcmp(info.address, wanted) == 0 && !info.answered && info.pid == 0 &&
                  strstr(info.reason, "its name only"),
              "%s for %s: %s", info.address, wanted, info.reason);
    }
    gpud_channel_list_destroy(&list);
    AUTO(gpud_channel_unref) struct gpud_channel *channel = connect_to(address_of("/cam1"));
    hear(other);
    WORKS(gpud_channel_list_create(address_of("/"), PATIENCE, &list, &count, &search, &e));
    CHECK(count == 0 && strstr(search.note, "no sender listens"), "%u: %s", count, search.note);
    gpud_channel_list_destroy(&list);
    EXPECT(GPUD_INVALID, "followed by /name",
           gpud_channel_list_create(address_of("/cam1/"), 0, &list, NULL, NULL, &e));
    EXPECT(GPUD_INVALID, "to listen on",
           gpud_channel_list_create(address_at("0.0.0.0", "/"), 0, &list, NULL, NULL, &e));
    say(other, 1);
}
/* --- several processes on one port, also after the one that has it was killed or has ended ---- */

#define CHANNELS_MAX 8

/* Greets each that connects, and all again whenever the test says something, until it says 0. */
static void serve(int other, const char *name, uint32_t number)
{
    struct gpud_channel *channels[CHANNELS_MAX];
    bool greeted[CHANNELS_MAX] = {false};
    unsigned count = 0;
    struct gpud_listener *listener = listen_on(address_of(name), NULL);
    say(other, number);
    for (uint64_t word = 1; word;) {
        struct gpud_message message;
        struct gpud_peer peer;
        struct gpud_error error = {.reason = ""};
        struct pollfd fds[2 + CHANNELS_MAX] = {{.fd = other, .events = POLLIN},
                                               {.fd = listener->fd, .events = POLLIN}};
        for (unsigned i = 0; i < count; i++)
            fds[2 + i] = (struct pollfd){.fd = greeted[i] ? -1 : channels[i]->fd, .events = POLLIN};
        CHECK(poll(fds, 2 + count, (int)(2 * PATIENCE / GPUD_MSEC)) > 0, "the test says nothing");
        for (unsigned i = 0; i < count; i++) {
            if (greeted[i])
                continue;
            gpud_channel_receive(channels[i], &message, &error);
            greeted[i] = atomic_load(&channels[i]->connected);
            if (greeted[i])
                greet(channels[i], number);
        }
        if (fds[1].revents && count < CHANNELS_MAX) {
            enum gpud_status status =
                gpud_listener_accept(listener, &channels[count], &peer, &error);
            CHECK(status == GPUD_OK || status == GPUD_AGAIN, "accepting: %s", error.reason);
            count += status == GPUD_OK;
        }
        if (!fds[0].revents)
            continue;
        word = hear(other);
        for (unsigned i = 0; i < count && word; i++)
            if (greeted[i] && !gpud_channel_is_dead(channels[i]))
                greet(channels[i], number);
    }
    gpud_listener_close(&listener);
    while (count)
        gpud_channel_unref(&channels[--count]);
    say(other, number);
}

static void serve_first(int other)
{
    serve(other, "/cam1", 1);
}

static void serve_second(int other)
{
    hear(other);
    expect_taken(address_of("/cam1"), "another sender has the address");
    expect_taken(address_of("/cam1"), own_name(""));
    serve(other, "/cam2", 2);
}

static void serve_third(int other)
{
    hear(other);
    serve(other, "/cam1", 3);
}

/* A receiver that tries again, as they all do. */
static struct gpud_channel *receive_from(const char *name, uint32_t number)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    for (;;) {
        struct gpud_error error = {.reason = ""};
        struct gpud_message message;
        struct gpud_channel *channel = begin_to_connect(address_of(name), NULL);
        enum gpud_status status;
        while ((status = gpud_channel_receive(channel, &message, &error)) == GPUD_AGAIN)
            CHECK(gpud_channel_wait(channel, deadline, NULL) == GPUD_OK, "%s: nothing comes", name);
        if (status == GPUD_OK) {
            CHECK(message.type == GPUD_MESSAGE_EVENT && message.event.kind == number,
                  "%s: another sender's greeting", name);
            return channel;
        }
        CHECK(status == GPUD_CLOSED && gpud_now() < deadline, "%s: %s", name, error.reason);
        gpud_channel_unref(&channel);
        usleep(20000);
    }
}

static void expect_list(const char *first, const char *second)
{
    const char *wanted[] = {first, second};
    struct gpud_channel_list *list;
    struct gpud_channel_info info = GPUD_INFO_INIT(info);
    uint32_t count;
    WORKS(gpud_channel_list_create(address_of("/"), PATIENCE, &list, &count, NULL, &e));
    CHECK(count == (second ? 2 : 1), "%u channels at the port", count);
    for (uint32_t i = 0; i < count; i++) {
        WORKS(gpud_channel_list_get_info(list, i, &info, &e));
        CHECK(strcmp(info.address, address_of(wanted[i])) == 0, "%s", info.address);
    }
    gpud_channel_list_destroy(&list);
}

static void end_sender(pid_t child, int other)
{
    say(other, 0);
    hear(other);
    await_end(child);
    close(other);
}

static void test_sharing(void)
{
    int first, second, third;
    pid_t children[] = {run_apart(serve_first, &first), run_apart(serve_second, &second),
                        run_apart(serve_third, &third)};
    hear(first);
    say(second, 1);
    hear(second);
    leave_host();
    AUTO(gpud_channel_unref)
    struct gpud_channel *cam1 = receive_from("/cam1", 1), *cam2 = receive_from("/cam2", 2);
    expect_list("/cam1", "/cam2");
    expect_lost(address_of("/cam9"), "there are: cam1, cam2");
    expect_lost(address_of(""), "several channels");

    /* The port's holder is killed: the other one has it then, and its connections go on. */
    CHECK(kill(children[0], SIGKILL) == 0 && waitpid(children[0], NULL, 0) == children[0],
          "kill: %m");
    AUTO(gpud_channel_unref) struct gpud_channel *again = receive_from("/cam2", 2);
    say(second, 1);
    expect_greeting(cam2, 2);
    expect_greeting(again, 2);
    expect_list("/cam2", NULL);
    expect_lost(address_of("/cam1"), "no channel \"cam1\"");
    gpud_channel_unref(&again);
    again = receive_from("", 2); /* the only one */
    gpud_channel_unref(&again);

    /* The first one's successor, behind the new holder; which ends in its turn. */
    say(third, 1);
    hear(third);
    again = receive_from("/cam1", 3);
    expect_list("/cam1", "/cam2");
    end_sender(children[1], second);
    AUTO(gpud_channel_unref) struct gpud_channel *last = receive_from("/cam1", 3);
    say(third, 1);
    expect_greeting(again, 3);
    expect_list("/cam1", NULL);
    end_sender(children[2], third);
    expect_lost(address_of("/cam1"), "no sender listens");
}

#define MESSAGES 3000

/* --- what travels ----------------------------------------------------------------------------- */

static struct gpud_handle network_handle(uint64_t number)
{
    return (struct gpud_handle){
        .type = GPUD_HANDLE_NETWORK, .fd = -1, .size = number, .word = {~number, number + 1}};
}

static const enum gpud_message_type types[] = {
    GPUD_MESSAGE_HELLO,  GPUD_MESSAGE_OFFER, GPUD_MESSAGE_ACCEPT, GPUD_MESSAGE_CANARY,
    GPUD_MESSAGE_READY,  GPUD_MESSAGE_EVENT, GPUD_MESSAGE_EOS,    GPUD_MESSAGE_BYE,
    GPUD_MESSAGE_STATUS, GPUD_MESSAGE_KICK,  GPUD_MESSAGE_QUERY,
};

static void fill_message(struct gpud_message *message, uint32_t number)
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
        message->accept.ring = (struct gpud_ring_description){
            .slot_size = number, .slots_per_memory = 3, .memories = number % 65};
        for (uint32_t i = 0; i < message->accept.ring.memories; i++)
            message->accept.ring.handle[i] = network_handle(number + i);
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

/* Each byte that it would be sent as is right. */
static void check_message(struct gpud_message *message, uint32_t number)
{
    struct gpud_message wanted;
    static uint8_t bytes[2][GPUD_MESSAGE_MAX];
    size_t sizes[2];
    fill_message(&wanted, number);
    WORKS(gpud_message_encode(message, bytes[0], sizeof(bytes[0]), &sizes[0], &e));
    WORKS(gpud_message_encode(&wanted, bytes[1], sizeof(bytes[1]), &sizes[1], &e));
    CHECK(sizes[0] == sizes[1] && memcmp(bytes[0], bytes[1], sizes[0]) == 0,
          "message %u is another %s", number, gpud_message_name(message->type));
}

static void send_all(struct gpud_channel *channel)
{
    struct gpud_message message;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        fill_message(&message, i);
        send_one(channel, &message);
    }
}

static void receive_all(struct gpud_channel *channel)
{
    struct gpud_message message;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        receive_one(channel, &message, types[i % (sizeof(types) / sizeof(types[0]))]);
        check_message(&message, i);
    }
}

static void send_messages(int other)
{
    AUTO(gpud_channel_unref) struct gpud_channel *channel = accept_from(other);
    CHECK(strcmp(channel->peer.host, network.host) == 0, "from \"%s\"", channel->peer.host);
    send_all(channel);
    receive_all(channel);
}

static void receive_messages(int other)
{
    struct gpud_channel *channel = connect_from(other);
    receive_all(channel);
    send_all(channel);
    lose(channel, GPUD_CLOSED, "closed the connection");
}

static void send_after_early(int other)
{
    struct gpud_message message;
    AUTO(gpud_listener_close)
    struct gpud_listener *listener = listen_on(address_of(""), NULL);
    say(other, 1);
    hear(other);
    AUTO(gpud_channel_unref) struct gpud_channel *channel = accept_one(listener);
    for (uint32_t i = 0; i < network.early_messages; i++) {
        receive_one(channel, &message, GPUD_MESSAGE_EVENT);
        CHECK_EQUAL(message.event.kind, i);
    }
}

static void receive_early(int other)
{
    hear(other);
    struct gpud_channel *channel = begin_to_connect(address_of(""), NULL);
    struct gpud_message message = {.type = GPUD_MESSAGE_EVENT};
    for (uint32_t i = 0; i < network.early_messages; i++) {
        message.event.kind = i;
        WORKS(gpud_channel_send(channel, &message, &e));
    }
    EXPECT(GPUD_AGAIN, "", gpud_channel_send(channel, &message, &e));
    CHECK(!atomic_load(&channel->connected), "connected, but not accepted");
    say(other, 1);
    lose(channel, GPUD_CLOSED, "closed");
}

static void send_local_memory(int other)
{
    AUTO(gpud_channel_unref) struct gpud_channel *channel = accept_from(other);
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
}

static void receive_nothing(int other)
{
    lose(connect_from(other), GPUD_CLOSED, "closed");
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Ways to leave behind the last word. */
enum { HANG_UP, UNREF, EXIT, WAYS };

static void send_last_words(int other)
{
    struct gpud_listener *listener = listen_on(address_of(""), NULL);
    say(other, 1);
    for (int way = 0; way < WAYS; way++) {
        struct gpud_message message = {.type = GPUD_MESSAGE_EVENT,
                                       .event.size = GPUD_EVENT_SIZE_MAX};
        struct gpud_channel *channel = accept_connected(listener);
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
        struct gpud_channel *channel = connect_to(address_of(""));
        for (int i = 0; i < 20; i++)
            receive_one(channel, &message, GPUD_MESSAGE_EVENT);
        receive_one(channel, &message, GPUD_MESSAGE_BYE);
        CHECK(strcmp(message.refuse.reason, "that was all") == 0, "\"%s\"", message.refuse.reason);
        lose(channel, GPUD_CLOSED, "closed the connection");
        if (way != EXIT)
            say(other, 1);
    }
}

static bool forks;

/* Says what the process of its child is, which lives on; 0: it has none. It listens till its end.
 */
static void send_until_killed(int other)
{
    struct gpud_listener *listener = listen_on(address_of(""), NULL);
    say(other, 1);
    struct gpud_channel *channel = accept_connected(listener);
    hear(other);
    send_one(channel, &(struct gpud_message){.type = GPUD_MESSAGE_EVENT});
    pid_t child = forks ? fork() : 0;
    CHECK(child >= 0, "fork: %m");
    if (!forks || child > 0)
        say(other, (uint64_t)child);
    pause();
}

/* What a process that is killed said is heard, and its end is seen, whatever a child that it has
 * forked keeps. */
static void test_death(void)
{
    int other;
    struct gpud_message message;
    pid_t sender = run_apart(send_until_killed, &other);
    struct gpud_channel *channel = connect_from(other);
    pid_t child = (pid_t)hear(other);
    if (network.is_tcp) /* the message may wait for the sender's own thread */
        receive_one(channel, &message, GPUD_MESSAGE_EVENT);
    kill(sender, SIGKILL);
    if (!network.is_tcp)
        receive_one(channel, &message, GPUD_MESSAGE_EVENT);
    lose(channel, GPUD_CLOSED, network.death);
    close(other);
    if (child)
        CHECK(kill(child, 0) == 0, "the child has ended: %m");

    /* The port is free again, while the child lives. */
    struct gpud_listener *listener = listen_on(address_of(""), NULL);
    gpud_listener_close(&listener);
    if (child)
        kill(child, SIGKILL);
}

static void test_death_of_a_parent(void)
{
    forks = true;
    test_death();
}
static void test_addresses(void)
{
    AUTO(gpud_listener_close) struct gpud_listener *listener = listen_on(address6_of("/six"), NULL);
    join_once(listener, address6_of("/six"), network.host6);
    gpud_listener_close(&listener);

    listener = listen_on(address_at("0.0.0.0", ""), NULL);
    join_once(listener, address_of(""), network.host);
    gpud_listener_close(&listener);

    listener = listen_on(address_at("[::]", ""), NULL);
    join_once(listener, address6_of(""), network.host6);
    join_once(listener, address_of(""), network.host);
}

const struct network_case channel_cases[] = {
    {"nobody", test_nobody},
    {"names", .sender = send_names, .receiver = receive_names},
    {"list", .sender = send_list, .receiver = receive_list},
    {"sharing", test_sharing},
    {"addresses", test_addresses},
    {"early-messages", .sender = send_after_early, .receiver = receive_early},
    {"messages", .sender = send_messages, .receiver = receive_messages},
    {"local-memory", .sender = send_local_memory, .receiver = receive_nothing},
    {"last-words", .sender = send_last_words, .receiver = receive_last_words},
    {"death", test_death},
    {"death-of-a-parent", test_death_of_a_parent},
    {NULL},
};
