/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver by the core's API. */
#include "control.h"
#include "outlet.h"
#include "tally.h"

#include <string.h>

struct receiver {
    const struct bench_job *job;
    int control;
    struct gpud_receiver *receiver;
    struct bench_tally tally;
    struct bench_result before; /* the counters, before the measured section */
    bool on_host;               /* both ends: then a frame is readable when it is acquired */
};

static void on_event(void *user, enum gpud_event event, const void *data)
{
    struct receiver *self = user;
    if (event == GPUD_EVENT_CONNECTED)
        bench_send(self->control, BENCH_READY, NULL, 0);
}

static void count(struct receiver *self, struct bench_result *result)
{
    struct gpud_receiver_info info;
    gpud_receiver_get_info(self->receiver, &info);
    result->copies_cpu = (int64_t)info.copies_cpu;
    result->copies_gpu = (int64_t)info.copies_gpu;
    result->kicks = (int64_t)info.kicks;
    result->waits = (int64_t)info.waits_cpu;
    memcpy(result->route, info.path, sizeof(result->route));
    memcpy(result->fallback_reason, info.fallback_reason, sizeof(result->fallback_reason));
}

static void on_start(void *user)
{
    struct receiver *self = user;
    count(self, &self->before);
}

static void take(struct receiver *self, struct gpud_frame *frame)
{
    struct gpud_error error;
    struct gpud_frame_info info;
    void *data;
    int64_t now = bench_now();
    gpud_frame_get_info(frame, &info);
    enum gpud_status status = gpud_frame_map(frame, GPUD_READ, BENCH_STEP, &data, &error);
    if (status != GPUD_OK)
        bench_child_fail(self->control, status, "%s", error.reason);
    if (!self->on_host)
        now = bench_now();
    bench_tally_frame(&self->tally, data, info.layout.size, now, (int64_t)info.submit_time,
                      info.dropped);
    gpud_frame_unmap(frame);
    gpud_frame_release(&frame);
}

static bool is_host(const char *device)
{
    return strcmp(device, "host") == 0 || strcmp(device, "auto") == 0;
}

void bench_run_receiver_core(int control, const struct bench_job *job)
{
    struct receiver self = {.job = job, .control = control};
    struct gpud_error error;
    struct gpud_context *context;
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    params.address = job->address;
    params.device = job->to;
    params.slots = job->slots;
    params.route = job->route[0] ? job->route : NULL;
    params.on_event = on_event;
    params.user = &self;
    enum gpud_status status = gpud_context_create(NULL, &context, &error);
    if (status == GPUD_OK)
        status = gpud_receiver_create(context, &params, &self.receiver, &error);
    if (status != GPUD_OK)
        bench_child_fail(control, status, "%s", error.reason);
    self.on_host = is_host(job->from) && is_host(job->to);
    bench_tally_init(&self.tally, job);
    self.tally.on_start = on_start;
    self.tally.user = &self;

    for (;;) {
        struct gpud_frame *frame;
        status = gpud_receiver_acquire(self.receiver, 3 * BENCH_STEP, &frame, &error);
        if (status == GPUD_CLOSED)
            break;
        if (status != GPUD_OK)
            bench_child_fail(control, status, "%s", error.reason);
        take(&self, frame);
    }
    bench_tally_end(&self.tally);
    count(&self, &self.tally.result);
    bench_counters_since(&self.tally.result, &self.before);
    bench_send_result(control, &self.tally.result, self.tally.latencies);
    gpud_receiver_destroy(&self.receiver);
    gpud_context_destroy(&context);
    bench_tally_free(&self.tally);
}
