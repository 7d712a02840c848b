/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* signal@DEVICE: what every device promises about the words by which frames are handed over. */
#include "conformance.h"

#include "device/opencl/opencl.h"

#define IN(ms) gpud_deadline((ms)*GPUD_MSEC)
#define SIZE (64 * 1024)
#define WORD (SIZE - 64) /* where the word lies on devices that keep it in the memory itself */

/* Both ends of a hand-over in one process. The owner waits, the writer posts. */
struct ends {
    struct side owner, writer;
    struct gpud_memory *memory, *far;
    struct gpud_signal *signal, *remote;
    struct gpud_handle memory_handle;
    uint64_t word; /* where it lies in the memory; 0 where it is the memory's own */
};

static struct ends ends_open(const char *device)
{
    struct ends ends = {.owner = side_open(device), .writer = side_open(device)};
    if (has_page_signals(&ends.owner)) {
        ends.memory = words_make(&ends.owner, SIZE, &ends.memory_handle);
        ends.far = words_open(&ends.writer, &ends.memory_handle, SIZE);
    } else {
        ends.memory = NEW_MEMORY_FOR(ends.owner.device, SIZE, GPUD_USAGE_TARGET);
        ends.memory_handle = EXPORT_MEMORY(ends.memory);
        ends.far = IMPORT_MEMORY(ends.writer.device, &ends.memory_handle, SIZE, GPUD_USAGE_TARGET);
    }
    WORKS(gpud_signal_create(ends.memory, WORD, &ends.signal, &e));
    ends.word = ends.owner.device->caps & GPUD_CAP_BUS_ADDRESSABLE ? 0 : WORD;
    WORKS(gpud_signal_import(ends.far, ends.word, &ends.remote, &e));
    return ends;
}

static void ends_close(struct ends *ends)
{
    gpud_signal_destroy(&ends->remote);
    gpud_memory_unref(&ends->far);
    gpud_signal_destroy(&ends->signal);
    gpud_memory_unref(&ends->memory);
    close_handle(&ends->memory_handle);
    side_close(&ends->writer);
    side_close(&ends->owner);
}

static void post(struct ends *ends, uint32_t value)
{
    WORKS(gpud_signal_post(ends->remote, value, ends->writer.queue, &e));
    WORKS(gpud_queue_finish(ends->writer.queue, SOON, &e));
}

/* The host waits for the owner's word: in vain, until the deadline, or not. */
static void expect_none(struct ends *ends, uint32_t value, int64_t ms)
{
    GIVES(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, value, IN(ms), &e));
}

static void expect_word(struct ends *ends, uint32_t value)
{
    WORKS(gpud_signal_wait_host(ends->signal, value, SOON, &e));
}

/* --- the host waits --------------------------------------------------------------------------- */

static void test_wait_host(struct ends *ends)
{
    SAY("the word starts at 0, and a wait for what has not come ends at its deadline");
    expect_word(ends, 0);
    for (uint32_t i = 0; i < 3; i++) {
        int64_t start = gpud_now();
        expect_none(ends, 1, 50);
        CHECK_TOOK(start, 50, 500);
    }
    for (uint32_t i = 0; i < 50; i++)
        expect_none(ends, 5 - i % 4, i % 3);

    SAY("a wait ends with the word at its value, or above it");
    post(ends, 1);
    expect_word(ends, 1);
    expect_none(ends, 2, 20);
    expect_none(ends, 3, 20);
    post(ends, 2);
    expect_none(ends, 3, 20);
    expect_word(ends, 2);
    post(ends, 7);
    expect_word(ends, 3);
    expect_word(ends, 7);
    expect_word(ends, 5);
    expect_word(ends, 0);
    expect_none(ends, 8, 20);
    post(ends, 8);
    PEER_UNTIL("a poll sees what is there", 10000,
               gpud_signal_wait_host(ends->signal, 8, 0, NULL) == GPUD_OK);
}

static bool look(struct ends *ends, uint32_t value)
{
    bool reached = false;
    WORKS(gpud_signal_look(ends->signal, value, &reached, &e));
    return reached;
}

static void test_look(struct ends *ends)
{
    SAY("a look waits for nothing, and sees what has come soon after");
    CHECK(!look(ends, 1) && !look(ends, 4) && !look(ends, 1), "nothing was posted");
    post(ends, 1);
    PEER_UNTIL("a look sees what is there", 10000, look(ends, 1));
    CHECK(look(ends, 1) && look(ends, 0) && !look(ends, 4), "the word stands at 1");
    WORKS(gpud_signal_wait_host(ends->signal, 1, IN(0), &e));
    post(ends, 9);
    PEER_UNTIL("looks see what is there", 10000, look(ends, 4) && look(ends, 9));
    CHECK(!look(ends, 10), "the word stands at 9");
}

static void test_create_resets(struct ends *ends)
{
    SAY("a signal made anew on the same memory starts at 0 again");
    post(ends, 1000);
    expect_word(ends, 1000);
    gpud_signal_destroy(&ends->signal);
    WORKS(gpud_signal_create(ends->memory, WORD, &ends->signal, &e));
    expect_none(ends, 1, 20);
    post(ends, 1);
    expect_word(ends, 1);
}

static void test_large_values(struct ends *ends)
{
    static const uint32_t values[] = {0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffff0};
    SAY("values are unsigned: nothing happens at 2^31");
    for (size_t i = 0; i < COUNT(values); i++) {
        expect_none(ends, values[i], 10);
        post(ends, values[i]);
        expect_word(ends, values[i]);
        expect_word(ends, 2);
    }
}

static void *post_later(void *ends)
{
    gpud_test_nap(40);
    post(ends, 1);
    return NULL;
}

static void test_wakes(struct ends *ends)
{
    SAY("a host that waits is woken");
    int64_t start = gpud_now();
    pthread_t thread = NEW_THREAD(post_later, ends);
    expect_word(ends, 1);
    CHECK_TOOK(start, 40, 2000);
    pthread_join(thread, NULL);
}

/* --- many wait at once ------------------------------------------------------------------------ */

/* Two waiters for different values by turns, as for two frames of one entry. */
static void test_turns(struct ends *ends)
{
    if (strcmp(gpud_device_kind(ends->owner.device), "opencl") != 0)
        return;
    SAY("waits that time out by turns do not pile up in the driver");
    struct gpud_async *async = &gpud_opencl_device(ends->owner.device)->async;
    unsigned before = gpud_async_count(async);
    for (uint32_t i = 0; i < 100; i++)
        GIVES(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, i % 2 ? 2 : 9, 0, &e));
    unsigned after = gpud_async_count(async);
    CHECK(after <= before + 2, "%u queues where two values are waited for", after - before);
    post(ends, 9);
    expect_word(ends, 9);
    expect_word(ends, 2);
}

struct waiter {
    struct ends *ends;
    uint32_t value;
    int64_t slice;
    pthread_t thread;
};

/* In slices, like a waiter that checks between them whether the writer lives. */
static void *wait_in_slices(void *arg)
{
    struct waiter *waiter = arg;
    enum gpud_status status;
    while ((status = gpud_signal_wait_host(waiter->ends->signal, waiter->value,
                                           gpud_deadline(waiter->slice), NULL)) == GPUD_TIMEOUT)
        ;
    CHECK(status == GPUD_OK, "a wait for %u gives \"%s\"", waiter->value,
          gpud_status_string(status));
    return NULL;
}

static void test_wait_while_poisoned(struct ends *ends)
{
    static const int64_t slices[] = {0, GPUD_MSEC, 5 * GPUD_MSEC, 10 * GPUD_SEC};
    SAY("threads wait for values of their own while another poisons the signal");
    struct waiter waiters[8];
    for (uint32_t i = 0; i < 8; i++) {
        waiters[i] = (struct waiter){.ends = ends, .value = 11 + i / 2, .slice = slices[i % 4]};
        waiters[i].thread = NEW_THREAD(wait_in_slices, &waiters[i]);
    }
    if (!is_synchronous(&ends->owner))
        WORKS(gpud_signal_wait_queue(ends->signal, 14, ends->owner.queue, &e));
    usleep(30000);
    WORKS(gpud_signal_poison(ends->signal, 12, &e));
    for (uint32_t i = 0; i < 4; i++)
        pthread_join(waiters[i].thread, NULL);
    GIVES(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, 13, 0, &e));
    WORKS(gpud_signal_poison(ends->signal, 14, &e));
    for (uint32_t i = 4; i < 8; i++)
        pthread_join(waiters[i].thread, NULL);
    WORKS(gpud_queue_finish(ends->owner.queue, SOON, &e));
}

static void test_poison_is_late(struct ends *ends)
{
    if (ends->owner.device->caps & GPUD_CAP_BUS_ADDRESSABLE)
        return; /* the extension writes a marker, and cannot compare */
    SAY("poison never lowers a word that the writer has raised after all");
    post(ends, 7);
    WORKS(gpud_signal_poison(ends->signal, 3, &e));
    WORKS(gpud_signal_wait_host(ends->signal, 7, 0, &e));
}

/* --- a queue waits ---------------------------------------------------------------------------- */

/* Makes the owner's queue wait for value and then copy what lies in the memory to seen. The host's
 * queue works at once, so there the call itself waits. */
static void enqueue_take(struct ends *ends, uint32_t value, struct gpud_memory *seen)
{
    WORKS(gpud_signal_wait_queue(ends->signal, value, ends->owner.queue, &e));
    copy_whole(ends->owner.queue, seen, ends->memory);
    WORKS(gpud_queue_flush(ends->owner.queue, &e));
}

static void test_wait_queue(struct ends *ends)
{
    SAY("a queue waits for the word, and finds the bytes that were sent before it");
    bool synchronous = is_synchronous(&ends->owner);
    AUTO(gpud_memory_unref) struct gpud_memory *seen = NEW_MEMORY(ends->owner.device, SIZE / 2);
    AUTO(gpud_memory_unref) struct gpud_memory *source = NEW_MEMORY(ends->writer.device, SIZE / 2);
    for (uint32_t value = 1; value <= 20; value++) {
        write_pattern(&ends->writer, source, value);
        if (!synchronous) {
            enqueue_take(ends, value, seen);
            if (value <= 3)
                GIVES(GPUD_TIMEOUT, gpud_queue_finish(ends->owner.queue, IN(30), &e));
        }
        copy_whole(ends->writer.queue, ends->far, source);
        WORKS(gpud_signal_post(ends->remote, value, ends->writer.queue, &e));
        WORKS(gpud_queue_flush(ends->writer.queue, &e));
        if (synchronous)
            enqueue_take(ends, value, seen);
        WORKS(gpud_queue_finish(ends->owner.queue, SOON, &e));
        READ_PATTERN(&ends->owner, seen, value);
    }

    SAY("what a queue need not wait for does not hold it up");
    enqueue_take(ends, 1, seen);
    enqueue_take(ends, 20, seen);
    WORKS(gpud_queue_finish(ends->owner.queue, SOON, &e));
}

/* ms: long enough for an idle queue to count as rested (device/queue.c). */
#define REST 5

/* Words in pages of their own. */
struct words {
    struct gpud_memory *memory;
    struct gpud_handle handle;
    struct gpud_signal *first, *second;
};

static struct words words_open_two(struct ends *ends)
{
    struct words words = {.handle = {.fd = -1}};
    words.memory = words_make(&ends->owner, SIZE, &words.handle);
    WORKS(gpud_signal_create(words.memory, WORD, &words.first, &e));
    WORKS(gpud_signal_create(words.memory, 0, &words.second, &e));
    return words;
}

static void words_close(struct words *words)
{
    gpud_signal_destroy(&words->first);
    gpud_signal_destroy(&words->second);
    gpud_memory_unref(&words->memory);
    close_handle(&words->handle);
}

/* A queue that has had nothing to do for a while is not bothered for a post, and one that only
 * looks as if it had is. */
static void test_rest(struct ends *ends)
{
    SAY("a queue that rested posts, and joins, as any other");
    bool synchronous = is_synchronous(&ends->owner);
    for (uint32_t value = 1; value <= 3; value++) {
        gpud_test_nap(REST);
        post(ends, value);
        expect_word(ends, value);
    }
    if (synchronous)
        return;

    SAY("a queue that has waited for long does not count as rested");
    AUTO(words_close) struct words later = {.handle = {.fd = -1}};
    bool in_pages = has_page_signals(&ends->owner);
    if (in_pages)
        later = words_open_two(ends);
    AUTO(gpud_queue_unref) struct gpud_queue *second = NEW_QUEUE(ends->owner.device);
    WORKS(gpud_signal_wait_queue(ends->signal, 4, ends->owner.queue, &e));
    WORKS(gpud_queue_flush(ends->owner.queue, &e));
    gpud_test_nap(REST);
    if (gpud_device_has_fences(ends->owner.device))
        WORKS(gpud_queue_join(second, ends->owner.queue, &e));
    if (in_pages) {
        gpud_test_nap(REST);
        WORKS(gpud_signal_post(later.first, 1, second, &e));
        GIVES(GPUD_TIMEOUT, gpud_signal_wait_host(later.first, 1, IN(30), &e));
    }
    post(ends, 4);
    WORKS(gpud_queue_finish(ends->owner.queue, SOON, &e));
    WORKS(gpud_queue_finish(second, SOON, &e));
    if (in_pages)
        WORKS(gpud_signal_wait_host(later.first, 1, SOON, &e));
}

/* A device whose driver posts several signals, or waits for them, by one call, or says that it does
 * not. */
static void test_batch(struct ends *ends)
{
    if (!has_page_signals(&ends->owner))
        return;
    SAY("two signals are posted, and waited for, together, in the order of the queue");
    AUTO(words_close) struct words words = words_open_two(ends), gates = words_open_two(ends);
    struct gpud_signal_value posts[] = {{words.first, 1}, {words.second, UINT64_C(1) << 32}};
    const struct gpud_signal_value waits[] = {{gates.first, 3}, {gates.second, 4}};
    struct gpud_queue *queue = ends->owner.queue;
    GIVES(GPUD_INVALID, gpud_signal_post_all(posts, 2, queue, &e));
    GIVES(GPUD_INVALID, gpud_signal_wait_all(posts, 2, queue, &e));
    posts[1].value = 2;
    gpud_test_nap(REST); /* the CPU writes both words */
    WORKS(gpud_signal_post_all(posts, 2, queue, &e));
    WORKS(gpud_signal_wait_host(words.first, 1, SOON, &e));
    WORKS(gpud_signal_wait_host(words.second, 2, SOON, &e));
    struct gpud_error why;
    enum gpud_status status = gpud_signal_wait_all(waits, 2, queue, &why);
    CHECK(status == GPUD_OK || status == GPUD_UNSUPPORTED, "%s", why.reason);
    bool batches = status == GPUD_OK;
    if (!batches && !is_synchronous(&ends->owner))
        WORKS(gpud_signal_wait_queue(gates.second, 4, queue, &e));
    posts[0].value = posts[1].value = 5;
    status = gpud_signal_post_all(posts, 2, queue, &why);
    CHECK(status == (batches ? GPUD_OK : GPUD_UNSUPPORTED), "%s", why.reason);
    WORKS(gpud_signal_poison(gates.first, 3, &e)); /* one of the two is not enough */
    WORKS(gpud_signal_poison(gates.second, 3, &e));
    GIVES(GPUD_TIMEOUT, gpud_signal_wait_host(words.first, 5, IN(30), &e));
    GIVES(GPUD_TIMEOUT, gpud_signal_wait_host(words.second, 5, 0, &e));
    WORKS(gpud_signal_poison(gates.second, 4, &e));
    WORKS(gpud_queue_finish(queue, SOON, &e));
    if (batches) {
        WORKS(gpud_signal_wait_host(words.first, 5, SOON, &e));
        WORKS(gpud_signal_wait_host(words.second, 5, SOON, &e));
    }
}

static void test_wait_host_queue(struct ends *ends)
{
    if (!is_synchronous(&ends->owner))
        return;
    SAY("the host's queue, which works at once, waits itself, and not for ever");
    int64_t start = gpud_now();
    GIVES(GPUD_TIMEOUT, gpud_signal_wait_queue(ends->signal, 1, ends->owner.queue, &e));
    CHECK_TOOK(start, 100, 5000);
}

static void test_process(struct ends *ends)
{
    SAY("another process posts to a queue that waits");
    AUTO(gpud_memory_unref) struct gpud_memory *seen = NEW_MEMORY(ends->owner.device, SIZE / 2);
    struct order order = {
        .task = POSTS,
        .memory = ends->memory_handle,
        .word = ends->word,
        .size = SIZE,
        .seed = 77,
        .value = 5,
        .delay_ms = 50,
    };
    bool synchronous = is_synchronous(&ends->owner);
    if (!synchronous)
        enqueue_take(ends, 5, seen);
    pid_t peer = order_start(ends->owner.device->info.name, &order);
    expect_word(ends, 5);
    if (synchronous)
        enqueue_take(ends, 5, seen);
    WORKS(gpud_queue_finish(ends->owner.queue, SOON, &e));
    READ_PATTERN(&ends->owner, seen, 77);
    ORDER_FINISH(peer);
    expect_none(ends, 6, 10);
}

static void test_poison(struct ends *ends)
{
    SAY("poison releases waits for a writer that died");
    if (is_synchronous(&ends->owner)) {
        expect_none(ends, 3, 10);
        WORKS(gpud_signal_poison(ends->signal, 3, &e));
        WORKS(gpud_signal_wait_queue(ends->signal, 3, ends->owner.queue, &e));
    } else {
        WORKS(gpud_signal_wait_queue(ends->signal, 3, ends->owner.queue, &e));
        GIVES(GPUD_TIMEOUT, gpud_queue_finish(ends->owner.queue, IN(30), &e));
        WORKS(gpud_signal_poison(ends->signal, 3, &e));
    }
    WORKS(gpud_queue_finish(ends->owner.queue, SOON, &e));
    expect_word(ends, 3);
    expect_none(ends, 4, 10);
}

static void test_destroy_waiting(const char *device, bool signal_first)
{
    SAY("a signal that is waited for can be destroyed, %s",
        signal_first ? "before its queue" : "after its queue");
    struct ends ends = ends_open(device);
    struct gpud_queue *queue = NEW_QUEUE(ends.owner.device);
    GIVES(GPUD_TIMEOUT, gpud_signal_wait_host(ends.signal, 9, IN(10), &e));
    GIVES(GPUD_TIMEOUT, gpud_signal_wait_host(ends.signal, 2, IN(10), &e));
    if (!is_synchronous(&ends.owner)) {
        WORKS(gpud_signal_wait_queue(ends.signal, 3, queue, &e));
        WORKS(gpud_queue_flush(queue, &e));
    }
    int64_t start = gpud_now();
    if (signal_first)
        gpud_signal_destroy(&ends.signal);
    gpud_queue_unref(&queue);
    gpud_signal_destroy(&ends.signal);
    ends_close(&ends);
    CHECK_TOOK(start, 0, 900); /* closing a device waits a second for what is stuck: nothing was */
}

static void test_refusals(struct ends *ends)
{
    SAY("signals where there can be none, and words that lie elsewhere, are refused");
    struct gpud_signal *signal = NULL;
    if (is_cpu_addressable(&ends->owner) || has_page_signals(&ends->owner)) {
        static const uint64_t places[] = {2, SIZE, SIZE - 3, UINT64_MAX - 3};
        for (size_t i = 0; i < COUNT(places); i++)
            GIVES(GPUD_INVALID, gpud_signal_create(ends->memory, places[i], &signal, &e));
    }
    if (!is_cpu_addressable(&ends->owner)) {
        AUTO(gpud_memory_unref) struct gpud_memory *local = NEW_MEMORY(ends->owner.device, SIZE);
        GIVES(GPUD_UNSUPPORTED, gpud_signal_create(local, 0, &signal, &e));
        CHECK(gpud_signal_import(local, ends->word, &signal, NULL) != GPUD_OK,
              "a signal in memory that has none");
    }
    if (ends->owner.device->caps & GPUD_CAP_BUS_ADDRESSABLE) {
        GIVES(GPUD_UNSUPPORTED, gpud_signal_create(ends->far, 0, &signal, &e));
        GIVES(GPUD_INVALID, gpud_signal_post(ends->signal, 1, ends->owner.queue, &e));
        GIVES(GPUD_INVALID, gpud_signal_wait_queue(ends->remote, 1, ends->writer.queue, &e));
        GIVES(GPUD_INVALID, gpud_signal_wait_host(ends->remote, 1, SOON, &e));
        GIVES(GPUD_INVALID, gpud_signal_poison(ends->remote, 1, &e));
    }
    static const uint64_t lies[] = {2,          SIZE,           SIZE - 2,
                                    UINT64_MAX, UINT64_MAX - 3, UINT64_C(1) << 63};
    for (size_t i = 0; i < COUNT(lies); i++)
        GIVES(GPUD_PEER, gpud_signal_import(ends->far, lies[i], &signal, &e));
    CHECK(!signal, "a refusal leaves something behind");
}

static void everything(const char *device)
{
    static void (*const tests[])(struct ends * ends) = {test_wait_host,
                                                        test_look,
                                                        test_create_resets,
                                                        test_large_values,
                                                        test_wakes,
                                                        test_turns,
                                                        test_wait_while_poisoned,
                                                        test_poison_is_late,
                                                        test_wait_queue,
                                                        test_rest,
                                                        test_batch,
                                                        test_wait_host_queue,
                                                        test_process,
                                                        test_poison,
                                                        test_refusals};
    for (size_t i = 0; i < COUNT(tests); i++) {
        AUTO(ends_close) struct ends ends = ends_open(device);
        tests[i](&ends);
    }
    test_destroy_waiting(device, true);
    test_destroy_waiting(device, false);
}

int main(int argc, char **argv)
{
    conformance_begin(argc, argv);
    struct side side = side_open(argv[1]);
    if (!(side.device->caps & GPUD_CAP_SIGNALS))
        SKIP("%s", side.device->no_direct);
    side_close(&side);
    twice(everything, argv[1]);
    return 0;
}
