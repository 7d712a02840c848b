/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Several processes on one port: receivers reach all of them by it, also after the process that has
 * the port was killed or has ended. */
#include "channels.h"

#include "base/base.h"

#include <gpudirect/channel.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#define PORT 7006
#define CHANNELS_MAX 8

/* --- senders -----------------------------------------------------------------------------------
 */

/* Each EVENT says by whom it was sent. */
static void greet(struct gpud_channel *channel, uint32_t name)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_EVENT, .event = {.kind = name}};
    send_one(channel, &message);
}

/* Greets whoever connects, and all again whenever the test says something, until it says 0. */
static void serve(int other, const char *name, uint32_t number)
{
    struct gpud_channel *channels[CHANNELS_MAX];
    bool greeted[CHANNELS_MAX] = {false};
    unsigned count = 0;
    struct gpud_listener *listener = listen_on(address_of(PORT, name), NULL);
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
    struct gpud_access_rule access = everybody();
    struct gpud_address address;
    struct gpud_listener *listener;
    struct gpud_error error = {.reason = ""};
    hear(other);
    WORKS(gpud_address_resolve(address_of(PORT, "/cam1"), &address, &e));
    enum gpud_status status = gpud_listener_open(&address, &access, &listener, &error);
    CHECK(status == GPUD_IO && error.native == EADDRINUSE &&
              strstr(error.reason, "another sender has the address") &&
              strstr(error.reason, "(rdma-channel)"),
          "a name of another process: %s: %s", gpud_status_string(status), error.reason);
    serve(other, "/cam2", 2);
}

static void serve_third(int other)
{
    hear(other);
    serve(other, "/cam1", 3);
}

/* --- the receiver ------------------------------------------------------------------------------
 */

static void expect_greeting(struct gpud_channel *channel, uint32_t number)
{
    struct gpud_message message;
    receive_one(channel, &message, GPUD_MESSAGE_EVENT);
    CHECK_EQUAL(message.event.kind, number);
}

/* A receiver that tries again, as they all do. */
static struct gpud_channel *receive_from(const char *name, uint32_t number)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    for (;;) {
        struct gpud_error error = {.reason = ""};
        struct gpud_message message;
        struct gpud_channel *channel = begin_to_connect(address_of(PORT, name), NULL);
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

static void expect_lost(const char *name, const char *says)
{
    struct gpud_channel *lost = begin_to_connect(address_of(PORT, name), NULL);
    expect_end(lost, GPUD_CLOSED, says);
    gpud_channel_unref(&lost);
}

static void expect_list(const char *first, const char *second)
{
    const char *wanted[] = {first, second};
    struct gpud_channel_list *list;
    struct gpud_channel_info info = GPUD_INFO_INIT(info);
    uint32_t count;
    WORKS(gpud_channel_list_create(address_of(PORT, "/"), PATIENCE, &list, &count, NULL, &e));
    CHECK(count == (second ? 2 : 1), "%u channels at the port", count);
    for (uint32_t i = 0; i < count; i++) {
        WORKS(gpud_channel_list_get_info(list, i, &info, &e));
        CHECK(strcmp(info.address, address_of(PORT, wanted[i])) == 0, "%s", info.address);
    }
    gpud_channel_list_destroy(&list);
}

static void end(pid_t child, int other)
{
    say(other, 0);
    hear(other);
    await_end(child);
    close(other);
}

void test_sharing(void)
{
    int first, second, third;
    pid_t children[] = {run_apart(serve_first, &first), run_apart(serve_second, &second),
                        run_apart(serve_third, &third)};
    char own[] = "/tmp/gpud-shared-XXXXXX"; /* as on another host */
    hear(first);
    say(second, 1);
    hear(second);
    CHECK(mkdtemp(own) && setenv("XDG_RUNTIME_DIR", own, 1) == 0, "mkdtemp: %m");
    struct gpud_channel *cam1 = receive_from("/cam1", 1), *cam2 = receive_from("/cam2", 2);
    expect_list("/cam1", "/cam2");
    expect_lost("/cam9", "there are: cam1, cam2");
    expect_lost("", "several channels");

    /* The port's holder is killed: the other one has it then, and its connections go on. */
    CHECK(kill(children[0], SIGKILL) == 0 && waitpid(children[0], NULL, 0) == children[0],
          "kill: %m");
    struct gpud_channel *again = receive_from("/cam2", 2);
    say(second, 1);
    expect_greeting(cam2, 2);
    expect_greeting(again, 2);
    expect_list("/cam2", NULL);
    expect_lost("/cam1", "no channel \"cam1\"");
    gpud_channel_unref(&again);
    again = receive_from("", 2); /* the only one */
    gpud_channel_unref(&again);

    /* The first one's successor, behind the new holder; which ends in its turn. */
    say(third, 1);
    hear(third);
    again = receive_from("/cam1", 3);
    expect_list("/cam1", "/cam2");
    end(children[1], second);
    struct gpud_channel *last = receive_from("/cam1", 3);
    say(third, 1);
    expect_greeting(again, 3);
    expect_list("/cam1", NULL);
    end(children[2], third);
    expect_lost("/cam1", "no sender listens");
    gpud_channel_unref(&cam1);
    gpud_channel_unref(&cam2);
    gpud_channel_unref(&again);
    gpud_channel_unref(&last);
}
