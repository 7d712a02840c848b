/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What only network cards have, beside the cases of tests/support, over the kernel's soft-RoCE; to
 * be run by tests/vm/guest --rdma. Arguments: the names of cases, else all. */
#include "base/base.h"
#include "support/channels.h"
#include "support/peer.h"
#include "wire/rdma/rdma.h"

#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

static void test_nowhere(void)
{
    /* An unused address of the same network. */
    expect_lost("rdma://192.168.77.200", "192.168.77.200");
    expect_lost("rdma://10.99.99.99", "no route leads there");
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
    CHECK(rdma_getaddrinfo(network.host, port, &hints, &found) == 0, "rdma_getaddrinfo: %m");
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
               network.host, network.host);
    run(command);
    PEER_UNTIL("the card that is back is found", 60000,
               gpud_listener_accept(listener, &channel, &peer, &error) == GPUD_AGAIN);
    join_once(listener, address_of(""), network.host);
}
int main(int argc, char **argv)
{
    static const struct network_case cases[] = {
        {"nowhere", test_nowhere},
        {"versions", .sender = send_versions, .receiver = receive_versions},
        {"silence", test_silence},
        {"no-card", test_no_card},
        {"keys", test_keys},
        {NULL},
    };
    static const struct network_case last[] = {{"removal", test_removal}, {NULL}};
    network = (struct network_kind){
        .scheme = "rdma",
        .host = getenv("GPUDIRECT_ADDRESS"),
        .host6 = getenv("GPUDIRECT_ADDRESS6"),
        .handshake_deadline = &gpud_rdma_handshake_deadline,
        .early_messages = 4,
        .death = "closed",
    };
    run_cases(channel_cases, argc, argv);
    run_cases(cases, argc, argv);
    run_cases(link_cases, argc, argv);
    run_cases(last, argc, argv);
    return 0;
}
