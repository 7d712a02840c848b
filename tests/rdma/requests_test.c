/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is done about the answers to a request, by a network that carries nothing else. A request
 * that is lost is sent again and again until the deadline, so that two losses in a row do not cost
 * all of it; a channel that has moved is followed, once; and a question for names takes no queue
 * pair. */
#include "fake_cm.h"

#include "base/base.h"
#include "support/check.h"
#include "support/peer.h"
#include "wire/wire.h"
#include "wire/rdma/rdma.h"

#include <poll.h>

/* Of one attempt: at 0, 1.5 and 3 s of its 5 s. */
#define REQUESTS 3
/* A machine that stood still for so long may have skipped a request. */
#define STALL GPUD_SEC
#define ATTEMPTS 10

/* Whether the machine ran all the time. */
static bool attempt(void)
{
    struct gpud_address address;
    struct gpud_channel *channel;
    struct gpud_message message;
    struct gpud_error error;
    enum gpud_status status;
    int64_t looked = gpud_now(), stall = 0;
    fake_cm.requests = 0;
    WORKS(gpud_address_resolve("rdma://192.0.2.7:7174/cam1", &address, &e));
    WORKS(gpud_channel_connect(&address, &(struct gpud_access_rule){0}, &channel, &e));
    while ((status = gpud_channel_receive(channel, &message, &error)) == GPUD_AGAIN) {
        struct pollfd ready = {.fd = channel->fd, .events = POLLIN};
        poll(&ready, 1, 100);
        stall = gpud_now() - looked > stall ? gpud_now() - looked : stall;
        looked = gpud_now();
    }
    gpud_channel_unref(&channel);
    CHECK(status == GPUD_CLOSED && strstr(error.reason, "did not answer within 5 s"),
          "it ended: %s", error.reason);
    CHECK(!fake_cm.ids && !fake_cm.events && !fake_card.pairs, "requests are left");
    if (stall < STALL)
        CHECK(fake_cm.requests >= REQUESTS, "%u requests were sent", fake_cm.requests);
    return stall < STALL;
}

/* The reasons of the InfiniBand connection manager. */
#define NO_LISTENER 8
#define STALE 10
#define BY_PEER 28

static void answer_by(struct gpud_rdma_refusal refusal)
{
    uint8_t bytes[GPUD_RDMA_REFUSAL_MAX];
    fake_cm_answer(BY_PEER, bytes, gpud_rdma_write_refusal(&refusal, bytes));
}

static void expect_end(const char *says, unsigned requests, uint16_t port)
{
    struct gpud_address address;
    struct gpud_channel *channel;
    struct gpud_message message;
    fake_cm.requests = 0;
    WORKS(gpud_address_resolve("rdma://192.0.2.7:7174/cam1", &address, &e));
    WORKS(gpud_channel_connect(&address, &(struct gpud_access_rule){0}, &channel, &e));
    EXPECT(GPUD_CLOSED, says, gpud_channel_receive(channel, &message, &e));
    gpud_channel_unref(&channel);
    CHECK_EQUAL(fake_cm.requests, requests);
    CHECK_EQUAL(fake_cm.asked_port, port);
    CHECK_EQUAL(fake_cm.pairless, 0);
}

static void test_moves(void)
{
    struct gpud_rdma_refusal moved = {.reason = GPUD_RDMA_UNKNOWN_NAME};
    gpud_rdma_refuse_moved(&moved, 40123);
    answer_by(moved);
    fake_cm_answer(NO_LISTENER, "", 0);
    expect_end("no sender listens on rdma://192.0.2.7:7174/cam1", 2, 40123);
    answer_by(moved);
    gpud_rdma_refuse_moved(&moved, 7174); /* in a circle */
    answer_by(moved);
    expect_end("has just moved", 2, 40123);
}

static void expect_names(unsigned requests, unsigned pairless)
{
    struct gpud_address *found;
    size_t count, omitted;
    fake_cm.requests = fake_cm.pairless = 0;
    answer_by((struct gpud_rdma_refusal){.reason = GPUD_RDMA_NAMES, .names = "cam1,cam2"});
    WORKS(gpud_address_list_port("rdma://192.0.2.7:7174/", gpud_deadline(50 * GPUD_SEC), &found,
                                 &count, &omitted, &e));
    CHECK(count == 2 && strcmp(found[1].text, "rdma://192.0.2.7:7174/cam2") == 0, "%zu names",
          count);
    free(found);
    CHECK_EQUAL(fake_cm.requests, requests);
    CHECK_EQUAL(fake_cm.pairless, pairless);
    CHECK(!fake_cm.ids && !fake_cm.events && !fake_card.pairs, "a question is left");
    fake_cm.pairless = 0;
}

int main(void)
{
    alarm(110);
    runtime_make(); /* processes of one user share a port there */
    fake_card_reset();
    expect_names(1, 1);
    fake_cm_answer(STALE, "", 0);
    expect_names(2, 1);
    test_moves();
    for (int i = 0; i < ATTEMPTS; i++)
        if (attempt()) {
            runtime_done();
            return 0;
        }
    SKIP("the machine stands still for more than %d s again and again", (int)(STALL / GPUD_SEC));
}
