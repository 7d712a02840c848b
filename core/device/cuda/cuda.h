/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of the CUDA backend: the tables that device/gpu.h asks for, and what is CUDA's alone.
 */
#ifndef GPUD_CUDA_CUDA_H
#define GPUD_CUDA_CUDA_H

#include "device/cuda/driver.h"
#include "device/gpu.h"

struct cuda_device {
    struct gpud_gpu gpu;
    CUdevice id;
    CUcontext context;
    bool rdma;           /* its physical allocations can be made for network cards */
    bool writes_ordered; /* those of others, over the bus: seen here in their order */
    bool can_flush;      /* else they can be waited for */
};

static inline struct cuda_device *gpud_cuda_device(const struct gpud_device *device)
{
    return device->backend;
}

extern const struct gpud_gpu_stream_ops gpud_cuda_stream_ops;
extern const struct gpud_gpu_memory_ops gpud_cuda_memory_ops;
extern const struct gpud_gpu_share_ops gpud_cuda_share_ops;
extern const struct gpud_gpu_signal_ops gpud_cuda_signal_ops;

/* --- api.c --------------------------------------------------------------------------------- */

extern const struct gpud_gpu_ops gpud_cuda_gpu_ops;

/* The driver's functions; NULL where there is no driver. */
const struct cuda_driver *gpud_cuda_driver(void);

/* The same inside the backend, once a device is open. */
extern struct cuda_driver gpud_cu;

/* --- identify.c ---------------------------------------------------------------------------- */

bool gpud_cuda_identify(const void *pointer, struct gpud_pointer_info *info);

/* A device was opened; NULL: it is about to be closed. */
void gpud_cuda_identify_by(CUdevice ordinal, CUcontext context);

/* --- link.c -------------------------------------------------------------------------------- */

void gpud_cuda_link(const struct gpud_device *from, const struct gpud_device *to,
                    struct gpud_device_link *link);

/* What the slot and the GPU can do with the host's memory, in MB/s; 0: nobody says. */
uint32_t gpud_cuda_host_rate(const struct gpud_device *device);

#endif
