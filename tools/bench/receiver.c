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

struct bench_counters bench_counters;

static void counters_init(void (*count)(struct bench_result *result))
{
    const struct bench_job *job = &bench_job;
    bench_counters = (struct bench_counters){.count = count, .layout = bench_layout_of(job)};
    bench_counters.latencies = g_new0(int64_t, (job->joins ? 3 : 2) * (size_t)job->frames);
    bench_counters.latencies_cpu = g_new0(int64_t, job->frames);
    if (job->joins)
        bench_counters.intervals = g_new0(int64_t, job->frames);
    if (bench_uses_rows(job) && job->elements)
        bench_counters.page = bench_page_map(job->page);
}

static void counters_free(void)
{
    g_free(bench_counters.latencies);
    g_free(bench_counters.latencies_cpu);
    g_free(bench_counters.intervals);
}

static void counters_finish_section(void)
{
    struct bench_counters *counters = &bench_counters;
    counters->result.cpu_ns =
        clock_cpu_time() - counters->cpu_start - (counters->probe_ns - counters->probe_start);
    counters->result.marking_ns = counters->marking_ns - counters->marking_start;
    counters->complete = true;
}

static void counters_measure(const struct bench_frame_times *times, int64_t submitted)
{
    struct bench_counters *counters = &bench_counters;
    struct bench_result *result = &counters->result;
    if (!counters->started) {
        counters->started = true;
        result->start = times->counted;
        counters->count(&counters->before);
        counters->cpu_start = clock_cpu_time();
        counters->probe_start = counters->probe_ns;
        counters->marking_start = counters->marking_ns;
    }
    result->end = times->counted;
    result->frames++;
    if (counters->intervals) {
        int64_t arrived = times->acquired ? times->acquired : times->counted;
        if (result->frames > 1)
            counters->intervals[result->intervals++] = arrived - counters->arrived;
        counters->arrived = arrived;
    }
    if (times->seen && submitted && result->latencies < bench_job.frames)
        counters->latencies[result->latencies++] = times->seen - submitted;
    if (times->acquired && submitted && result->latencies_cpu < bench_job.frames)
        counters->latencies_cpu[result->latencies_cpu++] = times->acquired - submitted;
}

void bench_count(bool whole, uint64_t index, const struct bench_frame_times *times,
                 uint64_t reported_drops)
{
    struct bench_counters *counters = &bench_counters;
    struct bench_result *result = &counters->result;
    uint64_t total = (uint64_t)bench_job.warmup + bench_job.frames;
    if (whole && index == 0)
        return; /* not part of the stream: sent until every receiver is there, or to a late one */
    result->all++;
    result->reported_drops = reported_drops;
    if (!whole || index <= counters->last || index > total) {
        result->torn++;
        return;
    }
    int64_t submitted = times->submitted;
    if (!submitted && counters->page)
        submitted = atomic_load_explicit(&counters->page->submitted[index % BENCH_SUBMIT_TIMES],
                                         memory_order_acquire);
    if (!counters->first)
        counters->first = index;
    counters->last = index;
    if (index > bench_job.warmup)
        counters_measure(times, submitted);
    if (index == total)
        counters_finish_section();
}

/* Checks and counts a frame that the CPU can read since `now`. submitted: 0: its mark has the
 * time. */
static void counters_check(const void *data, uint64_t size, int64_t now, int64_t submitted,
                           uint64_t reported_drops)
{
    const struct gpud_layout *layout = &bench_counters.layout;
    uint64_t index;
    int64_t marked = 0; /* by the sender's clock */
    bool whole;
    if (bench_uses_rows(&bench_job))
        whole = size >= layout->size && bench_rows_check_frame(data, layout, &bench_job, &index);
    else
        whole = bench_frame_check(data, size, bench_job.full, &index, &marked);
    bench_count(whole, whole ? index : 0,
                &(struct bench_frame_times){
                    .submitted = submitted || bench_job.remote ? submitted : marked,
                    .seen = now,
                    .counted = now,
                },
                reported_drops);
}

/* After the last frame; the counters of the route are there. */
static void counters_report(void)
{
    struct bench_counters *counters = &bench_counters;
    struct bench_result *result = &counters->result;
    bench_result_subtract(result, &counters->before);
    if (counters->started && !counters->complete)
        counters_finish_section();
    /* One after the other, as bench_send_result() expects them. */
    int64_t *end = counters->latencies + result->latencies;
    memcpy(end, counters->latencies_cpu, result->latencies_cpu * sizeof(int64_t));
    if (counters->intervals)
        memcpy(end + result->latencies_cpu, counters->intervals,
               result->intervals * sizeof(int64_t));
    bench_send_result(result, counters->latencies);
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

/* === the core ================================================================================ */
/* Receivers by the core's API: one that takes all frames, and those of --join, which connect, take
 * a few frames and leave. */

#define JOIN_FRAMES 5 /* taken by each receiver of --join */

static struct {
    struct gpud_context *context;
    struct gpud_receiver *receiver;
    bool on_host; /* both ends are the host: a frame is readable once it is acquired */
    struct gpud_device *device; /* the GPU that reads the frames; NULL: the CPU does */
    struct raw_driver *driver;  /* of that GPU */
    raw_stream stream;
    bool joins; /* one of --join */
} core;

static void core_on_event(void *user, enum gpud_event event, const void *data)
{
    if (event == GPUD_EVENT_CONNECTED && !core.joins)
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
        bench_gpu_read(core.stream, (raw_address)(uintptr_t)info.native + info.memory_offset,
                       &info.layout, now, (int64_t)info.submitted_ns, info.dropped);
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

static void core_open(uint32_t number)
{
    const struct bench_job *job = &bench_job;
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    char device[32], reason[GPUD_REASON_MAX];
    unsigned gpu;
    params.address = job->address;
    params.device = bench_device_of(job, number, device, sizeof(device));
    params.slots = job->slots;
    params.route = job->route[0] ? job->route : NULL;
    params.psk_file = job->psk_file[0] ? job->psk_file : NULL;
    params.on_event = core_on_event;
    bench_must(NULL, gpud_receiver_create(core.context, &params, &core.receiver, &bench_error));
    /* "auto" may be a GPU: its frames are mapped. */
    core.on_host = strcmp(job->from, "host") == 0 && strcmp(device, "host") == 0;
    counters_init(core_count);
    core.driver = raw_driver_of(device, &gpu);
    if (!core.driver)
        return;
    bench_must(NULL, gpud_device_open(core.context, device, &core.device, &bench_error));
    if (!raw_open(core.driver, reason, sizeof(reason)) ||
        !raw_enter(core.driver, gpu, reason, sizeof(reason)))
        bench_die(GPUD_NO_DEVICE, "%s", reason);
    bench_must_gpu(core.driver, "a stream", raw_stream_create(core.driver, &core.stream));
    bench_gpu_open_reader(core.driver, gpu, !core.joins);
}

static void core_close(void)
{
    gpud_receiver_destroy(&core.receiver);
    if (core.driver) {
        raw_stream_destroy(core.driver, core.stream);
        raw_leave(core.driver);
        gpud_device_close(&core.device);
    }
    counters_free();
}

void bench_run_receiver_core(void)
{
    bool counted = false;
    bench_must(NULL, gpud_context_create(NULL, &core.context, &bench_error));
    core_open(bench_job.number);
    for (;;) {
        struct gpud_frame *frame;
        enum gpud_status status =
            gpud_receiver_acquire(core.receiver, 3 * BENCH_STEP_TIMEOUT, &frame, &bench_error);
        if (status == GPUD_CLOSED)
            break;
        bench_must(NULL, status);
        core_take_frame(frame);
        if (bench_job.joins && bench_counters.complete && !counted) {
            /* Later frames are for receivers that joined late. */
            core_count(&bench_counters.result);
            counted = true;
        }
    }
    if (core.driver)
        bench_gpu_close_reader();
    if (!counted)
        core_count(&bench_counters.result);
    counters_report();
    core_close();
    gpud_context_destroy(&core.context);
}

static void core_join_once(uint32_t number, struct bench_result *result)
{
    const struct bench_result *own = &bench_counters.result;
    core_open(number);
    for (unsigned taken = 0; taken < JOIN_FRAMES; taken++) {
        struct gpud_frame *frame;
        bench_must(NULL, gpud_receiver_acquire(core.receiver, 3 * BENCH_STEP_TIMEOUT, &frame,
                                               &bench_error));
        result->joined += taken == 0;
        core_take_frame(frame);
    }
    if (core.driver)
        bench_gpu_close_reader();
    result->torn += own->torn;
    result->measured += own->all == JOIN_FRAMES;
    uint64_t whole = own->all - own->torn;
    if (whole > 0)
        result->missing += bench_counters.last - bench_counters.first + 1 - whole;
    core_close();
    result->left++;
}

void bench_run_joiner(void)
{
    const struct bench_job *job = &bench_job;
    struct bench_result result = {0};
    core.joins = true;
    bench_must(NULL, gpud_context_create(NULL, &core.context, &bench_error));
    /* Devices are opened once before, since starting a driver takes long and is no part of
     * connecting. A context keeps them open after they are closed. */
    for (uint32_t i = 1; i <= job->joins && i <= GPUD_RECEIVERS_MAX; i++) {
        char name[32];
        struct gpud_device *device;
        bench_device_of(job, job->receivers + i, name, sizeof(name));
        bench_must(NULL, gpud_device_open(core.context, name, &device, &bench_error));
        gpud_device_close(&device);
    }
    bench_say(BENCH_READY);
    bench_expect(BENCH_GO, 6 * BENCH_STEP_TIMEOUT + bench_paced_time(job, job->warmup), NULL, 0);
    int64_t start = clock_now();
    for (uint32_t i = 0; i < job->joins; i++) {
        clock_sleep_until(start + bench_paced_time(job, (i + 0.5) * job->frames / job->joins));
        core_join_once(job->receivers + 1 + i, &result);
    }
    bench_send_result(&result, NULL);
    gpud_context_destroy(&core.context);
}

/* === a GStreamer source ====================================================================== */
/* It is linked to a pad of the bench. */

/* Once the sender has ended, no frames are expected after this long without one. */
#define GRACE (500 * GPUD_MSEC)
#define GRACE_NETWORK (5 * GPUD_SEC) /* a frame may be on its way for this long */

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
    bench_gpu_read(map.stream, map.address, &map.layout, now, 0, 0);
    g_queue_push_tail(&source.unread, buffer);
    size_t pending = bench_gpu_wait(bench_job.slots / 2);
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
    bool before = bench_counters.complete;
    if (source.on_gpu)
        source_read_by_gpu(buffer);
    else
        source_read_by_cpu(buffer);
    if (bench_counters.complete && !before)
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
        bench_gpu_open_reader(&raw_cuda, gpu, true);
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
    source_count(&bench_counters.result);
    if (source.on_gpu && bench_gst_cuda_enter()) {
        bench_gpu_close_reader();
        raw_leave(&raw_cuda);
    }
    g_queue_clear_full(&source.unread, (GDestroyNotify)gst_buffer_unref);
    gst_element_set_state(source.pipeline, GST_STATE_NULL);
    counters_report();
    gst_pad_set_active(pad, FALSE);
    gst_object_unref(source.pipeline);
    gst_object_unref(pad);
    counters_free();
    close(source.done);
}
