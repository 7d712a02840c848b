/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Allocations. */
#include "device/cuda/cuda.h"

static long alloc(uint64_t *address, uint64_t size)
{
    CUdeviceptr made = 0;
    CUresult result = gpud_cu.mem_alloc(&made, size);
    *address = made;
    return result;
}

static void free_plain(uint64_t address)
{
    gpud_cu.mem_free(address);
}

static long create(struct gpud_gpu *gpu, uint64_t size, uint64_t *allocation)
{
    const struct cuda_device *device = (const struct cuda_device *)gpu;
    CUmemGenericAllocationHandle made = 0;
    const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, device->id},
        .allocFlags = {.gpuDirectRDMACapable = device->rdma},
    };
    CUresult result = gpud_cu.mem_create(&made, size, &prop, 0);
    *allocation = made;
    return result;
}

static void release(uint64_t allocation)
{
    gpud_cu.mem_release(allocation);
}

static long reserve(uint64_t *address, uint64_t size)
{
    CUdeviceptr made = 0;
    CUresult result = gpud_cu.mem_address_reserve(&made, size, 0, 0, 0);
    *address = made;
    return result;
}

static void unreserve(uint64_t address, uint64_t size)
{
    gpud_cu.mem_address_free(address, size);
}

static long map(uint64_t address, uint64_t size, uint64_t allocation)
{
    return gpud_cu.mem_map(address, size, 0, allocation, 0);
}

static long unmap(uint64_t address, uint64_t size)
{
    return gpud_cu.mem_unmap(address, size);
}

static long allow(struct gpud_gpu *gpu, uint64_t address, uint64_t size, bool read_only)
{
    const CUmemAccessDesc access = {
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, ((const struct cuda_device *)gpu)->id},
        .flags = read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    return gpud_cu.mem_set_access(address, size, &access, 1);
}

static enum gpud_status flush_remote(struct gpud_memory *memory, struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(memory->device);
    if (device->writes_ordered)
        return GPUD_OK;
    if (!device->can_flush)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s neither keeps the order of writes over the bus nor flushes them: let "
                         "the card write to host memory",
                         memory->device->info.name);
    device->gpu.ops->enter(&device->gpu);
    CUresult result =
        gpud_cu.flush_remote_writes(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
    device->gpu.ops->leave(&device->gpu);
    if (result != CUDA_SUCCESS)
        return gpud_gpu_fail(device->gpu.ops, error, result, "writes to %s are not flushed",
                             memory->device->info.name);
    return GPUD_OK;
}

const struct gpud_gpu_memory_ops gpud_cuda_memory_ops = {
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
