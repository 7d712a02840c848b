/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GStreamer's CUDA memory. libgstcuda is opened at run time, because its functions differ between
 * GStreamer's series. For child processes: failures end the process. */
#ifndef GPUD_TOOLS_BENCH_GSTCUDA_H
#define GPUD_TOOLS_BENCH_GSTCUDA_H

#include "bench.h"
#include "ceilings/driver.h"

#include <gst/gst.h>

struct bench_gpu_map {
    GstMapInfo info;
    raw_address address;
    raw_stream stream;         /* on which elements order their work on this memory */
    bool ordered;              /* all users of the memory order their work after that stream */
    struct gpud_layout layout; /* of the picture in the memory */
};

/* Opens the library, or ends the process with the reason. */
void bench_gst_cuda_open(int control);

/* A pool of CUDA memory on a GPU. */
GstBufferPool *bench_gst_cuda_pool(int control, unsigned ordinal);

bool bench_gst_cuda_is(GstBuffer *buffer);

/* Maps a buffer of CUDA memory for the GPU and makes its context current, until unmapped. */
bool bench_gst_cuda_map(const struct bench_job *job, GstBuffer *buffer, GstMapFlags flags,
                        struct bench_gpu_map *map);
void bench_gst_cuda_unmap(GstBuffer *buffer, struct bench_gpu_map *map);

/* Makes the context of the last mapped buffer current. false: none was mapped. */
bool bench_gst_cuda_enter(void);
void bench_gst_cuda_leave(void);

#endif
