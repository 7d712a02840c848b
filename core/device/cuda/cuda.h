/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* CUDA, by its driver. */
#ifndef GPUD_DEVICE_CUDA_CUDA_H
#define GPUD_DEVICE_CUDA_CUDA_H

#include "device/cuda/driver.h"
#include "device/gpu/gpu.h"

/* === cuda ==================================================================================== */
/* The inside of the CUDA backend: what it does not share with HIP (see device/gpu/gpu.h). */

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

/* === api ===================================================================================== */
/* The NVIDIA driver: loaded once, for good. */

/* The driver's functions; NULL where there is no driver, or no GPU that this process may use. */
const struct cuda_driver *gpud_cuda_driver(void);

/* The same inside the backend; valid once a device was found. */
extern struct cuda_driver gpud_cu;

/* For device/gpu/; its calls are set once a device was found. */
extern struct gpud_gpu_driver gpud_cuda_gpu_driver;

/* Number of devices. */
int gpud_cuda_count(void);

/* Why there is no device. */
const char *gpud_cuda_why_none(void);

/* === identify ================================================================================ */
/* Which device a pointer's memory belongs to. */

/* As gpud_device_ops.identify. */
bool gpud_cuda_identify(const void *pointer, struct gpud_pointer_info *info);

/* Records an opened device for look-ups; context NULL: it is about to be closed. */
void gpud_cuda_identify_by(CUdevice ordinal, CUcontext context);

#endif
