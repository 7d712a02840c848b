/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Turns what the processes of a run have measured into the figures of its report. */
#include "bench.h"

#include "json.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

struct bench_machine {
    char cpu[128], kernel[256];
    long cores;
};

struct bench_spread {
    double median, min, max; /* NAN where unknown */
};

/* A figure that sums up several runs. */
struct bench_metric {
    const char *key, *label, *unit;
    size_t offset; /* of a double in struct bench_run */
};
extern const struct bench_metric bench_metrics[]; /* ends with key NULL */

static struct bench_spread bench_spread_of(const struct bench_series *series,
                                           const struct bench_metric *metric);
static const char *bench_latency_meaning(const struct bench_job *job);
static void bench_machine_describe(struct bench_machine *machine);

/* === figures ================================================================================= */
/* Turns what the processes of a run have measured into the figures of its report. */

static double per_frame(int64_t counter, uint64_t frames)
{
    return counter == BENCH_UNKNOWN || frames == 0 ? NAN : (double)counter / (double)frames;
}

/* Known for marks on a GPU only: marks by the CPU stand for what an application does anyway. */
static double marking(const struct bench_result *result)
{
    return result->marking_ns ? per_frame(result->marking_ns, result->frames) / 1e3 : NAN;
}

static void figures_add_receiver(struct bench_run *run, const struct bench_child *child,
                                 uint64_t sent)
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
        figures_add_receiver(run, &processes->child[i], sender->all);
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

/* === reporttext ============================================================================== */
/* The report as text: a short table. */

#define LABEL 30

static void print_number(double value)
{
    if (isnan(value))
        printf("%12s", "-");
    else if (fabs(value) >= 1000)
        printf("%12.0f", value);
    else if (fabs(value) >= 10)
        printf("%12.1f", value);
    else
        printf("%12.3f", value);
}

/* A copy of the bytes is the hardware's limit. What processes do with words and wake-ups is done by
 * another program, not at best: ours may pass it. */
static const char *noun_of(const struct bench_ceiling *ceiling)
{
    static const char *const limits[] = {"copy", "peer", "fan_out", "download", "upload", "write"};
    for (size_t i = 0; i < G_N_ELEMENTS(limits); i++)
        if (strcmp(ceiling->key, limits[i]) == 0)
            return "ceiling";
    return "reference";
}

static void print_label(const struct bench_metric *metric, const struct bench_series *series)
{
    char label[64];
    const struct bench_ceiling *ceiling = &series->runs[0].ceiling;
    bool is_ceiling = metric->offset == offsetof(struct bench_run, ceiling.value);
    const char *unit = is_ceiling ? ceiling->unit : metric->unit;
    g_snprintf(label, sizeof(label), "%s%s%s", is_ceiling ? noun_of(ceiling) : metric->label,
               unit[0] ? ", " : "", unit);
    printf("  %-*s", LABEL, label);
}

static void print_headings(const char *const *headings)
{
    printf("  %-*s", LABEL, "");
    for (; *headings; headings++)
        printf("%12s", *headings);
    putchar('\n');
}

static void print_series(const struct bench_series *series)
{
    static const char *const headings[] = {"median", "min", "max", NULL};
    if (series->count > 1)
        print_headings(headings);
    for (const struct bench_metric *metric = bench_metrics; metric->key; metric++) {
        struct bench_spread spread = bench_spread_of(series, metric);
        if (isnan(spread.median))
            continue;
        print_label(metric, series);
        print_number(spread.median);
        if (series->count > 1) {
            print_number(spread.min);
            print_number(spread.max);
        }
        putchar('\n');
    }
}

static void print_comparison(const struct bench_series *ours, const struct bench_series *peer)
{
    static const char *const headings[] = {"ours", "peer", "ours/peer", NULL};
    print_headings(headings);
    for (const struct bench_metric *metric = bench_metrics; metric->key; metric++) {
        double mine = bench_spread_of(ours, metric).median,
               theirs = bench_spread_of(peer, metric).median;
        if (isnan(mine) && isnan(theirs))
            continue;
        print_label(metric, ours);
        print_number(mine);
        print_number(theirs);
        print_number(theirs != 0 ? mine / theirs : NAN);
        putchar('\n');
    }
}

/* --- what stands around the figures
 * ------------------------------------------------------------------------------------ */

static void print_path(const char *who, const struct bench_series *series)
{
    const struct bench_job *job = series->job;
    const struct bench_run *last = &series->runs[series->count - 1];
    if (bench_uses_elements(job)) {
        printf("%s%s\n%*s→ %s\n", who, job->sink, (int)g_utf8_strlen(who, -1), "", job->src);
        if (last->route[0])
            printf("%*sroute %s\n", (int)g_utf8_strlen(who, -1), "", last->route);
    } else {
        printf("%s%s → %s%s%s, route %s\n", who, job->from, job->to,
               job->network[0] ? " over " : "", job->network, last->route);
    }
    if (last->fallback_reason[0])
        printf("%*s(%s)\n", (int)g_utf8_strlen(who, -1), "", last->fallback_reason);
}

static void print_setting(const struct bench_job *job, uint32_t runs)
{
    char *size = g_format_size_full(bench_frame_bytes(job), G_FORMAT_SIZE_IEC_UNITS);
    printf("%ux%u %s (%s), %s, %u slots, %u receiver%s, %u frames ", job->width, job->height,
           job->format, size, job->foreign ? "foreign" : "lent", job->slots, job->receivers,
           job->receivers == 1 ? "" : "s", job->frames);
    g_free(size);
    if (job->fps_num)
        printf("at %g/s", (double)job->fps_num / job->fps_den);
    else
        printf("unpaced");
    if (runs > 1)
        printf(", %u runs", runs);
    putchar('\n');
}

static void print_machine(void)
{
    struct bench_machine machine;
    bench_machine_describe(&machine);
    printf("  machine: %s, %ld cores, %s\n", machine.cpu, machine.cores, machine.kernel);
}

static void print_losses(const char *who, const struct bench_series *series)
{
    uint64_t lost = 0, torn = 0, dropped = 0;
    for (uint32_t i = 0; i < series->count; i++) {
        lost += series->runs[i].lost;
        torn += series->runs[i].torn;
        dropped += series->runs[i].dropped;
    }
    printf("%slost %llu, torn %llu, dropped %llu\n", who, (unsigned long long)lost,
           (unsigned long long)torn, (unsigned long long)dropped);
}

static void print_joins(const struct bench_series *series)
{
    uint64_t joined = 0, left = 0, measured = 0;
    if (series->job->joins == 0)
        return;
    for (uint32_t i = 0; i < series->count; i++) {
        joined += series->runs[i].joined;
        left += series->runs[i].left;
        measured += series->runs[i].joins_measured;
    }
    printf("  joined %llu, left %llu", (unsigned long long)joined, (unsigned long long)left);
    if (measured < left)
        printf(", %llu of them after the measured section: try more --frames",
               (unsigned long long)(left - measured));
    putchar('\n');
}

static void print_receivers(const struct bench_run *run)
{
    if (run->receivers < 2)
        return;
    puts("  receiver      frames     missing     dropped        torn    frames/s      p50 us      "
         "p99 us    CPU us/fr");
    for (uint32_t i = 0; i < run->receivers; i++) {
        const struct bench_receiver_run *receiver = &run->receiver[i];
        printf("  %8u%12llu%12llu%12llu%12llu", i + 1, (unsigned long long)receiver->frames,
               (unsigned long long)receiver->missing, (unsigned long long)receiver->dropped,
               (unsigned long long)receiver->torn);
        print_number(receiver->fps);
        print_number(receiver->latency.p50);
        print_number(receiver->latency.p99);
        print_number(receiver->cpu_us);
        putchar('\n');
    }
}

/* The medians of all ceilings but the main one. */
static void print_ceilings(const struct bench_series *series)
{
    const struct bench_ceilings *list = &series->runs[0].ceilings;
    double *values = g_new0(double, series->count), *ratios = g_new0(double, series->count);
    for (unsigned i = 0; i < list->count; i++) {
        if (i == list->main)
            continue;
        for (uint32_t run = 0; run < series->count; run++) {
            values[run] = series->runs[run].ceilings.ceiling[i].value;
            ratios[run] = series->runs[run].ceiling_ratios[i];
        }
        double ratio = stats_median(ratios, series->count);
        printf("           %s: %.6g %s", list->ceiling[i].what, stats_median(values, series->count),
               list->ceiling[i].unit);
        if (!isnan(ratio))
            printf(", ratio to it %.3f", ratio);
        putchar('\n');
    }
    g_free(values);
    g_free(ratios);
}

void bench_print_text(const struct bench_series *ours, const struct bench_series *peer)
{
    print_path(peer ? "ours  " : "", ours);
    if (peer)
        print_path("peer  ", peer);
    print_setting(ours->job, ours->count);
    if (peer) {
        print_comparison(ours, peer);
        print_losses("  ours: ", ours);
        print_losses("  peer: ", peer);
    } else {
        print_series(ours);
        print_losses("  ", ours);
        print_joins(ours);
        if (ours->count == 1)
            print_receivers(&ours->runs[0]);
    }
    printf("  %s: %s\n", noun_of(&ours->runs[0].ceiling), ours->runs[0].ceiling.what);
    if (peer && strcmp(peer->runs[0].ceiling.key, ours->runs[0].ceiling.key) != 0)
        printf("  %s of the peer: %s\n", noun_of(&peer->runs[0].ceiling),
               peer->runs[0].ceiling.what);
    print_ceilings(ours);
    if (ours->job->remote && isnan(ours->runs[0].latency.p50))
        puts("  latency: unknown, the hosts have different clocks");
    else
        printf("  latency: %s\n", bench_latency_meaning(ours->job));
    if (peer && bench_uses_elements(ours->job) != bench_uses_elements(peer->job))
        printf("  latency of the peer: %s\n", bench_latency_meaning(peer->job));
    if (ours->job->idle)
        printf("  idle: connected for %g s after the frames, %% of one CPU\n",
               (double)ours->job->idle / GPUD_SEC);
    if (ours->job->joins)
        puts("  intervals: from one frame to the next, between returns of submit and between"
             " hand-overs to a receiver");
    print_machine();
}

/* === reportjson ============================================================================== */
/* The report as JSON.
 *
 *     one run     the run's object
 *     --runs N    {"runs": […], "summary": {KEY: {"median", "min", "max"}}}
 *     --compare   {"ours": {"runs", "summary"}, "peer": {"runs", "summary"}, "ratio": {KEY:
 * NUMBER}}
 *
 * What is unknown is null. tools/schema/bench.json describes all keys: a new one needs an entry
 * there, and a test compares them. No key is removed or changes its meaning. */

#define UNTIL_CPU "until the CPU had a frame that a GPU reads"

static void reportjson_add_latency(JsonBuilder *builder, const char *key,
                                   const struct stats_latency *latency, const char *meaning)
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

static void reportjson_add_receiver(JsonBuilder *builder, const struct bench_receiver_run *receiver,
                                    const char *meaning)
{
    json_builder_begin_object(builder);
    json_put_int(builder, "frames", receiver->frames);
    json_put_int(builder, "missing", receiver->missing);
    json_put_int(builder, "dropped", receiver->dropped);
    json_put_int(builder, "torn", receiver->torn);
    json_put_number(builder, "fps", receiver->fps);
    json_put_number(builder, "cpu_us_per_frame", receiver->cpu_us);
    reportjson_add_latency(builder, "latency_us", &receiver->latency, meaning);
    reportjson_add_latency(builder, "latency_cpu_us", &receiver->latency_cpu, UNTIL_CPU);
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
    reportjson_add_latency(builder, "sender", &run->interval_sender, "between returns of submit");
    reportjson_add_latency(builder, "receiver", &run->interval_receiver,
                           "between hand-overs to a receiver");
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
    reportjson_add_latency(builder, "latency_us", &run->latency, meaning);
    reportjson_add_latency(builder, "latency_cpu_us", &run->latency_cpu, UNTIL_CPU);
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
        reportjson_add_receiver(builder, &run->receiver[i], meaning);
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

/* === report ================================================================================== */
/* What the text and the JSON report share. */

#define METRIC(key, label, unit, field)                     \
    {                                                       \
        key, label, unit, offsetof(struct bench_run, field) \
    }

const struct bench_metric bench_metrics[] = {
    METRIC("fps", "throughput", "frames/s", fps),
    METRIC("gigabytes_per_second", "to all receivers", "GB/s", gigabytes_per_second),
    METRIC("ceiling", "ceiling", "", ceiling.value),
    METRIC("ceiling_ratio", "ratio to it", "", ceiling_ratio),
    METRIC("ceiling_ratio_p99", "ratio of p99", "", ceiling_ratio_p99),
    METRIC("latency_us_p50", "latency p50", "us", latency.p50),
    METRIC("latency_us_p90", "latency p90", "us", latency.p90),
    METRIC("latency_us_p99", "latency p99", "us", latency.p99),
    METRIC("latency_us_p999", "latency p99.9", "us", latency.p999),
    METRIC("latency_us_max", "latency max", "us", latency.max),
    METRIC("latency_us_jitter", "jitter", "us", latency.jitter),
    METRIC("latency_cpu_us_p50", "until the CPU p50", "us", latency_cpu.p50),
    METRIC("latency_cpu_us_p99", "until the CPU p99", "us", latency_cpu.p99),
    METRIC("cpu_us_per_frame_sender", "CPU sender", "us/frame", cpu_sender),
    METRIC("cpu_us_per_frame_receiver", "CPU receiver", "us/frame", cpu_receiver),
    METRIC("idle_percent_sender", "CPU idle sender", "%", idle_sender),
    METRIC("idle_percent_receiver", "CPU idle receiver", "%", idle_receiver),
    METRIC("marking_us_per_frame_sender", "of it marking", "us/frame", marking_sender),
    METRIC("marking_us_per_frame_receiver", "of it marking, receiver", "us/frame",
           marking_receiver),
    METRIC("copies_cpu", "copies by CPUs", "/frame", copies_cpu),
    METRIC("copies_gpu", "copies by devices", "/frame", copies_gpu),
    METRIC("lent", "lent by the far side", "of 1", lent),
    METRIC("kicks_sender", "wakes by sender", "/frame", kicks_sender),
    METRIC("waits_sender", "sleeps of sender", "/frame", waits_sender),
    METRIC("kicks_receiver", "wakes by receiver", "/frame", kicks_receiver),
    METRIC("waits_receiver", "sleeps of receiver", "/frame", waits_receiver),
    METRIC("waits_device_sender", "device waits of sender", "/frame", waits_device_sender),
    METRIC("waits_device_receiver", "device waits of receiver", "/frame", waits_device_receiver),
    METRIC("interval_us_sender_p50", "sender's intervals p50", "us", interval_sender.p50),
    METRIC("interval_us_sender_p99", "sender's intervals p99", "us", interval_sender.p99),
    METRIC("interval_us_sender_p999", "sender's intervals p99.9", "us", interval_sender.p999),
    METRIC("interval_us_sender_max", "sender's intervals max", "us", interval_sender.max),
    METRIC("interval_us_receiver_p50", "receiver's intervals p50", "us", interval_receiver.p50),
    METRIC("interval_us_receiver_p99", "receiver's intervals p99", "us", interval_receiver.p99),
    METRIC("interval_us_receiver_p999", "receiver's intervals p99.9", "us", interval_receiver.p999),
    METRIC("interval_us_receiver_max", "receiver's intervals max", "us", interval_receiver.max),
    {NULL},
};

static struct bench_spread bench_spread_of(const struct bench_series *series,
                                           const struct bench_metric *metric)
{
    double *values = g_new0(double, series->count);
    for (uint32_t i = 0; i < series->count; i++)
        memcpy(&values[i], (const char *)&series->runs[i] + metric->offset, sizeof(double));
    struct bench_spread spread = {.median = stats_median(values, series->count)};
    bool known = !isnan(spread.median); /* stats_median() has sorted them then */
    spread.min = known ? values[0] : NAN;
    spread.max = known ? values[series->count - 1] : NAN;
    g_free(values);
    return spread;
}

static const char *bench_latency_meaning(const struct bench_job *job)
{
    bool gpu = bench_reads_on_gpu(job);
    if (bench_uses_elements(job))
        return gpu ? "push into the sink to the GPU's sight of the buffer behind the source"
                   : "push into the sink to mapped buffer behind the source";
    if (gpu)
        return "submit to the GPU's sight of the frame";
    bool host = strcmp(job->from, "host") == 0 && strcmp(job->to, "host") == 0;
    return host ? "submit to acquire" : "submit to mapped and readable";
}

static void bench_machine_describe(struct bench_machine *machine)
{
    struct utsname name;
    char line[256];
    *machine = (struct bench_machine){.cores = sysconf(_SC_NPROCESSORS_ONLN)};
    g_strlcpy(machine->cpu, "unknown", sizeof(machine->cpu));
    if (uname(&name) == 0)
        g_snprintf(machine->kernel, sizeof(machine->kernel), "%s %s %s", name.sysname, name.release,
                   name.machine);
    FILE *info = fopen("/proc/cpuinfo", "re");
    while (info && fgets(line, sizeof(line), info)) {
        char *colon = strchr(line, ':');
        if (!g_str_has_prefix(line, "model name") || !colon)
            continue;
        g_strlcpy(machine->cpu, g_strstrip(colon + 1), sizeof(machine->cpu));
        break;
    }
    if (info)
        fclose(info);
}
