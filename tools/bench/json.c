/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The report as JSON.
 *
 *     one run     the run's object
 *     --runs N    {"runs": […], "summary": {KEY: {"median", "min", "max"}}}
 *     --compare   {"ours": {"runs", "summary"}, "peer": {"runs", "summary"}, "ratio": {KEY:
 * NUMBER}}
 *
 * What is unknown is null. Keys are stable: new ones may be added, none is removed or changes its
 * meaning. */
#include "report.h"
#include "rows.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <stdio.h>

#define UNTIL_CPU "until the CPU had a frame that a GPU reads"

static void add_string(JsonBuilder *builder, const char *key, const char *value)
{
    json_builder_set_member_name(builder, key);
    if (value && value[0])
        json_builder_add_string_value(builder, value);
    else
        json_builder_add_null_value(builder);
}

static void add_count(JsonBuilder *builder, const char *key, uint64_t value)
{
    json_builder_set_member_name(builder, key);
    json_builder_add_int_value(builder, (gint64)value);
}

static void add_number(JsonBuilder *builder, const char *key, double value)
{
    json_builder_set_member_name(builder, key);
    if (isfinite(value))
        json_builder_add_double_value(builder, value);
    else
        json_builder_add_null_value(builder);
}

static void begin(JsonBuilder *builder, const char *key)
{
    json_builder_set_member_name(builder, key);
    json_builder_begin_object(builder);
}

static void add_latency(JsonBuilder *builder, const char *key, const struct bench_latency *latency,
                        const char *meaning)
{
    begin(builder, key);
    add_number(builder, "p50", latency->p50);
    add_number(builder, "p90", latency->p90);
    add_number(builder, "p99", latency->p99);
    add_number(builder, "p999", latency->p999);
    add_number(builder, "max", latency->max);
    add_number(builder, "jitter", latency->jitter);
    add_string(builder, "of", meaning);
    json_builder_end_object(builder);
}

static void add_parameters(JsonBuilder *builder, const struct bench_job *job)
{
    static const char *const policies[] = {
        [GPUD_SLOW_BLOCK] = "block",
        [GPUD_SLOW_DROP_NEWEST] = "drop-newest",
        [GPUD_SLOW_DROP_OLDEST] = "drop-oldest",
    };
    bool elements = bench_uses_elements(job);
    begin(builder, "parameters");
    bool named =
        !elements ||
        bench_uses_rows(job); /* with elements: only where these say in whose memory frames are */
    add_string(builder, "from", named ? job->from : NULL);
    add_string(builder, "to", named ? job->to : NULL);
    add_string(builder, "network", job->network);
    json_builder_set_member_name(builder, "remote");
    json_builder_add_boolean_value(builder, job->remote);
    add_string(builder, "route", job->route);
    add_string(builder, "sink", job->sink);
    add_string(builder, "src", job->src);
    add_string(builder, "format", job->format);
    add_count(builder, "width", job->width);
    add_count(builder, "height", job->height);
    add_count(builder, "frame_bytes", bench_frame_bytes(job));
    add_count(builder, "frames", job->frames);
    add_count(builder, "warmup", job->warmup);
    add_number(builder, "fps", job->fps_num ? (double)job->fps_num / job->fps_den : NAN);
    add_count(builder, "receivers", job->receivers);
    add_count(builder, "slots", job->slots);
    add_count(builder, "join", job->joins);
    add_string(builder, "slow_receiver", elements ? NULL : policies[job->slow_receiver]);
    add_string(builder, "source", job->foreign ? "foreign" : "lent");
    add_string(builder, "verify", job->full ? "full" : "marks");
    json_builder_end_object(builder);
}

static void add_machine(JsonBuilder *builder)
{
    struct bench_machine machine;
    bench_machine_describe(&machine);
    begin(builder, "machine");
    add_string(builder, "cpu", machine.cpu);
    add_count(builder, "cores", (uint64_t)machine.cores);
    add_string(builder, "kernel", machine.kernel);
    add_string(builder, "version", gpud_version_string());
    json_builder_end_object(builder);
}

static void add_receiver(JsonBuilder *builder, const struct bench_receiver_run *receiver,
                         const char *meaning)
{
    json_builder_begin_object(builder);
    add_count(builder, "frames", receiver->frames);
    add_count(builder, "missing", receiver->missing);
    add_count(builder, "dropped", receiver->dropped);
    add_count(builder, "torn", receiver->torn);
    add_number(builder, "fps", receiver->fps);
    add_number(builder, "cpu_us_per_frame", receiver->cpu_us);
    add_latency(builder, "latency_us", &receiver->latency, meaning);
    add_latency(builder, "latency_cpu_us", &receiver->latency_cpu, UNTIL_CPU);
    json_builder_end_object(builder);
}

static void add_pair(JsonBuilder *builder, const char *key, const char *first, double a,
                     const char *second, double b)
{
    begin(builder, key);
    add_number(builder, first, a);
    add_number(builder, second, b);
    json_builder_end_object(builder);
}

static void add_ceiling(JsonBuilder *builder, const struct bench_ceiling *ceiling)
{
    add_string(builder, "key", ceiling->key);
    add_string(builder, "what", ceiling->what);
    add_number(builder, "value", ceiling->value);
    add_string(builder, "unit", ceiling->unit);
    add_number(builder, "p99", ceiling->p99);
}

/* null without --join */
static void add_join(JsonBuilder *builder, const struct bench_run *run)
{
    if (run->joins == 0) {
        add_string(builder, "join", NULL);
        return;
    }
    begin(builder, "join");
    add_count(builder, "joined", run->joined);
    add_count(builder, "left", run->left);
    add_count(builder, "left_while_measured", run->joins_measured);
    begin(builder, "interval_us");
    add_latency(builder, "sender", &run->interval_sender, "between returns of submit");
    add_latency(builder, "receiver", &run->interval_receiver, "between hand-overs to a receiver");
    json_builder_end_object(builder);
    json_builder_end_object(builder);
}

/* null without --idle */
static void add_idle(JsonBuilder *builder, const struct bench_job *job, const struct bench_run *run)
{
    if (job->idle == 0) {
        add_string(builder, "idle", NULL);
        return;
    }
    begin(builder, "idle");
    add_number(builder, "seconds", (double)job->idle / GPUD_SEC);
    add_pair(builder, "cpu_percent", "sender", run->idle_sender, "receiver", run->idle_receiver);
    json_builder_end_object(builder);
}

static void add_run(JsonBuilder *builder, const struct bench_job *job, const struct bench_run *run)
{
    const char *meaning = bench_latency_meaning(job);
    json_builder_begin_object(builder);
    add_string(builder, "route", run->route);
    add_string(builder, "fallback_reason", run->fallback_reason);
    add_count(builder, "frames", run->frames);
    add_number(builder, "fps", run->fps);
    add_count(builder, "lost", run->lost);
    add_count(builder, "torn", run->torn);
    add_count(builder, "dropped", run->dropped);
    add_number(builder, "gigabytes_per_second", run->gigabytes_per_second);
    add_latency(builder, "latency_us", &run->latency, meaning);
    add_latency(builder, "latency_cpu_us", &run->latency_cpu, UNTIL_CPU);
    add_pair(builder, "cpu_us_per_frame", "sender", run->cpu_sender, "receiver", run->cpu_receiver);
    add_pair(builder, "marking_us_per_frame", "sender", run->marking_sender, "receiver",
             run->marking_receiver);
    add_pair(builder, "copies", "cpu", run->copies_cpu, "gpu", run->copies_gpu);
    begin(builder, "wakes_per_frame");
    add_pair(builder, "sender", "kicks", run->kicks_sender, "waits", run->waits_sender);
    add_pair(builder, "receiver", "kicks", run->kicks_receiver, "waits", run->waits_receiver);
    json_builder_end_object(builder);
    add_pair(builder, "device_waits_per_frame", "sender", run->waits_device_sender, "receiver",
             run->waits_device_receiver);
    add_number(builder, "lent", run->lent);
    begin(builder, "ceiling");
    add_ceiling(builder, &run->ceiling);
    json_builder_end_object(builder);
    add_number(builder, "ceiling_ratio", run->ceiling_ratio);
    add_number(builder, "ceiling_ratio_p99", run->ceiling_ratio_p99);
    json_builder_set_member_name(builder, "ceilings");
    json_builder_begin_array(builder);
    for (unsigned i = 0; i < run->ceilings.count; i++) {
        json_builder_begin_object(builder);
        add_ceiling(builder, &run->ceilings.ceiling[i]);
        add_number(builder, "ratio", run->ceiling_ratios[i]);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_builder_set_member_name(builder, "receivers");
    json_builder_begin_array(builder);
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
    json_builder_set_member_name(builder, "runs");
    json_builder_begin_array(builder);
    for (uint32_t i = 0; i < series->count; i++)
        add_run(builder, series->job, &series->runs[i]);
    json_builder_end_array(builder);
    begin(builder, "summary");
    for (const struct bench_metric *metric = bench_metrics; metric->key; metric++) {
        struct bench_spread spread = bench_spread_of(series, metric);
        begin(builder, metric->key);
        add_number(builder, "median", spread.median);
        add_number(builder, "min", spread.min);
        add_number(builder, "max", spread.max);
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
    begin(builder, "ratio");
    for (const struct bench_metric *metric = bench_metrics; metric->key; metric++) {
        double theirs = bench_spread_of(peer, metric).median;
        add_number(builder, metric->key,
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
    JsonNode *root = json_builder_get_root(builder);
    char *text = json_to_string(root, TRUE);
    puts(text);
    g_free(text);
    json_node_unref(root);
    g_object_unref(builder);
}
