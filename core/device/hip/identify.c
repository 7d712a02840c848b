/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whose memory is this pointer? The runtime answers on any thread. */
#include "device/hip/hip.h"

static bool ask(hipPointer_attribute attribute, void *value, const void *address)
{
    return gpud_hip.pointer_get_attribute(value, attribute, (hipDeviceptr_t)address) == hipSuccess;
}

static bool is_mapped(const void *address)
{
    hipMemGenericAllocationHandle_t handle;
    if (!gpud_hip.mem_retain_allocation_handle || !gpud_hip.mem_release ||
        gpud_hip.mem_retain_allocation_handle(&handle, (void *)address) != hipSuccess)
        return false;
    gpud_hip.mem_release(handle);
    return true;
}

bool gpud_hip_identify(const void *pointer, struct gpud_pointer_info *info)
{
    unsigned type = UINT32_MAX, managed = 0;
    int ordinal = 0;
    void *base = NULL;
    size_t size = 0;
    if (!gpud_hip_driver() || !ask(HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, &type, pointer))
        return false;
    ask(HIP_POINTER_ATTRIBUTE_IS_MANAGED, &managed, pointer);
    bool on_host = type == HIP_MEMORY_HOST(gpud_hip.version);
    if (!managed && !on_host && type != HIP_MEMORY_DEVICE(gpud_hip.version))
        return false;
    if (ask(HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, &base, pointer) &&
        ask(HIP_POINTER_ATTRIBUTE_RANGE_SIZE, &size, pointer)) {
        info->base = base;
        info->length = size;
    }
    if (on_host && !managed) {
        info->kind = GPUD_POINTER_PINNED;
        gpud_print(info->device, "host");
        return true;
    }
    info->kind = managed              ? GPUD_POINTER_MANAGED
                 : is_mapped(pointer) ? GPUD_POINTER_MAPPED
                                      : GPUD_POINTER_DEVICE;
    ask(HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, &ordinal, pointer);
    gpud_print(info->device, "hip:%d", ordinal);
    return true;
}
