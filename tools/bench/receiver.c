/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The receivers' processes. */
#include "bench.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* === counters ================================================================================ */

/* Of elements the streaming thread's, until it has stopped. */
static struct counters {
    uint64_t last; /* index of the previous frame */
    bool joined;   /* a frame has come, whole or not */
    bool started;  /* the measured section has begun */
    bool complete; /* the last frame came */
    int64_t cpu_start;
    int64_t *latencies, *latencies_cpu;
    int64_t probe_ns;   /* spent polling the GPU, which does not count as CPU time of receiving */
    int64_t marking_ns; /* spent reading marks from the GPU */
    int64_t probe_start, marking_start;
    const struct bench_page *page;              /* with submit times; NULL: none */
    struct gpud_layout layout;                  /* where rows are */
    void (*count)(struct bench_result *result); /* route and counters so far */
    struct bench_result result, before;         /* before: counters before the measured section */
} counters;

/* Times of one frame, monotonic ns. */
struct frame_times {
    int64_t submitted; /* 0: unknown */
    int64_t acquired;  /* by the CPU, before the GPU could read it; 0: same as seen */
    int64_t seen;      /* when its reader, CPU or GPU, could read it; 0: unknown */
    int64_t counted;   /* the basis of throughput */
};

static void counters_init(void (*count)(struct bench_result *result))
{
    const struct bench_job *job = &bench_job;
    counters = (struct counters){.count = count, .layout = bench_layout_of(job)};
    counters.latencies = g_new0(int64_t, 2 * (size_t)job->frames);
    counters.latencies_cpu = counters.latencies + job->frames;
    counters.page = bench_page_map(job->page);
}

static void counters_finish_section(void)
{
    counters.result.cpu_ns =
        clock_cpu_time() - counters.cpu_start - (counters.probe_ns - counters.probe_start);
    counters.result.marking_ns = counters.marking_ns - counters.marking_start;
    counters.complete = true;
}

static void counters_measure(const struct frame_times *times, int64_t submitted)
{
    struct bench_result *result = &counters.result;
    if (!counters.started) {
        counters.started = true;
        result->start = times->counted;
        counters.count(&counters.before);
        counters.cpu_start = clock_cpu_time();
        counters.probe_start = counters.probe_ns;
        counters.marking_start = counters.marking_ns;
    }
    result->end = times->counted;
    result->frames++;
    if (times->seen && submitted && result->latencies < bench_job.frames)
        counters.latencies[result->latencies++] = times->seen - submitted;
    if (times->acquired && submitted && result->latencies_cpu < bench_job.frames)
        counters.latencies_cpu[result->latencies_cpu++] = times->acquired - submitted;
}

/* Counts a frame. whole: all its marks are of the frame `index`. reported_drops: frames that the
 * sender has reported as dropped so far. */
static void counters_add(bool whole, uint64_t index, const struct frame_times *times,
                         uint64_t reported_drops)
{
    struct bench_result *result = &counters.result;
    uint64_t total = (uint64_t)bench_job.warmup + bench_job.frames;
    bool first = !counters.joined;
    counters.joined = true;
    if (whole && index == 0)
        return; /* not part of the stream: sent until every receiver is there */
    /* Elements without connections, as over UDP, may join within such a frame; ours never do. */
    if (!whole && first && bench_job.elements && !strstr(bench_job.sink, "gpudirectsink"))
        return;
    result->all++;
    result->reported_drops = reported_drops;
    if (!whole || index <= counters.last || index > total) {
        result->torn++;
        return;
    }
    int64_t submitted = times->submitted;
    if (!submitted && counters.page)
        submitted = atomic_load_explicit(&counters.page->submitted[index % BENCH_SUBMIT_TIMES],
                                         memory_order_acquire);
    counters.last = index;
    if (index > bench_job.warmup)
        counters_measure(times, submitted);
    if (index == total)
        counters_finish_section();
}

/* Checks and counts a frame that the CPU can read since `now`. submitted: 0: unknown. */
static void counters_check(const void *data, uint64_t size, int64_t now, int64_t submitted,
                           uint64_t reported_drops)
{
    const struct gpud_layout *layout = &counters.layout;
    uint64_t index;
    bool whole = size >= layout->size && bench_frame_check(data, layout, &bench_job, &index);
    const struct frame_times times = {.submitted = submitted, .seen = now, .counted = now};
    counters_add(whole, whole ? index : 0, &times, reported_drops);
}

/* After the last frame; the counters of the route are there. */
static void counters_report(void)
{
    struct bench_result *result = &counters.result;
    bench_result_subtract(result, &counters.before);
    if (counters.started && !counters.complete)
        counters_finish_section();
    /* One after the other, as bench_send_result() expects them. */
    memmove(counters.latencies + result->latencies, counters.latencies_cpu,
            result->latencies_cpu * sizeof(int64_t));
    bench_send_result(result, counters.latencies);
    g_free(counters.latencies);
}

static int64_t since(int64_t now, int64_t before)
{
    return now == BENCH_UNKNOWN || before == BENCH_UNKNOWN ? BENCH_UNKNOWN : now - before;
}

void bench_result_subtract(struct bench_result *now, const struct bench_result *before)
{
    now->copies_cpu = since(now->copies_cpu, before->copies_cpu);
    now->copies_gpu = since(now->copies_gpu, before->copies_gpu);
    now->kicks = since(now->kicks, before->kicks);
    now->waits = since(now->waits, before->waits);
    now->waits_device = since(now->waits_device, before->waits_device);
    now->lent -= before->lent;
}

/* === a GPU that reads marks =================================================================== */
/* In the order of frames: marks are copied into pinned memory on the stream, and checked once they
 * are there, when later frames come or at the end. The CPU does not wait. */

#define PENDING_MAX 1024 /* frames with pending marks; about as many as a driver queues */

static struct reader {
    const struct raw_driver *driver;
    unsigned gpu;
    raw_stream stream; /* the latest one */
    char *rows; /* pinned: the marks of PENDING_MAX frames, then a word that the GPU writes */
    raw_address address;
    bool has_words;
    uint32_t words;
    struct pending {
        struct frame_times times; /* seen: 0 without --fps */
        uint64_t reported_drops;
        bool marked[GPUD_PLANES_MAX]; /* the planes with marks, of which the first is one */
    } pending[PENDING_MAX];
    uint64_t head, tail; /* frames checked; frames enqueued */
    struct whole {
        char *frame; /* pinned */
        raw_address address;
        struct gpud_layout layout;
        bool used;
    } whole[BENCH_FILLED_FRAMES];
    unsigned wholes;
} reader;

/* gpu: where frames are. */
static void reader_open(const struct raw_driver *driver, unsigned gpu)
{
    reader = (struct reader){.driver = driver, .gpu = gpu};
}

static uint64_t rows_of(uint64_t number)
{
    return number % PENDING_MAX * BENCH_FRAME_MARKS;
}

static void reader_take_arrived(bool all_there)
{
    for (; reader.head < reader.tail; reader.head++) {
        const struct pending *pending = &reader.pending[reader.head % PENDING_MAX];
        char marks[BENCH_FRAME_MARKS];
        uint64_t index, first = 0;
        bool good = true;
        memcpy(marks, reader.rows + rows_of(reader.head), sizeof(marks));
        for (uint32_t p = 0; p < GPUD_PLANES_MAX; p++) {
            if (!pending->marked[p])
                continue;
            good = good && bench_marks_check(marks + p * BENCH_MARKS_SIZE, p, &index) &&
                   (p == 0 || index == first);
            first = index;
        }
        if (!good && !all_there)
            return;
        struct frame_times times = pending->times;
        times.counted = times.seen ? times.seen : clock_now();
        counters_add(good, index, &times, pending->reported_drops);
    }
}

static void reader_take_all(raw_stream stream)
{
    bench_gpu_finish(reader.driver, stream);
    reader_take_arrived(true);
}

/* Polls until the marks of at most `most` frames are pending; returns how many are. */
static size_t reader_wait(size_t most)
{
    int64_t start = clock_now();
    reader_take_arrived(false);
    bool waits = reader.tail - reader.head > most;
    while (reader.tail - reader.head > most) {
        /* Marks that are still wrong when the stream has finished will never be right. */
        int result = reader.driver->stream_query(reader.stream);
        if (result != RAW_NOT_READY)
            bench_must_gpu(reader.driver, BENCH_MARKING "the stream", result);
        reader_take_arrived(result == 0);
        if (clock_now() - start > BENCH_STEP_TIMEOUT)
            bench_die(GPUD_TIMEOUT, "the GPU did not come to the end of its work in time");
    }
    if (waits)
        counters.probe_ns += clock_now() - start;
    return (size_t)(reader.tail - reader.head);
}

/* Until the GPU has done what the stream has. Polls: that takes microseconds, and sleeping would
 * take longer. */
static int64_t reader_wait_for_gpu(raw_stream stream)
{
    volatile uint32_t *word = (void *)(reader.rows + PENDING_MAX * BENCH_FRAME_MARKS);
    int64_t start = clock_now();
    if (reader.has_words) {
        bench_must_gpu(reader.driver, BENCH_MARKING "writing a word",
                       raw_write_value(reader.driver, stream,
                                       reader.address + PENDING_MAX * BENCH_FRAME_MARKS,
                                       ++reader.words));
        while (*word != reader.words)
            if (clock_now() - start > BENCH_STEP_TIMEOUT)
                bench_die(GPUD_TIMEOUT, "the GPU waits for a frame that does not come");
    } else {
        bench_gpu_finish(reader.driver, stream);
    }
    int64_t now = clock_now();
    counters.probe_ns += now - start;
    return now;
}

/* The frame's marks say which one it is; a frame that was not filled is not checked. */
static void reader_check_whole(struct whole *whole)
{
    uint64_t index;
    whole->used = false;
    if (bench_frame_check_marks(whole->frame, &whole->layout, &index) &&
        !bench_frame_check(whole->frame, &whole->layout, &bench_job, &index))
        counters.result.torn++;
}

static void reader_fetch_whole(raw_stream stream, raw_address address,
                               const struct gpud_layout *layout)
{
    struct whole *whole = &reader.whole[bench_job.full ? 0 : reader.wholes++ % BENCH_FILLED_FRAMES];
    if (layout->size > whole->layout.size)
        bench_die(GPUD_PEER, "the frames have grown in mid-stream");
    whole->layout = *layout;
    bench_must_gpu(reader.driver, BENCH_MARKING "copying a frame",
                   raw_copy(reader.driver, whole->address, address, layout->size, stream));
    whole->used = true;
    if (bench_job.full) {
        bench_gpu_finish(reader.driver, stream);
        reader_check_whole(whole);
    }
}

/* Enqueues the copy of a frame's marks. acquired: when the CPU had the frame; submitted: 0:
 * unknown. With --fps it also polls until the GPU has finished earlier work on the stream, which
 * gives the latency as seen by the GPU. */
static void reader_add(raw_stream stream, raw_address address, const struct gpud_layout *layout,
                       int64_t acquired, int64_t submitted, uint64_t reported_drops)
{
    reader.stream = stream;
    /* The size is known at the first frame, which is usually before the measured section. */
    if (!reader.rows) {
        unsigned frames = bench_job.full ? 1 : bench_job.fills ? BENCH_FILLED_FRAMES : 0;
        reader.rows =
            bench_gpu_pinned(reader.driver, PENDING_MAX * BENCH_FRAME_MARKS + 64, &reader.address);
        reader.has_words = reader.driver->has_words(reader.gpu);
        for (unsigned i = 0; i < frames; i++) {
            struct whole *whole = &reader.whole[i];
            whole->frame = bench_gpu_pinned(reader.driver, layout->size, &whole->address);
            whole->layout = *layout;
        }
    }
    reader_take_arrived(false);
    if (reader.tail - reader.head == PENDING_MAX)
        reader_take_all(stream);
    uint64_t expected = counters.last + (reader.tail - reader.head) + 1;
    int64_t start = clock_now(), probed = counters.probe_ns;
    uint64_t rows = rows_of(reader.tail);
    memset(reader.rows + rows, 0, BENCH_FRAME_MARKS);
    struct pending *pending = &reader.pending[reader.tail++ % PENDING_MAX];
    *pending = (struct pending){.times = {.acquired = acquired, .submitted = submitted},
                                .reported_drops = reported_drops};
    if (bench_job.fps_num)
        pending->times.seen = reader_wait_for_gpu(stream);
    /* The marks come last: once they are there, the frame is no longer read. */
    if (bench_is_filled(&bench_job, expected))
        reader_fetch_whole(stream, address, layout);
    for (uint32_t p = 0; p < layout->planes; p++) {
        const struct gpud_plane *plane = &layout->plane[p];
        pending->marked[p] = bench_is_marked(plane);
        if (pending->marked[p])
            bench_must_gpu(reader.driver, BENCH_MARKING "copying marks out of a frame",
                           reader.driver->copy_rows(reader.address + rows + p * BENCH_MARKS_SIZE,
                                                    BENCH_ROW, address + plane->offset,
                                                    bench_marks_pitch(plane), BENCH_ROW, BENCH_ROWS,
                                                    stream));
    }
    counters.marking_ns += clock_now() - start - (counters.probe_ns - probed);
    /* The last frame ends the measured section, so its marks are awaited. */
    if (expected >= (uint64_t)bench_job.warmup + bench_job.frames)
        reader_take_all(stream);
}

/* Waits for all pending marks, finishes checking to the last byte, and frees everything. */
static void reader_close(void)
{
    if (!reader.rows)
        return;
    reader_take_all(reader.stream);
    for (unsigned i = 0; i < BENCH_FILLED_FRAMES; i++) {
        if (reader.whole[i].used)
            reader_check_whole(&reader.whole[i]);
        if (reader.whole[i].frame)
            reader.driver->mem_free_host(reader.whole[i].frame);
    }
    reader.driver->mem_free_host(reader.rows);
    reader.rows = NULL;
}

/* === the core ================================================================================ */

static struct {
    struct gpud_context *context;
    struct gpud_receiver *receiver;
    bool on_host;              /* both ends are the host: a frame is readable once it is acquired */
    struct raw_driver *driver; /* of the GPU that reads the frames; NULL: the CPU does */
    raw_stream stream;
    int64_t begun;             /* when it began to connect */
    _Atomic int64_t connected; /* when it was; 0: not yet */
} core;

static void core_on_event(void *user, enum gpud_event event, const void *data)
{
    if (event != GPUD_EVENT_CONNECTED)
        return;
    core.connected = clock_now();
    bench_say(BENCH_READY);
}

static void core_count(struct bench_result *result)
{
    struct gpud_receiver_info info = GPUD_INFO_INIT(info);
    gpud_receiver_get_info(core.receiver, &info);
    result->copies_cpu = (int64_t)info.copies_cpu;
    result->copies_gpu = (int64_t)info.copies_gpu;
    result->kicks = (int64_t)info.kicks;
    result->waits = (int64_t)info.waits_cpu;
    result->waits_device = (int64_t)info.waits_device;
    result->setup_ns = core.connected - core.begun;
    memcpy(result->route, info.path, sizeof(result->route));
    memcpy(result->fallback_reason, info.fallback_reason, sizeof(result->fallback_reason));
}

/* On a GPU the CPU only enqueues. */
static void core_take_frame(struct gpud_frame *frame)
{
    int64_t now = clock_now();
    struct gpud_frame_info info;
    info.size = sizeof(info);
    gpud_frame_get_info(frame, &info);
    if (core.driver) {
        bench_must(NULL, gpud_frame_wait(frame, core.stream, &bench_error));
        reader_add(core.stream, (raw_address)(uintptr_t)info.native + info.memory_offset,
                   bench_job.tensor_bytes ? &counters.layout : &info.layout, now,
                   (int64_t)info.submitted_ns, info.dropped);
        bench_must(NULL, gpud_frame_post(frame, core.stream, &bench_error));
    } else {
        void *data;
        bench_must(NULL, gpud_frame_map(frame, GPUD_READ, BENCH_STEP_TIMEOUT, &data, &bench_error));
        counters_check(data, info.layout.size, core.on_host ? now : clock_now(),
                       (int64_t)info.submitted_ns, info.dropped);
        gpud_frame_unmap(frame);
    }
    gpud_frame_release(&frame);
}

void bench_run_receiver_core(void)
{
    const struct bench_job *job = &bench_job;
    struct gpud_device *gpu_device = NULL;
    char device[32];
    unsigned gpu;
    bench_device_of(job, job->number, device, sizeof(device));
    counters_init(core_count);
    core.context = bench_create_context();
    /* "auto" may be a GPU: its frames are mapped. */
    core.on_host = strcmp(job->from, "host") == 0 && strcmp(device, "host") == 0;
    core.driver = raw_driver_of(device, &gpu);
    if (core.driver) { /* before it connects, whose time is not to be that of the driver's start */
        bench_must(NULL, gpud_device_open(core.context, device, &gpu_device, &bench_error));
        core.stream = bench_gpu_open(core.driver, gpu);
        reader_open(core.driver, gpu);
    }
    core.begun = clock_now();
    core.receiver = bench_create_receiver(core.context, job->address, device, core_on_event);
    for (;;) {
        struct gpud_frame *frame;
        enum gpud_status status =
            gpud_receiver_acquire(core.receiver, 3 * BENCH_STEP_TIMEOUT, &frame, &bench_error);
        if (status == GPUD_CLOSED)
            break;
        bench_must(NULL, status);
        core_take_frame(frame);
    }
    if (core.driver)
        reader_close();
    core_count(&counters.result);
    counters_report();
    gpud_receiver_destroy(&core.receiver);
    if (core.driver) {
        raw_stream_destroy(core.driver, core.stream);
        raw_leave(core.driver);
        gpud_device_close(&gpu_device);
    }
    gpud_context_destroy(&core.context);
}

/* === memory and futexes ======================================================================= */

static void floor_count(struct bench_result *result)
{
}

void bench_run_receiver_floor(void)
{
    counters_init(floor_count);
    bench_floor_open();
    bench_say(BENCH_READY);
    while (!counters.complete) {
        const void *data = bench_floor_receive();
        counters_check(data, counters.layout.size, clock_now(), 0, 0);
        bench_floor_release();
    }
    counters_report();
}

/* === a GStreamer source ====================================================================== */
/* It is linked to a pad of the bench. */

/* Once the sender has ended, no frames are expected after this long without one. */
#define GRACE (500 * GPUD_MSEC)
#define GRACE_NETWORK (2 * GPUD_SEC) /* a frame may be on its way for this long */

static struct {
    GstElement *pipeline;
    uint64_t seen; /* frames; atomic, since the main thread reads it */
    bool said_ready;
    bool on_gpu;   /* a GPU reads the frames; false: the CPU */
    GQueue unread; /* buffers that the GPU may not have read yet, oldest first */
    int done;      /* eventfd: the last frame came, or EOS */
} source;

static void source_signal_done(void)
{
    uint64_t one = 1;
    while (write(source.done, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

static void source_read_by_cpu(GstBuffer *buffer)
{
    GstMapInfo map;
    if (!gst_buffer_map(buffer, &map, GST_MAP_READ))
        bench_die(GPUD_IO, "a received buffer cannot be mapped");
    counters_check(map.data, map.size, clock_now(), 0, 0);
    gst_buffer_unmap(buffer, &map);
    gst_buffer_unref(buffer);
}

/* Buffers are released once the GPU has read them. At most half of the slots wait for that, or the
 * sender would run out of them. */
static void source_read_by_gpu(GstBuffer *buffer)
{
    int64_t now = clock_now();
    struct bench_gpu_map map;
    if (!bench_gst_cuda_is(buffer))
        bench_die(GPUD_UNSUPPORTED, "the source gives no CUDA memory: end it with ! {caps}");
    if (!bench_gst_cuda_map(buffer, GST_MAP_READ, &map))
        bench_die(GPUD_IO, "a received buffer cannot be mapped for the GPU");
    reader_add(map.stream, map.address, &map.layout, now, 0, 0);
    g_queue_push_tail(&source.unread, buffer);
    size_t pending = reader_wait(bench_job.slots / 2);
    bench_gst_cuda_unmap(buffer, &map);
    while (source.unread.length > pending)
        gst_buffer_unref(g_queue_pop_head(&source.unread));
}

static GstFlowReturn source_chain(GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
    if (!source.said_ready)
        bench_say(BENCH_READY);
    source.said_ready = true;
    __atomic_fetch_add(&source.seen, 1, __ATOMIC_RELAXED);
    bool before = counters.complete;
    if (source.on_gpu)
        source_read_by_gpu(buffer);
    else
        source_read_by_cpu(buffer);
    if (counters.complete && !before)
        source_signal_done();
    return GST_FLOW_OK;
}

static gboolean source_event(GstPad *pad, GstObject *parent, GstEvent *event)
{
    if (GST_EVENT_TYPE(event) == GST_EVENT_EOS)
        source_signal_done();
    return gst_pad_event_default(pad, parent, event);
}

static void source_count(struct bench_result *result)
{
    bench_elements_count(source.pipeline, result);
}

/* Waits until the last frame, EOS, or GRACE without a frame after the sender ended. */
static void source_wait_for_end(void)
{
    GstBus *bus = gst_element_get_bus(source.pipeline);
    GPollFD messages;
    gst_bus_get_pollfd(bus, &messages);
    int64_t until = INT64_MAX;
    uint64_t seen = 0;
    for (;;) {
        struct pollfd fds[] = {
            {.fd = source.done, .events = POLLIN},
            {.fd = until == INT64_MAX ? bench_control : -1, .events = POLLIN},
            {.fd = messages.fd, .events = POLLIN},
        };
        int64_t left = until == INT64_MAX ? BENCH_STEP_TIMEOUT : until - clock_now();
        if (left <= 0 && __atomic_load_n(&source.seen, __ATOMIC_RELAXED) == seen)
            break;
        if (left <= 0) {
            seen = __atomic_load_n(&source.seen, __ATOMIC_RELAXED);
            until = clock_now() + (bench_job.network[0] ? GRACE_NETWORK : GRACE);
            continue;
        }
        if (poll(fds, G_N_ELEMENTS(fds), (int)(left / GPUD_MSEC) + 1) > 0 && fds[0].revents)
            break;
        if (fds[1].revents) {
            bench_expect(BENCH_STOP, BENCH_STEP_TIMEOUT, NULL, 0);
            until = 0;
        }
        GstMessage *message;
        while ((message = gst_bus_pop_filtered(bus, GST_MESSAGE_ANY))) {
            if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
                gst_bus_post(bus, message);
                bench_elements_fail(source.pipeline, "");
            }
            gst_message_unref(message);
        }
    }
    gst_object_unref(bus);
}

void bench_run_receiver_gst(void)
{
    const struct bench_job *job = &bench_job;
    source.done = eventfd(0, EFD_CLOEXEC);
    gst_init(NULL, NULL);
    GstPad *pad = gst_pad_new("bench", GST_PAD_SINK);
    gst_pad_set_chain_function(pad, source_chain);
    gst_pad_set_event_function(pad, source_event);
    counters_init(source_count);
    char device[32];
    bench_device_of(job, job->number, device, sizeof(device));
    source.on_gpu = bench_works_on_gpu(job, device);
    if (source.on_gpu) {
        unsigned gpu;
        bench_gst_cuda_open();
        raw_driver_of(device, &gpu);
        reader_open(&raw_cuda, gpu);
    }
    GString *description = g_string_new(job->src);
    g_string_replace(description, "{device}", device, 0);
    source.pipeline = bench_elements_parse(description->str, pad);
    g_string_free(description, TRUE);
    if (gst_element_set_state(source.pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
        bench_elements_fail(source.pipeline, "the source does not start");

    source_wait_for_end();
    /* Before the source stops, which resets its counters. No more frames come, so nothing else uses
     * the reader. */
    source_count(&counters.result);
    if (source.on_gpu && bench_gst_cuda_enter()) {
        reader_close();
        raw_leave(&raw_cuda);
    }
    g_queue_clear_full(&source.unread, (GDestroyNotify)gst_buffer_unref);
    gst_element_set_state(source.pipeline, GST_STATE_NULL);
    counters_report();
    gst_pad_set_active(pad, FALSE);
    gst_object_unref(source.pipeline);
    gst_object_unref(pad);
    close(source.done);
}
