/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Handles to and from other processes and drivers, and host pages that devices see. */
#include "device/cuda/cuda.h"

#include <string.h>

static long find_range(uint64_t address, uint64_t *base, uint64_t *size)
{
    CUdeviceptr start = 0;
    size_t bytes = 0;
    CUresult result = gpud_cu.mem_get_address_range(&start, &bytes, address);
    *base = start;
    *size = bytes;
    return result;
}

/* --- handles ------------------------------------------------------------------------------- */

_Static_assert(sizeof(CUipcMemHandle) == GPUD_OPEN_HANDLE_SIZE, "the table takes the handle");

static long get_handle(uint64_t base, void *handle)
{
    return gpud_cu.ipc_get_mem_handle(handle, base);
}

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
    .lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_OPENS),
};

static long export_fd(uint64_t allocation, int *fd)
{
    return gpud_cu.mem_export(fd, allocation, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

static long import_fd(int fd, uint64_t *allocation)
{
    CUmemGenericAllocationHandle made = 0;
    CUresult result =
        gpud_cu.mem_import(&made, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    *allocation = made;
    return result;
}

static long check_imported(uint64_t allocation, bool *on_gpu)
{
    CUmemAllocationProp prop;
    CUresult result = gpud_cu.mem_get_allocation_properties(&prop, allocation);
    *on_gpu = result == CUDA_SUCCESS && prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    return result;
}

/* GPUDirect RDMA's manual, "Synchronization and Memory Ordering": cuMemcpy() between GPUs' memory
 * and cuMemset() may return before they are done, and a third party's card does not wait for the
 * rest; with this attribute they do not. Memory of cuMemCreate() cannot have it
 * (CUDA_ERROR_NOT_SUPPORTED), nor what is no memory of the allocator. */
static long make_synchronous(uint64_t address, bool *not_supported)
{
    const unsigned one = 1;
    CUresult result =
        gpud_cu.pointer_set_attribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
    *not_supported = result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_INVALID_VALUE;
    return result;
}

static enum gpud_status export_dmabuf(struct gpud_device *device, uint64_t address, uint64_t size,
                                      int *fd, uint64_t *offset, struct gpud_error *error)
{
    CUresult result = gpud_cu.mem_get_handle_for_address_range(
        fd, address, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    if (result != CUDA_SUCCESS)
        return gpud_gpu_fail(&gpud_cuda_gpu_ops, error, result, "no dma-buf for %llu bytes of %s",
                             (unsigned long long)size, device->info.name);
    *offset = 0;
    return GPUD_OK;
}

/* --- pinned pages: registered once, for all devices ---------------------------------------- */

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
    .lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_PINS),
};

static long find_pinned(void *host, uint64_t *address)
{
    CUdeviceptr found = 0;
    CUresult result = gpud_cu.mem_host_get_device_pointer(&found, host, 0);
    *address = found;
    return result;
}

static long alloc_host(void **pages, uint64_t size)
{
    return gpud_cu.mem_host_alloc(pages, size, CU_MEMHOSTALLOC_PORTABLE);
}

static void free_host(void *pages)
{
    gpud_cu.mem_free_host(pages);
}

const struct gpud_gpu_share_ops gpud_cuda_share_ops = {
    .fd_type = GPUD_HANDLE_CUDA_FD,
    .ipc_type = GPUD_HANDLE_CUDA_IPC,
    .opens = &opens,
    .pins = &pins,
    .find_range = find_range,
    .get_handle = get_handle,
    .export_fd = export_fd,
    .import_fd = import_fd,
    .check_imported = check_imported,
    .make_synchronous = make_synchronous,
    .export_dmabuf = export_dmabuf,
    .find_pinned = find_pinned,
    .alloc_host = alloc_host,
    .free_host = free_host,
};
