/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/channels.h"

#include "base/base.h"
#include "support/count.h"
#include "support/peer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* --- processes -------------------------------------------------------------------------------- */

static pid_t start(end_fn *end, int own, int others)
{
    pid_t child = fork();
    CHECK(child >= 0, "fork: %m");
    if (child > 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(others);
    end(own);
    exit(0); /* not _exit(): what the library does at the end belongs to it */
}

pid_t run_apart(end_fn *end, int *other)
{
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair: %m");
    pid_t child = start(end, fds[1], fds[0]);
    close(fds[1]);
    *other = fds[0];
    return child;
}

void await_end(pid_t child)
{
    int status;
    int64_t deadline = gpud_deadline(2 * PATIENCE);
    pid_t got;
    while ((got = waitpid(child, &status, WNOHANG)) == 0) {
        CHECK(gpud_now() < deadline, "process %d does not end", child);
        usleep(10000);
    }
    CHECK(got == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
          "process %d ended with status %x", child, status);
}

void run_both(end_fn *sender, end_fn *receiver)
{
    int other;
    pid_t second = run_apart(receiver, &other), first = start(sender, other, -1);
    close(other);
    await_end(first);
    await_end(second);
}

struct network_kind network;
uint16_t case_port = 7000;

void run_cases(const struct network_case *cases, int argc, char **argv)
{
    for (; cases->name; cases++) {
        bool wanted = argc == 1;
        for (int arg = 1; arg < argc; arg++)
            wanted |= strcmp(argv[arg], cases->name) == 0;
        case_port = network.is_tcp ? find_free_port() : case_port + 1;
        if (!wanted)
            continue;
        int64_t begun = gpud_now();
        pid_t child = fork();
        CHECK(child >= 0, "fork: %m");
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            *network.handshake_deadline = PATIENCE / 2;
            if (cases->test)
                cases->test();
            else
                run_both(cases->sender, cases->receiver);
            exit(0);
        }
        await_end(child);
        SAY("%s: %.1f s", cases->name, (double)(gpud_now() - begun) / (double)GPUD_SEC);
    }
}

void await_single_thread(void)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    for (; COUNTS_LEFT && count_entries("/proc/self/task") > 1; usleep(1000))
        CHECK(gpud_now() < deadline, "a thread does not end");
}

void say(int other, uint64_t word)
{
    CHECK(write(other, &word, sizeof(word)) == sizeof(word), "the other process is gone");
}

uint64_t hear(int other)
{
    uint64_t word = 0;
    CHECK(gpud_fd_wait(other, gpud_deadline(PATIENCE), NULL) == GPUD_OK,
          "the other process says nothing");
    CHECK(read(other, &word, sizeof(word)) == sizeof(word), "the other process is gone");
    return word;
}

/* --- channels --------------------------------------------------------------------------------- */

const char *address_at(const char *host, const char *rest)
{
    static char texts[4][GPUD_ADDRESS_MAX];
    static unsigned next;
    char *text = texts[next++ % 4];
    CHECK(host, "run it by tests/vm/guest --rdma");
    int length =
        snprintf(text, GPUD_ADDRESS_MAX, "%s://%s:%u%s", network.scheme, host, case_port, rest);
    CHECK(length < GPUD_ADDRESS_MAX, "too long an address");
    return text;
}

const char *address_of(const char *rest)
{
    return address_at(network.host, rest);
}

const char *address6_of(const char *rest)
{
    char host[64];
    snprintf(host, sizeof(host), "[%s]", network.host6);
    return address_at(host, rest);
}

struct gpud_access_rule everybody(void)
{
    return (struct gpud_access_rule){.allow_unauthenticated = true};
}

struct gpud_access_rule with_key(const char *file)
{
    struct gpud_access_rule access = {.kind = GPUD_ACCESS_USER};
    WORKS(gpud_access_set_key(&access, file, &e));
    return access;
}

enum gpud_status try_to_listen(const char *text, const struct gpud_access_rule *access,
                               struct gpud_listener **listener, struct gpud_error *error)
{
    struct gpud_access_rule open = network.access ? *network.access : everybody();
    struct gpud_address address;
    WORKS(gpud_address_resolve(text, &address, &e));
    return gpud_listener_open(&address, access ? access : &open, listener, error);
}

struct gpud_listener *listen_on(const char *text, const struct gpud_access_rule *access)
{
    struct gpud_listener *listener;
    WORKS(try_to_listen(text, access, &listener, &e));
    CHECK(!listener->note[0], "%s", listener->note);
    return listener;
}

struct gpud_channel *accept_one(struct gpud_listener *listener)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    struct gpud_error error = {.reason = ""};
    struct gpud_channel *channel;
    struct gpud_peer peer;
    for (;;) {
        enum gpud_status status = gpud_listener_accept(listener, &channel, &peer, &error);
        if (status == GPUD_OK)
            return channel;
        CHECK(status == GPUD_AGAIN, "%s", error.reason);
        CHECK(gpud_fd_wait(listener->fd, deadline, NULL) == GPUD_OK, "there is no connection");
    }
}

struct gpud_channel *begin_to_connect(const char *text, const struct gpud_access_rule *access)
{
    struct gpud_access_rule open = network.access ? *network.access : everybody();
    struct gpud_address address;
    struct gpud_channel *channel;
    WORKS(gpud_address_resolve(text, &address, &e));
    WORKS(gpud_channel_connect(&address, access ? access : &open, &channel, &e));
    return channel;
}

/* Waits for whatever comes next. */
static enum gpud_status receive_next(struct gpud_channel *channel, struct gpud_message *message,
                                     bool until_connected, struct gpud_error *error)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    for (;;) {
        if (until_connected && atomic_load(&channel->connected))
            return GPUD_AGAIN;
        enum gpud_status status = gpud_channel_receive(channel, message, error);
        if (status != GPUD_AGAIN)
            return status;
        CHECK(gpud_channel_wait(channel, deadline, NULL) == GPUD_OK, "nothing comes");
    }
}

void await_connected(struct gpud_channel *channel)
{
    struct gpud_message message;
    struct gpud_error error = {.reason = ""};
    enum gpud_status status = receive_next(channel, &message, true, &error);
    CHECK(status == GPUD_AGAIN, "not connected: %s: %s", gpud_status_string(status), error.reason);
}

struct gpud_channel *accept_connected(struct gpud_listener *listener)
{
    struct gpud_channel *channel = accept_one(listener);
    await_connected(channel);
    return channel;
}

struct gpud_channel *connect_to(const char *text)
{
    struct gpud_channel *channel = begin_to_connect(text, NULL);
    await_connected(channel);
    return channel;
}

struct gpud_channel *accept_from(int other)
{
    struct gpud_listener *listener = listen_on(address_of(""), NULL);
    say(other, 1);
    struct gpud_channel *channel = accept_connected(listener);
    gpud_listener_close(&listener);
    hear(other);
    return channel;
}

struct gpud_channel *connect_from(int other)
{
    hear(other);
    struct gpud_channel *channel = connect_to(address_of(""));
    say(other, 1);
    return channel;
}

void expect_end(struct gpud_channel *channel, enum gpud_status wanted, const char *text)
{
    struct gpud_message message;
    for (int again = 0; again < 2; again++) {
        EXPECT(wanted, text, receive_next(channel, &message, false, &e));
        CHECK(gpud_channel_wait(channel, 0, NULL) == GPUD_OK, "the end is not readable");
    }
    CHECK(gpud_channel_is_dead(channel), "not an end");
    message = (struct gpud_message){.type = GPUD_MESSAGE_KICK};
    EXPECT(GPUD_PEER, "", gpud_channel_send(channel, &message, &e));
}

void lose(struct gpud_channel *channel, enum gpud_status wanted, const char *text)
{
    expect_end(channel, wanted, text);
    gpud_channel_unref(&channel);
}

void expect_lost(const char *address, const char *text)
{
    lose(begin_to_connect(address, NULL), GPUD_CLOSED, text);
}

void receive_one(struct gpud_channel *channel, struct gpud_message *message,
                 enum gpud_message_type type)
{
    struct gpud_error error = {.reason = ""};
    enum gpud_status status = receive_next(channel, message, false, &error);
    CHECK(status == GPUD_OK, "no %s but %s: %s", gpud_message_name(type),
          gpud_status_string(status), error.reason);
    CHECK(message->type == type, "a %s where a %s is due", gpud_message_name(message->type),
          gpud_message_name(type));
}

void send_one(struct gpud_channel *channel, struct gpud_message *message)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    struct gpud_error error = {.reason = ""};
    enum gpud_status status;
    while ((status = gpud_channel_send(channel, message, &error)) == GPUD_AGAIN) {
        CHECK(gpud_now() < deadline, "the other end reads nothing: %s", error.reason);
        usleep(1000);
    }
    CHECK(status == GPUD_OK, "cannot send: %s", error.reason);
}

void greet(struct gpud_channel *channel, uint32_t name)
{
    send_one(channel, &(struct gpud_message){.type = GPUD_MESSAGE_EVENT, .event.kind = name});
}

void expect_greeting(struct gpud_channel *channel, uint32_t name)
{
    struct gpud_message message;
    receive_one(channel, &message, GPUD_MESSAGE_EVENT);
    CHECK_EQUAL(message.event.kind, name);
}

void join(struct gpud_listener *listener, const char *text, struct gpud_channel **sender,
          struct gpud_channel **receiver)
{
    struct gpud_message message;
    struct gpud_peer peer;
    int64_t deadline = gpud_deadline(PATIENCE);
    *sender = NULL;
    *receiver = begin_to_connect(text, NULL);
    while (!*sender || !atomic_load(&(*sender)->connected) ||
           !atomic_load(&(*receiver)->connected)) {
        struct gpud_error error = {.reason = ""};
        CHECK(gpud_now() < deadline, "no connection to %s", text);
        CHECK(gpud_channel_receive(*receiver, &message, &error) == GPUD_AGAIN, "%s: %s", text,
              error.reason);
        if (*sender)
            CHECK(gpud_channel_receive(*sender, &message, &error) == GPUD_AGAIN, "%s: %s", text,
                  error.reason);
        else if (gpud_fd_wait(listener->fd, gpud_now() + GPUD_MSEC, NULL) == GPUD_OK)
            gpud_listener_accept(listener, sender, &peer, NULL);
    }
    send_one(*receiver, &(struct gpud_message){.type = GPUD_MESSAGE_READY, .epoch = 7});
    receive_one(*sender, &message, GPUD_MESSAGE_READY);
    CHECK_EQUAL(message.epoch, 7);
}

void join_once(struct gpud_listener *listener, const char *text, const char *host)
{
    struct gpud_channel *sender, *receiver;
    join(listener, text, &sender, &receiver);
    CHECK(!host || strcmp(sender->peer.host, host) == 0, "accepted \"%s\"", sender->peer.host);
    gpud_channel_unref(&receiver);
    lose(sender, GPUD_CLOSED, "closed");
}
