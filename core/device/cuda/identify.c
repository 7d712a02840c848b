/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whose memory is this pointer? The order of the questions matters: memory that was mapped from a
 * handle and memory of a pool both look like plain device memory to the later ones. */
#include "base/lock.h"
#include "device/cuda/cuda.h"

/* The driver answers only if some context is current: one of an open device, if the caller's thread
 * has none. */
static struct gpud_lock lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_IDENTIFY);
static struct {
    CUcontext context;
    unsigned opened; /* times */
} known[64];         /* by ordinal */

void gpud_cuda_identify_by(CUdevice ordinal, CUcontext context)
{
    gpud_lock_take(&lock);
    if (ordinal >= 0 && ordinal < 64) {
        known[ordinal].opened += context ? 1u : -1u;
        if (context || known[ordinal].opened == 0)
            known[ordinal].context = context;
    }
    gpud_lock_release(&lock);
}

static bool ask(CUpointer_attribute attribute, void *value, CUdeviceptr address)
{
    return gpud_cu.pointer_get_attribute(value, attribute, address) == CUDA_SUCCESS;
}

static enum gpud_pointer_kind kind_of_device_memory(CUdeviceptr address)
{
    CUmemGenericAllocationHandle handle;
    if (gpud_cu.mem_retain_allocation_handle(&handle, (void *)(uintptr_t)address) == CUDA_SUCCESS) {
        gpud_cu.mem_release(handle);
        return GPUD_POINTER_MAPPED;
    }
    CUcontext context = NULL;
    if (!ask(CU_POINTER_ATTRIBUTE_CONTEXT, &context, address) || !context)
        return GPUD_POINTER_POOL; /* belongs to the device, to no context */
    return GPUD_POINTER_DEVICE;
}

static bool identify(const void *pointer, struct gpud_pointer_info *info)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)pointer, base = 0;
    unsigned type = 0, managed = 0;
    int ordinal = 0;
    size_t size = 0;
    if (!ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &type, address) || !type)
        return false;
    ask(CU_POINTER_ATTRIBUTE_IS_MANAGED, &managed, address);
    ask(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, &ordinal, address);
    if (ask(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, &base, address) &&
        ask(CU_POINTER_ATTRIBUTE_RANGE_SIZE, &size, address)) {
        info->base = (void *)(uintptr_t)base;
        info->length = size;
    }
    if (managed)
        info->kind = GPUD_POINTER_MANAGED;
    else if (type == CU_MEMORYTYPE_HOST)
        info->kind = GPUD_POINTER_PINNED;
    else
        info->kind = kind_of_device_memory(address);
    if (info->kind == GPUD_POINTER_PINNED)
        gpud_print(info->device, "host");
    else
        gpud_print(info->device, "cuda:%d", ordinal);
    return true;
}

bool gpud_cuda_identify(const void *pointer, struct gpud_pointer_info *info)
{
    CUcontext current = NULL;
    if (!gpud_cuda_driver())
        return false;
    if (gpud_cu.ctx_get_current(&current) == CUDA_SUCCESS && current)
        return identify(pointer, info);
    bool found = false;
    gpud_lock_take(&lock);
    for (int i = 0; i < 64 && !found; i++) {
        if (!known[i].context || gpud_cu.ctx_push_current(known[i].context) != CUDA_SUCCESS)
            continue;
        found = identify(pointer, info);
        gpud_cu.ctx_pop_current(&current);
    }
    gpud_lock_release(&lock);
    return found;
}
