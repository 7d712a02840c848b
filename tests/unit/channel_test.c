/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The contract of channels, on Unix sockets: the peer's identity, messages, the end of a channel
 * and its cause, and that an answer fits into the buffer before the peer reads. */
#include "base/base.h"
#include "messages.h"
#include "support/run.h"
#include "wire/wire.h"

#include <poll.h>
#include <signal.h>

static const struct gpud_access_rule own_user = {.kind = GPUD_ACCESS_USER};

static char base[64];
static struct gpud_address address;

static bool is_listed(void)
{
    struct gpud_address *found;
    char directory[GPUD_ADDRESS_MAX];
    size_t count = 0, omitted = 0;
    bool listed = false;
    WORKS(gpud_address_list(NULL, &found, &count, &omitted, directory, &e));
    for (size_t i = 0; i < count; i++)
        listed |= strcmp(found[i].text, address.text) == 0 &&
                  strcmp(found[i].place, address.place) == 0 && found[i].ops == address.ops;
    free(found);
    return listed;
}

/* --- both ends -------------------------------------------------------------------------------- */

static struct gpud_listener *listener;
static struct gpud_channel *ours, *theirs;

static void wait_for(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    CHECK(poll(&wait, 1, 5000) == 1, "nothing to poll");
}

static void accept_one(void)
{
    struct gpud_peer peer;
    wait_for(listener->fd);
    WORKS(gpud_listener_accept(listener, &theirs, &peer, &e));
    CHECK(memcmp(&peer, &theirs->peer, sizeof(peer)) == 0, "another one came");
}

static void join(void)
{
    WORKS(gpud_channel_connect(&address, &own_user, &ours, &e));
    accept_one();
}

static void part(void)
{
    gpud_channel_unref(&ours);
    gpud_channel_unref(&theirs);
    gpud_channel_unref(&theirs); /* nothing is nothing */
}

static void say_ready(struct gpud_channel *channel)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_READY, .epoch = 7};
    WORKS(gpud_channel_send(channel, &message, &e));
}

static void expect_ready(struct gpud_channel *channel)
{
    struct gpud_message message;
    WORKS(gpud_channel_receive(channel, &message, &e));
    CHECK(message.type == GPUD_MESSAGE_READY && message.epoch == 7, "a %s of epoch %u",
          gpud_message_name(message.type), message.epoch);
}

static void expect_end(struct gpud_channel *channel)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_READY};
    wait_for(channel->fd);
    CHECK(gpud_channel_is_dead(channel), "the end is not seen");
    EXPECT(GPUD_CLOSED, "closed the connection", gpud_channel_receive(channel, &message, &e));
    EXPECT(GPUD_PEER, "closed the connection", gpud_channel_send(channel, &message, &e));
}

static void test_channels(void)
{
    struct gpud_peer peer;
    CHECK(gpud_listener_accept(listener, &theirs, &peer, NULL) == GPUD_AGAIN, "from nowhere");
    join();
    struct gpud_channel *ends[] = {ours, theirs};
    for (int i = 0; i < 2; i++)
        CHECK(ends[i]->peer.pid == getpid() && ends[i]->peer.uid == geteuid() &&
                  ends[i]->peer.same_process && !ends[i]->peer.foreign,
              "process %d of user %u", ends[i]->peer.pid, ends[i]->peer.uid);
    part();
    pid_t child = fork();
    if (child == 0) {
        if (gpud_channel_connect(&address, &own_user, &ours, NULL) == GPUD_OK)
            gpud_channel_wait(ours, gpud_deadline(10 * GPUD_SEC), NULL);
        _exit(0);
    }
    accept_one();
    CHECK(theirs->peer.pid == child && !theirs->peer.same_process && !theirs->peer.foreign,
          "process %d instead of %d", theirs->peer.pid, child);
    CHECK(!gpud_channel_is_dead(theirs), "a living peer is dead");
    /* It sees the end of a channel that was hung up, even if another process holds it. */
    gpud_channel_hang_up(theirs);
    waitpid(child, NULL, 0);
    CHECK(gpud_channel_is_dead(theirs), "a dead peer lives");
    gpud_channel_unref(&theirs);

    SAY("messages, and ends");
    struct gpud_message message;
    join();
    CHECK(gpud_channel_receive(theirs, &message, NULL) == GPUD_AGAIN, "a message from nowhere");
    say_ready(ours);
    wait_for(theirs->fd);
    expect_ready(theirs);

    /* The last reference ends it, and not before; what was said ahead of that arrives. */
    struct gpud_channel *kept = gpud_channel_ref(ours);
    gpud_channel_unref(&ours);
    CHECK(!ours && !gpud_channel_is_dead(theirs), "dead with one reference left");
    say_ready(kept);
    gpud_channel_unref(&kept);
    expect_ready(theirs);
    expect_end(theirs);
    part();

    join();
    kept = gpud_channel_ref(ours);
    say_ready(ours);
    gpud_channel_hang_up(ours);
    expect_ready(theirs);
    expect_end(theirs);
    expect_end(ours);
    gpud_channel_unref(&kept);
    part();

    SAY("waiting");
    atomic_bool interrupted = false;
    join();
    CHECK(gpud_channel_wait(ours, gpud_deadline(GPUD_MSEC), NULL) == GPUD_TIMEOUT, "no timeout");
    say_ready(theirs);
    CHECK(gpud_channel_wait(ours, gpud_deadline(5 * GPUD_SEC), &interrupted) == GPUD_OK,
          "a message is not waited for");
    atomic_store(&interrupted, true);
    CHECK(gpud_channel_wait(ours, gpud_deadline(5 * GPUD_SEC), &interrupted) == GPUD_AGAIN,
          "it cannot be interrupted");
    part();

    SAY("the longest answer is written without waiting for the peer to read");
    struct gpud_error error = {.reason = ""};
    join();
    make(&message, GPUD_MESSAGE_STATUS, true);
    WORKS(gpud_channel_send(ours, &message, &e));
    make(&message, GPUD_MESSAGE_LINKS, true);
    for (int told = 0; told < GPUD_RECEIVERS_MAX; told += GPUD_LINKS_A_MESSAGE)
        WORKS(gpud_channel_send(ours, &message, &e));
    /* And a peer that never reads is noticed. */
    enum gpud_status status;
    unsigned sent = 0;
    while ((status = gpud_channel_send(ours, &message, &error)) == GPUD_OK && sent < 100000)
        sent++;
    CHECK_EQUAL(status, GPUD_AGAIN);
    CHECK_SAYS(error.reason, "does not read");
    SAY("  and %u more", sent);
    /* A message that cannot be encoded does not cost the channel. */
    message.links.count++;
    EXPECT(GPUD_INVALID, "no peer would understand", gpud_channel_send(ours, &message, &e));
    CHECK(!gpud_channel_is_dead(ours), "the channel ended");
    part();
}

/* --- questions, and the list ------------------------------------------------------------------ */

static void listen_elsewhere(void *argument, int ready)
{
    if (gpud_listener_open(&address, &own_user, &listener, NULL) == GPUD_OK &&
        write(ready, "x", 1) == 1)
        pause();
}

static void test_questions(void)
{
    struct gpud_peer peer = {.pid = 1};
    EXPECT(GPUD_CLOSED, "no sender listens on", gpud_channel_ask(&address, &ours, &peer, &e));
    CHECK(peer.pid == 0 && !is_listed(), "a peer is left");
    EXPECT(GPUD_AGAIN, "no sender listens on",
           gpud_channel_connect(&address, &own_user, &ours, &e));
    char byte;
    pid_t child = start_child(listen_elsewhere, NULL, &byte, 1);
    WORKS(gpud_channel_ask(&address, &ours, &peer, &e));
    CHECK(peer.pid == child && ours->peer.pid == child, "process %d", peer.pid);
    gpud_channel_unref(&ours);
    struct gpud_error error = {.reason = ""};
    CHECK(gpud_listener_open(&address, &own_user, &listener, &error) == GPUD_IO &&
              error.native == EADDRINUSE,
          "\"%s\"", error.reason);

    /* A standby waits, listed no second time, and leaves the address alone when it gives up. */
    struct gpud_address network;
    WORKS(gpud_listener_stand_by(&address, &own_user, &listener, &e));
    CHECK(atomic_load(&listener->stands_by), "two have the address");
    CHECK(gpud_listener_take_over(listener, NULL) == GPUD_AGAIN, "the address was taken over");
    gpud_listener_tell(listener, &(struct gpud_media){.kind = GPUD_MEDIA_DATA});
    gpud_listener_close(&listener);
    CHECK(is_listed(), "the address of a living process is gone");
    if (gpud_address_resolve("rdma://127.0.0.1:7174/cam", &network, NULL) == GPUD_OK)
        EXPECT(GPUD_UNSUPPORTED, "backup-address",
               gpud_listener_stand_by(&network, &own_user, &listener, &e));

    /* One that is stopped is not asked, but is known. */
    int state;
    kill(child, SIGSTOP);
    CHECK(waitpid(child, &state, WUNTRACED) == child && WIFSTOPPED(state), "not stopped");
    EXPECT(GPUD_AGAIN, "is stopped", gpud_channel_ask(&address, &ours, &peer, &e));
    CHECK(peer.pid == child, "process %d", peer.pid);
    gpud_address_forget(&address);
    CHECK(is_listed(), "the address of a living process is forgotten");

    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    EXPECT(GPUD_CLOSED, "no sender listens on", gpud_channel_ask(&address, &ours, &peer, &e));
    CHECK(is_listed(), "a query does not tidy up");
    gpud_address_forget(&address);
    CHECK(!is_listed(), "an address of the dead is listed still");
    char hint[GPUD_REASON_MAX];
    gpud_address_hint(&address, hint, sizeof(hint));
    CHECK_SAYS(hint, "its sender died");
}

int main(void)
{
    char path[128];
    struct gpud_address name;
    gpud_print(base, "/tmp/gpud-channel-XXXXXX");
    CHECK(mkdtemp(base), "mkdtemp: %s", strerror(errno));
    setenv("XDG_RUNTIME_DIR", base, 1);
    SAY("addresses");
    WORKS(gpud_address_resolve("cam1", &name, &e));
    CHECK_TEXT(name.text, "cam1");
    CHECK(name.place[0] == '/', "cam1 is at %s", name.place);
    memset(&name, 0x5a, sizeof(name));
    EXPECT(GPUD_INVALID, "is not an address", gpud_address_resolve("ip://host:1", &name, &e));
    EXPECT(GPUD_INVALID, "no address", gpud_address_resolve(NULL, &name, &e));
    CHECK(name.text[0] == 0x5a, "an output was written by a call that failed");
    gpud_print(path, "unix:%s/channel", base);
    WORKS(gpud_address_resolve(path, &address, &e));
    CHECK_TEXT(address.text, path);
    CHECK_TEXT(address.place, path + 5);
    SAY("a key that is not there, on a host without a network card, too");
    if (gpud_address_resolve("rdma://127.0.0.1:7174", &name, NULL) == GPUD_OK) { /* built with it */
        struct gpud_access_rule rule = {.kind = GPUD_ACCESS_USER};
        gpud_print(rule.key_file, "%s/no-key", base);
        EXPECT(GPUD_INVALID, "there is no key file", gpud_channel_connect(&name, &rule, &ours, &e));
    }
    WORKS(gpud_listener_open(&address, &own_user, &listener, &e));
    CHECK(!listener->note[0] && is_listed(), "not listed: %s", listener->note);
    SAY("the peer's identity");
    test_channels();
    gpud_listener_close(&listener);
    gpud_listener_close(&listener);
    SAY("questions, and the list");
    test_questions();
    /* It takes over, and leaves nothing. */
    WORKS(gpud_listener_open(&address, &own_user, &listener, &e));
    gpud_listener_close(&listener);
    gpud_print(path, "%s/gpudirect", base);
    CHECK(rmdir(path) == 0 && rmdir(base) == 0, "something is left in %s", base);
    return 0;
}
