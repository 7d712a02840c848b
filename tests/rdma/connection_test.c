/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connections over the kernel's soft-RoCE, made by rdma_cm as simply as can be; to be run by
 * tests/vm/guest --rdma. Argument: the name of a case, else all; "outage": by --hosts 2. */
#include "base/base.h"
#include "device/rdma/rdma.h"
#include "support/check.h"
#include "support/make.h"
#include "support/peer.h"
#include "support/spawn_again.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* Emulated machines are slow, and others work beside them. */
#define PATIENCE (60 * GPUD_SEC)

/* --- two ends in this process ----------------------------------------------------------------- */

struct end {
    struct rdma_cm_id *id;
    struct gpud_rdma *rdma;
};

struct pair {
    struct end a, b;
};

/* Memory that the other end writes. */
struct target {
    char *bytes;
    uint64_t size;
    struct gpud_rdma_region *region;
};

/* How often the other end's card tries again where this end has no receive; 7: for ever. */
static uint8_t rnr_retries = GPUD_RDMA_RNR_RETRIES;

static struct sockaddr_in address_of(const char *name, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    const char *text = getenv(name);
    CHECK(text && inet_pton(AF_INET, text, &address.sin_addr) == 1,
          "%s is no address: run it by tests/vm/guest --rdma", name);
    return address;
}

static struct rdma_cm_id *listen_at(uint16_t port)
{
    struct rdma_cm_id *id;
    struct sockaddr_in address = address_of("GPUDIRECT_ADDRESS", port);
    CHECK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id: %m");
    CHECK(rdma_bind_addr(id, (struct sockaddr *)&address) == 0, "rdma_bind_addr: %m");
    CHECK(rdma_listen(id, 8) == 0, "rdma_listen: %m");
    return id;
}

static struct rdma_conn_param parameters(struct end *end)
{
    uint8_t timeout = GPUD_RDMA_ACK_TIMEOUT;
    CHECK(rdma_set_option(end->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
                          sizeof(timeout)) == 0,
          "rdma_set_option: %m");
    return (struct rdma_conn_param){.responder_resources = 1,
                                    .initiator_depth = 1,
                                    .retry_count = GPUD_RDMA_RETRIES,
                                    .rnr_retry_count = rnr_retries};
}

static void accept_end(struct rdma_cm_id *listener, struct end *end)
{
    CHECK(rdma_get_request(listener, &end->id) == 0, "rdma_get_request: %m");
    struct rdma_conn_param param = parameters(end);
    WORKS(gpud_rdma_create(end->id, &end->rdma, &e));
    CHECK(rdma_accept(end->id, &param) == 0, "rdma_accept: %m");
    gpud_rdma_set_peer_receives(end->rdma, GPUD_RDMA_RECEIVES);
}

static void drop_end(struct end *end)
{
    gpud_rdma_end(end->rdma);
    CHECK(rdma_destroy_id(end->id) == 0, "rdma_destroy_id: %m");
    gpud_rdma_unref(&end->rdma);
    end->id = NULL;
}

/* false: there is no listener. */
static bool try_connect_end(uint16_t port, struct end *end)
{
    struct sockaddr_in address = address_of("GPUDIRECT_PEER", port);
    CHECK(rdma_create_id(NULL, &end->id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id: %m");
    CHECK(rdma_resolve_addr(end->id, NULL, (struct sockaddr *)&address, 2000) == 0,
          "rdma_resolve_addr: %m");
    CHECK(rdma_resolve_route(end->id, 2000) == 0, "rdma_resolve_route: %m");
    struct rdma_conn_param param = parameters(end);
    WORKS(gpud_rdma_create(end->id, &end->rdma, &e));
    if (rdma_connect(end->id, &param) != 0) {
        CHECK(errno == ECONNREFUSED, "rdma_connect: %m");
        drop_end(end);
        return false;
    }
    gpud_rdma_set_peer_receives(end->rdma, GPUD_RDMA_RECEIVES);
    return true;
}

static struct rdma_cm_id *pair_listener;

static void *connect_thread(void *arg)
{
    CHECK(try_connect_end(ntohs(rdma_get_src_port(pair_listener)), arg), "there is no listener");
    return NULL;
}

static struct pair make_pair(void)
{
    struct pair pair;
    struct rdma_cm_id *listener = pair_listener = listen_at(0);
    pthread_t thread = NEW_THREAD(connect_thread, &pair.b);
    accept_end(listener, &pair.a);
    pthread_join(thread, NULL);
    rdma_destroy_id(listener);
    return pair;
}

static void drop_pair(struct pair *pair)
{
    drop_end(&pair->a);
    drop_end(&pair->b);
}

/* Readable within so many ms. */
static bool is_readable(const struct end *end, int ms)
{
    struct pollfd wait = {.fd = gpud_rdma_get_fd(end->rdma), .events = POLLIN};
    return poll(&wait, 1, ms) > 0;
}

static struct target make_target(struct end *end, uint64_t size, unsigned access)
{
    struct target target = {.size = size};
    target.bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(target.bytes != MAP_FAILED, "mmap: %m");
    WORKS(gpud_rdma_register(end->rdma, target.bytes, size, access, &target.region, &e));
    return target;
}

static void drop_target(struct target *target)
{
    gpud_rdma_unregister(&target->region);
    munmap(target->bytes, target->size);
}

static void fill(char *bytes, uint64_t size, uint32_t seed)
{
    uint64_t i = 0;
    for (; i + sizeof(seed) <= size; i += sizeof(seed)) {
        seed = seed * 1664525 + 1013904223;
        memcpy(bytes + i, &seed, sizeof(seed));
    }
    memset(bytes + i, 'e', size - i);
}

/* Where a peer in another process has its memory. */
struct place {
    uint64_t address;
    uint32_t key;
};

static struct place place_of(const struct target *target)
{
    return (struct place){gpud_rdma_region_address(target->region),
                          gpud_rdma_region_key(target->region)};
}

static struct gpud_rdma_transfer to_place(const struct target *local, struct place place,
                                          uint64_t size)
{
    return (struct gpud_rdma_transfer){.local = local->region,
                                       .remote_address = place.address,
                                       .remote_key = place.key,
                                       .size = size};
}

static enum gpud_status write_to(struct end *end, const struct target *from, uint64_t from_offset,
                                 const struct target *to, uint64_t to_offset, uint64_t size,
                                 struct gpud_error *error)
{
    struct gpud_rdma_transfer transfer = to_place(from, place_of(to), size);
    transfer.local_offset = from_offset;
    transfer.remote_address += to_offset;
    return gpud_rdma_write(end->rdma, &transfer, error);
}

/* The next message, which is a place. */
static struct place hear_place(struct end *end)
{
    const void *message;
    struct place place;
    size_t size;
    PEER_UNTIL("the peer's word", 60000,
               gpud_rdma_receive(end->rdma, &message, &size, NULL) == GPUD_OK);
    CHECK_EQUAL(size, sizeof(place));
    memcpy(&place, message, size);
    return place;
}

static void say_place(struct end *end, const struct target *target)
{
    struct place place = place_of(target);
    WORKS(gpud_rdma_send(end->rdma, &place, sizeof(place), &e));
}

static void drain(struct end *end)
{
    WORKS(gpud_rdma_drain(end->rdma, gpud_rdma_posted(end->rdma), gpud_deadline(PATIENCE), &e));
}

/* Until the condition holds; both ends are looked after meanwhile. */
#define UNTIL(pair, condition)                                         \
    do {                                                               \
        int64_t until_ = gpud_deadline(PATIENCE);                      \
        while (!(condition)) {                                         \
            CHECK(gpud_now() < until_, "%s: not in time", #condition); \
            gpud_rdma_progress((pair)->a.rdma);                        \
            gpud_rdma_progress((pair)->b.rdma);                        \
            usleep(100);                                               \
        }                                                              \
    } while (0)

/* --- messages and notices --------------------------------------------------------------------- */

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

static void test_messages(void)
{
    AUTO(drop_pair) struct pair pair = make_pair();
    EXPECT(GPUD_INVALID, "1 to 16384", gpud_rdma_send(pair.a.rdma, out, 0, &e));
    EXPECT(GPUD_INVALID, "1 to 16384", gpud_rdma_send(pair.a.rdma, out, sizeof(out) + 1, &e));
    struct end *const ends[] = {&pair.a, &pair.b};
    const uint32_t count = 3000;
    uint32_t sent[2] = {0}, received[2] = {0};
    int64_t deadline = gpud_deadline(PATIENCE);
    while (received[0] < count || received[1] < count) {
        CHECK(gpud_now() < deadline, "%u and %u of %u messages in time", received[0], received[1],
              count);
        /* In bursts, one of which is longer than there is room for. */
        struct gpud_error error;
        for (int i = 0; i < 2; i++)
            for (int n = i ? 7 : 100;
                 n > 0 && sent[i] < count && send_number(ends[i], sent[i], &error) == GPUD_OK; n--)
                sent[i]++;
        for (int i = 0; i < 2; i++)
            while (receive_number(ends[1 - i], received[1 - i]))
                received[1 - i]++;
    }
    CHECK_EQUAL(gpud_rdma_received(pair.a.rdma), count);
    CHECK_EQUAL(gpud_rdma_received(pair.b.rdma), count);
}

/* A peer that reads nothing causes GPUD_AGAIN at the sender, and can still be notified. */
static void test_unread_messages(void)
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
static void test_notices(void)
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

static void test_waking(void)
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

/* --- writes and reads ------------------------------------------------------------------------- */

#define FRAME ((uint64_t)33177600) /* 3840 x 2160 of 32 bits */

static void test_writes(void)
{
    static const uint64_t sizes[] = {1, 4, 64, 256, 257, 832, 4096, 100000};
    AUTO(drop_pair) struct pair pair = make_pair();
    AUTO(drop_target) struct target from = make_target(&pair.a, FRAME, GPUD_RDMA_LOCAL);
    AUTO(drop_target) struct target to = make_target(&pair.b, FRAME, GPUD_RDMA_REMOTE_WRITE);
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
}

/* A word is copied when it is posted: it changes again soon. */
static void test_words(void)
{
    const uint32_t count = 5000;
    AUTO(drop_pair) struct pair pair = make_pair();
    AUTO(drop_target) struct target from = make_target(&pair.a, 4096, GPUD_RDMA_LOCAL);
    AUTO(drop_target) struct target to = make_target(&pair.b, count * 64, GPUD_RDMA_REMOTE_WRITE);
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
}

/* A frame is there before the word behind it, whenever one looks. */
static void test_order(void)
{
    const uint64_t size = 300000;
    AUTO(drop_pair) struct pair pair = make_pair();
    AUTO(drop_target) struct target from = make_target(&pair.a, size + 64, GPUD_RDMA_LOCAL);
    AUTO(drop_target) struct target to = make_target(&pair.b, size + 64, GPUD_RDMA_REMOTE_WRITE);
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
}

/* What is full is no reason to lose anything, and leaves room for messages and notices. A message
 * that the peer has no receive for holds up all that is behind it. */
static void test_full_queue(void)
{
    uint32_t messages = 0, written = 0;
    rnr_retries = 7; /* for ever */
    AUTO(drop_pair) struct pair pair = make_pair();
    rnr_retries = GPUD_RDMA_RNR_RETRIES;
    AUTO(drop_target) struct target from = make_target(&pair.a, 65536, GPUD_RDMA_LOCAL);
    AUTO(drop_target) struct target to = make_target(&pair.b, 65536, GPUD_RDMA_REMOTE_WRITE);
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
}

static enum gpud_status read_from(struct end *end, const struct target *to,
                                  const struct target *from, uint64_t size,
                                  struct gpud_error *error)
{
    struct gpud_rdma_transfer transfer = to_place(to, place_of(from), size);
    return gpud_rdma_read(end->rdma, &transfer, error);
}

static void test_reads(void)
{
    static const uint64_t sizes[] = {1, 4, 64, 832, 100000, 9000000};
    AUTO(drop_pair) struct pair pair = make_pair();
    AUTO(drop_target) struct target to = make_target(&pair.a, 9000000, GPUD_RDMA_LOCAL_WRITE);
    AUTO(drop_target) struct target local = make_target(&pair.a, 4096, GPUD_RDMA_LOCAL);
    AUTO(drop_target) struct target from = make_target(&pair.b, 9000000, GPUD_RDMA_REMOTE_READ);
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
}

static void test_arguments(void)
{
    struct gpud_rdma *second;
    AUTO(drop_pair) struct pair pair = make_pair();
    AUTO(drop_target) struct target a = make_target(&pair.a, 4096, GPUD_RDMA_LOCAL);
    AUTO(drop_target) struct target b = make_target(&pair.b, 4096, GPUD_RDMA_REMOTE_WRITE);
    EXPECT(GPUD_INVALID, "not inside", write_to(&pair.a, &a, 0, &b, 0, 0, &e));
    EXPECT(GPUD_INVALID, "not inside", write_to(&pair.a, &a, 4096, &b, 0, 1, &e));
    EXPECT(GPUD_INVALID, "not inside", write_to(&pair.a, &a, 4097, &b, 0, UINT64_MAX - 4096, &e));
    EXPECT(GPUD_INVALID, "not inside", write_to(&pair.a, &a, 1, &b, 0, 4096, &e));
    EXPECT(GPUD_INVALID, "another connection", write_to(&pair.a, &b, 0, &b, 0, 1, &e));
    EXPECT(GPUD_INVALID, "a queue pair already", gpud_rdma_create(pair.a.id, &second, &e));
    CHECK(!gpud_rdma_has_room(pair.a.rdma, UINT64_MAX), "there is no room for everything");
    CHECK(strcmp(gpud_rdma_card(pair.a.rdma), "rxe0") == 0, "the card is called %s",
          gpud_rdma_card(pair.a.rdma));
}

/* --- what is not the peer's, and lies --------------------------------------------------------- */

enum refusal { WRONG_KEY, BEFORE, BEHIND, PAST, NOT_WRITABLE, NOT_READABLE, TAKEN_BACK, REFUSALS };

static void refuse(enum refusal refusal)
{
    AUTO(drop_pair) struct pair pair = make_pair();
    AUTO(drop_target) struct target from = make_target(&pair.a, 65536, GPUD_RDMA_LOCAL_WRITE);
    AUTO(drop_target)
    struct target to = make_target(
        &pair.b, 65536, refusal == NOT_WRITABLE ? GPUD_RDMA_REMOTE_READ : GPUD_RDMA_REMOTE_WRITE);
    memset(from.bytes, 1, from.size);
    struct gpud_rdma_transfer transfer = to_place(&from, place_of(&to), 4096);
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
}

static void test_refused(void)
{
    for (enum refusal refusal = 0; refusal < REFUSALS; refusal++)
        refuse(refusal);
}

static char bytes[GPUD_RDMA_MESSAGE_MAX + 1];

/* Bypasses all counts and checks. */
static void post_raw(struct end *end, enum ibv_wr_opcode opcode, uint32_t size, uint32_t key,
                     uint32_t immediate)
{
    struct ibv_sge place = {.addr = (uintptr_t)bytes, .length = size, .lkey = key};
    struct ibv_send_wr *bad,
        request = {
            .opcode = opcode, .sg_list = &place, .num_sge = size > 0, .imm_data = htonl(immediate)};
    CHECK(ibv_post_send(end->id->qp, &request, &bad) == 0, "the liar's card refuses");
}

static void test_lies(void)
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
static void test_too_many_receives(void)
{
    struct gpud_error error = {0};
    AUTO(drop_pair) struct pair pair = make_pair(), other = make_pair();
    gpud_rdma_set_peer_receives(pair.a.rdma, UINT32_MAX);
    int64_t deadline = gpud_deadline(PATIENCE);
    enum gpud_status status;
    do {
        CHECK(gpud_now() < deadline, "no failure in time");
        status = gpud_rdma_send(pair.a.rdma, "more", 4, &error);
    } while (status == GPUD_OK || status == GPUD_AGAIN);
    CHECK(strstr(error.reason, "no receive where it had promised"), "%s", error.reason);
    gpud_rdma_set_peer_receives(other.a.rdma, GPUD_RDMA_NOTICES);
    CHECK(gpud_rdma_has_failed(other.a.rdma, &error) && strstr(error.reason, "33 are the least"),
          "too few: %s", error.reason);
}

/* A peer that sends more than it may breaks its own connection; what arrived stays. */
static void test_flood(void)
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

/* --- silence, ends, threads ------------------------------------------------------------------- */

/* A silent peer is probed, and its card answers although its process does nothing. */
static void test_silence(void)
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

struct work {
    struct pair *pair;
    struct target from, to;
    atomic_uint seen; /* by the other side */
};

static void *stream_thread(void *arg)
{
    struct work *work = arg;
    struct end *end = &work->pair->a;
    struct gpud_error error;
    enum gpud_status status;
    for (;;) {
        status = write_to(end, &work->from, 0, &work->to, 0, work->from.size, &error);
        if (status == GPUD_OK)
            gpud_rdma_notify(end->rdma, true);
        if (status == GPUD_OK || status == GPUD_AGAIN)
            status = gpud_rdma_send(end->rdma, work->from.bytes, 5000, &error);
        if (status != GPUD_OK && status != GPUD_AGAIN)
            break;
    }
    CHECK(status == GPUD_PEER && strstr(error.reason, "this side has ended"),
          "the thread that writes: %s", error.reason);
    return NULL;
}

static void test_end(void)
{
    struct pair pair = make_pair();
    struct work work = {.pair = &pair,
                        .from = make_target(&pair.a, 1000000, GPUD_RDMA_LOCAL),
                        .to = make_target(&pair.b, 1000000, GPUD_RDMA_REMOTE_WRITE)};
    const void *message;
    size_t size;
    pthread_t thread = NEW_THREAD(stream_thread, &work);
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
    drop_target(&work.from);
    gpud_rdma_unref(&rdma);
    drop_target(&work.to);
    drop_end(&pair.b);
}

#define ROUNDS 1500

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
static void test_threads(void)
{
    AUTO(drop_pair) struct pair pair = make_pair();
    struct work work = {.pair = &pair,
                        .from = make_target(&pair.a, 4096, GPUD_RDMA_LOCAL),
                        .to = make_target(&pair.b, 4096, GPUD_RDMA_REMOTE_WRITE)};
    pthread_t threads[] = {NEW_THREAD(writer_thread, &work), NEW_THREAD(sender_thread, &work)};
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
}

/* --- peers in processes of their own ---------------------------------------------------------- */

#define TARGET 65536

struct apart {
    pid_t pid;
    struct end end;
};

static struct apart start(const char *role)
{
    struct apart peer;
    char text[16];
    struct rdma_cm_id *listener = listen_at(0);
    gpud_print(text, "%u", ntohs(rdma_get_src_port(listener)));
    char *arguments[] = {"peer", (char *)role, text, NULL};
    int number = spawn_again(&peer.pid, NULL, arguments, environ);
    CHECK(number == 0, "no process: %s", strerror(number));
    accept_end(listener, &peer.end);
    rdma_destroy_id(listener);
    return peer;
}

/* A process that is killed is noticed, by its card's silence; one that is stopped longer than that
 * takes is alive, and its memory can be written. */
static void test_deaths(void)
{
    struct gpud_error error;
    struct apart killed = start("target"), stopped = start("target");
    hear_place(&killed.end);
    struct place place = hear_place(&stopped.end);
    struct target from = make_target(&stopped.end, TARGET, GPUD_RDMA_LOCAL);
    struct gpud_rdma_transfer transfer = to_place(&from, place, TARGET);
    CHECK(kill(stopped.pid, SIGSTOP) == 0 && kill(killed.pid, SIGKILL) == 0, "kill: %m");
    CHECK(waitpid(killed.pid, NULL, 0) == killed.pid, "waitpid: %m");

    int64_t deadline = gpud_deadline(PATIENCE);
    uint64_t writes = 0;
    while (gpud_rdma_is_alive(killed.end.rdma)) {
        CHECK(gpud_now() < deadline, "the death is not noticed");
        CHECK(gpud_rdma_is_alive(stopped.end.rdma), "a stopped peer lives");
        if (writes++ % 10 == 0) {
            WORKS(gpud_rdma_write(stopped.end.rdma, &transfer, &e));
            gpud_rdma_notify(stopped.end.rdma, true);
            drain(&stopped.end);
        }
        usleep(20000);
    }
    CHECK(gpud_rdma_has_failed(killed.end.rdma, &error) &&
              strstr(error.reason, "does not answer any more"),
          "the killed one: %s", error.reason);
    CHECK(gpud_rdma_is_alive(stopped.end.rdma), "the stopped one lives");
    CHECK(kill(stopped.pid, SIGKILL) == 0, "kill: %m");
    CHECK(waitpid(stopped.pid, NULL, 0) == stopped.pid, "waitpid: %m");
    drop_target(&from);
    drop_end(&stopped.end);
    drop_end(&killed.end);
}

/* A process that may not lock enough memory is told how to raise the limit. */
static void test_locked_memory(void)
{
    int status;
    struct apart limited = start("limited");
    CHECK(waitpid(limited.pid, &status, 0) == limited.pid, "waitpid: %m");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the limited process failed");
    drop_end(&limited.end);
}

static int play_target(uint16_t port)
{
    struct end end;
    CHECK(try_connect_end(port, &end), "there is no listener");
    struct target target = make_target(&end, TARGET, GPUD_RDMA_REMOTE_WRITE);
    say_place(&end, &target);
    while (gpud_rdma_is_alive(end.rdma))
        usleep(10000);
    return 0;
}

static int play_limited(uint16_t port)
{
    AUTO(drop_end) struct end end;
    AUTO(gpud_rdma_unregister) struct gpud_rdma_region *region = NULL;
    static char large[8 << 20];
    const struct rlimit limit = {.rlim_cur = 4 << 20, .rlim_max = 4 << 20};
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "setrlimit: %m");
    CHECK(setuid(65534) == 0, "setuid: %m");
    CHECK(try_connect_end(port, &end), "there is no listener");
    EXPECT(GPUD_NO_MEMORY, "may lock 4096 kB",
           gpud_rdma_register(end.rdma, large, sizeof(large), 0, &region, &e));
    EXPECT(GPUD_NO_MEMORY, "ulimit -l",
           gpud_rdma_register(end.rdma, large, sizeof(large), 0, &region, &e));
    WORKS(gpud_rdma_register(end.rdma, large, 65536, 0, &region, &e));
    return 0;
}

/* --- two hosts -------------------------------------------------------------------------------- */

#define PORT 7471
#define LOSS "10%"
#define OUTAGE_MESSAGES 200

static void run(const char *command)
{
    CHECK(system(command) == 0, "%s failed", command);
}

static void expect_silence(struct end *end)
{
    struct gpud_error error;
    PEER_UNTIL("the silence is noticed", 60000, !gpud_rdma_is_alive(end->rdma));
    CHECK(gpud_rdma_has_failed(end->rdma, &error) && strstr(error.reason, "does not answer"),
          "it failed otherwise: %s", error.reason);
}

static void receive_all(struct end *end, const uint32_t *word)
{
    const void *message;
    size_t size;
    int64_t deadline = gpud_deadline(PATIENCE);
    for (uint32_t i = 0; i < OUTAGE_MESSAGES;) {
        CHECK(gpud_now() < deadline, "message %u has not come in time", i);
        CHECK(gpud_rdma_is_alive(end->rdma), "the connection broke at message %u", i);
        if (gpud_rdma_receive(end->rdma, &message, &size, NULL) != GPUD_OK) {
            usleep(1000);
            continue;
        }
        CHECK(size == 4 && memcmp(message, &i, 4) == 0, "message %u", i);
        CHECK(*(const volatile uint32_t *)word >= i, "the word was there before it");
        i++;
        if (i == 20)
            run("tc qdisc add dev eth0 root netem loss " LOSS);
    }
}

static void send_all(struct end *end, const struct target *from, struct place place)
{
    struct gpud_rdma_transfer transfer = to_place(from, place, from->size);
    int64_t deadline = gpud_deadline(PATIENCE);
    for (uint32_t i = 0; i < OUTAGE_MESSAGES;) {
        struct gpud_error error;
        CHECK(gpud_now() < deadline, "message %u is not sent in time", i);
        CHECK(gpud_rdma_is_alive(end->rdma), "the connection broke at message %u", i);
        memcpy(from->bytes, &i, sizeof(i));
        enum gpud_status status = gpud_rdma_write(end->rdma, &transfer, &error);
        if (status == GPUD_OK)
            status = gpud_rdma_send(end->rdma, &i, sizeof(i), &error);
        CHECK(status == GPUD_OK || status == GPUD_AGAIN, "message %u: %s", i, error.reason);
        i += status == GPUD_OK;
        usleep(20000);
    }
}

/* Two hosts, and a network that loses one packet in ten: the connection is not affected. Then it
 * loses everything permanently: both sides notice. */
static void test_outage(void)
{
    const char *host = getenv("GPUDIRECT_HOST");
    AUTO(drop_end) struct end end;
    CHECK(host, "run it by tests/vm/guest --hosts 2");
    if (host[0] == '1') {
        struct rdma_cm_id *listener = listen_at(PORT);
        accept_end(listener, &end);
        AUTO(drop_target) struct target target = make_target(&end, 64, GPUD_RDMA_REMOTE_WRITE);
        say_place(&end, &target);
        receive_all(&end, (const uint32_t *)(const void *)target.bytes);
        SAY("all %d have come, of the packets %s lost", OUTAGE_MESSAGES, LOSS);
        /* It is enough to lose what arrives here: acknowledgements do, too. */
        run("tc qdisc add dev eth0 clsact");
        run("tc filter add dev eth0 ingress matchall action drop");
        expect_silence(&end);
        rdma_destroy_id(listener);
    } else {
        int64_t deadline = gpud_deadline(PATIENCE);
        while (!try_connect_end(PORT, &end))
            CHECK(gpud_now() < deadline && usleep(100000) == 0, "no connection in time");
        AUTO(drop_target) struct target target = make_target(&end, 64, GPUD_RDMA_LOCAL);
        send_all(&end, &target, hear_place(&end));
        expect_silence(&end);
    }
    SAY("one that is for good is noticed");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*test)(void);
    } cases[] = {
        {"messages", test_messages},
        {"unread messages", test_unread_messages},
        {"notices", test_notices},
        {"waking", test_waking},
        {"writes", test_writes},
        {"words", test_words},
        {"order", test_order},
        {"full queue", test_full_queue},
        {"reads", test_reads},
        {"arguments", test_arguments},
        {"refused", test_refused},
        {"lies", test_lies},
        {"too many receives", test_too_many_receives},
        {"flood", test_flood},
        {"silence", test_silence},
        {"end", test_end},
        {"threads", test_threads},
        {"deaths", test_deaths},
        {"locked memory", test_locked_memory},
    };
    if (argc == 3)
        return strcmp(argv[1], "limited") == 0 ? play_limited((uint16_t)atoi(argv[2]))
                                               : play_target((uint16_t)atoi(argv[2]));
    if (argc == 2 && strcmp(argv[1], "outage") == 0)
        test_outage();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (argc == 2 && strcmp(argv[1], cases[i].name) != 0)
            continue;
        int64_t start = gpud_now();
        cases[i].test();
        SAY("%s: %.1f s", cases[i].name, (double)(gpud_now() - start) / (double)GPUD_SEC);
    }
    return 0;
}
