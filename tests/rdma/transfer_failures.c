/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is refused, and what that costs: nothing. */
#include "transfer_ends.h"

#include "keys.h"

#include "transfer/transfer.h"
#include "support/make.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#define SIZE UINT64_C(65536)

/* --- connecting ------------------------------------------------------------------------------ */

static void expect_no_connection(struct gpud_transfer *transfer, const char *address,
                                 enum gpud_status status, const char *says)
{
    struct gpud_completion_queue *queue;
    struct gpud_connection *connection;
    struct gpud_context *context = NEW_CONTEXT();
    WORKS(gpud_completion_queue_create(context, &queue, &e));
    EXPECT(status, says,
           gpud_transfer_connect(transfer, address, queue, PATIENCE, &connection, &e));
    gpud_completion_queue_destroy(&queue);
    gpud_context_destroy(&context);
}

static void write_key(const char *path, const char *key)
{
    FILE *file = fopen(path, "w");
    CHECK(file && fchmod(fileno(file), 0600) == 0 && fputs(key, file) >= 0 && fclose(file) == 0,
          "%s: %m", path);
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

void test_connecting(void)
{
    struct gpud_transfer_params params = GPUD_PARAMS_INIT(params);
    struct gpud_transfer *transfer, *right, *wrong;
    struct gpud_connection *connection = NULL;
    struct side side = open_side(0);
    expect_no_connection(side.transfer, address_of(7110, ""), GPUD_CLOSED, "no sender listens");
    expect_no_connection(side.transfer, "cam1", GPUD_UNSUPPORTED, "network cards");
    expect_no_connection(side.transfer, "rdma://10.0.0.1:bad", GPUD_INVALID, "");
    EXPECT(GPUD_INVALID, "without an address",
           gpud_transfer_accept(side.transfer, side.queue, 0, &connection, &e));

    params.address = address_of(7111, "");
    EXPECT(GPUD_NO_ACCESS, "", gpud_transfer_create(side.context, &params, &transfer, &e));
    params.address = "unix:/tmp/none";
    EXPECT(GPUD_UNSUPPORTED, "network cards",
           gpud_transfer_create(side.context, &params, &transfer, &e));

    /* Keys, as streams have them. */
    write_key("/tmp/right", "0123456789abcdef");
    write_key("/tmp/wrong", "0123456789abcdeg");
    transfer = with_file(side.context, address_of(7112, ""), "/tmp/right");
    right = with_file(side.context, NULL, "/tmp/right");
    wrong = with_file(side.context, NULL, "/tmp/wrong");
    expect_no_connection(wrong, address_of(7112, ""), GPUD_NO_ACCESS, "key");
    expect_no_connection(side.transfer, address_of(7112, ""), GPUD_NO_ACCESS, "key");
    struct pollfd waits = {.events = POLLIN};
    WORKS(gpud_transfer_get_fd(transfer, &waits.fd, &e));
    CHECK(poll(&waits, 1, 0) == 0, "a peer without the key is there");
    WORKS(gpud_transfer_connect(right, address_of(7112, ""), side.queue, PATIENCE, &side.connection,
                                &e));
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
        NEW_RECEIVER(side.context, .address = address_of(7112, ""), .psk_file = "/tmp/right");
    struct gpud_error error = {.reason = ""};
    enum gpud_status status = gpud_receiver_acquire(receiver, GPUD_SEC, &frame, &error);
    CHECK(status == GPUD_PEER || status == GPUD_TIMEOUT, "%s: %s", gpud_status_string(status),
          error.reason);
    EXPECT(GPUD_TIMEOUT, "no peer connected",
           gpud_transfer_accept(transfer, side.queue, 0, &connection, &e));
    gpud_receiver_destroy(&receiver);
    gpud_transfer_destroy(&transfer);
    close_side(&side);
}

/* --- keys and rights ------------------------------------------------------------------------- */

static void give_keys(int other)
{
    struct side second;
    struct side side = meet_as_listener(other, 7113);
    second = side;
    say(other, 1);
    accept_side(&second);
    struct buffer written = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_WRITE);
    struct buffer read = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_READ);
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
    drop_buffer(&written);
    drop_buffer(&read);
    drop_buffer(&elsewhere);
    say(other, 1);
    gpud_connection_close(&second.connection);
    close_side(&side);
}

/* All of it is refused here, and costs the connections nothing. */
static void use_keys(int other)
{
    struct side second;
    struct gpud_region_key none;
    struct side side = meet_as_caller(other, 7113);
    second = side;
    hear(other);
    connect_side(&second, 7113);
    struct buffer local = make_buffer(&side, SIZE, GPUD_REGION_LOCAL);
    struct buffer foreign = make_buffer(&second, SIZE, GPUD_REGION_LOCAL);
    struct gpud_region_key written = hear_key(other), read = hear_key(other),
                           elsewhere = hear_key(other);
    struct gpud_operation_params move = range_of(&local, 0, 1, .key = &read);
    EXPECT(GPUD_NO_ACCESS, "GPUD_REGION_REMOTE_WRITE", POST(&side, PUT, &move));
    move.key = &written;
    EXPECT(GPUD_NO_ACCESS, "GPUD_REGION_REMOTE_READ", POST(&side, GET, &move));
    EXPECT(GPUD_NO_ACCESS, "GPUD_REGION_REMOTE_WRITE", POST(&side, RECEIVE, &move));
    move.key = &elsewhere;
    EXPECT(GPUD_INVALID, "not registered with this connection", POST(&side, PUT, &move));
    memset(&none, 0x5a, sizeof(none));
    move.key = &none;
    EXPECT(GPUD_INVALID, "no key of a region", POST(&side, PUT, &move));
    none = written;
    none.bytes[6] = 2; /* a message, not a key */
    EXPECT(GPUD_INVALID, "no key of a region", POST(&side, GET, &move));
    move.key = NULL;
    EXPECT(GPUD_INVALID, "no key", POST(&side, PUT, &move));

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
    move.key = &written;
    move.length = 0;
    EXPECT(GPUD_INVALID, "no bytes", POST(&side, PUT, &move));
    move.length = 1;
    move.region = foreign.region;
    EXPECT(GPUD_INVALID, "another connection", POST(&side, PUT, &move));
    move.region = NULL;
    EXPECT(GPUD_INVALID, "no region", POST(&side, PUT, &move));
    move.region = local.region;
    move.timeout_ns = -1;
    EXPECT(GPUD_INVALID, "timeout", POST(&side, PUT, &move));
    move.timeout_ns = 0;
    move.after_queue = true;
    EXPECT(GPUD_UNSUPPORTED, "no queue of the application", POST(&side, PUT, &move));
    move.after_queue = false;
    move.notify = true;
    EXPECT(GPUD_INVALID, "only a put", POST(&side, GET, &move));
    struct gpud_region_key key = key_of(local.region);
    move.notify = false;
    move.key = &key;
    EXPECT(GPUD_INVALID, "local region has none", POST(&side, PUT, &move));
    EXPECT(GPUD_INVALID, "no kind", POST(&side, ROOM, &move));
    EXPECT(GPUD_INVALID, "no kind", gpud_connection_post(side.connection, 0, &move, &e));
    say(other, 1);
    hear(other);
    drop_buffer(&local);
    drop_buffer(&foreign);
    gpud_connection_close(&second.connection);
    close_side(&side);
}

void test_rights(void)
{
    run_both(give_keys, use_keys);
}

/* --- a region that is taken back -------------------------------------------------------------- */

static void take_back(int other)
{
    struct side side = meet_as_listener(other, 7114);
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
    close_side(&side);
}

static void use_stale(int other)
{
    AUTO(close_side) struct side side = meet_as_caller(other, 7114);
    AUTO(drop_buffer) struct buffer source = make_buffer(&side, SIZE, GPUD_REGION_LOCAL);
    struct gpud_region_key first = hear_key(other), second = hear_key(other);
    struct gpud_operation_params put = range_of(&source, 0, SIZE);
    struct gpud_completion done = {.size = sizeof(done)};
    struct gpud_error error = {.reason = ""};
    enum gpud_status status;
    size_t count;
    uint64_t posted = 0, completed = 0, refused = 0;
    put.key = &first;
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
    put.key = &second;
    put.notify = true;
    put.value = 2;
    fill_pattern(source.bytes, SIZE, 4);
    WORKS(POST(&side, PUT, &put));
    do
        done = next_completion(&side);
    while (done.kind == GPUD_COMPLETION_ROOM);
    CHECK(done.kind == GPUD_COMPLETION_PUT && done.status == GPUD_OK, "the other region");
    hear(other);
}

void test_stale_keys(void)
{
    run_both(take_back, use_stale);
}

/* --- forged keys ------------------------------------------------------------------------------ */

static void be_attacked(int other)
{
    struct side good;
    struct side side = open_side(7115);
    say(other, 1);
    accept_side(&side);
    say(other, 1);
    good = side;
    accept_side(&good);
    struct buffer target = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_WRITE);
    struct buffer beside = make_buffer(&good, SIZE, GPUD_REGION_REMOTE_WRITE);
    say_key(other, target.region);
    say_key(other, beside.region);
    /* Its card refuses, and that connection is over; the other one is not. */
    struct gpud_completion ended = next_completion(&side);
    CHECK(ended.kind == GPUD_COMPLETION_END && ended.status == GPUD_PEER, "it is attacked: %d %s",
          ended.kind, gpud_status_string(ended.status));
    await_completion(&good, GPUD_COMPLETION_NOTIFICATION, GPUD_OK);
    CHECK(has_pattern(beside.bytes, SIZE, 8) && is_all(target.bytes, SIZE, 0),
          "memory of the other connection");
    drop_buffer(&target);
    drop_buffer(&beside);
    say(other, 1);
    gpud_connection_close(&good.connection);
    close_side(&side);
}

static void attack(int other)
{
    struct side good;
    struct side side = open_side(0);
    hear(other);
    connect_side(&side, 7115);
    good = side;
    hear(other);
    connect_side(&good, 7115);
    struct buffer source = make_buffer(&side, SIZE, GPUD_REGION_LOCAL);
    struct buffer good_source = make_buffer(&good, SIZE, GPUD_REGION_LOCAL);
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
    WORKS(POST(&good, PUT, &put));
    await_completion(&good, GPUD_COMPLETION_PUT, GPUD_OK);
    hear(other);
    drop_buffer(&source);
    drop_buffer(&good_source);
    gpud_connection_close(&good.connection);
    close_side(&side);
}

void test_forged_keys(void)
{
    run_both(be_attacked, attack);
}

/* --- room ------------------------------------------------------------------------------------ */

static void hold_still(int other)
{
    struct side side = meet_as_listener(other, 7116);
    struct buffer target = make_buffer(&side, SIZE, GPUD_REGION_REMOTE_WRITE);
    say_key(other, target.region);
    hear(other);
    /* Its notifications wait here, none is lost, and then their puts go on. */
    for (uint32_t i = 0; i < 4 * GPUD_RECEIVES_MAX; i++)
        CHECK_EQUAL(await_completion(&side, GPUD_COMPLETION_NOTIFICATION, GPUD_OK).value, i);
    drop_buffer(&target);
    say(other, 1);
    await_completion(&side, GPUD_COMPLETION_END, GPUD_CLOSED);
    close_side(&side);
}

static void fill_up(int other)
{
    AUTO(close_side) struct side side = meet_as_caller(other, 7116);
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

void test_depth(void)
{
    _Static_assert(GPUD_OPERATIONS_MAX == 4 * GPUD_RECEIVES_MAX, "the other side counts on it");
    run_both(hold_still, fill_up);
}

/* --- descriptors, interrupting -----------------------------------------------------------------
 */

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
    struct side side = meet_as_listener(other, 7117);
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
    close_side(&side);
}

static void cause_events(int other)
{
    AUTO(close_side) struct side side = meet_as_caller(other, 7117);
    struct gpud_operation_params put = range_of(&(struct buffer){0}, 0, 0, .notify = true);
    uint64_t word;
    while ((word = hear(other)) < 4) {
        put.value = (uint32_t)word;
        WORKS(POST(&side, PUT, &put));
        await_completion(&side, GPUD_COMPLETION_PUT, GPUD_OK);
    }
}

void test_events(void)
{
    run_both(watch_events, cause_events);
}
