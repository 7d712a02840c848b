/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The receivers' processes. */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* === counters ================================================================================ */

static void bench_counters_init(struct bench_counters *counters, const struct bench_job *job)
{
    *counters = (struct bench_counters){.job = job};
    counters->latencies = g_new0(int64_t, (job->joins ? 3 : 2) * (size_t)job->frames);
    counters->latencies_cpu = g_new0(int64_t, job->frames);
    if (job->joins)
        counters->intervals = g_new0(int64_t, job->frames);
    gpud_layout_init(&counters->layout, job->format, job->width, job->height, 0, NULL);
    if (bench_uses_rows(job) && bench_uses_elements(job))
        counters->times = bench_submit_times_map(job, false);
}

static void bench_counters_free(struct bench_counters *counters)
{
    g_free(counters->latencies);
    g_free(counters->latencies_cpu);
    g_free(counters->intervals);
}

static void finish_section(struct bench_counters *counters)
{
    struct bench_result *result = &counters->result;
    result->cpu_ns =
        clock_cpu_time() - counters->cpu_start - (counters->probe_ns - counters->probe_start);
    result->marking_ns = counters->marking_ns - counters->marking_start;
    counters->complete = true;
}

static void add_interval(struct bench_counters *counters, const struct bench_frame_times *times,
                         bool first)
{
    int64_t arrived = times->acquired ? times->acquired : times->counted;
    if (!first)
        counters->intervals[counters->result.intervals++] = arrived - counters->arrived;
    counters->arrived = arrived;
}

static void counters_measure(struct bench_counters *counters, const struct bench_frame_times *times,
                             int64_t submitted)
{
    struct bench_result *result = &counters->result;
    if (!counters->started) {
        counters->started = true;
        result->start = times->counted;
        if (counters->on_start)
            counters->on_start(counters->user);
        counters->cpu_start = clock_cpu_time();
        counters->probe_start = counters->probe_ns;
        counters->marking_start = counters->marking_ns;
    }
    result->end = times->counted;
    result->frames++;
    if (counters->intervals)
        add_interval(counters, times, result->frames == 1);
    if (times->seen && submitted && result->latencies < counters->job->frames)
        counters->latencies[result->latencies++] = times->seen - submitted;
    if (times->acquired && submitted && result->latencies_cpu < counters->job->frames)
        counters->latencies_cpu[result->latencies_cpu++] = times->acquired - submitted;
}

void bench_counters_add(struct bench_counters *counters, bool whole, uint64_t index,
                        const struct bench_frame_times *times, uint64_t reported_drops)
{
    const struct bench_job *job = counters->job;
    struct bench_result *result = &counters->result;
    uint64_t total = (uint64_t)job->warmup + job->frames;
    if (whole && index == 0)
        return; /* not part of the stream: sent until every receiver is there, or to a late one */
    result->all++;
    result->reported_drops = reported_drops;
    if (!whole || index <= counters->last || index > total) {
        result->torn++;
        return;
    }
    int64_t submitted = times->submitted;
    if (!submitted && counters->times)
        submitted = __atomic_load_n(&counters->times[index % BENCH_SUBMIT_TIMES], __ATOMIC_ACQUIRE);
    if (!counters->first)
        counters->first = index;
    counters->last = index;
    if (index > job->warmup)
        counters_measure(counters, times, submitted);
    if (index == total)
        finish_section(counters);
}

/* Checks and counts a frame that the CPU can read since `now`. submitted: 0: its mark has the
 * time. */
static void bench_counters_check(struct bench_counters *counters, const void *data, uint64_t size,
                                 int64_t now, int64_t submitted, uint64_t reported_drops)
{
    const struct bench_job *job = counters->job;
    uint64_t index;
    int64_t marked = 0; /* by the sender's clock */
    bool whole;
    if (bench_uses_rows(job))
        whole = size >= counters->layout.size &&
                bench_rows_check_frame(data, &counters->layout, job, &index);
    else
        whole = bench_frame_check(data, size, job->full, &index, &marked);
    bench_counters_add(counters, whole, whole ? index : 0,
                       &(struct bench_frame_times){
                           .submitted = submitted || job->remote ? submitted : marked,
                           .seen = now,
                           .counted = now,
                       },
                       reported_drops);
}

/* Call it after the last frame. */
static void bench_counters_end(struct bench_counters *counters)
{
    if (counters->started && !counters->complete)
        finish_section(counters);
    /* One after the other, as bench_send_result() expects them. */
    int64_t *end = counters->latencies + counters->result.latencies;
    memcpy(end, counters->latencies_cpu, counters->result.latencies_cpu * sizeof(int64_t));
    if (counters->intervals)
        memcpy(end + counters->result.latencies_cpu, counters->intervals,
               counters->result.intervals * sizeof(int64_t));
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

/* === elements ================================================================================ */

/* "shmsrc ! video/x-raw,format=UYVY": the parser does not take caps at the end, so they become a
 * capsfilter. */
static char *spell_out_caps(const char *description)
{
    const char *last = strrchr(description, '!');
    const char *slash = last ? strchr(last, '/') : NULL;
    GstCaps *caps =
        slash && slash < last + strcspn(last, "=") ? gst_caps_from_string(last + 1) : NULL;
    if (!caps)
        return g_strdup(description);
    char *text = gst_caps_to_string(caps);
    char *spelt = g_strdup_printf("%.*s! capsfilter caps=\"%s\"", (int)(last - description),
                                  description, text);
    g_free(text);
    gst_caps_unref(caps);
    return spelt;
}

GstElement *bench_elements_parse(int control, const char *description, GstPad *ours)
{
    GError *error = NULL;
    char *spelt = spell_out_caps(description);
    GstElement *bin =
        gst_parse_bin_from_description_full(spelt, TRUE, NULL, GST_PARSE_FLAG_FATAL_ERRORS, &error);
    g_free(spelt);
    if (!bin)
        bench_child_fail(control, GPUD_INVALID, "\"%s\": %s", description, error->message);
    gboolean sending = GST_PAD_IS_SRC(ours);
    GstPad *theirs = gst_element_get_static_pad(bin, sending ? "sink" : "src");
    if (!theirs)
        bench_child_fail(control, GPUD_INVALID, "\"%s\" has no open %s pad", description,
                         sending ? "sink" : "src");
    GstElement *pipeline = gst_pipeline_new(NULL);
    gst_bin_add(GST_BIN(pipeline), bin);
    gst_pad_set_active(ours, TRUE);
    GstPadLinkReturn linked = sending ? gst_pad_link(ours, theirs) : gst_pad_link(theirs, ours);
    if (GST_PAD_LINK_FAILED(linked))
        bench_child_fail(control, GPUD_INVALID, "\"%s\" cannot be linked: %s", description,
                         gst_pad_link_get_name(linked));
    gst_object_unref(theirs);
    return pipeline;
}

void bench_elements_fail(int control, GstElement *pipeline, const char *otherwise)
{
    struct bench_failure failure = {.status = GPUD_IO};
    GstBus *bus = gst_element_get_bus(pipeline);
    GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    GError *error = NULL;
    if (message)
        gst_message_parse_error(message, &error, NULL);
    g_snprintf(failure.reason, sizeof(failure.reason), "%s%s%s",
               message ? GST_MESSAGE_SRC_NAME(message) : "", message ? ": " : "",
               message ? error->message : otherwise);
    bench_send(control, BENCH_FAILED, &failure, sizeof(failure));
    bench_elements_quit(pipeline, NULL);
}

void bench_elements_quit(GstElement *pipeline, GstBufferPool *pool)
{
    if (pool)
        gst_buffer_pool_set_active(pool, FALSE);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    /* Buffers keep the sink's memory, and its file, alive. A thread that was in a push releases its
     * own now. */
    g_usleep(20000);
    _exit(EXIT_FAILURE);
}

/* --- counters --------------------------------------------------------------------------------- */

static void read_counter(const GstStructure *stats, const char *name, int64_t *counter)
{
    guint64 value;
    if (gst_structure_get_uint64(stats, name, &value))
        *counter = (int64_t)value;
}

static void read_element(const GValue *item, gpointer user)
{
    struct bench_result *result = user;
    GstElement *element = g_value_get_object(item);
    GObjectClass *klass = G_OBJECT_GET_CLASS(element);
    gchar *path = NULL, *reason = NULL;
    GstStructure *stats = NULL;
    if (!g_object_class_find_property(klass, "active-path") ||
        !g_object_class_find_property(klass, "stats"))
        return;
    g_object_get(element, "active-path", &path, "fallback-reason", &reason, "stats", &stats, NULL);
    g_strlcpy(result->route, path ? path : "", sizeof(result->route));
    g_strlcpy(result->fallback_reason, reason ? reason : "", sizeof(result->fallback_reason));
    if (stats) {
        read_counter(stats, "copies-cpu", &result->copies_cpu);
        read_counter(stats, "copies-gpu", &result->copies_gpu);
        read_counter(stats, "kicks", &result->kicks);
        read_counter(stats, "cpu-waits", &result->waits);
        read_counter(stats, "device-waits", &result->waits_device);
        read_counter(stats, "dropped-slow-receiver", &result->dropped);
        gst_structure_free(stats);
    }
    g_free(path);
    g_free(reason);
}

void bench_elements_count(GstElement *pipeline, struct bench_result *result)
{
    GstIterator *all = gst_bin_iterate_recurse(GST_BIN(pipeline));
    result->copies_cpu = result->copies_gpu = result->kicks = result->waits = BENCH_UNKNOWN;
    result->waits_device = BENCH_UNKNOWN;
    result->dropped = 0;
    result->route[0] = '\0';
    gst_iterator_foreach(all, read_element, result);
    gst_iterator_free(all);
}

/* === idle ==================================================================================== */

/* Excludes what follows the last frame: its credits, and a thread that was still looking for the
 * next. */
#define SETTLE (500 * GPUD_MSEC)
#define STEP (20 * GPUD_MSEC)

/* CPU time of all its threads; -1: it has ended. */
static int64_t cpu_time_of(const struct bench_child *child)
{
    clockid_t clock;
    struct timespec t;
    if (child->pid <= 0 || clock_getcpuclockid(child->pid, &clock) != 0 ||
        clock_gettime(clock, &t) != 0)
        return -1;
    return t.tv_sec * GPUD_SEC + t.tv_nsec;
}

/* Sleeps until then, or until a signal to this process. */
static void idle_rest(int64_t until)
{
    while (clock_now() < until && !bench_caught_signal())
        clock_sleep_until(MIN(until, clock_now() + STEP));
}

void bench_idle_measure(struct bench_child *children, size_t count, int64_t duration)
{
    idle_rest(clock_now() + SETTLE);
    int64_t start = clock_now();
    for (size_t i = 0; i < count; i++)
        children[i].cpu_time = cpu_time_of(&children[i]);
    idle_rest(start + duration);
    for (size_t i = 0; i < count; i++) {
        struct bench_child *child = &children[i];
        int64_t now = cpu_time_of(child), passed = clock_now() - start;
        if (now >= 0 && child->cpu_time >= 0)
            child->idle_percent = (double)(now - child->cpu_time) * 100 / (double)passed;
    }
}

/* === receivercore ============================================================================ */
/* Receivers by the core's API: one that takes all frames, and those of --join, which connect, take
 * a few frames and leave. */

#define JOIN_FRAMES 5 /* taken by each receiver of --join */

struct receiver {
    const struct bench_job *job;
    int control;
    struct gpud_receiver *receiver;
    struct bench_counters counters;
    struct bench_result before; /* counters before the measured section */
    bool on_host; /* both ends are the host: a frame is readable once it is acquired */
    struct gpud_device *device; /* the GPU that reads the frames; NULL: the CPU does */
    struct raw_driver *driver;  /* of that GPU */
    raw_stream stream;
    struct bench_mark_reader *reader;
    bool joins; /* one of --join */
};

static void receivercore_on_event(void *user, enum gpud_event event, const void *data)
{
    struct receiver *self = user;
    if (event == GPUD_EVENT_CONNECTED && !self->joins)
        bench_send(self->control, BENCH_READY, NULL, 0);
}

static void receivercore_count(struct receiver *self, struct bench_result *result)
{
    struct gpud_receiver_info info = GPUD_INFO_INIT(info);
    gpud_receiver_get_info(self->receiver, &info);
    result->copies_cpu = (int64_t)info.copies_cpu;
    result->copies_gpu = (int64_t)info.copies_gpu;
    result->kicks = (int64_t)info.kicks;
    result->waits = (int64_t)info.waits_cpu;
    result->waits_device = (int64_t)info.waits_device;
    memcpy(result->route, info.path, sizeof(result->route));
    memcpy(result->fallback_reason, info.fallback_reason, sizeof(result->fallback_reason));
}

static void on_start(void *user)
{
    struct receiver *self = user;
    receivercore_count(self, &self->before);
}

static void check_on_cpu(struct receiver *self, struct gpud_frame *frame)
{
    struct gpud_error error;
    struct gpud_frame_info info;
    info.size = sizeof(info);
    void *data;
    int64_t now = clock_now();
    gpud_frame_get_info(frame, &info);
    enum gpud_status status = gpud_frame_map(frame, GPUD_READ, BENCH_STEP_TIMEOUT, &data, &error);
    if (status != GPUD_OK)
        bench_child_fail(self->control, status, "%s", error.reason);
    if (!self->on_host)
        now = clock_now();
    bench_counters_check(&self->counters, data, info.layout.size, now, (int64_t)info.submitted_ns,
                         info.dropped);
    gpud_frame_unmap(frame);
    gpud_frame_release(&frame);
}

/* --- on a GPU: the CPU only enqueues ----------------------------------------- */

static void check_gpu(struct receiver *self, const char *what, int result)
{
    char reason[GPUD_REASON_MAX];
    if (result == 0)
        return;
    raw_say(self->driver, reason, sizeof(reason), what, result);
    bench_child_fail(self->control, GPUD_IO, "%s", reason);
}

static void open_stream(struct receiver *self, struct gpud_context *context, const char *name,
                        unsigned gpu)
{
    char reason[GPUD_REASON_MAX];
    struct gpud_error error;
    enum gpud_status status = gpud_device_open(context, name, &self->device, &error);
    if (status != GPUD_OK)
        bench_child_fail(self->control, status, "%s", error.reason);
    if (!raw_open(self->driver, reason, sizeof(reason)) ||
        !raw_enter(self->driver, gpu, reason, sizeof(reason)))
        bench_child_fail(self->control, GPUD_NO_DEVICE, "%s", reason);
    check_gpu(self, "a stream", raw_stream_create(self->driver, &self->stream));
    self->reader = bench_mark_reader_create(self->driver, gpu, self->job, self->control,
                                            &self->counters, !self->joins);
}

static void close_stream(struct receiver *self)
{
    if (!self->driver)
        return;
    bench_mark_reader_destroy(self->reader);
    raw_stream_destroy(self->driver, self->stream);
    raw_leave(self->driver);
    gpud_device_close(&self->device);
}

static void check_on_gpu(struct receiver *self, struct gpud_frame *frame)
{
    int64_t now = clock_now();
    struct gpud_error error;
    struct gpud_frame_info info;
    info.size = sizeof(info);
    gpud_frame_get_info(frame, &info);
    enum gpud_status status = gpud_frame_wait(frame, self->stream, &error);
    if (status != GPUD_OK)
        bench_child_fail(self->control, status, "%s", error.reason);
    bench_mark_reader_add(self->reader, self->stream,
                          (raw_address)(uintptr_t)info.native + info.memory_offset, &info.layout,
                          now, (int64_t)info.submitted_ns, info.dropped);
    status = gpud_frame_post(frame, self->stream, &error);
    if (status != GPUD_OK)
        bench_child_fail(self->control, status, "%s", error.reason);
    gpud_frame_release(&frame);
}

/* --- all -------------------------------------------------------------------------------------- */

/* "auto" may be a GPU: its frames are mapped. */
static bool is_host(const char *device)
{
    return strcmp(device, "host") == 0;
}

static void open_receiver(struct receiver *self, struct gpud_context *context, uint32_t number)
{
    const struct bench_job *job = self->job;
    struct gpud_error error;
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    params.address = job->address;
    char device[32];
    params.device = bench_device_of(job, number, device, sizeof(device));
    params.slots = job->slots;
    params.route = job->route[0] ? job->route : NULL;
    params.psk_file = job->psk_file[0] ? job->psk_file : NULL;
    params.on_event = receivercore_on_event;
    params.user = self;
    enum gpud_status status = gpud_receiver_create(context, &params, &self->receiver, &error);
    if (status != GPUD_OK)
        bench_child_fail(self->control, status, "%s", error.reason);
    self->on_host = is_host(job->from) && is_host(device);
    bench_counters_init(&self->counters, job);
    self->counters.on_start = on_start;
    self->counters.user = self;
    unsigned gpu;
    self->driver = raw_driver_of(device, &gpu);
    if (self->driver)
        open_stream(self, context, device, gpu);
}

static void close_receiver(struct receiver *self)
{
    gpud_receiver_destroy(&self->receiver);
    close_stream(self);
    bench_counters_free(&self->counters);
}

static void receivercore_take_frame(struct receiver *self, struct gpud_frame *frame)
{
    if (self->reader)
        check_on_gpu(self, frame);
    else
        check_on_cpu(self, frame);
}

static struct gpud_context *create_context(int control)
{
    struct gpud_error error;
    struct gpud_context *context;
    enum gpud_status status = gpud_context_create(NULL, &context, &error);
    if (status != GPUD_OK)
        bench_child_fail(control, status, "%s", error.reason);
    return context;
}

void bench_run_receiver_core(int control, const struct bench_job *job)
{
    struct receiver self = {.job = job, .control = control};
    struct gpud_error error;
    struct gpud_context *context = create_context(control);
    bool counted = false;
    open_receiver(&self, context, job->number);

    for (;;) {
        struct gpud_frame *frame;
        enum gpud_status status = gpud_receiver_acquire(
            self.receiver, 3 * BENCH_STEP_TIMEOUT + job->idle, &frame, &error);
        if (status == GPUD_CLOSED)
            break;
        if (status != GPUD_OK)
            bench_child_fail(control, status, "%s", error.reason);
        receivercore_take_frame(&self, frame);
        if ((job->joins || job->idle) && self.counters.complete && !counted) {
            /* Later frames are for receivers that joined late. */
            receivercore_count(&self, &self.counters.result);
            counted = true;
        }
    }
    if (self.reader)
        bench_mark_reader_finish(self.reader);
    bench_counters_end(&self.counters);
    if (!counted)
        receivercore_count(&self, &self.counters.result);
    bench_result_subtract(&self.counters.result, &self.before);
    bench_send_result(control, &self.counters.result, self.counters.latencies);
    close_receiver(&self);
    gpud_context_destroy(&context);
}

/* --- receivers that connect and leave
 * --------------------------------------------------------------- */

/* Opened once before, since starting a driver takes long and is no part of connecting. A context
 * keeps devices open after they are closed.
 */
static void open_devices(struct gpud_context *context, const struct bench_job *job, int control)
{
    for (uint32_t i = 1; i <= job->joins && i <= GPUD_RECEIVERS_MAX; i++) {
        char name[32];
        struct gpud_device *device;
        struct gpud_error error;
        bench_device_of(job, job->receivers + i, name, sizeof(name));
        enum gpud_status status = gpud_device_open(context, name, &device, &error);
        if (status != GPUD_OK)
            bench_child_fail(control, status, "%s", error.reason);
        gpud_device_close(&device);
    }
}

static void join_once(struct receiver *self, struct gpud_context *context, uint32_t number,
                      struct bench_result *result)
{
    unsigned taken;
    open_receiver(self, context, number);
    for (taken = 0; taken < JOIN_FRAMES; taken++) {
        struct gpud_frame *frame;
        struct gpud_error error;
        enum gpud_status status =
            gpud_receiver_acquire(self->receiver, 3 * BENCH_STEP_TIMEOUT, &frame, &error);
        if (status != GPUD_OK)
            bench_child_fail(self->control, status, "%s", error.reason);
        result->joined += taken == 0;
        receivercore_take_frame(self, frame);
    }
    if (self->reader)
        bench_mark_reader_finish(self->reader);
    const struct bench_counters *counters = &self->counters;
    result->torn += counters->result.torn;
    result->measured += counters->result.all == JOIN_FRAMES;
    uint64_t whole = counters->result.all - counters->result.torn;
    if (whole > 0)
        result->missing += counters->last - counters->first + 1 - whole;
    close_receiver(self);
    result->left++;
}

void bench_run_joiner(int control)
{
    struct bench_job job;
    struct bench_result result = {0};
    bench_child_expect(control, BENCH_JOB, clock_now() + BENCH_STEP_TIMEOUT, &job, sizeof(job));
    struct gpud_context *context = create_context(control);
    open_devices(context, &job, control);
    bench_send(control, BENCH_READY, NULL, 0);
    int64_t warmup = bench_paced_time(&job, job.warmup);
    bench_child_expect(control, BENCH_GO, clock_now() + 6 * BENCH_STEP_TIMEOUT + warmup, NULL, 0);

    int64_t start = clock_now();
    for (uint32_t i = 0; i < job.joins; i++) {
        clock_sleep_until(start + bench_paced_time(&job, (i + 0.5) * job.frames / job.joins));
        struct receiver self = {.job = &job, .control = control, .joins = true};
        join_once(&self, context, job.receivers + 1 + i, &result);
    }
    bench_send_result(control, &result, NULL);
    gpud_context_destroy(&context);
}

/* === receivergst ============================================================================= */
/* A receiver by a GStreamer source, which is linked to a pad of the bench. */

/* Once the sender has ended, no frames are expected after this long without one. */
#define GRACE (500 * GPUD_MSEC)
#define GRACE_NETWORK (5 * GPUD_SEC) /* a frame may be on its way for this long */

struct receivergst_receiver {
    int control;
    GstElement *pipeline;
    struct bench_counters counters; /* the streaming thread's, until it has stopped */
    struct bench_result before;     /* counters before the measured section */
    uint64_t seen;                  /* frames; atomic, since the main thread reads it */
    bool said_ready;
    struct bench_mark_reader *reader; /* reads frames in GPU memory; NULL: the CPU reads them */
    GQueue unread;                    /* buffers that the GPU may not have read yet, oldest first */
    int done;                         /* eventfd: EOS came, or, without --idle, the last frame */
};

static void signal_done(struct receivergst_receiver *self)
{
    uint64_t one = 1;
    while (write(self->done, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

static void read_by_cpu(struct receivergst_receiver *self, GstBuffer *buffer)
{
    GstMapInfo map;
    if (!gst_buffer_map(buffer, &map, GST_MAP_READ))
        bench_child_fail(self->control, GPUD_IO, "a received buffer cannot be mapped");
    bench_counters_check(&self->counters, map.data, map.size, clock_now(), 0, 0);
    gst_buffer_unmap(buffer, &map);
    gst_buffer_unref(buffer);
}

/* Buffers are released once the GPU has read them. At most half of the slots wait for that, or the
 * sender would run out of them. */
static void read_by_gpu(struct receivergst_receiver *self, GstBuffer *buffer)
{
    int64_t now = clock_now();
    struct bench_gpu_map map;
    if (!bench_gst_cuda_is(buffer))
        bench_child_fail(self->control, GPUD_UNSUPPORTED,
                         "the source gives no CUDA memory: end it with ! {caps}");
    if (!bench_gst_cuda_map(self->counters.job, buffer, GST_MAP_READ, &map))
        bench_child_fail(self->control, GPUD_IO, "a received buffer cannot be mapped for the GPU");
    bench_mark_reader_add(self->reader, map.stream, map.address, &map.layout, now, 0, 0);
    g_queue_push_tail(&self->unread, buffer);
    size_t pending = bench_mark_reader_wait(self->reader, self->counters.job->slots / 2);
    bench_gst_cuda_unmap(buffer, &map);
    while (self->unread.length > pending)
        gst_buffer_unref(g_queue_pop_head(&self->unread));
}

static GstFlowReturn chain(GstPad *pad, GstObject *parent, GstBuffer *buffer)
{
    struct receivergst_receiver *self = gst_pad_get_element_private(pad);
    if (!self->said_ready)
        bench_send(self->control, BENCH_READY, NULL, 0);
    self->said_ready = true;
    __atomic_fetch_add(&self->seen, 1, __ATOMIC_RELAXED);
    bool before = self->counters.complete;
    if (self->reader)
        read_by_gpu(self, buffer);
    else
        read_by_cpu(self, buffer);
    if (self->counters.complete && !before && !self->counters.job->idle)
        signal_done(self);
    return GST_FLOW_OK;
}

static gboolean event(GstPad *pad, GstObject *parent, GstEvent *event)
{
    struct receivergst_receiver *self = gst_pad_get_element_private(pad);
    if (GST_EVENT_TYPE(event) == GST_EVENT_EOS)
        signal_done(self);
    return gst_pad_event_default(pad, parent, event);
}

/* Runs in the streaming thread. */
static void receivergst_on_start(void *user)
{
    struct receivergst_receiver *self = user;
    bench_elements_count(self->pipeline, &self->before);
}

/* Waits until the last frame, EOS, or GRACE without a frame after the sender ended. */
static void wait_for_end(struct receivergst_receiver *self)
{
    GstBus *bus = gst_element_get_bus(self->pipeline);
    GPollFD messages;
    gst_bus_get_pollfd(bus, &messages);
    int64_t until = INT64_MAX;
    uint64_t seen = 0;
    for (;;) {
        struct pollfd fds[] = {
            {.fd = self->done, .events = POLLIN},
            {.fd = until == INT64_MAX ? self->control : -1, .events = POLLIN},
            {.fd = messages.fd, .events = POLLIN},
        };
        int64_t left = until == INT64_MAX ? BENCH_STEP_TIMEOUT : until - clock_now();
        if (left <= 0 && __atomic_load_n(&self->seen, __ATOMIC_RELAXED) == seen)
            break;
        if (left <= 0) {
            seen = __atomic_load_n(&self->seen, __ATOMIC_RELAXED);
            until = clock_now() + (self->counters.job->network[0] ? GRACE_NETWORK : GRACE);
            continue;
        }
        if (poll(fds, G_N_ELEMENTS(fds), (int)(left / GPUD_MSEC) + 1) > 0 && fds[0].revents)
            break;
        if (fds[1].revents) {
            bench_child_expect(self->control, BENCH_STOP, clock_now() + BENCH_STEP_TIMEOUT, NULL,
                               0);
            until = 0;
        }
        GstMessage *message;
        while ((message = gst_bus_pop_filtered(bus, GST_MESSAGE_ANY))) {
            if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
                gst_bus_post(bus, message);
                bench_elements_fail(self->control, self->pipeline, "");
            }
            gst_message_unref(message);
        }
    }
    gst_object_unref(bus);
}

/* No frames come any more, so nothing else uses the reader. */
static void finish_reader(struct receivergst_receiver *self)
{
    if (bench_gst_cuda_enter()) {
        bench_mark_reader_finish(self->reader);
        bench_mark_reader_destroy(g_steal_pointer(&self->reader));
        bench_gst_cuda_leave();
    }
    g_queue_clear_full(&self->unread, (GDestroyNotify)gst_buffer_unref);
}

void bench_run_receiver_gst(int control, const struct bench_job *job)
{
    struct receivergst_receiver self = {.control = control, .done = eventfd(0, EFD_CLOEXEC)};
    gst_init(NULL, NULL);
    GstPad *pad = gst_pad_new("bench", GST_PAD_SINK);
    gst_pad_set_element_private(pad, &self);
    gst_pad_set_chain_function(pad, chain);
    gst_pad_set_event_function(pad, event);
    bench_counters_init(&self.counters, job);
    self.counters.on_start = receivergst_on_start;
    self.counters.user = &self;
    char device[32];
    bench_device_of(job, job->number, device, sizeof(device));
    if (bench_works_on_gpu(job, device)) {
        unsigned gpu;
        bench_gst_cuda_open(control);
        raw_driver_of(device, &gpu);
        self.reader = bench_mark_reader_create(&raw_cuda, gpu, job, control, &self.counters, true);
    }
    GString *description = g_string_new(job->src);
    g_string_replace(description, "{device}", device, 0);
    self.pipeline = bench_elements_parse(control, description->str, pad);
    g_string_free(description, TRUE);
    if (gst_element_set_state(self.pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
        bench_elements_fail(control, self.pipeline, "the source does not start");

    wait_for_end(&self);
    /* Before the source stops, which resets its counters. No more frames come. */
    bench_elements_count(self.pipeline, &self.counters.result);
    bench_result_subtract(&self.counters.result, &self.before);
    if (self.reader)
        finish_reader(&self);
    gst_element_set_state(self.pipeline, GST_STATE_NULL);
    bench_counters_end(&self.counters);
    bench_send_result(control, &self.counters.result, self.counters.latencies);
    gst_pad_set_active(pad, FALSE);
    gst_object_unref(self.pipeline);
    gst_object_unref(pad);
    bench_counters_free(&self.counters);
    close(self.done);
}
