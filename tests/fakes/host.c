/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pinned memory of the host. It has an address of its own for the device, as the driver may give
 * it; the program's address serves copies only. */

#include "fake.h"

#include <stdio.h>
#include <sys/mman.h>

#define PORTABLE CU_MEMHOSTREGISTER_PORTABLE
#define DEVICEMAP CU_MEMHOSTREGISTER_DEVICEMAP
#define READ_ONLY CU_MEMHOSTREGISTER_READ_ONLY
#define WRITE_COMBINED 0x4u

static struct range *pin(void *host, size_t size, unsigned flags)
{
    size_t offset = (uintptr_t)host % PAGE;
    CUdeviceptr start = arena_take(size + offset, PAGE);
    struct range *range = start ? range_add(RANGE_HOST, start + offset, size) : NULL;
    if (!range)
        return NULL;
    range->cpu = range->host = host;
    range->context = current_context();
    range->device = range->context->device;
    range->portable = flags & PORTABLE;
    range->device_map = flags & DEVICEMAP;
    range->read_only = flags & READ_ONLY;
    return range;
}

static CUresult allocate(void **host, size_t size, unsigned flags)
{
    if (!host || size == 0 || (flags & ~(PORTABLE | DEVICEMAP | WRITE_COMBINED)))
        return refuse(CUDA_ERROR_INVALID_VALUE, "%zu bytes, flags %#x", size, flags);
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return refuse(CUDA_ERROR_OUT_OF_MEMORY, "mmap of %zu bytes: %m", size);
    /* With one address space for all, allocated memory is always mapped and portable. */
    struct range *range = pin(pages, size, PORTABLE | DEVICEMAP);
    if (!range) {
        munmap(pages, size);
        return refuse(CUDA_ERROR_OUT_OF_MEMORY, "no address for %zu bytes", size);
    }
    range->host_allocated = true;
    *host = pages;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **host, size_t size, unsigned flags)
{
    ENTER(NEED_CONTEXT);
    return leave(allocate(host, size, flags));
}

CUresult cuMemAllocHost_v2(void **host, size_t size)
{
    ENTER(NEED_CONTEXT);
    return leave(allocate(host, size, 0));
}

CUresult cuMemFreeHost(void *host)
{
    ENTER(NEED_CONTEXT);
    struct range *range = host_range_at(host, 1);
    if (!range || range->host != host || !range->host_allocated)
        return leave(
            report(CUDA_ERROR_INVALID_VALUE, "%p was not allocated here, or freed before", host));
    return leave(range_retire(range, "freed"));
}

/* Whether the pages exist, and are writable if necessary. */
static bool mapped(const void *host, size_t size, bool writable)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    uintptr_t next = (uintptr_t)host, end = next + size;
    char line[512], write;
    unsigned long from, to;
    while (maps && next < end && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx r%c", &from, &to, &write) == 3 && (write == 'w' || !writable) &&
            next >= from && next < to)
            next = to;
    }
    if (maps)
        fclose(maps);
    return next >= end;
}

CUresult cuMemHostRegister_v2(void *host, size_t size, unsigned flags)
{
    ENTER(NEED_CONTEXT);
    if (!host || size == 0 || (uintptr_t)host + size < size || in_arena((uintptr_t)host))
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%p, %zu bytes", host, size));
    if (flags & ~(PORTABLE | DEVICEMAP | (fake.no_read_only ? 0 : READ_ONLY)))
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "flags %#x", flags));
    /* What is pinned are pages. */
    size_t offset = (uintptr_t)host % PAGE;
    const char *first = (const char *)host - offset;
    size_t whole = (size + offset + PAGE - 1) & ~(PAGE - 1);
    if (host_range_at(first, whole))
        return leave(
            refuse(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "%p, %zu bytes", host, size));
    if (!mapped(first, whole, !(flags & READ_ONLY)))
        return leave(refuse(CUDA_ERROR_INVALID_VALUE,
                            "%p, %zu bytes, is not all memory that may be %s", host, size,
                            flags & READ_ONLY ? "read" : "written"));
    return leave(pin(host, size, flags) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuMemHostUnregister(void *host)
{
    ENTER(NEED_CONTEXT);
    struct range *range = host_range_at(host, 1);
    if (range && (range->host != host || range->host_allocated))
        return leave(report(CUDA_ERROR_INVALID_VALUE,
                            "%p was allocated, or is within what was registered", host));
    if (!range)
        return leave(report(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
                            "%p was not registered, or unregistered before", host));
    return leave(range_retire(range, "unregistered"));
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned flags)
{
    ENTER(NEED_CONTEXT);
    struct range *range = host_range_at(host, 1);
    if (!address || flags != 0 || !range)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%p is not pinned", host));
    if (!range->device_map || (!range->portable && range->context != current_context()))
        return leave(refuse(
            CUDA_ERROR_INVALID_VALUE,
            "%p was pinned without DEVICEMAP, or for another context without PORTABLE", host));
    *address = range->start + (CUdeviceptr)((unsigned char *)host - range->host);
    return leave(CUDA_SUCCESS);
}
