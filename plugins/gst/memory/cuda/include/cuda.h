/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Our own declarations of the CUDA driver's types that the headers of GStreamer's CUDA library use,
 * for machines without NVIDIA's <cuda.h>. Types that the plugin only passes on are opaque; those
 * that it fills in or reads have the driver's layout. */
#ifndef GPUD_GST_CUDA_H
#define GPUD_GST_CUDA_H

#include <stddef.h>

#define CUDAAPI

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUgraphicsResource_st *CUgraphicsResource;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUextSemaphore_st *CUexternalSemaphore;
typedef struct CUmemPoolHandle_st *CUmemoryPool;

typedef enum cudaError_enum { CUDA_SUCCESS = 0 } CUresult;

typedef enum CUmemorytype_enum {
    CU_MEMORYTYPE_HOST = 1,
    CU_MEMORYTYPE_DEVICE = 2,
    CU_MEMORYTYPE_ARRAY = 3,
    CU_MEMORYTYPE_UNIFIED = 4,
} CUmemorytype;

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

/* None of this enumeration's values is used here; this one makes it as wide as the driver's. */
typedef enum CUdevice_attribute_enum { GPUD_DEVICE_ATTRIBUTE = 0x7fffffff } CUdevice_attribute;
typedef enum CUlimit_enum { GPUD_LIMIT = 0x7fffffff } CUlimit;
typedef enum CUfilter_mode_enum { GPUD_FILTER_MODE = 0x7fffffff } CUfilter_mode;
typedef enum CUgraphicsRegisterFlags_enum {
    GPUD_GRAPHICS_REGISTER = 0x7fffffff
} CUgraphicsRegisterFlags;
typedef enum CUgraphicsMapResourceFlags_enum {
    GPUD_GRAPHICS_MAP = 0x7fffffff
} CUgraphicsMapResourceFlags;
typedef enum CUmemAllocationHandleType_enum {
    GPUD_MEM_HANDLE_TYPE = 0x7fffffff
} CUmemAllocationHandleType;
typedef enum CUmemAllocationGranularity_flags_enum {
    GPUD_MEM_GRANULARITY = 0x7fffffff
} CUmemAllocationGranularity_flags;
typedef enum CUmemPool_attribute_enum { GPUD_MEM_POOL_ATTRIBUTE = 0x7fffffff } CUmemPool_attribute;

typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;
typedef struct CUipcMemHandle_st {
    char reserved[64];
} CUipcMemHandle;
typedef struct CUipcEventHandle_st {
    char reserved[64];
} CUipcEventHandle;

typedef struct CUmemLocation_st CUmemLocation;
typedef struct CUmemAllocationProp_st CUmemAllocationProp;
typedef struct CUmemAccessDesc_st CUmemAccessDesc;
typedef struct CUmemPoolProps_st CUmemPoolProps;
typedef struct CUDA_RESOURCE_DESC_st CUDA_RESOURCE_DESC;
typedef struct CUDA_RESOURCE_VIEW_DESC_st CUDA_RESOURCE_VIEW_DESC;
typedef struct CUDA_TEXTURE_DESC_st CUDA_TEXTURE_DESC;
typedef struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st CUDA_EXTERNAL_MEMORY_HANDLE_DESC;
typedef struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st CUDA_EXTERNAL_MEMORY_BUFFER_DESC;
typedef struct CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_st
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC;
typedef struct CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC;
typedef struct CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS;
typedef struct CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS;

#endif
