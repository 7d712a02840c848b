/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sender's process. */
#include "bench.h"

#include <gst/video/video.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* === outputcore ============================================================================== */
/* The core's sender. Frames lie in slots that it lends, or in the bench's own memory ("foreign"),
 * from malloc or the GPU's driver. On a GPU, work on the bench's own stream marks them. */

struct output {
    const struct bench_job *job;
    int control;
    struct gpud_context *context;
    struct gpud_device *device; /* where foreign memory is: the GPU, or the host */
    struct raw_driver *driver;  /* NULL: the CPU writes the frames */
    unsigned gpu;
    raw_stream stream;
    struct bench_mark_writer *writer;
    struct gpud_sender *sender;
    struct gpud_layout layout;
    struct gpud_frame *frame; /* acquired */
    struct foreign *free;     /* oldest first, so that none is still cached when it is used again */
    struct foreign **free_tail;
    pthread_mutex_t lock;
    pthread_cond_t freed;
};

/* A buffer of the bench's own. */
struct foreign {
    struct foreign *next;
    struct output *output;
    void *data; /* a pointer, or the GPU's address */
};

static void outputcore_check(struct output *output, enum gpud_status status,
                             const struct gpud_error *error)
{
    if (status != GPUD_OK)
        bench_child_fail(output->control, status, "%s", error->reason);
}

/* --- the GPU ---------------------------------------------------------------------------------- */

static void check_gpu(struct output *output, const char *what, int result)
{
    char reason[GPUD_REASON_MAX];
    if (result == 0)
        return;
    raw_say(output->driver, reason, sizeof(reason), what, result);
    bench_child_fail(output->control, GPUD_IO, "%s", reason);
}

/* The GPU stays current: this thread does everything. */
static void open_stream(struct output *output)
{
    char reason[GPUD_REASON_MAX];
    if (!raw_open(output->driver, reason, sizeof(reason)) ||
        !raw_enter(output->driver, output->gpu, reason, sizeof(reason)))
        bench_child_fail(output->control, GPUD_NO_DEVICE, "%s", reason);
    check_gpu(output, "a stream", raw_stream_create(output->driver, &output->stream));
    output->writer = bench_mark_writer_create(output->driver, output->job, output->control);
}

static void close_stream(struct output *output)
{
    if (!output->driver)
        return;
    bench_mark_writer_destroy(output->writer);
    raw_stream_destroy(output->driver, output->stream);
    raw_leave(output->driver);
}

static void mark_core(void *user, uint64_t index)
{
    struct output *output = user;
    struct gpud_frame_info info;
    info.size = sizeof(info);
    gpud_frame_get_info(output->frame, &info);
    bench_mark_writer_mark(output->writer, output->stream,
                           (raw_address)(uintptr_t)info.native + info.memory_offset, &info.layout,
                           index);
}

/* --- foreign memory --------------------------------------------------------------------------- */

static void outputcore_give_back(void *user)
{
    struct foreign *foreign = user;
    struct output *output = foreign->output;
    pthread_mutex_lock(&output->lock);
    foreign->next = NULL;
    *output->free_tail = foreign;
    output->free_tail = &foreign->next;
    pthread_cond_signal(&output->freed);
    pthread_mutex_unlock(&output->lock);
}

static void *alloc_on_gpu(struct output *output)
{
    raw_address address;
    check_gpu(output, "memory on the GPU",
              raw_alloc(output->driver, &address, output->layout.size));
    return (void *)(uintptr_t)address;
}

static void make_foreign(struct output *output)
{
    for (uint32_t i = 0; i < output->job->foreign_buffers; i++) {
        struct foreign *made = g_new0(struct foreign, 1);
        made->output = output;
        made->data = output->driver ? alloc_on_gpu(output) : malloc(output->layout.size);
        if (!made->data)
            bench_child_fail(output->control, GPUD_NO_MEMORY, "out of memory for %u frames",
                             output->job->foreign_buffers);
        /* Pages that were never written all map to one page of zeros, which would be read from the
         * caches. */
        if (!output->driver)
            memset(made->data, 1, output->layout.size);
        outputcore_give_back(made);
    }
}

static struct foreign *take_foreign(struct output *output)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += BENCH_STEP_TIMEOUT / GPUD_SEC;
    pthread_mutex_lock(&output->lock);
    while (!output->free)
        if (pthread_cond_timedwait(&output->freed, &output->lock, &until) != 0)
            bench_child_fail(output->control, GPUD_TIMEOUT, "no foreign buffer came back in time");
    struct foreign *taken = output->free;
    output->free = taken->next;
    if (!output->free)
        output->free_tail = &output->free;
    pthread_mutex_unlock(&output->lock);
    return taken;
}

static void acquire_foreign(struct output *output)
{
    struct gpud_error error;
    struct gpud_memory *memory;
    struct foreign *foreign = take_foreign(output);
    outputcore_check(output,
                     gpud_memory_wrap(output->device, foreign->data, output->layout.size,
                                      outputcore_give_back, foreign, &memory, &error),
                     &error);
    outputcore_check(output, gpud_frame_wrap(memory, 0, &output->layout, &output->frame, &error),
                     &error);
    gpud_memory_unref(&memory);
}

static void free_foreign(struct output *output)
{
    while (output->free) {
        struct foreign *gone = output->free;
        output->free = gone->next;
        if (output->driver)
            raw_free(output->driver, (raw_address)(uintptr_t)gone->data);
        else
            free(gone->data);
        g_free(gone);
    }
}

/* --- the operations --------------------------------------------------------------------------- */

static void *open_core(const struct bench_job *job, int control)
{
    struct output *output = g_new0(struct output, 1);
    struct gpud_error error;
    output->job = job;
    output->control = control;
    output->free_tail = &output->free;
    pthread_mutex_init(&output->lock, NULL);
    pthread_cond_init(&output->freed, NULL);
    outputcore_check(output, gpud_context_create(NULL, &output->context, &error), &error);
    output->driver = raw_driver_of(job->from, &output->gpu);
    outputcore_check(output,
                     gpud_device_open(output->context, output->driver ? job->from : "host",
                                      &output->device, &error),
                     &error);
    if (output->driver)
        open_stream(output);
    outputcore_check(
        output, gpud_layout_init(&output->layout, job->format, job->width, job->height, 0, &error),
        &error);
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    params.address = job->address;
    params.device = job->from;
    params.slots = job->slots;
    params.slow_receiver = job->slow_receiver;
    params.route = job->route[0] ? job->route : NULL;
    params.psk_file = job->psk_file[0] ? job->psk_file : NULL;
    params.allow_unauthenticated = job->allow_unauthenticated;
    outputcore_check(output, gpud_sender_create(output->context, &params, &output->sender, &error),
                     &error);
    struct gpud_media media = {.picture = {.layout = output->layout}};
    outputcore_check(output, gpud_sender_configure(output->sender, &media, &error), &error);
    if (job->foreign)
        make_foreign(output);
    return output;
}

static void wait_core(void *user)
{
    struct output *output = user;
    struct gpud_error error;
    outputcore_check(output,
                     gpud_sender_wait(output->sender, output->job->receivers,
                                      (output->job->remote ? 2 : 1) * output->job->patience,
                                      &error),
                     &error);
    bench_send(output->control, BENCH_READY, NULL, 0);
    bench_child_expect(output->control, BENCH_GO, clock_now() + 3 * BENCH_STEP_TIMEOUT, NULL, 0);
}

static void *acquire_core(void *user, uint64_t *size)
{
    struct output *output = user;
    struct gpud_error error;
    void *data;
    if (output->job->foreign)
        acquire_foreign(output);
    else
        outputcore_check(
            output, gpud_sender_acquire(output->sender, BENCH_STEP_TIMEOUT, &output->frame, &error),
            &error);
    *size = output->layout.size;
    if (output->driver) {
        if (!output->job->foreign)
            outputcore_check(output, gpud_frame_wait(output->frame, output->stream, &error),
                             &error);
        return NULL;
    }
    outputcore_check(output,
                     gpud_frame_map(output->frame, GPUD_WRITE, BENCH_STEP_TIMEOUT, &data, &error),
                     &error);
    return data;
}

static void send_core(void *user)
{
    struct output *output = user;
    struct gpud_error error;
    if (output->driver)
        outputcore_check(output, gpud_frame_post(output->frame, output->stream, &error), &error);
    else
        gpud_frame_unmap(output->frame);
    outputcore_check(output,
                     gpud_sender_submit(output->sender, &output->frame, BENCH_STEP_TIMEOUT, &error),
                     &error);
}

static void end_core(void *user)
{
    struct output *output = user;
    struct gpud_error error;
    outputcore_check(output, gpud_sender_send_eos(output->sender, &error), &error);
}

static void count_core(void *user, struct bench_result *result)
{
    struct output *output = user;
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    gpud_sender_get_info(output->sender, &info);
    memcpy(result->route, info.path, sizeof(result->route));
    memcpy(result->fallback_reason, info.fallback_reason, sizeof(result->fallback_reason));
    result->copies_cpu = (int64_t)info.copies_cpu;
    result->copies_gpu = (int64_t)info.copies_gpu;
    result->kicks = (int64_t)info.kicks;
    result->waits = (int64_t)info.waits_cpu;
    result->waits_device = (int64_t)info.waits_device;
    result->dropped = (int64_t)info.dropped;
    result->lent = output->job->foreign ? 0 : info.frames;
}

static void close_core(void *user)
{
    struct output *output = user;
    gpud_sender_destroy(&output->sender);
    free_foreign(output);
    close_stream(output);
    gpud_device_close(&output->device);
    gpud_context_destroy(&output->context);
    pthread_cond_destroy(&output->freed);
    pthread_mutex_destroy(&output->lock);
    g_free(output);
}

const struct bench_output_ops bench_output_core = {
    .open = open_core,
    .wait = wait_core,
    .acquire = acquire_core,
    .mark = mark_core,
    .send = send_core,
    .end = end_core,
    .count = count_core,
    .close = close_core,
};

/* === outputgst =============================================================================== */
/* A GStreamer sink. Buffers are pushed into its pad, from the pool or the allocator that it
 * proposes, as a decoder would do; "foreign" ones from a pool of plain memory, or of GStreamer's
 * CUDA memory. */

#define PROBE_INTERVAL_US 5000

struct outputgst_output {
    const struct bench_job *job;
    int control;
    GstElement *pipeline;
    GstPad *pad;
    GstBufferPool *pool;
    GstAllocator *allocator; /* the sink's own; NULL: none proposed */
    bool sinks_pool;         /* the pool is the sink's */
    gsize size;              /* of a frame */
    GstBuffer *buffer;       /* acquired */
    GstMapInfo map;
    guint64 lent;
    struct bench_mark_writer *writer; /* marks frames in GPU memory; NULL: the CPU writes them */
    unsigned gpu;
    struct gpud_layout layout;
};

/* --- where buffers come from ------------------------------------------------------------------ */

static void configure_pool(struct outputgst_output *outputgst_output, GstCaps *caps, guint size,
                           guint min, guint max, const GstAllocationParams *params)
{
    GstStructure *config = gst_buffer_pool_get_config(outputgst_output->pool);
    gst_buffer_pool_config_set_params(config, caps, size, min, max);
    if (!outputgst_output->writer || outputgst_output->sinks_pool)
        gst_buffer_pool_config_set_allocator(config, outputgst_output->allocator, params);
    else
        gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    if (!gst_buffer_pool_set_config(outputgst_output->pool, config)) {
        /* The pool has changed what it does not support; it may accept its own version. */
        config = gst_buffer_pool_get_config(outputgst_output->pool);
        if (!gst_buffer_pool_set_config(outputgst_output->pool, config))
            bench_child_fail(outputgst_output->control, GPUD_UNSUPPORTED,
                             "the sink's pool cannot be configured");
    }
    if (!gst_buffer_pool_set_active(outputgst_output->pool, TRUE))
        bench_elements_fail(outputgst_output->control, outputgst_output->pipeline,
                            "the pool of buffers cannot be started");
}

static void choose_pool(struct outputgst_output *outputgst_output, GstCaps *caps)
{
    const struct bench_job *job = outputgst_output->job;
    GstQuery *query = gst_query_new_allocation(caps, TRUE);
    GstAllocationParams params;
    guint size = (guint)outputgst_output->size, min = 0, max = job->slots;
    gst_allocation_params_init(&params);
    if (job->foreign) {
        min = job->foreign_buffers;
        max = 0;
    } else if (gst_pad_peer_query(outputgst_output->pad, query)) {
        if (gst_query_get_n_allocation_pools(query) > 0) {
            guint wanted;
            gst_query_parse_nth_allocation_pool(query, 0, &outputgst_output->pool, &wanted, &min,
                                                &max);
            size = MAX(size, wanted);
        }
        if (gst_query_get_n_allocation_params(query) > 0)
            gst_query_parse_nth_allocation_param(query, 0, &outputgst_output->allocator, &params);
    }
    gst_query_unref(query);
    outputgst_output->sinks_pool = outputgst_output->pool != NULL;
    /* The sink proposes no pool: this one uses its allocator, and is as deep as the core's ring, so
     * that both have as many frames in flight. */
    if (!outputgst_output->pool) {
        outputgst_output->pool =
            outputgst_output->writer
                ? bench_gst_cuda_pool(outputgst_output->control, outputgst_output->gpu)
                : gst_buffer_pool_new();
        max = job->foreign ? 0 : job->slots;
    }
    configure_pool(outputgst_output, caps, size, min, max, &params);
}

/* Pages that were never written all map to one page of zeros, which would be read from the
 * caches. */
static void fill_foreign(struct outputgst_output *outputgst_output)
{
    uint32_t count = outputgst_output->job->foreign_buffers;
    GstBuffer **buffers = g_new0(GstBuffer *, count);
    for (uint32_t i = 0; i < count; i++) {
        if (gst_buffer_pool_acquire_buffer(outputgst_output->pool, &buffers[i], NULL) !=
            GST_FLOW_OK)
            bench_child_fail(outputgst_output->control, GPUD_NO_MEMORY,
                             "out of memory for %u frames", count);
        if (!outputgst_output->writer)
            gst_buffer_memset(buffers[i], 0, 1, outputgst_output->size);
    }
    for (uint32_t i = 0; i < count; i++)
        gst_buffer_unref(buffers[i]);
    g_free(buffers);
}

/* --- the end of the run -------------------------------------------------------- */

/* The sender may be blocked in a push or in the pool, forever if its receivers died. */
static gpointer outputgst_watch(gpointer user)
{
    struct outputgst_output *outputgst_output = user;
    struct pollfd hangup = {.fd = outputgst_output->control, .events = POLLRDHUP};
    while (poll(&hangup, 1, -1) < 0)
        continue; /* no deadline: the coordinator closes the socket, or ends with this process */
    bench_elements_quit(outputgst_output->pipeline, outputgst_output->pool);
    return NULL;
}

/* --- the operations --------------------------------------------------------------------------- */

static void *open_gst(const struct bench_job *job, int control)
{
    struct outputgst_output *outputgst_output = g_new0(struct outputgst_output, 1);
    outputgst_output->job = job;
    outputgst_output->control = control;
    gst_init(NULL, NULL);
    gpud_layout_init(&outputgst_output->layout, job->format, job->width, job->height, 0, NULL);
    if (bench_works_on_gpu(job, job->from)) {
        bench_gst_cuda_open(control);
        raw_driver_of(job->from, &outputgst_output->gpu);
        outputgst_output->writer = bench_mark_writer_create(&raw_cuda, job, control);
    }
    GstCaps *caps = gst_caps_from_string(job->caps);
    GstVideoInfo info;
    if (caps && outputgst_output->writer)
        gst_caps_set_features_simple(caps, gst_caps_features_new("memory:CUDAMemory", NULL));
    if (!caps || !gst_video_info_from_caps(&info, caps))
        bench_child_fail(control, GPUD_UNSUPPORTED, "GStreamer does not know the format %s",
                         job->format);
    outputgst_output->size = info.size;
    outputgst_output->pad = gst_pad_new("bench", GST_PAD_SRC);
    outputgst_output->pipeline = bench_elements_parse(control, job->sink, outputgst_output->pad);
    if (gst_element_set_state(outputgst_output->pipeline, GST_STATE_PLAYING) ==
        GST_STATE_CHANGE_FAILURE)
        bench_elements_fail(control, outputgst_output->pipeline, "the sink does not start");

    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_pad_push_event(outputgst_output->pad, gst_event_new_stream_start("gpudirect-bench"));
    if (!gst_pad_push_event(outputgst_output->pad, gst_event_new_caps(caps)))
        bench_elements_fail(control, outputgst_output->pipeline,
                            "the sink does not take the format");
    gst_pad_push_event(outputgst_output->pad, gst_event_new_segment(&segment));
    choose_pool(outputgst_output, caps);
    if (job->foreign)
        fill_foreign(outputgst_output);
    gst_caps_unref(caps);
    g_thread_unref(g_thread_new("watch", outputgst_watch, outputgst_output));
    return outputgst_output;
}

static void *acquire_gst(void *user, uint64_t *size)
{
    struct outputgst_output *outputgst_output = user;
    /* No deadline here: the coordinator has one for the run. */
    if (gst_buffer_pool_acquire_buffer(outputgst_output->pool, &outputgst_output->buffer, NULL) !=
        GST_FLOW_OK)
        bench_elements_fail(outputgst_output->control, outputgst_output->pipeline,
                            "the pool gives no buffer");
    bool theirs = outputgst_output->sinks_pool ||
                  (outputgst_output->allocator &&
                   gst_buffer_peek_memory(outputgst_output->buffer, 0)->allocator ==
                       outputgst_output->allocator);
    outputgst_output->lent += theirs;
    if (outputgst_output->writer)
        return NULL;
    if (!gst_buffer_map(outputgst_output->buffer, &outputgst_output->map, GST_MAP_WRITE))
        bench_elements_fail(outputgst_output->control, outputgst_output->pipeline,
                            "a buffer cannot be mapped for writing");
    *size = MIN(outputgst_output->map.size, outputgst_output->size);
    return outputgst_output->map.data;
}

static void mark_gst(void *user, uint64_t index)
{
    struct outputgst_output *outputgst_output = user;
    struct bench_gpu_map map;
    if (!bench_gst_cuda_is(outputgst_output->buffer))
        bench_child_fail(outputgst_output->control, GPUD_UNSUPPORTED,
                         "the sink's pool gives no CUDA memory: try --source foreign");
    if (!bench_gst_cuda_map(outputgst_output->job, outputgst_output->buffer, GST_MAP_WRITE, &map))
        bench_elements_fail(outputgst_output->control, outputgst_output->pipeline,
                            "a buffer cannot be mapped for the GPU");
    bench_mark_writer_mark(outputgst_output->writer, map.stream, map.address, &map.layout, index);
    if (!map.ordered)
        bench_mark_writer_finish(outputgst_output->writer, map.stream);
    bench_gst_cuda_unmap(outputgst_output->buffer, &map);
}

static void send_gst(void *user)
{
    struct outputgst_output *outputgst_output = user;
    if (!outputgst_output->writer)
        gst_buffer_unmap(outputgst_output->buffer, &outputgst_output->map);
    GstFlowReturn flow =
        gst_pad_push(outputgst_output->pad, g_steal_pointer(&outputgst_output->buffer));
    if (flow != GST_FLOW_OK)
        bench_elements_fail(outputgst_output->control, outputgst_output->pipeline,
                            gst_flow_get_name(flow));
}

/* Sinks have no common way to ask for their receivers: frames of index 0 are sent until every
 * receiver has got one. */
static void wait_gst(void *user)
{
    struct outputgst_output *outputgst_output = user;
    bench_send(outputgst_output->control, BENCH_READY, NULL, 0);
    while (!bench_child_received(outputgst_output->control, BENCH_GO)) {
        uint64_t size;
        void *data = acquire_gst(outputgst_output, &size);
        if (!data)
            mark_gst(outputgst_output, 0);
        else if (bench_uses_rows(outputgst_output->job))
            bench_rows_mark(data, &outputgst_output->layout, outputgst_output->job, 0);
        else
            bench_frame_mark(data, size, 0, outputgst_output->job->full);
        send_gst(outputgst_output);
        g_usleep(PROBE_INTERVAL_US);
    }
}

static void end_gst(void *user)
{
    struct outputgst_output *outputgst_output = user;
    gst_pad_push_event(outputgst_output->pad, gst_event_new_eos());
}

static void count_gst(void *user, struct bench_result *result)
{
    struct outputgst_output *outputgst_output = user;
    bench_elements_count(outputgst_output->pipeline, result);
    result->lent = outputgst_output->lent;
}

static void close_gst(void *user)
{
    struct outputgst_output *outputgst_output = user;
    gst_buffer_pool_set_active(outputgst_output->pool, FALSE);
    gst_element_set_state(outputgst_output->pipeline, GST_STATE_NULL);
    gst_pad_set_active(outputgst_output->pad, FALSE);
    /* The end of the process, which follows, frees the rest: the watching thread may still use
     * it. */
}

const struct bench_output_ops bench_output_gst = {
    .open = open_gst,
    .wait = wait_gst,
    .acquire = acquire_gst,
    .mark = mark_gst,
    .send = send_gst,
    .end = end_gst,
    .count = count_gst,
    .close = close_gst,
};

/* === sender ================================================================================== */
/* The sender: frame by frame, as fast as the receivers allow or at a pace. */

struct sender {
    const struct bench_job *job;
    const struct bench_output_ops *ops;
    void *output;
    struct gpud_layout layout;
    bool rows;
    int64_t
        *times; /* submit times, shared with the receivers; NULL: frames or the core carry them */
    int64_t marking_ns;
    int control;
    int64_t *intervals; /* between returns of send, with --join; else NULL */
    int64_t returned;
    void *data; /* of the prepared frame; NULL: it is in GPU memory */
};

/* Acquires and marks the next frame. */
static void sender_prepare(struct sender *self, uint64_t index)
{
    uint64_t size;
    self->data = self->ops->acquire(self->output, &size);
    int64_t start = clock_now();
    if (!self->data)
        self->ops->mark(self->output, index);
    else if (!self->rows)
        bench_frame_mark(self->data, size, index, self->job->full);
    else if (size >= self->layout.size)
        bench_rows_mark(self->data, &self->layout, self->job, index);
    self->marking_ns += clock_now() - start;
}

static void send_frame(struct sender *self, uint64_t index)
{
    if (self->times)
        __atomic_store_n(&self->times[index % BENCH_SUBMIT_TIMES], clock_now(), __ATOMIC_RELEASE);
    if (!self->rows)
        bench_frame_set_time(self->data, clock_now());
    self->ops->send(self->output);
}

static void add_interval(struct sender *self, struct bench_result *result, bool first)
{
    int64_t now = clock_now();
    if (!first)
        self->intervals[result->intervals++] = now - self->returned;
    self->returned = now;
}

/* index: in the section that began at `start`, from 1. */
static void sender_pace(const struct bench_job *job, int64_t start, uint64_t index)
{
    if (job->fps_num)
        clock_sleep_until(start + bench_paced_time(job, (double)index));
}

/* Sends all frames. The measured section has a pace of its own, or it would first catch up with
 * what the slow frames of the warm-up lost. Frames in GPU memory are marked before the pause, so
 * that latency does not include marking. */
static void send_all(struct sender *self, struct bench_result *result, struct bench_result *before)
{
    const struct bench_job *job = self->job;
    int64_t start = clock_now(), cpu = 0, marking = 0;
    uint64_t before_start = 0;
    uint64_t total = (uint64_t)job->warmup + job->frames;
    bool early = self->rows && job->fps_num;
    for (uint64_t index = 1; index <= total; index++) {
        if (index == job->warmup + 1u) {
            self->ops->count(self->output, before);
            if (job->joins)
                bench_send(self->control, BENCH_READY, NULL, 0);
            result->start = start = clock_now();
            before_start = job->warmup;
            cpu = clock_cpu_time();
            marking = self->marking_ns;
        }
        if (early)
            sender_prepare(self, index);
        sender_pace(job, start, index - before_start);
        if (!early)
            sender_prepare(self, index);
        send_frame(self, index);
        if (self->intervals && index > job->warmup)
            add_interval(self, result, index == job->warmup + 1u);
    }
    result->cpu_ns = clock_cpu_time() - cpu;
    result->marking_ns = self->rows ? self->marking_ns - marking : 0;
    result->end = clock_now();
    result->frames = job->frames;
    result->all = total;
}

/* Goes on until receivers that joined late have their frames. These are not measured: receivers do
 * not count frames of index 0. */
static void send_to_late(struct sender *self, struct bench_result *result)
{
    struct bench_result end;
    int64_t start = clock_now();
    self->ops->count(self->output, result);
    for (uint64_t i = 1; !bench_child_received(self->control, BENCH_GO); i++) {
        sender_prepare(self, 0);
        sender_pace(self->job, start, i);
        send_frame(self, 0);
    }
    self->ops->count(self->output, &end);
    result->dropped = end.dropped;
}

/* All receivers stay connected. */
static void stand_still(struct sender *self, struct bench_result *result)
{
    if (!self->job->joins)
        self->ops->count(self->output, result);
    bench_send(self->control, BENCH_READY, NULL, 0);
    bench_child_expect(self->control, BENCH_GO,
                       clock_now() + self->job->idle + 6 * BENCH_STEP_TIMEOUT, NULL, 0);
}

void bench_run_sender(int control)
{
    struct bench_job job;
    bench_child_expect(control, BENCH_JOB, clock_now() + BENCH_STEP_TIMEOUT, &job, sizeof(job));
    struct sender self = {.job = &job, .control = control, .rows = bench_uses_rows(&job)};
    self.ops = bench_uses_elements(&job) ? &bench_output_gst : &bench_output_core;
    gpud_layout_init(&self.layout, job.format, job.width, job.height, 0, NULL);
    if (self.rows && bench_uses_elements(&job))
        self.times = bench_submit_times_map(&job, true);
    if (job.joins)
        self.intervals = g_new0(int64_t, job.frames);
    self.output = self.ops->open(&job, control);
    bench_send(control, BENCH_LISTENING, NULL, 0);
    self.ops->wait(self.output);

    struct bench_result before = {0}, result = {0};
    send_all(&self, &result, &before);
    if (job.joins)
        send_to_late(&self, &result);
    if (job.idle)
        stand_still(&self, &result);
    self.ops->end(self.output);
    if (!job.joins && !job.idle)
        self.ops->count(self.output, &result);
    bench_result_subtract(&result, &before);
    bench_send_result(control, &result, self.intervals);
    bench_child_expect(control, BENCH_STOP, clock_now() + 6 * BENCH_STEP_TIMEOUT, NULL, 0);
    self.ops->close(self.output);
    g_free(self.intervals);
}
