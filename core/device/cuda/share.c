/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory that others see: handles to and from other processes, and host pages that devices see. */
#include "device/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- export -------------------------------------------------------------------------------- */

static enum gpud_status export_ipc(struct cuda_memory *record, struct gpud_handle *handle,
                                   struct gpud_error *error)
{
    CUipcMemHandle ipc;
    CUdeviceptr base = 0;
    CUresult result = gpud_cu.mem_get_address_range(&base, NULL, record->address);
    if (result == CUDA_SUCCESS)
        result = gpud_cu.ipc_get_mem_handle(&ipc, base);
    if (result != CUDA_SUCCESS)
        return gpud_cuda_fail_as(error, GPUD_UNSUPPORTED, result,
                                 "this memory cannot be shared: memory from cuMemAlloc can, memory "
                                 "of pools and mappings cannot");
    record->by_handle = true;
    handle->type = GPUD_HANDLE_CUDA_IPC;
    handle->word[0] = record->address - base;
    _Static_assert(sizeof(ipc) == 8 * sizeof(handle->word[0]), "the handle fits its words");
    memcpy(&handle->word[1], &ipc, sizeof(ipc));
    return GPUD_OK;
}

enum gpud_status gpud_cuda_export(struct gpud_memory *memory, struct gpud_handle *handle,
                                  struct gpud_error *error)
{
    struct cuda_memory *record = memory->backend;
    struct cuda_device *device = gpud_cuda_device(memory->device);
    enum gpud_status status = GPUD_OK;
    gpud_cuda_enter(device);
    if (record->kind == CUDA_MEMORY_VMM) {
        CUresult result = gpud_cu.mem_export(&handle->fd, record->handle,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        handle->type = GPUD_HANDLE_CUDA_FD;
        handle->word[0] = record->mapped;
        if (result != CUDA_SUCCESS) {
            handle->fd = -1;
            status = gpud_cuda_fail(error, result, "memory of %s cannot be exported",
                                    memory->device->info.name);
        }
    } else if (record->kind == CUDA_MEMORY_PLAIN || record->kind == CUDA_MEMORY_WRAPPED) {
        status = export_ipc(record, handle, error);
    } else {
        status = gpud_fail(error, GPUD_UNSUPPORTED, "host memory is exported as host memory");
    }
    gpud_cuda_leave();
    return status;
}

enum gpud_status gpud_cuda_export_dmabuf(struct gpud_memory *memory, uint64_t from, uint64_t bytes,
                                         int *fd, uint64_t *offset, struct gpud_error *error)
{
    const struct cuda_memory *record = memory->backend;
    struct cuda_device *device = gpud_cuda_device(memory->device);
    const char *name = memory->device->info.name;
    int has = 0, made = -1;
    if (gpud_cu.device_get_attribute(&has, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device->id) !=
            CUDA_SUCCESS ||
        !has)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the driver of %s makes no dma-bufs: the open kernel modules do", name);
    if (record->kind > CUDA_MEMORY_PLAIN && record->kind != CUDA_MEMORY_WRAPPED)
        return gpud_fail(error, GPUD_INVALID, "only memory of %s itself has a dma-buf", name);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    CUdeviceptr wanted = record->address + from, start = wanted / page * page;
    uint64_t size = (wanted - start + bytes + page - 1) / page * page;
    gpud_cuda_enter(device);
    CUresult result = gpud_cu.mem_get_handle_for_address_range(
        &made, start, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    gpud_cuda_leave();
    if (result != CUDA_SUCCESS)
        return gpud_cuda_fail(error, result, "no dma-buf for %llu bytes of %s",
                              (unsigned long long)size, name);
    *fd = made;
    *offset = wanted - start;
    return GPUD_OK;
}

/* --- legacy handles: opened once a context -------------------------------------------------- */

static long open_ipc(const void *handle, uint64_t *base)
{
    CUipcMemHandle ipc;
    CUdeviceptr address = 0;
    memcpy(&ipc, handle, sizeof(ipc));
    CUresult result =
        gpud_cu.ipc_open_mem_handle(&address, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    *base = address;
    return result;
}

static void close_ipc(uint64_t base)
{
    gpud_cu.ipc_close_mem_handle(base);
}

static struct gpud_opens opens = {
    .open = open_ipc,
    .close = close_ipc,
    .no_memory = CUDA_ERROR_OUT_OF_MEMORY,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};
_Static_assert(sizeof(CUipcMemHandle) == GPUD_OPEN_HANDLE_SIZE, "the table takes the handle");

void gpud_cuda_ipc_close(struct cuda_device *device, CUdeviceptr base)
{
    gpud_opens_remove(&opens, device->context, base);
}

/* --- import; every word of a handle is a peer's ------------------------------------------------
 */

static enum gpud_status import_ipc(struct gpud_memory *memory, struct cuda_memory *record,
                                   const struct gpud_handle *handle, struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(memory->device);
    size_t size = 0;
    uint64_t base = 0;
    CUresult result = (CUresult)gpud_opens_add(&opens, device->context, &handle->word[1], &base);
    record->base = base;
    if (result != CUDA_SUCCESS)
        return gpud_cuda_fail_as(error, GPUD_UNSUPPORTED, result,
                                 "%s cannot open the peer's memory by its legacy handle (another "
                                 "container or the same process cannot)",
                                 memory->device->info.name);
    if (gpud_cu.mem_get_address_range(NULL, &size, record->base) != CUDA_SUCCESS ||
        handle->word[0] > size || memory->size > size - handle->word[0]) {
        gpud_cuda_ipc_close(device, record->base);
        return gpud_fail(error, GPUD_PEER,
                         "the peer's memory ends before the %llu bytes that it "
                         "promised",
                         (unsigned long long)memory->size);
    }
    record->kind = CUDA_MEMORY_IPC;
    record->address = record->base + handle->word[0];
    return GPUD_OK;
}

static enum gpud_status import_fd(struct gpud_memory *memory, struct cuda_memory *record,
                                  const struct gpud_handle *handle, struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(memory->device);
    const char *name = memory->device->info.name;
    CUmemAllocationProp prop;
    record->kind = CUDA_MEMORY_VMM;
    record->mapped = handle->word[0];
    if (!device->vmm || record->mapped < memory->size || record->mapped % device->granularity ||
        record->mapped > (UINT64_C(1) << 41))
        return gpud_fail(error, GPUD_PEER, "the peer's memory has %llu bytes, which %s cannot map",
                         (unsigned long long)record->mapped, name);
    CUresult result = gpud_cu.mem_import(&record->handle, (void *)(intptr_t)handle->fd,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS)
        return gpud_cuda_fail_as(error, GPUD_PEER, result,
                                 "what the peer sent is no memory of a GPU that %s knows", name);
    result = gpud_cu.mem_get_allocation_properties(&prop, record->handle);
    bool right = result == CUDA_SUCCESS && prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (right &&
        gpud_cuda_map(device, record->handle, record->mapped, memory->usage == GPUD_USAGE_SHARE,
                      &record->address, &result) == GPUD_OK)
        return GPUD_OK;
    gpud_cu.mem_release(record->handle);
    return gpud_cuda_fail_as(error, result == CUDA_ERROR_OUT_OF_MEMORY ? GPUD_NO_MEMORY : GPUD_PEER,
                             result, "%s cannot map the %llu bytes that the peer offers", name,
                             (unsigned long long)record->mapped);
}

enum gpud_status gpud_cuda_import(struct gpud_memory *memory, const struct gpud_handle *handle,
                                  struct gpud_error *error)
{
    struct cuda_memory *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a memory's record");
    enum gpud_status status;
    gpud_cuda_enter(gpud_cuda_device(memory->device));
    if (handle->type == GPUD_HANDLE_CUDA_FD && handle->fd >= 0)
        status = import_fd(memory, record, handle, error);
    else if (handle->type == GPUD_HANDLE_CUDA_IPC)
        status = import_ipc(memory, record, handle, error);
    else
        status = gpud_fail(error, GPUD_PEER, "the peer's handle is not memory of a CUDA device");
    gpud_cuda_leave();
    if (status != GPUD_OK) {
        free(record);
        return status;
    }
    memory->backend = record;
    memory->native = (void *)(uintptr_t)record->address;
    return GPUD_OK;
}

/* --- pinned pages: registered once, for all devices --------------------------------------------
 */

static bool pin_range(void *pages, uint64_t size, bool read_only)
{
    unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    if (read_only && gpud_cu.mem_host_register(pages, size, flags | CU_MEMHOSTREGISTER_READ_ONLY) ==
                         CUDA_SUCCESS)
        return true; /* without the flag, read-only pages are refused */
    return gpud_cu.mem_host_register(pages, size, flags) == CUDA_SUCCESS;
}

static void unpin_range(void *pages)
{
    gpud_cu.mem_host_unregister(pages);
}

static struct gpud_pins pins = {
    .pin = pin_range,
    .unpin = unpin_range,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

enum gpud_status gpud_cuda_pin(void *data, uint64_t size, bool read_only,
                               struct gpud_pinned **pinned, CUdeviceptr *address)
{
    CUdeviceptr last;
    struct gpud_pinned *range;
    if (!gpud_pins_add(&pins, data, size, read_only, &range))
        return GPUD_NO_MEMORY;
    /* The application may have pinned it: then it has device addresses. */
    if (gpud_cu.mem_host_get_device_pointer(address, data, 0) == CUDA_SUCCESS &&
        gpud_cu.mem_host_get_device_pointer(&last, (char *)data + size - 1, 0) == CUDA_SUCCESS) {
        *pinned = range;
        return GPUD_OK;
    }
    gpud_pins_remove(&pins, range);
    return GPUD_UNSUPPORTED;
}

void gpud_cuda_unpin(struct gpud_pinned *pinned)
{
    gpud_pins_remove(&pins, pinned);
}
