/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Network interfaces without a card, every address, and a card that is taken out and comes back. */
#include "channels.h"

#include "base/base.h"

#include <errno.h>

static void run(const char *command)
{
    int status = system(command);
    CHECK(status == 0, "%s: status %x", command, status);
}

static void expect_no_listener(const char *text, enum gpud_status wanted, const char *says)
{
    struct gpud_access_rule access = everybody();
    struct gpud_address address;
    struct gpud_listener *listener;
    WORKS(gpud_address_resolve(text, &address, &e));
    EXPECT(wanted, says, gpud_listener_open(&address, &access, &listener, &e));
}

/* An interface without an RDMA card gets a hint, too. */
void test_no_card(void)
{
    struct gpud_access_rule access = everybody();
    struct gpud_address address;
    struct gpud_channel *channel;
    run("ip address add 10.88.0.1/24 dev v1");
    run("ip neighbor add 10.88.0.2 lladdr 02:00:00:00:00:02 dev v1 nud permanent");
    WORKS(gpud_address_resolve("rdma://10.88.0.2", &address, &e));
    WORKS(gpud_channel_connect(&address, &access, &channel, &e));
    expect_end(channel, GPUD_CLOSED, "the network interface of the route there has no RDMA device");
    gpud_channel_unref(&channel);
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
    message = (struct gpud_message){.type = GPUD_MESSAGE_READY, .epoch = 7};
    send_one(*receiver, &message);
    receive_one(*sender, &message, GPUD_MESSAGE_READY);
    CHECK_EQUAL(message.epoch, 7);
}

static void unjoin(struct gpud_channel **sender, struct gpud_channel **receiver)
{
    gpud_channel_unref(receiver);
    expect_end(*sender, GPUD_CLOSED, "closed");
    gpud_channel_unref(sender);
}

void test_addresses(void)
{
    struct gpud_channel *sender, *receiver;
    struct gpud_listener *listener = listen_on(address6_of(7041, "/six"), NULL);
    join(listener, address6_of(7041, "/six"), &sender, &receiver);
    CHECK(strcmp(sender->peer.host, getenv("GPUDIRECT_ADDRESS6")) == 0, "accepted \"%s\"",
          sender->peer.host);
    unjoin(&sender, &receiver);
    gpud_listener_close(&listener);

    listener = listen_on("rdma://0.0.0.0:7042", NULL);
    join(listener, address_of(7042, ""), &sender, &receiver);
    unjoin(&sender, &receiver);
    gpud_listener_close(&listener);

    listener = listen_on("rdma://[::]:7043", NULL);
    join(listener, address6_of(7043, ""), &sender, &receiver);
    unjoin(&sender, &receiver);
    join(listener, address_of(7043, ""), &sender, &receiver);
    CHECK(strcmp(sender->peer.host, getenv("GPUDIRECT_ADDRESS")) == 0, "accepted \"%s\"",
          sender->peer.host);
    unjoin(&sender, &receiver);
    gpud_listener_close(&listener);
}

/* The last case: cards of other processes are taken out with it. */
void test_removal(void)
{
    struct gpud_channel *sender, *receiver, *nobody;
    struct gpud_peer peer;
    struct gpud_listener *listener = listen_on(address_of(7044, ""), NULL);
    join(listener, address_of(7044, ""), &sender, &receiver);
    run("rdma link delete rxe0 &");
    expect_end(receiver, GPUD_CLOSED, "");
    expect_end(sender, GPUD_CLOSED, "");
    gpud_channel_unref(&receiver);
    gpud_channel_unref(&sender);
    int64_t deadline = gpud_deadline(PATIENCE);
    struct gpud_error error = {.status = GPUD_OK};
    while (gpud_listener_accept(listener, &nobody, &peer, &error) != GPUD_IO) {
        CHECK(gpud_now() < deadline, "the loss of the card is not noticed");
        usleep(10000);
    }
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
    while (gpud_listener_accept(listener, &nobody, &peer, &error) != GPUD_AGAIN) {
        CHECK(gpud_now() < deadline, "the card that is back is not found: %s", error.reason);
        usleep(10000);
    }
    join(listener, address_of(7044, ""), &sender, &receiver);
    unjoin(&sender, &receiver);
    gpud_listener_close(&listener);
}
