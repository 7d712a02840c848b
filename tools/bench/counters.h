/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a receiver counts for each frame, through the core and through elements alike. */
#ifndef GPUD_TOOLS_BENCH_COUNTERS_H
#define GPUD_TOOLS_BENCH_COUNTERS_H

#include "bench.h"

struct bench_counters {
    const struct bench_job *job;
    uint64_t first; /* index of the first frame; 0: none yet */
    uint64_t last;  /* index of the previous frame */
    bool started;   /* the measured section has begun */
    bool complete;  /* the last frame came */
    int64_t cpu_start;
    int64_t *latencies;
    int64_t *latencies_cpu;
    int64_t *intervals; /* between frames, with --join; else NULL */
    int64_t arrived;    /* when the previous frame came */
    int64_t probe_ns;   /* spent polling the GPU, which does not count as CPU time of receiving */
    int64_t marking_ns; /* spent reading marks from the GPU */
    int64_t probe_start, marking_start;
    const int64_t *times;      /* the submit times of submittimes.h; NULL: none */
    struct gpud_layout layout; /* where rows.h marks frames */
    struct bench_result result;
    void (*on_start)(void *user); /* called when the measured section begins; may be NULL */
    void *user;
};

void bench_counters_init(struct bench_counters *counters, const struct bench_job *job);
void bench_counters_free(struct bench_counters *counters);

/* Times of one frame, monotonic ns. */
struct bench_frame_times {
    int64_t submitted; /* 0: unknown */
    int64_t acquired;  /* by the CPU, before the GPU could read it; 0: same as seen */
    int64_t seen;      /* when its reader, CPU or GPU, could read it; 0: unknown */
    int64_t counted;   /* the basis of throughput */
};

/* Counts a frame. whole: all its marks are of the frame `index`. reported_drops: frames that the
 * sender has reported as dropped so far. */
void bench_counters_add(struct bench_counters *counters, bool whole, uint64_t index,
                        const struct bench_frame_times *times, uint64_t reported_drops);

/* Checks and counts a frame that the CPU can read since `now`. submitted: 0: its mark has the
 * time. */
void bench_counters_check(struct bench_counters *counters, const void *data, uint64_t size,
                          int64_t now, int64_t submitted, uint64_t reported_drops);

/* Subtracts the earlier counters, which leaves those of the section in between. */
void bench_result_subtract(struct bench_result *now, const struct bench_result *before);

/* Call it after the last frame. */
void bench_counters_end(struct bench_counters *counters);

#endif
