/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stats.h"

#include <glib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The nearest rank, so that it is a value that occurred. */
static double percentile(const int64_t *sorted, size_t count, double part)
{
    size_t rank = (size_t)ceil(part * (double)count);
    return (double)sorted[rank > 0 ? rank - 1 : 0] / 1e3;
}

struct stats_latency stats_latency_of(const int64_t *ns, size_t count)
{
    if (count == 0)
        return (struct stats_latency){NAN, NAN, NAN, NAN, NAN, NAN};
    double differences = 0;
    for (size_t i = 1; i < count; i++)
        differences += fabs((double)(ns[i] - ns[i - 1]));
    int64_t *sorted = g_memdup2(ns, count * sizeof(*ns));
    qsort(sorted, count, sizeof(*sorted), compare_ns);
    struct stats_latency latency = {
        .p50 = percentile(sorted, count, 0.5),
        .p90 = percentile(sorted, count, 0.9),
        .p99 = percentile(sorted, count, 0.99),
        .p999 = percentile(sorted, count, 0.999),
        .max = percentile(sorted, count, 1),
        .jitter = count > 1 ? differences / (double)(count - 1) / 1e3 : 0,
    };
    g_free(sorted);
    return latency;
}

size_t stats_distribution_of(const int64_t *ns, size_t count,
                             struct stats_point points[STATS_POINTS])
{
    size_t filled = 0;
    if (count == 0)
        return 0;
    int64_t *sorted = g_memdup2(ns, count * sizeof(*ns));
    qsort(sorted, count, sizeof(*sorted), compare_ns);
    for (unsigned percent = 0; percent < 99; percent++)
        points[filled++].share = percent / 100.0;
    for (unsigned thousandth = 990; thousandth < 999; thousandth++)
        points[filled++].share = thousandth / 1e3;
    for (unsigned part = 9990; part <= 10000; part++)
        points[filled++].share = part / 1e4;
    for (size_t i = 0; i < filled; i++)
        points[i].us = percentile(sorted, count, points[i].share);
    g_free(sorted);
    return filled;
}

double stats_median(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (isnan(values[i]))
            return NAN;
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof(*values), compare_double);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}
