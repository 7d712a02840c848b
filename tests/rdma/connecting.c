/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connecting: addresses, admission, and the reasons of refusals. */
#include "channels.h"

#include "base/base.h"
#include "wire/rdma/rdma.h"

#include <gpudirect/channel.h>

#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sys/stat.h>

/* --- nobody ------------------------------------------------------------------------------------
 */

void test_nobody(void)
{
    struct gpud_channel *channel = begin_to_connect(address_of(7001, ""), NULL);
    CHECK(!atomic_load(&channel->connected) && !gpud_channel_is_dead(channel),
          "connected without a listener, or given up at once");
    CHECK(channel->peer.pid == 0 && channel->peer.foreign && !channel->peer.same_process &&
              strcmp(channel->peer.host, getenv("GPUDIRECT_ADDRESS")) == 0,
          "the peer is at \"%s\"", channel->peer.host);
    expect_end(channel, GPUD_CLOSED, "no sender listens on rdma://");
    gpud_channel_unref(&channel);

    channel = begin_to_connect("rdma://no-such-host.invalid", NULL);
    expect_end(channel, GPUD_CLOSED, "no-such-host.invalid");
    gpud_channel_unref(&channel);

    /* An unused address of the same network. */
    channel = begin_to_connect("rdma://192.168.77.200", NULL);
    expect_end(channel, GPUD_CLOSED, "192.168.77.200");
    gpud_channel_unref(&channel);

    /* Given up on before it came to anything. */
    channel = begin_to_connect(address_of(7001, ""), NULL);
    gpud_channel_hang_up(channel);
    expect_end(channel, GPUD_CLOSED, "this side hung up");
    gpud_channel_unref(&channel);
    channel = begin_to_connect("rdma://no-such-host.invalid", NULL);
    gpud_channel_unref(&channel);

    struct gpud_address address;
    struct gpud_access_rule access = everybody();
    WORKS(gpud_address_resolve("rdma://0.0.0.0", &address, &e));
    EXPECT(GPUD_INVALID, "to listen on", gpud_channel_connect(&address, &access, &channel, &e));
    WORKS(gpud_address_resolve("rdma://10.99.99.99", &address, &e));
    WORKS(gpud_channel_connect(&address, &access, &channel, &e));
    expect_end(channel, GPUD_CLOSED, "no route leads there");
    gpud_channel_unref(&channel);
}

/* --- names -------------------------------------------------------------------------------------
 */

static void expect_taken(const char *text, const char *says)
{
    struct gpud_access_rule access = everybody();
    struct gpud_address address;
    struct gpud_listener *listener;
    struct gpud_error error = {.reason = ""};
    WORKS(gpud_address_resolve(text, &address, &e));
    enum gpud_status status = gpud_listener_open(&address, &access, &listener, &error);
    CHECK(status == GPUD_IO && error.native == EADDRINUSE && strstr(error.reason, says),
          "listening on %s once more: %s: %s", text, gpud_status_string(status), error.reason);
}

/* Each EVENT says by whom it was sent. */
static void greet(struct gpud_channel *channel, uint32_t name)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_EVENT, .event = {.kind = name}};
    await_connected(channel);
    send_one(channel, &message);
}

static void expect_greeting(struct gpud_channel *channel, uint32_t name)
{
    struct gpud_message message;
    receive_one(channel, &message, GPUD_MESSAGE_EVENT);
    CHECK_EQUAL(message.event.kind, name);
}

static void send_names(int other)
{
    struct gpud_listener *cam1 = listen_on(address_of(7002, "/cam1"), NULL);
    expect_taken(address_of(7002, "/cam1"), "this process itself");
    expect_taken("rdma://0.0.0.0:7002/cam1", "listens on the port");

    say(other, 1); /* one channel: also without a name */
    struct gpud_channel *first = accept_one(cam1);
    greet(first, 1);

    struct gpud_listener *cam2 = listen_on(address_of(7002, "/cam2"), NULL);
    say(other, 2); /* two channels */
    struct gpud_channel *second = accept_one(cam2);
    greet(second, 2);
    struct gpud_channel *third = accept_one(cam1);
    greet(third, 3);

    /* Whichever looks at the descriptor, the other one is told. */
    hear(other);
    struct gpud_channel *channel;
    struct gpud_peer peer;
    CHECK(gpud_fd_wait(cam1->fd, gpud_deadline(PATIENCE), NULL) == GPUD_OK,
          "there is no connection");
    EXPECT(GPUD_AGAIN, "",
           (gpud_fail(&e, GPUD_AGAIN, "nobody waits"),
            gpud_listener_accept(cam1, &channel, &peer, &e)));
    CHECK(gpud_fd_wait(cam2->fd, gpud_deadline(PATIENCE), NULL) == GPUD_OK,
          "the listener is not notified");
    WORKS(gpud_listener_accept(cam2, &channel, &peer, &e));
    greet(channel, 4);

    struct gpud_listener *nameless = listen_on(address_of(7002, ""), NULL);
    say(other, 3);
    struct gpud_channel *fourth = accept_one(nameless);
    greet(fourth, 5);

    hear(other);
    gpud_listener_close(&cam1);
    gpud_listener_close(&cam2);
    gpud_listener_close(&nameless);
    greet(fourth, 6); /* what was accepted lives on */
    say(other, 4);
    hear(other);
    gpud_channel_unref(&first);
    gpud_channel_unref(&second);
    gpud_channel_unref(&third);
    gpud_channel_unref(&fourth);
    gpud_channel_unref(&channel);
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
    expect_taken(address_of(7002, "/cam1"), "(rdma-channel); stop that one");
    expect_taken("rdma://0.0.0.0:7002/cam3", "(rdma-channel) listens on the port");
    char own[] = "/tmp/gpud-received-XXXXXX"; /* as on another host: the sender is not asked */
    CHECK(mkdtemp(own) && setenv("XDG_RUNTIME_DIR", own, 1) == 0, "mkdtemp: %m");
    struct gpud_channel *first = connect_to(address_of(7002, ""));
    expect_greeting(first, 1);
    expect_received(address_of(7002, ""));

    hear(other);
    struct gpud_channel *lost = begin_to_connect(address_of(7002, "/cam9"), NULL);
    expect_end(lost, GPUD_CLOSED, "no channel \"cam9\"");
    expect_end(lost, GPUD_CLOSED, "there are: cam1, cam2");
    gpud_channel_unref(&lost);
    lost = begin_to_connect(address_of(7002, ""), NULL);
    expect_end(lost, GPUD_CLOSED, "several channels");
    gpud_channel_unref(&lost);
    struct gpud_channel *second = connect_to(address_of(7002, "/cam2"));
    expect_greeting(second, 2);
    struct gpud_channel *third = connect_to(address_of(7002, "/cam1"));
    expect_greeting(third, 3);

    say(other, 1);
    struct gpud_channel *fourth = connect_to(address_of(7002, "/cam2"));
    expect_greeting(fourth, 4);

    hear(other);
    struct gpud_channel *fifth = connect_to(address_of(7002, ""));
    expect_greeting(fifth, 5);

    say(other, 2);
    hear(other);
    expect_greeting(fifth, 6);
    lost = begin_to_connect(address_of(7002, "/cam1"), NULL);
    expect_end(lost, GPUD_CLOSED, "no sender listens");
    gpud_channel_unref(&lost);
    say(other, 3);
    expect_end(first, GPUD_CLOSED, "the peer closed the connection");
    gpud_channel_unref(&first);
    gpud_channel_unref(&second);
    gpud_channel_unref(&third);
    gpud_channel_unref(&fourth);
    gpud_channel_unref(&fifth);
}

void test_names(void)
{
    run_both(send_names, receive_names);
}

/* --- lists -------------------------------------------------------------------------------------
 */

#define STREAMS 24 /* more than fit into one answer */

static void send_list(int other)
{
    struct gpud_listener *listeners[STREAMS + 1];
    char name[32];
    listeners[0] = listen_on(address_of(7003, "/cam1"), NULL);
    for (int i = 1; i <= STREAMS; i++) {
        snprintf(name, sizeof(name), "/cam1/s%02d", i);
        listeners[i] = listen_on(address_of(7003, name), NULL);
    }
    say(other, 1);
    struct gpud_channel *channel = accept_one(listeners[0]); /* answers the questions, too */
    await_connected(channel);
    for (int i = 0; i <= STREAMS; i++)
        gpud_listener_close(&listeners[i]);
    say(other, 2);
    hear(other);
    gpud_channel_unref(&channel);
}

static void receive_list(int other)
{
    struct gpud_channel_list *list;
    struct gpud_channel_search_info search = GPUD_INFO_INIT(search);
    struct gpud_channel_info info = GPUD_INFO_INIT(info);
    uint32_t count;
    char wanted[80];
    hear(other);
    WORKS(gpud_channel_list_create(address_of(7003, "/"), PATIENCE, &list, &count, &search, &e));
    CHECK(count == STREAMS + 1 && search.omitted == 0, "%u channels", count);
    for (int i = 0; i <= STREAMS; i++) {
        WORKS(gpud_channel_list_get_info(list, (uint32_t)i, &info, &e));
        snprintf(wanted, sizeof(wanted), i ? "%s/s%02d" : "%s", address_of(7003, "/cam1"), i);
        CHECK(strcmp(info.address, wanted) == 0 && !info.answered && info.pid == 0 &&
                  strstr(info.reason, "its name only"),
              "%s for %s: %s", info.address, wanted, info.reason);
    }
    gpud_channel_list_destroy(&list);
    struct gpud_channel *channel = connect_to(address_of(7003, "/cam1"));
    hear(other);
    WORKS(gpud_channel_list_create(address_of(7003, "/"), PATIENCE, &list, &count, &search, &e));
    CHECK(count == 0 && strstr(search.note, "no sender listens"), "%u channels: %s", count,
          search.note);
    gpud_channel_list_destroy(&list);
    EXPECT(GPUD_INVALID, "followed by /name",
           gpud_channel_list_create(address_of(7003, "/cam1/"), 0, &list, NULL, NULL, &e));
    EXPECT(GPUD_INVALID, "to listen on",
           gpud_channel_list_create("rdma://0.0.0.0/", 0, &list, NULL, NULL, &e));
    say(other, 1);
    gpud_channel_unref(&channel);
}

void test_list(void)
{
    run_both(send_list, receive_list);
}

/* --- strangers ---------------------------------------------------------------------------------
 */

/* A connection by rdma_cm alone, with this private data. */
static struct rdma_cm_id *open_raw(struct rdma_conn_param *param, const char *data, uint8_t size)
{
    struct rdma_cm_id *id;
    struct rdma_addrinfo *found, hints = {.ai_port_space = RDMA_PS_TCP};
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    };
    char host[64];
    *param = (struct rdma_conn_param){.private_data = data, .private_data_len = size};
    snprintf(host, sizeof(host), "%s", getenv("GPUDIRECT_ADDRESS"));
    CHECK(rdma_getaddrinfo(host, "7004", &hints, &found) == 0, "rdma_getaddrinfo: %m");
    CHECK(rdma_create_ep(&id, found, NULL, &attr) == 0, "rdma_create_ep: %m");
    rdma_freeaddrinfo(found);
    return id;
}

/* Connects, and is refused; what the answer carries. */
static int connect_raw(const char *data, uint8_t size, uint8_t answer[256])
{
    struct rdma_conn_param param;
    struct rdma_cm_id *id = open_raw(&param, data, size);
    int failed = rdma_connect(id, &param);
    CHECK(failed && id->event && id->event->event == RDMA_CM_EVENT_REJECTED,
          "not rejected, but %d: %m", failed);
    int length = id->event->param.conn.private_data_len;
    memcpy(answer, id->event->param.conn.private_data, (size_t)length);
    rdma_destroy_ep(id);
    return length;
}

static void send_versions(int other)
{
    struct gpud_listener *listener = listen_on(address_of(7004, ""), NULL);
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
    gpud_listener_close(&listener);
}

static void receive_versions(int other)
{
    static const struct {
        const char *data;
        uint8_t size, reason;
    } strangers[] = {
        {"", 0, 4},
        {"hello, is anybody there", 23, 4},
        {"GPUR\x02\x08\x60\x00", 8, 3},
        {"GPUR\x01\x07\x60\x00", 8, 4},
        {"GPUR\x01\xff\x60\x00", 8, 4},
        {"GPUR\x01\x08\x20\x00", 8, 4}, /* too few receives */
        {"GPUR\x01\x0c\x60\x00"
         "a/b",
         11, 4}, /* no name */
        {"GPUR\x01\x0b\x60\x00"
         "cam",
         11, 1},
    };
    uint8_t answer[256];
    hear(other);
    for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
        int size = connect_raw(strangers[i].data, strangers[i].size, answer);
        CHECK(size >= 8 && memcmp(answer, "GPUR\x01", 5) == 0, "stranger %zu: no answer", i);
        CHECK_EQUAL(answer[6], strangers[i].reason);
    }
    say(other, 1);
}

void test_versions(void)
{
    run_both(send_versions, receive_versions);
}

/* --- silent peers ------------------------------------------------------------------------------
 */

static void send_to_silent(int other)
{
    struct gpud_listener *listener = listen_on(address_of(7004, ""), NULL);
    say(other, 1);
    struct gpud_channel *silent = accept_one(listener);
    expect_end(silent, GPUD_CLOSED, "did not authenticate within 5 s");
    gpud_channel_unref(&silent);
    struct gpud_channel *garbler = accept_one(listener);
    expect_end(garbler, GPUD_CLOSED, "does not say how many receives");
    gpud_channel_unref(&garbler);
    say(other, 2);
    hear(other); /* a silent peer would have been accepted by now */
    gpud_listener_close(&listener);
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

    struct gpud_channel *channel = begin_to_connect(address_of(7004, ""), NULL);
    expect_end(channel, GPUD_CLOSED, "did not answer within 5 s");
    gpud_channel_unref(&channel);
    say(other, 1);
}

void test_silence(void)
{
    gpud_rdma_handshake_deadline = 5 * GPUD_SEC;
    run_both(send_to_silent, receive_silently);
}

/* --- keys --------------------------------------------------------------------------------------
 */

static void make_key(const char *path, const char *content)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content), "%s: %m",
          path);
    close(fd);
}

#define KEY "/tmp/gpud-key"
#define OTHER_KEY "/tmp/gpud-other-key"

static void send_keys(int other)
{
    struct gpud_access_rule keyed = with_key(KEY), nothing = {.kind = GPUD_ACCESS_USER};
    struct gpud_address address;
    struct gpud_listener *listener;
    WORKS(gpud_address_resolve(address_of(7005, ""), &address, &e));
    EXPECT(GPUD_NO_ACCESS, "psk-file", gpud_listener_open(&address, &nothing, &listener, &e));
    keyed.allow_unauthenticated = false;
    listener = listen_on(address_of(7005, ""), &keyed);
    say(other, 1);
    struct gpud_channel *channel = accept_one(listener);
    await_connected(channel);
    greet(channel, 1);
    expect_end(channel, GPUD_CLOSED, "closed");
    gpud_channel_unref(&channel);

    say(other, 2);
    channel = accept_one(listener);
    expect_end(channel, GPUD_NO_ACCESS, "the keys differ");
    gpud_channel_unref(&channel);
    channel = accept_one(listener);
    expect_end(channel, GPUD_NO_ACCESS, "has no key");
    gpud_channel_unref(&channel);
    gpud_listener_close(&listener);

    listener = listen_on(address_of(7005, ""), NULL);
    say(other, 3);
    channel = accept_one(listener);
    expect_end(channel, GPUD_NO_ACCESS, "wants a key");
    gpud_channel_unref(&channel);
    gpud_listener_close(&listener);
    hear(other);
}

static void receive_keys(int other)
{
    struct gpud_access_rule keyed = with_key(KEY), wrong = with_key(OTHER_KEY);
    hear(other);
    struct gpud_channel *channel = begin_to_connect(address_of(7005, ""), &keyed);
    await_connected(channel);
    expect_greeting(channel, 1);
    gpud_channel_unref(&channel);

    hear(other);
    channel = begin_to_connect(address_of(7005, ""), &wrong);
    expect_end(channel, GPUD_NO_ACCESS, "the keys differ");
    gpud_channel_unref(&channel);
    channel = begin_to_connect(address_of(7005, ""), NULL);
    expect_end(channel, GPUD_NO_ACCESS, "wants a key");
    gpud_channel_unref(&channel);

    hear(other);
    channel = begin_to_connect(address_of(7005, ""), &keyed);
    expect_end(channel, GPUD_NO_ACCESS, "has no key");
    gpud_channel_unref(&channel);
    say(other, 1);
}

void test_keys(void)
{
    make_key(KEY, "a key that both of them have");
    make_key(OTHER_KEY, "a key that only one has");
    run_both(send_keys, receive_keys);
    unlink(KEY);
    unlink(OTHER_KEY);
}
