/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where the sender's frames go: the core's API, or a GStreamer sink. In a child: failures end the
 * process. */
#ifndef GPUD_TOOLS_BENCH_OUTLET_H
#define GPUD_TOOLS_BENCH_OUTLET_H

#include "bench.h"

struct bench_outlet_ops {
    /* Ready for receivers to connect. */
    void *(*open)(const struct bench_job *job, int control);
    /* Returns when all receivers are there and the director says GO. */
    void (*wait)(void *outlet);
    /* Memory for the next frame, and its size. NULL: a GPU's, which only mark reaches. */
    void *(*acquire)(void *outlet, uint64_t *size);
    /* Marks the frame in a GPU's memory, by work on a stream; whoever gets it waits for that. */
    void (*mark)(void *outlet, uint64_t index);
    /* Hands it over. */
    void (*send)(void *outlet);
    /* Nothing more comes. */
    void (*end)(void *outlet);
    /* Route and counters so far; frames, times and cpu are the caller's. */
    void (*count)(void *outlet, struct bench_result *result);
    void (*close)(void *outlet);
};

extern const struct bench_outlet_ops bench_outlet_core, bench_outlet_gst;

/* The roles. Each runs to its end and returns. */
void bench_run_sender(int control);
void bench_run_receiver_core(int control, const struct bench_job *job);
void bench_run_joins(int control);
void bench_run_receiver_gst(int control, const struct bench_job *job);
void bench_run_echo(int control);
void bench_run_raw(int control);

#endif
