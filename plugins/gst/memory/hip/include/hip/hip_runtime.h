/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Our own declarations of the HIP runtime's types that the headers of GStreamer's HIP library use,
 * for machines without AMD's <hip/hip_runtime.h>. Types that the plugin only passes on are opaque;
 * those that it fills in or reads have the runtime's layout, of version 6 and later. */
#ifndef GPUD_GST_HIP_RUNTIME_H
#define GPUD_GST_HIP_RUNTIME_H

#include <stddef.h>

typedef void *hipDeviceptr_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef struct ihipModule_t *hipModule_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef struct hipArray *hipArray_t;
typedef struct __hip_texture *hipTextureObject_t;
typedef struct _hipGraphicsResource hipGraphicsResource;
typedef hipGraphicsResource *hipGraphicsResource_t;
typedef struct hipDeviceProp_tR0600 hipDeviceProp_t;
typedef struct HIP_RESOURCE_DESC_st HIP_RESOURCE_DESC;
typedef struct HIP_TEXTURE_DESC_st HIP_TEXTURE_DESC;
typedef struct HIP_RESOURCE_VIEW_DESC_st HIP_RESOURCE_VIEW_DESC;

typedef enum hipError_t { hipSuccess = 0, GPUD_HIP_ERROR = 0x7fffffff } hipError_t;

typedef enum hipDeviceAttribute_t {
    hipDeviceAttributeTextureAlignment = 81,
    GPUD_HIP_DEVICE_ATTRIBUTE = 0x7fffffff
} hipDeviceAttribute_t;

typedef enum hipMemoryType {
    hipMemoryTypeHost = 1,
    hipMemoryTypeDevice = 2,
} hipMemoryType;

/* Enumerations whose values are not used here. */
typedef enum HIPfilter_mode_enum { GPUD_HIP_FILTER_MODE = 0x7fffffff } HIPfilter_mode;
typedef enum HIPaddress_mode_enum { GPUD_HIP_ADDRESS_MODE = 0x7fffffff } HIPaddress_mode;

typedef struct hip_Memcpy2D {
    size_t srcXInBytes, srcY;
    hipMemoryType srcMemoryType;
    const void *srcHost;
    hipDeviceptr_t srcDevice;
    hipArray_t srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    hipMemoryType dstMemoryType;
    void *dstHost;
    hipDeviceptr_t dstDevice;
    hipArray_t dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} hip_Memcpy2D;

#endif
