/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What we use of the CUDA driver API (libcuda.so.1), declared by ourselves, so that the backend
 * compiles without the Toolkit and runs where there is no driver.
 *
 * tests/support/headers.c compares every line of this file with the vendor's <cuda.h> where that
 * is installed: it defines GPUD_CUDA_VENDOR_HEADER and gets the types from there. */
#ifndef GPUD_CUDA_DRIVER_H
#define GPUD_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef GPUD_CUDA_VENDOR_HEADER
#include <cuda.h>
#else

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUarray_st *CUarray;
typedef struct CUextMemory_st *CUexternalMemory;

typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;

typedef struct CUipcMemHandle_st {
    char reserved[64];
} CUipcMemHandle;

typedef enum cudaError_enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_STUB_LIBRARY = 34,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_MAP_FAILED = 205,
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
    CUDA_ERROR_OPERATING_SYSTEM = 304,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_ERROR_NOT_PERMITTED = 800,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_SYSTEM_NOT_READY = 802,
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_ERROR_UNKNOWN = 999,
} CUresult;

typedef enum CUdevice_attribute_enum {
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS = 117,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING = 118,
    CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 124,
} CUdevice_attribute;

typedef enum CUflushGPUDirectRDMAWritesOptions_enum {
    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST = 1
} CUflushGPUDirectRDMAWritesOptions;
typedef enum CUGPUDirectRDMAWritesOrdering_enum {
    CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE = 0,
    CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER = 100,
} CUGPUDirectRDMAWritesOrdering;
typedef enum CUstreamCaptureMode_enum { CU_STREAM_CAPTURE_MODE_RELAXED = 2 } CUstreamCaptureMode;
typedef enum CUflushGPUDirectRDMAWritesScope_enum {
    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER = 100,
    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES = 200,
} CUflushGPUDirectRDMAWritesScope;
typedef enum CUflushGPUDirectRDMAWritesTarget_enum {
    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX = 0
} CUflushGPUDirectRDMAWritesTarget;

typedef enum CUdevice_P2PAttribute_enum {
    CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 1,
    CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED = 2,
    CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 3,
} CUdevice_P2PAttribute;

typedef enum CUmemorytype_enum {
    CU_MEMORYTYPE_HOST = 1,
    CU_MEMORYTYPE_DEVICE = 2,
    CU_MEMORYTYPE_UNIFIED = 4,
} CUmemorytype;

typedef enum CUpointer_attribute_enum {
    CU_POINTER_ATTRIBUTE_CONTEXT = 1,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
} CUpointer_attribute;

typedef enum CUmemAllocationType_enum { CU_MEM_ALLOCATION_TYPE_PINNED = 1 } CUmemAllocationType;
typedef enum CUmemLocationType_enum { CU_MEM_LOCATION_TYPE_DEVICE = 1 } CUmemLocationType;
typedef enum CUmemAllocationHandleType_enum {
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1
} CUmemAllocationHandleType;
typedef enum CUmemAllocationGranularity_flags_enum {
    CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0
} CUmemAllocationGranularity_flags;
typedef enum CUmemAccess_flags_enum {
    CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
} CUmemAccess_flags;
typedef enum CUmemRangeHandleType_enum {
    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1
} CUmemRangeHandleType;

typedef struct CUmemLocation_st {
    CUmemLocationType type;
    int id;
} CUmemLocation;

typedef struct CUmemAllocationProp_st {
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;

typedef struct CUmemAccessDesc_st {
    CUmemLocation location;
    CUmemAccess_flags flags;
} CUmemAccessDesc;

typedef enum CUexternalMemoryHandleType_enum {
    CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD = 1
} CUexternalMemoryHandleType;

typedef struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st {
    CUexternalMemoryHandleType type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
        const void *nvSciBufObject;
    } handle;
    unsigned long long size;
    unsigned flags;
    unsigned reserved[16];
} CUDA_EXTERNAL_MEMORY_HANDLE_DESC;

typedef struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st {
    unsigned long long offset, size;
    unsigned flags;
    unsigned reserved[16];
} CUDA_EXTERNAL_MEMORY_BUFFER_DESC;

typedef struct CUDA_MEMCPY2D_st {
    size_t srcXInBytes, srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

#define CU_STREAM_NON_BLOCKING 0x1
#define CU_EVENT_DISABLE_TIMING 0x2
#define CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS 0x1
#define CU_MEMHOSTREGISTER_PORTABLE 0x1
#define CU_MEMHOSTREGISTER_DEVICEMAP 0x2
#define CU_MEMHOSTREGISTER_READ_ONLY 0x8
#define CU_MEMHOSTALLOC_PORTABLE 0x1
#define CU_MEMHOSTALLOC_DEVICEMAP 0x2
#define CUDA_EXTERNAL_MEMORY_DEDICATED 0x1
#define CU_STREAM_WAIT_VALUE_GEQ 0x0
#define CU_STREAM_WRITE_VALUE_DEFAULT 0x0
#define CU_STREAM_MEM_OP_WAIT_VALUE_32 1
#define CU_STREAM_MEM_OP_WRITE_VALUE_32 2

/* Of CUstreamBatchMemOpParams, which has the size of its padding, the operations used here. */
typedef union CUstreamBatchMemOpParams_union {
    int operation;
    struct {
        int operation;
        CUdeviceptr address;
        union {
            uint32_t value;
            uint64_t value64;
        };
        unsigned flags;
        CUdeviceptr alias;
    } waitValue, writeValue;
    uint64_t pad[6];
} CUstreamBatchMemOpParams;

#endif /* GPUD_CUDA_VENDOR_HEADER */

/* FUNCTION(member of the table, symbol in the library, arguments); all return CUresult. Symbols
 * carry the version that we were written for. */
#define CUDA_DRIVER_FUNCTIONS(FUNCTION)                                                            \
    FUNCTION(init, cuInit, (unsigned flags))                                                       \
    FUNCTION(driver_get_version, cuDriverGetVersion, (int *version))                               \
    FUNCTION(get_error_name, cuGetErrorName, (CUresult result, const char **name))                 \
    FUNCTION(get_error_string, cuGetErrorString, (CUresult result, const char **text))             \
    FUNCTION(device_get_count, cuDeviceGetCount, (int *count))                                     \
    FUNCTION(device_get, cuDeviceGet, (CUdevice * device, int ordinal))                            \
    FUNCTION(device_get_name, cuDeviceGetName, (char *name, int size, CUdevice device))            \
    FUNCTION(device_get_uuid, cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                \
    FUNCTION(device_get_pci_bus_id, cuDeviceGetPCIBusId, (char *text, int size, CUdevice device))  \
    FUNCTION(device_get_attribute, cuDeviceGetAttribute,                                           \
             (int *value, CUdevice_attribute attribute, CUdevice device))                          \
    FUNCTION(device_total_mem, cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))             \
    FUNCTION(device_can_access_peer, cuDeviceCanAccessPeer,                                        \
             (int *can, CUdevice device, CUdevice peer))                                           \
    FUNCTION(device_get_p2p_attribute, cuDeviceGetP2PAttribute,                                    \
             (int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to))            \
    FUNCTION(device_primary_ctx_retain, cuDevicePrimaryCtxRetain,                                  \
             (CUcontext * context, CUdevice device))                                               \
    FUNCTION(device_primary_ctx_release, cuDevicePrimaryCtxRelease_v2, (CUdevice device))          \
    FUNCTION(ctx_push_current, cuCtxPushCurrent_v2, (CUcontext context))                           \
    FUNCTION(ctx_pop_current, cuCtxPopCurrent_v2, (CUcontext * context))                           \
    FUNCTION(ctx_get_current, cuCtxGetCurrent, (CUcontext * context))                              \
    FUNCTION(ctx_enable_peer_access, cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags))      \
    FUNCTION(mem_get_info, cuMemGetInfo_v2, (size_t * free, size_t * total))                       \
    FUNCTION(mem_alloc, cuMemAlloc_v2, (CUdeviceptr * address, size_t size))                       \
    FUNCTION(mem_free, cuMemFree_v2, (CUdeviceptr address))                                        \
    FUNCTION(mem_get_address_range, cuMemGetAddressRange_v2,                                       \
             (CUdeviceptr * base, size_t * size, CUdeviceptr address))                             \
    FUNCTION(mem_host_alloc, cuMemHostAlloc, (void **host, size_t size, unsigned flags))           \
    FUNCTION(mem_free_host, cuMemFreeHost, (void *host))                                           \
    FUNCTION(mem_host_register, cuMemHostRegister_v2, (void *host, size_t size, unsigned flags))   \
    FUNCTION(mem_host_unregister, cuMemHostUnregister, (void *host))                               \
    FUNCTION(mem_host_get_device_pointer, cuMemHostGetDevicePointer_v2,                            \
             (CUdeviceptr * address, void *host, unsigned flags))                                  \
    FUNCTION(mem_get_allocation_granularity, cuMemGetAllocationGranularity,                        \
             (size_t * granularity, const CUmemAllocationProp *prop,                               \
              CUmemAllocationGranularity_flags option))                                            \
    FUNCTION(mem_create, cuMemCreate,                                                              \
             (CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp *prop, \
              unsigned long long flags))                                                           \
    FUNCTION(mem_release, cuMemRelease, (CUmemGenericAllocationHandle handle))                     \
    FUNCTION(mem_retain_allocation_handle, cuMemRetainAllocationHandle,                            \
             (CUmemGenericAllocationHandle * handle, void *address))                               \
    FUNCTION(mem_get_allocation_properties, cuMemGetAllocationPropertiesFromHandle,                \
             (CUmemAllocationProp * prop, CUmemGenericAllocationHandle handle))                    \
    FUNCTION(mem_address_reserve, cuMemAddressReserve,                                             \
             (CUdeviceptr * address, size_t size, size_t alignment, CUdeviceptr wished,            \
              unsigned long long flags))                                                           \
    FUNCTION(mem_address_free, cuMemAddressFree, (CUdeviceptr address, size_t size))               \
    FUNCTION(mem_map, cuMemMap,                                                                    \
             (CUdeviceptr address, size_t size, size_t offset,                                     \
              CUmemGenericAllocationHandle handle, unsigned long long flags))                      \
    FUNCTION(mem_unmap, cuMemUnmap, (CUdeviceptr address, size_t size))                            \
    FUNCTION(mem_set_access, cuMemSetAccess,                                                       \
             (CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count))      \
    FUNCTION(mem_export, cuMemExportToShareableHandle,                                             \
             (void *shareable, CUmemGenericAllocationHandle handle,                                \
              CUmemAllocationHandleType type, unsigned long long flags))                           \
    FUNCTION(                                                                                      \
        mem_import, cuMemImportFromShareableHandle,                                                \
        (CUmemGenericAllocationHandle * handle, void *shareable, CUmemAllocationHandleType type))  \
    FUNCTION(mem_get_handle_for_address_range, cuMemGetHandleForAddressRange,                      \
             (void *handle, CUdeviceptr address, size_t size, CUmemRangeHandleType type,           \
              unsigned long long flags))                                                           \
    FUNCTION(import_external_memory, cuImportExternalMemory,                                       \
             (CUexternalMemory * memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *what))            \
    FUNCTION(external_memory_get_mapped_buffer, cuExternalMemoryGetMappedBuffer,                   \
             (CUdeviceptr * address, CUexternalMemory memory,                                      \
              const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *what))                                       \
    FUNCTION(destroy_external_memory, cuDestroyExternalMemory, (CUexternalMemory memory))          \
    FUNCTION(ipc_get_mem_handle, cuIpcGetMemHandle,                                                \
             (CUipcMemHandle * handle, CUdeviceptr address))                                       \
    FUNCTION(ipc_open_mem_handle, cuIpcOpenMemHandle_v2,                                           \
             (CUdeviceptr * address, CUipcMemHandle handle, unsigned flags))                       \
    FUNCTION(ipc_close_mem_handle, cuIpcCloseMemHandle, (CUdeviceptr address))                     \
    FUNCTION(pointer_get_attribute, cuPointerGetAttribute,                                         \
             (void *value, CUpointer_attribute attribute, CUdeviceptr address))                    \
    FUNCTION(pointer_set_attribute, cuPointerSetAttribute,                                         \
             (const void *value, CUpointer_attribute attribute, CUdeviceptr address))              \
    FUNCTION(memset_d8_async, cuMemsetD8Async,                                                     \
             (CUdeviceptr address, unsigned char value, size_t size, CUstream stream))             \
    FUNCTION(memcpy_async, cuMemcpyAsync,                                                          \
             (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))                     \
    FUNCTION(memcpy_dtod_async, cuMemcpyDtoDAsync_v2,                                              \
             (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))                     \
    FUNCTION(memcpy_2d_async, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream))    \
    FUNCTION(flush_remote_writes, cuFlushGPUDirectRDMAWrites,                                      \
             (CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope))     \
    FUNCTION(stream_create, cuStreamCreate, (CUstream * stream, unsigned flags))                   \
    FUNCTION(stream_destroy, cuStreamDestroy_v2, (CUstream stream))                                \
    FUNCTION(stream_query, cuStreamQuery, (CUstream stream))                                       \
    FUNCTION(stream_wait_event, cuStreamWaitEvent,                                                 \
             (CUstream stream, CUevent event, unsigned flags))                                     \
    FUNCTION(stream_wait_value, cuStreamWaitValue32_v2,                                            \
             (CUstream stream, CUdeviceptr address, unsigned value, unsigned flags))               \
    FUNCTION(stream_write_value, cuStreamWriteValue32_v2,                                          \
             (CUstream stream, CUdeviceptr address, unsigned value, unsigned flags))               \
    FUNCTION(                                                                                      \
        stream_batch_mem_op, cuStreamBatchMemOp_v2,                                                \
        (CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations, unsigned flags))   \
    FUNCTION(event_create, cuEventCreate, (CUevent * event, unsigned flags))                       \
    FUNCTION(event_destroy, cuEventDestroy_v2, (CUevent event))                                    \
    FUNCTION(event_record, cuEventRecord, (CUevent event, CUstream stream))                        \
    FUNCTION(event_query, cuEventQuery, (CUevent event))                                           \
    FUNCTION(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode,                      \
             (CUstreamCaptureMode * mode))

#define CUDA_DRIVER_MEMBER(member, symbol, arguments) CUresult(*member) arguments;
struct cuda_driver {
    CUDA_DRIVER_FUNCTIONS(CUDA_DRIVER_MEMBER)
};
#undef CUDA_DRIVER_MEMBER

/* Opens libcuda.so.1, for good, and fills in the table. NULL: all is there; "": there is no such
 * library, and dlerror() says why; else the name of a function that it lacks. */
const char *gpud_cuda_load(struct cuda_driver *driver);

/* The one of the CUDA backend, in cuda.c; filled once a device was found. */
extern struct cuda_driver gpud_cu;

#endif
