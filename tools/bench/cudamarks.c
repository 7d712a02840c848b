/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "cudamarks.h"

#include "control.h"

#include <string.h>

#define PENDING_MAX 1024 /* frames whose marks are pending; about as many as a driver queues */

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

/* Portable, so that it does not matter which context is current. */
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
    if (raw_cuda_finish(cu, stream, bench_now() + BENCH_STEP_TIMEOUT, &result))
        return;
    if (result == RAW_NOT_READY)
        bench_child_fail(control, GPUD_TIMEOUT,
                         "the GPU did not come to the end of its work in time");
    check(control, "cuStreamQuery", result);
}

/* --- writing ---------------------------------------------------------------------------------- */

struct bench_mark_writer {
    const struct raw_cuda *cu;
    const struct bench_job *job;
    int control;
    char *rows; /* pinned: PENDING_MAX of them */
    uint64_t made;
};

struct bench_mark_writer *bench_mark_writer_create(const struct bench_job *job, int control)
{
    struct bench_mark_writer *writer = g_new0(struct bench_mark_writer, 1);
    writer->cu = driver(control);
    writer->job = job;
    writer->control = control;
    return writer;
}

void bench_mark_writer_destroy(struct bench_mark_writer *writer)
{
    if (writer && writer->rows)
        writer->cu->host_free(writer->rows);
    g_free(writer);
}

void bench_mark_writer_mark(struct bench_mark_writer *writer, raw_stream stream,
                            raw_address address, const struct gpud_layout *layout, uint64_t index)
{
    const struct raw_cuda *cu = writer->cu;
    if (!writer->rows)
        writer->rows = pinned(cu, writer->control, PENDING_MAX * BENCH_ROWS_SIZE);
    /* The copies out of marks must be done before these are overwritten. */
    if (writer->made > 0 && writer->made % (PENDING_MAX / 2) == 0)
        finish(cu, writer->control, stream);
    char *rows = writer->rows + writer->made++ % PENDING_MAX * BENCH_ROWS_SIZE;
    bench_rows_make(rows, index);
    if (bench_rows_is_whole(writer->job, index))
        check(writer->control, "cuMemsetD8Async",
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
    check(writer->control, "cuMemcpy2DAsync", cu->copy_2d(&copy, stream));
}

void bench_mark_writer_finish(struct bench_mark_writer *writer, raw_stream stream)
{
    finish(writer->cu, writer->control, stream);
}

/* --- reading ---------------------------------------------------------------------------------- */

struct pending {
    int64_t acquired, seen, submitted; /* seen: 0 without --fps */
    uint64_t reported_drops;
};

struct whole {
    char *frame; /* pinned */
    struct gpud_layout layout;
    bool used;
};

struct bench_mark_reader {
    const struct raw_cuda *cu;
    const struct bench_job *job;
    int control;
    struct bench_counters *counters;
    raw_stream stream; /* the last one */
    char *rows;        /* pinned: PENDING_MAX of them, then a word that the GPU writes */
    raw_address word;
    uint32_t words;
    struct pending pending[PENDING_MAX];
    uint64_t head, tail; /* frames checked; frames enqueued */
    struct whole whole[BENCH_WHOLE_FRAMES];
    unsigned wholes;
    bool checks_whole;
};

struct bench_mark_reader *bench_mark_reader_create(const struct bench_job *job, int control,
                                                   struct bench_counters *counters, bool whole)
{
    struct bench_mark_reader *reader = g_new0(struct bench_mark_reader, 1);
    reader->cu = driver(control);
    reader->job = job;
    reader->control = control;
    reader->counters = counters;
    reader->checks_whole = whole;
    return reader;
}

void bench_mark_reader_destroy(struct bench_mark_reader *reader)
{
    if (reader && reader->rows)
        reader->cu->host_free(reader->rows);
    for (unsigned i = 0; reader && i < BENCH_WHOLE_FRAMES; i++)
        if (reader->whole[i].frame)
            reader->cu->host_free(reader->whole[i].frame);
    g_free(reader);
}

/* With the first frame, when its size is known, and usually before the measured section. */
static void prepare(struct bench_mark_reader *reader, const struct gpud_layout *layout)
{
    unsigned frames = !reader->checks_whole ? 0 : reader->job->full ? 1 : BENCH_WHOLE_FRAMES;
    reader->rows = pinned(reader->cu, reader->control, PENDING_MAX * BENCH_ROWS_SIZE + 64);
    check(reader->control, "cuMemHostGetDevicePointer",
          reader->cu->host_address(&reader->word, reader->rows + PENDING_MAX * BENCH_ROWS_SIZE, 0));
    for (unsigned i = 0; i < frames; i++)
        reader->whole[i] = (struct whole){
            .frame = pinned(reader->cu, reader->control, layout->size), .layout = *layout};
}

static char *rows_of(struct bench_mark_reader *reader, uint64_t number)
{
    return reader->rows + number % PENDING_MAX * BENCH_ROWS_SIZE;
}

static void take_arrived(struct bench_mark_reader *reader, bool all_there)
{
    for (; reader->head < reader->tail; reader->head++) {
        const struct pending *pending = &reader->pending[reader->head % PENDING_MAX];
        char rows[BENCH_ROWS_SIZE];
        uint64_t index;
        memcpy(rows, rows_of(reader, reader->head), sizeof(rows));
        bool good = bench_rows_check(rows, &index);
        if (!good && !all_there)
            return;
        bench_counters_add(reader->counters, good, index,
                           &(struct bench_frame_times){
                               .acquired = pending->acquired,
                               .seen = pending->seen,
                               .submitted = pending->submitted,
                               .counted = pending->seen ? pending->seen : bench_now(),
                           },
                           pending->reported_drops);
    }
}

size_t bench_mark_reader_wait(struct bench_mark_reader *reader, size_t most)
{
    int64_t start = bench_now();
    take_arrived(reader, false);
    bool waits = reader->tail - reader->head > most;
    while (reader->tail - reader->head > most) {
        /* Marks that are still wrong when the stream is done will never be right. */
        int result = reader->cu->stream_query(reader->stream);
        if (result != RAW_NOT_READY)
            check(reader->control, "cuStreamQuery", result);
        take_arrived(reader, result == 0);
        if (bench_now() - start > BENCH_STEP_TIMEOUT)
            bench_child_fail(reader->control, GPUD_TIMEOUT,
                             "the GPU did not come to the end of its work in time");
    }
    if (waits)
        reader->counters->probe_ns += bench_now() - start;
    return (size_t)(reader->tail - reader->head);
}

/* Polls: the GPU needs microseconds, and sleeping would take longer. */
static int64_t wait_for_gpu(struct bench_mark_reader *reader, raw_stream stream)
{
    volatile uint32_t *word = (void *)(reader->rows + PENDING_MAX * BENCH_ROWS_SIZE);
    int64_t start = bench_now(), now = start;
    check(reader->control, "cuStreamWriteValue32",
          reader->cu->write_value(stream, reader->word, ++reader->words, 0));
    while (*word != reader->words) {
        now = bench_now();
        if (now - start > BENCH_STEP_TIMEOUT)
            bench_child_fail(reader->control, GPUD_TIMEOUT,
                             "the GPU waits for a frame that does not come");
    }
    now = bench_now();
    reader->counters->probe_ns += now - start;
    return now;
}

static void check_whole(struct bench_mark_reader *reader, struct whole *whole)
{
    uint64_t index;
    whole->used = false;
    /* The frame itself says which one it is; a frame that is not filled is not checked. */
    if (bench_rows_check_marks(whole->frame, &whole->layout, &index) &&
        bench_rows_is_whole(reader->job, index) &&
        !bench_rows_check_whole(whole->frame, &whole->layout, index))
        reader->counters->result.torn++;
}

static void fetch_whole(struct bench_mark_reader *reader, raw_stream stream, raw_address address,
                        const struct gpud_layout *layout)
{
    struct whole *whole =
        &reader->whole[reader->job->full ? 0 : reader->wholes++ % BENCH_WHOLE_FRAMES];
    raw_address to;
    if (layout->size > whole->layout.size)
        bench_child_fail(reader->control, GPUD_PEER, "the frames have grown in mid-stream");
    whole->layout = *layout;
    check(reader->control, "cuMemHostGetDevicePointer",
          reader->cu->host_address(&to, whole->frame, 0));
    check(reader->control, "cuMemcpyAsync", reader->cu->copy(to, address, layout->size, stream));
    whole->used = true;
    if (reader->job->full) {
        finish(reader->cu, reader->control, stream);
        check_whole(reader, whole);
    }
}

void bench_mark_reader_add(struct bench_mark_reader *reader, raw_stream stream, raw_address address,
                           const struct gpud_layout *layout, int64_t acquired, int64_t submitted,
                           uint64_t reported_drops)
{
    reader->stream = stream;
    if (!reader->rows)
        prepare(reader, layout);
    take_arrived(reader, false);
    if (reader->tail - reader->head == PENDING_MAX) {
        finish(reader->cu, reader->control, stream);
        take_arrived(reader, true);
    }
    uint64_t expected = reader->counters->last + (reader->tail - reader->head) + 1;
    int64_t start = bench_now(), probed = reader->counters->probe_ns;
    char *rows = rows_of(reader, reader->tail);
    memset(rows, 0, BENCH_ROWS_SIZE);
    struct pending *pending = &reader->pending[reader->tail++ % PENDING_MAX];
    *pending = (struct pending){
        .acquired = acquired, .submitted = submitted, .reported_drops = reported_drops};
    if (reader->job->fps_num)
        pending->seen = wait_for_gpu(reader, stream);
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
    /* The marks come last: once they are there, nothing reads the frame any more. */
    if (reader->checks_whole && bench_rows_is_whole(reader->job, expected))
        fetch_whole(reader, stream, address, layout);
    check(reader->control, "cuMemcpy2DAsync", reader->cu->copy_2d(&copy, stream));
    reader->counters->marking_ns += bench_now() - start - (reader->counters->probe_ns - probed);
    /* The last frame ends the measured section, so it is waited for. */
    if (expected >= (uint64_t)reader->job->warmup + reader->job->frames) {
        finish(reader->cu, reader->control, stream);
        take_arrived(reader, true);
    }
}

void bench_mark_reader_finish(struct bench_mark_reader *reader)
{
    if (!reader->rows)
        return;
    finish(reader->cu, reader->control, reader->stream);
    take_arrived(reader, true);
    for (unsigned i = 0; i < BENCH_WHOLE_FRAMES; i++)
        if (reader->whole[i].used)
            check_whole(reader, &reader->whole[i]);
}
