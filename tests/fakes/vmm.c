/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Virtual memory management: handles, reservations, mappings, and their way to other processes. */

#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct reservation {
    CUdeviceptr start;
    size_t size;
    struct reservation *next;
};
static struct reservation *reservations;

bool reservation_at(CUdeviceptr address, CUdeviceptr *start, size_t *size)
{
    struct reservation *one = reservations;
    while (one && (address < one->start || address - one->start >= one->size))
        one = one->next;
    if (one) {
        *start = one->start;
        *size = one->size;
    }
    return one != NULL;
}

static bool granular(unsigned long long value)
{
    return value % GRANULARITY == 0;
}

static CUresult check_prop(const CUmemAllocationProp *prop)
{
    if (!prop)
        return refuse(CUDA_ERROR_INVALID_VALUE, "no properties");
    if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return refuse(CUDA_ERROR_INVALID_VALUE, "only pinned memory on a device");
    if (!valid_device(prop->location.id))
        return refuse(CUDA_ERROR_INVALID_DEVICE, "device %d", prop->location.id);
    if (prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return refuse(CUDA_ERROR_INVALID_VALUE, "handles other than file descriptors");
    if (prop->win32HandleMetaData || prop->allocFlags.gpuDirectRDMACapable > 1 ||
        prop->allocFlags.compressionType || prop->allocFlags.usage)
        return refuse(CUDA_ERROR_INVALID_VALUE, "flags that mean nothing here");
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    ENTER(NEED_INIT);
    if (!granularity || (unsigned)option > 1)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no place for it, or option %d", option));
    CUresult result = check_prop(prop);
    if (result == CUDA_SUCCESS)
        *granularity = GRANULARITY;
    return leave(result);
}

static struct allocation *allocation_new(struct backing *backing, const CUmemAllocationProp *prop)
{
    struct allocation *allocation = calloc(1, sizeof *allocation);
    if (!allocation)
        return NULL;
    object_add(&allocation->object, ALLOCATION);
    allocation->backing = backing;
    allocation->prop = *prop;
    allocation->references = 1;
    return allocation;
}

/* The handle dies with its last reference, mappings included; the record remains to detect later
 * uses. */
void allocation_unref(struct allocation *allocation)
{
    if (--allocation->references > 0)
        return;
    allocation->object.alive = false;
    backing_unref(allocation->backing);
    allocation->backing = NULL;
}

static CUmemGenericAllocationHandle handle_of(struct allocation *allocation)
{
    return (CUmemGenericAllocationHandle)(uintptr_t)allocation;
}

static struct allocation *find(CUmemGenericAllocationHandle handle)
{
    struct allocation *allocation = object_find((void *)(uintptr_t)handle, ALLOCATION);
    return allocation && allocation->handles > 0 ? allocation : NULL;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    ENTER(NEED_INIT);
    CUresult result = check_prop(prop);
    if (result != CUDA_SUCCESS)
        return leave(result);
    if (!handle || flags != 0 || size == 0 || !granular(size))
        return leave(refuse(CUDA_ERROR_INVALID_VALUE,
                            "%zu bytes, which must be a multiple of %zu, flags %llu", size,
                            GRANULARITY, flags));
    struct backing *backing = NULL;
    result = backing_create('v', prop->location.id, size, &backing);
    if (result != CUDA_SUCCESS)
        return leave(result);
    struct allocation *allocation = allocation_new(backing, prop);
    if (!allocation) {
        backing_unref(backing);
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    allocation->handles = 1;
    *handle = handle_of(allocation);
    return leave(CUDA_SUCCESS);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    ENTER(NEED_INIT);
    struct allocation *allocation = find(handle);
    if (!allocation)
        return leave(
            report(CUDA_ERROR_INVALID_VALUE, "%#llx is no handle, or released before", handle));
    allocation->handles--;
    allocation_unref(allocation);
    return leave(CUDA_SUCCESS);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    ENTER(NEED_INIT);
    struct range *range = range_at((CUdeviceptr)(uintptr_t)address);
    if (!handle || !range || range->kind != RANGE_VMM)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%p is not mapped by cuMemMap", address));
    range->allocation->references++;
    range->allocation->handles++;
    *handle = handle_of(range->allocation);
    return leave(CUDA_SUCCESS);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    ENTER(NEED_INIT);
    struct allocation *allocation = find(handle);
    if (!prop || !allocation)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%#llx is no handle", handle));
    *prop = allocation->prop;
    return leave(CUDA_SUCCESS);
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment,
                             CUdeviceptr wished, unsigned long long flags)
{
    ENTER(NEED_INIT);
    if (!address || size == 0 || !granular(size) || (alignment & (alignment - 1)) || flags != 0)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%zu bytes aligned to %zu", size, alignment));
    struct reservation *reservation = calloc(1, sizeof *reservation);
    if (!reservation)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    reservation->start = arena_take(size, alignment < GRANULARITY ? GRANULARITY : alignment);
    if (!reservation->start) {
        free(reservation);
        return leave(refuse(CUDA_ERROR_OUT_OF_MEMORY, "no addresses for %zu bytes", size));
    }
    reservation->size = size;
    reservation->next = reservations;
    reservations = reservation;
    *address = reservation->start;
    return leave(CUDA_SUCCESS);
}

static struct range *mapping_in(CUdeviceptr start, size_t size)
{
    struct range *range = fake.ranges;
    while (range && (range->kind != RANGE_VMM || range->start >= start + size ||
                     range->start + range->size <= start))
        range = range->next;
    return range;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
    ENTER(NEED_INIT);
    struct reservation **link = &reservations;
    while (*link && ((*link)->start != address || (*link)->size != size))
        link = &(*link)->next;
    if (!*link)
        return leave(
            report(CUDA_ERROR_INVALID_VALUE, "%#llx, %zu bytes, is no reservation", address, size));
    if (mapping_in(address, size))
        return leave(report(CUDA_ERROR_INVALID_VALUE, "%#llx is freed while mapped", address));
    struct reservation *reservation = *link;
    *link = reservation->next;
    free(reservation);
    return leave(CUDA_SUCCESS);
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    ENTER(NEED_INIT);
    CUdeviceptr start;
    size_t reserved;
    struct allocation *allocation = find(handle);
    if (!allocation)
        return leave(
            report(CUDA_ERROR_INVALID_VALUE, "%#llx is no handle, or released before", handle));
    /* The driver maps whole allocations only, whatever its manual says of parts. */
    if (size == 0 || !granular(address) || offset != 0 || flags != 0 ||
        size != allocation->backing->size)
        return leave(refuse(CUDA_ERROR_NOT_SUPPORTED, "%zu bytes from %zu of %zu to %#llx", size,
                            offset, allocation->backing->size, address));
    if (!reservation_at(address, &start, &reserved) || start + reserved - address < size)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%#llx is not reserved", address));
    if (mapping_in(address, size))
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%#llx is mapped before", address));
    struct range *range = range_add(RANGE_VMM, address, size);
    if (!range)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    range->allocation = allocation;
    allocation->references++;
    range->backing = allocation->backing;
    range->backing->references++;
    range->cpu = range->backing->cpu;
    range->device = range->backing->device;
    return leave(CUDA_SUCCESS);
}

/* A range must consist of whole mappings, without a hole. */
static bool whole_mappings(CUdeviceptr address, size_t size)
{
    CUdeviceptr next = address;
    while (next < address + size) {
        struct range *range = range_at(next);
        if (!range || range->kind != RANGE_VMM || range->start != next)
            return false;
        next += range->size;
    }
    return next == address + size && size > 0;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    ENTER(NEED_INIT);
    if (!whole_mappings(address, size))
        return leave(report(CUDA_ERROR_INVALID_VALUE, "%#llx, %zu bytes, is not what was mapped",
                            address, size));
    CUresult result = CUDA_SUCCESS;
    for (CUdeviceptr next = address; next < address + size;) {
        struct range *range = range_at(next);
        next += range->size;
        CUresult one = range_retire(range, "unmapped");
        result = one != CUDA_SUCCESS ? one : result;
    }
    return leave(result);
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                        size_t count)
{
    ENTER(NEED_INIT);
    if (!access || count == 0 || !whole_mappings(address, size))
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%#llx, %zu bytes, is not what was mapped",
                            address, size));
    for (size_t i = 0; i < count; i++) {
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            !valid_device(access[i].location.id))
            return leave(refuse(CUDA_ERROR_INVALID_VALUE, "device %d", access[i].location.id));
        if ((int)access[i].flags != 0 && access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return leave(refuse(CUDA_ERROR_INVALID_VALUE, "access %d", access[i].flags));
        if (!peers_reach(access[i].location.id, range_at(address)->device))
            return leave(refuse(CUDA_ERROR_INVALID_DEVICE, "device %d cannot reach device %d",
                                access[i].location.id, range_at(address)->device));
    }
    for (CUdeviceptr next = address; next < address + size; next += range_at(next)->size) {
        for (size_t i = 0; i < count; i++)
            range_at(next)->access[access[i].location.id] = (unsigned char)access[i].flags;
    }
    return leave(CUDA_SUCCESS);
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address)
{
    ENTER(NEED_INIT);
    struct range *range = range_at(address);
    if (!flags || !location || !valid_device(location->id) || !range || range->kind != RANGE_VMM)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "%#llx is not mapped by cuMemMap", address));
    *flags = range->access[location->id];
    return leave(CUDA_SUCCESS);
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    ENTER(NEED_INIT);
    struct allocation *allocation = find(handle);
    if (!shareable || !allocation || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return leave(
            refuse(CUDA_ERROR_INVALID_VALUE, "%#llx is no handle, or type %d", handle, type));
    if (!(allocation->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "made without a request for descriptors"));
    int fd = fcntl(allocation->backing->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return leave(refuse(CUDA_ERROR_OPERATING_SYSTEM, "no file descriptor: %m"));
    *(int *)shareable = fd;
    return leave(CUDA_SUCCESS);
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                        CUmemAllocationHandleType type)
{
    ENTER(NEED_INIT);
    if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return leave(refuse(CUDA_ERROR_INVALID_VALUE, "no place for it, or type %d", type));
    /* The caller keeps its descriptor. */
    int fd = fcntl((int)(uintptr_t)shareable, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return leave(refuse(CUDA_ERROR_UNKNOWN, "no open file: %m"));
    struct backing *backing = NULL;
    CUresult result = backing_import('v', fd, &backing);
    if (result != CUDA_SUCCESS)
        return leave(result);
    const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = backing->device},
    };
    struct allocation *allocation = allocation_new(backing, &prop);
    if (!allocation) {
        backing_unref(backing);
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    allocation->handles = 1;
    *handle = handle_of(allocation);
    return leave(CUDA_SUCCESS);
}
