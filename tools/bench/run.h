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
    struct bench_latency latency, latency_cpu;
};

/* Doubles are NAN where nobody knows. */
struct bench_run {
    char route[64], fallback_reason[GPUD_REASON_MAX];
    double fps;
    uint64_t frames;              /* sent, in the measured section */
    uint64_t lost, torn, dropped; /* warm-up included, summed over the receivers */
    struct bench_latency latency;
    struct bench_latency latency_cpu;        /* until the CPU had a frame that a GPU reads */
    double cpu_sender, cpu_receiver;         /* µs a frame; the mean of the receivers */
    double marking_sender, marking_receiver; /* what of these went into marks on a GPU */
    double waits_device_sender, waits_device_receiver; /* CPU waits for a device, a frame */
    double gigabytes_per_second;                       /* of all receivers together */
    double copies_cpu, copies_gpu;                     /* a frame, both sides and all receivers */
    double kicks_sender, waits_sender, kicks_receiver,
        waits_receiver;           /* a frame; the mean of the receivers */
    double lent;                  /* 0…1 */
    struct bench_ceiling ceiling; /* the main one of: */
    struct bench_ceilings ceilings;
    double ceiling_ratios[BENCH_CEILINGS_MAX]; /* NAN where the two are of different kinds */
    double ceiling_ratio, ceiling_ratio_p99;
    uint32_t joins; /* receivers that were to join; the rest are 0 or NAN without any */
    uint64_t joined, left, joins_measured;
    struct bench_latency interval_sender, interval_receiver;
    uint32_t receivers;
    struct bench_line line[GPUD_RECEIVERS_MAX];
};

bool bench_run(const struct bench_job *job, int64_t timeout, struct bench_run *run,
               struct bench_failure *failure);

#endif
