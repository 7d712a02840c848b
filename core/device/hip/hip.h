/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* HIP, by its runtime. */
#ifndef GPUD_DEVICE_HIP_HIP_H
#define GPUD_DEVICE_HIP_HIP_H

#include "device/gpu/gpu.h"
#include "device/hip/driver.h"

/* === hip ===================================================================================== */
/* The inside of the HIP backend: what it does not share with CUDA (see device/gpu/gpu.h).
 *
 * Differences between versions, decided by the version of the runtime that was found:
 *   before 6.0  memory is shared by legacy handles only, as the structure that describes an
 *               allocation had another shape; the flag of opening such a handle is 0, and not 1;
 *               kinds of memory have other numbers
 *   before 7.0  dma-bufs are made by the HSA runtime below
 *   before 7.1  a descriptor is imported by its address, and not by its value */

struct hip_device {
    struct gpud_gpu gpu;
    bool coherent;            /* no memory of its own: others' writes are seen */
    volatile uint32_t *flush; /* 1 makes others' writes over the bus visible; or NULL */
};

static inline struct hip_device *gpud_hip_device(const struct gpud_device *device)
{
    return device->backend;
}

/* === api ===================================================================================== */
/* The HIP runtime: loaded once, for good. */

/* The runtime's functions; NULL where there is no runtime, or no GPU that this process may use. */
const struct hip_driver *gpud_hip_driver(void);

/* The same inside the backend; valid once a device was found. */
extern struct hip_driver gpud_hip;

/* For device/gpu/; its calls are set once a device was found. */
extern struct gpud_gpu_driver gpud_hip_gpu_driver;

/* Number of devices. */
int gpud_hip_count(void);

/* Why there is no device. */
const char *gpud_hip_why_none(void);

/* === signal ================================================================================== */
/* Whether streams wait for words in pinned pages. */

/* Tries whether streams can wait for words in pinned pages, and post them. That is documented only
 * for memory of hipMallocSignalMemory, which cannot be shared with another process. On false the
 * reason. */
bool gpud_hip_prove_signals(struct gpud_gpu *gpu, char why[GPUD_REASON_MAX]);

#endif
