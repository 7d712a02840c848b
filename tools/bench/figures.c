/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Turns what the processes of a run have measured into the figures of its report. */
#include "figures.h"

#include <math.h>
#include <string.h>

static double per_frame(int64_t counter, uint64_t frames)
{
    return counter == BENCH_UNKNOWN || frames == 0 ? NAN : (double)counter / (double)frames;
}

/* Known for marks on a GPU only: marks by the CPU stand for what an application does anyway. */
static double marking(const struct bench_result *result)
{
    return result->marking_ns ? per_frame(result->marking_ns, result->frames) / 1e3 : NAN;
}

static void add_receiver(struct bench_run *run, const struct bench_child *child, uint64_t sent)
{
    const struct bench_result *result = &child->result;
    struct bench_receiver_run *receiver = &run->receiver[run->receivers++];
    receiver->frames = result->frames;
    receiver->missing = sent > result->all ? sent - result->all : 0;
    receiver->dropped = result->reported_drops;
    receiver->torn = result->torn;
    receiver->fps = result->end > result->start
                        ? (double)(result->frames - 1) * 1e9 / (double)(result->end - result->start)
                        : NAN;
    receiver->cpu_us = per_frame(result->cpu_ns, result->frames) / 1e3;
    receiver->latency = stats_latency_of(child->latencies, result->latencies);
    receiver->latency_cpu =
        stats_latency_of(child->latencies + result->latencies, result->latencies_cpu);
    run->lost += receiver->missing;
    run->torn += receiver->torn;
    run->cpu_receiver += receiver->cpu_us;
    run->marking_receiver += marking(result);
    run->copies_cpu += per_frame(result->copies_cpu, run->frames);
    run->copies_gpu += per_frame(result->copies_gpu, run->frames);
    run->kicks_receiver += per_frame(result->kicks, result->frames);
    run->waits_receiver += per_frame(result->waits, result->frames);
    run->waits_device_receiver += per_frame(result->waits_device, result->frames);
    run->latency.jitter += receiver->latency.jitter;
    run->latency_cpu.jitter += receiver->latency_cpu.jitter;
}

/* Jitter, from one sample to the next, is computed within each receiver and then averaged. */
static void replace_latency(struct stats_latency *latency, const GArray *all, uint32_t receivers)
{
    double jitter = latency->jitter / receivers;
    *latency = stats_latency_of((const int64_t *)(void *)all->data, all->len);
    latency->jitter = jitter;
}

static void join_latencies(const struct bench_processes *processes, struct bench_run *run)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(int64_t));
    GArray *cpu = g_array_new(FALSE, FALSE, sizeof(int64_t));
    for (size_t i = 1; i <= processes->receivers; i++) {
        const struct bench_child *child = &processes->child[i];
        g_array_append_vals(all, child->latencies, (guint)child->result.latencies);
        g_array_append_vals(cpu, child->latencies + child->result.latencies,
                            (guint)child->result.latencies_cpu);
    }
    run->distribution_points =
        stats_distribution_of((const int64_t *)(void *)all->data, all->len, run->distribution);
    replace_latency(&run->latency, all, run->receivers);
    replace_latency(&run->latency_cpu, cpu, run->receivers);
    g_array_unref(all);
    g_array_unref(cpu);
}

static void join_intervals(const struct bench_processes *processes, struct bench_run *run)
{
    const struct bench_child *sender = &processes->child[0];
    GArray *all = g_array_new(FALSE, FALSE, sizeof(int64_t));
    run->interval_sender = stats_latency_of(sender->latencies, sender->result.intervals);
    for (size_t i = 1; i <= processes->receivers; i++) {
        const struct bench_result *result = &processes->child[i].result;
        const int64_t *own =
            processes->child[i].latencies + result->latencies + result->latencies_cpu;
        run->interval_receiver.jitter += stats_latency_of(own, result->intervals).jitter;
        g_array_append_vals(all, own, (guint)result->intervals);
    }
    replace_latency(&run->interval_receiver, all, run->receivers);
    g_array_unref(all);
}

static void add_joins(const struct bench_processes *processes, struct bench_run *run)
{
    const struct bench_result *result = &processes->child[1 + processes->receivers].result;
    run->joined = result->joined;
    run->left = result->left;
    run->joins_measured = result->measured;
    run->torn += result->torn;
    run->lost += result->missing;
}

/* Does not need the sender's clock, which is another one. */
static double mean_rate(const struct bench_run *run)
{
    double sum = 0;
    for (uint32_t i = 0; i < run->receivers; i++)
        sum += run->receiver[i].fps;
    return sum / run->receivers;
}

/* With map, receivers read what upstream wrote into the sender's memory, so only words move. With
 * other routes frames move although neither side copies: the OpenCL driver or the card does. */
static bool moves_nothing(const struct bench_run *run)
{
    return strcmp(run->route, "map") == 0 && run->copies_cpu + run->copies_gpu < 0.5;
}

void bench_figures_sum_up(const struct bench_processes *processes, const struct bench_job *job,
                          struct bench_run *run)
{
    const struct bench_result *sender = &processes->child[0].result,
                              *first = &processes->child[1].result;
    int64_t end = sender->end;
    double received = 0;
    g_strlcpy(run->route, sender->route[0] ? sender->route : first->route, sizeof(run->route));
    g_strlcpy(run->fallback_reason, sender->fallback_reason, sizeof(run->fallback_reason));
    run->frames = sender->frames;
    run->joins = job->joins;
    run->cpu_sender = per_frame(sender->cpu_ns, sender->frames) / 1e3;
    run->marking_sender = marking(sender);
    run->copies_cpu = per_frame(sender->copies_cpu, sender->frames);
    run->copies_gpu = per_frame(sender->copies_gpu, sender->frames);
    run->kicks_sender = per_frame(sender->kicks, sender->frames);
    run->waits_sender = per_frame(sender->waits, sender->frames);
    run->waits_device_sender = per_frame(sender->waits_device, sender->frames);
    run->lent = per_frame((int64_t)sender->lent, sender->frames);
    for (size_t i = 1; i <= processes->receivers; i++) {
        add_receiver(run, &processes->child[i], sender->all);
        end = MAX(end, processes->child[i].result.end);
        received += (double)processes->child[i].result.frames;
        run->idle_receiver += processes->child[i].idle_percent;
    }
    run->idle_sender = processes->child[0].idle_percent;
    run->idle_receiver /= run->receivers;
    run->cpu_receiver /= run->receivers;
    run->marking_receiver /= run->receivers;
    run->kicks_receiver /= run->receivers;
    run->waits_receiver /= run->receivers;
    run->waits_device_receiver /= run->receivers;
    run->fps = job->remote ? mean_rate(run)
                           : received / run->receivers * 1e9 / (double)(end - sender->start);
    run->gigabytes_per_second =
        moves_nothing(run) ? NAN : run->fps * run->receivers * (double)bench_frame_bytes(job) / 1e9;
    if (job->joins)
        add_joins(processes, run);
    run->dropped = (uint64_t)sender->dropped;
    run->lost = run->lost > run->dropped ? run->lost - run->dropped : 0;
    join_latencies(processes, run);
    join_intervals(processes, run);
}

/* A rate is compared with rates, a latency with times. Where nothing is copied, the limit is not a
 * copy. */
static double ratio_to(const struct bench_job *job, const struct bench_run *run,
                       const struct bench_ceiling *ceiling)
{
    bool rate = strcmp(ceiling->unit, "frames/s") == 0;
    bool words = strcmp(ceiling->key, "words") == 0;
    if (rate != (job->fps_num == 0) || (rate && words != moves_nothing(run)))
        return NAN;
    return (rate ? run->fps : run->latency.p50) / ceiling->value;
}

void bench_figures_compare(const struct bench_job *job, struct bench_run *run)
{
    if (moves_nothing(run))
        bench_ceilings_choose(&run->ceilings, "words");
    run->ceiling = run->ceilings.ceiling[run->ceilings.main];
    for (unsigned i = 0; i < run->ceilings.count; i++)
        run->ceiling_ratios[i] = ratio_to(job, run, &run->ceilings.ceiling[i]);
    run->ceiling_ratio = run->ceiling_ratios[run->ceilings.main];
    run->ceiling_ratio_p99 = job->fps_num ? run->latency.p99 / run->ceiling.p99 : NAN;
}
