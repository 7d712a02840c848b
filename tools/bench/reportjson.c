/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The report as JSON.
 *
 *     one run     the run's object
 *     --runs N    {"runs": […], "summary": {KEY: {"median", "min", "max"}}}
 *     --compare   {"ours": {"runs", "summary"}, "peer": {"runs", "summary"}, "ratio": {KEY:
 * NUMBER}}
 *
 * What is unknown is null. tools/schema/bench.json describes all keys: a new one needs an entry
 * there, and a test compares them. No key is removed or changes its meaning. */
#include "json.h"
#include "report.h"
#include "rows.h"

#include <math.h>

#define UNTIL_CPU "until the CPU had a frame that a GPU reads"

static void add_latency(JsonBuilder *builder, const char *key, const struct stats_latency *latency,
                        const char *meaning)
{
    json_begin_object(builder, key);
    json_put_number(builder, "p50", latency->p50);
    json_put_number(builder, "p90", latency->p90);
    json_put_number(builder, "p99", latency->p99);
    json_put_number(builder, "p999", latency->p999);
    json_put_number(builder, "max", latency->max);
    json_put_number(builder, "jitter", latency->jitter);
    json_put_text(builder, "of", meaning);
    json_builder_end_object(builder);
}

/* null without --distribution */
static void add_distribution(JsonBuilder *builder, const struct bench_run *run, bool wanted)
{
    if (!wanted) {
        json_put_text(builder, "distribution", NULL);
        return;
    }
    json_begin_array(builder, "distribution");
    for (size_t i = 0; i < run->distribution_points; i++) {
        json_builder_begin_object(builder);
        json_put_number(builder, "share", run->distribution[i].share);
        json_put_number(builder, "us", run->distribution[i].us);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
}

static void add_parameters(JsonBuilder *builder, const struct bench_job *job)
{
    static const char *const policies[] = {
        [GPUD_SLOW_BLOCK] = "block",
        [GPUD_SLOW_DROP_NEWEST] = "drop-newest",
        [GPUD_SLOW_DROP_OLDEST] = "drop-oldest",
    };
    bool elements = bench_uses_elements(job);
    json_begin_object(builder, "parameters");
    bool named =
        !elements ||
        bench_uses_rows(job); /* with elements: only if these say in whose memory frames are */
    json_put_text(builder, "from", named ? job->from : NULL);
    json_put_text(builder, "to", named ? job->to : NULL);
    json_put_text(builder, "network", job->network);
    json_put_bool(builder, "remote", job->remote);
    json_put_text(builder, "route", job->route);
    json_put_text(builder, "sink", job->sink);
    json_put_text(builder, "src", job->src);
    json_put_text(builder, "format", job->format);
    json_put_int(builder, "width", job->width);
    json_put_int(builder, "height", job->height);
    json_put_int(builder, "frame_bytes", bench_frame_bytes(job));
    json_put_int(builder, "frames", job->frames);
    json_put_int(builder, "warmup", job->warmup);
    json_put_number(builder, "fps", job->fps_num ? (double)job->fps_num / job->fps_den : NAN);
    json_put_int(builder, "receivers", job->receivers);
    json_put_int(builder, "slots", job->slots);
    json_put_int(builder, "join", job->joins);
    json_put_text(builder, "slow_receiver", elements ? NULL : policies[job->slow_receiver]);
    json_put_text(builder, "source", job->foreign ? "foreign" : "lent");
    json_put_text(builder, "verify", job->full ? "full" : "marks");
    json_builder_end_object(builder);
}

static void add_machine(JsonBuilder *builder)
{
    struct bench_machine machine;
    bench_machine_describe(&machine);
    json_begin_object(builder, "machine");
    json_put_text(builder, "cpu", machine.cpu);
    json_put_int(builder, "cores", (uint64_t)machine.cores);
    json_put_text(builder, "kernel", machine.kernel);
    json_put_text(builder, "version", gpud_version_string());
    json_builder_end_object(builder);
}

static void add_receiver(JsonBuilder *builder, const struct bench_receiver_run *receiver,
                         const char *meaning)
{
    json_builder_begin_object(builder);
    json_put_int(builder, "frames", receiver->frames);
    json_put_int(builder, "missing", receiver->missing);
    json_put_int(builder, "dropped", receiver->dropped);
    json_put_int(builder, "torn", receiver->torn);
    json_put_number(builder, "fps", receiver->fps);
    json_put_number(builder, "cpu_us_per_frame", receiver->cpu_us);
    add_latency(builder, "latency_us", &receiver->latency, meaning);
    add_latency(builder, "latency_cpu_us", &receiver->latency_cpu, UNTIL_CPU);
    json_builder_end_object(builder);
}

static void add_pair(JsonBuilder *builder, const char *key, const char *first, double a,
                     const char *second, double b)
{
    json_begin_object(builder, key);
    json_put_number(builder, first, a);
    json_put_number(builder, second, b);
    json_builder_end_object(builder);
}

static void add_ceiling(JsonBuilder *builder, const struct bench_ceiling *ceiling)
{
    json_put_text(builder, "key", ceiling->key);
    json_put_text(builder, "what", ceiling->what);
    json_put_number(builder, "value", ceiling->value);
    json_put_text(builder, "unit", ceiling->unit);
    json_put_number(builder, "p99", ceiling->p99);
}

/* null without --join */
static void add_join(JsonBuilder *builder, const struct bench_run *run)
{
    if (run->joins == 0) {
        json_put_text(builder, "join", NULL);
        return;
    }
    json_begin_object(builder, "join");
    json_put_int(builder, "joined", run->joined);
    json_put_int(builder, "left", run->left);
    json_put_int(builder, "left_while_measured", run->joins_measured);
    json_begin_object(builder, "interval_us");
    add_latency(builder, "sender", &run->interval_sender, "between returns of submit");
    add_latency(builder, "receiver", &run->interval_receiver, "between hand-overs to a receiver");
    json_builder_end_object(builder);
    json_builder_end_object(builder);
}

/* null without --idle */
static void add_idle(JsonBuilder *builder, const struct bench_job *job, const struct bench_run *run)
{
    if (job->idle == 0) {
        json_put_text(builder, "idle", NULL);
        return;
    }
    json_begin_object(builder, "idle");
    json_put_number(builder, "seconds", (double)job->idle / GPUD_SEC);
    add_pair(builder, "cpu_percent", "sender", run->idle_sender, "receiver", run->idle_receiver);
    json_builder_end_object(builder);
}

static void add_run(JsonBuilder *builder, const struct bench_job *job, const struct bench_run *run)
{
    const char *meaning = bench_latency_meaning(job);
    json_builder_begin_object(builder);
    json_put_text(builder, "route", run->route);
    json_put_text(builder, "fallback_reason", run->fallback_reason);
    json_put_int(builder, "frames", run->frames);
    json_put_number(builder, "fps", run->fps);
    json_put_int(builder, "lost", run->lost);
    json_put_int(builder, "torn", run->torn);
    json_put_int(builder, "dropped", run->dropped);
    json_put_number(builder, "gigabytes_per_second", run->gigabytes_per_second);
    add_latency(builder, "latency_us", &run->latency, meaning);
    add_latency(builder, "latency_cpu_us", &run->latency_cpu, UNTIL_CPU);
    add_distribution(builder, run, job->distribution);
    add_pair(builder, "cpu_us_per_frame", "sender", run->cpu_sender, "receiver", run->cpu_receiver);
    add_pair(builder, "marking_us_per_frame", "sender", run->marking_sender, "receiver",
             run->marking_receiver);
    add_pair(builder, "copies", "cpu", run->copies_cpu, "gpu", run->copies_gpu);
    json_begin_object(builder, "wakes_per_frame");
    add_pair(builder, "sender", "kicks", run->kicks_sender, "waits", run->waits_sender);
    add_pair(builder, "receiver", "kicks", run->kicks_receiver, "waits", run->waits_receiver);
    json_builder_end_object(builder);
    add_pair(builder, "device_waits_per_frame", "sender", run->waits_device_sender, "receiver",
             run->waits_device_receiver);
    json_put_number(builder, "lent", run->lent);
    json_begin_object(builder, "ceiling");
    add_ceiling(builder, &run->ceiling);
    json_builder_end_object(builder);
    json_put_number(builder, "ceiling_ratio", run->ceiling_ratio);
    json_put_number(builder, "ceiling_ratio_p99", run->ceiling_ratio_p99);
    json_begin_array(builder, "ceilings");
    for (unsigned i = 0; i < run->ceilings.count; i++) {
        json_builder_begin_object(builder);
        add_ceiling(builder, &run->ceilings.ceiling[i]);
        json_put_number(builder, "ratio", run->ceiling_ratios[i]);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_begin_array(builder, "receivers");
    for (uint32_t i = 0; i < run->receivers; i++)
        add_receiver(builder, &run->receiver[i], meaning);
    json_builder_end_array(builder);
    add_join(builder, run);
    add_idle(builder, job, run);
    add_parameters(builder, job);
    add_machine(builder);
    json_builder_end_object(builder);
}

static void add_series(JsonBuilder *builder, const struct bench_series *series)
{
    json_builder_begin_object(builder);
    json_begin_array(builder, "runs");
    for (uint32_t i = 0; i < series->count; i++)
        add_run(builder, series->job, &series->runs[i]);
    json_builder_end_array(builder);
    json_begin_object(builder, "summary");
    for (const struct bench_metric *metric = bench_metrics; metric->key; metric++) {
        struct bench_spread spread = bench_spread_of(series, metric);
        json_begin_object(builder, metric->key);
        json_put_number(builder, "median", spread.median);
        json_put_number(builder, "min", spread.min);
        json_put_number(builder, "max", spread.max);
        json_builder_end_object(builder);
    }
    json_builder_end_object(builder);
    json_builder_end_object(builder);
}

static void add_comparison(JsonBuilder *builder, const struct bench_series *ours,
                           const struct bench_series *peer)
{
    json_builder_begin_object(builder);
    json_builder_set_member_name(builder, "ours");
    add_series(builder, ours);
    json_builder_set_member_name(builder, "peer");
    add_series(builder, peer);
    json_begin_object(builder, "ratio");
    for (const struct bench_metric *metric = bench_metrics; metric->key; metric++) {
        double theirs = bench_spread_of(peer, metric).median;
        json_put_number(builder, metric->key,
                        theirs != 0 ? bench_spread_of(ours, metric).median / theirs : NAN);
    }
    json_builder_end_object(builder);
    json_builder_end_object(builder);
}

void bench_print_json(const struct bench_series *ours, const struct bench_series *peer)
{
    JsonBuilder *builder = json_builder_new();
    if (peer)
        add_comparison(builder, ours, peer);
    else if (ours->count > 1)
        add_series(builder, ours);
    else
        add_run(builder, ours->job, &ours->runs[0]);
    json_print(builder, true);
}
