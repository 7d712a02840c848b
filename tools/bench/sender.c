/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sender: frame by frame, as fast as they are taken or at a pace. */
#include "control.h"
#include "frames.h"
#include "outlet.h"
#include "tally.h"

#include <time.h>

static void sleep_until(int64_t when)
{
    const struct timespec until = {.tv_sec = when / GPUD_SEC, .tv_nsec = when % GPUD_SEC};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        continue;
}

static void send_frame(const struct bench_outlet_ops *ops, void *outlet,
                       const struct bench_job *job, uint64_t index)
{
    uint64_t size;
    void *data = ops->acquire(outlet, &size);
    bench_frame_mark(data, size, index, job->full);
    bench_frame_set_time(data, bench_now());
    ops->send(outlet);
}

void bench_run_sender(int control)
{
    struct bench_job job;
    bench_child_expect(control, BENCH_JOB, bench_now() + BENCH_STEP, &job, sizeof(job));
    const struct bench_outlet_ops *ops =
        bench_uses_elements(&job) ? &bench_outlet_gst : &bench_outlet_core;
    void *outlet = ops->open(&job, control);
    bench_send(control, BENCH_LISTENING, NULL, 0);
    ops->wait(outlet);

    struct bench_result before = {0}, result = {0};
    int64_t first = bench_now(), cpu = 0;
    uint64_t total = (uint64_t)job.warmup + job.frames;
    for (uint64_t index = 1; index <= total; index++) {
        if (index == job.warmup + 1u) {
            ops->count(outlet, &before);
            result.start = bench_now();
            cpu = bench_cpu_time();
        }
        if (job.fps_num)
            sleep_until(first + (int64_t)((double)index * 1e9 * job.fps_den / job.fps_num));
        send_frame(ops, outlet, &job, index);
    }
    result.cpu_ns = bench_cpu_time() - cpu;
    result.end = bench_now();
    ops->end(outlet);

    ops->count(outlet, &result);
    result.frames = job.frames;
    result.all = total;
    bench_counters_since(&result, &before);
    bench_send_result(control, &result, NULL);
    bench_child_expect(control, BENCH_STOP, bench_now() + 6 * BENCH_STEP, NULL, 0);
    ops->close(outlet);
}
