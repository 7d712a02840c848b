/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the sender sends through: the core's API, or a GStreamer sink. For child processes: failures
 * end the process. */
#ifndef GPUD_TOOLS_BENCH_OUTPUT_H
#define GPUD_TOOLS_BENCH_OUTPUT_H

#include "bench.h"

struct bench_output_ops {
    /* Receivers can connect after it. */
    void *(*open)(const struct bench_job *job, int control);
    /* Returns when all receivers are connected and the coordinator has sent GO. */
    void (*wait)(void *output);
    /* The memory of the next frame, and its size. NULL: GPU memory, which only mark can write. */
    void *(*acquire)(void *output, uint64_t *size);
    /* Marks a frame in GPU memory by work on a stream, before the receiver's access. */
    void (*mark)(void *output, uint64_t index);
    /* Submits the frame. */
    void (*send)(void *output);
    /* Ends the stream. */
    void (*end)(void *output);
    /* Fills in the route and the counters so far, but not frames, times and CPU time. */
    void (*count)(void *output, struct bench_result *result);
    void (*close)(void *output);
};

extern const struct bench_output_ops bench_output_core, bench_output_gst;

#endif
