/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/gpu/share.h"

#include "base/fd.h"
#include "device/gpu/map.h"
#include "device/gpu/tables.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- export -------------------------------------------------------------------------------- */

static enum gpud_status export_ipc(struct gpud_gpu *gpu, struct gpud_gpu_memory *record,
                                   struct gpud_handle *handle, struct gpud_error *error)
{
    const struct gpud_gpu_driver *driver = gpu->driver;
    struct gpud_gpu_ipc ipc;
    uint64_t base = 0;
    size_t size;
    int result = driver->mem_get_address_range(&base, &size, record->address);
    if (result == 0)
        result = driver->ipc_get_mem_handle(&ipc, base);
    if (result)
        return gpud_gpu_fail_as(gpu->driver, error, GPUD_UNSUPPORTED, result,
                                "this memory cannot be shared: memory from %s can, memory of pools "
                                "and mappings cannot",
                                gpu->driver->allocator);
    record->by_handle = true;
    handle->type = driver->ipc_type;
    handle->word[0] = record->address - base;
    _Static_assert(sizeof(ipc) == 8 * sizeof(handle->word[0]), "the handle fits its words");
    memcpy(&handle->word[1], &ipc, sizeof(ipc));
    return GPUD_OK;
}

enum gpud_status gpud_gpu_export(struct gpud_memory *memory, struct gpud_handle *handle,
                                 struct gpud_error *error)
{
    struct gpud_gpu_memory *record = memory->backend;
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    enum gpud_status status = GPUD_OK;
    gpu->driver->enter(gpu);
    if (record->kind == GPUD_GPU_PHYSICAL) {
        int result =
            gpu->driver->mem_export(&handle->fd, record->allocation, GPUD_GPU_HANDLE_FD, 0);
        handle->type = gpu->driver->fd_type;
        handle->word[0] = record->mapped;
        if (result) {
            handle->fd = -1;
            status = gpud_gpu_fail(gpu->driver, error, result, "memory of %s cannot be exported",
                                   memory->device->info.name);
        }
    } else if (record->kind == GPUD_GPU_PLAIN || record->kind == GPUD_GPU_WRAPPED) {
        status = export_ipc(gpu, record, handle, error);
    } else {
        status = gpud_fail(error, GPUD_UNSUPPORTED, "host memory is exported as host memory");
    }
    gpu->driver->leave(gpu);
    return status;
}

/* Only the allocator's memory, ours or the application's, supports this. Physical allocations and
 * pools do not need it: ours are written only by streams, and an application orders its card after
 * a stream, too (gpudirect/transfer.h). After enter. */
static enum gpud_status make_synchronous(struct gpud_gpu *gpu, const struct gpud_gpu_memory *record,
                                         struct gpud_error *error)
{
    if (!gpu->driver->make_synchronous ||
        (record->kind != GPUD_GPU_PLAIN && record->kind != GPUD_GPU_WRAPPED))
        return GPUD_OK;
    int result = gpu->driver->make_synchronous(record->address);
    return result == 0 || result == GPUD_GPU_NOT_SUPPORTED || result == GPUD_GPU_INVALID_VALUE
               ? GPUD_OK
               : gpud_gpu_fail(gpu->driver, error, result,
                               "the driver does not order copies of this memory before a card's");
}

enum gpud_status gpud_gpu_before_dma(struct gpud_memory *memory, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    gpu->driver->enter(gpu);
    enum gpud_status status = make_synchronous(gpu, memory->backend, error);
    gpu->driver->leave(gpu);
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
    gpu->driver->enter(gpu);
    enum gpud_status status = make_synchronous(gpu, record, error);
    if (status == GPUD_OK)
        status = gpu->driver->export_dmabuf(memory->device, address - in_page, size, &made, &start,
                                            error);
    gpu->driver->leave(gpu);
    if (status != GPUD_OK)
        return status;
    *fd = made;
    *offset = start + in_page;
    return GPUD_OK;
}

/* --- import; handles are untrusted --------------------------------------------------------- */

static enum gpud_status import_ipc(struct gpud_memory *memory, struct gpud_gpu_memory *record,
                                   const struct gpud_handle *handle, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    uint64_t base = 0;
    size_t size = 0;
    struct gpud_gpu_ipc ipc;
    memcpy(&ipc, &handle->word[1], sizeof(ipc));
    int result = gpud_opens_add(gpu->driver, gpu->context, &ipc, &record->base);
    if (result)
        return gpud_gpu_fail_as(gpu->driver, error, GPUD_UNSUPPORTED, result,
                                "%s cannot open the peer's memory by its legacy handle (another "
                                "container or the same process cannot)",
                                memory->device->info.name);
    if (gpu->driver->mem_get_address_range(&base, &size, record->base) || handle->word[0] > size ||
        memory->size > size - handle->word[0]) {
        gpud_opens_remove(gpu->driver, gpu->context, record->base);
        return gpud_fail(error, GPUD_PEER,
                         "the peer's memory ends before the %llu bytes that it promised",
                         (unsigned long long)memory->size);
    }
    record->kind = GPUD_GPU_IPC;
    record->address = record->base + handle->word[0];
    return GPUD_OK;
}

/* A driver that is short of memory says nothing about the peer: another route may do. */
static enum gpud_status blame(int result)
{
    return result == GPUD_GPU_OUT_OF_MEMORY ? GPUD_NO_MEMORY : GPUD_PEER;
}

static enum gpud_status import_fd(struct gpud_memory *memory, struct gpud_gpu_memory *record,
                                  const struct gpud_handle *handle, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    const struct gpud_gpu_driver *driver = gpu->driver;
    const char *name = memory->device->info.name;
    record->kind = GPUD_GPU_PHYSICAL;
    record->mapped = handle->word[0];
    if (!gpu->granularity || record->mapped < memory->size || record->mapped % gpu->granularity ||
        record->mapped > (UINT64_C(1) << 41))
        return gpud_fail(error, GPUD_PEER, "the peer's memory has %llu bytes, which %s cannot map",
                         (unsigned long long)record->mapped, name);
    int fd = handle->fd;
    int result = driver->mem_import(&record->allocation,
                                    driver->imports_by_address ? (void *)&fd : (void *)(intptr_t)fd,
                                    GPUD_GPU_HANDLE_FD);
    if (result)
        return gpud_gpu_fail_as(driver, error, blame(result), result,
                                "the peer's handle is not memory of a GPU that %s knows", name);
    struct gpud_gpu_allocation what = {0};
    result = driver->mem_get_allocation_properties(&what, record->allocation);
    if (result == 0 && what.location.type == GPUD_GPU_ON_DEVICE &&
        gpud_gpu_map(gpu, record->allocation, record->mapped, memory->usage == GPUD_USAGE_SHARE,
                     &record->address, &result) == GPUD_OK)
        return GPUD_OK;
    driver->mem_release(record->allocation);
    return gpud_gpu_fail_as(driver, error, blame(result), result,
                            "%s cannot map the %llu bytes that the peer offers", name,
                            (unsigned long long)record->mapped);
}

/* Which allocation it is, the descriptor says to the driver alone; the words are claims. */
static enum gpud_status import_graphics(struct gpud_memory *memory, struct gpud_gpu_memory *record,
                                        const struct gpud_handle *handle, struct gpud_error *error)
{
    const struct gpud_gpu_driver *driver = gpud_gpu(memory->device)->driver;
    const char *name = memory->device->info.name;
    const uint64_t *word = handle->word;
    if (memcmp(&word[GPUD_VULKAN_DEVICE_UUID], memory->device->uuid,
               sizeof(memory->device->uuid)) != 0)
        return gpud_fail(error, GPUD_PEER, "the peer's memory is of another GPU than %s", name);
    if (word[GPUD_VULKAN_SIZE] < memory->size || word[GPUD_VULKAN_BYTES] < word[GPUD_VULKAN_SIZE] ||
        word[GPUD_VULKAN_BYTES] > UINT64_C(1) << 41)
        return gpud_fail(error, GPUD_PEER, "the peer's memory has %llu bytes, which %s cannot map",
                         (unsigned long long)word[GPUD_VULKAN_SIZE], name);
    int own = fcntl(handle->fd, F_DUPFD_CLOEXEC, 3);
    if (own < 0)
        return gpud_fail_errno(error, "the peer's descriptor cannot be kept");
    record->kind = GPUD_GPU_GRAPHICS;
    int result = driver->open_graphics(own, word[GPUD_VULKAN_BYTES], word[GPUD_VULKAN_DEDICATED],
                                       memory->size, &record->object, &record->address);
    if (result == 0)
        return GPUD_OK;
    return gpud_gpu_fail_as(driver, error, blame(result), result,
                            "the peer's handle is not memory of a GPU that %s knows", name);
}

enum gpud_status gpud_gpu_import(struct gpud_memory *memory, const struct gpud_handle *handle,
                                 struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    struct gpud_gpu_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    enum gpud_status status;
    gpu->driver->enter(gpu);
    if (handle->type == gpu->driver->fd_type && handle->fd >= 0)
        status = import_fd(memory, record, handle, error);
    else if (handle->type == gpu->driver->ipc_type)
        status = import_ipc(memory, record, handle, error);
    else if (handle->type == GPUD_HANDLE_VULKAN_FD && handle->fd >= 0 && gpu->driver->open_graphics)
        status = import_graphics(memory, record, handle, error);
    else
        status = gpud_fail(error, GPUD_PEER, "the peer's handle is not memory of a %s device",
                           gpu->driver->vendor);
    gpu->driver->leave(gpu);
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
    const struct gpud_gpu_driver *driver = gpu->driver;
    const uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);
    void *written, *read;
    uint64_t address;
    int fd = -1;
    if (gpud_memfd_create("gpudirect-pin", size, GPUD_SHARE_READ_ONLY, &fd, &written, NULL) !=
        GPUD_OK)
        return true; /* not known: assume so */
    bool pins = true;
    if (gpud_memfd_map(fd, size, false, &read, NULL) == GPUD_OK) {
        gpu->driver->enter(gpu);
        pins = gpud_pins_register(driver, read, size, true);
        if (pins) {
            pins = driver->mem_host_get_device_pointer(&address, read, 0) == 0;
            driver->mem_host_unregister(read);
        }
        gpu->driver->leave(gpu);
        gpud_memory_unmap_pages(read, size);
    }
    gpud_memory_unmap_pages(written, size);
    gpud_fd_close(&fd);
    return pins;
}

enum gpud_status gpud_gpu_pin(struct gpud_gpu *gpu, void *data, uint64_t size, bool read_only,
                              struct gpud_pinned **pinned, uint64_t *address)
{
    const struct gpud_gpu_driver *driver = gpu->driver;
    struct gpud_pinned *range;
    uint64_t last;
    if (!gpud_pins_add(gpu->driver, data, size, read_only, &range))
        return GPUD_NO_MEMORY;
    /* The application may have pinned it: then it has device addresses. */
    if (driver->mem_host_get_device_pointer(address, data, 0) == 0 &&
        driver->mem_host_get_device_pointer(&last, (char *)data + size - 1, 0) == 0) {
        *pinned = range;
        return GPUD_OK;
    }
    gpud_pins_remove(gpu->driver, range);
    return GPUD_UNSUPPORTED;
}
