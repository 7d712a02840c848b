/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The right to touch memory, asked when a call is made and again when a stream gets to it. */

#include "fake.h"

static CUresult check_access(CUcontext context, const struct range *range, bool write)
{
    unsigned char needed =
        write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
    switch (range->kind) {
    case RANGE_VMM:
        if ((range->access[context->device] & needed) != needed)
            return refuse(CUDA_ERROR_INVALID_VALUE, "device %d was not given the right to %s %#llx",
                          context->device, write ? "write" : "read", range->start);
        return CUDA_SUCCESS;
    case RANGE_HOST:
        if (!range->portable && range->context != context)
            return refuse(CUDA_ERROR_INVALID_VALUE,
                          "%p is pinned for another context, without PORTABLE",
                          (void *)range->host);
        if (write && range->read_only)
            return refuse(CUDA_ERROR_INVALID_VALUE, "%p is pinned for reading alone",
                          (void *)range->host);
        return CUDA_SUCCESS;
    case RANGE_MANAGED:
        return CUDA_SUCCESS;
    case RANGE_IPC: /* the peer was checked when it was opened */
        if (range->context->device != context->device && !context->peers[range->context->device])
            break;
        return CUDA_SUCCESS;
    case RANGE_ALLOC:
    case RANGE_POOL:
    case RANGE_EXTERNAL:
        if (range->device != context->device && !context->peers[range->device])
            break;
        return CUDA_SUCCESS;
    }
    return refuse(CUDA_ERROR_INVALID_CONTEXT,
                  "%#llx is of device %d, to which the context of device %d has not enabled access",
                  range->start, range->device, context->device);
}

CUresult use_device(CUcontext context, CUdeviceptr address, size_t size, bool write,
                    struct use *use)
{
    struct range *range = range_at(address);
    if (!range) {
        if (!in_arena(address))
            return refuse(CUDA_ERROR_INVALID_VALUE, "%#llx is no address of a device", address);
        return report(CUDA_ERROR_INVALID_VALUE, "no memory at %#llx: freed, closed or unmapped",
                      address);
    }
    if (size > range->start + range->size - address)
        return report(CUDA_ERROR_INVALID_VALUE, "%zu bytes at %#llx, where %llu are left", size,
                      address, range->start + range->size - address);
    CUresult result = check_access(context, range, write);
    if (result == CUDA_SUCCESS)
        *use = (struct use){.range = range,
                            .context = context,
                            .cpu = range->cpu + (address - range->start),
                            .write = write};
    return result;
}

CUresult use_host(CUcontext context, const void *host, size_t size, bool write, struct use *use)
{
    unsigned char *cpu = (unsigned char *)(uintptr_t)host;
    struct range *range = host_range_at(host, size);
    if (!host || in_arena((uintptr_t)host))
        return refuse(CUDA_ERROR_INVALID_VALUE, "%p is no address of the host", host);
    if (range && (cpu < range->host || cpu + size > range->host + range->size))
        return refuse(CUDA_ERROR_INVALID_VALUE, "%p, %zu bytes, is pinned in part", host, size);
    *use = (struct use){.range = range, .context = context, .cpu = cpu, .write = write};
    return range ? check_access(context, range, write) : CUDA_SUCCESS;
}

bool use_valid(const struct use *use)
{
    if (!use->range)
        return true;
    return !use->range->dead && check_access(use->context, use->range, use->write) == CUDA_SUCCESS;
}
