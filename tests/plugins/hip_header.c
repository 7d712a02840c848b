/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Compiled with the plugin's stand-in for <hip/hip_runtime.h>, and with AMD's own: what the plugin
 * fills in or names has the same shape and value in both. */
#ifdef HIP_VENDOR_HEADER
#define __HIP_PLATFORM_AMD__ 1
#endif
#include <hip/hip_runtime.h>

#include <stddef.h>

#define IS(what, value) _Static_assert((what) == (value), #what " is not " #value)

IS(hipSuccess, 0);
IS(hipDeviceAttributeTextureAlignment, 81);
IS(hipMemoryTypeHost, 1);
IS(hipMemoryTypeDevice, 2);
IS(sizeof(hipError_t), 4);
IS(sizeof(hipDeviceAttribute_t), 4);
IS(sizeof(HIPfilter_mode), 4);
IS(sizeof(HIPaddress_mode), 4);
IS(sizeof(hip_Memcpy2D), 128);
IS(offsetof(hip_Memcpy2D, srcMemoryType), 16);
IS(offsetof(hip_Memcpy2D, srcHost), 24);
IS(offsetof(hip_Memcpy2D, srcDevice), 32);
IS(offsetof(hip_Memcpy2D, srcPitch), 48);
IS(offsetof(hip_Memcpy2D, dstXInBytes), 56);
IS(offsetof(hip_Memcpy2D, dstMemoryType), 72);
IS(offsetof(hip_Memcpy2D, dstHost), 80);
IS(offsetof(hip_Memcpy2D, dstDevice), 88);
IS(offsetof(hip_Memcpy2D, dstPitch), 104);
IS(offsetof(hip_Memcpy2D, WidthInBytes), 112);
IS(offsetof(hip_Memcpy2D, Height), 120);
