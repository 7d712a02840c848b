/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A GStreamer sink. Buffers are pushed into its pad, from the pool or the allocator that it
 * proposes, as a decoder would do; "foreign" ones from a pool of plain memory, or of GStreamer's
 * CUDA memory. */
#include "control.h"
#include "elements.h"
#include "frames.h"
#include "gpumarks.h"
#include "gstcuda.h"
#include "output.h"

#include <gst/video/video.h>
#include <poll.h>
#include <string.h>

#define PROBE_INTERVAL_US 5000

struct output {
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

static void configure_pool(struct output *output, GstCaps *caps, guint size, guint min, guint max,
                           const GstAllocationParams *params)
{
    GstStructure *config = gst_buffer_pool_get_config(output->pool);
    gst_buffer_pool_config_set_params(config, caps, size, min, max);
    if (!output->writer || output->sinks_pool)
        gst_buffer_pool_config_set_allocator(config, output->allocator, params);
    else
        gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    if (!gst_buffer_pool_set_config(output->pool, config)) {
        /* The pool has changed what it does not support; it may accept its own version. */
        config = gst_buffer_pool_get_config(output->pool);
        if (!gst_buffer_pool_set_config(output->pool, config))
            bench_child_fail(output->control, GPUD_UNSUPPORTED,
                             "the sink's pool cannot be configured");
    }
    if (!gst_buffer_pool_set_active(output->pool, TRUE))
        bench_elements_fail(output->control, output->pipeline,
                            "the pool of buffers cannot be started");
}

static void choose_pool(struct output *output, GstCaps *caps)
{
    const struct bench_job *job = output->job;
    GstQuery *query = gst_query_new_allocation(caps, TRUE);
    GstAllocationParams params;
    guint size = (guint)output->size, min = 0, max = job->slots;
    gst_allocation_params_init(&params);
    if (job->foreign) {
        min = job->foreign_buffers;
        max = 0;
    } else if (gst_pad_peer_query(output->pad, query)) {
        if (gst_query_get_n_allocation_pools(query) > 0) {
            guint wanted;
            gst_query_parse_nth_allocation_pool(query, 0, &output->pool, &wanted, &min, &max);
            size = MAX(size, wanted);
        }
        if (gst_query_get_n_allocation_params(query) > 0)
            gst_query_parse_nth_allocation_param(query, 0, &output->allocator, &params);
    }
    gst_query_unref(query);
    output->sinks_pool = output->pool != NULL;
    /* The sink proposes no pool: this one uses its allocator, and is as deep as the core's ring, so
     * that both have as many frames in flight. */
    if (!output->pool) {
        output->pool = output->writer ? bench_gst_cuda_pool(output->control, output->gpu)
                                      : gst_buffer_pool_new();
        max = job->foreign ? 0 : job->slots;
    }
    configure_pool(output, caps, size, min, max, &params);
}

/* Pages that were never written all map to one page of zeros, which would be read from the
 * caches. */
static void fill_foreign(struct output *output)
{
    uint32_t count = output->job->foreign_buffers;
    GstBuffer **buffers = g_new0(GstBuffer *, count);
    for (uint32_t i = 0; i < count; i++) {
        if (gst_buffer_pool_acquire_buffer(output->pool, &buffers[i], NULL) != GST_FLOW_OK)
            bench_child_fail(output->control, GPUD_NO_MEMORY, "out of memory for %u frames", count);
        if (!output->writer)
            gst_buffer_memset(buffers[i], 0, 1, output->size);
    }
    for (uint32_t i = 0; i < count; i++)
        gst_buffer_unref(buffers[i]);
    g_free(buffers);
}

/* --- the end of the run -------------------------------------------------------- */

/* The sender may be blocked in a push or in the pool, forever if its receivers died. */
static gpointer watch(gpointer user)
{
    struct output *output = user;
    struct pollfd hangup = {.fd = output->control, .events = POLLRDHUP};
    while (poll(&hangup, 1, -1) < 0)
        continue; /* no deadline: the coordinator closes the socket, or ends with this process */
    bench_elements_quit(output->pipeline, output->pool);
    return NULL;
}

/* --- the operations --------------------------------------------------------------------------- */

static void *open_gst(const struct bench_job *job, int control)
{
    struct output *output = g_new0(struct output, 1);
    output->job = job;
    output->control = control;
    gst_init(NULL, NULL);
    gpud_layout_init(&output->layout, job->format, job->width, job->height, 0, NULL);
    if (bench_works_on_gpu(job, job->from)) {
        bench_gst_cuda_open(control);
        raw_driver_of(job->from, &output->gpu);
        output->writer = bench_mark_writer_create(&raw_cuda, job, control);
    }
    GstCaps *caps = gst_caps_from_string(job->caps);
    GstVideoInfo info;
    if (caps && output->writer)
        gst_caps_set_features_simple(caps, gst_caps_features_new("memory:CUDAMemory", NULL));
    if (!caps || !gst_video_info_from_caps(&info, caps))
        bench_child_fail(control, GPUD_UNSUPPORTED, "GStreamer does not know the format %s",
                         job->format);
    output->size = info.size;
    output->pad = gst_pad_new("bench", GST_PAD_SRC);
    output->pipeline = bench_elements_parse(control, job->sink, output->pad);
    if (gst_element_set_state(output->pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
        bench_elements_fail(control, output->pipeline, "the sink does not start");

    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_pad_push_event(output->pad, gst_event_new_stream_start("gpudirect-bench"));
    if (!gst_pad_push_event(output->pad, gst_event_new_caps(caps)))
        bench_elements_fail(control, output->pipeline, "the sink does not take the format");
    gst_pad_push_event(output->pad, gst_event_new_segment(&segment));
    choose_pool(output, caps);
    if (job->foreign)
        fill_foreign(output);
    gst_caps_unref(caps);
    g_thread_unref(g_thread_new("watch", watch, output));
    return output;
}

static void *acquire_gst(void *user, uint64_t *size)
{
    struct output *output = user;
    /* No deadline here: the coordinator has one for the run. */
    if (gst_buffer_pool_acquire_buffer(output->pool, &output->buffer, NULL) != GST_FLOW_OK)
        bench_elements_fail(output->control, output->pipeline, "the pool gives no buffer");
    bool theirs = output->sinks_pool ||
                  (output->allocator &&
                   gst_buffer_peek_memory(output->buffer, 0)->allocator == output->allocator);
    output->lent += theirs;
    if (output->writer)
        return NULL;
    if (!gst_buffer_map(output->buffer, &output->map, GST_MAP_WRITE))
        bench_elements_fail(output->control, output->pipeline,
                            "a buffer cannot be mapped for writing");
    *size = MIN(output->map.size, output->size);
    return output->map.data;
}

static void mark_gst(void *user, uint64_t index)
{
    struct output *output = user;
    struct bench_gpu_map map;
    if (!bench_gst_cuda_is(output->buffer))
        bench_child_fail(output->control, GPUD_UNSUPPORTED,
                         "the sink's pool gives no CUDA memory: try --source foreign");
    if (!bench_gst_cuda_map(output->job, output->buffer, GST_MAP_WRITE, &map))
        bench_elements_fail(output->control, output->pipeline,
                            "a buffer cannot be mapped for the GPU");
    bench_mark_writer_mark(output->writer, map.stream, map.address, &map.layout, index);
    if (!map.ordered)
        bench_mark_writer_finish(output->writer, map.stream);
    bench_gst_cuda_unmap(output->buffer, &map);
}

static void send_gst(void *user)
{
    struct output *output = user;
    if (!output->writer)
        gst_buffer_unmap(output->buffer, &output->map);
    GstFlowReturn flow = gst_pad_push(output->pad, g_steal_pointer(&output->buffer));
    if (flow != GST_FLOW_OK)
        bench_elements_fail(output->control, output->pipeline, gst_flow_get_name(flow));
}

/* Sinks have no common way to ask for their receivers: frames of index 0 are sent until every
 * receiver has got one. */
static void wait_gst(void *user)
{
    struct output *output = user;
    bench_send(output->control, BENCH_READY, NULL, 0);
    while (!bench_child_received(output->control, BENCH_GO)) {
        uint64_t size;
        void *data = acquire_gst(output, &size);
        if (!data)
            mark_gst(output, 0);
        else if (bench_uses_rows(output->job))
            bench_rows_mark(data, &output->layout, output->job, 0);
        else
            bench_frame_mark(data, size, 0, output->job->full);
        send_gst(output);
        g_usleep(PROBE_INTERVAL_US);
    }
}

static void end_gst(void *user)
{
    struct output *output = user;
    gst_pad_push_event(output->pad, gst_event_new_eos());
}

static void count_gst(void *user, struct bench_result *result)
{
    struct output *output = user;
    bench_elements_count(output->pipeline, result);
    result->lent = output->lent;
}

static void close_gst(void *user)
{
    struct output *output = user;
    gst_buffer_pool_set_active(output->pool, FALSE);
    gst_element_set_state(output->pipeline, GST_STATE_NULL);
    gst_pad_set_active(output->pad, FALSE);
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
