/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Peers that lie, access foreign memory, are silent, or end. */
#include "cases.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>

/* --- what is not the peer's ---------------------------------------------------------------- */

enum refusal { WRONG_KEY, BEFORE, BEHIND, PAST, NOT_WRITABLE, NOT_READABLE, TAKEN_BACK, REFUSALS };

static void refuse(enum refusal refusal)
{
    struct target from, to;
    struct pair pair = make_pair();
    make_target(&pair.a, 65536, GPUD_RDMA_LOCAL_WRITE, &from);
    make_target(&pair.b, 65536,
                refusal == NOT_WRITABLE ? GPUD_RDMA_REMOTE_READ : GPUD_RDMA_REMOTE_WRITE, &to);
    memset(from.bytes, 1, from.size);
    struct gpud_rdma_transfer transfer = {
        .local = from.region,
        .remote_address = gpud_rdma_region_address(to.region),
        .remote_key = gpud_rdma_region_key(to.region),
        .size = 4096,
    };
    if (refusal == WRONG_KEY)
        transfer.remote_key ^= 0x100;
    else if (refusal == BEFORE)
        transfer.remote_address--;
    else if (refusal == BEHIND)
        transfer.remote_address += to.size;
    else if (refusal == PAST)
        transfer.remote_address += to.size - 4095;
    else if (refusal == TAKEN_BACK)
        gpud_rdma_unregister(&to.region);
    gpud_rdma_arm(pair.a.rdma, true);
    gpud_rdma_arm(pair.b.rdma, true);
    if (refusal == NOT_READABLE)
        WORKS(gpud_rdma_read(pair.a.rdma, &transfer, &e));
    else
        WORKS(gpud_rdma_write(pair.a.rdma, &transfer, &e));
    CHECK(is_readable(&pair.a, 30000), "the initiator is woken");
    CHECK(is_readable(&pair.b, 30000), "the target is woken");
    struct gpud_error error;
    UNTIL(&pair, gpud_rdma_has_failed(pair.a.rdma, &error));
    CHECK(strstr(error.reason, "refused what was to be"), "the initiator: %s", error.reason);
    UNTIL(&pair, gpud_rdma_has_failed(pair.b.rdma, &error));
    CHECK(strstr(error.reason, "the connection has ended"), "the target: %s", error.reason);
    for (uint64_t i = 0; i < to.size; i++)
        CHECK(to.bytes[i] == 0, "byte %llu was written", (unsigned long long)i);
    EXPECT(GPUD_PEER, "refused", gpud_rdma_send(pair.a.rdma, "x", 1, &e));
    EXPECT(GPUD_PEER, "refused", gpud_rdma_write(pair.a.rdma, &transfer, &e));
    EXPECT(
        GPUD_PEER, "refused",
        gpud_rdma_drain(pair.a.rdma, gpud_rdma_posted(pair.a.rdma), gpud_deadline(PATIENCE), &e));
    CHECK(!gpud_rdma_is_alive(pair.a.rdma), "it is dead");
    drop_target(&from);
    drop_target(&to);
    drop_pair(&pair);
}

void test_refused(void)
{
    for (enum refusal refusal = 0; refusal < REFUSALS; refusal++)
        refuse(refusal);
}

/* --- lies ---------------------------------------------------------------------------------- */

static char bytes[GPUD_RDMA_MESSAGE_MAX + 1];

/* Bypasses all counts and checks. */
static void post_raw(struct end *end, enum ibv_wr_opcode opcode, uint32_t size, uint32_t key,
                     uint32_t immediate)
{
    struct ibv_sge place = {.addr = (uintptr_t)bytes, .length = size, .lkey = key};
    struct ibv_send_wr *bad, request = {
                                 .opcode = opcode,
                                 .sg_list = &place,
                                 .num_sge = size > 0,
                                 .imm_data = htonl(immediate),
                             };
    CHECK(ibv_post_send(end->id->qp, &request, &bad) == 0, "the liar's card refuses");
}

void test_lies(void)
{
    static const struct {
        enum ibv_wr_opcode opcode;
        uint32_t size, immediate;
        const char *reason;
    } lies[] = {
        {IBV_WR_SEND, 10, 0, "does not say how many receives"},
        {IBV_WR_SEND_WITH_IMM, 0, 0, "a message is empty"},
        {IBV_WR_SEND_WITH_IMM, 10, UINT32_C(1) << 31, "a message is empty, or marked"},
        {IBV_WR_SEND_WITH_IMM, 10, UINT32_C(1) << 30, "more receives than were used"},
        {IBV_WR_SEND_WITH_IMM, 10, 1, "more receives than were used"},
        {IBV_WR_SEND_WITH_IMM, 10, UINT32_C(1) << 15, "more receives than were used"},
        {IBV_WR_SEND_WITH_IMM, 10, 0x7fff, "more receives than were used"},
        /* Others say that it is too long: soft-RoCE has no word for that. */
        {IBV_WR_SEND_WITH_IMM, GPUD_RDMA_MESSAGE_MAX + 1, 0, "the network card rxe0 failed"},
        {IBV_WR_RDMA_WRITE_WITH_IMM, 0, 1, "more receives than were used"},
        {IBV_WR_RDMA_WRITE_WITH_IMM, 0, UINT32_C(0x3fffffff), "more receives than were used"},
        {IBV_WR_RDMA_WRITE_WITH_IMM, 0, UINT32_C(1) << 31 | 1, "more receives than were used"},
    };
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct gpud_error error;
        AUTO(drop_pair) struct pair pair = make_pair();
        struct ibv_mr *mr = ibv_reg_mr(pair.b.id->qp->pd, bytes, sizeof(bytes), 0);
        CHECK(mr, "ibv_reg_mr: %m");
        gpud_rdma_arm(pair.a.rdma, false);
        post_raw(&pair.b, lies[i].opcode, lies[i].size, mr->lkey, lies[i].immediate);
        CHECK(is_readable(&pair.a, 30000), "lie %zu wakes", i);
        UNTIL(&pair, gpud_rdma_has_failed(pair.a.rdma, &error));
        CHECK(strstr(error.reason, lies[i].reason), "lie %zu: %s", i, error.reason);
        const void *message;
        size_t size;
        EXPECT(GPUD_CLOSED, lies[i].reason, gpud_rdma_receive(pair.a.rdma, &message, &size, &e));
        ibv_dereg_mr(mr);
    }
}

/* A peer that claims receives that it does not have loses only its connection. */
void test_too_many_receives(void)
{
    struct gpud_error error = {0};
    struct pair pair = make_pair();
    gpud_rdma_set_peer_receives(pair.a.rdma, UINT32_MAX);
    int64_t deadline = gpud_deadline(PATIENCE);
    enum gpud_status status;
    do {
        CHECK(gpud_now() < deadline, "no failure in time");
        status = gpud_rdma_send(pair.a.rdma, "more", 4, &error);
    } while (status == GPUD_OK || status == GPUD_AGAIN);
    CHECK(strstr(error.reason, "no receive where it had promised"), "%s", error.reason);
    drop_pair(&pair);

    pair = make_pair();
    gpud_rdma_set_peer_receives(pair.a.rdma, GPUD_RDMA_NOTICES);
    CHECK(gpud_rdma_has_failed(pair.a.rdma, &error) && strstr(error.reason, "33 are the least"),
          "too few: %s", error.reason);
    drop_pair(&pair);
}

/* A peer that sends more than it may breaks its own connection; what arrived stays. */
void test_flood(void)
{
    AUTO(drop_pair) struct pair pair = make_pair();
    struct ibv_mr *mr = ibv_reg_mr(pair.b.id->qp->pd, bytes, sizeof(bytes), 0);
    CHECK(mr, "ibv_reg_mr: %m");
    for (int i = 0; i < 200; i++)
        post_raw(&pair.b, IBV_WR_SEND_WITH_IMM, 100, mr->lkey, 0);
    struct gpud_error error;
    UNTIL(&pair, gpud_rdma_has_failed(pair.b.rdma, &error));
    CHECK(strstr(error.reason, "no receive where"), "the flooding side: %s", error.reason);
    CHECK_EQUAL(gpud_rdma_received(pair.a.rdma), GPUD_RDMA_RECEIVES);
    for (int i = 0; i < GPUD_RDMA_RECEIVES; i++) {
        const void *message;
        size_t size;
        WORKS(gpud_rdma_receive(pair.a.rdma, &message, &size, &e));
        CHECK_EQUAL(size, 100);
    }
    ibv_dereg_mr(mr);
}

/* --- silence and ends ---------------------------------------------------------------------- */

/* A silent peer is probed, and its card answers although its process does nothing. */
void test_silence(void)
{
    AUTO(drop_pair) struct pair pair = make_pair();
    uint64_t before = gpud_rdma_posted(pair.a.rdma);
    int64_t deadline = gpud_deadline(PATIENCE);
    uint64_t asked;
    while ((asked = gpud_rdma_posted(pair.a.rdma)) == before ||
           !gpud_rdma_is_done(pair.a.rdma, asked)) {
        CHECK(gpud_now() < deadline, "asked and answered in time");
        CHECK(gpud_rdma_is_alive(pair.a.rdma), "it is alive");
        usleep(10000);
    }
    CHECK_EQUAL(asked, before + 1);
}

struct stream {
    struct pair *pair;
    struct target from, to;
    atomic_bool stop;
};

static void *stream_thread(void *arg)
{
    struct stream *stream = arg;
    struct end *end = &stream->pair->a;
    struct gpud_error error;
    enum gpud_status status;
    for (;;) {
        status = write_to(end, &stream->from, 0, &stream->to, 0, stream->from.size, &error);
        if (status == GPUD_OK)
            gpud_rdma_notify(end->rdma, true);
        if (status == GPUD_OK || status == GPUD_AGAIN)
            status = gpud_rdma_send(end->rdma, stream->from.bytes, 5000, &error);
        if (status != GPUD_OK && status != GPUD_AGAIN)
            break;
    }
    CHECK(status == GPUD_PEER && strstr(error.reason, "this side has ended"),
          "the thread that writes: %s", error.reason);
    return NULL;
}

void test_end(void)
{
    struct pair pair;
    struct stream stream = {.pair = &pair};
    const void *message;
    size_t size;
    pair = make_pair();
    make_target(&pair.a, 1000000, GPUD_RDMA_LOCAL, &stream.from);
    make_target(&pair.b, 1000000, GPUD_RDMA_REMOTE_WRITE, &stream.to);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, stream_thread, &stream) == 0, "no thread");
    UNTIL(&pair, gpud_rdma_received(pair.b.rdma) > 10);
    gpud_rdma_end(pair.a.rdma);
    gpud_rdma_end(pair.a.rdma);
    pthread_join(thread, NULL);
    /* The id may go now, whatever is held of the connection. */
    CHECK(rdma_destroy_id(pair.a.id) == 0, "rdma_destroy_id: %m");
    uint64_t posted = gpud_rdma_posted(pair.a.rdma);
    CHECK(is_readable(&pair.a, 0), "its descriptor is readable");
    CHECK(!gpud_rdma_is_alive(pair.a.rdma), "it is dead");
    CHECK(gpud_rdma_is_done(pair.a.rdma, posted), "no card uses memory any more");
    gpud_rdma_notify(pair.a.rdma, true);
    gpud_rdma_arm(pair.a.rdma, true);
    gpud_rdma_fail(pair.a.rdma, "another reason");
    EXPECT(GPUD_PEER, "this side has ended", gpud_rdma_send(pair.a.rdma, "x", 1, &e));
    EXPECT(GPUD_PEER, "this side has ended", gpud_rdma_drain(pair.a.rdma, posted, 0, &e));
    EXPECT(GPUD_CLOSED, "this side has ended", gpud_rdma_receive(pair.a.rdma, &message, &size, &e));
    struct gpud_rdma_region *region = NULL;
    EXPECT(GPUD_PEER, "has ended",
           gpud_rdma_register(pair.a.rdma, bytes, sizeof(bytes), 0, &region, &e));
    struct gpud_rdma *rdma = pair.a.rdma;
    gpud_rdma_unref(&pair.a.rdma); /* the region keeps it */
    CHECK(rdma == gpud_rdma_ref(rdma), "it is there");
    drop_target(&stream.from);
    gpud_rdma_unref(&rdma);
    drop_target(&stream.to);
    drop_end(&pair.b);
}

/* --- many threads -------------------------------------------------------------------------- */

#define ROUNDS 1500

struct work {
    struct pair *pair;
    struct target from, to;
    atomic_uint seen; /* by the other side */
};

static void *writer_thread(void *arg)
{
    struct work *work = arg;
    int64_t deadline = gpud_deadline(PATIENCE);
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        struct gpud_error error;
        enum gpud_status status;
        while (i > atomic_load(&work->seen) + 8)
            CHECK(gpud_now() < deadline && usleep(100) == 0, "write %u is not seen", i);
        memcpy(work->from.bytes, &i, sizeof(i));
        while ((status = write_to(&work->pair->a, &work->from, 0, &work->to, 0, 4, &error)) ==
               GPUD_AGAIN)
            CHECK(gpud_now() < deadline, "write %u in time", i);
        CHECK(status == GPUD_OK, "write %u: %s", i, error.reason);
        gpud_rdma_notify(work->pair->a.rdma, true);
    }
    return NULL;
}

static void *sender_thread(void *arg)
{
    struct work *work = arg;
    int64_t deadline = gpud_deadline(PATIENCE);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct gpud_error error;
        enum gpud_status status;
        while ((status = gpud_rdma_send(work->pair->a.rdma, &i, sizeof(i), &error)) == GPUD_AGAIN)
            CHECK(gpud_now() < deadline && usleep(100) == 0, "message %u in time", i);
        CHECK(status == GPUD_OK, "message %u: %s", i, error.reason);
    }
    return NULL;
}

/* One side writes and sends by two threads, the other sleeps until it is woken: nothing is missed,
 * or this ends by its deadline. */
void test_threads(void)
{
    struct pair pair;
    struct work work = {.pair = &pair};
    pthread_t threads[2];
    pair = make_pair();
    make_target(&pair.a, 4096, GPUD_RDMA_LOCAL, &work.from);
    make_target(&pair.b, 4096, GPUD_RDMA_REMOTE_WRITE, &work.to);
    CHECK(pthread_create(&threads[0], NULL, writer_thread, &work) == 0, "no thread");
    CHECK(pthread_create(&threads[1], NULL, sender_thread, &work) == 0, "no thread");
    const volatile uint32_t *word = (const uint32_t *)(void *)work.to.bytes;
    uint32_t messages = 0, last = 0;
    while (messages < ROUNDS || last < ROUNDS) {
        gpud_rdma_arm(pair.b.rdma, true);
        gpud_rdma_progress(pair.b.rdma);
        const void *message;
        size_t size;
        bool any = false;
        while (gpud_rdma_receive(pair.b.rdma, &message, &size, NULL) == GPUD_OK) {
            CHECK(size == 4 && memcmp(message, &messages, 4) == 0, "message %u", messages);
            messages++;
            any = true;
        }
        uint32_t now = *word;
        CHECK(now >= last, "words go on");
        any = any || now != last;
        last = now;
        atomic_store(&work.seen, now);
        if (!any && (messages < ROUNDS || last < ROUNDS))
            CHECK(is_readable(&pair.b, 30000), "woken after %u messages, %u words", messages, last);
    }
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    drop_target(&work.from);
    drop_target(&work.to);
    drop_pair(&pair);
}
