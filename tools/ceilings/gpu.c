/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ceiling of a hand-off that copies nothing: words in shared memory between two processes, one
 * each way for a frame, as many in flight as there are slots. A side sleeps if it finds nothing,
 * and is woken only then. */
#include "ceilings/ceilings.h"

#include "clock.h"
#include "vendor.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* === words =================================================================================== */

#define MSEC 1000000
#define ROUNDS 7
#define ROUND (40 * MSEC)
#define LINE 64 /* bytes: each side has a cache line of its own */
#define SPINS 200
#define NAP (100 * MSEC)
/* A process that has just started takes its time, on a busy machine a long one. */
#define ANSWER_MAX (INT64_C(20000) * MSEC)

struct side {
    _Alignas(LINE) _Atomic uint32_t word;
    atomic_bool waited_for; /* the other side sleeps until it changes */
};

struct words {
    struct side there, back;
    atomic_bool stop;
};

static struct words *map_words(int fd)
{
    struct words *words = mmap(NULL, sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return words == MAP_FAILED ? NULL : words;
}

static void send_word(struct side *side, uint32_t value)
{
    atomic_store(&side->word, value);
    if (atomic_load(&side->waited_for) && atomic_exchange(&side->waited_for, false))
        syscall(SYS_futex, &side->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Waits until the word changes, or for a short while. */
static void await_change(struct side *side, uint32_t old)
{
    const struct timespec nap = {.tv_nsec = NAP};
    for (int i = 0; i < SPINS; i++)
        if (atomic_load_explicit(&side->word, memory_order_acquire) != old)
            return;
    atomic_store(&side->waited_for, true);
    if (atomic_load(&side->word) == old)
        syscall(SYS_futex, &side->word, FUTEX_WAIT, old, &nap, NULL, 0);
    atomic_store(&side->waited_for, false);
}

int raw_words_open(void)
{
    int page = memfd_create("gpudirect-words", MFD_CLOEXEC);
    if (page >= 0 && ftruncate(page, sizeof(struct words)) == 0)
        return page;
    if (page >= 0)
        close(page);
    return -1;
}

bool raw_words_answer(int page)
{
    struct words *words = map_words(page);
    if (!words)
        return false;
    for (uint32_t answered = 0; !atomic_load(&words->stop);) {
        if (atomic_load_explicit(&words->there.word, memory_order_acquire) == answered)
            await_change(&words->there, answered);
        else
            send_word(&words->back, ++answered);
    }
    munmap(words, sizeof(*words));
    return true;
}

/* Words a second; 0: the other side does not answer. */
static double send_for_a_while(struct words *words, uint32_t slots, bool (*stopped)(void))
{
    int64_t start = clock_now(), now = start, last = start;
    uint32_t sent = atomic_load(&words->there.word), first = sent;
    while (now - start < ROUND || sent == first) {
        uint32_t answered = atomic_load_explicit(&words->back.word, memory_order_acquire);
        if (sent - answered == slots) {
            await_change(&words->back, answered);
        } else {
            send_word(&words->there, ++sent);
            last = now;
            if (sent % 16)
                continue;
        }
        now = clock_now();
        if (now - last > ANSWER_MAX || stopped())
            return 0;
    }
    return (double)(sent - first) * 1e9 / (double)(now - start);
}

double raw_words_rate(int page, uint32_t slots, bool (*stopped)(void))
{
    struct words *words = map_words(page);
    double rates[ROUNDS];
    bool answered = words != NULL;
    for (int i = 0; i < ROUNDS && answered; i++) {
        rates[i] = send_for_a_while(words, slots, stopped);
        answered = rates[i] > 0;
    }
    if (words) {
        atomic_store(&words->stop, true);
        munmap(words, sizeof(*words));
    }
    return answered ? stats_median(rates, ROUNDS) : 0;
}

/* === gpu ===================================================================================== */

#define GPU_ROUNDS 5
#define GPU_ROUND (20 * GPUD_MSEC)
#define PATIENCE (10 * GPUD_SEC)
#define COPIES_MAX 512
#define POOL (UINT64_C(512) << 20) /* much larger than a GPU's caches */
#define MARKS 256
#define HANDOFFS 200

struct transfer {
    unsigned from; /* the stream's GPU */
    raw_stream stream;
    raw_address source, target;
};

struct raw {
    const struct raw_driver *driver;
    const struct raw_caller *caller;
    uint64_t size;    /* of a frame */
    uint32_t buffers; /* frames in a source, and in a target */
};

static void gpu_check(struct raw *raw, const char *what, int result)
{
    char reason[GPUD_REASON_MAX];
    if (result == 0)
        return;
    raw_say(raw->driver, reason, sizeof(reason), what, result);
    raw_fail(raw->caller, GPUD_IO, "measuring what the %s driver reaches: %s", raw->driver->vendor,
             reason);
}

static void gpu_enter(struct raw *raw, unsigned gpu)
{
    gpu_check(raw, "the GPU", raw->driver->enter(gpu));
}

static void gpu_leave(struct raw *raw)
{
    raw_leave(raw->driver);
}

static void gpu_finish(struct raw *raw, raw_stream stream)
{
    int result;
    if (raw_finish(raw->driver, stream, clock_now() + PATIENCE, &result))
        return;
    if (result == RAW_NOT_READY)
        raw_fail(raw->caller, GPUD_TIMEOUT, "the GPU did not finish a copy in time");
    gpu_check(raw, "a stream", result);
}

/* Opens a GPU that takes part. */
static void open_gpu(struct raw *raw, unsigned gpu)
{
    char reason[GPUD_REASON_MAX];
    if (!raw_enter(raw->driver, gpu, reason, sizeof(reason)))
        raw_fail(raw->caller, GPUD_NO_DEVICE,
                 "%s: gpudirect-info lists what --from and --to can name", reason);
    gpu_leave(raw);
}

/* Without peer access the driver copies through the host, and the ceiling is that copy's. */
static void open_peer(struct raw *raw, unsigned from, unsigned to)
{
    int can = 0;
    if (from == to || raw_can_access_peer(raw->driver, &can, from, to) != 0 || !can)
        return;
    gpu_enter(raw, from);
    gpu_check(raw, "access to the peer", raw_enable_peer(raw->driver, to));
    gpu_leave(raw);
}

/* --- copies ----------------------------------------------------------------------------------- */

static raw_address device_pool(struct raw *raw, unsigned gpu)
{
    raw_address address;
    gpu_enter(raw, gpu);
    gpu_check(raw, "memory on the GPU", raw_alloc(raw->driver, &address, raw->size * raw->buffers));
    gpu_check(raw, "filling memory",
              raw_fill(raw->driver, address, 1, raw->size * raw->buffers, NULL));
    gpu_finish(raw, NULL);
    gpu_leave(raw);
    return address;
}

static raw_address host_pool(struct raw *raw, unsigned gpu)
{
    void *host;
    raw_address address;
    gpu_enter(raw, gpu);
    gpu_check(raw, "pinned memory", raw_host_alloc(raw->driver, &host, raw->size * raw->buffers));
    memset(host, 1, raw->size * raw->buffers);
    gpu_check(raw, "the address of pinned memory", raw_host_address(raw->driver, &address, host));
    gpu_leave(raw);
    return address;
}

static void free_device(struct raw *raw, unsigned gpu, raw_address address)
{
    gpu_enter(raw, gpu);
    gpu_check(raw, "freeing memory", raw_free(raw->driver, address));
    gpu_leave(raw);
}

static raw_stream make_stream(struct raw *raw, unsigned gpu)
{
    raw_stream stream;
    gpu_enter(raw, gpu);
    gpu_check(raw, "a stream", raw_stream_create(raw->driver, &stream));
    gpu_leave(raw);
    return stream;
}

/* Seconds for all transfers, which run at once, with so many copies each. */
static double time_copies(struct raw *raw, const struct transfer *transfers, unsigned count,
                          uint32_t copies)
{
    int64_t start = clock_now();
    for (uint32_t i = 0; i < copies; i++) {
        uint64_t offset = i % raw->buffers * raw->size;
        for (unsigned transfer = 0; transfer < count; transfer++) {
            const struct transfer *at = &transfers[transfer];
            gpu_enter(raw, at->from);
            gpu_check(raw, "a copy",
                      raw_copy(raw->driver, at->target + offset, at->source + offset, raw->size,
                               at->stream));
            gpu_leave(raw);
        }
    }
    for (unsigned transfer = 0; transfer < count; transfer++) {
        gpu_enter(raw, transfers[transfer].from);
        gpu_finish(raw, transfers[transfer].stream);
        gpu_leave(raw);
    }
    return (double)(clock_now() - start) / 1e9;
}

/* Copies per second of each transfer. */
static double copy_rate(struct raw *raw, const struct transfer *transfers, unsigned count)
{
    double rates[GPU_ROUNDS];
    time_copies(raw, transfers, count, 2); /* makes mappings, raises clocks */
    double each = time_copies(raw, transfers, count, 4) / 4;
    uint32_t copies = (uint32_t)CLAMP(GPU_ROUND / 1e9 / each, 4, COPIES_MAX);
    for (int i = 0; i < GPU_ROUNDS; i++)
        rates[i] = copies / time_copies(raw, transfers, count, copies);
    return stats_median(rates, GPU_ROUNDS);
}

static double rate_of_one(struct raw *raw, unsigned gpu, raw_address source, raw_address target)
{
    struct transfer transfer = {gpu, make_stream(raw, gpu), source, target};
    double rate = copy_rate(raw, &transfer, 1);
    gpu_enter(raw, gpu);
    gpu_check(raw, "destroying a stream", raw_stream_destroy(raw->driver, transfer.stream));
    gpu_leave(raw);
    return rate;
}

static double copies_within(struct raw *raw, unsigned gpu)
{
    raw_address source = device_pool(raw, gpu), target = device_pool(raw, gpu);
    double rate = rate_of_one(raw, gpu, source, target);
    free_device(raw, gpu, source);
    free_device(raw, gpu, target);
    return rate;
}

/* The end of the process frees the pinned memory. */
static void copies_across_pcie(struct raw *raw, unsigned gpu, struct raw_gpu_figures *figures)
{
    raw_address device = device_pool(raw, gpu), host = host_pool(raw, gpu);
    figures->download = rate_of_one(raw, gpu, device, host);
    figures->upload = rate_of_one(raw, gpu, host, device);
    free_device(raw, gpu, device);
}

static void copies_to_peers(struct raw *raw, unsigned from, const unsigned *to, unsigned count,
                            struct raw_gpu_figures *figures)
{
    struct transfer transfers[RAW_TARGETS_MAX] = {{0}};
    raw_address source = device_pool(raw, from);
    for (unsigned i = 0; i < count; i++) {
        open_peer(raw, from, to[i]);
        transfers[i] =
            (struct transfer){from, make_stream(raw, from), source, device_pool(raw, to[i])};
    }
    if (to[0] != from)
        figures->peer = copy_rate(raw, transfers, 1);
    if (count > 1)
        figures->fan_out = copy_rate(raw, transfers, count);
    for (unsigned i = 0; i < count; i++) {
        gpu_enter(raw, from);
        gpu_check(raw, "destroying a stream", raw_stream_destroy(raw->driver, transfers[i].stream));
        gpu_leave(raw);
        free_device(raw, to[i], transfers[i].target);
    }
    free_device(raw, from, source);
}

/* --- words
 * ------------------------------------------------------------------------------------ */

struct gpu_words {
    volatile uint32_t *there, *back, *gate; /* for the CPU; each in a cache line of its own */
    raw_address there_address, back_address, gate_address;
};

static struct gpu_words make_words(struct raw *raw, unsigned gpu)
{
    void *page;
    raw_address address;
    gpu_enter(raw, gpu);
    gpu_check(raw, "pinned memory", raw_host_alloc(raw->driver, &page, 4096));
    memset(page, 0, 4096);
    gpu_check(raw, "the address of pinned memory", raw_host_address(raw->driver, &address, page));
    gpu_leave(raw);
    uint32_t *word = page;
    return (struct gpu_words){word, word + 64, word + 128, address, address + 256, address + 512};
}

static void await_word(struct raw *raw, const volatile uint32_t *word, uint32_t value)
{
    int64_t deadline = clock_now() + PATIENCE;
    while (*word != value)
        if (clock_now() > deadline)
            raw_fail(raw->caller, GPUD_TIMEOUT,
                     "a word that a stream writes did not change in time");
}

static void enqueue_answers(struct raw *raw, unsigned gpu, raw_stream stream,
                            const struct gpu_words *words, uint32_t first, uint32_t count)
{
    gpu_enter(raw, gpu);
    for (uint32_t i = first; i < first + count; i++) {
        gpu_check(raw, "waiting for a word",
                  raw_wait_value(raw->driver, stream, words->there_address, i));
        gpu_check(raw, "writing a word",
                  raw_write_value(raw->driver, stream, words->back_address, i));
    }
    gpu_leave(raw);
}

/* ns for MARKS words from one stream to the other and back; one_by_one: each is sent when the
 * previous one was answered. All is enqueued before the CPU writes the gate word, so that only the
 * GPUs are measured. */
static double time_words(struct raw *raw, unsigned a, unsigned b, bool one_by_one)
{
    struct gpu_words words = make_words(raw, a);
    raw_stream ping = make_stream(raw, a), pong = make_stream(raw, b);
    enqueue_answers(raw, b, pong, &words, 1, MARKS);
    gpu_enter(raw, a);
    gpu_check(raw, "waiting for a word", raw_wait_value(raw->driver, ping, words.gate_address, 1));
    for (uint32_t i = 1; i <= MARKS; i++) {
        gpu_check(raw, "writing a word",
                  raw_write_value(raw->driver, ping, words.there_address, i));
        if (one_by_one)
            gpu_check(raw, "waiting for a word",
                      raw_wait_value(raw->driver, ping, words.back_address, i));
    }
    gpu_leave(raw);
    int64_t start = clock_now();
    __atomic_store_n(words.gate, 1, __ATOMIC_SEQ_CST);
    await_word(raw, words.back, MARKS);
    return (double)(clock_now() - start);
}

/* One at a time: the CPU asks the first GPU to write a word, the second GPU waits for it and writes
 * one for the CPU. The pauses in between are not measured. */
static double handoff(struct raw *raw, unsigned a, unsigned b)
{
    struct gpu_words words = make_words(raw, a);
    raw_stream ping = make_stream(raw, a), pong = make_stream(raw, b);
    int64_t took[HANDOFFS];
    for (uint32_t i = 1; i <= HANDOFFS; i++) {
        enqueue_answers(raw, b, pong, &words, i, 1);
        g_usleep(500);
        gpu_enter(raw, a);
        int64_t start = clock_now();
        gpu_check(raw, "writing a word",
                  raw_write_value(raw->driver, ping, words.there_address, i));
        await_word(raw, words.back, i);
        took[i - 1] = clock_now() - start;
        gpu_leave(raw);
    }
    return stats_latency_of(took, HANDOFFS).p50;
}

/* --- everything ------------------------------------------------------------------------------- */

void raw_gpu_measure(const struct raw_gpu_job *job, const struct raw_caller *caller,
                     struct raw_gpu_figures *figures)
{
    struct raw raw = {.driver = job->driver, .caller = caller, .size = job->size};
    raw.buffers = (uint32_t)CLAMP(POOL / job->size, 2, 64);
    *figures = (struct raw_gpu_figures){.copy = 0};
    if (job->sends)
        open_gpu(&raw, job->from);
    for (unsigned i = 0; i < job->targets; i++)
        open_gpu(&raw, job->to[i]);
    if (!job->sends && !job->targets)
        return;
    unsigned own = job->sends ? job->from : job->to[0];
    unsigned other = job->targets ? job->to[0] : own;
    if (raw_has_words(raw.driver, own) && raw_has_words(raw.driver, other)) {
        figures->marker = time_words(&raw, own, other, true) / 1e3 / (2 * MARKS);
        figures->words = MARKS * 1e9 / time_words(&raw, own, other, false);
        figures->handoff = handoff(&raw, own, other);
    }
    if (!job->copies)
        return;
    figures->copy = copies_within(&raw, own);
    copies_across_pcie(&raw, own, figures);
    if (job->sends && job->targets)
        copies_to_peers(&raw, own, job->to, job->targets, figures);
}
