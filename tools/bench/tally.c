/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tally.h"

#include "control.h"
#include "frames.h"
#include "rows.h"
#include "times.h"

#include <string.h>

void bench_tally_init(struct bench_tally *tally, const struct bench_job *job)
{
    *tally = (struct bench_tally){.job = job};
    tally->latencies = g_new0(int64_t, (job->joins ? 3 : 2) * (size_t)job->frames);
    tally->latencies_cpu = g_new0(int64_t, job->frames);
    if (job->joins)
        tally->intervals = g_new0(int64_t, job->frames);
    gpud_layout_init(&tally->layout, job->format, job->width, job->height, 0, NULL);
    if (bench_uses_rows(job) && bench_uses_elements(job))
        tally->times = bench_times_map(job, false);
}

void bench_tally_free(struct bench_tally *tally)
{
    g_free(tally->latencies);
    g_free(tally->latencies_cpu);
    g_free(tally->intervals);
}

static void finish_section(struct bench_tally *tally)
{
    struct bench_result *result = &tally->result;
    result->cpu_ns = bench_cpu_time() - tally->cpu_start - (tally->probe_ns - tally->probe_start);
    result->marking_ns = tally->marking_ns - tally->marking_start;
    tally->complete = true;
}

static void add_interval(struct bench_tally *tally, const struct bench_moment *moment, bool first)
{
    int64_t arrived = moment->acquired ? moment->acquired : moment->counted;
    if (!first)
        tally->intervals[tally->result.intervals++] = arrived - tally->arrived;
    tally->arrived = arrived;
}

static void measure(struct bench_tally *tally, const struct bench_moment *moment, int64_t submitted)
{
    struct bench_result *result = &tally->result;
    if (!tally->started) {
        tally->started = true;
        result->start = moment->counted;
        if (tally->on_start)
            tally->on_start(tally->user);
        tally->cpu_start = bench_cpu_time();
        tally->probe_start = tally->probe_ns;
        tally->marking_start = tally->marking_ns;
    }
    result->end = moment->counted;
    result->frames++;
    if (tally->intervals)
        add_interval(tally, moment, result->frames == 1);
    if (moment->seen && submitted && result->latencies < tally->job->frames)
        tally->latencies[result->latencies++] = moment->seen - submitted;
    if (moment->acquired && submitted && result->latencies_cpu < tally->job->frames)
        tally->latencies_cpu[result->latencies_cpu++] = moment->acquired - submitted;
}

void bench_tally_take(struct bench_tally *tally, bool whole, uint64_t index,
                      const struct bench_moment *moment, uint64_t explained)
{
    const struct bench_job *job = tally->job;
    struct bench_result *result = &tally->result;
    uint64_t total = (uint64_t)job->warmup + job->frames;
    if (whole && index == 0)
        return; /* a probe, sent until every receiver is there */
    result->all++;
    result->explained = explained;
    if (!whole || index <= tally->last || index > total) {
        result->torn++;
        return;
    }
    int64_t submitted = moment->submitted;
    if (!submitted && tally->times)
        submitted = __atomic_load_n(&tally->times[index % BENCH_TIMES], __ATOMIC_ACQUIRE);
    if (!tally->first)
        tally->first = index;
    tally->last = index;
    if (index > job->warmup)
        measure(tally, moment, submitted);
    if (index == total)
        finish_section(tally);
}

void bench_tally_frame(struct bench_tally *tally, const void *data, uint64_t size, int64_t now,
                       int64_t submitted, uint64_t explained)
{
    const struct bench_job *job = tally->job;
    uint64_t index;
    int64_t marked = 0;
    bool whole;
    if (bench_uses_rows(job))
        whole =
            size >= tally->layout.size && bench_rows_check_frame(data, &tally->layout, job, &index);
    else
        whole = bench_frame_check(data, size, job->full, &index, &marked);
    bench_tally_take(tally, whole, whole ? index : 0,
                     &(struct bench_moment){
                         .submitted = submitted ? submitted : marked,
                         .seen = now,
                         .counted = now,
                     },
                     explained);
}

void bench_tally_end(struct bench_tally *tally)
{
    if (tally->started && !tally->complete)
        finish_section(tally);
    /* One behind the other, as they are sent. */
    int64_t *end = tally->latencies + tally->result.latencies;
    memcpy(end, tally->latencies_cpu, tally->result.latencies_cpu * sizeof(int64_t));
    if (tally->intervals)
        memcpy(end + tally->result.latencies_cpu, tally->intervals,
               tally->result.intervals * sizeof(int64_t));
}

static int64_t since(int64_t now, int64_t before)
{
    return now == BENCH_UNKNOWN || before == BENCH_UNKNOWN ? BENCH_UNKNOWN : now - before;
}

void bench_counters_since(struct bench_result *now, const struct bench_result *before)
{
    now->copies_cpu = since(now->copies_cpu, before->copies_cpu);
    now->copies_gpu = since(now->copies_gpu, before->copies_gpu);
    now->kicks = since(now->kicks, before->kicks);
    now->waits = since(now->waits, before->waits);
    now->waits_device = since(now->waits_device, before->waits_device);
    now->lent -= before->lent;
}
