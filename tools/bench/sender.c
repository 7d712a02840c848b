/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sender: frame by frame, as fast as the receivers allow or at a pace. */
#include "control.h"
#include "counters.h"
#include "frames.h"
#include "output.h"
#include "roles.h"
#include "rows.h"
#include "submittimes.h"

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
static void prepare(struct sender *self, uint64_t index)
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
static void pace(const struct bench_job *job, int64_t start, uint64_t index)
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
            prepare(self, index);
        pace(job, start, index - before_start);
        if (!early)
            prepare(self, index);
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
        prepare(self, 0);
        pace(self->job, start, i);
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
