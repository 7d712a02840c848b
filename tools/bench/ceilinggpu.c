/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a GPU's driver achieves without gpudirect: copies back to back, and words passed from stream
 * to stream. Some memory and streams stay until the process ends. */
#include "bench.h"

#include <string.h>

#define ROUNDS 5
#define ROUND (20 * GPUD_MSEC)
#define PATIENCE (60 * GPUD_SEC) /* a busy processor that emulates a GPU fills POOL */
#define COPIES_MAX 512
#define POOL (UINT64_C(256) << 20) /* much larger than a GPU's caches */
#define MARKS 256
#define HANDOFFS 200

struct transfer {
    unsigned from; /* the stream's GPU */
    raw_stream stream;
    raw_address source, target;
};

static const struct raw_driver *driver;
static uint64_t frame_size;
static uint32_t buffers; /* frames in a source, and in a target */

static void check(const char *what, int result)
{
    char reason[GPUD_REASON_MAX];
    if (result == 0)
        return;
    raw_say(driver, reason, sizeof(reason), what, result);
    bench_die(GPUD_IO, "measuring what the %s driver reaches: %s", driver->vendor, reason);
}

static void enter(unsigned gpu)
{
    check("the GPU", driver->enter(gpu));
}

static void finish(raw_stream stream)
{
    int result;
    if (raw_finish(driver, stream, clock_now() + PATIENCE, &result))
        return;
    if (result == RAW_NOT_READY)
        bench_die(GPUD_TIMEOUT, "the GPU did not finish a copy in time");
    check("a stream", result);
}

static raw_stream make_stream(unsigned gpu)
{
    raw_stream stream;
    enter(gpu);
    check("a stream", raw_stream_create(driver, &stream));
    driver->leave();
    return stream;
}

static raw_address pinned(unsigned gpu, void **host, size_t size, int value)
{
    raw_address address;
    enter(gpu);
    check("pinned memory", raw_host_alloc(driver, host, size));
    memset(*host, value, size);
    check("the address of pinned memory", raw_host_address(driver, &address, *host));
    driver->leave();
    return address;
}

/* === copies ================================================================================== */

static raw_address make_pool(unsigned gpu)
{
    raw_address address;
    enter(gpu);
    check("memory on the GPU", raw_alloc(driver, &address, frame_size * buffers));
    check("filling memory", driver->memset_d8_async(address, 1, frame_size * buffers, NULL));
    finish(NULL);
    driver->leave();
    return address;
}

/* Seconds for all transfers, which run at once, with so many copies each. */
static double time_copies(const struct transfer *transfers, unsigned count, uint32_t copies)
{
    int64_t start = clock_now();
    for (uint32_t i = 0; i < copies; i++) {
        uint64_t offset = i % buffers * frame_size;
        for (const struct transfer *at = transfers; at < transfers + count; at++) {
            enter(at->from);
            check("a copy", raw_copy(driver, at->target + offset, at->source + offset, frame_size,
                                     at->stream));
            driver->leave();
        }
    }
    for (const struct transfer *at = transfers; at < transfers + count; at++) {
        enter(at->from);
        finish(at->stream);
        driver->leave();
    }
    return (double)(clock_now() - start) / 1e9;
}

/* Copies per second of each transfer. */
static double copy_rate(const struct transfer *transfers, unsigned count)
{
    double rates[ROUNDS];
    time_copies(transfers, count, 2); /* makes mappings, raises clocks */
    double each = time_copies(transfers, count, 4) / 4;
    uint32_t copies = (uint32_t)CLAMP(ROUND / 1e9 / each, 4, COPIES_MAX);
    for (int i = 0; i < ROUNDS; i++)
        rates[i] = copies / time_copies(transfers, count, copies);
    return stats_median(rates, ROUNDS);
}

static double rate_of_one(unsigned gpu, raw_address source, raw_address target)
{
    const struct transfer transfer = {gpu, make_stream(gpu), source, target};
    return copy_rate(&transfer, 1);
}

/* Within the GPU, across PCIe, and to the receivers' GPUs. */
static void measure_copies(unsigned from, const unsigned *to, unsigned count,
                           struct bench_raw_gpu *figures)
{
    struct transfer transfers[GPUD_RECEIVERS_MAX];
    void *memory;
    raw_address source = make_pool(from), host = pinned(from, &memory, frame_size * buffers, 1);
    figures->copy = rate_of_one(from, source, make_pool(from));
    figures->download = rate_of_one(from, source, host);
    figures->upload = rate_of_one(from, host, source);
    for (unsigned i = 0; i < count; i++) {
        int can = 0;
        /* Without peer access the driver copies through the host, and the ceiling is that copy's.
         */
        if (from != to[i] && driver->device_can_access_peer(&can, (int)from, (int)to[i]) == 0 &&
            can) {
            enter(from);
            check("access to the peer", raw_enable_peer(driver, to[i]));
            driver->leave();
        }
        transfers[i] = (struct transfer){from, make_stream(from), source, make_pool(to[i])};
    }
    if (count > 0 && to[0] != from)
        figures->peer = copy_rate(transfers, 1);
    if (count > 1)
        figures->fan_out = copy_rate(transfers, count);
}

/* === words =================================================================================== */

struct words {
    volatile uint32_t *there, *back, *gate; /* for the CPU; each in a cache line of its own */
    raw_address there_address, back_address, gate_address;
};

static struct words make_words(unsigned gpu)
{
    void *page;
    raw_address address = pinned(gpu, &page, 4096, 0);
    uint32_t *word = page;
    return (struct words){word, word + 64, word + 128, address, address + 256, address + 512};
}

static void await_word(const volatile uint32_t *word, uint32_t value)
{
    int64_t deadline = clock_now() + PATIENCE;
    while (*word != value)
        if (clock_now() > deadline)
            bench_die(GPUD_TIMEOUT, "a word that a stream writes did not change in time");
}

static void enqueue_wait(raw_stream stream, raw_address word, uint32_t value)
{
    check("waiting for a word", driver->wait_value(stream, word, value));
}

static void enqueue_write(raw_stream stream, raw_address word, uint32_t value)
{
    check("writing a word", raw_write_value(driver, stream, word, value));
}

static void enqueue_answers(unsigned gpu, raw_stream stream, const struct words *words,
                            uint32_t first, uint32_t count)
{
    enter(gpu);
    for (uint32_t i = first; i < first + count; i++) {
        enqueue_wait(stream, words->there_address, i);
        enqueue_write(stream, words->back_address, i);
    }
    driver->leave();
}

/* ns for MARKS words from one stream to the other and back; one_by_one: each is sent when the
 * previous one was answered. All is enqueued before the CPU writes the gate word, so that only the
 * GPUs are measured. */
static double time_words(unsigned a, unsigned b, bool one_by_one)
{
    struct words words = make_words(a);
    raw_stream ping = make_stream(a), pong = make_stream(b);
    enqueue_answers(b, pong, &words, 1, MARKS);
    enter(a);
    enqueue_wait(ping, words.gate_address, 1);
    for (uint32_t i = 1; i <= MARKS; i++) {
        enqueue_write(ping, words.there_address, i);
        if (one_by_one)
            enqueue_wait(ping, words.back_address, i);
    }
    driver->leave();
    int64_t start = clock_now();
    __atomic_store_n(words.gate, 1, __ATOMIC_SEQ_CST);
    await_word(words.back, MARKS);
    return (double)(clock_now() - start);
}

/* One at a time: the CPU asks the first GPU to write a word, the second GPU waits for it and writes
 * one for the CPU. The pauses in between are not measured. */
static double time_handoff(unsigned a, unsigned b)
{
    struct words words = make_words(a);
    raw_stream ping = make_stream(a), pong = make_stream(b);
    int64_t took[HANDOFFS];
    for (uint32_t i = 1; i <= HANDOFFS; i++) {
        enqueue_answers(b, pong, &words, i, 1);
        g_usleep(500);
        enter(a);
        int64_t start = clock_now();
        enqueue_write(ping, words.there_address, i);
        await_word(words.back, i);
        took[i - 1] = clock_now() - start;
        driver->leave();
    }
    return stats_latency_of(took, HANDOFFS).p50;
}

/* === all ===================================================================================== */

/* Opens a GPU that takes part. */
static void open_gpu(unsigned gpu)
{
    char reason[GPUD_REASON_MAX];
    if (!raw_enter(driver, gpu, reason, sizeof(reason)))
        bench_die(GPUD_NO_DEVICE, "%s: gpudirect-info lists what --from and --to can name", reason);
    driver->leave();
}

/* By the driver of the sender's GPU, else of the first receiver's GPU that has one. Devices of
 * another vendor count as the host, because frames reach them through it. */
void bench_run_raw(void)
{
    const struct bench_job *job = &bench_job;
    struct bench_result result = {0};
    char reason[GPUD_REASON_MAX];
    unsigned from, to[GPUD_RECEIVERS_MAX], targets = 0;
    struct raw_driver *first = raw_driver_of(job->from, &from);
    bool sends = first != NULL;
    for (uint32_t i = 1; i <= job->receivers; i++) {
        char device[32];
        unsigned gpu;
        struct raw_driver *own =
            raw_driver_of(bench_device_of(job, i, device, sizeof(device)), &gpu);
        first = first ? first : own;
        if (own && own == first)
            to[targets++] = gpu;
    }
    if (first && !raw_open(first, reason, sizeof(reason)))
        bench_die(GPUD_NO_DEVICE,
                  "--from %s --to %s: %s, in a container pass the GPU through, or name "
                  "other devices",
                  job->from, job->to, reason);
    driver = first;
    frame_size = bench_layout_of(job).size;
    buffers = (uint32_t)CLAMP(POOL / frame_size, 2, 64);
    if (sends)
        open_gpu(from);
    for (unsigned i = 0; i < targets; i++)
        open_gpu(to[i]);
    if (first) {
        unsigned own = sends ? from : to[0], other = targets ? to[0] : own;
        if (driver->has_words(own) && driver->has_words(other)) {
            result.raw.marker = time_words(own, other, true) / 1e3 / (2 * MARKS);
            result.raw.words = MARKS * 1e9 / time_words(own, other, false);
            result.raw.handoff = time_handoff(own, other);
        }
        if (!job->fps_num)
            measure_copies(own, to, sends ? targets : 0, &result.raw);
    }
    bench_send_result(&result, NULL);
}
