/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/gpu/map.h"

struct gpud_gpu_allocation gpud_gpu_describe(const struct gpud_gpu *gpu)
{
    return (struct gpud_gpu_allocation){
        .type = GPUD_GPU_TYPE_PINNED,
        .handles = GPUD_GPU_HANDLE_FD,
        .location = {GPUD_GPU_ON_DEVICE, gpu->ordinal},
        .flags = {.rdma = gpu->rdma},
    };
}

static int allow(const struct gpud_gpu *gpu, uint64_t address, uint64_t size, int flags)
{
    const struct gpud_gpu_access access = {
        .location = {GPUD_GPU_ON_DEVICE, gpu->ordinal},
        .flags = flags,
    };
    return gpu->driver->mem_set_access(address, size, &access, 1);
}

enum gpud_status gpud_gpu_map(const struct gpud_gpu *gpu, uint64_t allocation, uint64_t size,
                              bool read_only, uint64_t *address, int *result)
{
    const struct gpud_gpu_driver *driver = gpu->driver;
    uint64_t at = 0;
    *result = driver->mem_address_reserve(&at, size, 0, 0, 0);
    if (*result)
        return GPUD_NO_MEMORY;
    *result = driver->mem_map(at, size, 0, allocation, 0);
    if (*result == 0) {
        *result = allow(gpu, at, size, read_only ? GPUD_GPU_READ : GPUD_GPU_READ_WRITE);
        if (*result && read_only) /* not every GPU has read-only mappings */
            *result = allow(gpu, at, size, GPUD_GPU_READ_WRITE);
        if (*result == 0) {
            *address = at;
            return GPUD_OK;
        }
        if (driver->mem_unmap(at, size))
            return GPUD_IO; /* the address range is leaked */
    }
    driver->mem_address_free(at, size);
    return GPUD_IO;
}

int gpud_gpu_create(const struct gpud_gpu *gpu, struct gpud_gpu_memory *record)
{
    const struct gpud_gpu_allocation what = gpud_gpu_describe(gpu);
    int result = gpu->driver->mem_create(&record->allocation, record->mapped, &what, 0);
    if (result)
        return result;
    if (gpud_gpu_map(gpu, record->allocation, record->mapped, false, &record->address, &result) !=
        GPUD_OK)
        gpu->driver->mem_release(record->allocation);
    return result;
}

void gpud_gpu_unmap(const struct gpud_gpu *gpu, const struct gpud_gpu_memory *record)
{
    const struct gpud_gpu_driver *driver = gpu->driver;
    if (driver->mem_unmap(record->address, record->mapped) == 0)
        driver->mem_address_free(record->address, record->mapped);
    driver->mem_release(record->allocation);
}
