/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The report: of one run, of several, or of gpudirect's and a peer's. */
#ifndef GPUD_TOOLS_BENCH_REPORT_H
#define GPUD_TOOLS_BENCH_REPORT_H

#include "options.h"
#include "run.h"

struct bench_series {
    const struct bench_job *job;
    const struct bench_run *runs;
    uint32_t count;
};

/* A figure that sums up several runs. */
struct bench_metric {
    const char *key, *label, *unit;
    size_t offset; /* of a double in struct bench_run */
};
extern const struct bench_metric bench_metrics[]; /* ends with key NULL */

struct bench_spread {
    double median, min, max; /* NAN where unknown */
};
struct bench_spread bench_spread_of(const struct bench_series *series,
                                    const struct bench_metric *metric);

const char *bench_latency_meaning(const struct bench_job *job);

struct bench_machine {
    char cpu[128], kernel[256];
    long cores;
};
void bench_machine_describe(struct bench_machine *machine);

/* peer may be NULL. */
void bench_print_text(const struct bench_series *ours, const struct bench_series *peer);
void bench_print_json(const struct bench_series *ours, const struct bench_series *peer);

#endif
