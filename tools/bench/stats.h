/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Percentiles, jitter and medians. */
#ifndef GPUD_TOOLS_BENCH_STATS_H
#define GPUD_TOOLS_BENCH_STATS_H

#include <stddef.h>
#include <stdint.h>

/* Microseconds; NAN without samples. */
struct bench_latency {
    double p50, p90, p99, p999, max;
    double jitter; /* the mean difference from one sample to the next, in the order given */
};

struct bench_latency bench_latency_of(const int64_t *ns, size_t count);

/* Sorts the values. NAN without any, or where one is NAN. */
double bench_median(double *values, size_t count);

#endif
