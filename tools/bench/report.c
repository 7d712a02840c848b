/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the text and the JSON report share. */
#include "report.h"

#include "rows.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

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

struct bench_spread bench_spread_of(const struct bench_series *series,
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

const char *bench_latency_meaning(const struct bench_job *job)
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

void bench_machine_describe(struct bench_machine *machine)
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
