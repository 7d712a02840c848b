/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What --capture prints. */
#ifndef GPUD_TOOLS_BENCH_CAPTUREREPORT_H
#define GPUD_TOOLS_BENCH_CAPTUREREPORT_H

#include "bench.h"
#include "ceilings/stats.h"

struct bench_capture {
    struct gpud_capture_info info;                               /* at the end */
    uint64_t frames, dropped, corrupted, copies_cpu, copies_gpu; /* in the measured section */
    double seconds, cpu;                                         /* cpu: us a frame */
    bool stamped; /* latencies by the driver's stamps are known */
    struct stats_latency stamp;
    const char *no_clock; /* why the pictures' own clock is unknown; NULL: it is known */
    /* The picture's clock began when the driver was asked to stream, or up to this much later: */
    double slack;                 /* us */
    double step;                  /* of that clock, us */
    struct stats_latency at_most; /* at least: this less `slack` */
    uint64_t timed, right;        /* frames with a time; with the number that the driver reports */
};

void bench_capture_print_text(const struct bench_job *job, const struct bench_capture *result);
void bench_capture_print_json(const struct bench_job *job, const struct bench_capture *result);

#endif
