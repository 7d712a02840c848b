/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ends of connections for transfers over a card in the test's own process, and without the thread
 * that looks after them: the test decides what happens when. Operations where a GPU's queue is not
 * done yet, and where the card fails in mid-stream. "lies": a hostile peer. */
#include "fake_card.h"

#include "device/cuda/driver.h"
#include "support/check.h"
#include "support/make.h"
#include "transfer/transfer.h"
#include "wire/rdma/rdma.h"

#include <dlfcn.h>
#include <poll.h>

/* A channel that stands, without rdma_cm. */
struct line {
    struct rdma_channel channel; /* first */
    struct rdma_cm_id *id;
};

#define SIZE UINT64_C(65536)

struct end {
    struct line *line;
    struct gpud_rdma *rdma;
    struct gpud_transfer *transfer;
    struct gpud_completion_queue *queue;
    struct gpud_connection *connection; /* NULL: the test itself says what it says */
};

struct ends {
    struct end a, b;
};

static char here[SIZE], there[SIZE];
static struct gpud_context *context;
static struct gpud_verbs_ops verbs;

static enum gpud_status receive_nothing(struct gpud_channel *channel, struct gpud_message *message,
                                        struct gpud_error *error)
{
    return gpud_fail(error, GPUD_AGAIN, "no message");
}

static bool is_dead(const struct gpud_channel *channel)
{
    return false;
}

static void end_line(struct gpud_channel *base, const char *reason)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    gpud_rdma_fail(channel->rdma, reason);
    gpud_rdma_end(channel->rdma);
}

static void close_line(struct gpud_channel *base)
{
    struct line *line = (struct line *)base;
    gpud_rdma_end(line->channel.rdma);
    gpud_rdma_unref(&line->channel.rdma);
    fake_id_destroy(line->id);
    free(line);
}

static const struct gpud_channel_ops line_ops = {
    .receive = receive_nothing, .is_dead = is_dead, .close = close_line, .verbs = &verbs};

/* without: the peer is the test itself. */
static struct end make_end(bool without)
{
    struct end end = {.line = calloc(1, sizeof(*end.line))};
    CHECK(end.line, "out of memory");
    end.line->id = fake_id_create();
    WORKS(gpud_rdma_create(end.line->id, &end.rdma, &e));
    struct gpud_channel *channel = &end.line->channel.base;
    end.line->channel.rdma = end.rdma;
    channel->ops = &line_ops;
    atomic_init(&channel->references, 1);
    atomic_init(&channel->connected, true);
    if (without)
        return end;
    end.transfer = calloc(1, sizeof(*end.transfer));
    CHECK(end.transfer, "out of memory");
    atomic_init(&end.transfer->references, 1);
    end.transfer->context = context;
    end.transfer->wake = end.transfer->waiting = -1;
    gpud_lock_init(&end.transfer->lock, GPUD_RANK_TRANSFER);
    WORKS(gpud_completion_queue_create(context, &end.queue, &e));
    WORKS(gpud_connection_create(end.transfer, channel, false, &end.connection, &e));
    end.connection->queue = gpud_completion_queue_ref(end.queue);
    return end;
}

/* One end goes on; the card does the next thing that was asked for; all until nothing is left. */
static void progress(const struct end *end)
{
    if (!end->connection)
        return;
    gpud_lock_take(&end->connection->lock);
    if (end->connection->phase == CONNECTION_CONNECTING)
        gpud_connection_advance_locked(end->connection);
    gpud_connection_progress_locked(end->connection);
    gpud_lock_release(&end->connection->lock);
}

static bool work(const struct end *end)
{
    return end->line->id->qp && (fake_deliver(end->line->id) | fake_complete(end->line->id));
}

static void settle(const struct ends *ends)
{
    bool busy = true;
    while (busy) {
        progress(&ends->a);
        progress(&ends->b);
        busy = work(&ends->a) | work(&ends->b);
    }
}

/* Connected, and greeted, unless b is the test itself. */
static struct ends open_ends(bool b_without)
{
    struct ends ends = {make_end(false), make_end(b_without)};
    fake_connect(ends.a.line->id, ends.b.line->id);
    gpud_rdma_set_peer_receives(ends.a.rdma, GPUD_RDMA_RECEIVES);
    gpud_rdma_set_peer_receives(ends.b.rdma, GPUD_RDMA_RECEIVES);
    settle(&ends);
    CHECK(b_without || (ends.a.connection->phase == CONNECTION_OPEN &&
                        ends.b.connection->phase == CONNECTION_OPEN),
          "both greeted");
    return ends;
}

static void end_now(struct gpud_connection *connection)
{
    gpud_lock_take(&connection->lock); /* at once: no goodbye is delivered */
    gpud_connection_end_locked(connection, GPUD_CLOSED, "this side closed the connection");
    gpud_lock_release(&connection->lock);
}

static void close_end(struct end *end)
{
    if (!end->connection) {
        close_line(&end->line->channel.base);
        return;
    }
    end_now(end->connection);
    CHECK_EQUAL(atomic_load(&end->connection->callbacks), 0);
    gpud_completion_queue_destroy(&end->queue);
    CHECK_EQUAL(atomic_load(&end->connection->references), 1);
    gpud_connection_unref(end->connection);
    gpud_transfer_unref(end->transfer);
}

static void close_ends(struct ends *ends)
{
    close_end(&ends->a);
    close_end(&ends->b);
    CHECK(!fake_card.regions && !fake_card.pairs && !fake_card.domains, "something is left");
}

static struct gpud_region *register_bytes(const struct end *end, void *bytes, unsigned access)
{
    struct gpud_region_params params = GPUD_PARAMS_INIT(params);
    struct gpud_region *region;
    params.address = bytes;
    params.length = SIZE;
    params.access = access;
    WORKS(gpud_region_create(end->connection, &params, &region, &e));
    return region;
}

/* Posts an operation at one of the `ends`, as one of WORKS() or EXPECT(): POST(a, PUT, &put). */
#define POST(end, kind, operation) \
    gpud_connection_post(ends.end.connection, GPUD_COMPLETION_##kind, operation, &e)

static void expect_completion(const struct end *end, enum gpud_completion_kind kind,
                              enum gpud_status status, const void *user)
{
    struct gpud_completion got = {.size = sizeof(got)};
    size_t count;
    WORKS(gpud_completion_queue_wait(end->queue, 0, &got, 1, &count, &e));
    CHECK(got.kind == kind && got.status == status && got.user == user,
          "kind %d, \"%s\"; wanted kind %d, \"%s\"", got.kind, gpud_status_string(got.status), kind,
          gpud_status_string(status));
}

static void expect_nothing(const struct end *end)
{
    struct gpud_completion got = {.size = sizeof(got)};
    size_t count;
    EXPECT(GPUD_TIMEOUT, "", gpud_completion_queue_wait(end->queue, 0, &got, 1, &count, &e));
}

static void drop_region(const struct ends *ends, struct gpud_region **region)
{
    struct gpud_region *gone = *region;
    bool a_ended = ends->a.connection->phase == CONNECTION_ENDED;
    if (ends->b.connection && a_ended != (ends->b.connection->phase == CONNECTION_ENDED))
        gpud_rdma_fail(a_ended ? ends->b.rdma : ends->a.rdma, "the peer does not answer any more");
    gpud_lock_take(&gone->connection->lock);
    gone->revoked = true; /* the request would not be delivered */
    gpud_lock_release(&gone->connection->lock);
    WORKS(gpud_region_destroy(region, 0, &e));
    settle(ends);
}

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
    struct hold hold;
    struct gpud_region_params params = GPUD_PARAMS_INIT(params);
    struct gpud_region *source;
    AUTO(close_ends) struct ends ends = open_ends(false);
    AUTO(gpud_memory_unref) struct gpud_memory *memory = NEW_MEMORY(cuda, SIZE);
    AUTO(gpud_memory_unref) struct gpud_memory *next = NEW_MEMORY(cuda, SIZE);
    AUTO(gpud_queue_unref) struct gpud_queue *queue = NEW_QUEUE(cuda);
    set_bytes(queue, memory, 1);
    set_bytes(queue, next, 2);

    params.address = gpud_memory_get_native(memory); /* whose it is, the driver says */
    params.length = SIZE;
    WORKS(gpud_region_create(ends.a.connection, &params, &source, &e));
    struct gpud_region_info info = INFO(region, source);
    CHECK(strcmp(info.device, "cuda:0") == 0 && strcmp(info.way, "dmabuf") == 0, "%s, by %s",
          info.device, info.way);
    memset(there, 0, SIZE);
    struct gpud_region *target = register_bytes(&ends.b, there, GPUD_REGION_REMOTE_WRITE);
    struct gpud_region_key key = INFO(region, target).key;

    /* The application's queue stands still, with a copy behind that. */
    hold_queue(queue, &hold);
    struct gpud_copy copy = {.to = memory, .from = next, .row_bytes = SIZE, .rows = 1};
    WORKS(gpud_queue_copy(queue, &copy, &e));
    struct gpud_operation_params put = {.size = sizeof(put),
                                        .region = source,
                                        .length = SIZE / 2,
                                        .key = &key,
                                        .user = &put,
                                        .after_queue = true,
                                        .native_queue = queue->native,
                                        .notify = true,
                                        .value = 5};
    WORKS(POST(a, PUT, &put));
    put.after_queue = false;
    put.user = &key;
    put.offset = put.key_offset = SIZE / 2;
    put.length = 16;
    put.value = 6;
    WORKS(POST(a, PUT, &put));
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
    WORKS(POST(a, PUT, &put));
    end_now(ends.a.connection);
    expect_completion(&ends.a, GPUD_COMPLETION_PUT, GPUD_CLOSED, &put);
    expect_completion(&ends.a, GPUD_COMPLETION_END, GPUD_CLOSED, NULL);
    release_queue(&hold);
    await_callbacks(ends.a.connection);
    progress(&ends.a);
    expect_nothing(&ends.a);

    drop_region(&ends, &source);
    drop_region(&ends, &target);
}

/* Into a GPU's memory, by get and recv. */
static void test_into_device(struct gpud_device *cuda)
{
    struct gpud_region_params params = GPUD_PARAMS_INIT(params);
    struct gpud_region *target;
    char *mapped;
    AUTO(close_ends) struct ends ends = open_ends(false);
    AUTO(gpud_memory_unref) struct gpud_memory *memory = NEW_MEMORY(cuda, SIZE);
    AUTO(gpud_queue_unref) struct gpud_queue *queue = NEW_QUEUE(cuda);
    for (uint64_t i = 0; i < SIZE; i++)
        here[i] = (char)(i * 5 + i / 256);
    struct gpud_region *source = register_bytes(&ends.b, here, GPUD_REGION_REMOTE_READ);
    struct gpud_region_key key = INFO(region, source).key;
    params.memory = memory;
    params.access = GPUD_REGION_REMOTE_WRITE;
    WORKS(gpud_region_create(ends.a.connection, &params, &target, &e));
    struct gpud_operation_params get = {
        .size = sizeof(get), .region = target, .length = 30001, .key = &key, .key_offset = 5};
    WORKS(POST(a, GET, &get));
    struct gpud_operation_params recv = {
        .size = sizeof(recv), .region = target, .offset = 40000, .length = 20000};
    WORKS(POST(a, RECEIVE, &recv));
    settle(&ends);
    expect_completion(&ends.a, GPUD_COMPLETION_GET, GPUD_OK, NULL);
    struct gpud_operation_params send = {
        .size = sizeof(send), .region = source, .offset = 1, .length = 10001};
    WORKS(POST(b, SEND, &send));
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
}

/* No card can follow memory that moves by itself. */
static void test_managed(struct gpud_device *cuda)
{
    struct gpud_region *region;
    struct gpud_region_params params = GPUD_PARAMS_INIT(params);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*alloc)(unsigned long long *, size_t, unsigned) =
        (int (*)(unsigned long long *, size_t, unsigned))dlsym(driver, "cuMemAllocManaged");
    unsigned long long address = 0;
    CUcontext previous;
    CHECK(alloc, "no driver: %s", dlerror());
    CHECK(gpud_cu.ctx_push_current(gpud_device_get_native(cuda)) == CUDA_SUCCESS &&
              alloc(&address, SIZE, 1) == 0,
          "no memory");
    AUTO(close_ends) struct ends ends = open_ends(false);
    params.address = (void *)(uintptr_t)address;
    params.length = SIZE;
    EXPECT(GPUD_UNSUPPORTED, "managed memory",
           gpud_region_create(ends.a.connection, &params, &region, &e));
    CHECK(gpud_cu.mem_free(address) == CUDA_SUCCESS &&
              gpud_cu.ctx_pop_current(&previous) == CUDA_SUCCESS,
          "the driver");
    dlclose(driver);
}

/* What had succeeded by then is told so; the rest is completed once, and nothing after the end. */
static void test_failure(bool refused)
{
    AUTO(close_ends) struct ends ends = open_ends(false);
    struct gpud_region *source = register_bytes(&ends.a, here, 0);
    struct gpud_region *target = register_bytes(&ends.b, there, GPUD_REGION_REMOTE_WRITE);
    struct gpud_region_key key = INFO(region, target).key;
    struct gpud_operation_params put = {
        .size = sizeof(put), .region = source, .length = 512, .key = &key};
    for (int i = 0; i < 10; i++) {
        put.user = here + i;
        if (i == 4)
            settle(&ends);       /* these are done; the others are not delivered yet */
        if (i == 4 && refused) { /* what bypasses the library gets as far as the card */
            const struct transfer_secret secret = {ends.a.connection->peer_nonce,
                                                   ends.a.connection->nonce};
            struct transfer_message said;
            WORKS(gpud_transfer_unseal(key.bytes, &secret, &said, &e));
            said.key ^= 1;
            gpud_transfer_seal(&said, &secret, key.bytes);
        }
        WORKS(POST(a, PUT, &put));
    }
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
        enum gpud_status wanted = i < 4                 ? GPUD_OK
                                  : (i == 4 && refused) ? GPUD_NO_ACCESS
                                                        : GPUD_PEER;
        CHECK(got.status == wanted, "put %d: %s", i, gpud_status_string(got.status));
    }
    expect_completion(&ends.a, GPUD_COMPLETION_END, refused ? GPUD_NO_ACCESS : GPUD_PEER, NULL);
    expect_nothing(&ends.a);
    EXPECT(refused ? GPUD_NO_ACCESS : GPUD_PEER, refused ? "refused" : "does not answer",
           POST(a, PUT, &put));
    drop_region(&ends, &source);
    drop_region(&ends, &target);
}

/* Each bit of a key, and each byte, is told from what it was: nothing reaches the card. */
static void test_damaged_keys(void)
{
    AUTO(close_ends) struct ends ends = open_ends(false);
    struct gpud_region *own = register_bytes(&ends.a, here, GPUD_REGION_LOCAL);
    struct gpud_region *peers =
        register_bytes(&ends.b, there, GPUD_REGION_REMOTE_WRITE | GPUD_REGION_REMOTE_READ);
    struct gpud_region_key right = INFO(region, peers).key, key;
    struct gpud_operation_params params = {
        .size = sizeof(params), .region = own, .length = SIZE, .key = &key};
    uint64_t posted = gpud_rdma_posted(ends.a.rdma);
    for (unsigned i = 0; i < sizeof(right.bytes); i++) {
        for (unsigned mask = 1; mask < 256; mask++) {
            key = right;
            key.bytes[i] ^= (uint8_t)mask;
            EXPECT(GPUD_INVALID, "key", POST(a, PUT, &params));
            EXPECT(GPUD_INVALID, "key", POST(a, GET, &params));
        }
    }
    CHECK_EQUAL(gpud_rdma_posted(ends.a.rdma), posted);
    /* What this end exports is sealed otherwise: the two are not each other's. */
    struct gpud_region *mine = register_bytes(&ends.a, here, GPUD_REGION_REMOTE_WRITE);
    key = INFO(region, mine).key;
    EXPECT(GPUD_INVALID, "not registered with this connection", POST(a, PUT, &params));
    key = right;
    WORKS(POST(a, PUT, &params));
    settle(&ends);
    expect_completion(&ends.a, GPUD_COMPLETION_PUT, GPUD_OK, NULL);
    drop_region(&ends, &mine);
    drop_region(&ends, &own);
    drop_region(&ends, &peers);
}

/* --- a hostile peer: whatever it sends, only its connection ends ------------------------------ */

static void say(const struct ends *ends, struct transfer_message message)
{
    uint8_t bytes[TRANSFER_MESSAGE_SIZE];
    gpud_transfer_encode(&message, bytes);
    WORKS(gpud_rdma_send(ends->b.rdma, bytes, sizeof(bytes), &e));
    settle(ends);
}

#define SAID(...) ((struct transfer_message){.type = TRANSFER_##__VA_ARGS__})

/* Its peer is the test itself, which has greeted. */
static struct ends open_hostile(void)
{
    struct ends ends = open_ends(true);
    say(&ends, SAID(HELLO, .nonce = 9));
    return ends;
}

/* Only that connection ends, with a reason. */
static void expect_break(struct ends *ends, const char *says)
{
    settle(ends);
    struct gpud_connection_info info = INFO(connection, ends->a.connection);
    CHECK(info.status == GPUD_PEER && strstr(info.reason, says), "%s: %s",
          gpud_status_string(info.status), info.reason);
    close_ends(ends);
}

/* With a region that may be read, and nothing else. */
static void expect_lie(struct ends ends, struct transfer_message lie, const char *says)
{
    struct gpud_region *region = register_bytes(&ends.a, here, GPUD_REGION_REMOTE_READ);
    struct gpud_operation_params recv = {.size = sizeof(recv), .region = region, .length = 1};
    EXPECT(GPUD_NO_ACCESS, "REMOTE_WRITE", POST(a, RECEIVE, &recv));
    say(&ends, lie);
    drop_region(&ends, &region);
    expect_break(&ends, says);
}

static void test_lies(void)
{
    expect_lie(open_hostile(), SAID(HELLO, .nonce = 9), "greets twice");
    expect_lie(open_ends(true), SAID(BYE, .nonce = 9), "not at all");
    expect_lie(open_hostile(), SAID(SENT, .number = 1, .size = 1), "without a receive");
    expect_lie(open_hostile(), SAID(RECEIVE, .number = 2, .generation = 1), "cannot have posted");
    expect_lie(open_hostile(), SAID(RECEIVE, .number = 1), "cannot have posted");
    expect_lie(open_hostile(), SAID(NOTIFY, .generation = 1, .size = 1), "cannot have put");
    expect_lie(open_hostile(), SAID(REVOKE), "cannot have given");
    expect_lie(open_hostile(), SAID(KEY), "keys do not travel");

    static const char *const garbage[] = {"GPUD and so on", "short", ""};
    static const char *const says[] = {"frames", "neither a message", "neither a message"};
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        struct ends ends = open_ends(true);
        WORKS(gpud_rdma_send(ends.b.rdma, garbage[i], strlen(garbage[i]) + 1, &e));
        expect_break(&ends, says[i]);
    }
}

/* A message that is longer than its receive; bytes that were put beside the region. */
static void test_excess(void)
{
    struct ends ends = open_hostile();
    struct gpud_region *region = register_bytes(&ends.a, here, GPUD_REGION_REMOTE_WRITE);
    struct gpud_operation_params recv = {
        .size = sizeof(recv), .region = region, .length = 100, .user = &recv};
    WORKS(POST(a, RECEIVE, &recv));
    say(&ends, SAID(SENT, .number = 1, .size = 101));
    expect_completion(&ends.a, GPUD_COMPLETION_RECEIVE, GPUD_PEER, &recv);
    drop_region(&ends, &region);
    expect_break(&ends, "too long");

    ends = open_hostile();
    region = register_bytes(&ends.a, here, GPUD_REGION_REMOTE_WRITE);
    say(&ends, SAID(NOTIFY, .generation = 1, .offset = SIZE, .size = 1));
    drop_region(&ends, &region);
    expect_break(&ends, "cannot have put");

    /* Of a region that is not there (any more) the value is left. */
    ends = open_hostile();
    say(&ends, SAID(NOTIFY, .generation = 2, .offset = SIZE, .size = 1));
    expect_completion(&ends.a, GPUD_COMPLETION_NOTIFICATION, GPUD_OK, NULL);
    say(&ends, SAID(REVOKED, .generation = 3));
    CHECK(ends.a.connection->phase == CONNECTION_OPEN, "an answer that is late");

    /* More receives than there may be. */
    for (uint32_t i = 1; i <= GPUD_RECEIVES_MAX; i++)
        say(&ends, SAID(RECEIVE, .number = i, .generation = 1, .size = 1));
    CHECK(ends.a.connection->phase == CONNECTION_OPEN, "as many as it may have");
    say(&ends, SAID(RECEIVE, .number = GPUD_RECEIVES_MAX + 1, .generation = 1, .size = 1));
    expect_break(&ends, "cannot have posted");
}

int main(int argc, char **argv)
{
    AUTO(gpud_context_destroy) struct gpud_context *made = context = NEW_CONTEXT();
    fake_card_reset();
    verbs = gpud_rdma_verbs;
    verbs.end = end_line;
    if (argc == 2) {
        test_lies();
        test_excess();
        return 0;
    }
    AUTO(gpud_device_close) struct gpud_device *cuda = OPEN_DEVICE(made, "cuda:0");
    test_damaged_keys();
    test_order_after_queue(cuda);
    fake_card.message_max = 10000 + 16384; /* in pieces; messages are whole */
    test_into_device(cuda);
    fake_card_reset();
    test_managed(cuda);
    test_failure(false);
    test_failure(true);
    return 0;
}
