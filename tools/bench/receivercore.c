/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Receivers by the core's API: one that takes all frames, and those of --join, which connect, take
 * a few frames and leave. */
#include "control.h"
#include "counters.h"
#include "gpumarks.h"
#include "roles.h"

#include <string.h>

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

static void on_event(void *user, enum gpud_event event, const void *data)
{
    struct receiver *self = user;
    if (event == GPUD_EVENT_CONNECTED && !self->joins)
        bench_send(self->control, BENCH_READY, NULL, 0);
}

static void count(struct receiver *self, struct bench_result *result)
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
    count(self, &self->before);
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
    params.on_event = on_event;
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

static void take_frame(struct receiver *self, struct gpud_frame *frame)
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
        take_frame(&self, frame);
        if ((job->joins || job->idle) && self.counters.complete && !counted) {
            /* Later frames are for receivers that joined late. */
            count(&self, &self.counters.result);
            counted = true;
        }
    }
    if (self.reader)
        bench_mark_reader_finish(self.reader);
    bench_counters_end(&self.counters);
    if (!counted)
        count(&self, &self.counters.result);
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
        take_frame(self, frame);
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
