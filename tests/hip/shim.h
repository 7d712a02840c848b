/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_HIP_SHIM_H
#define GPUD_HIP_SHIM_H

#include "device/cuda/driver.h"
#include "device/gpu/calls.h"
#include "device/hip/driver.h"

#include <stdbool.h>

extern struct cuda_driver shim_cu;
extern void *shim_library; /* libcuda's, for what the table has not */

/* Of hipDeviceAttribute_t, what only GStreamer asks for. */
#define HIP_ATTRIBUTE_TEXTURE_WIDTH 43
#define HIP_ATTRIBUTE_TEXTURE_HEIGHT 44
#define HIP_ATTRIBUTE_TEXTURE_ALIGNMENT 81

/* Loads the driver at the first call. */
hipError_t shim_start(void);
int shim_version(void);

/* The current device's primary context on the thread's stack, and off it. */
hipError_t shim_enter(void);
hipError_t shim_leave(CUresult result);

/* Says why on stderr; hipErrorInvalidValue. */
hipError_t shim_refuse(const char *function, const char *what);

/* GPUD_HIP_SHIM_WAIT */
bool shim_waits(const char *how);

#define SHIM_DECLARE(member, symbol, arguments) \
    __attribute__((visibility("default"))) hipError_t symbol arguments;
HIP_DRIVER_FUNCTIONS(SHIM_DECLARE)
HIP_DRIVER_OPTIONAL(SHIM_DECLARE)
#undef SHIM_DECLARE
__attribute__((visibility("default"))) const char *hipGetErrorName(hipError_t result);
__attribute__((visibility("default"))) hipError_t hipMemGetHandleForAddressRange(
    void *handle, hipDeviceptr_t address, size_t size, int type, unsigned long long flags);

#define SHIM_IN_CONTEXT(call)                          \
    do {                                               \
        hipError_t entered_ = shim_enter();            \
        return entered_ ? entered_ : shim_leave(call); \
    } while (0)

#endif
