/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The code that CUDA and HIP share: an open GPU and its memories. A vendor's folder fills the table
 * of driver.h, finds devices and reports their capabilities; everything else is here.
 *
 * Results are the driver's own numbers; 0 is success. Addresses are the GPU's. Why nothing here
 * waits for a stream without a deadline: see device/progress.h. */
#ifndef GPUD_DEVICE_GPU_GPU_H
#define GPUD_DEVICE_GPU_GPU_H

#include "base/clock.h"
#include "device/free_after.h"
#include "device/gpu/driver.h"
#include "device/gpu/events.h"

struct gpud_bounce;

/* Pinned pages through which the CPU accesses the memory of one GPU; see bounce.h. */
struct gpud_bounces {
    struct gpud_lock lock;
    struct gpud_bounce *idle, *used;
};

/* Begins a vendor's record of an open device. */
struct gpud_gpu {
    struct gpud_gpu_driver *driver;
    int ordinal;          /* of the device, for the driver */
    const void *context;  /* what the driver opens handles in */
    uint64_t granularity; /* of physical allocations; 0: the driver cannot export any */
    bool rdma;            /* they are allocated for access by network cards */
    void *service;        /* the stream for work that depends on no peer */
    struct gpud_async async;
    struct gpud_completion_thread completions;
    struct gpud_events events;
    struct gpud_bounces bounces;
    atomic_uint stuck; /* memories that the driver has not cleared in time; blocks further ones */
};

enum gpud_gpu_memory_kind {
    GPUD_GPU_PHYSICAL, /* ours, or imported: a physical allocation that is mapped */
    GPUD_GPU_PLAIN,    /* ours: by the allocator */
    GPUD_GPU_IPC,      /* imported by the legacy handle */
    GPUD_GPU_GRAPHICS, /* imported from a graphics driver */
    GPUD_GPU_WRAPPED,  /* the application's */
    GPUD_GPU_PINNED,   /* host pages that the driver knows */
    GPUD_GPU_PAGEABLE, /* host memory unknown to it: copied from, through pinned pages */
};

struct gpud_gpu_memory {
    enum gpud_gpu_memory_kind kind;
    uint64_t address;           /* of the memory; pageable: 0 */
    uint64_t mapped;            /* physical: bytes of the mapping */
    uint64_t allocation;        /* physical */
    uint64_t base;              /* IPC: of the allocation that was opened */
    void *object;               /* graphics: the driver's */
    struct gpud_pinned *pinned; /* the registration that it shares; NULL: the application's */
    bool by_handle;             /* exported by a legacy handle */
    struct gpud_free_after after;
    struct gpud_device *device; /* kept open until its driver has cleared the memory */
};

static inline struct gpud_gpu *gpud_gpu(const struct gpud_device *device)
{
    return device->backend;
}

static inline struct gpud_gpu_memory *gpud_gpu_record(const struct gpud_memory *memory)
{
    return memory->backend;
}

/* What a vendor's gpud_device_ops point to; in memory.c, queue.c and signal.c. */
extern const struct gpud_memory_ops gpud_gpu_memory_ops;
extern const struct gpud_dmabuf_ops gpud_gpu_dmabuf_ops;
extern const struct gpud_queue_ops gpud_gpu_queue_ops;
extern const struct gpud_fence_ops gpud_gpu_fence_ops;
extern const struct gpud_signal_ops gpud_gpu_signal_ops;

#endif
