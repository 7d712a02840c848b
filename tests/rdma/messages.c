/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages and notices between two ends. */
#include "cases.h"

static char out[GPUD_RDMA_MESSAGE_MAX];

/* The number of a message decides what is in it. */
static size_t size_of(uint32_t number)
{
    static const size_t sizes[] = {4, 64, 256, 257, 1000, 4096, 9000, GPUD_RDMA_MESSAGE_MAX};
    return sizes[number % 8];
}

static enum gpud_status send_number(struct end *end, uint32_t number, struct gpud_error *error)
{
    fill(out, size_of(number), number);
    memcpy(out, &number, sizeof(number));
    return gpud_rdma_send(end->rdma, out, size_of(number), error);
}

/* Whether the next one has come; it must be that one. */
static bool receive_number(struct end *end, uint32_t number)
{
    const void *bytes;
    size_t size;
    struct gpud_error error;
    enum gpud_status status = gpud_rdma_receive(end->rdma, &bytes, &size, &error);
    if (status == GPUD_AGAIN)
        return false;
    CHECK(status == GPUD_OK, "message %u: %s", number, error.reason);
    CHECK_EQUAL(size, size_of(number));
    fill(out, size, number);
    memcpy(out, &number, sizeof(number));
    CHECK(memcmp(out, bytes, size) == 0, "message %u has other bytes", number);
    return true;
}

void test_messages(void)
{
    AUTO(drop_pair) struct pair pair = make_pair();
    EXPECT(GPUD_INVALID, "1 to 16384", gpud_rdma_send(pair.a.rdma, out, 0, &e));
    EXPECT(GPUD_INVALID, "1 to 16384", gpud_rdma_send(pair.a.rdma, out, sizeof(out) + 1, &e));
    const uint32_t count = 3000;
    uint32_t a_sent = 0, b_sent = 0, a_received = 0, b_received = 0;
    int64_t deadline = gpud_deadline(PATIENCE);
    while (a_received < count || b_received < count) {
        CHECK(gpud_now() < deadline, "%u and %u of %u messages in time", a_received, b_received,
              count);
        /* In bursts that are longer than there is room for. */
        struct gpud_error error;
        for (int i = 0;
             i < 100 && a_sent < count && send_number(&pair.a, a_sent, &error) == GPUD_OK; i++)
            a_sent++;
        for (int i = 0; i < 7 && b_sent < count && send_number(&pair.b, b_sent, &error) == GPUD_OK;
             i++)
            b_sent++;
        while (receive_number(&pair.b, b_received))
            b_received++;
        while (receive_number(&pair.a, a_received))
            a_received++;
    }
    CHECK_EQUAL(gpud_rdma_received(pair.a.rdma), count);
    CHECK_EQUAL(gpud_rdma_received(pair.b.rdma), count);
}

/* A peer that reads nothing causes GPUD_AGAIN at the sender, and can still be notified. */
void test_unread_messages(void)
{
    AUTO(drop_pair) struct pair pair = make_pair();
    uint32_t sent = 0, received = 0;
    const uint32_t most = GPUD_RDMA_RECEIVES - GPUD_RDMA_NOTICES;
    struct gpud_error error;
    UNTIL(&pair, sent == most || (send_number(&pair.a, sent, &error) == GPUD_OK && ++sent == most));
    UNTIL(&pair, gpud_rdma_received(pair.b.rdma) == most);
    for (int i = 0; i < 100; i++) {
        EXPECT(GPUD_AGAIN, "has not read", send_number(&pair.a, sent, &e));
        gpud_rdma_notify(pair.a.rdma, true);
        UNTIL(&pair, gpud_rdma_progress(pair.b.rdma));
    }
    CHECK_EQUAL(gpud_rdma_received(pair.b.rdma), most);
    /* Where one was read, and given back by the next look, there is room for one. */
    CHECK(receive_number(&pair.b, received++), "the first message is there");
    EXPECT(GPUD_AGAIN, "has not read", send_number(&pair.a, sent, &e));
    while (received < 500) {
        if (receive_number(&pair.b, received))
            received++;
        if (sent < 500 && send_number(&pair.a, sent, &error) == GPUD_OK)
            sent++;
    }
}

/* More than the peer has receives for: some become one, none is lost. */
void test_notices(void)
{
    AUTO(drop_pair) struct pair pair = make_pair();
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 50; i++)
            gpud_rdma_notify(round % 2 ? pair.a.rdma : pair.b.rdma, false);
        UNTIL(&pair, gpud_rdma_progress(round % 2 ? pair.b.rdma : pair.a.rdma));
    }
    CHECK(!gpud_rdma_has_failed(pair.a.rdma, NULL), "a lives");
    CHECK(!gpud_rdma_has_failed(pair.b.rdma, NULL), "b lives");
}

void test_waking(void)
{
    AUTO(drop_pair) struct pair pair = make_pair();
    struct end *a = &pair.a, *b = &pair.b;
    CHECK(!is_readable(b, 0), "nothing was asked for");

    /* Without arming there is no wake, and the notice is there. */
    gpud_rdma_notify(a->rdma, true);
    CHECK(!is_readable(b, 500), "it was not armed");
    UNTIL(&pair, gpud_rdma_progress(b->rdma));

    gpud_rdma_arm(b->rdma, true);
    gpud_rdma_notify(a->rdma, false);
    CHECK(!is_readable(b, 500), "a notice that is not urgent wakes a wait for urgent ones");
    CHECK(gpud_rdma_progress(b->rdma), "it has come");
    CHECK(!gpud_rdma_progress(b->rdma), "once");
    gpud_rdma_notify(a->rdma, true);
    CHECK(is_readable(b, 30000), "what is urgent wakes");
    CHECK(gpud_rdma_progress(b->rdma), "for something");
    CHECK(is_readable(b, 0), "until it is armed anew");
    gpud_rdma_arm(b->rdma, true);
    CHECK(!is_readable(b, 0), "which forgets what was");

    WORKS(gpud_rdma_send(a->rdma, "hello", 6, &e));
    CHECK(is_readable(b, 30000), "a message wakes");
    gpud_rdma_arm(b->rdma, false);
    gpud_rdma_notify(a->rdma, false);
    CHECK(is_readable(b, 30000), "any notice wakes a wait for all");

    gpud_rdma_arm(b->rdma, true);
    CHECK(!is_readable(b, 0), "nothing has happened since");
    gpud_rdma_fail(b->rdma, "a reason of the test's own");
    CHECK(is_readable(b, 0), "a failure wakes");
    gpud_rdma_arm(b->rdma, true);
    CHECK(is_readable(b, 0), "for good");
}
