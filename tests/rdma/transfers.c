/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writes into the other end's memory, and reads from it. */
#include "cases.h"

#define FRAME ((uint64_t)33177600) /* 3840 x 2160 of 32 bits */

void test_writes(void)
{
    static const uint64_t sizes[] = {1, 4, 64, 256, 257, 832, 4096, 100000};
    struct target from, to;
    struct pair pair = make_pair();
    make_target(&pair.a, FRAME, GPUD_RDMA_LOCAL, &from);
    make_target(&pair.b, FRAME, GPUD_RDMA_REMOTE_WRITE, &to);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        fill(from.bytes, FRAME < 200000 ? FRAME : 200000, (uint32_t)i);
        WORKS(write_to(&pair.a, &from, 77, &to, 4099, sizes[i], &e));
        drain(&pair.a);
        CHECK(memcmp(from.bytes + 77, to.bytes + 4099, sizes[i]) == 0, "%llu bytes are there",
              (unsigned long long)sizes[i]);
        CHECK(to.bytes[4099 + sizes[i]] == 0, "and no more");
        memset(to.bytes, 0, 200000);
    }
    fill(from.bytes, FRAME, 99);
    CHECK(gpud_rdma_has_room(pair.a.rdma, FRAME), "there is room for a frame");
    WORKS(write_to(&pair.a, &from, 0, &to, 0, FRAME, &e));
    gpud_rdma_notify(pair.a.rdma, true);
    UNTIL(&pair, gpud_rdma_progress(pair.b.rdma));
    CHECK(memcmp(from.bytes, to.bytes, FRAME) == 0, "a frame is there when its notice is");
    drain(&pair.a);
    drop_target(&from);
    drop_target(&to);
    drop_pair(&pair);
}

/* A word is copied when it is posted: it changes again soon. */
void test_words(void)
{
    const uint32_t count = 5000;
    struct target from, to;
    struct pair pair = make_pair();
    make_target(&pair.a, 4096, GPUD_RDMA_LOCAL, &from);
    make_target(&pair.b, count * 64, GPUD_RDMA_REMOTE_WRITE, &to);
    uint32_t *word = (uint32_t *)(void *)from.bytes;
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_error error;
        uint64_t size = i % 2 ? 4 : 64;
        word[0] = i;
        word[15] = ~i;
        UNTIL(&pair, write_to(&pair.a, &from, 0, &to, i * 64, size, &error) == GPUD_OK);
        word[0] = word[15] = 0xdddddddd;
    }
    drain(&pair.a);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *line = (const uint32_t *)(const void *)(to.bytes + i * 64);
        CHECK_EQUAL(line[0], i);
        CHECK_EQUAL(line[15], i % 2 ? 0 : ~i);
    }
    drop_target(&from);
    drop_target(&to);
    drop_pair(&pair);
}

/* A frame is there before the word behind it, whenever one looks. */
void test_order(void)
{
    const uint64_t size = 300000;
    struct target from, to;
    struct pair pair = make_pair();
    make_target(&pair.a, size + 64, GPUD_RDMA_LOCAL, &from);
    make_target(&pair.b, size + 64, GPUD_RDMA_REMOTE_WRITE, &to);
    volatile char *word = to.bytes + size;
    for (int i = 1; i <= 60; i++) {
        memset(from.bytes, i, size + 64);
        WORKS(write_to(&pair.a, &from, 0, &to, 0, size, &e));
        WORKS(write_to(&pair.a, &from, size, &to, size, 64, &e));
        gpud_rdma_notify(pair.a.rdma, false);
        if (i % 2)
            UNTIL(&pair, *word == i);
        else
            UNTIL(&pair, gpud_rdma_progress(pair.b.rdma));
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        for (uint64_t at = 0; at < size; at++)
            CHECK(to.bytes[at] == i, "byte %llu of frame %d is there", (unsigned long long)at, i);
        drain(&pair.a);
    }
    drop_target(&from);
    drop_target(&to);
    drop_pair(&pair);
}

/* What is full is no reason to lose anything, and leaves room for messages and notices. A message
 * that the peer has no receive for holds up all that is behind it. */
void test_full_queue(void)
{
    struct target from, to;
    uint32_t messages = 0, written = 0;
    rnr_retries = 7;
    struct pair pair = make_pair();
    rnr_retries = GPUD_RDMA_RNR_RETRIES;
    make_target(&pair.a, 65536, GPUD_RDMA_LOCAL, &from);
    make_target(&pair.b, 65536, GPUD_RDMA_REMOTE_WRITE, &to);
    gpud_rdma_set_peer_receives(pair.a.rdma, 2 * GPUD_RDMA_RECEIVES);
    while (messages <= GPUD_RDMA_RECEIVES) {
        WORKS(gpud_rdma_send(pair.a.rdma, &messages, sizeof(messages), &e));
        messages++;
    }
    for (;;) {
        struct gpud_error error = {0};
        enum gpud_status status =
            write_to(&pair.a, &from, 0, &to, 0, written % 2 ? 1000 : 64, &error);
        if (status != GPUD_OK) {
            CHECK(status == GPUD_AGAIN, "write %u: %s", written, error.reason);
            break;
        }
        CHECK(++written < 10000, "the queue is never full");
    }
    CHECK(written > 500, "room for %u writes only", written);
    CHECK(!gpud_rdma_has_room(pair.a.rdma, 64), "it is full");
    uint64_t posted = gpud_rdma_posted(pair.a.rdma);
    CHECK(!gpud_rdma_is_done(pair.a.rdma, posted), "nothing is done");
    EXPECT(GPUD_TIMEOUT, "did not finish",
           gpud_rdma_drain(pair.a.rdma, posted, gpud_now() + 50 * GPUD_MSEC, &e));
    WORKS(gpud_rdma_send(pair.a.rdma, &messages, sizeof(messages), &e));
    gpud_rdma_notify(pair.a.rdma, false);
    messages++;
    gpud_rdma_arm(pair.a.rdma, false);
    CHECK(!is_readable(&pair.a, 0), "nothing has happened");

    for (uint32_t i = 0; i < messages; i++) {
        const void *message;
        size_t size;
        UNTIL(&pair, gpud_rdma_receive(pair.b.rdma, &message, &size, NULL) == GPUD_OK);
        CHECK(size == 4 && memcmp(message, &i, 4) == 0, "message %u", i);
    }
    CHECK(is_readable(&pair.a, 30000), "an end that waits for room is woken");
    UNTIL(&pair, gpud_rdma_has_room(pair.a.rdma, 64));
    UNTIL(&pair, gpud_rdma_progress(pair.b.rdma));
    fill(from.bytes + 60000, 64, 1);
    WORKS(write_to(&pair.a, &from, 60000, &to, 60000, 64, &e));
    drain(&pair.a);
    CHECK(gpud_rdma_is_done(pair.a.rdma, gpud_rdma_posted(pair.a.rdma)), "it is done");
    CHECK(memcmp(from.bytes + 60000, to.bytes + 60000, 64) == 0, "the last one is there");
    CHECK(!gpud_rdma_is_done(pair.a.rdma, gpud_rdma_posted(pair.a.rdma) + 1), "no more than that");
    drop_target(&from);
    drop_target(&to);
    drop_pair(&pair);
}

static enum gpud_status read_from(struct end *end, const struct target *to,
                                  const struct target *from, uint64_t size,
                                  struct gpud_error *error)
{
    struct gpud_rdma_transfer transfer = {
        .local = to->region,
        .remote_address = gpud_rdma_region_address(from->region),
        .remote_key = gpud_rdma_region_key(from->region),
        .size = size,
    };
    return gpud_rdma_read(end->rdma, &transfer, error);
}

void test_reads(void)
{
    static const uint64_t sizes[] = {1, 4, 64, 832, 100000, 9000000};
    struct target from, to, local;
    struct pair pair = make_pair();
    make_target(&pair.a, 9000000, GPUD_RDMA_LOCAL_WRITE, &to);
    make_target(&pair.a, 4096, GPUD_RDMA_LOCAL, &local);
    make_target(&pair.b, 9000000, GPUD_RDMA_REMOTE_READ, &from);
    fill(from.bytes, from.size, 7);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(to.bytes, 0, to.size);
        WORKS(read_from(&pair.a, &to, &from, sizes[i], &e));
        drain(&pair.a);
        CHECK(memcmp(from.bytes, to.bytes, sizes[i]) == 0, "%llu bytes are read",
              (unsigned long long)sizes[i]);
        CHECK(sizes[i] == to.size || to.bytes[sizes[i]] == 0, "and no more");
    }
    EXPECT(GPUD_INVALID, "registered for being written", read_from(&pair.a, &local, &from, 4, &e));
    drop_target(&local);
    drop_target(&from);
    drop_target(&to);
    drop_pair(&pair);
}

void test_arguments(void)
{
    struct target a, b;
    struct gpud_rdma *second;
    struct pair pair = make_pair();
    make_target(&pair.a, 4096, GPUD_RDMA_LOCAL, &a);
    make_target(&pair.b, 4096, GPUD_RDMA_REMOTE_WRITE, &b);
    EXPECT(GPUD_INVALID, "not inside", write_to(&pair.a, &a, 0, &b, 0, 0, &e));
    EXPECT(GPUD_INVALID, "not inside", write_to(&pair.a, &a, 4096, &b, 0, 1, &e));
    EXPECT(GPUD_INVALID, "not inside", write_to(&pair.a, &a, 4097, &b, 0, UINT64_MAX - 4096, &e));
    EXPECT(GPUD_INVALID, "not inside", write_to(&pair.a, &a, 1, &b, 0, 4096, &e));
    EXPECT(GPUD_INVALID, "another connection", write_to(&pair.a, &b, 0, &b, 0, 1, &e));
    EXPECT(GPUD_INVALID, "a queue pair already", gpud_rdma_create(pair.a.id, &second, &e));
    CHECK(!gpud_rdma_has_room(pair.a.rdma, UINT64_MAX), "there is no room for everything");
    CHECK(strcmp(gpud_rdma_card(pair.a.rdma), "rxe0") == 0, "the card is called %s",
          gpud_rdma_card(pair.a.rdma));
    drop_target(&a);
    drop_target(&b);
    drop_pair(&pair);
}
