/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Turns what the processes of a run have measured into the figures of its report. */
#ifndef GPUD_TOOLS_BENCH_FIGURES_H
#define GPUD_TOOLS_BENCH_FIGURES_H

#include "ceiling.h"
#include "ceilings/stats.h"
#include "children.h"

/* One receiver of a run. */
struct bench_receiver_run {
    uint64_t frames, missing, dropped,
        torn; /* dropped: as the sender reported; included in missing */
    double fps, cpu_us;
    struct stats_latency latency, latency_cpu;
};

/* Doubles are NAN where unknown. */
struct bench_run {
    char route[64], fallback_reason[GPUD_REASON_MAX];
    double fps;
    uint64_t frames;              /* sent, in the measured section */
    uint64_t lost, torn, dropped; /* including the warm-up, of all receivers */
    struct stats_latency latency;
    struct stats_point distribution[STATS_POINTS]; /* of latency */
    size_t distribution_points;
    struct stats_latency latency_cpu;        /* until the CPU had a frame that a GPU reads */
    double cpu_sender, cpu_receiver;         /* µs a frame; the mean of the receivers */
    double marking_sender, marking_receiver; /* the part for marking on a GPU */
    double waits_device_sender,
        waits_device_receiver;     /* times the CPU waited for a device, per frame */
    double gigabytes_per_second;   /* of all receivers together */
    double copies_cpu, copies_gpu; /* per frame, both sides and all receivers */
    double kicks_sender, waits_sender, kicks_receiver,
        waits_receiver;           /* per frame; the mean of the receivers */
    double lent;                  /* 0…1 */
    struct bench_ceiling ceiling; /* the main one of these: */
    struct bench_ceilings ceilings;
    double ceiling_ratios[BENCH_CEILINGS_MAX]; /* NAN: a rate cannot be compared with a time */
    double ceiling_ratio, ceiling_ratio_p99;
    uint32_t joins; /* 0: what follows is 0 or NAN */
    uint64_t joined, left, joins_measured;
    struct stats_latency interval_sender, interval_receiver;
    double idle_sender, idle_receiver; /* % of one CPU; the mean of the receivers */
    uint32_t receivers;
    struct bench_receiver_run receiver[GPUD_RECEIVERS_MAX];
};

/* All figures but the ceilings. */
void bench_figures_sum_up(const struct bench_processes *processes, const struct bench_job *job,
                          struct bench_run *run);

/* The ratios to the ceilings, once both are known. */
void bench_figures_compare(const struct bench_job *job, struct bench_run *run);

#endif
