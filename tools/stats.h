/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Percentiles, jitter and medians, for the tools. */
#ifndef GPUD_TOOLS_STATS_H
#define GPUD_TOOLS_STATS_H

#include <stddef.h>
#include <stdint.h>

/* Microseconds; NAN without samples. */
struct stats_latency {
    double p50, p90, p99, p999, max;
    double jitter; /* the mean difference between successive samples, in the given order */
};

struct stats_latency stats_latency_of(const int64_t *ns, size_t count);

/* Points of a cumulative distribution: every percent, and closer in the last one. */
#define STATS_POINTS 120
struct stats_point {
    double share, us; /* this share of the samples, 0…1, is no longer than so many microseconds */
};

/* The number of points: 0 without samples. */
size_t stats_distribution_of(const int64_t *ns, size_t count,
                             struct stats_point points[STATS_POINTS]);

/* Sorts the values. NAN without any, or if one is NAN. */
double stats_median(double *values, size_t count);

#endif
