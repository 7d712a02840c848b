/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A CUDA application beside the library: a driver table, a context and a stream of its own. It
 * writes and reads frames by work on that stream, and never makes the CPU wait for one; and it can
 * block the stream, so that waits for its work do not end. */
#ifndef GPUD_TESTS_GPU_H
#define GPUD_TESTS_GPU_H

#include "device/cuda/driver.h"
#include <gpudirect/gpudirect.h>
#include <stdatomic.h>
#include <string.h>

#define GPU_PLACES 32 /* frames that are kept for a look at them */

struct gpu {
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUevent mark;
    CUdeviceptr store; /* GPU_PLACES frames, on the device */
    size_t frame_size;
    void *host; /* one frame, pinned, and the word that holds the stream up */
    CUdeviceptr host_view;
    uint32_t gates; /* the value that lets the stream go */
};

/* Whether a device by this name has a GPU that gpu_open() opens: one of CUDA's, or of the HIP
 * runtime of the tests, whose streams and addresses are CUDA's. */
static inline bool gpu_is_behind(const char *name)
{
    return strncmp(name, "cuda:", 5) == 0 || strncmp(name, "hip:", 4) == 0;
}

/* name: "cuda:N" or "hip:N". The driver and the device are there: the library has opened it before.
 */
void gpu_open(struct gpu *gpu, const char *name, size_t frame_size);
void gpu_close(struct gpu *gpu);

/* Bytes of the device in use by all processes. */
size_t gpu_used(const struct gpu *gpu);

/* Work that is enqueued from here on waits until the stream is released. */
void gpu_hold(struct gpu *gpu);
void gpu_let_go(struct gpu *gpu);

/* All by work on the stream: the frame gets the picture of this number; the frame is copied to a
 * place. */
void gpu_fill(struct gpu *gpu, struct gpud_frame *frame, uint64_t number);
void gpu_take(struct gpu *gpu, struct gpud_frame *frame, unsigned place);

/* A point on the stream, and whether the device has passed it. */
void gpu_mark(struct gpu *gpu);
bool gpu_passed(struct gpu *gpu);
bool gpu_is_idle(struct gpu *gpu);

/* Whether it completes within that time. */
bool gpu_ends(struct gpu *gpu, int64_t ms);

/* Whether a place holds the picture of this number. The stream must be idle. */
bool gpu_holds(struct gpu *gpu, unsigned place, uint64_t number);
/* The same of bytes that the CPU sees. */
bool gpu_is_picture(const struct gpu *gpu, const void *data, uint64_t number);

/* Whether context and stream still work: copies a picture to the device and back. */
bool gpu_works(struct gpu *gpu);

#endif
