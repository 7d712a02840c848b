/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Compiled twice, see headers_values.h; GPUD_CUDA_VENDOR_HEADER tells driver.h which time it is. */

#include "support/headers_values.h"

#include "device/cuda/driver.h"

#ifdef GPUD_CUDA_VENDOR_HEADER
#define VALUES vendor_values
#define NUM_VALUES num_vendor_values

/* Each function of the vendor's is of the type that our table says. */
#define SAME_TYPE(member, symbol, arguments)                                                    \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol),                            \
                                                __typeof__(((struct cuda_driver *)0)->member)), \
                   #symbol " is declared otherwise by the vendor");
CUDA_DRIVER_FUNCTIONS(SAME_TYPE)
#else
#define VALUES own_values
#define NUM_VALUES num_own_values
#endif

#define CONSTANT(name)                    \
    {                                     \
#name, (unsigned long long)(name) \
    }
#define SIZE(type)                     \
    {                                  \
        "size of " #type, sizeof(type) \
    }
#define MEMBER(type, member)                                      \
    {#type "." #member, offsetof(type, member)},                  \
    {                                                             \
        "size of " #type "." #member, sizeof(((type *)0)->member) \
    }

const struct value VALUES[] = {
    CONSTANT(CUDA_SUCCESS),
    CONSTANT(CUDA_ERROR_INVALID_VALUE),
    CONSTANT(CUDA_ERROR_OUT_OF_MEMORY),
    CONSTANT(CUDA_ERROR_NOT_INITIALIZED),
    CONSTANT(CUDA_ERROR_DEINITIALIZED),
    CONSTANT(CUDA_ERROR_STUB_LIBRARY),
    CONSTANT(CUDA_ERROR_NO_DEVICE),
    CONSTANT(CUDA_ERROR_INVALID_DEVICE),
    CONSTANT(CUDA_ERROR_INVALID_CONTEXT),
    CONSTANT(CUDA_ERROR_MAP_FAILED),
    CONSTANT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED),
    CONSTANT(CUDA_ERROR_OPERATING_SYSTEM),
    CONSTANT(CUDA_ERROR_INVALID_HANDLE),
    CONSTANT(CUDA_ERROR_NOT_READY),
    CONSTANT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED),
    CONSTANT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
    CONSTANT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
    CONSTANT(CUDA_ERROR_NOT_PERMITTED),
    CONSTANT(CUDA_ERROR_NOT_SUPPORTED),
    CONSTANT(CUDA_ERROR_SYSTEM_NOT_READY),
    CONSTANT(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH),
    CONSTANT(CUDA_ERROR_UNKNOWN),
    CONSTANT(CU_DEVICE_ATTRIBUTE_INTEGRATED),
    CONSTANT(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE),
    CONSTANT(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING),
    CONSTANT(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED),
    CONSTANT(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
    CONSTANT(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED),
    CONSTANT(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS),
    CONSTANT(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING),
    CONSTANT(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED),
    CONSTANT(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST),
    CONSTANT(CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE),
    CONSTANT(CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER),
    CONSTANT(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
    CONSTANT(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES),
    CONSTANT(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX),
    CONSTANT(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK),
    CONSTANT(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED),
    CONSTANT(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED),
    CONSTANT(CU_MEMORYTYPE_HOST),
    CONSTANT(CU_MEMORYTYPE_DEVICE),
    CONSTANT(CU_MEMORYTYPE_UNIFIED),
    CONSTANT(CU_POINTER_ATTRIBUTE_CONTEXT),
    CONSTANT(CU_POINTER_ATTRIBUTE_MEMORY_TYPE),
    CONSTANT(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS),
    CONSTANT(CU_POINTER_ATTRIBUTE_IS_MANAGED),
    CONSTANT(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL),
    CONSTANT(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR),
    CONSTANT(CU_POINTER_ATTRIBUTE_RANGE_SIZE),
    CONSTANT(CU_MEM_ALLOCATION_TYPE_PINNED),
    CONSTANT(CU_MEM_LOCATION_TYPE_DEVICE),
    CONSTANT(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
    CONSTANT(CU_MEM_ALLOC_GRANULARITY_MINIMUM),
    CONSTANT(CU_MEM_ACCESS_FLAGS_PROT_READ),
    CONSTANT(CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
    CONSTANT(CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD),
    CONSTANT(CU_STREAM_NON_BLOCKING),
    CONSTANT(CU_EVENT_DISABLE_TIMING),
    CONSTANT(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
    CONSTANT(CU_MEMHOSTREGISTER_PORTABLE),
    CONSTANT(CU_MEMHOSTREGISTER_DEVICEMAP),
    CONSTANT(CU_MEMHOSTREGISTER_READ_ONLY),
    CONSTANT(CU_MEMHOSTALLOC_PORTABLE),
    CONSTANT(CU_MEMHOSTALLOC_DEVICEMAP),
    CONSTANT(CU_STREAM_WAIT_VALUE_GEQ),
    CONSTANT(CU_STREAM_WRITE_VALUE_DEFAULT),

    SIZE(CUdevice),
    SIZE(CUdeviceptr),
    SIZE(CUmemGenericAllocationHandle),
    SIZE(CUcontext),
    SIZE(CUstream),
    SIZE(CUevent),
    SIZE(CUarray),
    SIZE(CUuuid),
    SIZE(CUipcMemHandle),
    SIZE(CUresult),
    SIZE(CUdevice_attribute),
    SIZE(CUdevice_P2PAttribute),
    SIZE(CUmemorytype),
    SIZE(CUpointer_attribute),
    SIZE(CUmemAllocationType),
    SIZE(CUmemLocationType),
    SIZE(CUmemAllocationHandleType),
    SIZE(CUmemAllocationGranularity_flags),
    SIZE(CUmemAccess_flags),
    SIZE(CUmemRangeHandleType),
    SIZE(CUflushGPUDirectRDMAWritesScope),
    SIZE(CUflushGPUDirectRDMAWritesTarget),
    SIZE(CUmemLocation),
    SIZE(CUmemAllocationProp),
    SIZE(CUmemAccessDesc),
    SIZE(CUDA_MEMCPY2D),

    MEMBER(CUmemLocation, type),
    MEMBER(CUmemLocation, id),
    MEMBER(CUmemAllocationProp, type),
    MEMBER(CUmemAllocationProp, requestedHandleTypes),
    MEMBER(CUmemAllocationProp, location),
    MEMBER(CUmemAllocationProp, win32HandleMetaData),
    MEMBER(CUmemAllocationProp, allocFlags),
    MEMBER(CUmemAllocationProp, allocFlags.compressionType),
    MEMBER(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable),
    MEMBER(CUmemAllocationProp, allocFlags.usage),
    MEMBER(CUmemAllocationProp, allocFlags.reserved),
    MEMBER(CUmemAccessDesc, location),
    MEMBER(CUmemAccessDesc, flags),
    MEMBER(CUuuid, bytes),
    MEMBER(CUipcMemHandle, reserved),
    MEMBER(CUDA_MEMCPY2D, srcXInBytes),
    MEMBER(CUDA_MEMCPY2D, srcY),
    MEMBER(CUDA_MEMCPY2D, srcMemoryType),
    MEMBER(CUDA_MEMCPY2D, srcHost),
    MEMBER(CUDA_MEMCPY2D, srcDevice),
    MEMBER(CUDA_MEMCPY2D, srcArray),
    MEMBER(CUDA_MEMCPY2D, srcPitch),
    MEMBER(CUDA_MEMCPY2D, dstXInBytes),
    MEMBER(CUDA_MEMCPY2D, dstY),
    MEMBER(CUDA_MEMCPY2D, dstMemoryType),
    MEMBER(CUDA_MEMCPY2D, dstHost),
    MEMBER(CUDA_MEMCPY2D, dstDevice),
    MEMBER(CUDA_MEMCPY2D, dstArray),
    MEMBER(CUDA_MEMCPY2D, dstPitch),
    MEMBER(CUDA_MEMCPY2D, WidthInBytes),
    MEMBER(CUDA_MEMCPY2D, Height),
};
const size_t NUM_VALUES = sizeof VALUES / sizeof *VALUES;
