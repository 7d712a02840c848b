/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The report as text: a short table. */
#include "report.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

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
