/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "counters.h"

#include "control.h"
#include "frames.h"
#include "rows.h"
#include "submittimes.h"

#include <string.h>

void bench_counters_init(struct bench_counters *counters, const struct bench_job *job)
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

void bench_counters_free(struct bench_counters *counters)
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

static void measure(struct bench_counters *counters, const struct bench_frame_times *times,
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
        measure(counters, times, submitted);
    if (index == total)
        finish_section(counters);
}

void bench_counters_check(struct bench_counters *counters, const void *data, uint64_t size,
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

void bench_counters_end(struct bench_counters *counters)
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
