/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Allocations. */
#include "device/hip/hip.h"

#include <unistd.h>

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static hipMemGenericAllocationHandle_t handle_of(uint64_t allocation)
{
    return (hipMemGenericAllocationHandle_t)(uintptr_t)allocation;
}

static long alloc(uint64_t *address, uint64_t size)
{
    void *made = NULL;
    hipError_t result = gpud_hip.malloc(&made, size);
    *address = (uint64_t)(uintptr_t)made;
    return result;
}

static void free_plain(uint64_t address)
{
    gpud_hip.free(pointer(address));
}

/* --- physical allocations ------------------------------------------------------------------ */

static struct hip_allocation_prop describe(const struct hip_device *device)
{
    return (struct hip_allocation_prop){
        .type = hipMemAllocationTypePinned,
        .handle_types = hipMemHandleTypePosixFileDescriptor,
        .location = {hipMemLocationTypeDevice, device->ordinal},
    };
}

static long create(struct gpud_gpu *gpu, uint64_t size, uint64_t *allocation)
{
    const struct hip_allocation_prop prop = describe((const struct hip_device *)gpu);
    hipMemGenericAllocationHandle_t made = NULL;
    hipError_t result =
        gpud_hip.mem_create(&made, size, (const hipMemAllocationProp *)(const void *)&prop, 0);
    *allocation = (uint64_t)(uintptr_t)made;
    return result;
}

static void release(uint64_t allocation)
{
    gpud_hip.mem_release(handle_of(allocation));
}

static long reserve(uint64_t *address, uint64_t size)
{
    void *made = NULL;
    hipError_t result = gpud_hip.mem_address_reserve(&made, size, 0, NULL, 0);
    *address = (uint64_t)(uintptr_t)made;
    return result;
}

static void unreserve(uint64_t address, uint64_t size)
{
    gpud_hip.mem_address_free(pointer(address), size);
}

static long map(uint64_t address, uint64_t size, uint64_t allocation)
{
    return gpud_hip.mem_map(pointer(address), size, 0, handle_of(allocation), 0);
}

static long unmap(uint64_t address, uint64_t size)
{
    return gpud_hip.mem_unmap(pointer(address), size);
}

static long allow(struct gpud_gpu *gpu, uint64_t address, uint64_t size, bool read_only)
{
    const hipMemAccessDesc access = {
        .location = {hipMemLocationTypeDevice, ((const struct hip_device *)gpu)->ordinal},
        .flags = read_only ? hipMemAccessFlagsProtRead : hipMemAccessFlagsProtReadWrite,
    };
    return gpud_hip.mem_set_access(pointer(address), size, &access, 1);
}

static bool has_all(void)
{
    return gpud_hip.mem_get_allocation_granularity && gpud_hip.mem_create && gpud_hip.mem_release &&
           gpud_hip.mem_address_reserve && gpud_hip.mem_address_free && gpud_hip.mem_map &&
           gpud_hip.mem_unmap && gpud_hip.mem_set_access && gpud_hip.mem_export &&
           gpud_hip.mem_import && gpud_hip.mem_get_allocation_properties;
}

uint64_t gpud_hip_find_granularity(struct hip_device *device)
{
    const struct hip_allocation_prop prop = describe(device);
    size_t unit = 0;
    int has = 0, fd = -1;
    uint64_t allocation;
    if (gpud_hip.version < HIP_VERSION_6 || !has_all() ||
        gpud_hip.device_get_attribute(&has, HIP_ATTRIBUTE_VIRTUAL_MEMORY, device->ordinal) !=
            hipSuccess ||
        !has ||
        gpud_hip.mem_get_allocation_granularity(&unit,
                                                (const hipMemAllocationProp *)(const void *)&prop,
                                                hipMemAllocationGranularityMinimum) != hipSuccess ||
        unit == 0 || create(&device->gpu, unit, &allocation) != hipSuccess)
        return 0;
    if (gpud_hip.mem_export(&fd, handle_of(allocation), hipMemHandleTypePosixFileDescriptor, 0) !=
        hipSuccess)
        unit = 0;
    else
        close(fd);
    release(allocation);
    return unit;
}

/* --- what others wrote --------------------------------------------------------------------- */

/* Writes over the bus go through the GPU's host data path, which keeps some back until its register
 * is written. */
static enum gpud_status flush_remote(struct gpud_memory *memory, struct gpud_error *error)
{
    const struct hip_device *device = gpud_hip_device(memory->device);
    if (device->coherent)
        return GPUD_OK;
    if (!device->flush)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the HIP runtime gives no access to the register that flushes what a "
                         "network card wrote to %s: let the card write to host memory",
                         memory->device->info.name);
    atomic_thread_fence(memory_order_seq_cst);
    *device->flush = 1;
    atomic_thread_fence(memory_order_seq_cst);
    return GPUD_OK;
}

const struct gpud_gpu_memory_ops gpud_hip_memory_ops = {
    .alloc = alloc,
    .free = free_plain,
    .create = create,
    .release = release,
    .reserve = reserve,
    .unreserve = unreserve,
    .map = map,
    .unmap = unmap,
    .allow = allow,
    .flush_remote = flush_remote,
};
