/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Device memory: mapped from physical allocations, which can be exported as descriptors, also into
 * another container; plain if the driver has none. */
#include "device/gpu/map.h"
#include "device/gpu/share.h"
#include "device/gpu/stream.h"
#include "device/gpu/tables.h"

#include <stdlib.h>
#include <string.h>

/* How long the driver may take for work that depends on no peer, as zeroing. */
#define SERVICE_TIMEOUT (5 * GPUD_SEC)

/* How long a peer has to close a legacy handle after the end of the link: freeing memory that is
 * still open elsewhere is undefined, and closing it is not reported. */
#define HANDLE_GRACE (GPUD_SEC / 2)

static enum gpud_status no_room(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
}

/* Frees a record's resources. After enter; no stream uses them any more. */
static void give_back(struct gpud_gpu *gpu, struct gpud_gpu_memory *record)
{
    switch (record->kind) {
    case GPUD_GPU_PHYSICAL:
        gpud_gpu_unmap(gpu, record);
        break;
    case GPUD_GPU_PLAIN:
        gpu->driver->mem_free(record->address);
        break;
    case GPUD_GPU_IPC:
        gpud_opens_remove(gpu->driver, gpu->context, record->base);
        break;
    case GPUD_GPU_GRAPHICS:
        gpu->driver->close_graphics(record->object, record->address);
        break;
    case GPUD_GPU_PINNED:
        gpud_pins_remove(gpu->driver, record->pinned);
        break;
    case GPUD_GPU_WRAPPED:
    case GPUD_GPU_PAGEABLE:
        break;
    }
}

/* --- our own ------------------------------------------------------------------------------- */

/* Zeroes the whole mapping: an importer sees all of it, and must not see old data. */
static enum gpud_status zero(struct gpud_gpu *gpu, const struct gpud_gpu_memory *record,
                             struct gpud_error *error)
{
    int result = gpu->driver->memset_d8_async(record->address, 0, record->mapped, gpu->service);
    if (result)
        return gpud_gpu_fail(gpu->driver, error, result, "new memory cannot be cleared");
    return gpud_gpu_wait(gpu, gpu->service, gpud_deadline(SERVICE_TIMEOUT), error);
}

static enum gpud_status say_stuck(const struct gpud_device *device, struct gpud_error *error)
{
    return gpud_fail(error, GPUD_IO,
                     "%s has not cleared new memory within %d s: the GPU or its driver is stuck "
                     "(the kernel's log may say why), and gives no memory until it goes on",
                     device->info.name, (int)(SERVICE_TIMEOUT / GPUD_SEC));
}

/* Before it is cleared, the driver may still write into it. */
static int64_t give_back_when_cleared(void *arg)
{
    struct gpud_gpu_memory *record = arg;
    struct gpud_device *device = record->device;
    struct gpud_gpu *gpu = gpud_gpu(device);
    long result;
    gpu->driver->enter(gpu);
    bool cleared = gpud_gpu_async_ops.state(device, gpu->service, &result) != GPUD_PROGRESS_BUSY;
    if (cleared)
        give_back(gpu, record);
    gpu->driver->leave(gpu);
    if (!cleared)
        return 10 * GPUD_MSEC;
    free(record);
    atomic_fetch_sub(&gpu->stuck, 1);
    gpud_device_close(&device);
    return -1;
}

static int allocate(struct gpud_gpu *gpu, uint64_t size, struct gpud_gpu_memory *record)
{
    uint64_t unit = gpu->granularity;
    if (unit) {
        record->kind = GPUD_GPU_PHYSICAL;
        record->mapped = (size + unit - 1) / unit * unit;
        return gpud_gpu_create(gpu, record);
    }
    record->kind = GPUD_GPU_PLAIN;
    record->mapped = size;
    return gpu->driver->mem_alloc(&record->address, size);
}

static enum gpud_status alloc(struct gpud_memory *memory, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    /* Each try would leave one more memory stuck in the driver. */
    if (atomic_load(&gpu->stuck) > 0)
        return say_stuck(memory->device, error);
    struct gpud_gpu_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return no_room(error);
    gpu->driver->enter(gpu);
    int result = allocate(gpu, memory->size, record);
    if (result) {
        gpu->driver->leave(gpu);
        free(record);
        return gpud_gpu_fail(gpu->driver, error, result,
                             "no %llu bytes on %s: smaller or fewer slots need less",
                             (unsigned long long)memory->size, memory->device->info.name);
    }
    enum gpud_status status = zero(gpu, record, error);
    if (status != GPUD_OK && status != GPUD_TIMEOUT)
        give_back(gpu, record);
    gpu->driver->leave(gpu);
    if (status == GPUD_TIMEOUT) {
        record->device = gpud_device_ref(memory->device);
        atomic_fetch_add(&gpu->stuck, 1);
        gpud_worker_add(&memory->device->context->later, &record->after.work,
                        give_back_when_cleared, record);
        return say_stuck(memory->device, error);
    }
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
    struct gpud_gpu_memory *record = memory->backend;
    give_back(gpud_gpu(memory->device), record);
    free(record);
}

static void free_memory(struct gpud_memory *memory)
{
    struct gpud_gpu_memory *record = memory->backend;
    gpud_free_after(&gpud_gpu(memory->device)->async, &record->after, memory, give_back_memory,
                    record->by_handle ? gpud_deadline(HANDLE_GRACE) : 0, false);
}

/* --- the application's ------------------------------------------------------------------------ */

static enum gpud_status wrap(struct gpud_memory *memory, struct gpud_error *error)
{
    struct gpud_pointer_info info = {0};
    const struct gpud_device *device = memory->device;
    const char *name = device->info.name;
    if (!device->ops->identify(memory->native, &info) || info.kind == GPUD_POINTER_PINNED)
        return gpud_fail(error, GPUD_INVALID,
                         "the pointer is host memory: wrap it on the device \"host\"");
    if (info.kind == GPUD_POINTER_MANAGED)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "managed memory moves by itself: copy it, or allocate with %s",
                         gpud_gpu(device)->driver->allocator);
    if (strcmp(info.device, name) != 0)
        return gpud_fail(error, GPUD_INVALID, "the pointer lies on %s, not on %s", info.device,
                         name);
    uint64_t before = (uint64_t)((char *)memory->native - (char *)info.base);
    if (info.base && (before > info.length || memory->size > info.length - before))
        return gpud_fail(
            error, GPUD_INVALID, "the allocation ends %llu bytes after the pointer, not %llu",
            (unsigned long long)(info.length - before), (unsigned long long)memory->size);
    struct gpud_gpu_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return no_room(error);
    record->kind = GPUD_GPU_WRAPPED;
    record->address = (uint64_t)(uintptr_t)memory->native;
    memory->backend = record;
    return GPUD_OK;
}

static enum gpud_status wrap_host(struct gpud_memory *memory, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    struct gpud_gpu_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return no_room(error);
    gpu->driver->enter(gpu);
    enum gpud_status status = gpud_gpu_pin(gpu, memory->host, memory->size, memory->read_only,
                                           &record->pinned, &record->address);
    gpu->driver->leave(gpu);
    record->kind = GPUD_GPU_PINNED;
    if (status == GPUD_UNSUPPORTED) {
        record->kind = GPUD_GPU_PAGEABLE;
        memory->unpinned = true;
    } else if (status != GPUD_OK) {
        free(record);
        return no_room(error);
    }
    memory->backend = record;
    memory->native = memory->host;
    return GPUD_OK;
}

/* --- remote writes ------------------------------------------------------------------------- */

static enum gpud_status flush_remote(struct gpud_memory *memory, struct gpud_error *error)
{
    if (gpud_gpu_record(memory)->kind >= GPUD_GPU_PINNED)
        return GPUD_OK;
    return gpud_gpu(memory->device)->driver->flush_remote(memory, error);
}

const struct gpud_dmabuf_ops gpud_gpu_dmabuf_ops = {
    .export_part = gpud_gpu_export_dmabuf,
};

const struct gpud_memory_ops gpud_gpu_memory_ops = {
    .alloc = alloc,
    .wrap = wrap,
    .wrap_host = wrap_host,
    .free = free_memory,
    .export_handle = gpud_gpu_export,
    .import_handle = gpud_gpu_import,
    .before_dma = gpud_gpu_before_dma,
    .flush_remote = flush_remote,
};
