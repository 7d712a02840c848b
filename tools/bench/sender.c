/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sender's process. */
#include "bench.h"

#include <gst/video/video.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* What the sender sends through. */
struct output_ops {
    /* Receivers can connect after it. */
    void (*open)(void);
    /* Returns when all receivers are connected and the coordinator has sent GO. */
    void (*wait)(void);
    /* The memory of the next frame, and its size. NULL: GPU memory, which only mark can write. */
    void *(*acquire)(uint64_t *size);
    /* Marks a frame in GPU memory by work on a stream, before the receiver's access. */
    void (*mark)(uint64_t index);
    /* Submits the frame. */
    void (*send)(void);
    /* Ends the stream. */
    void (*end)(void);
    /* Fills in the route and the counters so far, but not frames, times and CPU time. */
    void (*count)(struct bench_result *result);
    void (*close)(void);
};

static struct gpud_layout layout;

/* === marks by a GPU =========================================================================== */

/* Pinned memory for the marks of MARKS_MAX frames, about as many as a driver queues. */
#define MARKS_MAX 1024
static char *marks;
static raw_address marks_address;
static uint64_t marks_made;

/* Enqueues the marks of the frame at `address`, as an application would do: the CPU does not wait.
 * The stream's GPU must be current. */
static void mark_by_gpu(const struct raw_driver *driver, raw_stream stream, raw_address address,
                        const struct gpud_layout *of, uint64_t index)
{
    if (!marks)
        marks = bench_gpu_pinned(driver, MARKS_MAX * BENCH_FRAME_MARKS, &marks_address);
    /* The copies from these marks must be done before they are overwritten. */
    if (marks_made > 0 && marks_made % (MARKS_MAX / 2) == 0)
        bench_gpu_finish(driver, stream);
    uint64_t offset = marks_made++ % MARKS_MAX * BENCH_FRAME_MARKS;
    if (bench_is_filled(&bench_job, index))
        bench_must_gpu(driver, BENCH_MARKING "filling a frame",
                       driver->memset_d8_async(address, bench_filler(index), of->size, stream));
    for (uint32_t p = 0; p < of->planes; p++, offset += BENCH_MARKS_SIZE) {
        const struct gpud_plane *plane = &of->plane[p];
        if (!bench_is_marked(plane))
            continue;
        bench_marks_make(marks + offset, p, index);
        bench_must_gpu(driver, BENCH_MARKING "copying marks into a frame",
                       driver->copy_rows(address + plane->offset, bench_marks_pitch(plane),
                                         marks_address + offset, BENCH_ROW, BENCH_ROW, BENCH_ROWS,
                                         stream));
    }
}

/* === the core ================================================================================ */
/* Frames lie in slots that the core's sender lends, or in the bench's own memory ("foreign"), from
 * malloc or the GPU's driver. On a GPU, work on the bench's own stream marks them. */

static struct {
    struct gpud_context *context;
    struct gpud_device *device; /* where foreign memory is: the GPU, or the host */
    struct raw_driver *driver;  /* NULL: the CPU writes the frames */
    raw_stream stream;
    struct gpud_sender *sender;
    struct gpud_frame *frame;   /* acquired */
    struct gpud_layout wrapped; /* of frames in foreign memory */
    int64_t setup_ns;
    /* Of the bench's own: pointers, or the GPU's addresses. Oldest first, so that none is still
     * cached when it is used again. */
    GAsyncQueue *free;
} core;

static void core_give_back(void *data)
{
    g_async_queue_push(core.free, data);
}

static void core_make_foreign(void)
{
    for (uint32_t i = 0; i < bench_job.foreign_buffers; i++) {
        raw_address address = 0;
        if (core.driver)
            bench_must_gpu(core.driver, "memory on the GPU",
                           raw_alloc(core.driver, &address, layout.size));
        void *data = core.driver ? (void *)(uintptr_t)address : malloc(layout.size);
        if (!data)
            bench_die(GPUD_NO_MEMORY, "out of memory for %u frames", bench_job.foreign_buffers);
        /* Pages that were never written all map to one page of zeros, which would be read from the
         * caches. */
        if (!core.driver)
            memset(data, 1, layout.size);
        core_give_back(data);
    }
}

static void core_open(void)
{
    const struct bench_job *job = &bench_job;
    unsigned gpu;
    core.free = g_async_queue_new();
    core.context = bench_create_context();
    core.driver = raw_driver_of(job->from, &gpu);
    bench_must(NULL, gpud_device_open(core.context, core.driver ? job->from : "host", &core.device,
                                      &bench_error));
    if (core.driver) /* the GPU stays current: this thread does everything */
        core.stream = bench_gpu_open(core.driver, gpu);
    int64_t begun = clock_now();
    core.sender = bench_create_sender(core.context, job->address);
    core.setup_ns = clock_now() - begun;
    struct gpud_media media = bench_media_of(job);
    bench_must(NULL, gpud_media_get_layout(&media, &core.wrapped, &bench_error));
    if (job->foreign)
        core_make_foreign();
}

static void core_wait(void)
{
    bench_must(NULL,
               gpud_sender_wait(core.sender, bench_job.receivers,
                                (bench_job.remote ? 2 : 1) * bench_job.patience, &bench_error));
    bench_say(BENCH_READY);
    bench_expect(BENCH_GO, 3 * BENCH_STEP_TIMEOUT, NULL, 0);
}

static void *core_acquire(uint64_t *size)
{
    void *data;
    if (bench_job.foreign) {
        struct gpud_memory *memory;
        void *foreign = g_async_queue_timeout_pop(core.free, BENCH_STEP_TIMEOUT / GPUD_USEC);
        if (!foreign)
            bench_die(GPUD_TIMEOUT, "no foreign buffer came back in time");
        bench_must(NULL, gpud_memory_wrap(core.device, foreign, layout.size, core_give_back,
                                          foreign, &memory, &bench_error));
        bench_must(NULL, gpud_frame_wrap(memory, 0, &core.wrapped, &core.frame, &bench_error));
        gpud_memory_unref(&memory);
    } else {
        bench_must(NULL,
                   gpud_sender_acquire(core.sender, BENCH_STEP_TIMEOUT, &core.frame, &bench_error));
    }
    *size = layout.size;
    if (core.driver) {
        if (!bench_job.foreign)
            bench_must(NULL, gpud_frame_wait(core.frame, core.stream, &bench_error));
        return NULL;
    }
    bench_must(NULL,
               gpud_frame_map(core.frame, GPUD_WRITE, BENCH_STEP_TIMEOUT, &data, &bench_error));
    return data;
}

static void core_mark(uint64_t index)
{
    struct gpud_frame_info info;
    info.size = sizeof(info);
    gpud_frame_get_info(core.frame, &info);
    mark_by_gpu(core.driver, core.stream, (raw_address)(uintptr_t)info.native + info.memory_offset,
                bench_job.tensor_bytes ? &layout : &info.layout, index);
}

static void core_send(void)
{
    if (core.driver)
        bench_must(NULL, gpud_frame_post(core.frame, core.stream, &bench_error));
    else
        gpud_frame_unmap(core.frame);
    bench_must(NULL,
               gpud_sender_submit(core.sender, &core.frame, BENCH_STEP_TIMEOUT, &bench_error));
}

static void core_end(void)
{
    bench_must(NULL, gpud_sender_send_eos(core.sender, &bench_error));
}

static void core_count(struct bench_result *result)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    gpud_sender_get_info(core.sender, &info);
    memcpy(result->route, info.path, sizeof(result->route));
    memcpy(result->fallback_reason, info.fallback_reason, sizeof(result->fallback_reason));
    result->copies_cpu = (int64_t)info.copies_cpu;
    result->copies_gpu = (int64_t)info.copies_gpu;
    result->kicks = (int64_t)info.kicks;
    result->waits = (int64_t)info.waits_cpu;
    result->waits_device = (int64_t)info.waits_device;
    result->dropped = (int64_t)info.dropped;
    result->lent = bench_job.foreign ? 0 : info.frames;
    result->setup_ns = core.setup_ns;
}

static void core_close(void)
{
    gpud_sender_destroy(&core.sender);
    for (void *data; (data = g_async_queue_try_pop(core.free));) {
        if (core.driver)
            raw_free(core.driver, (raw_address)(uintptr_t)data);
        else
            free(data);
    }
    g_async_queue_unref(core.free);
    if (core.driver) {
        raw_stream_destroy(core.driver, core.stream);
        raw_leave(core.driver);
    }
    gpud_device_close(&core.device);
    gpud_context_destroy(&core.context);
}

static const struct output_ops core_ops = {
    .open = core_open,
    .wait = core_wait,
    .acquire = core_acquire,
    .mark = core_mark,
    .send = core_send,
    .end = core_end,
    .count = core_count,
    .close = core_close,
};

/* === a GStreamer sink ======================================================================== */
/* Buffers are pushed into its pad, from the pool or the allocator that it proposes, as a decoder
 * would do; "foreign" ones from a pool of plain memory, or of GStreamer's CUDA memory. */

#define PROBE_INTERVAL_US 5000
#define PROBE_INTERVAL_MAX_US 100000

static struct {
    GstElement *pipeline;
    GstPad *pad;
    GstBufferPool *pool;
    GstAllocator *allocator; /* the sink's own; NULL: none proposed */
    bool sinks_pool;         /* the pool is the sink's */
    bool on_gpu;             /* frames are in GPU memory; false: the CPU writes them */
    gsize size;              /* of a frame */
    GstBuffer *buffer;       /* acquired */
    GstMapInfo map;
    guint64 lent;
} sink;

static void sink_choose_pool(GstCaps *caps)
{
    const struct bench_job *job = &bench_job;
    GstQuery *query = gst_query_new_allocation(caps, TRUE);
    GstAllocationParams params;
    guint size = (guint)sink.size, min = 0, max = job->slots;
    gst_allocation_params_init(&params);
    if (job->foreign) {
        min = job->foreign_buffers;
        max = 0;
    } else if (gst_pad_peer_query(sink.pad, query)) {
        if (gst_query_get_n_allocation_pools(query) > 0) {
            guint wanted;
            gst_query_parse_nth_allocation_pool(query, 0, &sink.pool, &wanted, &min, &max);
            size = MAX(size, wanted);
        }
        if (gst_query_get_n_allocation_params(query) > 0)
            gst_query_parse_nth_allocation_param(query, 0, &sink.allocator, &params);
    }
    gst_query_unref(query);
    sink.sinks_pool = sink.pool != NULL;
    /* The sink proposes no pool: this one uses its allocator, and is as deep as the core's ring, so
     * that both have as many frames in flight. */
    if (!sink.pool) {
        unsigned gpu;
        raw_driver_of(job->from, &gpu);
        sink.pool = sink.on_gpu ? bench_gst_cuda_pool(gpu) : gst_buffer_pool_new();
        max = job->foreign ? 0 : job->slots;
    }
    GstStructure *config = gst_buffer_pool_get_config(sink.pool);
    gst_buffer_pool_config_set_params(config, caps, size, min, max);
    if (!sink.on_gpu || sink.sinks_pool)
        gst_buffer_pool_config_set_allocator(config, sink.allocator, &params);
    else
        gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    if (!gst_buffer_pool_set_config(sink.pool, config)) {
        /* The pool has changed what it does not support; it may accept its own version. */
        config = gst_buffer_pool_get_config(sink.pool);
        if (!gst_buffer_pool_set_config(sink.pool, config))
            bench_die(GPUD_UNSUPPORTED, "the sink's pool cannot be configured");
    }
    if (!gst_buffer_pool_set_active(sink.pool, TRUE))
        bench_elements_fail(sink.pipeline, "the pool of buffers cannot be started");
}

/* Pages that were never written all map to one page of zeros, which would be read from the
 * caches. */
static void sink_fill_foreign(void)
{
    uint32_t count = bench_job.foreign_buffers;
    GstBuffer **buffers = g_new0(GstBuffer *, count);
    for (uint32_t i = 0; i < count; i++) {
        if (gst_buffer_pool_acquire_buffer(sink.pool, &buffers[i], NULL) != GST_FLOW_OK)
            bench_die(GPUD_NO_MEMORY, "out of memory for %u frames", count);
        if (!sink.on_gpu)
            gst_buffer_memset(buffers[i], 0, 1, sink.size);
    }
    for (uint32_t i = 0; i < count; i++)
        gst_buffer_unref(buffers[i]);
    g_free(buffers);
}

/* The sender may be blocked in a push or in the pool, forever if its receivers died. */
static gpointer sink_watch(gpointer user)
{
    struct pollfd hangup = {.fd = bench_control, .events = POLLRDHUP};
    while (poll(&hangup, 1, -1) < 0)
        continue; /* no deadline: the coordinator closes the socket, or ends with this process */
    bench_elements_quit(sink.pipeline, sink.pool);
    return NULL;
}

static void sink_open(void)
{
    const struct bench_job *job = &bench_job;
    gst_init(NULL, NULL);
    layout = bench_layout_of(job);
    sink.on_gpu = bench_works_on_gpu(job, job->from);
    if (sink.on_gpu)
        bench_gst_cuda_open();
    GstCaps *caps = gst_caps_from_string(job->caps);
    GstVideoInfo info;
    if (caps && sink.on_gpu)
        gst_caps_set_features_simple(caps, gst_caps_features_new("memory:CUDAMemory", NULL));
    if (!caps || !gst_video_info_from_caps(&info, caps))
        bench_die(GPUD_UNSUPPORTED, "GStreamer does not know the format %s", job->format);
    sink.size = info.size;
    sink.pad = gst_pad_new("bench", GST_PAD_SRC);
    sink.pipeline = bench_elements_parse(job->sink, sink.pad);
    if (gst_element_set_state(sink.pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
        bench_elements_fail(sink.pipeline, "the sink does not start");

    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_pad_push_event(sink.pad, gst_event_new_stream_start("gpudirect-bench"));
    if (!gst_pad_push_event(sink.pad, gst_event_new_caps(caps)))
        bench_elements_fail(sink.pipeline, "the sink does not take the format");
    gst_pad_push_event(sink.pad, gst_event_new_segment(&segment));
    sink_choose_pool(caps);
    if (job->foreign)
        sink_fill_foreign();
    gst_caps_unref(caps);
    g_thread_unref(g_thread_new("watch", sink_watch, NULL));
}

static void *sink_acquire(uint64_t *size)
{
    /* No deadline here: the coordinator has one for the run. */
    if (gst_buffer_pool_acquire_buffer(sink.pool, &sink.buffer, NULL) != GST_FLOW_OK)
        bench_elements_fail(sink.pipeline, "the pool gives no buffer");
    sink.lent +=
        sink.sinks_pool ||
        (sink.allocator && gst_buffer_peek_memory(sink.buffer, 0)->allocator == sink.allocator);
    if (sink.on_gpu)
        return NULL;
    if (!gst_buffer_map(sink.buffer, &sink.map, GST_MAP_WRITE))
        bench_elements_fail(sink.pipeline, "a buffer cannot be mapped for writing");
    *size = MIN(sink.map.size, sink.size);
    return sink.map.data;
}

static void sink_mark(uint64_t index)
{
    struct bench_gpu_map map;
    if (!bench_gst_cuda_is(sink.buffer))
        bench_die(GPUD_UNSUPPORTED, "the sink's pool gives no CUDA memory: try --source foreign");
    if (!bench_gst_cuda_map(sink.buffer, GST_MAP_WRITE, &map))
        bench_elements_fail(sink.pipeline, "a buffer cannot be mapped for the GPU");
    mark_by_gpu(&raw_cuda, map.stream, map.address, &map.layout, index);
    if (!map.ordered) /* a receiver does not order its work after this stream */
        bench_gpu_finish(&raw_cuda, map.stream);
    bench_gst_cuda_unmap(sink.buffer, &map);
}

static void sink_send(void)
{
    if (!sink.on_gpu)
        gst_buffer_unmap(sink.buffer, &sink.map);
    GstFlowReturn flow = gst_pad_push(sink.pad, g_steal_pointer(&sink.buffer));
    if (flow != GST_FLOW_OK)
        bench_elements_fail(sink.pipeline, gst_flow_get_name(flow));
}

/* Sinks have no common way to ask for their receivers: frames of index 0 are sent until every
 * receiver has got one; more and more rarely, since a sink may keep all that it is given. */
static void sink_wait(void)
{
    gulong interval = PROBE_INTERVAL_US;
    bench_say(BENCH_READY);
    while (!bench_received(BENCH_GO)) {
        uint64_t size;
        void *data = sink_acquire(&size);
        if (!data)
            sink_mark(0);
        else if (size >= layout.size)
            bench_frame_mark(data, &layout, &bench_job, 0);
        sink_send();
        g_usleep(interval);
        interval = MIN(interval * 5 / 4, PROBE_INTERVAL_MAX_US);
    }
}

static void sink_end(void)
{
    gst_pad_push_event(sink.pad, gst_event_new_eos());
}

static void sink_count(struct bench_result *result)
{
    bench_elements_count(sink.pipeline, result);
    result->lent = sink.lent;
}

/* The end of the process, which follows, frees the rest: the watching thread may still use it. */
static void sink_close(void)
{
    gst_buffer_pool_set_active(sink.pool, FALSE);
    gst_element_set_state(sink.pipeline, GST_STATE_NULL);
    gst_pad_set_active(sink.pad, FALSE);
}

static const struct output_ops sink_ops = {
    .open = sink_open,
    .wait = sink_wait,
    .acquire = sink_acquire,
    .mark = sink_mark,
    .send = sink_send,
    .end = sink_end,
    .count = sink_count,
    .close = sink_close,
};

/* === memory and futexes ======================================================================= */

static void floor_wait(void)
{
    bench_say(BENCH_READY);
    bench_expect(BENCH_GO, 3 * BENCH_STEP_TIMEOUT, NULL, 0);
}

static void floor_end(void)
{
}

static void floor_count(struct bench_result *result)
{
    g_strlcpy(result->route, "map", sizeof(result->route));
}

static const struct output_ops floor_ops = {
    .open = bench_floor_open,
    .wait = floor_wait,
    .acquire = bench_floor_acquire,
    .send = bench_floor_send,
    .end = floor_end,
    .count = floor_count,
    .close = floor_end,
};

/* === the loop ================================================================================= */
/* Frame by frame, as fast as the receivers allow or at a pace. */

static const struct output_ops *ops;
static struct bench_page *page; /* for submit times; NULL: the core alone carries them */
static int64_t marking_ns;
static void *data; /* of the prepared frame; NULL: it is in GPU memory */

/* Acquires and marks the next frame. */
static void prepare(uint64_t index)
{
    uint64_t size;
    data = ops->acquire(&size);
    int64_t start = clock_now();
    if (!data)
        ops->mark(index);
    else if (size >= layout.size)
        bench_frame_mark(data, &layout, &bench_job, index);
    marking_ns += clock_now() - start;
}

static void send_frame(uint64_t index)
{
    if (page)
        atomic_store_explicit(&page->submitted[index % BENCH_SUBMIT_TIMES], clock_now(),
                              memory_order_release);
    ops->send();
}

/* index: in the section that began at `start`, from 1. */
static void pace(int64_t start, uint64_t index)
{
    if (bench_job.fps_num)
        clock_sleep_until(start + bench_paced_time(&bench_job, (double)index));
}

/* Sends all frames. The measured section has a pace of its own, or it would first catch up with
 * what the slow frames of the warm-up lost. Frames in GPU memory are marked before the pause, so
 * that latency does not include marking. */
static void send_all(struct bench_result *result, struct bench_result *before)
{
    const struct bench_job *job = &bench_job;
    int64_t start = clock_now(), cpu = 0, marking = 0;
    uint64_t before_start = 0, total = (uint64_t)job->warmup + job->frames;
    bool on_gpu = bench_uses_gpu(job), early = on_gpu && job->fps_num;
    for (uint64_t index = 1; index <= total; index++) {
        if (index == job->warmup + 1u) {
            ops->count(before);
            result->start = start = clock_now();
            before_start = job->warmup;
            cpu = clock_cpu_time();
            marking = marking_ns;
        }
        if (early)
            prepare(index);
        pace(start, index - before_start);
        if (!early)
            prepare(index);
        send_frame(index);
    }
    result->cpu_ns = clock_cpu_time() - cpu;
    result->marking_ns = on_gpu ? marking_ns - marking : 0;
    result->end = clock_now();
    result->frames = job->frames;
    result->all = total;
}

void bench_run_sender(void)
{
    struct bench_result before = {0}, result = {0};
    ops = bench_job.elements ? &sink_ops : bench_job.floor ? &floor_ops : &core_ops;
    layout = bench_layout_of(&bench_job);
    page = bench_page_map(bench_job.page);
    ops->open();
    bench_say(BENCH_LISTENING);
    ops->wait();
    send_all(&result, &before);
    ops->end();
    ops->count(&result);
    bench_result_subtract(&result, &before);
    bench_send_result(&result, NULL);
    bench_expect(BENCH_STOP, 6 * BENCH_STEP_TIMEOUT, NULL, 0);
    ops->close();
}
