/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tally.h"

#include "control.h"
#include "frames.h"

void bench_tally_init(struct bench_tally *tally, const struct bench_job *job)
{
    *tally = (struct bench_tally){.job = job};
    tally->latencies = g_new0(int64_t, job->frames);
}

void bench_tally_free(struct bench_tally *tally)
{
    g_free(tally->latencies);
}

static void finish_section(struct bench_tally *tally)
{
    tally->result.cpu_ns = bench_cpu_time() - tally->cpu_start;
    tally->complete = true;
}

static void measure(struct bench_tally *tally, int64_t now, int64_t submitted)
{
    struct bench_result *result = &tally->result;
    if (!tally->started) {
        tally->started = true;
        result->start = now;
        if (tally->on_start)
            tally->on_start(tally->user);
        tally->cpu_start = bench_cpu_time();
    }
    result->end = now;
    result->frames++;
    if (result->latencies < tally->job->frames)
        tally->latencies[result->latencies++] = now - submitted;
}

void bench_tally_frame(struct bench_tally *tally, const void *data, uint64_t size, int64_t now,
                       int64_t submitted, uint64_t explained)
{
    const struct bench_job *job = tally->job;
    struct bench_result *result = &tally->result;
    uint64_t total = (uint64_t)job->warmup + job->frames, index;
    int64_t marked;
    bool whole = bench_frame_check(data, size, job->full, &index, &marked);
    if (whole && index == 0)
        return; /* a probe, sent until every receiver is there */
    result->all++;
    result->explained = explained;
    if (!whole || index <= tally->last || index > total) {
        result->torn++;
        return;
    }
    tally->last = index;
    if (index > job->warmup)
        measure(tally, now, submitted ? submitted : marked);
    if (index == total)
        finish_section(tally);
}

void bench_tally_end(struct bench_tally *tally)
{
    if (tally->started && !tally->complete)
        finish_section(tally);
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
    now->lent -= before->lent;
}
