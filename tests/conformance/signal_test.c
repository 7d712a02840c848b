/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* signal@DEVICE: what every device promises about the words by which frames are handed over. */
#include "conformance.h"

#include "device/opencl/opencl.h"
#include "support/make.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SOON gpud_deadline(10 * GPUD_SEC)
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

static void ends_open(struct ends *ends, const char *device)
{
    ends->owner = side_open(device);
    ends->writer = side_open(device);
    if (has_page_signals(&ends->owner)) {
        ends->memory = words_make(&ends->owner, SIZE, &ends->memory_handle);
        ends->far = words_open(&ends->writer, &ends->memory_handle, SIZE);
    } else {
        WORKS(
            gpud_memory_alloc_for(ends->owner.device, SIZE, GPUD_USAGE_TARGET, &ends->memory, &e));
        WORKS(gpud_memory_export(ends->memory, &ends->memory_handle, &e));
        WORKS(gpud_memory_import(ends->writer.device, &ends->memory_handle, SIZE, GPUD_USAGE_TARGET,
                                 &ends->far, &e));
    }
    WORKS(gpud_signal_create(ends->memory, WORD, &ends->signal, &e));
    ends->word = ends->owner.device->caps & GPUD_CAP_BUS_ADDRESSABLE ? 0 : WORD;
    WORKS(gpud_signal_import(ends->far, ends->word, &ends->remote, &e));
}

static void ends_close(struct ends *ends)
{
    gpud_signal_destroy(&ends->remote);
    gpud_memory_unref(&ends->far);
    gpud_signal_destroy(&ends->signal);
    gpud_memory_unref(&ends->memory);
    if (ends->memory_handle.fd >= 0)
        close(ends->memory_handle.fd);
    side_close(&ends->writer);
    side_close(&ends->owner);
}

static void post(struct ends *ends, uint32_t value)
{
    WORKS(gpud_signal_post(ends->remote, value, ends->writer.queue, &e));
    WORKS(gpud_queue_finish(ends->writer.queue, SOON, &e));
}

/* --- the host waits --------------------------------------------------------------------------- */

static void test_wait_host(struct ends *ends)
{
    say("the word starts at 0, and a wait for what has not come ends at its deadline");
    WORKS(gpud_signal_wait_host(ends->signal, 0, SOON, &e));
    for (uint32_t i = 0; i < 3; i++) {
        int64_t start = gpud_now();
        EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, 1, IN(50), &e));
        CHECK_TOOK(start, 50, 500);
    }
    for (uint32_t i = 0; i < 50; i++)
        EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, 5 - i % 4, IN(i % 3), &e));

    say("a wait ends with the word at its value, or above it");
    post(ends, 1);
    WORKS(gpud_signal_wait_host(ends->signal, 1, SOON, &e));
    EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, 2, IN(20), &e));
    EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, 3, IN(20), &e));
    post(ends, 2);
    EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, 3, IN(20), &e));
    WORKS(gpud_signal_wait_host(ends->signal, 2, SOON, &e));
    post(ends, 7);
    WORKS(gpud_signal_wait_host(ends->signal, 3, SOON, &e));
    WORKS(gpud_signal_wait_host(ends->signal, 7, SOON, &e));
    WORKS(gpud_signal_wait_host(ends->signal, 5, SOON, &e));
    WORKS(gpud_signal_wait_host(ends->signal, 0, SOON, &e));
    EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, 8, IN(20), &e));
    post(ends, 8);
    for (int64_t deadline = SOON; gpud_signal_wait_host(ends->signal, 8, 0, NULL) != GPUD_OK;
         usleep(1000))
        CHECK(gpud_now() < deadline, "polls do not see what is there");
}

static bool look(struct ends *ends, uint32_t value)
{
    bool reached = false;
    WORKS(gpud_signal_look(ends->signal, value, &reached, &e));
    return reached;
}

static void test_look(struct ends *ends)
{
    say("a look waits for nothing, and sees what has come soon after");
    CHECK(!look(ends, 1) && !look(ends, 4) && !look(ends, 1), "nothing was posted");
    post(ends, 1);
    for (int64_t deadline = SOON; !look(ends, 1); usleep(500))
        CHECK(gpud_now() < deadline, "looks do not see what is there");
    CHECK(look(ends, 1) && look(ends, 0) && !look(ends, 4), "the word stands at 1");
    WORKS(gpud_signal_wait_host(ends->signal, 1, IN(0), &e));
    post(ends, 9);
    for (int64_t deadline = SOON; !look(ends, 4) || !look(ends, 9); usleep(500))
        CHECK(gpud_now() < deadline, "looks do not see what is there");
    CHECK(!look(ends, 10), "the word stands at 9");
}

static void test_create_resets(struct ends *ends)
{
    say("a signal made anew on the same memory starts at 0 again");
    post(ends, 1000);
    WORKS(gpud_signal_wait_host(ends->signal, 1000, SOON, &e));
    gpud_signal_destroy(&ends->signal);
    WORKS(gpud_signal_create(ends->memory, WORD, &ends->signal, &e));
    EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, 1, IN(20), &e));
    post(ends, 1);
    WORKS(gpud_signal_wait_host(ends->signal, 1, SOON, &e));
}

static void test_large_values(struct ends *ends)
{
    static const uint32_t values[] = {0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffff0};
    say("values are unsigned: nothing happens at 2^31");
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, values[i], IN(10), &e));
        post(ends, values[i]);
        WORKS(gpud_signal_wait_host(ends->signal, values[i], SOON, &e));
        WORKS(gpud_signal_wait_host(ends->signal, 2, SOON, &e));
    }
}

struct later {
    struct ends *ends;
    uint32_t value;
};

static void *post_later(void *arg)
{
    struct later *later = arg;
    nanosleep(&(struct timespec){.tv_nsec = 40 * GPUD_MSEC}, NULL);
    post(later->ends, later->value);
    return NULL;
}

static void test_wakes(struct ends *ends)
{
    say("a host that waits is woken");
    struct later later = {ends, 1};
    int64_t start = gpud_now();
    pthread_t thread = NEW_THREAD(post_later, &later);
    WORKS(gpud_signal_wait_host(ends->signal, 1, SOON, &e));
    CHECK_TOOK(start, 40, 2000);
    pthread_join(thread, NULL);
}

/* --- many wait at once ------------------------------------------------------------------------ */

/* Two waiters for different values by turns, as for two frames of one entry. */
static void test_turns(struct ends *ends)
{
    if (strcmp(gpud_device_kind(ends->owner.device), "opencl") != 0)
        return;
    say("waits that time out by turns do not pile up in the driver");
    struct gpud_async *async = &gpud_opencl_device(ends->owner.device)->async;
    unsigned before = gpud_async_count(async);
    for (uint32_t i = 0; i < 100; i++)
        EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, i % 2 ? 2 : 9, 0, &e));
    unsigned after = gpud_async_count(async);
    CHECK(after <= before + 2, "%u queues where two values are waited for", after - before);
    post(ends, 9);
    WORKS(gpud_signal_wait_host(ends->signal, 9, SOON, &e));
    WORKS(gpud_signal_wait_host(ends->signal, 2, SOON, &e));
}

struct waiter {
    struct ends *ends;
    uint32_t value;
    int64_t slice;
    uint32_t timeouts;
    pthread_t thread;
};

/* In slices, like a waiter that checks between them whether the writer lives. */
static void *wait_in_slices(void *arg)
{
    struct waiter *waiter = arg;
    enum gpud_status status;
    while ((status = gpud_signal_wait_host(waiter->ends->signal, waiter->value,
                                           gpud_deadline(waiter->slice), NULL)) == GPUD_TIMEOUT)
        waiter->timeouts++;
    CHECK(status == GPUD_OK, "a wait for %u gives \"%s\"", waiter->value,
          gpud_status_string(status));
    return NULL;
}

static void test_wait_while_poisoned(struct ends *ends)
{
    static const int64_t slices[] = {0, GPUD_MSEC, 5 * GPUD_MSEC, 10 * GPUD_SEC};
    say("threads wait for values of their own while another poisons the signal");
    struct waiter waiters[8];
    for (uint32_t i = 0; i < 8; i++) {
        waiters[i] = (struct waiter){.ends = ends, .value = 11 + i / 2, .slice = slices[i % 4]};
        CHECK(pthread_create(&waiters[i].thread, NULL, wait_in_slices, &waiters[i]) == 0,
              "no thread");
    }
    if (!is_synchronous(&ends->owner))
        WORKS(gpud_signal_wait_queue(ends->signal, 14, ends->owner.queue, &e));
    usleep(30000);
    WORKS(gpud_signal_poison(ends->signal, 12, &e));
    for (uint32_t i = 0; i < 4; i++)
        pthread_join(waiters[i].thread, NULL);
    EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, 13, 0, &e));
    WORKS(gpud_signal_poison(ends->signal, 14, &e));
    for (uint32_t i = 4; i < 8; i++)
        pthread_join(waiters[i].thread, NULL);
    WORKS(gpud_queue_finish(ends->owner.queue, SOON, &e));
}

static void test_poison_is_late(struct ends *ends)
{
    if (ends->owner.device->caps & GPUD_CAP_BUS_ADDRESSABLE)
        return; /* the extension writes a marker, and cannot compare */
    say("poison never lowers a word that the writer has raised after all");
    post(ends, 7);
    WORKS(gpud_signal_poison(ends->signal, 3, &e));
    WORKS(gpud_signal_wait_host(ends->signal, 7, 0, &e));
}

/* --- a queue waits ---------------------------------------------------------------------------- */

/* Makes the owner's queue wait for value and then copy what lies in the memory to seen. The host's
 * queue works at once, so there the call itself waits. */
static void enqueue_take(struct ends *ends, uint32_t value, struct gpud_memory *seen)
{
    struct gpud_copy copy = {.to = seen, .from = ends->memory, .row_bytes = SIZE / 2, .rows = 1};
    WORKS(gpud_signal_wait_queue(ends->signal, value, ends->owner.queue, &e));
    WORKS(gpud_queue_copy(ends->owner.queue, &copy, &e));
    WORKS(gpud_queue_flush(ends->owner.queue, &e));
}

/* Copies the pattern over, then posts, in queue order. */
static void enqueue_give(struct ends *ends, uint32_t value, struct gpud_memory *source)
{
    struct gpud_copy copy = {.to = ends->far, .from = source, .row_bytes = SIZE / 2, .rows = 1};
    WORKS(gpud_queue_copy(ends->writer.queue, &copy, &e));
    WORKS(gpud_signal_post(ends->remote, value, ends->writer.queue, &e));
    WORKS(gpud_queue_flush(ends->writer.queue, &e));
}

static void test_wait_queue(struct ends *ends)
{
    say("a queue waits for the word, and finds the bytes that were sent before it");
    bool synchronous = is_synchronous(&ends->owner);
    struct gpud_memory *seen = NEW_MEMORY(ends->owner.device, SIZE / 2);
    struct gpud_memory *source = NEW_MEMORY(ends->writer.device, SIZE / 2);
    for (uint32_t value = 1; value <= 20; value++) {
        write_pattern(&ends->writer, source, value);
        if (!synchronous) {
            enqueue_take(ends, value, seen);
            if (value <= 3)
                EXPECT(GPUD_TIMEOUT, gpud_queue_finish(ends->owner.queue, IN(30), &e));
        }
        enqueue_give(ends, value, source);
        if (synchronous)
            enqueue_take(ends, value, seen);
        WORKS(gpud_queue_finish(ends->owner.queue, SOON, &e));
        READ_PATTERN(&ends->owner, seen, value);
    }

    say("what a queue need not wait for does not hold it up");
    enqueue_take(ends, 1, seen);
    enqueue_take(ends, 20, seen);
    WORKS(gpud_queue_finish(ends->owner.queue, SOON, &e));
    gpud_memory_unref(&seen);
    gpud_memory_unref(&source);
}

/* Long enough for an idle queue to count as rested (device/queue.c). */
static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5 * GPUD_MSEC}, NULL);
}

/* A queue that has had nothing to do for a while is not bothered for a post, and one that only
 * looks as if it had is. */
static void test_rest(struct ends *ends)
{
    say("a queue that rested posts, and joins, as any other");
    bool synchronous = is_synchronous(&ends->owner);
    for (uint32_t value = 1; value <= 3; value++) {
        rest();
        post(ends, value);
        WORKS(gpud_signal_wait_host(ends->signal, value, SOON, &e));
    }
    if (synchronous)
        return;

    say("a queue that has waited for long does not count as rested");
    struct gpud_signal *later = NULL;
    struct gpud_memory *words = NULL;
    struct gpud_handle handle = {.fd = -1};
    bool in_pages = has_page_signals(&ends->owner);
    if (in_pages) {
        words = words_make(&ends->owner, SIZE, &handle);
        WORKS(gpud_signal_create(words, WORD, &later, &e));
    }
    AUTO(gpud_queue_unref) struct gpud_queue *second = NULL;
    WORKS(gpud_queue_create(ends->owner.device, &second, &e));
    WORKS(gpud_signal_wait_queue(ends->signal, 4, ends->owner.queue, &e));
    WORKS(gpud_queue_flush(ends->owner.queue, &e));
    rest();
    if (gpud_device_has_fences(ends->owner.device))
        WORKS(gpud_queue_join(second, ends->owner.queue, &e));
    if (in_pages) {
        rest();
        WORKS(gpud_signal_post(later, 1, second, &e));
        EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(later, 1, IN(30), &e));
    }
    post(ends, 4);
    WORKS(gpud_queue_finish(ends->owner.queue, SOON, &e));
    WORKS(gpud_queue_finish(second, SOON, &e));
    if (in_pages)
        WORKS(gpud_signal_wait_host(later, 1, SOON, &e));
    gpud_signal_destroy(&later);
    gpud_memory_unref(&words);
    if (handle.fd >= 0)
        close(handle.fd);
}

/* A device whose driver posts two signals by one call, or says that it does not. */
static void test_post_both(struct ends *ends)
{
    if (!has_page_signals(&ends->owner))
        return;
    say("two signals are posted together, in the order of the queue");
    struct gpud_handle handle = {.fd = -1};
    AUTO(gpud_memory_unref) struct gpud_memory *words = words_make(&ends->owner, SIZE, &handle);
    struct gpud_signal *first = NULL, *second = NULL;
    struct gpud_queue *queue = ends->owner.queue;
    WORKS(gpud_signal_create(words, WORD, &first, &e));
    WORKS(gpud_signal_create(words, 0, &second, &e));
    EXPECT(GPUD_INVALID, gpud_signal_post_both(first, second, UINT64_C(1) << 32, queue, &e));
    rest(); /* the CPU writes both words */
    WORKS(gpud_signal_post_both(first, second, 1, queue, &e));
    WORKS(gpud_signal_wait_host(first, 1, SOON, &e));
    WORKS(gpud_signal_wait_host(second, 1, SOON, &e));
    if (!is_synchronous(&ends->owner))
        WORKS(gpud_signal_wait_queue(ends->signal, 1, queue, &e));
    struct gpud_error why;
    enum gpud_status status = gpud_signal_post_both(first, second, 2, queue, &why);
    CHECK(status == GPUD_OK || status == GPUD_UNSUPPORTED, "%s", why.reason);
    EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(first, 2, IN(30), &e));
    EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(second, 2, 0, &e));
    post(ends, 1);
    WORKS(gpud_queue_finish(queue, SOON, &e));
    if (status == GPUD_OK) {
        WORKS(gpud_signal_wait_host(first, 2, SOON, &e));
        WORKS(gpud_signal_wait_host(second, 2, SOON, &e));
    }
    gpud_signal_destroy(&first);
    gpud_signal_destroy(&second);
    if (handle.fd >= 0)
        close(handle.fd);
}

static void test_wait_host_queue(struct ends *ends)
{
    say("the host's queue, which works at once, waits itself, and not for ever");
    int64_t start = gpud_now();
    EXPECT(GPUD_TIMEOUT, gpud_signal_wait_queue(ends->signal, 1, ends->owner.queue, &e));
    CHECK_TOOK(start, 100, 5000);
}

static void test_process(struct ends *ends, const char *device)
{
    say("another process posts to a queue that waits");
    AUTO(gpud_memory_unref) struct gpud_memory *seen = NEW_MEMORY(ends->owner.device, SIZE / 2);
    struct order order = {
        .task = PEER_POSTS,
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
    pid_t peer = peer_start(device, &order);
    WORKS(gpud_signal_wait_host(ends->signal, 5, SOON, &e));
    if (synchronous)
        enqueue_take(ends, 5, seen);
    WORKS(gpud_queue_finish(ends->owner.queue, SOON, &e));
    READ_PATTERN(&ends->owner, seen, 77);
    PEER_FINISH(peer);
    EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, 6, IN(10), &e));
}

/* --- when nothing comes ----------------------------------------------------------------------- */

static void test_poison(struct ends *ends)
{
    say("poison releases waits for a writer that died");
    if (is_synchronous(&ends->owner)) {
        EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, 3, IN(10), &e));
        WORKS(gpud_signal_poison(ends->signal, 3, &e));
        WORKS(gpud_signal_wait_queue(ends->signal, 3, ends->owner.queue, &e));
    } else {
        WORKS(gpud_signal_wait_queue(ends->signal, 3, ends->owner.queue, &e));
        EXPECT(GPUD_TIMEOUT, gpud_queue_finish(ends->owner.queue, IN(30), &e));
        WORKS(gpud_signal_poison(ends->signal, 3, &e));
    }
    WORKS(gpud_queue_finish(ends->owner.queue, SOON, &e));
    WORKS(gpud_signal_wait_host(ends->signal, 3, SOON, &e));
    EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(ends->signal, 4, IN(10), &e));
}

static void test_destroy_waiting(const char *device, bool signal_first)
{
    say("a signal that is waited for can be destroyed, %s",
        signal_first ? "before its queue" : "after its queue");
    struct ends ends;
    ends_open(&ends, device);
    struct gpud_queue *queue = NEW_QUEUE(ends.owner.device);
    EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(ends.signal, 9, IN(10), &e));
    EXPECT(GPUD_TIMEOUT, gpud_signal_wait_host(ends.signal, 2, IN(10), &e));
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

/* --- what is refused -------------------------------------------------------------------------- */

static void test_refusals(struct ends *ends)
{
    say("signals where there can be none, and words that lie elsewhere, are refused");
    struct gpud_signal *signal = NULL;
    if (is_cpu_addressable(&ends->owner) || has_page_signals(&ends->owner)) {
        EXPECT(GPUD_INVALID, gpud_signal_create(ends->memory, 2, &signal, &e));
        EXPECT(GPUD_INVALID, gpud_signal_create(ends->memory, SIZE, &signal, &e));
        EXPECT(GPUD_INVALID, gpud_signal_create(ends->memory, SIZE - 3, &signal, &e));
        EXPECT(GPUD_INVALID, gpud_signal_create(ends->memory, UINT64_MAX - 3, &signal, &e));
    }
    if (!is_cpu_addressable(&ends->owner)) {
        AUTO(gpud_memory_unref) struct gpud_memory *local = NEW_MEMORY(ends->owner.device, SIZE);
        EXPECT(GPUD_UNSUPPORTED, gpud_signal_create(local, 0, &signal, &e));
        CHECK(gpud_signal_import(local, ends->word, &signal, NULL) != GPUD_OK,
              "a signal in memory that has none");
    }
    if (ends->owner.device->caps & GPUD_CAP_BUS_ADDRESSABLE) {
        EXPECT(GPUD_UNSUPPORTED, gpud_signal_create(ends->far, 0, &signal, &e));
        EXPECT(GPUD_INVALID, gpud_signal_post(ends->signal, 1, ends->owner.queue, &e));
        EXPECT(GPUD_INVALID, gpud_signal_wait_queue(ends->remote, 1, ends->writer.queue, &e));
        EXPECT(GPUD_INVALID, gpud_signal_wait_host(ends->remote, 1, SOON, &e));
        EXPECT(GPUD_INVALID, gpud_signal_poison(ends->remote, 1, &e));
    }
    static const uint64_t lies[] = {2,          SIZE,           SIZE - 2,
                                    UINT64_MAX, UINT64_MAX - 3, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        EXPECT(GPUD_PEER, gpud_signal_import(ends->far, lies[i], &signal, &e));
    }
    CHECK(!signal, "a refusal leaves something behind");
}

/* --- all of it -------------------------------------------------------------------------------- */

static void with(void (*test)(struct ends *ends), const char *device)
{
    struct ends ends;
    ends_open(&ends, device);
    test(&ends);
    ends_close(&ends);
}

static void everything(const char *device, bool synchronous)
{
    with(test_wait_host, device);
    with(test_look, device);
    with(test_create_resets, device);
    with(test_large_values, device);
    with(test_wakes, device);
    with(test_turns, device);
    with(test_wait_while_poisoned, device);
    with(test_poison_is_late, device);
    with(test_wait_queue, device);
    with(test_rest, device);
    with(test_post_both, device);
    if (synchronous)
        with(test_wait_host_queue, device);
    struct ends ends;
    ends_open(&ends, device);
    test_process(&ends, device);
    ends_close(&ends);
    with(test_poison, device);
    test_destroy_waiting(device, true);
    test_destroy_waiting(device, false);
    with(test_refusals, device);
}

int main(int argc, char **argv)
{
    peer_main(argc, argv);
    CHECK(argc == 2, "usage: %s DEVICE", argv[0]);
    say_device(argv[1]);
    struct side side = side_open(argv[1]);
    bool synchronous = is_synchronous(&side);
    if (!(side.device->caps & GPUD_CAP_SIGNALS))
        skip("%s", side.device->no_direct);
    side_close(&side);

    everything(argv[1], synchronous);
    struct baseline before = baseline_take();
    everything(argv[1], synchronous);
    say("nothing is left behind");
    BASELINE_CHECK(before);
    return 0;
}
