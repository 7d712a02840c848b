/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Control channels over network cards, and ring pages between two processes, over the kernel's
 * soft-RoCE; to be run by tests/vm/guest --rdma. Arguments: the names of cases, else all. */
#include "base/base.h"
#include "channels.h"
#include "support/peer.h"
#include "wire/rdma/rdma.h"

#include <gpudirect/channel.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void test_nobody(void)
{
    struct gpud_channel *channel = begin_to_connect(address_of(""), NULL);
    CHECK(!atomic_load(&channel->connected) && !gpud_channel_is_dead(channel),
          "connected without a listener, or given up at once");
    CHECK(channel->peer.pid == 0 && channel->peer.foreign && !channel->peer.same_process &&
              strcmp(channel->peer.host, getenv("GPUDIRECT_ADDRESS")) == 0,
          "the peer is at \"%s\"", channel->peer.host);
    lose(channel, GPUD_CLOSED, "no sender listens on rdma://");

    expect_lost("rdma://no-such-host.invalid", "no-such-host.invalid");

    /* An unused address of the same network. */
    expect_lost("rdma://192.168.77.200", "192.168.77.200");

    /* Given up on before it came to anything. */
    channel = begin_to_connect(address_of(""), NULL);
    gpud_channel_hang_up(channel);
    lose(channel, GPUD_CLOSED, "this side hung up");
    channel = begin_to_connect("rdma://no-such-host.invalid", NULL);
    gpud_channel_unref(&channel);

    struct gpud_address address;
    struct gpud_access_rule access = everybody();
    WORKS(gpud_address_resolve("rdma://0.0.0.0", &address, &e));
    EXPECT(GPUD_INVALID, "to listen on", gpud_channel_connect(&address, &access, &channel, &e));
    expect_lost("rdma://10.99.99.99", "no route leads there");
}

static void expect_taken(const char *text, const char *says)
{
    struct gpud_listener *listener;
    struct gpud_error error = {.reason = ""};
    enum gpud_status status = try_to_listen(text, NULL, &listener, &error);
    CHECK(status == GPUD_IO && error.native == EADDRINUSE && strstr(error.reason, says),
          "listening on %s once more: %s: %s", text, gpud_status_string(status), error.reason);
}

/* Each EVENT says by whom it was sent. */
static void greet(struct gpud_channel *channel, uint32_t name)
{
    send_one(channel, &(struct gpud_message){.type = GPUD_MESSAGE_EVENT, .event.kind = name});
}

static void expect_greeting(struct gpud_channel *channel, uint32_t name)
{
    struct gpud_message message;
    receive_one(channel, &message, GPUD_MESSAGE_EVENT);
    CHECK_EQUAL(message.event.kind, name);
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
           (gpud_fail(&e, GPUD_AGAIN, "nobody waits"),
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
    expect_taken(address_of("/cam1"), "(rdma-channel); stop that one");
    expect_taken(address_at("0.0.0.0", "/cam3"), "(rdma-channel) listens on the port");
    char own[] = "/tmp/gpud-received-XXXXXX"; /* as on another host: the sender is not asked */
    CHECK(mkdtemp(own) && setenv("XDG_RUNTIME_DIR", own, 1) == 0, "mkdtemp: %m");
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
    lose(first, GPUD_CLOSED, "the peer closed the connection");
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
           gpud_channel_list_create("rdma://0.0.0.0/", 0, &list, NULL, NULL, &e));
    say(other, 1);
}

/* --- strangers -------------------------------------------------------------------------------- */

/* A connection by rdma_cm alone, with this private data. */
static struct rdma_cm_id *open_raw(struct rdma_conn_param *param, const char *data, uint8_t size)
{
    struct rdma_cm_id *id;
    struct rdma_addrinfo *found, hints = {.ai_port_space = RDMA_PS_TCP};
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    };
    char port[8];
    *param = (struct rdma_conn_param){.private_data = data, .private_data_len = size};
    snprintf(port, sizeof(port), "%u", case_port);
    CHECK(rdma_getaddrinfo(getenv("GPUDIRECT_ADDRESS"), port, &hints, &found) == 0,
          "rdma_getaddrinfo: %m");
    CHECK(rdma_create_ep(&id, found, NULL, &attr) == 0, "rdma_create_ep: %m");
    rdma_freeaddrinfo(found);
    return id;
}

/* Connects, and is refused with an answer. */
static void expect_answer(const char *data, uint8_t size, uint8_t reason)
{
    struct rdma_conn_param param;
    struct rdma_cm_id *id = open_raw(&param, data, size);
    int failed = rdma_connect(id, &param);
    CHECK(failed && id->event && id->event->event == RDMA_CM_EVENT_REJECTED,
          "not rejected, but %d: %m", failed);
    const uint8_t *answer = id->event->param.conn.private_data;
    CHECK(id->event->param.conn.private_data_len >= 8 && memcmp(answer, "GPUR\x01", 5) == 0,
          "no answer to \"%.*s\"", size, data);
    CHECK_EQUAL(answer[6], reason);
    rdma_destroy_ep(id);
}

static void send_versions(int other)
{
    AUTO(gpud_listener_close) struct gpud_listener *listener = listen_on(address_of(""), NULL);
    struct gpud_channel *channel;
    struct gpud_peer peer;
    say(other, 1);
    for (;;) {
        if (gpud_fd_wait(listener->fd, gpud_now() + 10 * GPUD_MSEC, NULL) == GPUD_OK)
            CHECK(gpud_listener_accept(listener, &channel, &peer, NULL) == GPUD_AGAIN,
                  "a stranger was let in");
        if (gpud_fd_wait(other, 0, NULL) == GPUD_OK)
            break;
    }
}

static void receive_versions(int other)
{
    hear(other);
    expect_answer("", 0, 4);
    expect_answer("hello, is anybody there", 23, 4);
    expect_answer("GPUR\x02\x08\x60\x00", 8, 3);
    expect_answer("GPUR\x01\x07\x60\x00", 8, 4);
    expect_answer("GPUR\x01\xff\x60\x00", 8, 4);
    expect_answer("GPUR\x01\x08\x20\x00", 8, 4); /* too few receives */
    expect_answer("GPUR\x01\x0c\x60\x00"
                  "a/b",
                  11, 4); /* no name */
    expect_answer("GPUR\x01\x0b\x60\x00"
                  "cam",
                  11, 1);
    say(other, 1);
}

static void send_to_silent(int other)
{
    AUTO(gpud_listener_close) struct gpud_listener *listener = listen_on(address_of(""), NULL);
    say(other, 1);
    lose(accept_one(listener), GPUD_CLOSED, "did not authenticate within 5 s");
    lose(accept_one(listener), GPUD_CLOSED, "does not say how many receives");
    say(other, 2);
    hear(other); /* a silent peer would have been accepted by now */
}

/* A stranger that has receives, and a request that could be one of ours. */
static struct rdma_cm_id *connect_silently(char buffer[4096], struct ibv_mr **mr)
{
    struct rdma_conn_param param;
    struct rdma_cm_id *id = open_raw(&param, "GPUR\x01\x08\x60\x00", 8);
    *mr = rdma_reg_msgs(id, buffer, 4096);
    CHECK(*mr, "rdma_reg_msgs: %m");
    for (int i = 0; i < 4; i++)
        CHECK(rdma_post_recv(id, NULL, buffer + i * 1024, 1024, *mr) == 0, "rdma_post_recv: %m");
    CHECK(rdma_connect(id, &param) == 0, "rdma_connect: %m");
    return id;
}

static void receive_silently(int other)
{
    static char buffer[4096];
    struct ibv_mr *mr;
    struct ibv_wc wc;
    struct rdma_cm_event *event;
    hear(other);
    struct rdma_cm_id *id = connect_silently(buffer, &mr);
    CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "no challenge: %m");
    CHECK(memcmp(buffer, "GPUA", 4) == 0, "something else than a challenge");
    CHECK(rdma_get_cm_event(id->channel, &event) == 0 && event->event == RDMA_CM_EVENT_DISCONNECTED,
          "not disconnected");
    rdma_ack_cm_event(event);
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);

    id = connect_silently(buffer, &mr);
    CHECK(rdma_post_send(id, NULL, buffer, 80, mr, IBV_SEND_SIGNALED) == 0, "rdma_post_send: %m");
    hear(other);
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);

    expect_lost(address_of(""), "did not answer within 5 s");
    say(other, 1);
}

static void test_silence(void)
{
    gpud_rdma_handshake_deadline = 5 * GPUD_SEC;
    run_both(send_to_silent, receive_silently);
}

#define KEY "/tmp/gpud-key"
#define OTHER_KEY "/tmp/gpud-other-key"

static void send_keys(int other)
{
    struct gpud_access_rule keyed = with_key(KEY), nothing = {.kind = GPUD_ACCESS_USER};
    struct gpud_listener *listener;
    EXPECT(GPUD_NO_ACCESS, "psk-file", try_to_listen(address_of(""), &nothing, &listener, &e));
    keyed.allow_unauthenticated = false;
    listener = listen_on(address_of(""), &keyed);
    say(other, 1);
    struct gpud_channel *channel = accept_connected(listener);
    greet(channel, 1);
    lose(channel, GPUD_CLOSED, "closed");

    say(other, 2);
    lose(accept_one(listener), GPUD_NO_ACCESS, "the keys differ");
    lose(accept_one(listener), GPUD_NO_ACCESS, "has no key");
    gpud_listener_close(&listener);

    listener = listen_on(address_of(""), NULL);
    say(other, 3);
    lose(accept_one(listener), GPUD_NO_ACCESS, "wants a key");
    gpud_listener_close(&listener);
    hear(other);
}

static void receive_keys(int other)
{
    struct gpud_access_rule keyed = with_key(KEY), wrong = with_key(OTHER_KEY);
    hear(other);
    struct gpud_channel *channel = begin_to_connect(address_of(""), &keyed);
    await_connected(channel);
    expect_greeting(channel, 1);
    gpud_channel_unref(&channel);

    hear(other);
    lose(begin_to_connect(address_of(""), &wrong), GPUD_NO_ACCESS, "the keys differ");
    lose(begin_to_connect(address_of(""), NULL), GPUD_NO_ACCESS, "wants a key");

    hear(other);
    lose(begin_to_connect(address_of(""), &keyed), GPUD_NO_ACCESS, "has no key");
    say(other, 1);
}

static void test_keys(void)
{
    make_key(KEY, "a key that both of them have");
    make_key(OTHER_KEY, "a key that only one has");
    run_both(send_keys, receive_keys);
    unlink(KEY);
    unlink(OTHER_KEY);
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
    expect_taken(address_of("/cam1"), "(rdma-channel)");
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
    char own[] = "/tmp/gpud-shared-XXXXXX"; /* as on another host */
    hear(first);
    say(second, 1);
    hear(second);
    CHECK(mkdtemp(own) && setenv("XDG_RUNTIME_DIR", own, 1) == 0, "mkdtemp: %m");
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
    CHECK(strcmp(channel->peer.host, getenv("GPUDIRECT_ADDRESS")) == 0, "from \"%s\"",
          channel->peer.host);
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
    for (uint32_t i = 0; i < 4; i++) {
        receive_one(channel, &message, GPUD_MESSAGE_EVENT);
        CHECK_EQUAL(message.event.kind, i);
    }
}

static void receive_early(int other)
{
    hear(other);
    struct gpud_channel *channel = begin_to_connect(address_of(""), NULL);
    struct gpud_message message = {.type = GPUD_MESSAGE_EVENT};
    for (uint32_t i = 0; i < 4; i++) {
        message.event.kind = i;
        WORKS(gpud_channel_send(channel, &message, &e));
    }
    EXPECT(GPUD_AGAIN, "not connected yet", gpud_channel_send(channel, &message, &e));
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
    kill(sender, SIGKILL);
    receive_one(channel, &message, GPUD_MESSAGE_EVENT);
    lose(channel, GPUD_CLOSED, "closed");
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

/* --- interfaces without a card, every address, and a card that is taken out and comes back ---- */

static void run(const char *command)
{
    int status = system(command);
    CHECK(status == 0, "%s: status %x", command, status);
}

static void expect_no_listener(const char *text, enum gpud_status wanted, const char *says)
{
    struct gpud_listener *listener;
    EXPECT(wanted, says, try_to_listen(text, NULL, &listener, &e));
}

/* An interface without an RDMA card gets a hint, too. */
static void test_no_card(void)
{
    run("ip address add 10.88.0.1/24 dev v1");
    run("ip neighbor add 10.88.0.2 lladdr 02:00:00:00:00:02 dev v1 nud permanent");
    expect_lost("rdma://10.88.0.2", "the network interface of the route there has no RDMA device");
    expect_no_listener("rdma://10.88.0.1", GPUD_NO_DEVICE, "has no RDMA device");
    expect_no_listener("rdma://10.88.0.77", GPUD_IO, "not an address of this host");
    expect_no_listener("rdma://localhost", GPUD_INVALID, "cannot listen on the name");
    run("ip address delete 10.88.0.1/24 dev v1");
}

/* Both ends in one process, each of which goes on when it is used. */
static void join(struct gpud_listener *listener, const char *text, struct gpud_channel **sender,
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

static void join_once(struct gpud_listener *listener, const char *text, const char *host)
{
    struct gpud_channel *sender, *receiver;
    join(listener, text, &sender, &receiver);
    CHECK(strcmp(sender->peer.host, getenv(host)) == 0, "accepted \"%s\"", sender->peer.host);
    gpud_channel_unref(&receiver);
    lose(sender, GPUD_CLOSED, "closed");
}

static void test_addresses(void)
{
    AUTO(gpud_listener_close) struct gpud_listener *listener = listen_on(address6_of("/six"), NULL);
    join_once(listener, address6_of("/six"), "GPUDIRECT_ADDRESS6");
    gpud_listener_close(&listener);

    listener = listen_on(address_at("0.0.0.0", ""), NULL);
    join_once(listener, address_of(""), "GPUDIRECT_ADDRESS");
    gpud_listener_close(&listener);

    listener = listen_on(address_at("[::]", ""), NULL);
    join_once(listener, address6_of(""), "GPUDIRECT_ADDRESS6");
    join_once(listener, address_of(""), "GPUDIRECT_ADDRESS");
}

/* The last case: cards of other processes are taken out with it. */
static void test_removal(void)
{
    struct gpud_channel *sender, *receiver, *channel;
    struct gpud_peer peer;
    struct gpud_error error = {.status = GPUD_OK};
    AUTO(gpud_listener_close) struct gpud_listener *listener = listen_on(address_of(""), NULL);
    join(listener, address_of(""), &sender, &receiver);
    run("rdma link delete rxe0 &");
    lose(receiver, GPUD_CLOSED, "");
    lose(sender, GPUD_CLOSED, "");
    PEER_UNTIL("the loss of the card is noticed", 60000,
               gpud_listener_accept(listener, &channel, &peer, &error) == GPUD_IO);
    CHECK(strstr(error.reason, "taken out of the system") &&
              gpud_fd_wait(listener->fd, 0, NULL) == GPUD_OK,
          "\"%s\", and the descriptor is not ready", error.reason);

    /* Soft-RoCE is gone when the last process that knows it is; until then another card gets the
     * address. */
    char command[256];
    gpud_print(command,
               "rdma link add rxe1 type rxe netdev v1; ip address delete %s/24 dev v0; "
               "ip address add %s/24 dev v1",
               getenv("GPUDIRECT_ADDRESS"), getenv("GPUDIRECT_ADDRESS"));
    run(command);
    PEER_UNTIL("the card that is back is found", 60000,
               gpud_listener_accept(listener, &channel, &peer, &error) == GPUD_AGAIN);
    join_once(listener, address_of(""), "GPUDIRECT_ADDRESS");
}

int main(int argc, char **argv)
{
    static const struct rdma_case cases[] = {
        {"nobody", test_nobody},
        {"names", .sender = send_names, .receiver = receive_names},
        {"list", .sender = send_list, .receiver = receive_list},
        {"sharing", test_sharing},
        {"versions", .sender = send_versions, .receiver = receive_versions},
        {"silence", test_silence},
        {"no-card", test_no_card},
        {"addresses", test_addresses},
        {"early-messages", .sender = send_after_early, .receiver = receive_early},
        {"messages", .sender = send_messages, .receiver = receive_messages},
        {"local-memory", .sender = send_local_memory, .receiver = receive_nothing},
        {"last-words", .sender = send_last_words, .receiver = receive_last_words},
        {"death", test_death},
        {"death-of-a-parent", test_death_of_a_parent},
        {"keys", test_keys},
        {NULL},
    };
    static const struct rdma_case last[] = {{"removal", test_removal}, {NULL}};
    run_cases(cases, argc, argv);
    run_cases(link_cases, argc, argv);
    run_cases(last, argc, argv);
    return 0;
}
