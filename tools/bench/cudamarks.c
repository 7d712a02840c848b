/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "cudamarks.h"

#include "control.h"

#include <string.h>

#define RECORDS 1024 /* marks that may be under way; the driver's own queues are as long */

static void check(int control, const char *what, int result)
{
    char reason[GPUD_REASON_MAX];
    if (result == 0)
        return;
    raw_cuda_say(reason, sizeof(reason), what, result);
    bench_child_fail(control, GPUD_IO, "marking frames on the GPU: %s", reason);
}

static const struct raw_cuda *driver(int control)
{
    char reason[GPUD_REASON_MAX];
    const struct raw_cuda *cu = raw_cuda_open(reason, sizeof(reason));
    if (!cu)
        bench_child_fail(control, GPUD_NO_DEVICE, "%s", reason);
    return cu;
}

/* The context is whichever is current: portable memory is every context's. */
static void *pinned(const struct raw_cuda *cu, int control, size_t size)
{
    void *host;
    check(control, "cuMemHostAlloc",
          cu->host_alloc(&host, size, RAW_HOST_PORTABLE | RAW_HOST_MAPPED));
    memset(host, 0, size);
    return host;
}

static void finish(const struct raw_cuda *cu, int control, raw_stream stream)
{
    int result;
    if (raw_cuda_finish(cu, stream, bench_now() + BENCH_STEP, &result))
        return;
    if (result == RAW_NOT_READY)
        bench_child_fail(control, GPUD_TIMEOUT,
                         "the GPU did not come to the end of its work in time");
    check(control, "cuStreamQuery", result);
}

/* --- writing ---------------------------------------------------------------------------------- */

struct bench_stamper {
    const struct raw_cuda *cu;
    const struct bench_job *job;
    int control;
    char *rows; /* pinned: RECORDS of them */
    uint64_t made;
};

struct bench_stamper *bench_stamper_create(const struct bench_job *job, int control)
{
    struct bench_stamper *stamper = g_new0(struct bench_stamper, 1);
    stamper->cu = driver(control);
    stamper->job = job;
    stamper->control = control;
    return stamper;
}

void bench_stamper_destroy(struct bench_stamper *stamper)
{
    if (stamper && stamper->rows)
        stamper->cu->host_free(stamper->rows);
    g_free(stamper);
}

void bench_stamper_mark(struct bench_stamper *stamper, raw_stream stream, raw_address address,
                        const struct gpud_layout *layout, uint64_t index)
{
    const struct raw_cuda *cu = stamper->cu;
    if (!stamper->rows)
        stamper->rows = pinned(cu, stamper->control, RECORDS * BENCH_ROWS_SIZE);
    /* Before records are used again, the copies out of them are over. */
    if (stamper->made > 0 && stamper->made % (RECORDS / 2) == 0)
        finish(cu, stamper->control, stream);
    char *rows = stamper->rows + stamper->made++ % RECORDS * BENCH_ROWS_SIZE;
    bench_rows_make(rows, index);
    if (bench_rows_is_whole(stamper->job, index))
        check(stamper->control, "cuMemsetD8Async",
              cu->fill(address, bench_rows_filler(index), layout->size, stream));
    const struct raw_copy_2d copy = {
        .from_type = RAW_TYPE_HOST,
        .from_host = rows,
        .from_pitch = BENCH_ROW,
        .to_type = RAW_TYPE_DEVICE,
        .to_device = address + layout->plane[0].offset,
        .to_pitch = bench_rows_pitch(layout),
        .width = BENCH_ROW,
        .height = BENCH_ROWS,
    };
    check(stamper->control, "cuMemcpy2DAsync", cu->copy_2d(&copy, stream));
}

void bench_stamper_finish(struct bench_stamper *stamper, raw_stream stream)
{
    finish(stamper->cu, stamper->control, stream);
}

/* --- reading ---------------------------------------------------------------------------------- */

struct record {
    int64_t acquired, seen, submitted; /* seen: 0 where nobody waited for the GPU */
    uint64_t explained;
};

struct whole {
    char *frame; /* pinned */
    struct gpud_layout layout;
    bool used;
};

struct bench_log {
    const struct raw_cuda *cu;
    const struct bench_job *job;
    int control;
    struct bench_tally *tally;
    raw_stream stream; /* the last one */
    char *rows;        /* pinned: RECORDS of them, then a word that the GPU writes */
    raw_address word;
    uint32_t words;
    struct record record[RECORDS];
    uint64_t head, tail; /* taken account of; enqueued */
    struct whole whole[BENCH_WHOLE_FRAMES];
    unsigned wholes;
    bool checks_whole;
};

struct bench_log *bench_log_create(const struct bench_job *job, int control,
                                   struct bench_tally *tally, bool whole)
{
    struct bench_log *log = g_new0(struct bench_log, 1);
    log->cu = driver(control);
    log->job = job;
    log->control = control;
    log->tally = tally;
    log->checks_whole = whole;
    return log;
}

void bench_log_destroy(struct bench_log *log)
{
    if (log && log->rows)
        log->cu->host_free(log->rows);
    for (unsigned i = 0; log && i < BENCH_WHOLE_FRAMES; i++)
        if (log->whole[i].frame)
            log->cu->host_free(log->whole[i].frame);
    g_free(log);
}

/* With the first frame, which comes before the measured section: then its size is known. */
static void prepare(struct bench_log *log, const struct gpud_layout *layout)
{
    unsigned frames = !log->checks_whole ? 0 : log->job->full ? 1 : BENCH_WHOLE_FRAMES;
    log->rows = pinned(log->cu, log->control, RECORDS * BENCH_ROWS_SIZE + 64);
    check(log->control, "cuMemHostGetDevicePointer",
          log->cu->host_address(&log->word, log->rows + RECORDS * BENCH_ROWS_SIZE, 0));
    for (unsigned i = 0; i < frames; i++)
        log->whole[i] =
            (struct whole){.frame = pinned(log->cu, log->control, layout->size), .layout = *layout};
}

static char *rows_of(struct bench_log *log, uint64_t number)
{
    return log->rows + number % RECORDS * BENCH_ROWS_SIZE;
}

static void drain(struct bench_log *log, bool all_there)
{
    for (; log->head < log->tail; log->head++) {
        const struct record *record = &log->record[log->head % RECORDS];
        char rows[BENCH_ROWS_SIZE];
        uint64_t index;
        memcpy(rows, rows_of(log, log->head), sizeof(rows));
        bool good = bench_rows_check(rows, &index);
        if (!good && !all_there)
            return;
        bench_tally_take(log->tally, good, index,
                         &(struct bench_moment){
                             .acquired = record->acquired,
                             .seen = record->seen,
                             .submitted = record->submitted,
                             .counted = record->seen ? record->seen : bench_now(),
                         },
                         record->explained);
    }
}

size_t bench_log_settle(struct bench_log *log, size_t most)
{
    int64_t start = bench_now();
    drain(log, false);
    bool waits = log->tail - log->head > most;
    while (log->tail - log->head > most) {
        /* A frame whose marks never become right is done when the stream is. */
        int result = log->cu->stream_query(log->stream);
        if (result != RAW_NOT_READY)
            check(log->control, "cuStreamQuery", result);
        drain(log, result == 0);
        if (bench_now() - start > BENCH_STEP)
            bench_child_fail(log->control, GPUD_TIMEOUT,
                             "the GPU did not come to the end of its work in time");
    }
    if (waits)
        log->tally->probe_ns += bench_now() - start;
    return (size_t)(log->tail - log->head);
}

/* Looked at without sleeping: the GPU is microseconds away. */
static int64_t wait_for_gpu(struct bench_log *log, raw_stream stream)
{
    volatile uint32_t *word = (void *)(log->rows + RECORDS * BENCH_ROWS_SIZE);
    int64_t start = bench_now(), now = start;
    check(log->control, "cuStreamWriteValue32",
          log->cu->write_value(stream, log->word, ++log->words, 0));
    while (*word != log->words) {
        now = bench_now();
        if (now - start > BENCH_STEP)
            bench_child_fail(log->control, GPUD_TIMEOUT,
                             "the GPU waits for a frame that does not come");
    }
    now = bench_now();
    log->tally->probe_ns += now - start;
    return now;
}

static void check_whole(struct bench_log *log, struct whole *whole)
{
    uint64_t index;
    whole->used = false;
    /* Which frame it is stands in it: others are not filled. */
    if (bench_rows_check_marks(whole->frame, &whole->layout, &index) &&
        bench_rows_is_whole(log->job, index) &&
        !bench_rows_check_whole(whole->frame, &whole->layout, index))
        log->tally->result.torn++;
}

static void fetch_whole(struct bench_log *log, raw_stream stream, raw_address address,
                        const struct gpud_layout *layout)
{
    struct whole *whole = &log->whole[log->job->full ? 0 : log->wholes++ % BENCH_WHOLE_FRAMES];
    raw_address to;
    if (layout->size > whole->layout.size)
        bench_child_fail(log->control, GPUD_PEER, "the frames have grown in mid-stream");
    whole->layout = *layout;
    check(log->control, "cuMemHostGetDevicePointer", log->cu->host_address(&to, whole->frame, 0));
    check(log->control, "cuMemcpyAsync", log->cu->copy(to, address, layout->size, stream));
    whole->used = true;
    if (log->job->full) {
        finish(log->cu, log->control, stream);
        check_whole(log, whole);
    }
}

void bench_log_frame(struct bench_log *log, raw_stream stream, raw_address address,
                     const struct gpud_layout *layout, int64_t acquired, int64_t submitted,
                     uint64_t explained)
{
    log->stream = stream;
    if (!log->rows)
        prepare(log, layout);
    drain(log, false);
    if (log->tail - log->head == RECORDS) {
        finish(log->cu, log->control, stream);
        drain(log, true);
    }
    uint64_t expected = log->tally->last + (log->tail - log->head) + 1;
    int64_t start = bench_now(), probed = log->tally->probe_ns;
    char *rows = rows_of(log, log->tail);
    memset(rows, 0, BENCH_ROWS_SIZE);
    struct record *record = &log->record[log->tail++ % RECORDS];
    *record = (struct record){.acquired = acquired, .submitted = submitted, .explained = explained};
    if (log->job->fps_num)
        record->seen = wait_for_gpu(log, stream);
    const struct raw_copy_2d copy = {
        .from_type = RAW_TYPE_DEVICE,
        .from_device = address + layout->plane[0].offset,
        .from_pitch = bench_rows_pitch(layout),
        .to_type = RAW_TYPE_HOST,
        .to_host = rows,
        .to_pitch = BENCH_ROW,
        .width = BENCH_ROW,
        .height = BENCH_ROWS,
    };
    /* The rows come last: when they are there, nothing reads the frame any more. */
    if (log->checks_whole && bench_rows_is_whole(log->job, expected))
        fetch_whole(log, stream, address, layout);
    check(log->control, "cuMemcpy2DAsync", log->cu->copy_2d(&copy, stream));
    log->tally->marking_ns += bench_now() - start - (log->tally->probe_ns - probed);
    /* The last frame counts when the GPU has it. */
    if (expected >= (uint64_t)log->job->warmup + log->job->frames) {
        finish(log->cu, log->control, stream);
        drain(log, true);
    }
}

void bench_log_finish(struct bench_log *log)
{
    if (!log->rows)
        return;
    finish(log->cu, log->control, log->stream);
    drain(log, true);
    for (unsigned i = 0; i < BENCH_WHOLE_FRAMES; i++)
        if (log->whole[i].used)
            check_whole(log, &log->whole[i]);
}
