/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Transfers between two processes (gpudirect/transfer.h), over the kernel's soft-RoCE: what is
 * moved, what is refused, and what that costs. To be run by tests/vm/guest --rdma. Arguments: the
 * names of cases, else all. */
#include "support/channels.h"
#include "support/make.h"
#include "support/peer.h"
#include "transfer/transfer.h"
#include "wire/rdma/rdma.h"

#include <gpudirect/gpudirect.h>

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define SIZE UINT64_C(65536)
#define LARGE (UINT64_C(1) << 20) /* takes soft-RoCE tens of milliseconds */

/* --- both sides ------------------------------------------------------------------------------- */

struct side {
    struct gpud_context *context;
    struct gpud_transfer *transfer;
    struct gpud_completion_queue *queue;
    struct gpud_connection *connection;
};

/* Pages of this process with the region over them. */
struct buffer {
    unsigned char *bytes;
    uint64_t size;
    struct gpud_region *region;
};

/* Listens, or does not, and lets in all. */
static struct side open_side(bool listens)
{
    struct side side = {.context = NEW_CONTEXT()};
    struct gpud_transfer_params params = GPUD_PARAMS_INIT(params);
    params.address = listens ? address_of("") : NULL;
    params.allow_unauthenticated = true;
    WORKS(gpud_transfer_create(side.context, &params, &side.transfer, &e));
    WORKS(gpud_completion_queue_create(side.context, &side.queue, &e));
    return side;
}

static void close_side(struct side *side)
{
    gpud_connection_close(&side->connection);
    gpud_transfer_destroy(&side->transfer);
    gpud_completion_queue_destroy(&side->queue);
    gpud_context_destroy(&side->context);
}

static void close_again(struct side *side)
{
    gpud_connection_close(&side->connection);
}

/* Connects both sides; once more by the same transfer. */
static struct side meet_again_as_listener(int other, struct side side)
{
    say(other, case_port);
    WORKS(gpud_transfer_accept(side.transfer, side.queue, PATIENCE, &side.connection, &e));
    return side;
}

static struct side meet_again_as_caller(int other, struct side side)
{
    CHECK_EQUAL(hear(other), case_port);
    WORKS(gpud_transfer_connect(side.transfer, address_of(""), side.queue, PATIENCE,
                                &side.connection, &e));
    return side;
}

static struct side meet_as_listener(int other)
{
    return meet_again_as_listener(other, open_side(true));
}

static struct side meet_as_caller(int other)
{
    return meet_again_as_caller(other, open_side(false));
}

static struct buffer make_buffer(const struct side *side, uint64_t size, unsigned access)
{
    struct gpud_region_params params = GPUD_PARAMS_INIT(params);
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED, "mmap: %m");
    struct buffer buffer = {.bytes = pages, .size = size};
    params.address = pages;
    params.length = size;
    params.access = access;
    WORKS(gpud_region_create(side->connection, &params, &buffer.region, &e));
    return buffer;
}

static void drop_buffer(struct buffer *buffer)
{
    WORKS(gpud_region_destroy(&buffer->region, PATIENCE, &e));
    CHECK(!buffer->region && munmap(buffer->bytes, buffer->size) == 0, "munmap: %m");
}

/* What byte number `at` of a pattern is, and whether a range has it. */
static unsigned char pattern_at(uint64_t at, uint32_t seed)
{
    uint64_t mixed = (at + 1) * UINT64_C(0x9e3779b97f4a7c15) + seed * UINT64_C(0x2545f4914f6cdd1d);
    return (unsigned char)(mixed >> 56);
}

static void fill_pattern(unsigned char *bytes, uint64_t size, uint32_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        bytes[i] = pattern_at(i, seed);
}

static bool has_pattern(const unsigned char *bytes, uint64_t size, uint32_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        if (bytes[i] != pattern_at(i, seed))
            return false;
    return true;
}

static bool is_all(const unsigned char *bytes, uint64_t size, unsigned char value)
{
    return size == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* Keys travel by the processes' socket. */
static void say_key(int other, const struct gpud_region *region)
{
    struct gpud_region_key key = INFO(region, region).key;
    CHECK(write(other, &key, sizeof(key)) == sizeof(key), "the other process is gone");
}

static struct gpud_region_key hear_key(int other)
{
    struct gpud_region_key key;
    CHECK(read(other, &key, sizeof(key)) == sizeof(key), "the other process is gone");
    return key;
}

static struct gpud_completion next_completion(const struct side *side)
{
    struct gpud_completion completion = {.size = sizeof(completion)};
    size_t count;
    WORKS(gpud_completion_queue_wait(side->queue, PATIENCE, &completion, 1, &count, &e));
    CHECK_EQUAL(count, 1);
    CHECK(completion.connection == side->connection, "of another connection");
    return completion;
}

/* The next one, which is of this kind and status. */
static struct gpud_completion await_completion(const struct side *side,
                                               enum gpud_completion_kind kind,
                                               enum gpud_status status)
{
    struct gpud_completion completion = next_completion(side);
    struct gpud_connection_info info = INFO(connection, side->connection);
    CHECK(completion.kind == kind && completion.status == status,
          "completed: kind %d with \"%s\", wanted kind %d with \"%s\" (%s)", completion.kind,
          gpud_status_string(completion.status), kind, gpud_status_string(status), info.reason);
    return completion;
}

/* Posts an operation, as one of WORKS() or EXPECT(): POST(&side, PUT, &put). */
#define POST(side, kind, operation) \
    gpud_connection_post((side)->connection, GPUD_COMPLETION_##kind, operation, &e)

/* The same, and it works; its completion. */
#define DO(side, kind, operation)                                \
    ({                                                           \
        WORKS(POST(side, kind, operation));                      \
        await_completion(side, GPUD_COMPLETION_##kind, GPUD_OK); \
    })

/* An operation's parameters; what follows are others than the range. */
#define range_of(buffer, from, bytes, ...)                                        \
    ((struct gpud_operation_params){.size = sizeof(struct gpud_operation_params), \
                                    .region = (buffer)->region,                   \
                                    .offset = from,                               \
                                    .length = bytes,                              \
                                    __VA_ARGS__})

/* --- what is moved arrives bit for bit, where it was meant to and nowhere else, in order ------ */

#define GUARD 0xa5

/* Around the sizes that cards treat differently: inline, packets of 1024 bytes, pages. */
static const struct range {
    uint64_t from, to, length;
} ranges[] = {
    {0, 0, 1},         {1, 3, 1},
    {7, 0, 64},        {0, 9, 255},
    {3, 5, 256},       {5, 3, 257},
    {0, 1, 1023},      {1, 0, 1024},
    {2, 2, 1025},      {4095, 4097, 4096},
    {4096, 1, 65536},  {1, 4095, 65537},
    {0, 0, LARGE},     {LARGE - 1, 0, 1},
    {0, LARGE - 1, 1}, {12345, 54321, 500001},
    {4000, 8192, 96},  {0, LARGE / 2, LARGE / 2},
};
#define RANGES (sizeof(ranges) / sizeof(ranges[0]))

/* It has come to a buffer that was all GUARD. */
static void check_range(const struct buffer *buffer, uint32_t i, const char *what)
{
    uint64_t from = ranges[i].to, to = from + ranges[i].length;
    CHECK(has_pattern(buffer->bytes + from, to - from, i), "%s %u: its bytes", what, i);
    CHECK(is_all(buffer->bytes, from, GUARD) && is_all(buffer->bytes + to, LARGE - to, GUARD),
          "%s %u: bytes beside it", what, i);
    memset(buffer->bytes, GUARD, LARGE);
}

static void take_puts(int other)
{
    AUTO(close_side) struct side side = meet_as_listener(other);
    struct buffer target = make_buffer(&side, LARGE, GPUD_REGION_REMOTE_WRITE);
    memset(target.bytes, GUARD, LARGE);
    say_key(other, target.region);
    for (uint32_t i = 0; i < RANGES; i++) {
        const struct range *range = &ranges[i];
        struct gpud_completion got = await_completion(&side, GPUD_COMPLETION_NOTIFICATION, GPUD_OK);
        CHECK_EQUAL(got.value, UINT32_MAX - i);
        CHECK(got.region == target.region && got.offset == range->to && got.length == range->length,
              "put %u: %llu bytes at %llu", i, (unsigned long long)got.length,
              (unsigned long long)got.offset);
        check_range(&target, i, "put");
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
}

static void make_puts(int other)
{
    AUTO(close_side) struct side side = meet_as_caller(other);
    AUTO(drop_buffer) struct buffer source = make_buffer(&side, LARGE, GPUD_REGION_LOCAL);
    struct gpud_region_key key = hear_key(other);
    for (uint32_t i = 0; i < RANGES; i++) {
        const struct range *range = &ranges[i];
        struct gpud_operation_params put =
            range_of(&source, range->from, range->length, .key = &key, .key_offset = range->to,
                     .user = &source.bytes[i], .notify = true, .value = UINT32_MAX - i);
        fill_pattern(source.bytes + range->from, range->length, i);
        struct gpud_completion done = DO(&side, PUT, &put);
        CHECK(done.user == put.user && done.region == source.region &&
                  done.length == range->length && done.offset == range->from,
              "what was put");
        CHECK_EQUAL(hear(other), i);
    }
    struct gpud_operation_params put =
        range_of(&(struct buffer){0}, 0, 0, .notify = true, .value = 77);
    DO(&side, PUT, &put);
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

static void give_gets(int other)
{
    AUTO(close_side) struct side side = meet_as_listener(other);
    AUTO(drop_buffer) struct buffer source = make_buffer(&side, LARGE, GPUD_REGION_REMOTE_READ);
    say_key(other, source.region);
    for (uint32_t i = 0; i < RANGES; i++) {
        CHECK_EQUAL(hear(other), i);
        memset(source.bytes, 0, LARGE);
        fill_pattern(source.bytes + ranges[i].from, ranges[i].length, i);
        say(other, i);
    }
    hear(other);
}

static void make_gets(int other)
{
    AUTO(close_side) struct side side = meet_as_caller(other);
    struct buffer target = make_buffer(&side, LARGE, GPUD_REGION_LOCAL);
    struct gpud_region_key key = hear_key(other);
    memset(target.bytes, GUARD, LARGE);
    for (uint32_t i = 0; i < RANGES; i++) {
        struct gpud_operation_params get = range_of(&target, ranges[i].to, ranges[i].length,
                                                    .key = &key, .key_offset = ranges[i].from);
        say(other, i);
        CHECK_EQUAL(hear(other), i);
        DO(&side, GET, &get);
        check_range(&target, i, "get");
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
}

static void take_messages(int other)
{
    AUTO(close_side) struct side side = meet_as_listener(other);
    struct buffer target = make_buffer(&side, LARGE, GPUD_REGION_REMOTE_WRITE);
    memset(target.bytes, GUARD, LARGE);
    for (uint32_t i = 0; i < RANGES; i++) {
        const struct range *range = &ranges[i];
        struct gpud_operation_params recv =
            range_of(&target, range->to, LARGE - range->to, .user = target.bytes);
        struct gpud_completion got = DO(&side, RECEIVE, &recv);
        CHECK(got.user == target.bytes && got.region == target.region && got.value == i &&
                  got.offset == range->to && got.length == range->length,
              "message %u: %llu bytes", i, (unsigned long long)got.length);
        check_range(&target, i, "message");
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
}

static void make_messages(int other)
{
    AUTO(close_side) struct side side = meet_as_caller(other);
    AUTO(drop_buffer) struct buffer source = make_buffer(&side, LARGE, GPUD_REGION_LOCAL);
    for (uint32_t i = 0; i < RANGES; i++) {
        struct gpud_operation_params send =
            range_of(&source, ranges[i].from, ranges[i].length, .value = i, .timeout_ns = PATIENCE);
        fill_pattern(source.bytes + ranges[i].from, ranges[i].length, i);
        DO(&side, SEND, &send);
    }
    hear(other);
    for (uint32_t i = 0; i < GPUD_RECEIVES_MAX; i++) {
        /* The last receives are told when the first have been taken. */
        struct gpud_operation_params send =
            range_of(&source, 1024 * i, i, .value = i, .timeout_ns = PATIENCE);
        fill_pattern(source.bytes + 1024 * i, i, i);
        WORKS(POST(&side, SEND, &send));
    }
    for (uint32_t i = 0; i < GPUD_RECEIVES_MAX; i++)
        await_completion(&side, GPUD_COMPLETION_SEND, GPUD_OK);
    hear(other);
}

static void receive_late(int other)
{
    AUTO(close_side) struct side side = meet_as_listener(other);
    AUTO(drop_buffer) struct buffer target = make_buffer(&side, LARGE, GPUD_REGION_REMOTE_WRITE);
    say_key(other, target.region);
    CHECK_EQUAL(hear(other), 1); /* it was refused */
    struct gpud_operation_params recv = range_of(&target, 16, 100);
    struct gpud_completion got = DO(&side, RECEIVE, &recv);
    CHECK(got.length == 100 && has_pattern(target.bytes + 16, 100, 5), "what came late");
    CHECK_EQUAL(hear(other), 2); /* one waits */
    DO(&side, RECEIVE, &recv);

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
    AUTO(close_side) struct side side = meet_as_caller(other);
    AUTO(drop_buffer) struct buffer source = make_buffer(&side, LARGE, GPUD_REGION_LOCAL);
    struct gpud_region_key key = hear_key(other);
    struct gpud_operation_params send = range_of(&source, 0, 100);
    fill_pattern(source.bytes, 100, 5);
    EXPECT(GPUD_TIMEOUT, "posted no receive", POST(&side, SEND, &send));
    send.timeout_ns = 50 * GPUD_MSEC;
    EXPECT(GPUD_TIMEOUT, "posted no receive", POST(&side, SEND, &send));
    /* Others are not held up. */
    struct gpud_operation_params put = range_of(&source, 0, 100, .key = &key);
    DO(&side, PUT, &put);
    say(other, 1);
    await_completion(&side, GPUD_COMPLETION_ROOM, GPUD_OK);
    send.length = 101;
    EXPECT(GPUD_INVALID, "has room for 100", POST(&side, SEND, &send));
    send.length = 100;
    send.timeout_ns = 0;
    DO(&side, SEND, &send);
    send.timeout_ns = PATIENCE;
    say(other, 2);
    DO(&side, SEND, &send);
    CHECK_EQUAL(hear(other), 3);
}

/* --- what is refused, and what that costs: nothing -------------------------------------------- */

static void expect_no_connection(struct gpud_transfer *transfer, const char *address,
                                 enum gpud_status status, const char *says)
{
    AUTO(close_side) struct side side = open_side(false);
    EXPECT(status, says,
           gpud_transfer_connect(transfer, address, side.queue, PATIENCE, &side.connection, &e));
}

static struct gpud_transfer *with_file(struct gpud_context *context, const char *address,
                                       const char *file)
{
    struct gpud_transfer_params params = GPUD_PARAMS_INIT(params);
    struct gpud_transfer *transfer;
    params.address = address;
    params.psk_file = file;
    WORKS(gpud_transfer_create(context, &params, &transfer, &e));
    return transfer;
}

static void test_connecting(void)
{
    struct gpud_transfer_params params = GPUD_PARAMS_INIT(params);
    struct gpud_transfer *transfer, *right, *wrong;
    struct gpud_connection *connection = NULL;
    AUTO(close_side) struct side side = open_side(false);
    expect_no_connection(side.transfer, address_of(""), GPUD_CLOSED, "no sender listens");
    expect_no_connection(side.transfer, "cam1", GPUD_UNSUPPORTED, "network cards");
    expect_no_connection(side.transfer, "rdma://10.0.0.1:bad", GPUD_INVALID, "");
    EXPECT(GPUD_INVALID, "without an address",
           gpud_transfer_accept(side.transfer, side.queue, 0, &connection, &e));

    params.address = address_of("");
    EXPECT(GPUD_NO_ACCESS, "", gpud_transfer_create(side.context, &params, &transfer, &e));
    params.address = "unix:/tmp/none";
    EXPECT(GPUD_UNSUPPORTED, "network cards",
           gpud_transfer_create(side.context, &params, &transfer, &e));

    /* Keys, as streams have them. */
    make_key("/tmp/right", "0123456789abcdef");
    make_key("/tmp/wrong", "0123456789abcdeg");
    transfer = with_file(side.context, address_of(""), "/tmp/right");
    right = with_file(side.context, NULL, "/tmp/right");
    wrong = with_file(side.context, NULL, "/tmp/wrong");
    expect_no_connection(wrong, address_of(""), GPUD_NO_ACCESS, "key");
    expect_no_connection(side.transfer, address_of(""), GPUD_NO_ACCESS, "key");
    struct pollfd waits = {.events = POLLIN};
    WORKS(gpud_transfer_get_fd(transfer, &waits.fd, &e));
    CHECK(poll(&waits, 1, 0) == 0, "a peer without the key is there");
    WORKS(gpud_transfer_connect(right, address_of(""), side.queue, PATIENCE, &side.connection, &e));
    CHECK(poll(&waits, 1, 60000) == 1, "no peer is there");
    WORKS(gpud_transfer_accept(transfer, side.queue, PATIENCE, &connection, &e));
    CHECK(poll(&waits, 1, 0) == 0, "another peer is there");
    EXPECT(GPUD_TIMEOUT, "no peer connected",
           gpud_transfer_accept(transfer, side.queue, 0, &connection, &e));
    gpud_transfer_interrupt(transfer, true);
    EXPECT(GPUD_AGAIN, "interrupted",
           gpud_transfer_accept(transfer, side.queue, PATIENCE, &connection, &e));
    gpud_connection_close(&connection);
    gpud_connection_close(&side.connection);
    gpud_transfer_destroy(&wrong);
    gpud_transfer_destroy(&right);

    /* A receiver of frames is refused by a transfer. */
    struct gpud_frame *frame;
    gpud_transfer_interrupt(transfer, false);
    struct gpud_receiver *receiver =
        NEW_RECEIVER(side.context, .address = address_of(""), .psk_file = "/tmp/right");
    struct gpud_error error = {.reason = ""};
    enum gpud_status status = gpud_receiver_acquire(receiver, GPUD_SEC, &frame, &error);
    CHECK(status == GPUD_PEER || status == GPUD_TIMEOUT, "%s: %s", gpud_status_string(status),
          error.reason);
    EXPECT(GPUD_TIMEOUT, "no peer connected",
           gpud_transfer_accept(transfer, side.queue, 0, &connection, &e));
    gpud_receiver_destroy(&receiver);
    gpud_transfer_destroy(&transfer);
}

static void give_keys(int other)
{
    AUTO(close_side) struct side side = meet_as_listener(other);
    AUTO(close_again) struct side second = meet_again_as_listener(other, side);
    AUTO(drop_buffer) struct buffer written = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_WRITE);
    AUTO(drop_buffer) struct buffer read = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_READ);
    AUTO(drop_buffer)
    struct buffer elsewhere =
        make_buffer(&second, SIZE, GPUD_REGION_REMOTE_WRITE | GPUD_REGION_REMOTE_READ);
    fill_pattern(read.bytes, SIZE, 3);
    say_key(other, written.region);
    say_key(other, read.region);
    say_key(other, elsewhere.region);
    hear(other);
    CHECK(is_all(written.bytes, SIZE, 0) && has_pattern(read.bytes, SIZE, 3) &&
              is_all(elsewhere.bytes, SIZE, 0),
          "something was written all the same");
    say(other, 1);
}

#define MOVE(buffer, ...) &range_of(buffer, 0, 1, __VA_ARGS__)

/* All of it is refused here, and costs the connections nothing. */
static void use_keys(int other)
{
    struct gpud_region_key none;
    AUTO(close_side) struct side side = meet_as_caller(other);
    AUTO(close_again) struct side second = meet_again_as_caller(other, side);
    AUTO(drop_buffer) struct buffer local = make_buffer(&side, SIZE, GPUD_REGION_LOCAL);
    AUTO(drop_buffer) struct buffer foreign = make_buffer(&second, SIZE, GPUD_REGION_LOCAL);
    struct gpud_region_key written = hear_key(other), read = hear_key(other),
                           elsewhere = hear_key(other);
    struct gpud_region_key own = INFO(region, local.region).key, wrong = written;
    EXPECT(GPUD_NO_ACCESS, "GPUD_REGION_REMOTE_WRITE",
           POST(&side, PUT, MOVE(&local, .key = &read)));
    EXPECT(GPUD_NO_ACCESS, "GPUD_REGION_REMOTE_READ",
           POST(&side, GET, MOVE(&local, .key = &written)));
    EXPECT(GPUD_NO_ACCESS, "GPUD_REGION_REMOTE_WRITE",
           POST(&side, RECEIVE, MOVE(&local, .key = &written)));
    EXPECT(GPUD_INVALID, "not registered with this connection",
           POST(&side, PUT, MOVE(&local, .key = &elsewhere)));
    memset(&none, 0x5a, sizeof(none));
    EXPECT(GPUD_INVALID, "not the key of a region", POST(&side, PUT, MOVE(&local, .key = &none)));
    wrong.bytes[6] = 2; /* a message, not a key */
    EXPECT(GPUD_INVALID, "not the key of a region", POST(&side, GET, MOVE(&local, .key = &wrong)));
    EXPECT(GPUD_INVALID, "no key", POST(&side, PUT, MOVE(&local, .key = NULL)));

    static const struct {
        uint64_t own, peers, length;
    } outside[] = {
        {SIZE, 0, 1},       {0, SIZE, 1},       {SIZE - 1, 0, 2},
        {0, SIZE - 1, 2},   {0, 0, SIZE + 1},   {UINT64_MAX, 0, 2},
        {0, UINT64_MAX, 2}, {1, 0, UINT64_MAX}, {0, 1, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        struct gpud_operation_params put =
            range_of(&local, outside[i].own, outside[i].length, .key = &written,
                     .key_offset = outside[i].peers);
        EXPECT(GPUD_INVALID, "not inside", POST(&side, PUT, &put));
    }
    EXPECT(GPUD_INVALID, "no bytes", POST(&side, PUT, &range_of(&local, 0, 0, .key = &written)));
    EXPECT(GPUD_INVALID, "another connection", POST(&side, PUT, MOVE(&foreign, .key = &written)));
    EXPECT(GPUD_INVALID, "no region", POST(&side, PUT, MOVE(&(struct buffer){0}, .key = &written)));
    EXPECT(GPUD_INVALID, "timeout",
           POST(&side, PUT, MOVE(&local, .key = &written, .timeout_ns = -1)));
    EXPECT(GPUD_UNSUPPORTED, "no queue of the application",
           POST(&side, PUT, MOVE(&local, .key = &written, .after_queue = true)));
    EXPECT(GPUD_INVALID, "only a put",
           POST(&side, GET, MOVE(&local, .key = &written, .notify = true)));
    EXPECT(GPUD_INVALID, "local region has none", POST(&side, PUT, MOVE(&local, .key = &own)));
    EXPECT(GPUD_INVALID, "not an operation", POST(&side, ROOM, MOVE(&local, .key = &own)));
    EXPECT(GPUD_INVALID, "not an operation",
           gpud_connection_post(side.connection, 0, MOVE(&local, .key = &own), &e));
    say(other, 1);
    hear(other);
}

static void take_back(int other)
{
    AUTO(close_side) struct side side = meet_as_listener(other);
    struct buffer first = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_WRITE);
    struct buffer second = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_WRITE);
    say_key(other, first.region);
    say_key(other, second.region);
    hear(other);
    /* The other side writes there all the time, until it learns of this. */
    drop_buffer(&first);
    struct buffer third = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_WRITE); /* in its place */
    say(other, 1);
    struct gpud_completion got = await_completion(&side, GPUD_COMPLETION_NOTIFICATION, GPUD_OK);
    CHECK(got.region == second.region && got.value == 2 && has_pattern(second.bytes, SIZE, 4),
          "the other region, and the connection");
    CHECK(is_all(third.bytes, SIZE, 0), "the new region was written by the old key");
    drop_buffer(&second);
    drop_buffer(&third);
    say(other, 1);
    await_completion(&side, GPUD_COMPLETION_END, GPUD_CLOSED);
}

static void use_stale(int other)
{
    AUTO(close_side) struct side side = meet_as_caller(other);
    AUTO(drop_buffer) struct buffer source = make_buffer(&side, SIZE, GPUD_REGION_LOCAL);
    struct gpud_region_key first = hear_key(other), second = hear_key(other);
    struct gpud_operation_params put = range_of(&source, 0, SIZE, .key = &first);
    struct gpud_completion done = {.size = sizeof(done)};
    struct gpud_error error = {.reason = ""};
    enum gpud_status status;
    size_t count;
    uint64_t posted = 0, completed = 0, refused = 0;
    while ((status = gpud_connection_post(side.connection, GPUD_COMPLETION_PUT, &put, &error)) ==
               GPUD_OK ||
           status == GPUD_TIMEOUT) {
        posted += status == GPUD_OK;
        if (posted == 20 && status == GPUD_OK)
            say(other, 1);
        while (gpud_completion_queue_wait(side.queue, 0, &done, 1, &count, NULL) == GPUD_OK) {
            completed += done.kind == GPUD_COMPLETION_PUT;
            refused += done.status == GPUD_NO_ACCESS;
            CHECK(done.status == GPUD_OK || done.status == GPUD_NO_ACCESS, "a put: %s",
                  gpud_status_string(done.status));
        }
    }
    CHECK(status == GPUD_NO_ACCESS && strstr(error.reason, "took the region back"), "%s: %s",
          gpud_status_string(status), error.reason);
    while (completed < posted) {
        WORKS(gpud_completion_queue_wait(side.queue, PATIENCE, &done, 1, &count, &e));
        completed += done.kind == GPUD_COMPLETION_PUT;
        refused += done.status == GPUD_NO_ACCESS;
        CHECK(done.status == GPUD_OK || done.status == GPUD_NO_ACCESS, "a put: %s",
              gpud_status_string(done.status));
    }
    SAY("%llu puts until the region was gone, %llu of them refused", (unsigned long long)posted,
        (unsigned long long)refused);
    hear(other);
    EXPECT(GPUD_NO_ACCESS, "took the region back", POST(&side, PUT, &put));
    put = range_of(&source, 0, SIZE, .key = &second, .notify = true, .value = 2);
    fill_pattern(source.bytes, SIZE, 4);
    WORKS(POST(&side, PUT, &put));
    do
        done = next_completion(&side);
    while (done.kind == GPUD_COMPLETION_ROOM);
    CHECK(done.kind == GPUD_COMPLETION_PUT && done.status == GPUD_OK, "the other region");
    hear(other);
}

static void be_attacked(int other)
{
    AUTO(close_side) struct side side = meet_as_listener(other);
    AUTO(close_again) struct side good = meet_again_as_listener(other, side);
    AUTO(drop_buffer) struct buffer target = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_WRITE);
    AUTO(drop_buffer) struct buffer beside = make_buffer(&good, SIZE, GPUD_REGION_REMOTE_WRITE);
    say_key(other, target.region);
    say_key(other, beside.region);
    /* Its card refuses, and that connection is over; the other one is not. */
    struct gpud_completion ended = next_completion(&side);
    CHECK(ended.kind == GPUD_COMPLETION_END && ended.status == GPUD_PEER, "it is attacked: %d %s",
          ended.kind, gpud_status_string(ended.status));
    await_completion(&good, GPUD_COMPLETION_NOTIFICATION, GPUD_OK);
    CHECK(has_pattern(beside.bytes, SIZE, 8) && is_all(target.bytes, SIZE, 0),
          "memory of the other connection");
    say(other, 1);
}

static void attack(int other)
{
    AUTO(close_side) struct side side = meet_as_caller(other);
    AUTO(close_again) struct side good = meet_again_as_caller(other, side);
    AUTO(drop_buffer) struct buffer source = make_buffer(&side, SIZE, GPUD_REGION_LOCAL);
    AUTO(drop_buffer) struct buffer good_source = make_buffer(&good, SIZE, GPUD_REGION_LOCAL);
    struct gpud_region_key key = hear_key(other), good_key = hear_key(other), forged;
    fill_pattern(good_source.bytes, SIZE, 8);
    /* As if it were larger, and sealed by a peer that bypasses the library. */
    const struct transfer_secret secret = {side.connection->peer_nonce, side.connection->nonce};
    struct transfer_message said;
    WORKS(gpud_transfer_unseal(key.bytes, &secret, &said, &e));
    said.size |= 0x100000;
    gpud_transfer_seal(&said, &secret, forged.bytes);
    struct gpud_operation_params put =
        range_of(&source, 0, SIZE, .key = &forged, .key_offset = SIZE);
    WORKS(POST(&side, PUT, &put));
    await_completion(&side, GPUD_COMPLETION_PUT, GPUD_NO_ACCESS);
    await_completion(&side, GPUD_COMPLETION_END, GPUD_NO_ACCESS);
    put.key = &key;
    put.key_offset = 0;
    EXPECT(GPUD_NO_ACCESS, "refused", POST(&side, PUT, &put));
    put = range_of(&good_source, 0, SIZE, .key = &good_key, .notify = true);
    DO(&good, PUT, &put);
    hear(other);
}

static void hold_still(int other)
{
    AUTO(close_side) struct side side = meet_as_listener(other);
    struct buffer target = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_WRITE);
    say_key(other, target.region);
    hear(other);
    /* Its notifications wait here, none is lost, and then their puts go on. */
    for (uint32_t i = 0; i < GPUD_OPERATIONS_MAX; i++)
        CHECK_EQUAL(await_completion(&side, GPUD_COMPLETION_NOTIFICATION, GPUD_OK).value, i);
    drop_buffer(&target);
    say(other, 1);
    await_completion(&side, GPUD_COMPLETION_END, GPUD_CLOSED);
}

static void fill_up(int other)
{
    AUTO(close_side) struct side side = meet_as_caller(other);
    AUTO(drop_buffer) struct buffer source = make_buffer(&side, SIZE, GPUD_REGION_LOCAL);
    struct gpud_region_key key = hear_key(other);
    struct gpud_operation_params put = range_of(&source, 0, 16, .key = &key, .notify = true);
    for (put.value = 0; put.value < GPUD_OPERATIONS_MAX; put.value++)
        WORKS(POST(&side, PUT, &put));
    EXPECT(GPUD_TIMEOUT, "256 operations", POST(&side, PUT, &put));
    say(other, 1);
    bool has_room = false;
    for (uint32_t i = 0; i < GPUD_OPERATIONS_MAX || !has_room;) {
        struct gpud_completion done = next_completion(&side);
        if (done.kind == GPUD_COMPLETION_ROOM)
            has_room = true;
        else
            CHECK(done.kind == GPUD_COMPLETION_PUT && done.status == GPUD_OK && done.value == i++,
                  "put %u", i);
    }
    hear(other);
}

static void *interrupt_soon(void *arg)
{
    struct side *side = arg;
    usleep(20000);
    gpud_completion_queue_interrupt(side->queue, true);
    gpud_transfer_interrupt(side->transfer, true);
    return NULL;
}

static void watch_events(int other)
{
    struct gpud_completion got[4] = {{.size = sizeof(got[0])}};
    size_t count;
    AUTO(close_side) struct side side = meet_as_listener(other);
    int fd = epoll_create1(EPOLL_CLOEXEC), completions;
    struct epoll_event event = {.events = EPOLLIN};
    WORKS(gpud_completion_queue_get_fd(side.queue, &completions, &e));
    CHECK(epoll_ctl(fd, EPOLL_CTL_ADD, completions, &event) == 0, "epoll: %m");
    CHECK(epoll_wait(fd, &event, 1, 0) == 0, "readable, and nothing is there");
    for (uint32_t i = 0; i < 3; i++) {
        say(other, i);
        CHECK(epoll_wait(fd, &event, 1, 60000) == 1, "nothing comes");
        WORKS(gpud_completion_queue_wait(side.queue, 0, got, 4, &count, &e));
        CHECK(count == 1 && got[0].kind == GPUD_COMPLETION_NOTIFICATION && got[0].value == i,
              "notification %u", i);
        CHECK(epoll_wait(fd, &event, 1, 0) == 0, "readable, and all was taken");
    }
    EXPECT(GPUD_TIMEOUT, "nothing was completed",
           gpud_completion_queue_wait(side.queue, 0, got, 4, &count, &e));
    pthread_t thread = NEW_THREAD(interrupt_soon, &side);
    EXPECT(GPUD_AGAIN, "interrupted",
           gpud_completion_queue_wait(side.queue, PATIENCE, got, 4, &count, &e));
    pthread_join(thread, NULL);
    struct gpud_operation_params send = range_of(&(struct buffer){0}, 0, 0, .timeout_ns = PATIENCE);
    EXPECT(GPUD_AGAIN, "interrupted", POST(&side, SEND, &send));
    close(fd);
    say(other, 4);
}

static void cause_events(int other)
{
    AUTO(close_side) struct side side = meet_as_caller(other);
    struct gpud_operation_params put = range_of(&(struct buffer){0}, 0, 0, .notify = true);
    uint64_t word;
    while ((word = hear(other)) < 4) {
        put.value = (uint32_t)word;
        DO(&side, PUT, &put);
    }
}

/* --- the end ---------------------------------------------------------------------------------- */

static void be_killed(int other)
{
    struct side side = meet_as_listener(other);
    struct buffer target =
        make_buffer(&side, LARGE, GPUD_REGION_REMOTE_WRITE | GPUD_REGION_REMOTE_READ);
    struct gpud_operation_params recv = range_of(&target, 0, 64);
    WORKS(POST(&side, RECEIVE, &recv));
    say_key(other, target.region);
    hear(other); /* nothing is said any more */
    FAIL("not killed");
}

/* What the kernel takes from a killed process first, the memory or the connection, is not known. */
static bool is_of_death(enum gpud_status status)
{
    return status == GPUD_PEER || status == GPUD_NO_ACCESS;
}

/* Counts it, unless it is the end. */
static struct gpud_completion count_completion(const struct side *side, uintptr_t posted,
                                               bool *seen, uintptr_t *completed, uintptr_t *failed)
{
    struct gpud_completion done = next_completion(side);
    uintptr_t which = (uintptr_t)done.user;
    if (done.kind == GPUD_COMPLETION_END)
        return done;
    CHECK(which < posted && !seen[which], "operation %d is completed again", (int)which);
    CHECK(done.status == GPUD_OK || is_of_death(done.status), "%s",
          gpud_status_string(done.status));
    seen[which] = true;
    *completed += 1;
    *failed += is_of_death(done.status);
    return done;
}

/* Each operation is completed, once, and the end comes behind them. */
static void test_killed_peer(void)
{
    int other, status;
    pid_t child = run_apart(be_killed, &other);
    AUTO(close_side) struct side side = meet_as_caller(other);
    AUTO(drop_buffer) struct buffer source = make_buffer(&side, LARGE, GPUD_REGION_REMOTE_WRITE);
    struct gpud_region_key key = hear_key(other);
    struct gpud_operation_params move =
        range_of(&source, 0, LARGE, .key = &key, .timeout_ns = PATIENCE);
    static bool seen[1 << 20];
    uintptr_t posted = 1, completed = 1, failed = 0;
    struct gpud_operation_params recv = range_of(&source, 0, 64, .user = (void *)posted++);
    WORKS(POST(&side, RECEIVE, &recv));
    struct gpud_completion done = {.size = sizeof(done)};
    struct gpud_error error = {.reason = ""};
    enum gpud_status got = GPUD_OK;
    size_t count;
    /* Operations go on until one is refused. */
    for (int i = 0; !is_of_death(got) && done.kind != GPUD_COMPLETION_END; i++) {
        if (i == 40)
            CHECK(kill(child, SIGKILL) == 0, "kill: %m");
        move.user = (void *)posted;
        got = gpud_connection_post(
            side.connection, i % 2 ? GPUD_COMPLETION_PUT : GPUD_COMPLETION_GET, &move, &error);
        CHECK(got == GPUD_OK || (is_of_death(got) && i >= 40), "operation %d: %s: %s", i,
              gpud_status_string(got), error.reason);
        posted += got == GPUD_OK;
        CHECK(posted < sizeof(seen), "the death is not noticed");
        while (i % 32 == 31 && completed + 20 < posted && done.kind != GPUD_COMPLETION_END)
            done = count_completion(&side, posted, seen, &completed, &failed);
    }
    CHECK(waitpid(child, &status, 0) == child, "waitpid: %m");
    while (done.kind != GPUD_COMPLETION_END)
        done = count_completion(&side, posted, seen, &completed, &failed);
    CHECK(is_of_death(done.status) && completed == posted && seen[1] && failed >= 1,
          "%d completed, %d of them failed, of %d", (int)completed, (int)failed, (int)posted);
    EXPECT(GPUD_TIMEOUT, "", gpud_completion_queue_wait(side.queue, 0, &done, 1, &count, &e));
    SAY("%d operations, %d failed", (int)posted - 1, (int)failed);
}

static void write_on(int other)
{
    AUTO(close_side) struct side side = meet_as_caller(other);
    AUTO(drop_buffer) struct buffer source = make_buffer(&side, SIZE, GPUD_REGION_LOCAL);
    struct gpud_region_key key = hear_key(other);
    struct gpud_operation_params put =
        range_of(&source, 0, SIZE, .key = &key, .timeout_ns = PATIENCE, .notify = true);
    struct gpud_completion done = {.size = sizeof(done)};
    struct gpud_error error;
    enum gpud_status status;
    size_t count;
    uint64_t posted = 0, completed = 0;
    memset(source.bytes, 1, SIZE);
    while ((status = gpud_connection_post(side.connection, GPUD_COMPLETION_PUT, &put, &error)) ==
           GPUD_OK) {
        posted++;
        put.notify = false;
        while (gpud_completion_queue_wait(side.queue, 0, &done, 1, &count, NULL) == GPUD_OK)
            completed += done.kind == GPUD_COMPLETION_PUT;
    }
    CHECK(status == GPUD_CLOSED, "%s: %s", gpud_status_string(status), error.reason);
    while (done.kind != GPUD_COMPLETION_END) {
        WORKS(gpud_completion_queue_wait(side.queue, PATIENCE, &done, 1, &count, &e));
        completed += done.kind == GPUD_COMPLETION_PUT;
    }
    CHECK(done.status == GPUD_CLOSED && completed == posted, "%llu of %llu completed",
          (unsigned long long)completed, (unsigned long long)posted);
}

static void close_early(int other)
{
    AUTO(close_side) struct side side = meet_as_listener(other);
    AUTO(drop_buffer) struct buffer target = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_WRITE);
    struct gpud_operation_params recv = range_of(&target, 0, 64);
    WORKS(POST(&side, RECEIVE, &recv));
    say_key(other, target.region);
    await_completion(&side, GPUD_COMPLETION_NOTIFICATION, GPUD_OK);
    struct gpud_connection *gone = side.connection;
    gpud_connection_close(&side.connection);
    /* The pages are reused from here on, while the other side keeps writing. */
    memset(target.bytes, 2, SIZE);
    struct gpud_completion done[2] = {{.size = sizeof(done[0])}};
    size_t count;
    WORKS(gpud_completion_queue_wait(side.queue, 0, done, 2, &count, &e));
    CHECK(count == 2 && done[0].kind == GPUD_COMPLETION_RECEIVE && done[0].status == GPUD_CLOSED &&
              done[1].kind == GPUD_COMPLETION_END && done[1].status == GPUD_CLOSED &&
              done[1].connection == gone,
          "what was under way, and the end");
    for (int i = 0; i < 100; i++) {
        CHECK(is_all(target.bytes, SIZE, 2), "written after the end");
        usleep(1000);
    }
}

static void wait_for_word(int other)
{
    AUTO(close_side) struct side side = meet_as_listener(other);
    hear(other);
}

#define REGISTER(params, region) gpud_region_create(side.connection, params, region, &e)

static void register_all(int other)
{
    struct gpud_region *region = NULL;
    struct gpud_region_info info = GPUD_INFO_INIT(info);
    struct gpud_region_params params = GPUD_PARAMS_INIT(params);
    AUTO(close_side) struct side side = meet_as_caller(other);
    struct gpud_device *host = OPEN_DEVICE(side.context, "host");
    struct gpud_memory *memory = NEW_MEMORY(host, SIZE);
    EXPECT(GPUD_INVALID, "no memory", REGISTER(&params, &region));
    params.memory = memory;
    params.access = 1u << 7;
    EXPECT(GPUD_INVALID, "no access 0x80", REGISTER(&params, &region));
    params.access = GPUD_REGION_REMOTE_READ;
    params.length = 5;
    EXPECT(GPUD_INVALID, "either a memory", REGISTER(&params, &region));
    params.length = 0;
    WORKS(REGISTER(&params, &region));
    gpud_region_get_info(region, &info);
    CHECK(info.length == SIZE && info.access == GPUD_REGION_REMOTE_READ &&
              strcmp(info.device, "host") == 0 && strcmp(info.way, "host") == 0,
          "%s by %s", info.device, info.way);
    gpud_memory_unref(&memory); /* kept by the region */
    WORKS(gpud_region_destroy(&region, 0, &e));
    gpud_device_close(&host);

    /* Soft-RoCE takes no GPU's memory: each way says why not. */
    struct gpud_device *cuda = OPEN_DEVICE(side.context, "cuda:0");
    memory = NEW_MEMORY(cuda, SIZE);
    params = (struct gpud_region_params)GPUD_PARAMS_INIT(params);
    params.memory = memory;
    EXPECT(GPUD_UNSUPPORTED, "dma-buf: the driver of rxe0 takes no dma-bufs",
           REGISTER(&params, &region));
    params.memory = NULL;
    params.address = gpud_memory_get_native(memory);
    params.length = SIZE;
    EXPECT(GPUD_UNSUPPORTED, "peermem: nvidia-peermem is not loaded", /* detected */
           REGISTER(&params, &region));
    params.device = "cuda:0";
    EXPECT(GPUD_UNSUPPORTED, "memory of cuda:0 cannot be registered", REGISTER(&params, &region));
    params.device = "abacus:0";
    EXPECT(GPUD_INVALID, "not a device", REGISTER(&params, &region));
    gpud_memory_unref(&memory);
    gpud_device_close(&cuda);
    say(other, 1);
}

static void *accept_in_vain(void *arg)
{
    struct side *side = arg;
    EXPECT(GPUD_AGAIN, "interrupted",
           gpud_transfer_accept(side->transfer, side->queue, PATIENCE, &side->connection, &e));
    return NULL;
}

static void *complete_in_vain(void *arg)
{
    const struct side *side = arg;
    struct gpud_completion completion = {.size = sizeof(completion)};
    size_t count;
    EXPECT(GPUD_AGAIN, "interrupted",
           gpud_completion_queue_wait(side->queue, PATIENCE, &completion, 1, &count, &e));
    return NULL;
}

/* How often threads of this process, but for this one, have gone to sleep. */
static unsigned long count_sleeps(void)
{
    unsigned long count = 0, one;
    char path[300], line[256];
    DIR *threads = opendir("/proc/self/task");
    CHECK(threads, "/proc/self/task: %m");
    for (struct dirent *thread; (thread = readdir(threads));) {
        if (thread->d_name[0] == '.' || atoi(thread->d_name) == getpid())
            continue;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread->d_name);
        FILE *file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file))
            if (sscanf(line, "voluntary_ctxt_switches: %lu", &one) == 1)
                count += one;
        if (file)
            fclose(file);
    }
    closedir(threads);
    return count;
}

/* A server without connections sleeps, and so do the calls that wait; an interrupt wakes them. */
static void test_idle(void)
{
    AUTO(close_side) struct side side = open_side(true);
    pthread_t threads[] = {NEW_THREAD(accept_in_vain, &side), NEW_THREAD(complete_in_vain, &side)};
    /* Until they sleep. */
    unsigned long before, after = count_sleeps();
    int64_t deadline = gpud_deadline(PATIENCE);
    do {
        before = after;
        usleep(1000000);
        after = count_sleeps();
        SAY("in a second %lu wakings", after - before);
    } while (after - before > 0 && gpud_now() < deadline);
    CHECK_EQUAL(after, before);
    gpud_completion_queue_interrupt(side.queue, true);
    gpud_transfer_interrupt(side.transfer, true);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

int main(int argc, char **argv)
{
    static const struct network_case cases[] = {
        {"connecting", test_connecting},
        {"puts", .sender = take_puts, .receiver = make_puts},
        {"gets", .sender = give_gets, .receiver = make_gets},
        {"messages", .sender = take_messages, .receiver = make_messages},
        {"missing-receives", .sender = receive_late, .receiver = send_early},
        {"rights", .sender = give_keys, .receiver = use_keys},
        {"stale-keys", .sender = take_back, .receiver = use_stale},
        {"forged-keys", .sender = be_attacked, .receiver = attack},
        {"depth", .sender = hold_still, .receiver = fill_up},
        {"events", .sender = watch_events, .receiver = cause_events},
        {"killed-peer", test_killed_peer},
        {"closing", .sender = close_early, .receiver = write_on},
        {"registration", .sender = wait_for_word, .receiver = register_all},
        {"idle", test_idle},
        {NULL},
    };
    network = (struct network_kind){
        .scheme = "rdma",
        .host = getenv("GPUDIRECT_ADDRESS"),
        .handshake_deadline = &gpud_rdma_handshake_deadline,
    };
    run_cases(cases, argc, argv);
    return 0;
}
