/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory that others see: handles to and from other processes, and host pages that GPUs see. */
#include "base/fd.h"
#include "device/gpu.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- export -------------------------------------------------------------------------------- */

static enum gpud_status export_ipc(struct gpud_gpu *gpu, struct gpud_gpu_memory *record,
                                   struct gpud_handle *handle, struct gpud_error *error)
{
    const struct gpud_gpu_share_ops *ops = gpu->ops->share;
    unsigned char ipc[GPUD_OPEN_HANDLE_SIZE];
    uint64_t base = 0, size;
    long result = ops->find_range(record->address, &base, &size);
    if (result == 0)
        result = ops->get_handle(base, ipc);
    if (result)
        return gpud_gpu_fail_as(gpu->ops, error, GPUD_UNSUPPORTED, result,
                                "this memory cannot be shared: memory from %s can, memory of pools "
                                "and mappings cannot",
                                gpu->ops->allocator);
    record->by_handle = true;
    handle->type = ops->ipc_type;
    handle->word[0] = record->address - base;
    _Static_assert(sizeof(ipc) == 8 * sizeof(handle->word[0]), "the handle fits its words");
    memcpy(&handle->word[1], ipc, sizeof(ipc));
    return GPUD_OK;
}

enum gpud_status gpud_gpu_export(struct gpud_memory *memory, struct gpud_handle *handle,
                                 struct gpud_error *error)
{
    struct gpud_gpu_memory *record = memory->backend;
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    enum gpud_status status = GPUD_OK;
    gpu->ops->enter(gpu);
    if (record->kind == GPUD_GPU_PHYSICAL) {
        long result = gpu->ops->share->export_fd(record->allocation, &handle->fd);
        handle->type = gpu->ops->share->fd_type;
        handle->word[0] = record->mapped;
        if (result) {
            handle->fd = -1;
            status = gpud_gpu_fail(gpu->ops, error, result, "memory of %s cannot be exported",
                                   memory->device->info.name);
        }
    } else if (record->kind == GPUD_GPU_PLAIN || record->kind == GPUD_GPU_WRAPPED) {
        status = export_ipc(gpu, record, handle, error);
    } else {
        status = gpud_fail(error, GPUD_UNSUPPORTED, "host memory is exported as host memory");
    }
    gpu->ops->leave(gpu);
    return status;
}

/* For the allocator's memory, ours or the application's: of physical allocations and pools drivers
 * do not know it. Ours are written by streams alone; whoever gives others to a card comes after a
 * stream, too (gpudirect/transfer.h). After enter. */
static enum gpud_status make_synchronous(struct gpud_gpu *gpu, const struct gpud_gpu_memory *record,
                                         struct gpud_error *error)
{
    bool not_supported = false;
    if (!gpu->ops->share->make_synchronous ||
        (record->kind != GPUD_GPU_PLAIN && record->kind != GPUD_GPU_WRAPPED))
        return GPUD_OK;
    long result = gpu->ops->share->make_synchronous(record->address, &not_supported);
    return result == 0 || not_supported
               ? GPUD_OK
               : gpud_gpu_fail(gpu->ops, error, result,
                               "the driver does not order copies of this memory before a card's");
}

enum gpud_status gpud_gpu_before_dma(struct gpud_memory *memory, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    gpu->ops->enter(gpu);
    enum gpud_status status = make_synchronous(gpu, memory->backend, error);
    gpu->ops->leave(gpu);
    return status;
}

enum gpud_status gpud_gpu_export_dmabuf(struct gpud_memory *memory, uint64_t from, uint64_t bytes,
                                        int *fd, uint64_t *offset, struct gpud_error *error)
{
    const struct gpud_gpu_memory *record = memory->backend;
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    if (record->kind > GPUD_GPU_PLAIN && record->kind != GPUD_GPU_WRAPPED)
        return gpud_fail(error, GPUD_INVALID, "only memory of %s itself has a dma-buf",
                         memory->device->info.name);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start;
    uint64_t address = record->address + from, in_page = address % page;
    uint64_t size = (in_page + bytes + page - 1) / page * page;
    int made = -1;
    gpu->ops->enter(gpu);
    enum gpud_status status = make_synchronous(gpu, record, error);
    if (status == GPUD_OK)
        status = gpu->ops->share->export_dmabuf(memory->device, address - in_page, size, &made,
                                                &start, error);
    gpu->ops->leave(gpu);
    if (status != GPUD_OK)
        return status;
    *fd = made;
    *offset = start + in_page;
    return GPUD_OK;
}

/* --- import; every word of a handle is a peer's -------------------------------------------- */

void gpud_gpu_close_ipc(struct gpud_gpu *gpu, uint64_t base)
{
    gpud_opens_remove(gpu->ops->share->opens, gpu->context, base);
}

static enum gpud_status import_ipc(struct gpud_memory *memory, struct gpud_gpu_memory *record,
                                   const struct gpud_handle *handle, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    const struct gpud_gpu_share_ops *ops = gpu->ops->share;
    uint64_t base = 0, size = 0;
    long result = gpud_opens_add(ops->opens, gpu->context, &handle->word[1], &record->base);
    if (result)
        return gpud_gpu_fail_as(gpu->ops, error, GPUD_UNSUPPORTED, result,
                                "%s cannot open the peer's memory by its legacy handle (another "
                                "container or the same process cannot)",
                                memory->device->info.name);
    if (ops->find_range(record->base, &base, &size) || handle->word[0] > size ||
        memory->size > size - handle->word[0]) {
        gpud_gpu_close_ipc(gpu, record->base);
        return gpud_fail(error, GPUD_PEER,
                         "the peer's memory ends before the %llu bytes that it promised",
                         (unsigned long long)memory->size);
    }
    record->kind = GPUD_GPU_IPC;
    record->address = record->base + handle->word[0];
    return GPUD_OK;
}

static enum gpud_status import_fd(struct gpud_memory *memory, struct gpud_gpu_memory *record,
                                  const struct gpud_handle *handle, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    const struct gpud_gpu_share_ops *ops = gpu->ops->share;
    const char *name = memory->device->info.name;
    bool on_gpu = false;
    record->kind = GPUD_GPU_PHYSICAL;
    record->mapped = handle->word[0];
    if (!gpu->granularity || record->mapped < memory->size || record->mapped % gpu->granularity ||
        record->mapped > (UINT64_C(1) << 41))
        return gpud_fail(error, GPUD_PEER, "the peer's memory has %llu bytes, which %s cannot map",
                         (unsigned long long)record->mapped, name);
    long result = ops->import_fd(handle->fd, &record->allocation);
    if (result)
        return gpud_gpu_fail_as(gpu->ops, error, GPUD_PEER, result,
                                "what the peer sent is no memory of a GPU that %s knows", name);
    result = ops->check_imported(record->allocation, &on_gpu);
    if (result == 0 && on_gpu &&
        gpud_gpu_map(gpu, record->allocation, record->mapped, memory->usage == GPUD_USAGE_SHARE,
                     &record->address, &result) == GPUD_OK)
        return GPUD_OK;
    gpu->ops->memory->release(record->allocation);
    return gpud_gpu_fail_as(gpu->ops, error,
                            result == gpu->ops->no_memory ? GPUD_NO_MEMORY : GPUD_PEER, result,
                            "%s cannot map the %llu bytes that the peer offers", name,
                            (unsigned long long)record->mapped);
}

enum gpud_status gpud_gpu_import(struct gpud_memory *memory, const struct gpud_handle *handle,
                                 struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    struct gpud_gpu_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    enum gpud_status status;
    gpu->ops->enter(gpu);
    if (handle->type == gpu->ops->share->fd_type && handle->fd >= 0)
        status = import_fd(memory, record, handle, error);
    else if (handle->type == gpu->ops->share->ipc_type)
        status = import_ipc(memory, record, handle, error);
    else
        status = gpud_fail(error, GPUD_PEER, "the peer's handle is not memory of a %s device",
                           gpu->ops->vendor);
    gpu->ops->leave(gpu);
    if (status != GPUD_OK) {
        free(record);
        return status;
    }
    memory->backend = record;
    memory->native = (void *)(uintptr_t)record->address;
    return GPUD_OK;
}

/* --- pinned pages: registered once, for all devices ---------------------------------------- */

bool gpud_gpu_pins_what_it_reads(struct gpud_gpu *gpu)
{
    const struct gpud_gpu_share_ops *ops = gpu->ops->share;
    const uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);
    void *written, *read;
    uint64_t address;
    int fd = -1;
    if (gpud_memfd_create("gpudirect-pin", size, GPUD_SHARE_READ_ONLY, &fd, &written, NULL) !=
        GPUD_OK)
        return true; /* nobody knows yet */
    bool pins = true;
    if (gpud_memfd_map(fd, size, false, &read, NULL) == GPUD_OK) {
        gpu->ops->enter(gpu);
        pins = ops->pins->pin(read, size, true);
        if (pins) {
            pins = ops->find_pinned(read, &address) == 0;
            ops->pins->unpin(read);
        }
        gpu->ops->leave(gpu);
        gpud_memory_unmap_pages(read, size);
    }
    gpud_memory_unmap_pages(written, size);
    gpud_fd_close(&fd);
    return pins;
}

enum gpud_status gpud_gpu_pin(struct gpud_gpu *gpu, void *data, uint64_t size, bool read_only,
                              struct gpud_pinned **pinned, uint64_t *address)
{
    const struct gpud_gpu_share_ops *ops = gpu->ops->share;
    struct gpud_pinned *range;
    uint64_t last;
    if (!gpud_pins_add(ops->pins, data, size, read_only, &range))
        return GPUD_NO_MEMORY;
    /* The application may have pinned it: then it has device addresses. */
    if (ops->find_pinned(data, address) == 0 &&
        ops->find_pinned((char *)data + size - 1, &last) == 0) {
        *pinned = range;
        return GPUD_OK;
    }
    gpud_pins_remove(ops->pins, range);
    return GPUD_UNSUPPORTED;
}
