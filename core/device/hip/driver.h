/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What we use of the HIP runtime (libamdhip64.so.5, 6 and 7), declared by ourselves, so that the
 * backend compiles without ROCm and runs where there is none.
 *
 * hipGetDeviceProperties and hipPointerGetAttributes are left out, because their structures differ
 * between these versions. Other differences are handled at run time, see hip.c.
 *
 * tests/support/headers.c compares every line of this file with the vendor's
 * <hip/hip_runtime_api.h> where that is installed: it defines GPUD_HIP_VENDOR_HEADER and gets the
 * types from there. */
#ifndef GPUD_HIP_DRIVER_H
#define GPUD_HIP_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef GPUD_HIP_VENDOR_HEADER
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#else

typedef int hipDevice_t;
typedef void *hipDeviceptr_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef struct ihipMemGenericAllocationHandle *hipMemGenericAllocationHandle_t;
typedef struct hipMemAllocationProp hipMemAllocationProp; /* see struct gpud_gpu_allocation */

typedef struct hipUUID_t {
    char bytes[16];
} hipUUID;

typedef struct hipIpcMemHandle_st {
    char reserved[64];
} hipIpcMemHandle_t;

typedef enum hipError_t {
    hipSuccess = 0,
    hipErrorInvalidValue = 1,
    hipErrorOutOfMemory = 2,
    hipErrorNotInitialized = 3,
    hipErrorInsufficientDriver = 35,
    hipErrorNoDevice = 100,
    hipErrorInvalidDevice = 101,
    hipErrorInvalidContext = 201,
    hipErrorMapFailed = 205,
    hipErrorInvalidHandle = 400,
    hipErrorNotReady = 600,
    hipErrorPeerAccessAlreadyEnabled = 704,
    hipErrorHostMemoryAlreadyRegistered = 712,
    hipErrorHostMemoryNotRegistered = 713,
    hipErrorNotSupported = 801,
    hipErrorUnknown = 999,
} hipError_t;

typedef enum hipDeviceAttribute_t {
    hipDeviceAttributeComputeMode = 6,
    hipDeviceAttributeIntegrated = 16,
    hipDeviceAttributeHdpMemFlushCntl = 10005, /* fills in a pointer */
    hipDeviceAttributeCanUseStreamWaitValue = 10013,
} hipDeviceAttribute_t;

typedef enum hipDeviceP2PAttr {
    hipDevP2PAttrPerformanceRank = 0,
    hipDevP2PAttrNativeAtomicSupported = 2,
} hipDeviceP2PAttr;

typedef enum hipPointer_attribute {
    HIP_POINTER_ATTRIBUTE_MEMORY_TYPE = 2, /* the numbers: see HIP_MEMORY_HOST */
    HIP_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    HIP_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
} hipPointer_attribute;

typedef enum hipStreamCaptureMode { hipStreamCaptureModeRelaxed = 2 } hipStreamCaptureMode;
typedef enum hipMemcpyKind { hipMemcpyDefault = 4 } hipMemcpyKind;
typedef enum hipMemAllocationType { hipMemAllocationTypePinned = 1 } hipMemAllocationType;
typedef enum hipMemLocationType { hipMemLocationTypeDevice = 1 } hipMemLocationType;
typedef enum hipMemAllocationHandleType {
    hipMemHandleTypePosixFileDescriptor = 1
} hipMemAllocationHandleType;
typedef enum hipMemAllocationGranularity_flags {
    hipMemAllocationGranularityMinimum = 0
} hipMemAllocationGranularity_flags;
typedef enum hipMemAccessFlags {
    hipMemAccessFlagsProtRead = 1,
    hipMemAccessFlagsProtReadWrite = 3,
} hipMemAccessFlags;

typedef struct hipMemLocation {
    hipMemLocationType type;
    int id;
} hipMemLocation;

typedef struct hipMemAccessDesc {
    hipMemLocation location;
    hipMemAccessFlags flags;
} hipMemAccessDesc;

#define hipStreamNonBlocking 0x1
#define hipEventDisableTiming 0x2
#define hipHostMallocPortable 0x1
#define hipHostMallocMapped 0x2
#define hipHostRegisterPortable 0x1
#define hipHostRegisterMapped 0x2
#define hipStreamWaitValueGte 0x0

#endif /* GPUD_HIP_VENDOR_HEADER */

/* FUNCTION(member of the table, symbol in the library, arguments); all return hipError_t. */
#define HIP_DRIVER_FUNCTIONS(FUNCTION)                                                            \
    FUNCTION(init, hipInit, (unsigned flags))                                                     \
    FUNCTION(runtime_get_version, hipRuntimeGetVersion, (int *version))                           \
    FUNCTION(get_device_count, hipGetDeviceCount, (int *count))                                   \
    FUNCTION(device_get_name, hipDeviceGetName, (char *name, int size, hipDevice_t device))       \
    FUNCTION(device_get_pci_bus_id, hipDeviceGetPCIBusId, (char *text, int size, int device))     \
    FUNCTION(device_get_attribute, hipDeviceGetAttribute,                                         \
             (int *value, hipDeviceAttribute_t attribute, int device))                            \
    FUNCTION(device_can_access_peer, hipDeviceCanAccessPeer, (int *can, int device, int peer))    \
    FUNCTION(device_enable_peer_access, hipDeviceEnablePeerAccess, (int peer, unsigned flags))    \
    FUNCTION(device_get_p2p_attribute, hipDeviceGetP2PAttribute,                                  \
             (int *value, hipDeviceP2PAttr attribute, int from, int to))                          \
    FUNCTION(set_device, hipSetDevice, (int device))                                              \
    FUNCTION(get_device, hipGetDevice, (int *device))                                             \
    FUNCTION(mem_alloc, hipMalloc, (void **address, size_t size))                                 \
    FUNCTION(mem_free, hipFree, (void *address))                                                  \
    FUNCTION(mem_get_address_range, hipMemGetAddressRange,                                        \
             (hipDeviceptr_t * base, size_t * size, hipDeviceptr_t address))                      \
    FUNCTION(mem_host_alloc, hipHostMalloc, (void **host, size_t size, unsigned flags))           \
    FUNCTION(mem_free_host, hipHostFree, (void *host))                                            \
    FUNCTION(mem_host_register, hipHostRegister, (void *host, size_t size, unsigned flags))       \
    FUNCTION(mem_host_unregister, hipHostUnregister, (void *host))                                \
    FUNCTION(mem_host_get_device_pointer, hipHostGetDevicePointer,                                \
             (void **address, void *host, unsigned flags))                                        \
    FUNCTION(ipc_get_mem_handle, hipIpcGetMemHandle, (hipIpcMemHandle_t * handle, void *address)) \
    FUNCTION(ipc_open_mem_handle, hipIpcOpenMemHandle,                                            \
             (void **address, hipIpcMemHandle_t handle, unsigned flags))                          \
    FUNCTION(ipc_close_mem_handle, hipIpcCloseMemHandle, (void *address))                         \
    FUNCTION(pointer_get_attribute, hipPointerGetAttribute,                                       \
             (void *value, hipPointer_attribute attribute, hipDeviceptr_t address))               \
    FUNCTION(memset_d8_async, hipMemsetD8Async,                                                   \
             (hipDeviceptr_t to, unsigned char value, size_t size, hipStream_t stream))           \
    FUNCTION(memcpy_async, hipMemcpyAsync,                                                        \
             (void *to, const void *from, size_t size, hipMemcpyKind kind, hipStream_t stream))   \
    FUNCTION(memcpy_2d_async, hipMemcpy2DAsync,                                                   \
             (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,       \
              size_t height, hipMemcpyKind kind, hipStream_t stream))                             \
    FUNCTION(stream_create, hipStreamCreateWithFlags, (hipStream_t * stream, unsigned flags))     \
    FUNCTION(stream_destroy, hipStreamDestroy, (hipStream_t stream))                              \
    FUNCTION(stream_query, hipStreamQuery, (hipStream_t stream))                                  \
    FUNCTION(stream_wait_event, hipStreamWaitEvent,                                               \
             (hipStream_t stream, hipEvent_t event, unsigned flags))                              \
    FUNCTION(stream_wait_value, hipStreamWaitValue32,                                             \
             (hipStream_t stream, void *address, uint32_t value, unsigned flags, uint32_t mask))  \
    FUNCTION(stream_write_value, hipStreamWriteValue32,                                           \
             (hipStream_t stream, void *address, uint32_t value, unsigned flags))                 \
    FUNCTION(event_create, hipEventCreateWithFlags, (hipEvent_t * event, unsigned flags))         \
    FUNCTION(event_destroy, hipEventDestroy, (hipEvent_t event))                                  \
    FUNCTION(event_record, hipEventRecord, (hipEvent_t event, hipStream_t stream))                \
    FUNCTION(event_query, hipEventQuery, (hipEvent_t event))                                      \
    FUNCTION(thread_exchange_capture_mode, hipThreadExchangeStreamCaptureMode,                    \
             (hipStreamCaptureMode * mode))

/* Functions that some of these versions lack; NULL then. */
#define HIP_DRIVER_OPTIONAL(FUNCTION)                                                            \
    FUNCTION(device_get_uuid, hipDeviceGetUuid, (hipUUID * uuid, hipDevice_t device))            \
    FUNCTION(get_link, hipExtGetLinkTypeAndHopCount,                                             \
             (int from, int to, uint32_t *type, uint32_t *hops))                                 \
    FUNCTION(mem_get_allocation_granularity, hipMemGetAllocationGranularity,                     \
             (size_t * granularity, const hipMemAllocationProp *prop,                            \
              hipMemAllocationGranularity_flags option))                                         \
    FUNCTION(mem_create, hipMemCreate,                                                           \
             (hipMemGenericAllocationHandle_t * handle, size_t size,                             \
              const hipMemAllocationProp *prop, unsigned long long flags))                       \
    FUNCTION(mem_release, hipMemRelease, (hipMemGenericAllocationHandle_t handle))               \
    FUNCTION(mem_retain_allocation_handle, hipMemRetainAllocationHandle,                         \
             (hipMemGenericAllocationHandle_t * handle, void *address))                          \
    FUNCTION(mem_get_allocation_properties, hipMemGetAllocationPropertiesFromHandle,             \
             (hipMemAllocationProp * prop, hipMemGenericAllocationHandle_t handle))              \
    FUNCTION(                                                                                    \
        mem_address_reserve, hipMemAddressReserve,                                               \
        (void **address, size_t size, size_t alignment, void *wished, unsigned long long flags)) \
    FUNCTION(mem_address_free, hipMemAddressFree, (void *address, size_t size))                  \
    FUNCTION(mem_map, hipMemMap,                                                                 \
             (void *address, size_t size, size_t offset, hipMemGenericAllocationHandle_t handle, \
              unsigned long long flags))                                                         \
    FUNCTION(mem_unmap, hipMemUnmap, (void *address, size_t size))                               \
    FUNCTION(mem_set_access, hipMemSetAccess,                                                    \
             (void *address, size_t size, const hipMemAccessDesc *access, size_t count))         \
    FUNCTION(mem_export, hipMemExportToShareableHandle,                                          \
             (void *shareable, hipMemGenericAllocationHandle_t handle,                           \
              hipMemAllocationHandleType type, unsigned long long flags))                        \
    FUNCTION(mem_import, hipMemImportFromShareableHandle,                                        \
             (hipMemGenericAllocationHandle_t * handle, void *shareable,                         \
              hipMemAllocationHandleType type))

/* Debian's headers lack it (from 7.0 on; 1 is a dma-buf). */
typedef hipError_t (*hip_get_handle_for_range)(void *handle, hipDeviceptr_t address, size_t size,
                                               int type, unsigned long long flags);
#define HIP_RANGE_HANDLE_DMA_BUF 1

/* The attribute that says whether the GPU has such allocations; the 5.2 headers lack it. */
#define HIP_ATTRIBUTE_VIRTUAL_MEMORY ((hipDeviceAttribute_t)89)

/* Numbers that changed at 6.0, by the runtime's version. */
#define HIP_VERSION_6 60000000
#define HIP_VERSION_7 70000000
#define HIP_VERSION_7_1 70100000
#define HIP_MEMORY_HOST(version) ((version) < HIP_VERSION_6 ? 0u : 1u)
#define HIP_MEMORY_DEVICE(version) ((version) < HIP_VERSION_6 ? 1u : 2u)
#define HIP_IPC_LAZY_PEER_ACCESS(version) ((version) < HIP_VERSION_6 ? 0u : 1u)

/* In libhsa-runtime64.so.1, which the runtime is built on, from ROCm 5.6 on; 0 is success. */
typedef int (*hsa_export_dmabuf)(const void *address, size_t size, int *fd, uint64_t *offset);

#define HIP_DRIVER_MEMBER(member, symbol, arguments) hipError_t(*member) arguments;
struct hip_driver {
    HIP_DRIVER_FUNCTIONS(HIP_DRIVER_MEMBER)
    HIP_DRIVER_OPTIONAL(HIP_DRIVER_MEMBER)
    const char *(*get_error_name)(hipError_t result);
    hip_get_handle_for_range get_handle_for_range;
    hsa_export_dmabuf export_dmabuf;
    int version; /* major * 10000000 + minor * 100000 + patch */
};
#undef HIP_DRIVER_MEMBER

/* Opens the newest runtime that there is, for good, and fills in the table but for its version.
 * NULL: all is there; "": there is no runtime; else the name of a function that it lacks. */
const char *gpud_hip_load(struct hip_driver *driver);

#endif
