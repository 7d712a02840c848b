/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Handles to and from other processes and drivers, and host pages that devices see. */
#include "device/hip/hip.h"

#include <string.h>

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static hipMemGenericAllocationHandle_t handle_of(uint64_t allocation)
{
    return (hipMemGenericAllocationHandle_t)(uintptr_t)allocation;
}

static long find_range(uint64_t address, uint64_t *base, uint64_t *size)
{
    hipDeviceptr_t start = NULL;
    size_t bytes = 0;
    hipError_t result = gpud_hip.mem_get_address_range(&start, &bytes, pointer(address));
    *base = (uint64_t)(uintptr_t)start;
    *size = bytes;
    return result;
}

/* --- handles ------------------------------------------------------------------------------- */

_Static_assert(sizeof(hipIpcMemHandle_t) == GPUD_OPEN_HANDLE_SIZE, "the table takes the handle");

static long get_handle(uint64_t base, void *handle)
{
    return gpud_hip.ipc_get_mem_handle(handle, pointer(base));
}

static long open_ipc(const void *handle, uint64_t *base)
{
    hipIpcMemHandle_t ipc;
    void *address = NULL;
    memcpy(&ipc, handle, sizeof(ipc));
    hipError_t result =
        gpud_hip.ipc_open_mem_handle(&address, ipc, HIP_IPC_LAZY_PEER_ACCESS(gpud_hip.version));
    *base = (uint64_t)(uintptr_t)address;
    return result;
}

static void close_ipc(uint64_t base)
{
    gpud_hip.ipc_close_mem_handle(pointer(base));
}

static struct gpud_opens opens = {
    .open = open_ipc,
    .close = close_ipc,
    .no_memory = hipErrorOutOfMemory,
    .lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_OPENS),
};

static long export_fd(uint64_t allocation, int *fd)
{
    return gpud_hip.mem_export(fd, handle_of(allocation), hipMemHandleTypePosixFileDescriptor, 0);
}

static long import_fd(int fd, uint64_t *allocation)
{
    hipMemGenericAllocationHandle_t made = NULL;
    void *how = gpud_hip.version < HIP_VERSION_7_1 ? (void *)&fd : (void *)(intptr_t)fd;
    hipError_t result = gpud_hip.mem_import(&made, how, hipMemHandleTypePosixFileDescriptor);
    *allocation = (uint64_t)(uintptr_t)made;
    return result;
}

static long check_imported(uint64_t allocation, bool *on_gpu)
{
    struct hip_allocation_prop prop = {0};
    hipError_t result = gpud_hip.mem_get_allocation_properties(
        (hipMemAllocationProp *)(void *)&prop, handle_of(allocation));
    *on_gpu = result == hipSuccess && prop.location.type == hipMemLocationTypeDevice;
    return result;
}

static enum gpud_status export_dmabuf(struct gpud_device *device, uint64_t address, uint64_t size,
                                      int *fd, uint64_t *offset, struct gpud_error *error)
{
    if (gpud_hip.get_handle_for_range) {
        *offset = 0;
        hipError_t result =
            gpud_hip.get_handle_for_range(fd, pointer(address), size, HIP_RANGE_HANDLE_DMA_BUF, 0);
        if (result == hipSuccess)
            return GPUD_OK;
        if (result != hipErrorNotSupported || !gpud_hip.export_dmabuf)
            return gpud_gpu_fail(&gpud_hip_gpu_ops, error, result,
                                 "no dma-buf for %llu bytes of %s", (unsigned long long)size,
                                 device->info.name);
    }
    int result = gpud_hip.export_dmabuf(pointer(address), size, fd, offset);
    if (result)
        return gpud_fail_native(
            error, GPUD_UNSUPPORTED, "hsa", result,
            "no dma-buf for %llu bytes of %s: the HSA runtime answers %#x "
            "(the kernel needs CONFIG_PCI_P2PDMA and CONFIG_DMABUF_MOVE_NOTIFY)",
            (unsigned long long)size, device->info.name, (unsigned)result);
    return GPUD_OK;
}

/* --- pinned pages: registered once, for all devices ---------------------------------------- */

/* There is no flag for pages that are mapped for reading: some kernels pin them, others refuse. */
static bool pin_range(void *pages, uint64_t size, bool read_only)
{
    return gpud_hip.host_register(pages, size, hipHostRegisterPortable | hipHostRegisterMapped) ==
           hipSuccess;
}

static void unpin_range(void *pages)
{
    gpud_hip.host_unregister(pages);
}

static struct gpud_pins pins = {
    .pin = pin_range,
    .unpin = unpin_range,
    .lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_PINS),
};

static long find_pinned(void *host, uint64_t *address)
{
    void *found = NULL;
    hipError_t result = gpud_hip.host_get_device_pointer(&found, host, 0);
    *address = (uint64_t)(uintptr_t)found;
    return result;
}

static long alloc_host(void **pages, uint64_t size)
{
    return gpud_hip.host_malloc(pages, size, hipHostMallocPortable);
}

static void free_host(void *pages)
{
    gpud_hip.host_free(pages);
}

const struct gpud_gpu_share_ops gpud_hip_share_ops = {
    .fd_type = GPUD_HANDLE_HIP_FD,
    .ipc_type = GPUD_HANDLE_HIP_IPC,
    .opens = &opens,
    .pins = &pins,
    .find_range = find_range,
    .get_handle = get_handle,
    .export_fd = export_fd,
    .import_fd = import_fd,
    .check_imported = check_imported,
    .export_dmabuf = export_dmabuf,
    .find_pinned = find_pinned,
    .alloc_host = alloc_host,
    .free_host = free_host,
};
