/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of the HIP backend: what it does not share with CUDA (see device/gpu/gpu.h).
 *
 * What its versions differ in, decided by the version of the runtime that was found:
 *   before 6.0  memory travels by legacy handles alone, for the structure that describes an
 *               allocation had another shape; the flag of opening such a handle is 0, and not 1;
 *               kinds of memory have other numbers
 *   before 7.0  dma-bufs are made by the HSA runtime below
 *   before 7.1  a descriptor is imported by its address, and not by its value */
#ifndef GPUD_HIP_HIP_H
#define GPUD_HIP_HIP_H

#include "device/gpu/gpu.h"
#include "device/hip/driver.h"

struct hip_device {
    struct gpud_gpu gpu;
    bool coherent;            /* it has no memory of its own: what others write is seen */
    volatile uint32_t *flush; /* a register: 1 makes what others wrote over the bus seen; or NULL */
};

static inline struct hip_device *gpud_hip_device(const struct gpud_device *device)
{
    return device->backend;
}

#endif
