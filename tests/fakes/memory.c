/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* cuMemAlloc and its relatives: memory that belongs to a context, to a pool, or is managed. */

#include "fake.h"

#include <fcntl.h>
#include <sys/mman.h>

#define PITCH ((size_t)512)

/* Small allocations share a block in the driver, so that their addresses are aligned to 512
 * bytes and no more. Ours never start at a page, to expose code that relies on that. */
#define SMALL ((size_t)1 << 20)
#define SMALL_OFFSET ((size_t)512)

static CUresult allocate(enum range_kind kind, CUdeviceptr *address, size_t size)
{
    CUcontext context = current_context();
    size_t offset = size < SMALL ? SMALL_OFFSET : 0;
    if (!address || size == 0)
        return refuse(CUDA_ERROR_INVALID_VALUE, "no place for it, or 0 bytes");
    if (size > fake.memory)
        return refuse(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes of %zu", size, fake.memory);
    struct backing *backing = NULL;
    CUresult result =
        backing_create('a', context->device, (size + offset + PAGE - 1) & ~(PAGE - 1), &backing);
    if (result != CUDA_SUCCESS)
        return result;
    CUdeviceptr start = arena_take(backing->size, PAGE);
    struct range *range = start ? range_add(kind, start + offset, size) : NULL;
    if (!range) {
        backing_unref(backing);
        return refuse(CUDA_ERROR_OUT_OF_MEMORY, "no address for %zu bytes", size);
    }
    range->backing = backing;
    range->cpu = backing->cpu + offset;
    range->device = context->device;
    range->context = kind == RANGE_POOL ? NULL : context;
    *address = range->start;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
    ENTER(NEED_CONTEXT);
    if (spoils_capture())
        return leave(ERROR_CAPTURE_UNSUPPORTED);
    return leave(allocate(RANGE_ALLOC, address, size));
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t rows,
                            unsigned element)
{
    ENTER(NEED_CONTEXT);
    if (!pitch || width == 0 || rows == 0 || (element != 4 && element != 8 && element != 16))
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%zu bytes by %zu rows, elements of %u",
                            width, rows, element));
    size_t aligned = (width + PITCH - 1) & ~(PITCH - 1), size;
    if (aligned < width || __builtin_mul_overflow(aligned, rows, &size))
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%zu bytes by %zu rows", width, rows));
    CUresult result = allocate(RANGE_ALLOC, address, size);
    if (result == CUDA_SUCCESS)
        *pitch = aligned;
    return leave(result);
}

/* The pool is the device's; memory of it is of no context, as with the driver. */
CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream)
{
    ENTER(NEED_CONTEXT);
    CUstream found;
    CUresult result = stream_find(stream, &found);
    if (result == CUDA_SUCCESS)
        result = allocate(RANGE_POOL, address, size);
    return leave(result);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    ENTER(NEED_CONTEXT);
    CUstream found;
    CUresult result = stream_find(stream, &found);
    if (result != CUDA_SUCCESS)
        return leave(result);
    struct range *range = range_at(address);
    if (!range || range->start != address ||
        (range->kind != RANGE_POOL && range->kind != RANGE_ALLOC))
        return leave(
            report(CUDA_ERROR_INVALID_VALUE, "%#llx is no allocation, or freed before", address));
    struct operation *operation = operation_new(FREE);
    if (!operation)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    operation->to = (struct use){.range = range, .context = found->context, .cpu = range->cpu};
    return leave(submit(found, operation));
}

/* Managed memory: pages of the program, all of which a device is reported to hold. */
CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned flags)
{
    ENTER(NEED_CONTEXT);
    if (!address || size == 0 || (flags != 1 && flags != 2))
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%zu bytes, flags %#x", size, flags));
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct range *range = NULL;
    if (pages != MAP_FAILED)
        range = range_add(RANGE_MANAGED, (CUdeviceptr)(uintptr_t)pages, size);
    if (!range)
        return leave(refuse(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes", size));
    range->cpu = pages;
    range->context = current_context();
    range->device = range->context->device;
    *address = range->start;
    return leave(CUDA_SUCCESS);
}

static const char *kind_name(enum range_kind kind)
{
    static const char *const names[] = {"cuMemAlloc", "a pool",          "cuMemAllocManaged",
                                        "cuMemMap",   "another process", "the host",
                                        "Vulkan"};
    return names[kind];
}

/* Read locks that importers hold on the file tell whether another process still has it open. */
static bool open_elsewhere(const struct backing *backing)
{
    struct flock region = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    return fcntl(backing->fd, F_OFD_GETLK, &region) == 0 && region.l_type != F_UNLCK;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    ENTER(NEED_CONTEXT);
    if (address == 0)
        return leave(CUDA_SUCCESS);
    struct range *range = range_at(address);
    if (!range)
        return leave(
            report(CUDA_ERROR_INVALID_VALUE, "%#llx is no allocation, or freed before", address));
    if (range->kind != RANGE_ALLOC && range->kind != RANGE_POOL && range->kind != RANGE_MANAGED &&
        range->kind != RANGE_EXTERNAL)
        return leave(report(CUDA_ERROR_INVALID_VALUE, "%#llx is of %s, which has its own end",
                            address, kind_name(range->kind)));
    if (range->start != address)
        return leave(report(CUDA_ERROR_INVALID_VALUE, "%#llx is %llu bytes into its allocation",
                            address, address - range->start));
    if (range->context && range->context != current_context())
        return leave(report(CUDA_ERROR_INVALID_CONTEXT, "%#llx is another context's", address));
    if (range->backing && open_elsewhere(range->backing))
        report(CUDA_SUCCESS, "%#llx is freed while another process has it open", address);
    return leave(range_retire(range, "freed"));
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    ENTER(NEED_CONTEXT);
    if (!available || !total)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no place for it"));
    size_t used = account_used(current_context()->device);
    *total = fake.memory;
    *available = used < fake.memory ? fake.memory - used : 0;
    return leave(CUDA_SUCCESS);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    ENTER(NEED_CONTEXT);
    struct range *range = range_at(address);
    if (!range)
        return leave(refuse(ERROR_NOT_FOUND, "%#llx is no memory of a device", address));
    if (base)
        *base = range->start;
    if (size)
        *size = range->size;
    return leave(CUDA_SUCCESS);
}
