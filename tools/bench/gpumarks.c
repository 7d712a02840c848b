/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Marks of frames, by a GPU. */
#include "bench.h"

#include <string.h>

#define PENDING_MAX 1024 /* frames with pending marks; about as many as a driver queues */
#define MARKING "marking frames on the GPU: "

/* Pinned memory for the marks of PENDING_MAX frames, and a word behind them. */
static struct rows {
    char *at;
    raw_address address;
} written;
static uint64_t made; /* marks written so far */

static void *pinned(const struct raw_driver *driver, size_t size, raw_address *address)
{
    void *host;
    bench_must_gpu(driver, MARKING "pinned memory", raw_host_alloc(driver, &host, size));
    memset(host, 0, size);
    bench_must_gpu(driver, MARKING "the address of pinned memory",
                   raw_host_address(driver, address, host));
    return host;
}

void bench_gpu_finish(const struct raw_driver *driver, raw_stream stream)
{
    int result;
    if (raw_finish(driver, stream, clock_now() + BENCH_STEP_TIMEOUT, &result))
        return;
    if (result == RAW_NOT_READY)
        bench_die(GPUD_TIMEOUT, "the GPU did not come to the end of its work in time");
    bench_must_gpu(driver, MARKING "the stream", result);
}

void bench_gpu_mark(const struct raw_driver *driver, raw_stream stream, raw_address address,
                    const struct gpud_layout *layout, uint64_t index)
{
    if (!written.at)
        written.at = pinned(driver, PENDING_MAX * BENCH_ROWS_SIZE, &written.address);
    /* The copies from these marks must be done before they are overwritten. */
    if (made > 0 && made % (PENDING_MAX / 2) == 0)
        bench_gpu_finish(driver, stream);
    uint64_t offset = made++ % PENDING_MAX * BENCH_ROWS_SIZE;
    bench_rows_make(written.at + offset, index);
    if (bench_rows_is_whole(&bench_job, index))
        bench_must_gpu(
            driver, MARKING "filling a frame",
            driver->memset_d8_async(address, bench_rows_filler(index), layout->size, stream));
    bench_must_gpu(driver, MARKING "copying marks into a frame",
                   driver->copy_rows(address + layout->plane[0].offset, bench_rows_pitch(layout),
                                     written.address + offset, BENCH_ROW, BENCH_ROW, BENCH_ROWS,
                                     stream));
}

/* === reading ================================================================================= */

static struct reader {
    const struct raw_driver *driver;
    unsigned gpu;
    raw_stream stream; /* the latest one */
    struct rows rows;  /* the word behind them is the GPU's */
    bool has_words;
    uint32_t words;
    struct pending {
        int64_t acquired, seen, submitted; /* seen: 0 without --fps */
        uint64_t reported_drops;
    } pending[PENDING_MAX];
    uint64_t head, tail; /* frames checked; frames enqueued */
    struct whole {
        char *frame; /* pinned */
        raw_address address;
        struct gpud_layout layout;
        bool used;
    } whole[BENCH_WHOLE_FRAMES];
    unsigned wholes;
    bool checks_whole;
} reader;

void bench_gpu_open_reader(const struct raw_driver *driver, unsigned gpu, bool whole)
{
    reader = (struct reader){.driver = driver, .gpu = gpu, .checks_whole = whole};
}

static uint64_t rows_of(uint64_t number)
{
    return number % PENDING_MAX * BENCH_ROWS_SIZE;
}

static void take_arrived(bool all_there)
{
    for (; reader.head < reader.tail; reader.head++) {
        const struct pending *pending = &reader.pending[reader.head % PENDING_MAX];
        char rows[BENCH_ROWS_SIZE];
        uint64_t index;
        memcpy(rows, reader.rows.at + rows_of(reader.head), sizeof(rows));
        bool good = bench_rows_check(rows, &index);
        if (!good && !all_there)
            return;
        bench_count(good, index,
                    &(struct bench_frame_times){
                        .acquired = pending->acquired,
                        .seen = pending->seen,
                        .submitted = pending->submitted,
                        .counted = pending->seen ? pending->seen : clock_now(),
                    },
                    pending->reported_drops);
    }
}

static void take_all(raw_stream stream)
{
    bench_gpu_finish(reader.driver, stream);
    take_arrived(true);
}

size_t bench_gpu_wait(size_t most)
{
    int64_t start = clock_now();
    take_arrived(false);
    bool waits = reader.tail - reader.head > most;
    while (reader.tail - reader.head > most) {
        /* Marks that are still wrong when the stream has finished will never be right. */
        int result = reader.driver->stream_query(reader.stream);
        if (result != RAW_NOT_READY)
            bench_must_gpu(reader.driver, MARKING "the stream", result);
        take_arrived(result == 0);
        if (clock_now() - start > BENCH_STEP_TIMEOUT)
            bench_die(GPUD_TIMEOUT, "the GPU did not come to the end of its work in time");
    }
    if (waits)
        bench_counters.probe_ns += clock_now() - start;
    return (size_t)(reader.tail - reader.head);
}

/* Until the GPU has done what the stream has. Polls: that takes microseconds, and sleeping would
 * take longer. */
static int64_t wait_for_gpu(raw_stream stream)
{
    volatile uint32_t *word = (void *)(reader.rows.at + PENDING_MAX * BENCH_ROWS_SIZE);
    int64_t start = clock_now();
    if (reader.has_words) {
        bench_must_gpu(reader.driver, MARKING "writing a word",
                       raw_write_value(reader.driver, stream,
                                       reader.rows.address + PENDING_MAX * BENCH_ROWS_SIZE,
                                       ++reader.words));
        while (*word != reader.words)
            if (clock_now() - start > BENCH_STEP_TIMEOUT)
                bench_die(GPUD_TIMEOUT, "the GPU waits for a frame that does not come");
    } else {
        bench_gpu_finish(reader.driver, stream);
    }
    int64_t now = clock_now();
    bench_counters.probe_ns += now - start;
    return now;
}

/* The frame's marks say which one it is; a frame that was not filled is not checked. */
static void check_whole(struct whole *whole)
{
    uint64_t index;
    whole->used = false;
    if (bench_rows_check_marks(whole->frame, &whole->layout, &index) &&
        !bench_rows_check_frame(whole->frame, &whole->layout, &bench_job, &index))
        bench_counters.result.torn++;
}

static void fetch_whole(raw_stream stream, raw_address address, const struct gpud_layout *layout)
{
    struct whole *whole = &reader.whole[bench_job.full ? 0 : reader.wholes++ % BENCH_WHOLE_FRAMES];
    if (layout->size > whole->layout.size)
        bench_die(GPUD_PEER, "the frames have grown in mid-stream");
    whole->layout = *layout;
    bench_must_gpu(reader.driver, MARKING "copying a frame",
                   raw_copy(reader.driver, whole->address, address, layout->size, stream));
    whole->used = true;
    if (bench_job.full) {
        bench_gpu_finish(reader.driver, stream);
        check_whole(whole);
    }
}

void bench_gpu_read(raw_stream stream, raw_address address, const struct gpud_layout *layout,
                    int64_t acquired, int64_t submitted, uint64_t reported_drops)
{
    reader.stream = stream;
    /* The size is known at the first frame, which is usually before the measured section. */
    if (!reader.rows.at) {
        unsigned frames = !reader.checks_whole ? 0 : bench_job.full ? 1 : BENCH_WHOLE_FRAMES;
        reader.rows.at =
            pinned(reader.driver, PENDING_MAX * BENCH_ROWS_SIZE + 64, &reader.rows.address);
        reader.has_words = reader.driver->has_words(reader.gpu);
        for (unsigned i = 0; i < frames; i++) {
            struct whole *whole = &reader.whole[i];
            whole->frame = pinned(reader.driver, layout->size, &whole->address);
            whole->layout = *layout;
        }
    }
    take_arrived(false);
    if (reader.tail - reader.head == PENDING_MAX)
        take_all(stream);
    uint64_t expected = bench_counters.last + (reader.tail - reader.head) + 1;
    int64_t start = clock_now(), probed = bench_counters.probe_ns;
    uint64_t rows = rows_of(reader.tail);
    memset(reader.rows.at + rows, 0, BENCH_ROWS_SIZE);
    struct pending *pending = &reader.pending[reader.tail++ % PENDING_MAX];
    *pending = (struct pending){
        .acquired = acquired, .submitted = submitted, .reported_drops = reported_drops};
    if (bench_job.fps_num)
        pending->seen = wait_for_gpu(stream);
    /* The marks come last: once they are there, the frame is no longer read. */
    if (reader.checks_whole && bench_rows_is_whole(&bench_job, expected))
        fetch_whole(stream, address, layout);
    bench_must_gpu(reader.driver, MARKING "copying marks out of a frame",
                   reader.driver->copy_rows(
                       reader.rows.address + rows, BENCH_ROW, address + layout->plane[0].offset,
                       bench_rows_pitch(layout), BENCH_ROW, BENCH_ROWS, stream));
    bench_counters.marking_ns += clock_now() - start - (bench_counters.probe_ns - probed);
    /* The last frame ends the measured section, so its marks are awaited. */
    if (expected >= (uint64_t)bench_job.warmup + bench_job.frames)
        take_all(stream);
}

void bench_gpu_close_reader(void)
{
    if (!reader.rows.at)
        return;
    take_all(reader.stream);
    for (unsigned i = 0; i < BENCH_WHOLE_FRAMES; i++) {
        if (reader.whole[i].used)
            check_whole(&reader.whole[i]);
        if (reader.whole[i].frame)
            reader.driver->mem_free_host(reader.whole[i].frame);
    }
    reader.driver->mem_free_host(reader.rows.at);
    reader.rows.at = NULL;
}
