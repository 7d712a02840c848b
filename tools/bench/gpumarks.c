/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Marks of frames on a GPU. */
#include "bench.h"

#include "ceilings/ceilings.h"

#include <dlfcn.h>
#include <gst/video/video.h>
#include <string.h>

/* === gpumarks ================================================================================ */

#define PENDING_MAX 1024 /* frames with pending marks; about as many as a driver queues */

/* What both directions need. */
struct marks {
    const struct raw_driver *driver;
    const struct bench_job *job;
    int control;
};

static void gpumarks_check(const struct marks *marks, const char *what, int result)
{
    char reason[GPUD_REASON_MAX];
    if (result == 0)
        return;
    raw_say(marks->driver, reason, sizeof(reason), what, result);
    bench_child_fail(marks->control, GPUD_IO, "marking frames on the GPU: %s", reason);
}

static void *pinned(const struct marks *marks, size_t size, raw_address *address)
{
    void *host;
    gpumarks_check(marks, "pinned memory", raw_host_alloc(marks->driver, &host, size));
    memset(host, 0, size);
    gpumarks_check(marks, "the address of pinned memory",
                   raw_host_address(marks->driver, address, host));
    return host;
}

static void gpumarks_finish(const struct marks *marks, raw_stream stream)
{
    int result;
    if (raw_finish(marks->driver, stream, clock_now() + BENCH_STEP_TIMEOUT, &result))
        return;
    if (result == RAW_NOT_READY)
        bench_child_fail(marks->control, GPUD_TIMEOUT,
                         "the GPU did not come to the end of its work in time");
    gpumarks_check(marks, "the stream", result);
}

/* --- writing ---------------------------------------------------------------------------------- */

struct bench_mark_writer {
    struct marks marks;
    char *rows; /* pinned: PENDING_MAX of them */
    raw_address address;
    uint64_t made;
};

struct bench_mark_writer *bench_mark_writer_create(const struct raw_driver *driver,
                                                   const struct bench_job *job, int control)
{
    struct bench_mark_writer *writer = g_new0(struct bench_mark_writer, 1);
    writer->marks = (struct marks){driver, job, control};
    return writer;
}

void bench_mark_writer_destroy(struct bench_mark_writer *writer)
{
    if (writer && writer->rows)
        raw_host_free(writer->marks.driver, writer->rows);
    g_free(writer);
}

void bench_mark_writer_mark(struct bench_mark_writer *writer, raw_stream stream,
                            raw_address address, const struct gpud_layout *layout, uint64_t index)
{
    const struct marks *marks = &writer->marks;
    if (!writer->rows)
        writer->rows = pinned(marks, PENDING_MAX * BENCH_ROWS_SIZE, &writer->address);
    /* The copies from these marks must be done before they are overwritten. */
    if (writer->made > 0 && writer->made % (PENDING_MAX / 2) == 0)
        gpumarks_finish(marks, stream);
    uint64_t offset = writer->made++ % PENDING_MAX * BENCH_ROWS_SIZE;
    bench_rows_make(writer->rows + offset, index);
    if (bench_rows_is_whole(marks->job, index))
        gpumarks_check(
            marks, "filling a frame",
            raw_fill(marks->driver, address, bench_rows_filler(index), layout->size, stream));
    gpumarks_check(marks, "copying marks into a frame",
                   raw_copy_rows(marks->driver, address + layout->plane[0].offset,
                                 bench_rows_pitch(layout), writer->address + offset, BENCH_ROW,
                                 BENCH_ROW, BENCH_ROWS, stream));
}

void bench_mark_writer_finish(struct bench_mark_writer *writer, raw_stream stream)
{
    gpumarks_finish(&writer->marks, stream);
}

/* --- reading ---------------------------------------------------------------------------------- */

struct pending {
    int64_t acquired, seen, submitted; /* seen: 0 without --fps */
    uint64_t reported_drops;
};

struct whole {
    char *frame; /* pinned */
    raw_address address;
    struct gpud_layout layout;
    bool used;
};

struct bench_mark_reader {
    struct marks marks;
    unsigned gpu;
    struct bench_counters *counters;
    raw_stream stream; /* the latest one */
    char *rows;        /* pinned: PENDING_MAX of them, then a word that the GPU writes */
    raw_address address;
    bool has_words;
    uint32_t words;
    struct pending pending[PENDING_MAX];
    uint64_t head, tail; /* frames checked; frames enqueued */
    struct whole whole[BENCH_WHOLE_FRAMES];
    unsigned wholes;
    bool checks_whole;
};

struct bench_mark_reader *bench_mark_reader_create(const struct raw_driver *driver, unsigned gpu,
                                                   const struct bench_job *job, int control,
                                                   struct bench_counters *counters, bool whole)
{
    struct bench_mark_reader *reader = g_new0(struct bench_mark_reader, 1);
    reader->marks = (struct marks){driver, job, control};
    reader->gpu = gpu;
    reader->counters = counters;
    reader->checks_whole = whole;
    return reader;
}

void bench_mark_reader_destroy(struct bench_mark_reader *reader)
{
    if (reader && reader->rows)
        raw_host_free(reader->marks.driver, reader->rows);
    for (unsigned i = 0; reader && i < BENCH_WHOLE_FRAMES; i++)
        if (reader->whole[i].frame)
            raw_host_free(reader->marks.driver, reader->whole[i].frame);
    g_free(reader);
}

/* Called at the first frame, when its size is known, and usually before the measured section. */
static void gpumarks_prepare(struct bench_mark_reader *reader, const struct gpud_layout *layout)
{
    unsigned frames = !reader->checks_whole ? 0 : reader->marks.job->full ? 1 : BENCH_WHOLE_FRAMES;
    reader->rows = pinned(&reader->marks, PENDING_MAX * BENCH_ROWS_SIZE + 64, &reader->address);
    reader->has_words = raw_has_words(reader->marks.driver, reader->gpu);
    for (unsigned i = 0; i < frames; i++) {
        struct whole *whole = &reader->whole[i];
        whole->frame = pinned(&reader->marks, layout->size, &whole->address);
        whole->layout = *layout;
    }
}

static uint64_t rows_of(uint64_t number)
{
    return number % PENDING_MAX * BENCH_ROWS_SIZE;
}

static void take_arrived(struct bench_mark_reader *reader, bool all_there)
{
    for (; reader->head < reader->tail; reader->head++) {
        const struct pending *pending = &reader->pending[reader->head % PENDING_MAX];
        char rows[BENCH_ROWS_SIZE];
        uint64_t index;
        memcpy(rows, reader->rows + rows_of(reader->head), sizeof(rows));
        bool good = bench_rows_check(rows, &index);
        if (!good && !all_there)
            return;
        bench_counters_add(reader->counters, good, index,
                           &(struct bench_frame_times){
                               .acquired = pending->acquired,
                               .seen = pending->seen,
                               .submitted = pending->submitted,
                               .counted = pending->seen ? pending->seen : clock_now(),
                           },
                           pending->reported_drops);
    }
}

size_t bench_mark_reader_wait(struct bench_mark_reader *reader, size_t most)
{
    int64_t start = clock_now();
    take_arrived(reader, false);
    bool waits = reader->tail - reader->head > most;
    while (reader->tail - reader->head > most) {
        /* Marks that are still wrong when the stream has finished will never be right. */
        int result = raw_stream_query(reader->marks.driver, reader->stream);
        if (result != RAW_NOT_READY)
            gpumarks_check(&reader->marks, "the stream", result);
        take_arrived(reader, result == 0);
        if (clock_now() - start > BENCH_STEP_TIMEOUT)
            bench_child_fail(reader->marks.control, GPUD_TIMEOUT,
                             "the GPU did not come to the end of its work in time");
    }
    if (waits)
        reader->counters->probe_ns += clock_now() - start;
    return (size_t)(reader->tail - reader->head);
}

static void wait_for_word(struct bench_mark_reader *reader, raw_stream stream)
{
    volatile uint32_t *word = (void *)(reader->rows + PENDING_MAX * BENCH_ROWS_SIZE);
    int64_t start = clock_now();
    gpumarks_check(&reader->marks, "writing a word",
                   raw_write_value(reader->marks.driver, stream,
                                   reader->address + PENDING_MAX * BENCH_ROWS_SIZE,
                                   ++reader->words));
    while (*word != reader->words)
        if (clock_now() - start > BENCH_STEP_TIMEOUT)
            bench_child_fail(reader->marks.control, GPUD_TIMEOUT,
                             "the GPU waits for a frame that does not come");
}

/* Polls: the GPU needs microseconds, and sleeping would take longer. */
static int64_t wait_for_gpu(struct bench_mark_reader *reader, raw_stream stream)
{
    int64_t start = clock_now();
    if (reader->has_words)
        wait_for_word(reader, stream);
    else
        gpumarks_finish(&reader->marks, stream);
    int64_t now = clock_now();
    reader->counters->probe_ns += now - start;
    return now;
}

static void check_whole(struct bench_mark_reader *reader, struct whole *whole)
{
    uint64_t index;
    whole->used = false;
    /* The frame's marks say which one it is; a frame that was not filled is not checked. */
    if (bench_rows_check_marks(whole->frame, &whole->layout, &index) &&
        bench_rows_is_whole(reader->marks.job, index) &&
        !bench_rows_check_whole(whole->frame, &whole->layout, index))
        reader->counters->result.torn++;
}

static void fetch_whole(struct bench_mark_reader *reader, raw_stream stream, raw_address address,
                        const struct gpud_layout *layout)
{
    struct whole *whole =
        &reader->whole[reader->marks.job->full ? 0 : reader->wholes++ % BENCH_WHOLE_FRAMES];
    if (layout->size > whole->layout.size)
        bench_child_fail(reader->marks.control, GPUD_PEER, "the frames have grown in mid-stream");
    whole->layout = *layout;
    gpumarks_check(&reader->marks, "copying a frame",
                   raw_copy(reader->marks.driver, whole->address, address, layout->size, stream));
    whole->used = true;
    if (reader->marks.job->full) {
        gpumarks_finish(&reader->marks, stream);
        check_whole(reader, whole);
    }
}

void bench_mark_reader_add(struct bench_mark_reader *reader, raw_stream stream, raw_address address,
                           const struct gpud_layout *layout, int64_t acquired, int64_t submitted,
                           uint64_t reported_drops)
{
    reader->stream = stream;
    if (!reader->rows)
        gpumarks_prepare(reader, layout);
    take_arrived(reader, false);
    if (reader->tail - reader->head == PENDING_MAX) {
        gpumarks_finish(&reader->marks, stream);
        take_arrived(reader, true);
    }
    uint64_t expected = reader->counters->last + (reader->tail - reader->head) + 1;
    int64_t start = clock_now(), probed = reader->counters->probe_ns;
    uint64_t rows = rows_of(reader->tail);
    memset(reader->rows + rows, 0, BENCH_ROWS_SIZE);
    struct pending *pending = &reader->pending[reader->tail++ % PENDING_MAX];
    *pending = (struct pending){
        .acquired = acquired, .submitted = submitted, .reported_drops = reported_drops};
    if (reader->marks.job->fps_num)
        pending->seen = wait_for_gpu(reader, stream);
    /* The marks come last: once they are there, the frame is no longer read. */
    if (reader->checks_whole && bench_rows_is_whole(reader->marks.job, expected))
        fetch_whole(reader, stream, address, layout);
    gpumarks_check(&reader->marks, "copying marks out of a frame",
                   raw_copy_rows(reader->marks.driver, reader->address + rows, BENCH_ROW,
                                 address + layout->plane[0].offset, bench_rows_pitch(layout),
                                 BENCH_ROW, BENCH_ROWS, stream));
    reader->counters->marking_ns += clock_now() - start - (reader->counters->probe_ns - probed);
    /* The last frame ends the measured section, so its marks are awaited. */
    if (expected >= (uint64_t)reader->marks.job->warmup + reader->marks.job->frames) {
        gpumarks_finish(&reader->marks, stream);
        take_arrived(reader, true);
    }
}

void bench_mark_reader_finish(struct bench_mark_reader *reader)
{
    if (!reader->rows)
        return;
    gpumarks_finish(&reader->marks, reader->stream);
    take_arrived(reader, true);
    for (unsigned i = 0; i < BENCH_WHOLE_FRAMES; i++)
        if (reader->whole[i].used)
            check_whole(reader, &reader->whole[i]);
}

/* === gstcuda ================================================================================= */

#define MAP_CUDA ((GstMapFlags)(GST_MAP_FLAG_LAST << 1))
#define FLAG_NEED_SYNC (GST_MEMORY_FLAG_LAST << 2) /* 1.24 and later */

/* The beginning of GstCudaMemory, the same in all series. */
struct cuda_memory {
    GstMemory memory;
    GstObject *context;
};

static struct library {
    gboolean (*load)(void);
    gboolean (*is_memory)(GstMemory *memory);
    GstObject *(*context_new)(guint ordinal);
    gpointer (*context_handle)(GstObject *context);
    GstBufferPool *(*pool_new)(GstObject *context);
    /* Since 1.24; before that, all elements use the legacy default stream. */
    gpointer (*memory_stream)(GstMemory *memory);
    raw_stream (*stream_handle)(gpointer stream);
} lib;
static bool opened;
static void *latest; /* context */

void bench_gst_cuda_open(int control)
{
    char reason[GPUD_REASON_MAX];
    if (opened)
        return;
    bool driver = raw_open(&raw_cuda, reason, sizeof(reason));
    void *library = dlopen("libgstcuda-1.0.so.0", RTLD_NOW | RTLD_GLOBAL);
    if (!driver || !library)
        bench_child_fail(control, GPUD_UNSUPPORTED, "no CUDA memory in GStreamer: %s",
                         driver ? dlerror() : reason);
    *(void **)&lib.load = dlsym(library, "gst_cuda_load_library");
    *(void **)&lib.is_memory = dlsym(library, "gst_is_cuda_memory");
    *(void **)&lib.context_new = dlsym(library, "gst_cuda_context_new");
    *(void **)&lib.context_handle = dlsym(library, "gst_cuda_context_get_handle");
    *(void **)&lib.pool_new = dlsym(library, "gst_cuda_buffer_pool_new");
    *(void **)&lib.memory_stream = dlsym(library, "gst_cuda_memory_get_stream");
    *(void **)&lib.stream_handle = dlsym(library, "gst_cuda_stream_get_handle");
    if (!lib.load || !lib.is_memory || !lib.context_new || !lib.context_handle || !lib.pool_new)
        bench_child_fail(control, GPUD_UNSUPPORTED,
                         "this GStreamer's libgstcuda lacks what is needed: 1.22 or later is");
    if (!lib.load())
        bench_child_fail(control, GPUD_UNSUPPORTED,
                         "GStreamer's libgstcuda does not find what it needs in the CUDA driver");
    opened = true;
}

GstBufferPool *bench_gst_cuda_pool(int control, unsigned ordinal)
{
    GstObject *context = lib.context_new(ordinal);
    GstBufferPool *pool = context ? lib.pool_new(context) : NULL;
    if (!pool)
        bench_child_fail(control, GPUD_NO_DEVICE, "GStreamer has no CUDA memory on cuda:%u",
                         ordinal);
    gst_object_unref(context);
    return pool;
}

bool bench_gst_cuda_is(GstBuffer *buffer)
{
    return opened && gst_buffer_n_memory(buffer) > 0 &&
           lib.is_memory(gst_buffer_peek_memory(buffer, 0));
}

/* Uses the buffer's own strides: pools of CUDA memory align them as the driver demands. */
static void find_layout(const struct bench_job *job, GstBuffer *buffer, struct gpud_layout *layout)
{
    const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
    gpud_layout_init(layout, job->format, job->width, job->height, 0, NULL);
    for (guint i = 0; meta && i < meta->n_planes && i < layout->planes; i++) {
        struct gpud_plane *plane = &layout->plane[i];
        plane->offset = meta->offset[i];
        plane->stride = (uint32_t)meta->stride[i];
        layout->size =
            MAX(layout->size,
                plane->offset + (uint64_t)plane->stride * (plane->rows - 1) + plane->row_bytes);
    }
}

bool bench_gst_cuda_map(const struct bench_job *job, GstBuffer *buffer, GstMapFlags flags,
                        struct bench_gpu_map *map)
{
    GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
    void *context = lib.context_handle(((struct cuda_memory *)(void *)memory)->context);
    if (raw_cuda_push(context) != 0)
        return false;
    if (!gst_buffer_map(buffer, &map->info, flags | MAP_CUDA)) {
        raw_leave(&raw_cuda);
        return false;
    }
    latest = context;
    map->address = (raw_address)(uintptr_t)map->info.data;
    gpointer stream = lib.memory_stream ? lib.memory_stream(memory) : NULL;
    map->stream = stream ? lib.stream_handle(stream) : NULL;
    map->ordered = stream || !lib.memory_stream;
    if (stream && (flags & GST_MAP_WRITE))
        GST_MINI_OBJECT_FLAG_SET(memory, FLAG_NEED_SYNC);
    find_layout(job, buffer, &map->layout);
    return map->layout.size <= map->info.size;
}

void bench_gst_cuda_unmap(GstBuffer *buffer, struct bench_gpu_map *map)
{
    gst_buffer_unmap(buffer, &map->info);
    raw_leave(&raw_cuda);
}

bool bench_gst_cuda_enter(void)
{
    return latest && raw_cuda_push(latest) == 0;
}

void bench_gst_cuda_leave(void)
{
    raw_leave(&raw_cuda);
}
