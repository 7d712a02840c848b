/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One run: the processes, the ceiling, and what came out. */
#ifndef GPUD_TOOLS_BENCH_RUN_H
#define GPUD_TOOLS_BENCH_RUN_H

#include "ceiling.h"
#include "stats.h"

/* One receiver of a run. */
struct bench_line {
    uint64_t frames, missing, dropped, torn; /* dropped: as it was told; missing includes them */
    double fps, cpu_us;
    struct bench_latency latency;
};

/* Doubles are NAN where nobody knows. */
struct bench_run {
    char route[64], fallback_reason[192];
    double fps;
    uint64_t frames;              /* sent, in the measured section */
    uint64_t lost, torn, dropped; /* warm-up included, summed over the receivers */
    struct bench_latency latency;
    double cpu_sender, cpu_receiver; /* µs a frame; the mean of the receivers */
    double copies_cpu, copies_gpu;   /* a frame, both sides and all receivers */
    double kicks_sender, waits_sender, kicks_receiver,
        waits_receiver; /* a frame; the mean of the receivers */
    double lent;        /* 0…1 */
    struct bench_ceiling ceiling;
    double ceiling_ratio, ceiling_ratio_p99;
    uint32_t receivers;
    struct bench_line line[GPUD_RECEIVERS_MAX];
};

bool bench_run(const struct bench_job *job, int64_t timeout, struct bench_run *run,
               struct bench_failure *failure);

#endif
