/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A GStreamer sink. Buffers are pushed straight into its pad, from the pool or the allocator that
 * it proposes, as a decoder upstream would have it; "foreign" ones from a pool of plain memory, or
 * of GStreamer's CUDA memory. */
#include "control.h"
#include "cudamarks.h"
#include "elements.h"
#include "frames.h"
#include "gstcuda.h"
#include "outlet.h"

#include <gst/video/video.h>
#include <poll.h>
#include <string.h>

#define PROBE_INTERVAL_US 5000

struct outlet {
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
    struct bench_stamper *stamper; /* of frames in a GPU's memory; NULL: the CPU writes them */
    struct gpud_layout layout;
};

/* --- where buffers come from ------------------------------------------------------------------ */

static void configure_pool(struct outlet *outlet, GstCaps *caps, guint size, guint min, guint max,
                           const GstAllocationParams *params)
{
    GstStructure *config = gst_buffer_pool_get_config(outlet->pool);
    gst_buffer_pool_config_set_params(config, caps, size, min, max);
    if (!outlet->stamper || outlet->sinks_pool)
        gst_buffer_pool_config_set_allocator(config, outlet->allocator, params);
    else
        gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    if (!gst_buffer_pool_set_config(outlet->pool, config)) {
        /* It changed what it could not do; whether that is good enough, it says now. */
        config = gst_buffer_pool_get_config(outlet->pool);
        if (!gst_buffer_pool_set_config(outlet->pool, config))
            bench_child_fail(outlet->control, GPUD_UNSUPPORTED,
                             "the sink's pool cannot be configured");
    }
    if (!gst_buffer_pool_set_active(outlet->pool, TRUE))
        bench_elements_fail(outlet->control, outlet->pipeline,
                            "the pool of buffers cannot be started");
}

static void choose_pool(struct outlet *outlet, GstCaps *caps)
{
    const struct bench_job *job = outlet->job;
    GstQuery *query = gst_query_new_allocation(caps, TRUE);
    GstAllocationParams params;
    guint size = (guint)outlet->size, min = 0, max = job->slots;
    gst_allocation_params_init(&params);
    if (job->foreign) {
        min = job->foreign_buffers;
        max = 0;
    } else if (gst_pad_peer_query(outlet->pad, query)) {
        if (gst_query_get_n_allocation_pools(query) > 0) {
            guint wanted;
            gst_query_parse_nth_allocation_pool(query, 0, &outlet->pool, &wanted, &min, &max);
            size = MAX(size, wanted);
        }
        if (gst_query_get_n_allocation_params(query) > 0)
            gst_query_parse_nth_allocation_param(query, 0, &outlet->allocator, &params);
    }
    gst_query_unref(query);
    outlet->sinks_pool = outlet->pool != NULL;
    /* Without a pool of the sink's: one of ours over its allocator, as deep as the core's ring, so
     * that both have as many frames in flight. */
    if (!outlet->pool) {
        outlet->pool = outlet->stamper ? bench_gst_cuda_pool(outlet->control,
                                                             (unsigned)raw_cuda_ordinal(job->from))
                                       : gst_buffer_pool_new();
        max = job->foreign ? 0 : job->slots;
    }
    configure_pool(outlet, caps, size, min, max, &params);
}

/* Pages that nobody ever wrote are all one page of zeros, which is read from the caches. */
static void fill_foreign(struct outlet *outlet)
{
    uint32_t count = outlet->job->foreign_buffers;
    GstBuffer **buffers = g_new0(GstBuffer *, count);
    for (uint32_t i = 0; i < count; i++) {
        if (gst_buffer_pool_acquire_buffer(outlet->pool, &buffers[i], NULL) != GST_FLOW_OK)
            bench_child_fail(outlet->control, GPUD_NO_MEMORY, "out of memory for %u frames", count);
        if (!outlet->stamper)
            gst_buffer_memset(buffers[i], 0, 1, outlet->size);
    }
    for (uint32_t i = 0; i < count; i++)
        gst_buffer_unref(buffers[i]);
    g_free(buffers);
}

/* --- when the director is done with us -------------------------------------------------------- */

/* The sender may be blocked in a push or in the pool, for good where its receivers died. */
static gpointer watch(gpointer user)
{
    struct outlet *outlet = user;
    struct pollfd hangup = {.fd = outlet->control, .events = POLLRDHUP};
    while (poll(&hangup, 1, -1) < 0)
        continue; /* without a deadline: the director's end ends it */
    bench_elements_quit(outlet->pipeline, outlet->pool);
    return NULL;
}

/* --- the operations --------------------------------------------------------------------------- */

static void *open_gst(const struct bench_job *job, int control)
{
    struct outlet *outlet = g_new0(struct outlet, 1);
    outlet->job = job;
    outlet->control = control;
    gst_init(NULL, NULL);
    gpud_layout_init(&outlet->layout, job->format, job->width, job->height, 0, NULL);
    if (raw_cuda_ordinal(job->from) >= 0) {
        bench_gst_cuda_open(control);
        outlet->stamper = bench_stamper_create(job, control);
    }
    GstCaps *caps = gst_caps_from_string(job->caps);
    GstVideoInfo info;
    if (caps && outlet->stamper)
        gst_caps_set_features_simple(caps, gst_caps_features_new("memory:CUDAMemory", NULL));
    if (!caps || !gst_video_info_from_caps(&info, caps))
        bench_child_fail(control, GPUD_UNSUPPORTED, "GStreamer does not know the format %s",
                         job->format);
    outlet->size = info.size;
    outlet->pad = gst_pad_new("bench", GST_PAD_SRC);
    outlet->pipeline = bench_elements_parse(control, job->sink, outlet->pad);
    if (gst_element_set_state(outlet->pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
        bench_elements_fail(control, outlet->pipeline, "the sink does not start");

    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_pad_push_event(outlet->pad, gst_event_new_stream_start("gpudirect-bench"));
    if (!gst_pad_push_event(outlet->pad, gst_event_new_caps(caps)))
        bench_elements_fail(control, outlet->pipeline, "the sink does not take the format");
    gst_pad_push_event(outlet->pad, gst_event_new_segment(&segment));
    choose_pool(outlet, caps);
    if (job->foreign)
        fill_foreign(outlet);
    gst_caps_unref(caps);
    g_thread_unref(g_thread_new("watch", watch, outlet));
    return outlet;
}

static void *acquire_gst(void *user, uint64_t *size)
{
    struct outlet *outlet = user;
    /* No deadline: the director has one for all. */
    if (gst_buffer_pool_acquire_buffer(outlet->pool, &outlet->buffer, NULL) != GST_FLOW_OK)
        bench_elements_fail(outlet->control, outlet->pipeline, "the pool gives no buffer");
    bool theirs = outlet->sinks_pool ||
                  (outlet->allocator &&
                   gst_buffer_peek_memory(outlet->buffer, 0)->allocator == outlet->allocator);
    outlet->lent += theirs;
    if (outlet->stamper)
        return NULL;
    if (!gst_buffer_map(outlet->buffer, &outlet->map, GST_MAP_WRITE))
        bench_elements_fail(outlet->control, outlet->pipeline,
                            "a buffer cannot be mapped for writing");
    *size = MIN(outlet->map.size, outlet->size);
    return outlet->map.data;
}

static void mark_gst(void *user, uint64_t index)
{
    struct outlet *outlet = user;
    struct bench_gpu_map map;
    if (!bench_gst_cuda_is(outlet->buffer))
        bench_child_fail(outlet->control, GPUD_UNSUPPORTED,
                         "the sink's pool gives no CUDA memory: try --source foreign");
    if (!bench_gst_cuda_map(outlet->job, outlet->buffer, GST_MAP_WRITE, &map))
        bench_elements_fail(outlet->control, outlet->pipeline,
                            "a buffer cannot be mapped for the GPU");
    bench_stamper_mark(outlet->stamper, map.stream, map.address, &map.layout, index);
    if (!map.ordered)
        bench_stamper_finish(outlet->stamper, map.stream);
    bench_gst_cuda_unmap(outlet->buffer, &map);
}

static void send_gst(void *user)
{
    struct outlet *outlet = user;
    if (!outlet->stamper)
        gst_buffer_unmap(outlet->buffer, &outlet->map);
    GstFlowReturn flow = gst_pad_push(outlet->pad, g_steal_pointer(&outlet->buffer));
    if (flow != GST_FLOW_OK)
        bench_elements_fail(outlet->control, outlet->pipeline, gst_flow_get_name(flow));
}

/* No sink tells in one common way how many receivers it has; frames of index 0 find out. */
static void wait_gst(void *user)
{
    struct outlet *outlet = user;
    bench_send(outlet->control, BENCH_READY, NULL, 0);
    while (!bench_child_heard(outlet->control, BENCH_GO)) {
        uint64_t size;
        void *data = acquire_gst(outlet, &size);
        if (!data)
            mark_gst(outlet, 0);
        else if (bench_uses_rows(outlet->job))
            bench_rows_mark(data, &outlet->layout, outlet->job, 0);
        else
            bench_frame_mark(data, size, 0, outlet->job->full);
        send_gst(outlet);
        g_usleep(PROBE_INTERVAL_US);
    }
}

static void end_gst(void *user)
{
    struct outlet *outlet = user;
    gst_pad_push_event(outlet->pad, gst_event_new_eos());
}

static void count_gst(void *user, struct bench_result *result)
{
    struct outlet *outlet = user;
    bench_elements_count(outlet->pipeline, result);
    result->lent = outlet->lent;
}

static void close_gst(void *user)
{
    struct outlet *outlet = user;
    gst_buffer_pool_set_active(outlet->pool, FALSE);
    gst_element_set_state(outlet->pipeline, GST_STATE_NULL);
    gst_pad_set_active(outlet->pad, FALSE);
    /* The rest goes with the process, which ends now: the watching thread may look at it until
     * then. */
}

const struct bench_outlet_ops bench_outlet_gst = {
    .open = open_gst,
    .wait = wait_gst,
    .acquire = acquire_gst,
    .mark = mark_gst,
    .send = send_gst,
    .end = end_gst,
    .count = count_gst,
    .close = close_gst,
};
