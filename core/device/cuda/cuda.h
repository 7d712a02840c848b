/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of the CUDA backend: what it does not share with HIP (see device/gpu/gpu.h). */
#ifndef GPUD_CUDA_CUDA_H
#define GPUD_CUDA_CUDA_H

#include "device/cuda/driver.h"
#include "device/gpu/gpu.h"

struct cuda_device {
    struct gpud_gpu gpu;
    CUdevice id;
    CUcontext context;
    bool writes_ordered; /* those of others, over the bus: seen here in their order */
    bool can_flush;      /* else they can be waited for */
};

static inline struct cuda_device *gpud_cuda_device(const struct gpud_device *device)
{
    return device->backend;
}

#endif
