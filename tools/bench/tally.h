/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a receiver counts, frame by frame, whatever the frames came through. */
#ifndef GPUD_TOOLS_BENCH_TALLY_H
#define GPUD_TOOLS_BENCH_TALLY_H

#include "bench.h"

struct bench_tally {
    const struct bench_job *job;
    uint64_t last; /* index of the frame before */
    bool started;  /* the measured section */
    bool complete; /* the last frame was seen */
    int64_t cpu_start;
    int64_t *latencies;
    struct bench_result result;
    void (*on_start)(void *user); /* the measured section begins: counters are noted. May be NULL */
    void *user;
};

void bench_tally_init(struct bench_tally *tally, const struct bench_job *job);
void bench_tally_free(struct bench_tally *tally);

/* A frame came at `now` (monotonic ns). submitted: when it was handed over; 0: its own mark says.
 * explained: frames reported as dropped so far. */
void bench_tally_frame(struct bench_tally *tally, const void *data, uint64_t size, int64_t now,
                       int64_t submitted, uint64_t explained);

/* Takes the counters of before from those of now. */
void bench_counters_since(struct bench_result *now, const struct bench_result *before);

/* No more frames come. */
void bench_tally_end(struct bench_tally *tally);

#endif
