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
    bool writes_ordered; /* the GPU sees others' writes over the bus in their order */
    bool can_flush;      /* else the GPU cannot wait for them */
};

static inline struct cuda_device *gpud_cuda_device(const struct gpud_device *device)
{
    return device->backend;
}

#endif
