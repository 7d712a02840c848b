/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Differences between cards: their capacities, and their access to a device's memory. */
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

static void check_nothing_left(void)
{
    CHECK(!fake_card.domains && !fake_card.channels && !fake_card.queues && !fake_card.pairs &&
              !fake_card.regions,
          "left: %u domains, %u channels, %u queues, %u pairs, %u regions", fake_card.domains,
          fake_card.channels, fake_card.queues, fake_card.pairs, fake_card.regions);
}

/* Devices free memory when they are done with it. */
static void expect_descriptors(unsigned count)
{
    int64_t deadline = gpud_deadline(30 * GPUD_SEC);
    while (count_fds() != count)
        CHECK(gpud_now() < deadline && usleep(1000) == 0, "%u descriptors, should be %u",
              count_fds(), count);
}

/* --- queues -------------------------------------------------------------------------------- */

static void expect_queues(unsigned depth, unsigned inline_bytes)
{
    struct rdma_cm_id *id = fake_id_create();
    struct gpud_rdma *rdma;
    WORKS(gpud_rdma_create(id, &rdma, &e));
    CHECK_EQUAL(fake_card.depth, depth);
    CHECK_EQUAL(fake_card.inline_bytes, inline_bytes);
    CHECK(strcmp(gpud_rdma_card(rdma), "fake0") == 0, "its name");
    gpud_rdma_end(rdma);
    fake_id_destroy(id);
    gpud_rdma_unref(&rdma);
    check_nothing_left();
    fake_card_reset();
}

static void expect_refusal(enum gpud_status status, const char *reason)
{
    struct rdma_cm_id *id = fake_id_create();
    struct gpud_rdma *rdma;
    EXPECT(status, reason, gpud_rdma_create(id, &rdma, &e));
    fake_id_destroy(id);
    check_nothing_left();
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

/* --- memory -------------------------------------------------------------------------------- */

struct pair {
    struct rdma_cm_id *a_id, *b_id;
    struct gpud_rdma *a, *b;
};

static void open_pair(struct pair *pair)
{
    pair->a_id = fake_id_create();
    pair->b_id = fake_id_create();
    WORKS(gpud_rdma_create(pair->a_id, &pair->a, &e));
    WORKS(gpud_rdma_create(pair->b_id, &pair->b, &e));
    fake_connect(pair->a_id, pair->b_id);
    gpud_rdma_set_peer_receives(pair->a, GPUD_RDMA_RECEIVES);
    gpud_rdma_set_peer_receives(pair->b, GPUD_RDMA_RECEIVES);
}

static void close_pair(struct pair *pair)
{
    gpud_rdma_end(pair->a);
    gpud_rdma_end(pair->b);
    fake_id_destroy(pair->a_id);
    fake_id_destroy(pair->b_id);
    gpud_rdma_unref(&pair->a);
    gpud_rdma_unref(&pair->b);
}

static void deliver_all(struct pair *pair)
{
    while (fake_deliver(pair->a_id) | fake_complete(pair->a_id) | fake_deliver(pair->b_id) |
           fake_complete(pair->b_id))
        gpud_rdma_progress(pair->a);
}

/* A dma-buf of the (fake) driver: what the other end writes is in the device's memory. */
static void test_dmabuf(struct gpud_device *cuda)
{
    struct pair pair;
    struct gpud_rdma_region *to, *from;
    enum gpud_rdma_way way = GPUD_RDMA_HOST;
    static char bytes[FRAME];
    char why[GPUD_REASON_MAX];
    void *mapped;
    unsigned before = count_fds();
    fake_card_reset();
    fake_card.message_max = 100000;
    open_pair(&pair);
    struct gpud_memory *memory = NEW_MEMORY(cuda, FRAME);
    CHECK(gpud_rdma_has_dmabuf(pair.b, cuda, why) && !why[0], "dma-bufs: %s", why);
    CHECK_EQUAL(fake_card.dmabufs, 1);
    CHECK(gpud_rdma_has_dmabuf(pair.b, cuda, why), "still");
    CHECK_EQUAL(fake_card.dmabufs, 1); /* it is known by now */
    WORKS(gpud_rdma_register_memory(pair.b, memory, GPUD_RDMA_REMOTE_WRITE, &to, &way, &e));
    CHECK_EQUAL(way, GPUD_RDMA_DMABUF);
    CHECK(gpud_rdma_region_address(to) != (uint64_t)(uintptr_t)memory->native,
          "the device's own address is exposed");
    WORKS(gpud_rdma_register(pair.a, bytes, FRAME, GPUD_RDMA_REMOTE_WRITE, &from, &e));
    for (uint64_t i = 0; i < FRAME; i++)
        bytes[i] = (char)(i * 7 + i / 4096);
    struct gpud_rdma_transfer transfer = {
        .local = from,
        .remote_address = gpud_rdma_region_address(to),
        .remote_key = gpud_rdma_region_key(to),
        .size = FRAME,
    };
    WORKS(gpud_rdma_write(pair.a, &transfer, &e));
    CHECK_EQUAL(gpud_rdma_posted(pair.a), 11); /* pieces of 100000 bytes */
    deliver_all(&pair);
    struct gpud_queue *queue = NEW_QUEUE(cuda);
    WORKS(gpud_queue_map(queue, memory, 0, FRAME, GPUD_READ, gpud_deadline(GPUD_SEC), &mapped, &e));
    CHECK(memcmp(mapped, bytes, FRAME) == 0, "the bytes are in the device's memory");
    WORKS(gpud_queue_unmap(queue, memory, mapped, &e));
    /* Small, and of a device: no CPU can copy it along. */
    memset(bytes, 0, 8);
    struct gpud_rdma_transfer back = {
        .local = to,
        .local_offset = 4096,
        .remote_address = gpud_rdma_region_address(from),
        .remote_key = gpud_rdma_region_key(from),
        .size = 4,
    };
    WORKS(gpud_rdma_write(pair.b, &back, &e));
    deliver_all(&pair);
    CHECK(memcmp(bytes, bytes + 4096, 4) == 0 && bytes[4] == 0, "from the device's memory");

    /* One refusal says nothing of the next. */
    struct pair second;
    struct gpud_rdma_region *region;
    open_pair(&second);
    fake_card.register_errno = ENOSPC;
    EXPECT(GPUD_UNSUPPORTED, "cannot register the dma-buf of 1048576 bytes of cuda:0",
           gpud_rdma_register_memory(second.b, memory, 0, &region, &way, &e));
    fake_card.register_errno = 0;
    WORKS(gpud_rdma_register_memory(second.b, memory, 0, &region, &way, &e));
    CHECK_EQUAL(way, GPUD_RDMA_DMABUF);
    gpud_memory_unref(&memory);
    gpud_rdma_end(second.b);
    gpud_rdma_unregister(&region);
    gpud_queue_unref(&queue);
    gpud_rdma_unregister(&to);
    gpud_rdma_unregister(&from);
    close_pair(&pair);
    close_pair(&second);
    check_nothing_left();
    expect_descriptors(before);
}

/* What an application allocated is registered with a card: its driver is told, once at least, that
 * synchronous copies are to be just that. way: that it is registered by. */
static void expect_synchronous(struct gpud_device *cuda, enum gpud_rdma_way way)
{
    struct pair pair;
    struct gpud_memory *memory;
    struct gpud_rdma_region *region;
    enum gpud_rdma_way taken = GPUD_RDMA_HOST;
    CUdeviceptr own;
    CUcontext context;
    unsigned synchronous = 0;
    CUresult result = gpud_cu.ctx_push_current(gpud_device_get_native(cuda));
    CHECK(result == CUDA_SUCCESS && gpud_cu.mem_alloc(&own, FRAME) == CUDA_SUCCESS, "no memory");
    open_pair(&pair);
    WORKS(gpud_memory_wrap(cuda, (void *)(uintptr_t)own, FRAME, NULL, NULL, &memory, &e));
    WORKS(gpud_rdma_register_memory(pair.a, memory, 0, &region, &taken, &e));
    CHECK_EQUAL(taken, way);
    result = gpud_cu.pointer_get_attribute(&synchronous, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                           own + FRAME - 1);
    CHECK(result == CUDA_SUCCESS && synchronous, "copies to what a card reads may be asynchronous");
    gpud_rdma_unregister(&region);
    gpud_memory_unref(&memory);
    close_pair(&pair);
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
    struct pair pair;
    struct gpud_rdma_region *region;
    enum gpud_rdma_way way = GPUD_RDMA_HOST;
    CHECK(mkdtemp(sysfs), "mkdtemp: %m");
    gpud_sysfs_root = sysfs;
    fake_card_reset();
    fake_card.dmabuf_errno = EPROTONOSUPPORT;
    open_pair(&pair);
    struct gpud_memory *memory = NEW_MEMORY(cuda, FRAME);
    EXPECT(GPUD_UNSUPPORTED, "peermem: nvidia-peermem is not loaded",
           gpud_rdma_register_memory(pair.a, memory, 0, &region, &way, &e));
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        gpud_print(path, "%s%s", sysfs, folders[i]);
        CHECK(mkdir(path, 0700) == 0, "mkdir: %m");
    }
    CHECK(gpud_rdma_has_peermem(pair.a, cuda, why) && !why[0], "peermem: %s", why);
    CHECK(!gpud_rdma_has_dmabuf(pair.a, cuda, why) && strstr(why, "takes no dma-bufs"),
          "dma-buf: %s", why);
    CHECK(!gpud_rdma_has_peermem(pair.a, host, why) && why[0], "the host needs none");
    WORKS(gpud_rdma_register_memory(pair.a, memory, 0, &region, &way, &e));
    CHECK_EQUAL(way, GPUD_RDMA_PEERMEM);
    CHECK(gpud_rdma_region_address(region) == (uint64_t)(uintptr_t)memory->native, "its address");
    gpud_rdma_unregister(&region);
    gpud_memory_unref(&memory);
    expect_synchronous(cuda, GPUD_RDMA_PEERMEM);
    close_pair(&pair);
    check_nothing_left();
    for (size_t i = sizeof(folders) / sizeof(folders[0]); i-- > 0;) {
        gpud_print(path, "%s%s", sysfs, folders[i]);
        CHECK(rmdir(path) == 0, "rmdir: %m");
    }
    CHECK(rmdir(sysfs) == 0, "rmdir: %m");
    gpud_sysfs_root = "";
}

/* --- failures ------------------------------------------------------------------------------ */

/* A driver that fails in between: there is a reason, and no operation is pending forever. */
static void test_breaking(void)
{
    struct pair pair;
    static char bytes[4096];
    struct gpud_rdma_region *from, *to;
    fake_card_reset();
    open_pair(&pair);
    WORKS(gpud_rdma_register(pair.a, bytes, sizeof(bytes), 0, &from, &e));
    WORKS(gpud_rdma_register(pair.b, bytes, sizeof(bytes), 0, &to, &e));
    struct gpud_rdma_transfer transfer = {
        .local = from,
        .remote_address = gpud_rdma_region_address(to),
        .remote_key = gpud_rdma_region_key(to),
        .size = 4096,
    };
    for (int i = 0; i < 100; i++)
        WORKS(gpud_rdma_write(pair.a, &transfer, &e));
    WORKS(gpud_rdma_send(pair.a, bytes, 1000, &e));
    uint64_t posted = gpud_rdma_posted(pair.a);
    CHECK(!gpud_rdma_is_done(pair.a, posted), "nothing is done");
    CHECK(fake_deliver(pair.a_id), "the first write");
    EXPECT(GPUD_PEER, "refused what was to be written",
           gpud_rdma_drain(pair.a, posted, gpud_deadline(GPUD_SEC), &e));
    CHECK(gpud_rdma_is_done(pair.a, posted), "all is flushed");
    CHECK(!gpud_rdma_is_alive(pair.b), "the other end knows");
    gpud_rdma_unregister(&from);
    gpud_rdma_unregister(&to);
    close_pair(&pair);

    /* What came before a failure is still had. */
    const void *message;
    size_t size;
    open_pair(&pair);
    WORKS(gpud_rdma_send(pair.a, "one", 3, &e));
    WORKS(gpud_rdma_send(pair.a, "two", 3, &e));
    CHECK(fake_deliver(pair.a_id) && fake_deliver(pair.a_id), "both have arrived");
    CHECK(fake_complete(pair.a_id) && fake_complete(pair.a_id), "which nothing reports");
    gpud_rdma_fail(pair.a, "the other end's failure");
    EXPECT(GPUD_PEER, "the other end's failure",
           gpud_rdma_drain(pair.a, gpud_rdma_posted(pair.a), gpud_deadline(30 * GPUD_SEC), &e));
    gpud_rdma_fail(pair.b, "the reason of a test");
    gpud_rdma_fail(pair.b, "another one");
    gpud_rdma_end(pair.b);
    WORKS(gpud_rdma_receive(pair.b, &message, &size, &e));
    CHECK(size == 3 && memcmp(message, "one", 3) == 0, "one");
    WORKS(gpud_rdma_receive(pair.b, &message, &size, &e));
    CHECK(size == 3 && memcmp(message, "two", 3) == 0, "two");
    EXPECT(GPUD_CLOSED, "the reason of a test", gpud_rdma_receive(pair.b, &message, &size, &e));
    close_pair(&pair);
}

static bool is_readable(const struct gpud_rdma *rdma)
{
    struct pollfd wait = {.fd = gpud_rdma_get_fd(rdma), .events = POLLIN};
    return poll(&wait, 1, 0) > 0;
}

static void test_waking(void)
{
    struct pair pair;
    fake_card_reset();
    /* Arming for urgent notices does not undo arming for all. */
    open_pair(&pair);
    gpud_rdma_arm(pair.b, false);
    gpud_rdma_arm(pair.b, true);
    gpud_rdma_notify(pair.a, false);
    deliver_all(&pair);
    CHECK(is_readable(pair.b), "a notice does not wake a wait for all");
    gpud_rdma_arm(pair.b, true);
    gpud_rdma_notify(pair.a, false);
    deliver_all(&pair);
    CHECK(!is_readable(pair.b), "after which only what is urgent does");
    gpud_rdma_arm(pair.b, true);
    CHECK(gpud_rdma_progress(pair.b), "both have come");

    /* Of notices that become one, one that is urgent makes it so. */
    for (int i = 0; i < GPUD_RDMA_NOTICES; i++)
        gpud_rdma_notify(pair.a, false);
    gpud_rdma_notify(pair.a, true);
    gpud_rdma_notify(pair.a, false);
    gpud_rdma_arm(pair.b, true);
    deliver_all(&pair);
    CHECK(!is_readable(pair.b), "those that had room were not urgent");
    CHECK(gpud_rdma_progress(pair.b), "some have come");
    deliver_all(&pair);
    CHECK(is_readable(pair.b), "what had none is urgent");
    close_pair(&pair);
    check_nothing_left();
}

/* Only a process that may not lock enough memory is told to raise that limit. */
static void test_limits(void)
{
    struct pair pair;
    static char bytes[1 << 20];
    struct gpud_rdma_region *region;
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_MEMLOCK, &limit) == 0, "getrlimit: %m");
    fake_card_reset();
    open_pair(&pair);
    fake_card.register_errno = ENOMEM;
    limit.rlim_cur = 64 << 10;
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "setrlimit: %m");
    EXPECT(GPUD_NO_MEMORY, "may lock 64 kB, 1025 are needed at least; raise that limit (ulimit -l",
           gpud_rdma_register(pair.a, bytes, sizeof(bytes), 0, &region, &e));
    EXPECT(GPUD_NO_MEMORY, "fake0 cannot register 4096 bytes: Cannot allocate memory",
           gpud_rdma_register(pair.a, bytes, 4096, 0, &region, &e));
    close_pair(&pair);
    check_nothing_left();
    fake_card_reset();
}

/* Requests without a waiter free their queue entries, too. */
static void test_many(void)
{
    struct pair pair;
    static char bytes[4096];
    struct gpud_rdma_region *from, *to;
    fake_card_reset();
    fake_card.queue_max = 128;
    open_pair(&pair);
    WORKS(gpud_rdma_register(pair.a, bytes, sizeof(bytes), 0, &from, &e));
    WORKS(gpud_rdma_register(pair.b, bytes, sizeof(bytes), GPUD_RDMA_REMOTE_WRITE, &to, &e));
    struct gpud_rdma_transfer transfer = {
        .local = from,
        .remote_address = gpud_rdma_region_address(to),
        .remote_key = gpud_rdma_region_key(to),
        .size = 4,
    };
    unsigned in_a_row = 0;
    for (int i = 0; i < 1000; i++) {
        if (gpud_rdma_write(pair.a, &transfer, NULL) == GPUD_OK) {
            CHECK(++in_a_row <= 64, "half of the queue is for others");
            continue;
        }
        CHECK(in_a_row > 32, "room for %u writes only", in_a_row);
        CHECK(!gpud_rdma_has_room(pair.a, 4), "it is full");
        in_a_row = 0;
        deliver_all(&pair);
    }
    gpud_rdma_unregister(&from);
    gpud_rdma_unregister(&to);
    close_pair(&pair);
    check_nothing_left();
}

/* Before it is connected. */
static void test_early(void)
{
    struct rdma_cm_id *id = fake_id_create();
    struct gpud_rdma *rdma;
    static char bytes[4096];
    struct gpud_rdma_region *region;
    WORKS(gpud_rdma_create(id, &rdma, &e));
    WORKS(gpud_rdma_register(rdma, bytes, sizeof(bytes), 0, &region, &e));
    struct gpud_rdma_transfer transfer = {.local = region, .size = 4};
    EXPECT(GPUD_AGAIN, "", gpud_rdma_send(rdma, "x", 1, &e));
    EXPECT(GPUD_AGAIN, "", gpud_rdma_write(rdma, &transfer, &e));
    gpud_rdma_notify(rdma, true);
    CHECK(gpud_rdma_is_alive(rdma), "it is as good as alive");
    CHECK(!gpud_rdma_progress(rdma), "there is nothing");
    gpud_rdma_unregister(&region);
    gpud_rdma_unref(&rdma); /* ends it, too */
    fake_id_destroy(id);
    check_nothing_left();
}

int main(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    AUTO(gpud_device_close) struct gpud_device *cuda = OPEN_DEVICE(context, "cuda:0");
    AUTO(gpud_device_close) struct gpud_device *host = OPEN_DEVICE(context, "host");
    test_queues();
    test_dmabuf(cuda);
    expect_synchronous(cuda, GPUD_RDMA_DMABUF);
    test_peermem(cuda, host);
    test_breaking();
    test_limits();
    test_waking();
    test_many();
    test_early();
    return 0;
}
