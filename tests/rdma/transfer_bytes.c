/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is moved arrives bit for bit, where it was meant to and nowhere else, and in order. */
#include "transfer_ends.h"

#define SIZE (UINT64_C(1) << 20)
#define GUARD 0xa5

/* Around the sizes that cards treat differently: inline, packets of 1024 bytes, pages. */
static const struct range {
    uint64_t from, to, length;
} ranges[] = {
    {0, 0, 1},        {1, 3, 1},
    {7, 0, 64},       {0, 9, 255},
    {3, 5, 256},      {5, 3, 257},
    {0, 1, 1023},     {1, 0, 1024},
    {2, 2, 1025},     {4095, 4097, 4096},
    {4096, 1, 65536}, {1, 4095, 65537},
    {0, 0, SIZE},     {SIZE - 1, 0, 1},
    {0, SIZE - 1, 1}, {12345, 54321, 500001},
    {4000, 8192, 96}, {0, SIZE / 2, SIZE / 2},
};
#define RANGES (sizeof(ranges) / sizeof(ranges[0]))

/* --- puts ------------------------------------------------------------------------------------ */

static void take_puts(int other)
{
    struct side side = meet_as_listener(other, 7101);
    struct buffer target = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_WRITE);
    memset(target.bytes, GUARD, SIZE);
    say_key(other, target.region);
    for (uint32_t i = 0; i < RANGES; i++) {
        const struct range *range = &ranges[i];
        struct gpud_completion got = await_completion(&side, GPUD_COMPLETION_NOTIFICATION, GPUD_OK);
        CHECK_EQUAL(got.value, UINT32_MAX - i);
        CHECK(got.region == target.region && got.offset == range->to && got.length == range->length,
              "put %u: %llu bytes at %llu", i, (unsigned long long)got.length,
              (unsigned long long)got.offset);
        CHECK(has_pattern(target.bytes + range->to, range->length, i), "put %u: its bytes", i);
        CHECK(is_all(target.bytes, range->to, GUARD) &&
                  is_all(target.bytes + range->to + range->length, SIZE - range->to - range->length,
                         GUARD),
              "put %u: bytes beside it", i);
        memset(target.bytes, GUARD, SIZE);
        say(other, i);
    }
    /* Nothing but the value. */
    struct gpud_completion got = await_completion(&side, GPUD_COMPLETION_NOTIFICATION, GPUD_OK);
    CHECK(got.value == 77 && !got.region && got.length == 0, "an empty notification");
    /* Many, without looking between them: each is behind its bytes. */
    for (uint32_t i = 0; i < 200; i++) {
        got = await_completion(&side, GPUD_COMPLETION_NOTIFICATION, GPUD_OK);
        CHECK_EQUAL(got.value, i);
        CHECK(has_pattern(target.bytes + 4096 * i, 4096, i), "put %u of many", i);
    }
    drop_buffer(&target);
    say(other, 0);
    await_completion(&side, GPUD_COMPLETION_END, GPUD_CLOSED);
    close_side(&side);
}

static void make_puts(int other)
{
    AUTO(close_side) struct side side = meet_as_caller(other, 7101);
    AUTO(drop_buffer) struct buffer source = make_buffer(&side, SIZE, GPUD_REGION_LOCAL);
    struct gpud_region_key key = hear_key(other);
    for (uint32_t i = 0; i < RANGES; i++) {
        const struct range *range = &ranges[i];
        struct gpud_operation_params put =
            range_of(&source, range->from, range->length, .key = &key, .key_offset = range->to,
                     .user = &source.bytes[i], .notify = true, .value = UINT32_MAX - i);
        fill_pattern(source.bytes + range->from, range->length, i);
        WORKS(POST(&side, PUT, &put));
        struct gpud_completion done = await_completion(&side, GPUD_COMPLETION_PUT, GPUD_OK);
        CHECK(done.user == put.user && done.region == source.region &&
                  done.length == range->length && done.offset == range->from,
              "what was put");
        CHECK_EQUAL(hear(other), i);
    }
    struct gpud_operation_params put =
        range_of(&(struct buffer){0}, 0, 0, .notify = true, .value = 77);
    WORKS(POST(&side, PUT, &put));
    await_completion(&side, GPUD_COMPLETION_PUT, GPUD_OK);
    for (uint32_t i = 0; i < 200; i++) {
        put = range_of(&source, 4096 * i, 4096, .key = &key, .key_offset = 4096 * i, .notify = true,
                       .value = i, .timeout_ns = PATIENCE);
        fill_pattern(source.bytes + 4096 * i, 4096, i);
        WORKS(POST(&side, PUT, &put));
    }
    for (uint32_t i = 0; i < 200; i++)
        await_completion(&side, GPUD_COMPLETION_PUT, GPUD_OK);
    hear(other);
}

void test_puts(void)
{
    run_both(take_puts, make_puts);
}

/* --- gets ------------------------------------------------------------------------------------ */

static void give_gets(int other)
{
    AUTO(close_side) struct side side = meet_as_listener(other, 7102);
    AUTO(drop_buffer) struct buffer source = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_READ);
    say_key(other, source.region);
    for (uint32_t i = 0; i < RANGES; i++) {
        CHECK_EQUAL(hear(other), i);
        memset(source.bytes, 0, SIZE);
        fill_pattern(source.bytes + ranges[i].from, ranges[i].length, i);
        say(other, i);
    }
    hear(other);
}

static void make_gets(int other)
{
    struct side side = meet_as_caller(other, 7102);
    struct buffer target = make_buffer(&side, SIZE, GPUD_REGION_LOCAL);
    struct gpud_region_key key = hear_key(other);
    for (uint32_t i = 0; i < RANGES; i++) {
        const struct range *range = &ranges[i];
        struct gpud_operation_params get = range_of(&target, range->to, range->length);
        memset(target.bytes, GUARD, SIZE);
        say(other, i);
        CHECK_EQUAL(hear(other), i);
        get.key = &key;
        get.key_offset = range->from;
        WORKS(POST(&side, GET, &get));
        await_completion(&side, GPUD_COMPLETION_GET, GPUD_OK);
        CHECK(has_pattern(target.bytes + range->to, range->length, i), "get %u: its bytes", i);
        CHECK(is_all(target.bytes, range->to, GUARD) &&
                  is_all(target.bytes + range->to + range->length, SIZE - range->to - range->length,
                         GUARD),
              "get %u: bytes beside it", i);
    }
    /* More reads than any card has under way at a time. */
    for (uint32_t i = 0; i < 200; i++) {
        struct gpud_operation_params get =
            range_of(&target, 4096 * i, 4096, .key = &key, .key_offset = 4096 * i);
        WORKS(POST(&side, GET, &get));
    }
    for (uint32_t i = 0; i < 200; i++)
        await_completion(&side, GPUD_COMPLETION_GET, GPUD_OK);
    /* Pending completions hold no region: it goes when they are done. */
    drop_buffer(&target);
    say(other, 0);
    await_completion(&side, GPUD_COMPLETION_END, GPUD_CLOSED);
    close_side(&side);
}

void test_gets(void)
{
    run_both(give_gets, make_gets);
}

/* --- messages -------------------------------------------------------------------------------- */

static void take_messages(int other)
{
    struct side side = meet_as_listener(other, 7103);
    struct buffer target = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_WRITE);
    for (uint32_t i = 0; i < RANGES; i++) {
        const struct range *range = &ranges[i];
        uint64_t room = SIZE - range->to;
        memset(target.bytes, GUARD, SIZE);
        struct gpud_operation_params recv =
            range_of(&target, range->to, room, .user = target.bytes);
        WORKS(POST(&side, RECEIVE, &recv));
        struct gpud_completion got = await_completion(&side, GPUD_COMPLETION_RECEIVE, GPUD_OK);
        CHECK(got.user == target.bytes && got.region == target.region && got.value == i &&
                  got.offset == range->to && got.length == range->length,
              "message %u: %llu bytes", i, (unsigned long long)got.length);
        CHECK(has_pattern(target.bytes + range->to, range->length, i), "message %u: its bytes", i);
        CHECK(is_all(target.bytes, range->to, GUARD) &&
                  is_all(target.bytes + range->to + range->length, room - range->length, GUARD),
              "message %u: bytes beside it", i);
    }
    /* As many as there can be, each into its own place, in the order of the receives. */
    for (uint32_t i = 0; i < GPUD_RECEIVES_MAX; i++) {
        struct gpud_operation_params recv =
            range_of(&target, 1024 * i, 1024, .user = (void *)(uintptr_t)i);
        WORKS(POST(&side, RECEIVE, &recv));
    }
    struct gpud_operation_params more = range_of(&target, 0, 1024);
    EXPECT(GPUD_TIMEOUT, "64 receives", POST(&side, RECEIVE, &more));
    say(other, 0);
    bool has_room = false; /* for the one that was refused */
    for (uint32_t i = 0; i < GPUD_RECEIVES_MAX || !has_room;) {
        struct gpud_completion got = next_completion(&side);
        if (got.kind == GPUD_COMPLETION_ROOM) {
            CHECK(!has_room && i > 0, "room, after %u", i);
            has_room = true;
            continue;
        }
        CHECK(got.kind == GPUD_COMPLETION_RECEIVE && got.user == (void *)(uintptr_t)i &&
                  got.value == i && got.length == i,
              "message %u of many", i);
        CHECK(has_pattern(target.bytes + 1024 * i, i, i), "message %u of many: its bytes", i);
        i++;
    }
    drop_buffer(&target);
    say(other, 0);
    close_side(&side);
}

static void make_messages(int other)
{
    AUTO(close_side) struct side side = meet_as_caller(other, 7103);
    AUTO(drop_buffer) struct buffer source = make_buffer(&side, SIZE, GPUD_REGION_LOCAL);
    for (uint32_t i = 0; i < RANGES; i++) {
        struct gpud_operation_params send =
            range_of(&source, ranges[i].from, ranges[i].length, .value = i, .timeout_ns = PATIENCE);
        fill_pattern(source.bytes + ranges[i].from, ranges[i].length, i);
        WORKS(POST(&side, SEND, &send));
        await_completion(&side, GPUD_COMPLETION_SEND, GPUD_OK);
    }
    hear(other);
    for (uint32_t i = 0; i < GPUD_RECEIVES_MAX; i++) {
        struct gpud_operation_params send = range_of(&source, 1024 * i, i, .value = i);
        fill_pattern(source.bytes + 1024 * i, i, i);
        send.timeout_ns = PATIENCE; /* the last receives are told when the first have been taken */
        WORKS(POST(&side, SEND, &send));
    }
    for (uint32_t i = 0; i < GPUD_RECEIVES_MAX; i++)
        await_completion(&side, GPUD_COMPLETION_SEND, GPUD_OK);
    hear(other);
}

void test_transfer_messages(void)
{
    run_both(take_messages, make_messages);
}

/* --- no receive is posted -------------------------------------------------------------------- */

static void receive_late(int other)
{
    AUTO(close_side) struct side side = meet_as_listener(other, 7104);
    AUTO(drop_buffer) struct buffer target = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_WRITE);
    say_key(other, target.region);
    CHECK_EQUAL(hear(other), 1); /* it was refused */
    struct gpud_operation_params recv = range_of(&target, 16, 100);
    WORKS(POST(&side, RECEIVE, &recv));
    struct gpud_completion got = await_completion(&side, GPUD_COMPLETION_RECEIVE, GPUD_OK);
    CHECK(got.length == 100 && has_pattern(target.bytes + 16, 100, 5), "what came late");
    CHECK_EQUAL(hear(other), 2); /* one waits */
    WORKS(POST(&side, RECEIVE, &recv));
    await_completion(&side, GPUD_COMPLETION_RECEIVE, GPUD_OK);

    /* A receive that nothing comes for keeps its region, and is told of the end. */
    WORKS(POST(&side, RECEIVE, &recv));
    EXPECT(GPUD_TIMEOUT, "receives wait", gpud_region_destroy(&target.region, 0, &e));
    CHECK(target.region, "the region is gone");
    say(other, 3);
    await_completion(&side, GPUD_COMPLETION_RECEIVE, GPUD_CLOSED);
    await_completion(&side, GPUD_COMPLETION_END, GPUD_CLOSED);
    EXPECT(GPUD_CLOSED, "peer closed", POST(&side, RECEIVE, &recv));
}

static void send_early(int other)
{
    AUTO(close_side) struct side side = meet_as_caller(other, 7104);
    AUTO(drop_buffer) struct buffer source = make_buffer(&side, SIZE, GPUD_REGION_LOCAL);
    struct gpud_region_key key = hear_key(other);
    struct gpud_operation_params send = range_of(&source, 0, 100);
    fill_pattern(source.bytes, 100, 5);
    EXPECT(GPUD_TIMEOUT, "posted no receive", POST(&side, SEND, &send));
    send.timeout_ns = 50 * GPUD_MSEC;
    EXPECT(GPUD_TIMEOUT, "posted no receive", POST(&side, SEND, &send));
    struct gpud_operation_params put = range_of(&source, 0, 100); /* others are not held up */
    put.key = &key;
    WORKS(POST(&side, PUT, &put));
    await_completion(&side, GPUD_COMPLETION_PUT, GPUD_OK);
    say(other, 1);
    await_completion(&side, GPUD_COMPLETION_ROOM, GPUD_OK);
    send.length = 101;
    EXPECT(GPUD_INVALID, "has room for 100", POST(&side, SEND, &send));
    send.length = 100;
    send.timeout_ns = 0;
    WORKS(POST(&side, SEND, &send));
    await_completion(&side, GPUD_COMPLETION_SEND, GPUD_OK);
    send.timeout_ns = PATIENCE;
    say(other, 2);
    WORKS(POST(&side, SEND, &send));
    await_completion(&side, GPUD_COMPLETION_SEND, GPUD_OK);
    CHECK_EQUAL(hear(other), 3);
}

void test_missing_receives(void)
{
    run_both(receive_late, send_early);
}
