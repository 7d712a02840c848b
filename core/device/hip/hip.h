/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of the HIP backend: the tables that device/gpu.h asks for, and what is HIP's alone.
 *
 * What its versions differ in, decided by the version of the runtime that was found:
 *   before 6.0  memory travels by legacy handles alone, for the structure that describes an
 *               allocation had another shape; the flag of opening such a handle is 0, and not 1;
 *               kinds of memory have other numbers
 *   before 7.0  dma-bufs are made by the HSA runtime below
 *   before 7.1  a descriptor is imported by its address, and not by its value */
#ifndef GPUD_HIP_HIP_H
#define GPUD_HIP_HIP_H

#include "device/gpu.h"
#include "device/hip/driver.h"

struct hip_device {
    struct gpud_gpu gpu;
    int ordinal;
    bool coherent;            /* it has no memory of its own: what others write is seen */
    volatile uint32_t *flush; /* a register: 1 makes what others wrote over the bus seen; or NULL */
};

static inline struct hip_device *gpud_hip_device(const struct gpud_device *device)
{
    return device->backend;
}

extern const struct gpud_gpu_stream_ops gpud_hip_stream_ops;
extern const struct gpud_gpu_memory_ops gpud_hip_memory_ops;
extern const struct gpud_gpu_share_ops gpud_hip_share_ops;
extern const struct gpud_gpu_signal_ops gpud_hip_signal_ops;

/* --- api.c --------------------------------------------------------------------------------- */

extern const struct gpud_gpu_ops gpud_hip_gpu_ops;

/* The runtime's functions; NULL where there is no runtime, or no GPU. */
const struct hip_driver *gpud_hip_driver(void);

/* The same inside the backend, once a device is open. */
extern struct hip_driver gpud_hip;

/* --- identify.c ---------------------------------------------------------------------------- */

bool gpud_hip_identify(const void *pointer, struct gpud_pointer_info *info);

/* --- link.c -------------------------------------------------------------------------------- */

void gpud_hip_link(const struct gpud_device *from, const struct gpud_device *to,
                   struct gpud_device_link *link);

/* --- memory.c ------------------------------------------------------------------------------ */

/* Of physical allocations that another process can have as a descriptor; 0: the runtime or the GPU
 * has none, which is tried. Between enter and leave. */
uint64_t gpud_hip_find_granularity(struct hip_device *device);

/* --- signal.c ------------------------------------------------------------------------------ */

/* Tries whether streams wait for words in pinned pages, and post them: documented is that only for
 * memory of hipMallocSignalMemory, which no other process can have. On false the reason. */
bool gpud_hip_prove_signals(struct gpud_gpu *gpu, char why[GPUD_REASON_MAX]);

#endif
