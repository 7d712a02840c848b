/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a GPU's driver achieves without gpudirect: copies back to back, and words passed from stream
 * to stream. */
#ifndef GPUD_TOOLS_CEILINGS_GPU_H
#define GPUD_TOOLS_CEILINGS_GPU_H

#include "driver.h"
#include "failure.h"

#define RAW_TARGETS_MAX 64

struct raw_gpu_job {
    struct raw_driver *driver; /* open */
    bool sends;                /* frames come from GPU `from`; else from the host */
    unsigned from;
    unsigned to[RAW_TARGETS_MAX], targets; /* the receivers' GPUs; none: frames go to the host */
    uint64_t size;                         /* of a frame, bytes */
    bool copies;                           /* also measures copies, not only words */
};

/* 0: not measured. */
struct raw_gpu_figures {
    double copy, peer;       /* frames a second: within the sender's GPU, to the first receiver's */
    double fan_out;          /* to each receiver, with copies to all at once */
    double download, upload; /* to and from pinned memory */
    double marker;  /* us: a word from one GPU's stream to the other's; half of a round trip */
    double words;   /* a second: from one GPU's stream to the other's and back */
    double handoff; /* us: p50 from the CPU's call, through both GPUs' streams, back to the CPU */
};

/* Some memory and streams stay until the process ends. */
void raw_gpu_measure(const struct raw_gpu_job *job, const struct raw_caller *caller,
                     struct raw_gpu_figures *figures);

#endif
