/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of the HIP backend: what it does not share with CUDA (see device/gpu/gpu.h).
 *
 * Differences between versions, decided by the version of the runtime that was found:
 *   before 6.0  memory is shared by legacy handles only, as the structure that describes an
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
    bool coherent;            /* no memory of its own: others' writes are seen */
    volatile uint32_t *flush; /* 1 makes others' writes over the bus visible; or NULL */
};

static inline struct hip_device *gpud_hip_device(const struct gpud_device *device)
{
    return device->backend;
}

#endif
