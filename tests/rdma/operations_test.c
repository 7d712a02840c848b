/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Operations of transfers, where a GPU's queue is not done yet, and where the card fails in
 * mid-stream.
 */
#include "keys.h"
#include "lines.h"
#include "support/make.h"

#include <dlfcn.h>
#include <poll.h>

static char here[SIZE], there[SIZE];

/* --- a GPU's memory, and its queue -------------------------------------------------------------
 */

/* A word that a queue waits for. */
struct hold {
    void *page;
    struct gpud_memory *words;
    struct gpud_signal *signal;
};

static void hold_queue(struct gpud_queue *queue, struct hold *hold)
{
    hold->page = aligned_alloc(4096, 4096);
    CHECK(hold->page, "out of memory");
    WORKS(gpud_memory_wrap_host(queue->device, hold->page, 4096, false, free, hold->page,
                                &hold->words, &e));
    WORKS(gpud_signal_create(hold->words, 64, &hold->signal, &e));
    WORKS(gpud_signal_wait_queue(hold->signal, 1, queue, &e));
}

static void release_queue(struct hold *hold)
{
    WORKS(gpud_signal_poison(hold->signal, 1, &e));
    gpud_signal_destroy(&hold->signal);
    gpud_memory_unref(&hold->words);
}

static void set_bytes(struct gpud_queue *queue, struct gpud_memory *memory, int value)
{
    void *mapped;
    int64_t deadline = gpud_deadline(30 * GPUD_SEC);
    WORKS(gpud_queue_map(queue, memory, 0, SIZE, GPUD_WRITE, deadline, &mapped, &e));
    memset(mapped, value, SIZE);
    WORKS(gpud_queue_unmap(queue, memory, mapped, &e));
}

static void await_callbacks(const struct gpud_connection *connection)
{
    int64_t deadline = gpud_deadline(30 * GPUD_SEC);
    while (atomic_load(&connection->callbacks) > 0)
        CHECK(gpud_now() < deadline && usleep(1000) == 0, "the queue does not say that it is done");
}

/* What the queue has yet to write is what arrives, and what was asked for later comes later. */
static void test_order_after_queue(struct gpud_device *cuda)
{
    struct ends ends;
    struct hold hold;
    struct gpud_region_info info = GPUD_INFO_INIT(info);
    struct gpud_region_params params = GPUD_PARAMS_INIT(params);
    struct gpud_region *source, *target;
    struct gpud_region_key key;
    open_ends(&ends, false);
    struct gpud_memory *memory = NEW_MEMORY(cuda, SIZE);
    struct gpud_memory *next = NEW_MEMORY(cuda, SIZE);
    struct gpud_queue *queue = NEW_QUEUE(cuda);
    set_bytes(queue, memory, 1);
    set_bytes(queue, next, 2);

    params.address = gpud_memory_get_native(memory); /* whose it is, the driver says */
    params.length = SIZE;
    WORKS(gpud_region_create(ends.a.connection, &params, &source, &e));
    gpud_region_get_info(source, &info);
    CHECK(strcmp(info.device, "cuda:0") == 0 && strcmp(info.way, "dmabuf") == 0, "%s, by %s",
          info.device, info.way);
    memset(there, 0, SIZE);
    target = register_bytes(&ends.b, there, GPUD_REGION_REMOTE_WRITE);
    key = key_of(target);

    /* The application's queue stands still, with a copy behind that. */
    hold_queue(queue, &hold);
    struct gpud_copy copy = {.to = memory, .from = next, .row_bytes = SIZE, .rows = 1};
    WORKS(gpud_queue_copy(queue, &copy, &e));
    struct gpud_operation_params put = {
        .size = sizeof(put),
        .region = source,
        .length = SIZE / 2,
        .key = &key,
        .user = &put,
        .after_queue = true,
        .native_queue = queue->native,
        .notify = true,
        .value = 5,
    };
    WORKS(gpud_connection_post(ends.a.connection, GPUD_COMPLETION_PUT, &put, &e));
    put.after_queue = false;
    put.user = &key;
    put.offset = put.key_offset = SIZE / 2;
    put.length = 16;
    put.value = 6;
    WORKS(gpud_connection_post(ends.a.connection, GPUD_COMPLETION_PUT, &put, &e));
    uint64_t posted = gpud_rdma_posted(ends.a.rdma);
    settle(&ends);
    CHECK_EQUAL(gpud_rdma_posted(ends.a.rdma), posted);
    CHECK(there[0] == 0 && there[SIZE / 2] == 0, "it came before the queue's work");
    expect_nothing(&ends.a);
    EXPECT(GPUD_TIMEOUT, "2 operations", gpud_region_destroy(&source, 0, &e));

    struct pollfd told = {.fd = ends.a.connection->event, .events = POLLIN};
    uint64_t before;
    CHECK(read(told.fd, &before, sizeof(before)) == sizeof(before) && poll(&told, 1, 0) == 0,
          "the thread has nothing to do");
    release_queue(&hold);
    await_callbacks(ends.a.connection);
    CHECK(poll(&told, 1, 0) == 1, "the thread is not told");
    settle(&ends);
    CHECK(there[0] == 2 && there[SIZE / 2 - 1] == 2 && there[SIZE / 2] == 2 &&
              there[SIZE / 2 + 16] == 0,
          "what was written before the queue's work, or beside it");
    expect_completion(&ends.a, GPUD_COMPLETION_PUT, GPUD_OK, &put);
    expect_completion(&ends.a, GPUD_COMPLETION_PUT, GPUD_OK, &key);
    expect_completion(&ends.b, GPUD_COMPLETION_NOTIFICATION, GPUD_OK, NULL);
    expect_completion(&ends.b, GPUD_COMPLETION_NOTIFICATION, GPUD_OK, NULL);

    /* The connection ends before the queue is done: nothing is posted any more. */
    hold_queue(queue, &hold);
    put.after_queue = true;
    put.user = &put;
    WORKS(gpud_connection_post(ends.a.connection, GPUD_COMPLETION_PUT, &put, &e));
    gpud_lock_take(&ends.a.connection->lock);
    gpud_connection_end_locked(ends.a.connection, GPUD_CLOSED, "this side closed the connection");
    gpud_lock_release(&ends.a.connection->lock);
    expect_completion(&ends.a, GPUD_COMPLETION_PUT, GPUD_CLOSED, &put);
    expect_completion(&ends.a, GPUD_COMPLETION_END, GPUD_CLOSED, NULL);
    release_queue(&hold);
    await_callbacks(ends.a.connection);
    progress(&ends.a);
    expect_nothing(&ends.a);

    drop_region(&ends, &source);
    drop_region(&ends, &target);
    gpud_memory_unref(&memory);
    gpud_memory_unref(&next);
    gpud_queue_unref(&queue);
    close_ends(&ends);
}

/* Into a GPU's memory, by get and recv. */
static void test_into_device(struct gpud_device *cuda)
{
    struct ends ends;
    struct gpud_region_params params = GPUD_PARAMS_INIT(params);
    struct gpud_region *source, *target;
    struct gpud_region_key key;
    char *mapped;
    fake_card.message_max = 10000 + 16384; /* in pieces; messages are whole */
    open_ends(&ends, false);
    struct gpud_memory *memory = NEW_MEMORY(cuda, SIZE);
    struct gpud_queue *queue = NEW_QUEUE(cuda);
    for (uint64_t i = 0; i < SIZE; i++)
        here[i] = (char)(i * 5 + i / 256);
    source = register_bytes(&ends.b, here, GPUD_REGION_REMOTE_READ);
    key = key_of(source);
    params.memory = memory;
    params.access = GPUD_REGION_REMOTE_WRITE;
    WORKS(gpud_region_create(ends.a.connection, &params, &target, &e));
    struct gpud_operation_params get = {
        .size = sizeof(get), .region = target, .length = 30001, .key = &key, .key_offset = 5};
    WORKS(gpud_connection_post(ends.a.connection, GPUD_COMPLETION_GET, &get, &e));
    struct gpud_operation_params recv = {
        .size = sizeof(recv), .region = target, .offset = 40000, .length = 20000};
    WORKS(gpud_connection_post(ends.a.connection, GPUD_COMPLETION_RECEIVE, &recv, &e));
    settle(&ends);
    expect_completion(&ends.a, GPUD_COMPLETION_GET, GPUD_OK, NULL);
    struct gpud_operation_params send = {
        .size = sizeof(send), .region = source, .offset = 1, .length = 10001};
    WORKS(gpud_connection_post(ends.b.connection, GPUD_COMPLETION_SEND, &send, &e));
    settle(&ends);
    expect_completion(&ends.b, GPUD_COMPLETION_SEND, GPUD_OK, NULL);
    expect_completion(&ends.a, GPUD_COMPLETION_RECEIVE, GPUD_OK, NULL);
    WORKS(gpud_queue_map(queue, memory, 0, SIZE, GPUD_READ, gpud_deadline(30 * GPUD_SEC),
                         (void **)&mapped, &e));
    CHECK(memcmp(mapped, here + 5, 30001) == 0 && mapped[30001] == 0 && mapped[39999] == 0 &&
              memcmp(mapped + 40000, here + 1, 10001) == 0 && mapped[50001] == 0,
          "what arrived in the device's memory");
    WORKS(gpud_queue_unmap(queue, memory, mapped, &e));
    drop_region(&ends, &target);
    drop_region(&ends, &source);
    gpud_queue_unref(&queue);
    gpud_memory_unref(&memory);
    close_ends(&ends);
    fake_card_reset();
}

/* No card can follow memory that moves by itself. */
static void test_managed(struct gpud_device *cuda)
{
    struct ends ends;
    struct gpud_region *region;
    struct gpud_region_params params = GPUD_PARAMS_INIT(params);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*push)(void *) = (int (*)(void *))dlsym(driver, "cuCtxPushCurrent_v2");
    int (*pop)(void **) = (int (*)(void **))dlsym(driver, "cuCtxPopCurrent_v2");
    int (*alloc)(unsigned long long *, size_t, unsigned) =
        (int (*)(unsigned long long *, size_t, unsigned))dlsym(driver, "cuMemAllocManaged");
    int (*give_back)(unsigned long long) =
        (int (*)(unsigned long long))dlsym(driver, "cuMemFree_v2");
    unsigned long long address = 0;
    CHECK(push && pop && alloc && give_back, "no driver: %s", dlerror());
    CHECK(push(gpud_device_get_native(cuda)) == 0 && alloc(&address, SIZE, 1) == 0, "no memory");
    open_ends(&ends, false);
    params.address = (void *)(uintptr_t)address;
    params.length = SIZE;
    EXPECT(GPUD_UNSUPPORTED, "managed memory",
           gpud_region_create(ends.a.connection, &params, &region, &e));
    close_ends(&ends);
    CHECK(give_back(address) == 0 && pop(&context) == 0, "the driver");
    dlclose(driver);
}

/* --- failures ----------------------------------------------------------------------------------
 */

/* What bypasses the library gets as far as the card. */
static void forge(const struct gpud_connection *connection, struct gpud_region_key *key)
{
    const struct transfer_secret secret = {connection->peer_nonce, connection->nonce};
    struct transfer_message said;
    WORKS(gpud_transfer_unseal(key->bytes, &secret, &said, &e));
    said.key ^= 1;
    gpud_transfer_seal(&said, &secret, key->bytes);
}

/* What had succeeded by then is told so; the rest is completed once, and nothing after the end. */
static void test_failure(bool refused)
{
    AUTO(close_ends) struct ends ends;
    struct gpud_region_key key;
    open_ends(&ends, false);
    struct gpud_region *source = register_bytes(&ends.a, here, 0);
    struct gpud_region *target = register_bytes(&ends.b, there, GPUD_REGION_REMOTE_WRITE);
    key = key_of(target);
    struct gpud_operation_params put = {
        .size = sizeof(put), .region = source, .length = 512, .key = &key};
    for (int i = 0; i < 10; i++) {
        put.user = here + i;
        if (i == 4)
            settle(&ends); /* these are done; the others are not delivered yet */
        if (i == 4 && refused)
            forge(ends.a.connection, &key);
        WORKS(gpud_connection_post(ends.a.connection, GPUD_COMPLETION_PUT, &put, &e));
    }
    int done = 0;
    if (refused)
        settle(&ends);
    else
        gpud_rdma_fail(ends.a.rdma, "the peer does not answer any more");
    progress(&ends.a);
    struct gpud_completion got = {.size = sizeof(got)};
    size_t count;
    for (int i = 0; i < 10; i++) {
        WORKS(gpud_completion_queue_wait(ends.a.queue, 0, &got, 1, &count, &e));
        CHECK(got.kind == GPUD_COMPLETION_PUT && got.user == here + i, "put %d", i);
        done += got.status == GPUD_OK;
        enum gpud_status wanted = i < 4                 ? GPUD_OK
                                  : (i == 4 && refused) ? GPUD_NO_ACCESS
                                                        : GPUD_PEER;
        CHECK(got.status == wanted, "put %d: %s", i, gpud_status_string(got.status));
    }
    CHECK_EQUAL(done, 4);
    expect_completion(&ends.a, GPUD_COMPLETION_END, refused ? GPUD_NO_ACCESS : GPUD_PEER, NULL);
    expect_nothing(&ends.a);
    EXPECT(refused ? GPUD_NO_ACCESS : GPUD_PEER, refused ? "refused" : "does not answer",
           gpud_connection_post(ends.a.connection, GPUD_COMPLETION_PUT, &put, &e));
    drop_region(&ends, &source);
    drop_region(&ends, &target);
}

/* --- keys ------------------------------------------------------------------------------------ */

/* Each bit of a key, and each byte, is told from what it was: nothing reaches the card. */
static void test_damaged_keys(void)
{
    AUTO(close_ends) struct ends ends;
    open_ends(&ends, false);
    struct gpud_region *own = register_bytes(&ends.a, here, GPUD_REGION_LOCAL);
    struct gpud_region *peers =
        register_bytes(&ends.b, there, GPUD_REGION_REMOTE_WRITE | GPUD_REGION_REMOTE_READ);
    struct gpud_region_key right, key;
    struct gpud_operation_params params = {
        .size = sizeof(params), .region = own, .length = SIZE, .key = &key};
    right = key_of(peers);
    uint64_t posted = gpud_rdma_posted(ends.a.rdma);
    for (unsigned i = 0; i < sizeof(right.bytes); i++) {
        for (unsigned mask = 1; mask < 256; mask++) {
            key = right;
            key.bytes[i] ^= (uint8_t)mask;
            EXPECT(GPUD_INVALID, "key",
                   gpud_connection_post(ends.a.connection, GPUD_COMPLETION_PUT, &params, &e));
            EXPECT(GPUD_INVALID, "key",
                   gpud_connection_post(ends.a.connection, GPUD_COMPLETION_GET, &params, &e));
        }
    }
    CHECK_EQUAL(gpud_rdma_posted(ends.a.rdma), posted);
    /* What this end exports is sealed otherwise: the two are not each other's. */
    struct gpud_region *mine = register_bytes(&ends.a, here, GPUD_REGION_REMOTE_WRITE);
    key = key_of(mine);
    EXPECT(GPUD_INVALID, "not registered with this connection",
           gpud_connection_post(ends.a.connection, GPUD_COMPLETION_PUT, &params, &e));
    key = right;
    WORKS(gpud_connection_post(ends.a.connection, GPUD_COMPLETION_PUT, &params, &e));
    settle(&ends);
    expect_completion(&ends.a, GPUD_COMPLETION_PUT, GPUD_OK, NULL);
    drop_region(&ends, &mine);
    drop_region(&ends, &own);
    drop_region(&ends, &peers);
}

int main(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    AUTO(gpud_device_close) struct gpud_device *cuda = OPEN_DEVICE(context, "cuda:0");
    lines_begin(context);
    test_damaged_keys();
    test_order_after_queue(cuda);
    test_into_device(cuda);
    test_managed(cuda);
    test_failure(false);
    test_failure(true);
    return 0;
}
