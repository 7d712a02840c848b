/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Attributes of pointers. */

#include "fake.h"

#include <string.h>

/* Both of a pinned page's addresses count. */
static struct range *find(CUdeviceptr address)
{
    struct range *range = range_at(address);
    return range ? range : host_range_at((const void *)(uintptr_t)address, 1);
}

static CUresult get(void *value, int attribute, struct range *range, CUdeviceptr address)
{
    bool host = range->kind == RANGE_HOST;
    bool seen_by_host = host && !in_arena(address);
    CUdeviceptr base = seen_by_host ? (CUdeviceptr)(uintptr_t)range->host : range->start;
    CUdeviceptr offset = address - base;
    size_t size = range->size;
    /* As the driver answers it: not what was mapped, but what was reserved. */
    if (range->kind == RANGE_VMM)
        reservation_at(address, &base, &size);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)value = range->context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case 3: /* DEVICE_POINTER */
        if (range->kind == RANGE_VMM && !range->access[current_context()->device])
            return refuse(CUDA_ERROR_INVALID_VALUE, "no access was given");
        *(CUdeviceptr *)value = range->start + offset;
        return CUDA_SUCCESS;
    case 4: /* HOST_POINTER */
        if (!host && range->kind != RANGE_MANAGED)
            return refuse(CUDA_ERROR_INVALID_VALUE, "memory of a device has no host pointer");
        *(void **)value = range->cpu + offset;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)value = range->sync_memops;
        return CUDA_SUCCESS;
    case 7: /* BUFFER_ID */
        *(unsigned long long *)value = range->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)value = range->kind == RANGE_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = range->device;
        return CUDA_SUCCESS;
    case 10: /* IS_LEGACY_CUDA_IPC_CAPABLE */
        *(unsigned *)value = range->kind == RANGE_ALLOC;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = size;
        return CUDA_SUCCESS;
    case 13: /* MAPPED */
        *(unsigned *)value = 1;
        return CUDA_SUCCESS;
    case 14: /* ALLOWED_HANDLE_TYPES, of pools */
        *(unsigned long long *)value = 0;
        return CUDA_SUCCESS;
    case 15: /* IS_GPU_DIRECT_RDMA_CAPABLE */
        *(unsigned *)value =
            range->kind == RANGE_ALLOC ||
            (range->kind == RANGE_VMM && range->allocation->prop.allocFlags.gpuDirectRDMACapable);
        return CUDA_SUCCESS;
    default:
        return refuse(CUDA_ERROR_INVALID_VALUE, "no attribute %d", attribute);
    }
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    ENTER(NEED_CONTEXT);
    struct range *range = find(address);
    if (!value || !range)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%#llx is not known to CUDA", address));
    return leave(get(value, (int)attribute, range, address));
}

/* As the driver: an unknown pointer has type 0, nothing, and is no error. */
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **values,
                                CUdeviceptr address)
{
    ENTER(NEED_CONTEXT);
    struct range *range = find(address);
    if (count == 0 || !attributes || !values)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "nothing is asked for"));
    for (unsigned i = 0; i < count; i++) {
        int which = (int)attributes[i];
        if (range && get(values[i], which, range, address) == CUDA_SUCCESS)
            continue;
        bool wide = which == CU_POINTER_ATTRIBUTE_CONTEXT || which == 3 || which == 4 ||
                    which == 7 || which == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
                    which == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
        memset(values[i], 0, wide ? 8 : 4);
        if (which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)values[i] = -2;
    }
    return leave(CUDA_SUCCESS);
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                               CUdeviceptr address)
{
    ENTER(NEED_CONTEXT);
    struct range *range = range_at(address);
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !range ||
        range->kind == RANGE_HOST)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE,
                            "%#llx is no memory of a device, or attribute %d cannot be set",
                            address, (int)attribute));
    if (range->kind == RANGE_VMM)
        return leave(refuse(CUDA_ERROR_NOT_SUPPORTED, "not for memory of cuMemCreate"));
    range->sync_memops = *(const unsigned *)value != 0;
    return leave(CUDA_SUCCESS);
}
