/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* On a card in the test's own process: differences between cards, their capacities, and their
 * access to a device's memory. "flow": flow control and waking up. */
#include "fake_card.h"

#include "base/base.h"
#include "device/cuda/driver.h"
#include "device/device.h"
#include "device/rdma/internal.h"
#include "support/check.h"
#include "support/count.h"
#include "support/make.h"

#include <errno.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define FRAME ((uint64_t)1 << 20)

/* --- ends ------------------------------------------------------------------------------------- */

struct end {
    struct rdma_cm_id *id;
    struct gpud_rdma *rdma;
};

static struct end open_end(void)
{
    struct end end = {.id = fake_id_create()};
    WORKS(gpud_rdma_create(end.id, &end.rdma, &e));
    return end;
}

static void close_end(struct end *end)
{
    gpud_rdma_end(end->rdma);
    fake_id_destroy(end->id);
    gpud_rdma_unref(&end->rdma);
}

static void connect_ends(struct end *a, struct end *b)
{
    fake_connect(a->id, b->id);
    gpud_rdma_set_peer_receives(a->rdma, GPUD_RDMA_RECEIVES);
    gpud_rdma_set_peer_receives(b->rdma, GPUD_RDMA_RECEIVES);
}

struct pair {
    struct end a, b;
};

static struct pair open_pair(void)
{
    struct pair pair = {open_end(), open_end()};
    connect_ends(&pair.a, &pair.b);
    return pair;
}

static void close_pair(struct pair *pair)
{
    close_end(&pair->a);
    close_end(&pair->b);
}

static struct gpud_rdma_transfer from_to(struct gpud_rdma_region *local,
                                         const struct gpud_rdma_region *remote, uint64_t size)
{
    return (struct gpud_rdma_transfer){.local = local,
                                       .remote_address = gpud_rdma_region_address(remote),
                                       .remote_key = gpud_rdma_region_key(remote),
                                       .size = size};
}

static struct gpud_rdma_region *register_bytes(const struct end *end, void *bytes, uint64_t size,
                                               unsigned access)
{
    return GIVEN(struct gpud_rdma_region *,
                 gpud_rdma_register(end->rdma, bytes, size, access, &given, &e));
}

static bool is_woken(const struct gpud_rdma *rdma)
{
    struct pollfd wait = {.fd = gpud_rdma_get_fd(rdma), .events = POLLIN};
    return poll(&wait, 1, 0) > 0;
}

/* Devices free memory when they are done with it. */
static void expect_descriptors(unsigned count)
{
    int64_t deadline = gpud_deadline(30 * GPUD_SEC);
    while (count_fds() != count)
        CHECK(gpud_now() < deadline && usleep(1000) == 0, "%u descriptors, should be %u",
              count_fds(), count);
}

static void expect_queues(unsigned depth, unsigned inline_bytes)
{
    struct end end = open_end();
    CHECK_EQUAL(fake_card.depth, depth);
    CHECK_EQUAL(fake_card.inline_bytes, inline_bytes);
    CHECK(strcmp(gpud_rdma_card(end.rdma), "fake0") == 0, "its name");
    close_end(&end);
    fake_card_reset();
}

static void expect_refusal(enum gpud_status status, const char *reason)
{
    struct rdma_cm_id *id = fake_id_create();
    struct gpud_rdma *rdma;
    EXPECT(status, reason, gpud_rdma_create(id, &rdma, &e));
    fake_id_destroy(id);
    fake_card_reset();
}

static void test_queues(void)
{
    unsigned before = count_fds();
    fake_card_reset();
    expect_queues(1024, 256);
    fake_card.queue_max = 1000;
    expect_queues(512, 256);
    fake_card.completions_max = 1024;
    expect_queues(512, 256);
    fake_card.create_max = 300;
    expect_queues(256, 256);
    fake_card.inline_max = 200;
    expect_queues(1024, 128);
    fake_card.inline_max = 64;
    expect_queues(1024, 64);
    fake_card.inline_max = 63;
    expect_refusal(GPUD_IO, "no queues for another connection");
    fake_card.queue_max = 100;
    expect_refusal(GPUD_UNSUPPORTED, "100 requests");
    fake_card.completions_max = 200;
    expect_refusal(GPUD_UNSUPPORTED, "200 completions");
    fake_card.transport = IBV_TRANSPORT_IWARP;
    expect_refusal(GPUD_UNSUPPORTED, "rdma link add rxe0 type rxe netdev");
    fake_card.register_errno = EINVAL;
    expect_refusal(GPUD_IO, "cannot register 2097152 bytes: Invalid argument");
    expect_descriptors(before);
}

static void deliver_all(struct pair *pair)
{
    while (fake_deliver(pair->a.id) | fake_complete(pair->a.id) | fake_deliver(pair->b.id) |
           fake_complete(pair->b.id))
        gpud_rdma_progress(pair->a.rdma);
}

/* A dma-buf of the (fake) driver: what the other end writes is in the device's memory. */
static void test_dmabuf(struct gpud_device *cuda)
{
    struct gpud_rdma_region *to, *from;
    enum gpud_rdma_way way = GPUD_RDMA_HOST;
    static char bytes[FRAME];
    char why[GPUD_REASON_MAX];
    void *mapped;
    unsigned before = count_fds();
    fake_card_reset();
    fake_card.message_max = 100000;
    struct pair pair = open_pair();
    struct gpud_memory *memory = NEW_MEMORY(cuda, FRAME);
    CHECK(gpud_rdma_has_dmabuf(pair.b.rdma, cuda, why) && !why[0], "dma-bufs: %s", why);
    CHECK_EQUAL(fake_card.dmabufs, 1);
    CHECK(gpud_rdma_has_dmabuf(pair.b.rdma, cuda, why), "still");
    CHECK_EQUAL(fake_card.dmabufs, 1); /* it is known by now */
    WORKS(gpud_rdma_register_memory(pair.b.rdma, memory, GPUD_RDMA_REMOTE_WRITE, &to, &way, &e));
    CHECK_EQUAL(way, GPUD_RDMA_DMABUF);
    CHECK(gpud_rdma_region_address(to) != (uint64_t)(uintptr_t)memory->native,
          "the device's own address is exposed");
    WORKS(gpud_rdma_register(pair.a.rdma, bytes, FRAME, GPUD_RDMA_REMOTE_WRITE, &from, &e));
    for (uint64_t i = 0; i < FRAME; i++)
        bytes[i] = (char)(i * 7 + i / 4096);
    struct gpud_rdma_transfer transfer = from_to(from, to, FRAME);
    WORKS(gpud_rdma_write(pair.a.rdma, &transfer, &e));
    CHECK_EQUAL(gpud_rdma_posted(pair.a.rdma), 11); /* pieces of 100000 bytes */
    deliver_all(&pair);
    struct gpud_queue *queue = NEW_QUEUE(cuda);
    WORKS(gpud_queue_map(queue, memory, 0, FRAME, GPUD_READ, gpud_deadline(GPUD_SEC), &mapped, &e));
    CHECK(memcmp(mapped, bytes, FRAME) == 0, "the bytes are in the device's memory");
    WORKS(gpud_queue_unmap(queue, memory, mapped, &e));
    /* Small, and of a device: no CPU can copy it along. */
    memset(bytes, 0, 8);
    struct gpud_rdma_transfer back = from_to(to, from, 4);
    back.local_offset = 4096;
    WORKS(gpud_rdma_write(pair.b.rdma, &back, &e));
    deliver_all(&pair);
    CHECK(memcmp(bytes, bytes + 4096, 4) == 0 && bytes[4] == 0, "from the device's memory");

    /* One refusal says nothing of the next. */
    struct gpud_rdma_region *region;
    struct pair second = open_pair();
    fake_card.register_errno = ENOSPC;
    EXPECT(GPUD_UNSUPPORTED, "cannot register the dma-buf of 1048576 bytes of cuda:0",
           gpud_rdma_register_memory(second.b.rdma, memory, 0, &region, &way, &e));
    fake_card.register_errno = 0;
    WORKS(gpud_rdma_register_memory(second.b.rdma, memory, 0, &region, &way, &e));
    CHECK_EQUAL(way, GPUD_RDMA_DMABUF);
    gpud_memory_unref(&memory);
    gpud_rdma_end(second.b.rdma);
    gpud_rdma_unregister(&region);
    gpud_queue_unref(&queue);
    gpud_rdma_unregister(&to);
    gpud_rdma_unregister(&from);
    close_pair(&pair);
    close_pair(&second);
    expect_descriptors(before);
}

/* The host's memory, which its region keeps. */
static void test_host_memory(struct gpud_device *host)
{
    struct gpud_rdma_region *to, *from;
    enum gpud_rdma_way way = GPUD_RDMA_DMABUF;
    static char bytes[FRAME];
    fake_card_reset();
    struct pair pair = open_pair();
    struct gpud_memory *memory = NEW_MEMORY(host, FRAME);
    const char *own = memory->host;
    WORKS(gpud_rdma_register_memory(pair.b.rdma, memory, GPUD_RDMA_REMOTE_WRITE, &to, &way, &e));
    CHECK_EQUAL(way, GPUD_RDMA_HOST);
    gpud_memory_unref(&memory);
    WORKS(gpud_rdma_register(pair.a.rdma, bytes, FRAME, GPUD_RDMA_REMOTE_WRITE, &from, &e));
    for (uint64_t i = 0; i < FRAME; i++)
        bytes[i] = (char)(i * 7 + i / 4096);
    struct gpud_rdma_transfer transfer = from_to(from, to, FRAME);
    WORKS(gpud_rdma_write(pair.a.rdma, &transfer, &e));
    deliver_all(&pair);
    CHECK(memcmp(own, bytes, FRAME) == 0, "the bytes are not in the host's memory");
    gpud_rdma_unregister(&to);
    gpud_rdma_unregister(&from);
    close_pair(&pair);
}

/* What an application allocated is registered with a card: its driver is told, once at least, that
 * synchronous copies are to be just that. way: that it is registered by. */
static void expect_synchronous(struct gpud_device *cuda, enum gpud_rdma_way way)
{
    struct gpud_memory *memory;
    struct gpud_rdma_region *region;
    enum gpud_rdma_way taken = GPUD_RDMA_HOST;
    CUdeviceptr own;
    CUcontext context;
    unsigned synchronous = 0;
    CUresult result = gpud_cu.ctx_push_current(gpud_device_get_native(cuda));
    CHECK(result == CUDA_SUCCESS && gpud_cu.mem_alloc(&own, FRAME) == CUDA_SUCCESS, "no memory");
    AUTO(close_pair) struct pair pair = open_pair();
    WORKS(gpud_memory_wrap(cuda, (void *)(uintptr_t)own, FRAME, NULL, NULL, &memory, &e));
    WORKS(gpud_rdma_register_memory(pair.a.rdma, memory, 0, &region, &taken, &e));
    CHECK_EQUAL(taken, way);
    result = gpud_cu.pointer_get_attribute(&synchronous, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                           own + FRAME - 1);
    CHECK(result == CUDA_SUCCESS && synchronous, "copies to what a card reads may be asynchronous");
    gpud_rdma_unregister(&region);
    gpud_memory_unref(&memory);
    CHECK(gpud_cu.mem_free(own) == CUDA_SUCCESS &&
              gpud_cu.ctx_pop_current(&context) == CUDA_SUCCESS,
          "the memory is in use");
}

/* Where the card takes no dma-bufs, and a module is there, the device's address is registered. */
static void test_peermem(struct gpud_device *cuda, struct gpud_device *host)
{
    static const char *const folders[] = {
        "/sys",
        "/sys/kernel",
        "/sys/kernel/mm",
        "/sys/kernel/mm/memory_peers",
        "/sys/kernel/mm/memory_peers/nv_mem_nc",
        "/sys/kernel/mm/memory_peers/nv_mem_nc/version",
    };
    char sysfs[] = "/tmp/sysfs-XXXXXX", path[200], why[GPUD_REASON_MAX];
    struct gpud_rdma_region *region;
    enum gpud_rdma_way way = GPUD_RDMA_HOST;
    CHECK(mkdtemp(sysfs), "mkdtemp: %m");
    gpud_sysfs_root = sysfs;
    fake_card_reset();
    fake_card.dmabuf_errno = EPROTONOSUPPORT;
    AUTO(close_pair) struct pair pair = open_pair();
    struct gpud_memory *memory = NEW_MEMORY(cuda, FRAME);
    EXPECT(GPUD_UNSUPPORTED, "peermem: nvidia-peermem is not loaded",
           gpud_rdma_register_memory(pair.a.rdma, memory, 0, &region, &way, &e));
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        gpud_print(path, "%s%s", sysfs, folders[i]);
        CHECK(mkdir(path, 0700) == 0, "mkdir: %m");
    }
    CHECK(gpud_rdma_has_peermem(pair.a.rdma, cuda, why) && !why[0], "peermem: %s", why);
    CHECK(!gpud_rdma_has_dmabuf(pair.a.rdma, cuda, why) && strstr(why, "takes no dma-bufs"),
          "dma-buf: %s", why);
    CHECK(!gpud_rdma_has_peermem(pair.a.rdma, host, why) && why[0], "the host needs none");
    CHECK(!gpud_rdma_has_dmabuf(pair.a.rdma, host, why) && why[0], "the host needs none");
    fake_card.register_errno = EFAULT; /* as of a card whose driver knows nothing of the module */
    EXPECT(GPUD_UNSUPPORTED, "peermem: fake0 cannot register 1048576 bytes of cuda:0",
           gpud_rdma_register_memory(pair.a.rdma, memory, 0, &region, &way, &e));
    fake_card.register_errno = 0;
    WORKS(gpud_rdma_register_memory(pair.a.rdma, memory, 0, &region, &way, &e));
    CHECK_EQUAL(way, GPUD_RDMA_PEERMEM);
    CHECK(gpud_rdma_region_address(region) == (uint64_t)(uintptr_t)memory->native, "its address");
    gpud_rdma_unregister(&region);
    gpud_memory_unref(&memory);
    expect_synchronous(cuda, GPUD_RDMA_PEERMEM);
    for (size_t i = sizeof(folders) / sizeof(folders[0]); i-- > 0;) {
        gpud_print(path, "%s%s", sysfs, folders[i]);
        CHECK(rmdir(path) == 0, "rmdir: %m");
    }
    CHECK(rmdir(sysfs) == 0, "rmdir: %m");
    gpud_sysfs_root = "";
}

/* A driver that fails in between: there is a reason, and no operation is pending forever. */
static void test_breaking(void)
{
    static char bytes[4096];
    fake_card_reset();
    AUTO(close_pair) struct pair pair = open_pair();
    AUTO(gpud_rdma_unregister)
    struct gpud_rdma_region *from = register_bytes(&pair.a, bytes, sizeof(bytes), 0);
    AUTO(gpud_rdma_unregister)
    struct gpud_rdma_region *to = register_bytes(&pair.b, bytes, sizeof(bytes), 0);
    struct gpud_rdma_transfer transfer = from_to(from, to, 4096);
    for (int i = 0; i < 100; i++)
        WORKS(gpud_rdma_write(pair.a.rdma, &transfer, &e));
    WORKS(gpud_rdma_send(pair.a.rdma, bytes, 1000, &e));
    uint64_t posted = gpud_rdma_posted(pair.a.rdma);
    CHECK(!gpud_rdma_is_done(pair.a.rdma, posted), "nothing is done");
    CHECK(fake_deliver(pair.a.id), "the first write");
    EXPECT(GPUD_PEER, "refused what was to be written",
           gpud_rdma_drain(pair.a.rdma, posted, gpud_deadline(GPUD_SEC), &e));
    CHECK(gpud_rdma_is_done(pair.a.rdma, posted), "all is flushed");
    CHECK(!gpud_rdma_is_alive(pair.b.rdma), "the other end knows");
}

/* What came before a failure is still had. */
static void test_arrived_before(void)
{
    const void *message;
    size_t size;
    fake_card_reset();
    AUTO(close_pair) struct pair pair = open_pair();
    WORKS(gpud_rdma_send(pair.a.rdma, "one", 3, &e));
    WORKS(gpud_rdma_send(pair.a.rdma, "two", 3, &e));
    CHECK(fake_deliver(pair.a.id) && fake_deliver(pair.a.id), "both have arrived");
    CHECK(fake_complete(pair.a.id) && fake_complete(pair.a.id), "which nothing reports");
    gpud_rdma_fail(pair.a.rdma, "the other end's failure");
    EXPECT(GPUD_PEER, "the other end's failure",
           gpud_rdma_drain(pair.a.rdma, gpud_rdma_posted(pair.a.rdma), gpud_deadline(30 * GPUD_SEC),
                           &e));
    gpud_rdma_fail(pair.b.rdma, "the reason of a test");
    gpud_rdma_fail(pair.b.rdma, "another one");
    gpud_rdma_end(pair.b.rdma);
    WORKS(gpud_rdma_receive(pair.b.rdma, &message, &size, &e));
    CHECK(size == 3 && memcmp(message, "one", 3) == 0, "one");
    WORKS(gpud_rdma_receive(pair.b.rdma, &message, &size, &e));
    CHECK(size == 3 && memcmp(message, "two", 3) == 0, "two");
    EXPECT(GPUD_CLOSED, "the reason of a test",
           gpud_rdma_receive(pair.b.rdma, &message, &size, &e));
}

static void test_waking(void)
{
    fake_card_reset();
    /* Arming for urgent notices does not undo arming for all. */
    AUTO(close_pair) struct pair pair = open_pair();
    gpud_rdma_arm(pair.b.rdma, false);
    gpud_rdma_arm(pair.b.rdma, true);
    gpud_rdma_notify(pair.a.rdma, false);
    deliver_all(&pair);
    CHECK(is_woken(pair.b.rdma), "a notice does not wake a wait for all");
    gpud_rdma_arm(pair.b.rdma, true);
    gpud_rdma_notify(pair.a.rdma, false);
    deliver_all(&pair);
    CHECK(!is_woken(pair.b.rdma), "after which only what is urgent does");
    gpud_rdma_arm(pair.b.rdma, true);
    CHECK(gpud_rdma_progress(pair.b.rdma), "both have come");

    /* Of notices that become one, one that is urgent makes it so. */
    for (int i = 0; i < GPUD_RDMA_NOTICES; i++)
        gpud_rdma_notify(pair.a.rdma, false);
    gpud_rdma_notify(pair.a.rdma, true);
    gpud_rdma_notify(pair.a.rdma, false);
    gpud_rdma_arm(pair.b.rdma, true);
    deliver_all(&pair);
    CHECK(!is_woken(pair.b.rdma), "those that had room were not urgent");
    CHECK(gpud_rdma_progress(pair.b.rdma), "some have come");
    deliver_all(&pair);
    CHECK(is_woken(pair.b.rdma), "what had none is urgent");
}

/* Only a process that may not lock enough memory is told to raise that limit. */
static void test_limits(void)
{
    static char bytes[1 << 20];
    struct gpud_rdma_region *region;
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0, "getrlimit: %m");
    fake_card_reset();
    AUTO(close_pair) struct pair pair = open_pair();
    fake_card.register_errno = ENOMEM;
    limit.rlim_cur = 64 << 10;
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "setrlimit: %m");
    EXPECT(GPUD_NO_MEMORY, "may lock 64 kB, 1025 are needed at least; raise that limit (ulimit -l",
           gpud_rdma_register(pair.a.rdma, bytes, sizeof(bytes), 0, &region, &e));
    EXPECT(GPUD_NO_MEMORY, "fake0 cannot register 4096 bytes: Cannot allocate memory",
           gpud_rdma_register(pair.a.rdma, bytes, 4096, 0, &region, &e));
}

/* Requests without a waiter free their queue entries, too. */
static void test_many(void)
{
    static char bytes[4096];
    fake_card_reset();
    fake_card.queue_max = 128;
    AUTO(close_pair) struct pair pair = open_pair();
    AUTO(gpud_rdma_unregister)
    struct gpud_rdma_region *from = register_bytes(&pair.a, bytes, sizeof(bytes), 0);
    AUTO(gpud_rdma_unregister)
    struct gpud_rdma_region *to =
        register_bytes(&pair.b, bytes, sizeof(bytes), GPUD_RDMA_REMOTE_WRITE);
    struct gpud_rdma_transfer transfer = from_to(from, to, 4);
    unsigned in_a_row = 0;
    for (int i = 0; i < 1000; i++) {
        if (gpud_rdma_write(pair.a.rdma, &transfer, NULL) == GPUD_OK) {
            CHECK(++in_a_row <= 64, "half of the queue is for others");
            continue;
        }
        CHECK(in_a_row > 32, "room for %u writes only", in_a_row);
        CHECK(!gpud_rdma_has_room(pair.a.rdma, 4), "it is full");
        in_a_row = 0;
        deliver_all(&pair);
    }
}

/* Before it is connected. */
static void test_early(void)
{
    struct end end = open_end();
    static char bytes[4096];
    struct gpud_rdma_region *region = register_bytes(&end, bytes, sizeof(bytes), 0);
    struct gpud_rdma_transfer transfer = {.local = region, .size = 4};
    EXPECT(GPUD_AGAIN, "", gpud_rdma_send(end.rdma, "x", 1, &e));
    EXPECT(GPUD_AGAIN, "", gpud_rdma_write(end.rdma, &transfer, &e));
    gpud_rdma_notify(end.rdma, true);
    CHECK(gpud_rdma_is_alive(end.rdma), "it is as good as alive");
    CHECK(!gpud_rdma_progress(end.rdma), "there is nothing");
    gpud_rdma_unregister(&region);
    gpud_rdma_unref(&end.rdma); /* ends it, too */
    fake_id_destroy(end.id);
}

/* --- flow control and waking up --------------------------------------------------------------- */

/* Random orders of everything that can happen to two ends: no sleeping end misses a notice, no
 * message is lost, no wait is endless, no queue overflows.
 *
 * Each end sleeps until its descriptor is readable, or the test has it look for no reason. It does
 * what an end of a stream does: writes a word and notifies, sends messages, reads some of those it
 * has, and leaves the others unread for long. When nothing moves any more, all of it must have
 * arrived. */
#define EPISODES 3000
#define STEPS 600
#define MESSAGES (GPUD_RDMA_RECEIVES - GPUD_RDMA_NOTICES)

static uint64_t random_state;

static uint32_t any(uint32_t limit)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % limit);
}

struct side {
    struct end end;
    struct gpud_rdma_region *region;
    struct {
        uint32_t mine, theirs; /* words: what this side wrote, what the other wrote here */
    } page;
    uint32_t written, seen;
    uint32_t sent, received;
    bool urgent_only; /* how it sleeps; else for everything */
    bool blocked;     /* a message had no room */
};

struct sides {
    struct side side[2];
};

static void open_sides(struct sides *sides)
{
    for (int i = 0; i < 2; i++) {
        struct side *side = &sides->side[i];
        *side = (struct side){.end = open_end(), .urgent_only = any(2)};
        WORKS(gpud_rdma_register(side->end.rdma, &side->page, sizeof(side->page),
                                 GPUD_RDMA_REMOTE_WRITE, &side->region, &e));
    }
    connect_ends(&sides->side[0].end, &sides->side[1].end);
}

static void close_sides(struct sides *sides)
{
    for (int i = 0; i < 2; i++) {
        struct side *side = &sides->side[i];
        gpud_rdma_unregister(&side->region);
        close_end(&side->end);
    }
    fake_card_check_empty();
}

static void write_word(struct side *side, const struct side *other, bool urgent)
{
    side->page.mine = side->written + 1;
    struct gpud_rdma_transfer transfer = from_to(side->region, other->region, 4);
    transfer.remote_address += 4;
    bool in_one = any(2);
    enum gpud_status status =
        in_one ? gpud_rdma_write_and_notify(side->end.rdma, &transfer, urgent, NULL)
               : gpud_rdma_write(side->end.rdma, &transfer, NULL);
    CHECK(status == GPUD_OK || status == GPUD_AGAIN, "a write");
    side->written += status == GPUD_OK;
    if (status == GPUD_OK && !in_one)
        gpud_rdma_notify(side->end.rdma, urgent);
}

/* Most are too large to travel with their request. */
static size_t size_of(uint32_t message)
{
    return message % 8 ? 1000 : 4;
}

static void send_message(struct side *side)
{
    char bytes[1000] = {0};
    memcpy(bytes, &side->sent, sizeof(side->sent));
    enum gpud_status status = gpud_rdma_send(side->end.rdma, bytes, size_of(side->sent), NULL);
    CHECK(status == GPUD_OK || status == GPUD_AGAIN, "a message");
    side->blocked = status == GPUD_AGAIN;
    if (!side->blocked)
        side->sent++;
}

static bool read_message(struct side *side)
{
    const void *bytes;
    size_t size;
    enum gpud_status status = gpud_rdma_receive(side->end.rdma, &bytes, &size, NULL);
    CHECK(status == GPUD_OK || status == GPUD_AGAIN, "receiving");
    if (status != GPUD_OK)
        return false;
    CHECK(memcmp(bytes, &side->received, 4) == 0, "message %u", side->received);
    CHECK_EQUAL(size, size_of(side->received));
    side->received++;
    return true;
}

/* An end that is awake arms, checks once more, and sleeps. */
static void look(struct side *side)
{
    gpud_rdma_arm(side->end.rdma, side->urgent_only && !side->blocked);
    gpud_rdma_progress(side->end.rdma);
    if (side->blocked)
        send_message(side);
    side->seen = side->page.theirs;
}

/* Everything that happens by itself. Ends: all that is sent is bounded. */
static void settle(struct sides *sides, bool read)
{
    bool moved = true;
    for (unsigned rounds = 0; moved; rounds++) {
        CHECK(rounds < 100000, "the two never come to rest");
        moved = false;
        for (int i = 0; i < 2; i++) {
            struct side *side = &sides->side[i];
            moved |= fake_deliver(side->end.id) | fake_complete(side->end.id);
            if (is_woken(side->end.rdma)) {
                look(side);
                moved = true;
            }
            while (read && read_message(side))
                moved = true;
        }
    }
}

static void check_at_rest(struct sides *sides, bool urgent)
{
    for (int i = 0; i < 2; i++) {
        struct side *side = &sides->side[i], *other = &sides->side[1 - i];
        struct gpud_error error;
        CHECK(!gpud_rdma_has_failed(side->end.rdma, &error), "it failed: %s", error.reason);
        CHECK_EQUAL(side->page.theirs, other->written);
        if (urgent || !side->urgent_only)
            CHECK_EQUAL(side->seen, other->written);
        CHECK_EQUAL(gpud_rdma_received(side->end.rdma), other->sent);
    }
}

static void run_episode(void)
{
    AUTO(close_sides) struct sides sides;
    open_sides(&sides);
    /* How likely what is: some ends read nothing, some cards are slow to say what is done. */
    uint32_t reads = any(4) * 10, delivers = 1 + any(60), completes = 1 + any(60);
    uint32_t words = any(40), messages = any(40), looks = any(10);
    uint32_t all = reads + delivers + completes + words + messages + looks;
    bool urgent = any(2), one_way = any(3) == 0;
    look(&sides.side[0]);
    look(&sides.side[1]);
    for (int step = 0; step < STEPS; step++) {
        struct side *side = &sides.side[any(2)], *other = &sides.side[side == &sides.side[0]];
        uint32_t which = any(all);
        bool active = !one_way || side == &sides.side[0];
        if (is_woken(side->end.rdma) && any(4) == 0)
            look(side);
        if (which < reads)
            read_message(side);
        else if ((which -= reads) < delivers)
            fake_deliver(side->end.id);
        else if ((which -= delivers) < completes)
            fake_complete(side->end.id);
        else if ((which -= completes) < words && active)
            write_word(side, other, urgent);
        else if ((which -= words) < messages && active && !side->blocked) {
            send_message(side);
            /* An end without room sleeps until any notice. */
            if (side->blocked)
                look(side);
        } else
            look(side);
    }
    settle(&sides, false);
    for (int i = 0; i < 2; i++) {
        const struct side *side = &sides.side[i], *other = &sides.side[1 - i];
        CHECK_EQUAL(side->page.theirs, other->written);
        /* The last one that was read is the reader's until it asks for the next. */
        CHECK(!side->blocked || side->sent - other->received >= MESSAGES - 1,
              "%u messages are unread, and no other is sent", side->sent - other->received);
    }
    if (urgent)
        for (int i = 0; i < 2; i++)
            CHECK_EQUAL(sides.side[i].seen, sides.side[1 - i].written);
    settle(&sides, true);
    CHECK(!sides.side[0].blocked && !sides.side[1].blocked, "a message waits for ever");
    check_at_rest(&sides, urgent);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(sides.side[i].received, sides.side[1 - i].sent);
}

/* Both have unread messages all over, and say all they can at once: the last thing that either may
 * say is needed for saying that it has heard the other. */
static void test_crossing(void)
{
    AUTO(close_sides) struct sides sides;
    open_sides(&sides);
    for (int i = 0; i < 2; i++) {
        struct side *side = &sides.side[i];
        side->urgent_only = true;
        while (side->sent < MESSAGES) {
            send_message(side);
            settle(&sides, false);
        }
        look(side);
    }
    settle(&sides, false);
    for (int i = 0; i < 2; i++)
        for (unsigned n = 1; n < GPUD_RDMA_NOTICES; n++)
            write_word(&sides.side[i], &sides.side[1 - i], true);
    for (int i = 0; i < 2; i++)
        CHECK(read_message(&sides.side[i]) && read_message(&sides.side[i]), "two are read");
    settle(&sides, false);
    for (int i = 0; i < 2; i++)
        for (unsigned n = 0; n < 100; n++)
            write_word(&sides.side[i], &sides.side[1 - i], true);
    settle(&sides, false);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(sides.side[i].seen, sides.side[1 - i].written);
    settle(&sides, true);
    check_at_rest(&sides, true);
}

static void test_flow(void)
{
    fake_card_reset();
    test_crossing();
    for (uint64_t episode = 0; episode < EPISODES; episode++) {
        random_state = episode * UINT64_C(0x9e3779b97f4a7c15) + 1;
        /* Queues of every depth that is used. */
        fake_card.queue_max = 128 << any(4);
        fake_card.inline_max = 64 << any(3);
        run_episode();
    }
    SAY("%d episodes of %d steps: everything arrived, and woke sleeping ends", EPISODES, STEPS);
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        test_flow();
        return 0;
    }
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    AUTO(gpud_device_close) struct gpud_device *cuda = OPEN_DEVICE(context, "cuda:0");
    AUTO(gpud_device_close) struct gpud_device *host = OPEN_DEVICE(context, "host");
    test_queues();
    test_host_memory(host);
    test_dmabuf(cuda);
    expect_synchronous(cuda, GPUD_RDMA_DMABUF);
    test_peermem(cuda, host);
    test_breaking();
    test_arrived_before();
    test_limits();
    test_waking();
    test_many();
    test_early();
    fake_card_check_empty();
    return 0;
}
