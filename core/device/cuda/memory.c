/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Device memory: mapped from physical allocations that can be passed on as descriptors, also into
 * another container; plain where the driver has no such thing. */
#include "device/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

static enum gpud_status no_room(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
}

/* --- mapping ------------------------------------------------------------------------------- */

enum gpud_status gpud_cuda_map(struct cuda_device *device, CUmemGenericAllocationHandle handle,
                               uint64_t size, bool read_only, CUdeviceptr *address,
                               CUresult *result)
{
    CUdeviceptr at = 0;
    CUmemAccessDesc access = {
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, device->id},
        .flags = read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    *result = gpud_cu.mem_address_reserve(&at, size, 0, 0, 0);
    if (*result != CUDA_SUCCESS)
        return GPUD_NO_MEMORY;
    *result = gpud_cu.mem_map(at, size, 0, handle, 0);
    if (*result == CUDA_SUCCESS) {
        *result = gpud_cu.mem_set_access(at, size, &access, 1);
        if (*result != CUDA_SUCCESS && read_only) {
            /* Not every GPU knows read-only mappings. */
            access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
            *result = gpud_cu.mem_set_access(at, size, &access, 1);
        }
        if (*result == CUDA_SUCCESS) {
            *address = at;
            return GPUD_OK;
        }
        if (gpud_cu.mem_unmap(at, size) != CUDA_SUCCESS)
            return GPUD_IO; /* the address range is leaked */
    }
    gpud_cu.mem_address_free(at, size);
    return GPUD_IO;
}

static CUresult create_physical(struct cuda_device *device, int ordinal, struct cuda_memory *record)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal},
        .allocFlags = {.gpuDirectRDMACapable = device->rdma},
    };
    CUresult result = gpud_cu.mem_create(&record->handle, record->mapped, &prop, 0);
    if (result != CUDA_SUCCESS)
        return result;
    if (gpud_cuda_map(device, record->handle, record->mapped, false, &record->address, &result) !=
        GPUD_OK)
        gpud_cu.mem_release(record->handle);
    return result;
}

/* Gives back what a record holds. Under the context; no stream uses it any more. */
static void give_back(struct cuda_device *device, struct cuda_memory *record)
{
    switch (record->kind) {
    case CUDA_MEMORY_VMM:
        if (gpud_cu.mem_unmap(record->address, record->mapped) == CUDA_SUCCESS)
            gpud_cu.mem_address_free(record->address, record->mapped);
        gpud_cu.mem_release(record->handle);
        break;
    case CUDA_MEMORY_PLAIN:
        gpud_cu.mem_free(record->address);
        break;
    case CUDA_MEMORY_IPC:
        gpud_cuda_ipc_close(device, record->base);
        break;
    case CUDA_MEMORY_PINNED:
        gpud_cuda_unpin(record->pinned);
        break;
    case CUDA_MEMORY_WRAPPED:
    case CUDA_MEMORY_PAGEABLE:
        break;
    }
}

/* --- our own ------------------------------------------------------------------------------- */

/* Zeroes the whole mapping: an importer sees all of it, and must not see old data. */
static enum gpud_status zero(struct cuda_device *device, const struct cuda_memory *record,
                             uint64_t size, struct gpud_error *error)
{
    CUresult result = gpud_cu.memset_d8_async(record->address, 0, size, device->service);
    if (result != CUDA_SUCCESS)
        return gpud_cuda_fail(error, result, "new memory cannot be cleared");
    return gpud_cuda_wait(device, device->service, gpud_deadline(CUDA_SERVICE_TIMEOUT), error);
}

static enum gpud_status alloc(struct gpud_memory *memory, struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(memory->device);
    struct cuda_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return no_room(error);
    gpud_cuda_enter(device);
    CUresult result;
    if (device->vmm) {
        uint64_t unit = device->granularity;
        record->kind = CUDA_MEMORY_VMM;
        record->mapped = (memory->size + unit - 1) / unit * unit;
        result = create_physical(device, (int)memory->device->index, record);
    } else {
        record->kind = CUDA_MEMORY_PLAIN;
        record->mapped = memory->size;
        result = gpud_cu.mem_alloc(&record->address, record->mapped);
    }
    enum gpud_status status = GPUD_OK;
    if (result != CUDA_SUCCESS) {
        gpud_cuda_leave();
        free(record);
        return gpud_cuda_fail(error, result,
                              "no %llu bytes on %s: smaller or fewer slots need "
                              "less",
                              (unsigned long long)memory->size, memory->device->info.name);
    }
    status = zero(device, record, record->mapped, error);
    if (status == GPUD_TIMEOUT) {
        gpud_cuda_leave();
        return status; /* leaked: the driver may still write to it */
    }
    if (status != GPUD_OK)
        give_back(device, record);
    gpud_cuda_leave();
    if (status != GPUD_OK) {
        free(record);
        return status;
    }
    memory->backend = record;
    memory->native = (void *)(uintptr_t)record->address;
    return GPUD_OK;
}

/* --- freeing ------------------------------------------------------------------------------- */

static void give_back_memory(struct gpud_memory *memory)
{
    struct cuda_memory *record = memory->backend;
    give_back(gpud_cuda_device(memory->device), record);
    free(record);
}

static void free_memory(struct gpud_memory *memory)
{
    struct cuda_memory *record = memory->backend;
    gpud_free_after(&gpud_cuda_device(memory->device)->async, &record->after, memory,
                    give_back_memory, record->by_handle ? gpud_deadline(CUDA_HANDLE_GRACE) : 0,
                    false);
}

/* --- somebody else's ------------------------------------------------------------------------ */

static enum gpud_status wrap(struct gpud_memory *memory, struct gpud_error *error)
{
    struct gpud_pointer_info info = {0};
    const char *name = memory->device->info.name;
    if (!gpud_cuda_identify(memory->native, &info) || info.kind == GPUD_POINTER_PINNED)
        return gpud_fail(error, GPUD_INVALID,
                         "the pointer is host memory: wrap it on the device \"host\"");
    if (info.kind == GPUD_POINTER_MANAGED)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "managed memory moves by itself: copy it, or allocate with cuMemAlloc");
    if (strcmp(info.device, name) != 0)
        return gpud_fail(error, GPUD_INVALID, "the pointer lies on %s, not on %s", info.device,
                         name);
    uint64_t before = (uint64_t)((char *)memory->native - (char *)info.base);
    if (info.base && (before > info.length || memory->size > info.length - before))
        return gpud_fail(error, GPUD_INVALID,
                         "the allocation ends %llu bytes after the pointer, "
                         "not %llu",
                         (unsigned long long)(info.length - before),
                         (unsigned long long)memory->size);
    struct cuda_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return no_room(error);
    record->kind = CUDA_MEMORY_WRAPPED;
    record->address = (CUdeviceptr)(uintptr_t)memory->native;
    memory->backend = record;
    return GPUD_OK;
}

static enum gpud_status wrap_host(struct gpud_memory *memory, struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(memory->device);
    struct cuda_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return no_room(error);
    gpud_cuda_enter(device);
    enum gpud_status status = gpud_cuda_pin(memory->host, memory->size, memory->read_only,
                                            &record->pinned, &record->address);
    gpud_cuda_leave();
    record->kind = CUDA_MEMORY_PINNED;
    if (status == GPUD_UNSUPPORTED) {
        record->kind = CUDA_MEMORY_PAGEABLE;
    } else if (status != GPUD_OK) {
        free(record);
        return no_room(error);
    }
    memory->backend = record;
    memory->native = memory->host;
    return GPUD_OK;
}

/* --- what others wrote --------------------------------------------------------------------- */

static enum gpud_status flush_remote(struct gpud_memory *memory, struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(memory->device);
    const struct cuda_memory *record = memory->backend;
    if (device->writes_ordered || record->kind >= CUDA_MEMORY_PINNED)
        return GPUD_OK;
    if (!device->can_flush)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s neither keeps the order of writes over the bus nor flushes them: let "
                         "the card write to host memory",
                         memory->device->info.name);
    gpud_cuda_enter(device);
    CUresult result =
        gpud_cu.flush_remote_writes(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
    gpud_cuda_leave();
    if (result != CUDA_SUCCESS)
        return gpud_cuda_fail(error, result, "writes to %s are not flushed",
                              memory->device->info.name);
    return GPUD_OK;
}

const struct gpud_memory_ops gpud_cuda_memory_ops = {
    .alloc = alloc,
    .wrap = wrap,
    .wrap_host = wrap_host,
    .free = free_memory,
    .export_handle = gpud_cuda_export,
    .import_handle = gpud_cuda_import,
    .export_dmabuf = gpud_cuda_export_dmabuf,
    .flush_remote = flush_remote,
};
