/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a receiver counts, frame by frame, whatever the frames came through. */
#ifndef GPUD_TOOLS_BENCH_TALLY_H
#define GPUD_TOOLS_BENCH_TALLY_H

#include "bench.h"

struct bench_tally {
    const struct bench_job *job;
    uint64_t first; /* index of the first frame; 0: none yet */
    uint64_t last;  /* index of the frame before */
    bool started;   /* the measured section */
    bool complete;  /* the last frame was seen */
    int64_t cpu_start;
    int64_t *latencies;
    int64_t *latencies_cpu;
    int64_t *intervals; /* between frames, where receivers join; else NULL */
    int64_t arrived;    /* the frame before, for the interval */
    int64_t probe_ns;   /* spent in looking at the GPU: not counted as the process's time */
    int64_t marking_ns; /* spent in marks on the GPU */
    int64_t probe_start, marking_start;
    const int64_t *times;      /* at which frames were handed over, by index; NULL: nobody says */
    struct gpud_layout layout; /* where frames are marked in rows */
    struct bench_result result;
    void (*on_start)(void *user); /* the measured section begins: counters are noted. May be NULL */
    void *user;
};

void bench_tally_init(struct bench_tally *tally, const struct bench_job *job);
void bench_tally_free(struct bench_tally *tally);

/* A frame's moments, monotonic ns. */
struct bench_moment {
    int64_t submitted; /* 0: nobody says */
    int64_t acquired;  /* the CPU had it, and not yet the GPU; 0: there is no difference */
    int64_t seen;      /* whoever reads it could; 0: unknown */
    int64_t counted;   /* what the rate is counted by */
};

/* Frame `index` came, or something that is not a whole frame. */
void bench_tally_take(struct bench_tally *tally, bool whole, uint64_t index,
                      const struct bench_moment *moment, uint64_t explained);

/* A frame came at `now` (monotonic ns). submitted: when it was handed over; 0: its own mark says.
 * explained: frames reported as dropped so far. */
void bench_tally_frame(struct bench_tally *tally, const void *data, uint64_t size, int64_t now,
                       int64_t submitted, uint64_t explained);

/* Takes the counters of before from those of now. */
void bench_counters_since(struct bench_result *now, const struct bench_result *before);

/* No more frames come. */
void bench_tally_end(struct bench_tally *tally);

#endif
