/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory, and what others get of it. */
#include "shim.h"

#include <string.h>

static CUdeviceptr address_of(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

static CUmemGenericAllocationHandle number_of(hipMemGenericAllocationHandle_t handle)
{
    return (CUmemGenericAllocationHandle)(uintptr_t)handle;
}

/* Out-parameters of another type. */
static CUresult put_address(CUresult result, const CUdeviceptr *address, void **out)
{
    if (result == CUDA_SUCCESS)
        *out = (void *)(uintptr_t)*address;
    return result;
}

static CUresult put_handle(CUresult result, const CUmemGenericAllocationHandle *handle,
                           hipMemGenericAllocationHandle_t *out)
{
    if (result == CUDA_SUCCESS)
        *out = (hipMemGenericAllocationHandle_t)(uintptr_t)*handle;
    return result;
}

hipError_t hipMalloc(void **address, size_t size)
{
    CUdeviceptr made = 0;
    SHIM_IN_CONTEXT(put_address(shim_cu.mem_alloc(&made, size), &made, address));
}

hipError_t hipFree(void *address)
{
    SHIM_IN_CONTEXT(shim_cu.mem_free(address_of(address)));
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size, hipDeviceptr_t address)
{
    CUdeviceptr start = 0;
    SHIM_IN_CONTEXT(put_address(shim_cu.mem_get_address_range(&start, size, address_of(address)),
                                &start, base));
}

/* --- the host's ---------------------------------------------------------------------------- */

hipError_t hipHostMalloc(void **host, size_t size, unsigned flags)
{
    if (flags & ~(hipHostMallocPortable | hipHostMallocMapped))
        return shim_refuse(__func__, "only portable and mapped pages are known here");
    /* Both flags have the numbers of CUDA's. */
    SHIM_IN_CONTEXT(shim_cu.mem_host_alloc(host, size, flags));
}

hipError_t hipHostFree(void *host)
{
    SHIM_IN_CONTEXT(shim_cu.mem_free_host(host));
}

hipError_t hipHostRegister(void *host, size_t size, unsigned flags)
{
    if (flags != (hipHostRegisterPortable | hipHostRegisterMapped))
        return shim_refuse(__func__, "only portable mapped pages are known here");
    SHIM_IN_CONTEXT(shim_cu.mem_host_register(
        host, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
}

hipError_t hipHostUnregister(void *host)
{
    SHIM_IN_CONTEXT(shim_cu.mem_host_unregister(host));
}

hipError_t hipHostGetDevicePointer(void **address, void *host, unsigned flags)
{
    CUdeviceptr found = 0;
    SHIM_IN_CONTEXT(
        put_address(shim_cu.mem_host_get_device_pointer(&found, host, flags), &found, address));
}

/* --- whose it is --------------------------------------------------------------------------- */

static CUresult get_memory_type(unsigned *type, CUdeviceptr address)
{
    CUresult result =
        shim_cu.pointer_get_attribute(type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    if (result == CUDA_SUCCESS)
        *type = *type == CU_MEMORYTYPE_HOST ? HIP_MEMORY_HOST(shim_version())
                                            : HIP_MEMORY_DEVICE(shim_version());
    return result;
}

hipError_t hipPointerGetAttribute(void *value, hipPointer_attribute attribute,
                                  hipDeviceptr_t address)
{
    if (attribute == HIP_POINTER_ATTRIBUTE_MEMORY_TYPE)
        SHIM_IN_CONTEXT(get_memory_type(value, address_of(address)));
    /* The others have the same numbers. */
    SHIM_IN_CONTEXT(shim_cu.pointer_get_attribute(value, (CUpointer_attribute)(int)attribute,
                                                  address_of(address)));
}

/* --- legacy handles ------------------------------------------------------------------------ */

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *address)
{
    SHIM_IN_CONTEXT(shim_cu.ipc_get_mem_handle((CUipcMemHandle *)handle, address_of(address)));
}

hipError_t hipIpcOpenMemHandle(void **address, hipIpcMemHandle_t handle, unsigned flags)
{
    CUipcMemHandle ipc;
    CUdeviceptr opened = 0;
    if (flags != HIP_IPC_LAZY_PEER_ACCESS(shim_version()))
        return shim_refuse(__func__, "the flag is that of another version");
    memcpy(&ipc, &handle, sizeof(ipc));
    SHIM_IN_CONTEXT(
        put_address(shim_cu.ipc_open_mem_handle(&opened, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                    &opened, address));
}

hipError_t hipIpcCloseMemHandle(void *address)
{
    SHIM_IN_CONTEXT(shim_cu.ipc_close_mem_handle(address_of(address)));
}

/* --- physical allocations: from 6.0 on ----------------------------------------------------- */

#define NEED_VERSION(needed)             \
    do {                                 \
        if (shim_version() < (needed))   \
            return hipErrorNotSupported; \
    } while (0)

static CUmemAllocationProp translate(const hipMemAllocationProp *prop)
{
    const struct gpud_gpu_allocation *own = (const void *)prop;
    return (CUmemAllocationProp){
        .type = (CUmemAllocationType)own->type,
        .requestedHandleTypes = (CUmemAllocationHandleType)own->handles,
        .location = {(CUmemLocationType)own->location.type, own->location.id},
        .allocFlags = {.gpuDirectRDMACapable = own->flags.rdma},
    };
}

hipError_t hipMemGetAllocationGranularity(size_t *granularity, const hipMemAllocationProp *prop,
                                          hipMemAllocationGranularity_flags option)
{
    NEED_VERSION(HIP_VERSION_6);
    const CUmemAllocationProp cuda = translate(prop);
    SHIM_IN_CONTEXT(shim_cu.mem_get_allocation_granularity(
        granularity, &cuda, (CUmemAllocationGranularity_flags)(int)option));
}

hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t size,
                        const hipMemAllocationProp *prop, unsigned long long flags)
{
    NEED_VERSION(HIP_VERSION_6);
    CUmemGenericAllocationHandle made = 0;
    const CUmemAllocationProp cuda = translate(prop);
    SHIM_IN_CONTEXT(put_handle(shim_cu.mem_create(&made, size, &cuda, flags), &made, handle));
}

hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle)
{
    NEED_VERSION(HIP_VERSION_6);
    SHIM_IN_CONTEXT(shim_cu.mem_release(number_of(handle)));
}

hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle, void *address)
{
    NEED_VERSION(HIP_VERSION_6);
    CUmemGenericAllocationHandle found = 0;
    SHIM_IN_CONTEXT(
        put_handle(shim_cu.mem_retain_allocation_handle(&found, address), &found, handle));
}

static CUresult get_properties(struct gpud_gpu_allocation *prop,
                               CUmemGenericAllocationHandle handle)
{
    CUmemAllocationProp cuda = {.location = {.id = 0}};
    CUresult result = shim_cu.mem_get_allocation_properties(&cuda, handle);
    if (result == CUDA_SUCCESS)
        *prop = (struct gpud_gpu_allocation){
            .type = (int)cuda.type,
            .handles = (int)cuda.requestedHandleTypes,
            .location = {(int)cuda.location.type, cuda.location.id},
        };
    return result;
}

hipError_t hipMemGetAllocationPropertiesFromHandle(hipMemAllocationProp *prop,
                                                   hipMemGenericAllocationHandle_t handle)
{
    NEED_VERSION(HIP_VERSION_6);
    SHIM_IN_CONTEXT(get_properties((void *)prop, number_of(handle)));
}

hipError_t hipMemAddressReserve(void **address, size_t size, size_t alignment, void *wished,
                                unsigned long long flags)
{
    NEED_VERSION(HIP_VERSION_6);
    CUdeviceptr made = 0;
    SHIM_IN_CONTEXT(
        put_address(shim_cu.mem_address_reserve(&made, size, alignment, address_of(wished), flags),
                    &made, address));
}

hipError_t hipMemAddressFree(void *address, size_t size)
{
    NEED_VERSION(HIP_VERSION_6);
    SHIM_IN_CONTEXT(shim_cu.mem_address_free(address_of(address), size));
}

hipError_t hipMemMap(void *address, size_t size, size_t offset,
                     hipMemGenericAllocationHandle_t handle, unsigned long long flags)
{
    NEED_VERSION(HIP_VERSION_6);
    SHIM_IN_CONTEXT(shim_cu.mem_map(address_of(address), size, offset, number_of(handle), flags));
}

hipError_t hipMemUnmap(void *address, size_t size)
{
    NEED_VERSION(HIP_VERSION_6);
    SHIM_IN_CONTEXT(shim_cu.mem_unmap(address_of(address), size));
}

hipError_t hipMemSetAccess(void *address, size_t size, const hipMemAccessDesc *access, size_t count)
{
    NEED_VERSION(HIP_VERSION_6);
    if (count != 1)
        return shim_refuse(__func__, "only one device at a time is known here");
    const CUmemAccessDesc cuda = {
        .location = {(CUmemLocationType)(int)access->location.type, access->location.id},
        .flags = (CUmemAccess_flags)(int)access->flags,
    };
    SHIM_IN_CONTEXT(shim_cu.mem_set_access(address_of(address), size, &cuda, 1));
}

hipError_t hipMemExportToShareableHandle(void *shareable, hipMemGenericAllocationHandle_t handle,
                                         hipMemAllocationHandleType type, unsigned long long flags)
{
    NEED_VERSION(HIP_VERSION_6);
    SHIM_IN_CONTEXT(shim_cu.mem_export(shareable, number_of(handle),
                                       (CUmemAllocationHandleType)(int)type, flags));
}

/* By value from 7.1 on, as CUDA has it; before, by address. */
hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *handle, void *shareable,
                                           hipMemAllocationHandleType type)
{
    NEED_VERSION(HIP_VERSION_6);
    CUmemGenericAllocationHandle made = 0;
    bool by_address = (uintptr_t)shareable >= 1 << 20 && (intptr_t)shareable > 0;
    if (shim_version() < HIP_VERSION_7_1) {
        if (!by_address)
            return shim_refuse(__func__, "a descriptor by value, which is 7.1's");
        shareable = (void *)(intptr_t) * (int *)shareable;
    } else if (by_address && (uintptr_t)shareable > INT32_MAX) {
        return shim_refuse(__func__, "a descriptor by address, which was so before 7.1");
    }
    SHIM_IN_CONTEXT(put_handle(
        shim_cu.mem_import(&made, shareable, (CUmemAllocationHandleType)(int)type), &made, handle));
}

hipError_t hipMemGetHandleForAddressRange(void *handle, hipDeviceptr_t address, size_t size,
                                          int type, unsigned long long flags)
{
    NEED_VERSION(HIP_VERSION_7);
    if (type != HIP_RANGE_HANDLE_DMA_BUF || flags)
        return shim_refuse(__func__, "only dma-bufs are known here");
    SHIM_IN_CONTEXT(shim_cu.mem_get_handle_for_address_range(
        handle, address_of(address), size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags));
}
