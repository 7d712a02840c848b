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
            return GPUD_IO; /* the addresses stay taken */
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
        if (record->pinned)
            gpud_cuda_unpin(record->pinned);
        break;
    case CUDA_MEMORY_WRAPPED:
    case CUDA_MEMORY_PAGEABLE:
        break;
    }
}

/* --- our own ------------------------------------------------------------------------------- */

/* Zeroes the whole mapping: what an importer sees beyond the end must not be somebody's old data.
 */
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
        return status; /* lost: the driver may yet write to it */
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

static unsigned count_queues(const struct cuda_device *device)
{
    unsigned count = 0;
    for (const struct cuda_queue *queue = device->queues; queue; queue = queue->next)
        count++;
    return count;
}

static void drop_fences(struct cuda_memory *record)
{
    while (record->fence_count)
        gpud_cu.event_destroy(record->fences[--record->fence_count]);
    free(record->fences);
    record->fences = NULL;
}

/* Marks every stream of the device; under the lock, so that no queue is destroyed meanwhile, and
 * recording waits for nobody. false: nothing is known of some, and it must be tried again. */
static bool set_fences(struct cuda_device *device, struct cuda_memory *record)
{
    bool complete = true;
    pthread_mutex_lock(&device->lock);
    unsigned count = count_queues(device);
    record->fences = count ? calloc(count, sizeof(*record->fences)) : NULL;
    if (count && !record->fences)
        complete = false;
    for (struct cuda_queue *queue = device->queues; record->fences && queue; queue = queue->next) {
        CUevent event;
        if (gpud_cu.event_create(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
            complete = false;
        } else if (gpud_cu.event_record(event, queue->stream) == CUDA_SUCCESS ||
                   gpud_cu.event_record(event, queue->stream) == CUDA_SUCCESS) {
            record->fences[record->fence_count++] = event;
        } else {
            gpud_cu.event_destroy(event); /* twice: the stream has failed, and does no more */
        }
    }
    pthread_mutex_unlock(&device->lock);
    if (!complete)
        drop_fences(record);
    return complete;
}

static bool all_passed(struct cuda_device *device, struct cuda_memory *record)
{
    if (!record->fenced)
        record->fenced = set_fences(device, record);
    while (record->fence_count &&
           gpud_cuda_event_state(record->fences[record->fence_count - 1]) != CUDA_ERROR_NOT_READY)
        gpud_cu.event_destroy(record->fences[--record->fence_count]);
    return record->fenced && record->fence_count == 0;
}

static int64_t free_when_passed(void *arg)
{
    struct cuda_memory *record = arg;
    struct gpud_memory *memory = record->memory;
    struct cuda_device *device = gpud_cuda_device(memory->device);
    int64_t grace = record->by_handle ? record->given_up + CUDA_HANDLE_GRACE - gpud_now() : 0;
    gpud_cuda_enter(device);
    bool passed = all_passed(device, record) && grace <= 0;
    if (passed)
        give_back(device, record);
    gpud_cuda_leave();
    if (!passed)
        return grace > GPUD_MSEC ? grace : GPUD_MSEC;
    drop_fences(record);
    free(record);
    gpud_memory_freed(memory);
    return -1;
}

/* The driver waits for streams when it frees, and one may wait for a peer that is dead: so this is
 * the worker's work. */
static void free_memory(struct gpud_memory *memory)
{
    struct cuda_device *device = gpud_cuda_device(memory->device);
    struct cuda_memory *record = memory->backend;
    record->memory = memory;
    record->given_up = gpud_now();
    gpud_cuda_enter(device);
    record->fenced = set_fences(device, record);
    gpud_cuda_leave();
    gpud_worker_add(&memory->device->context->later, &record->end, free_when_passed, record);
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
    if (info.base && (before > info.size || memory->size > info.size - before))
        return gpud_fail(error, GPUD_INVALID,
                         "the allocation ends %llu bytes after the pointer, "
                         "not %llu",
                         (unsigned long long)(info.size - before),
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
    enum gpud_status status = gpud_cuda_pin(device, memory->host, memory->size, memory->read_only,
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

const struct gpud_memory_ops gpud_cuda_memory_ops = {
    .alloc = alloc,
    .wrap = wrap,
    .wrap_host = wrap_host,
    .free = free_memory,
    .export_handle = gpud_cuda_export,
    .import_handle = gpud_cuda_import,
    .export_dmabuf = gpud_cuda_export_dmabuf,
};
