/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the fake driver exports beyond CUDA_DRIVER_FUNCTIONS: what GStreamer's libgstcuda
 * resolves, and what a test needs to make memory of every sort. */
#ifndef FAKE_CUDA_FUNCTIONS_H
#define FAKE_CUDA_FUNCTIONS_H

#include "device/cuda/driver.h"

#include <stdint.h>

/* What driver.h has no use for. */
typedef int CUdriverProcAddressQueryResult;
typedef void (*fake_host_function)(void *data);

#define FAKE_FUNCTIONS(FUNCTION)                                                                   \
    FUNCTION(cuGetProcAddress, (const char *symbol, void **function, int version, uint64_t flags)) \
    FUNCTION(cuGetProcAddress_v2, (const char *symbol, void **function, int version,               \
                                   uint64_t flags, CUdriverProcAddressQueryResult *found))         \
    FUNCTION(cuDeviceGetUuid, (CUuuid * uuid, CUdevice device))                                    \
    FUNCTION(cuDeviceGetByPCIBusId, (CUdevice * device, const char *text))                         \
    FUNCTION(cuDeviceComputeCapability, (int *major, int *minor, CUdevice device))                 \
    FUNCTION(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned *flags, int *active))          \
    FUNCTION(cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device))               \
    FUNCTION(cuCtxDestroy_v2, (CUcontext context))                                                 \
    FUNCTION(cuCtxSetCurrent, (CUcontext context))                                                 \
    FUNCTION(cuCtxGetCurrent, (CUcontext * context))                                               \
    FUNCTION(cuCtxGetDevice, (CUdevice * device))                                                  \
    FUNCTION(cuCtxGetApiVersion, (CUcontext context, unsigned *version))                           \
    FUNCTION(cuCtxSynchronize, (void))                                                             \
    FUNCTION(cuStreamBeginCapture_v2, (CUstream stream, int mode))                                 \
    FUNCTION(cuStreamEndCapture, (CUstream stream, void **graph))                                  \
    FUNCTION(cuCtxDisablePeerAccess, (CUcontext peer))                                             \
    FUNCTION(cuMemAllocPitch_v2,                                                                   \
             (CUdeviceptr * address, size_t * pitch, size_t width, size_t rows, unsigned element)) \
    FUNCTION(cuMemAllocManaged, (CUdeviceptr * address, size_t size, unsigned flags))              \
    FUNCTION(cuMemAllocAsync, (CUdeviceptr * address, size_t size, CUstream stream))               \
    FUNCTION(cuMemFreeAsync, (CUdeviceptr address, CUstream stream))                               \
    FUNCTION(cuMemAllocHost_v2, (void **host, size_t size))                                        \
    FUNCTION(cuMemGetAccess,                                                                       \
             (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address))      \
    FUNCTION(cuPointerGetAttributes, (unsigned count, CUpointer_attribute *attributes,             \
                                      void **values, CUdeviceptr address))                         \
    FUNCTION(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t size))                            \
    FUNCTION(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t size))                     \
    FUNCTION(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t size))                           \
    FUNCTION(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t size))                     \
    FUNCTION(cuMemcpyHtoDAsync_v2,                                                                 \
             (CUdeviceptr to, const void *from, size_t size, CUstream stream))                     \
    FUNCTION(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t size, CUstream stream))     \
    FUNCTION(cuMemcpyDtoDAsync_v2,                                                                 \
             (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))                     \
    FUNCTION(cuMemcpyPeer, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from,                \
                            CUcontext from_context, size_t size))                                  \
    FUNCTION(cuMemcpyPeerAsync, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from,           \
                                 CUcontext from_context, size_t size, CUstream stream))            \
    FUNCTION(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy))                                           \
    FUNCTION(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy))                                  \
    FUNCTION(cuMemsetD8_v2, (CUdeviceptr address, unsigned char value, size_t size))               \
    FUNCTION(cuMemsetD32_v2, (CUdeviceptr address, unsigned value, size_t count))                  \
    FUNCTION(cuMemsetD32Async,                                                                     \
             (CUdeviceptr address, unsigned value, size_t count, CUstream stream))                 \
    FUNCTION(cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority))        \
    FUNCTION(cuStreamDestroy, (CUstream stream))                                                   \
    FUNCTION(cuStreamSynchronize, (CUstream stream))                                               \
    FUNCTION(cuStreamGetCtx, (CUstream stream, CUcontext * context))                               \
    FUNCTION(cuStreamGetFlags, (CUstream stream, unsigned *flags))                                 \
    FUNCTION(cuLaunchHostFunc, (CUstream stream, fake_host_function function, void *data))         \
    FUNCTION(cuEventDestroy, (CUevent event))                                                      \
    FUNCTION(cuEventSynchronize, (CUevent event))                                                  \
    FUNCTION(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))                \
    FUNCTION(cuIpcOpenMemHandle, (CUdeviceptr * address, CUipcMemHandle handle, unsigned flags))   \
    /* Not the driver's: how often the caller broke a rule that the driver lets                    \
     * pass or crashes on; each is also a line on stderr. */                                       \
    FUNCTION(fakeCudaReports, (unsigned *count))                                                   \
    FUNCTION(fakeCudaFailures, (unsigned *count))                                                  \
    FUNCTION(fakeCudaFlushes, (unsigned *count))                                                   \
    FUNCTION(fakeCudaCalls, (unsigned *writes, unsigned *waits))                                   \
    FUNCTION(fakeCudaHold, (CUstream stream, unsigned hold))

/* Resolved by libgstcuda when it loads (up to 1.26), for elements that run kernels or share with
 * OpenGL or Vulkan, and for pools: there is nothing here that could run them. */
#define FAKE_UNSUPPORTED_FUNCTIONS(FUNCTION)          \
    FUNCTION(cuModuleLoadData)                        \
    FUNCTION(cuModuleUnload)                          \
    FUNCTION(cuModuleGetFunction)                     \
    FUNCTION(cuLaunchKernel)                          \
    FUNCTION(cuTexObjectCreate)                       \
    FUNCTION(cuTexObjectDestroy)                      \
    FUNCTION(cuGLGetDevices_v2)                       \
    FUNCTION(cuGraphicsGLRegisterBuffer)              \
    FUNCTION(cuGraphicsGLRegisterImage)               \
    FUNCTION(cuGraphicsMapResources)                  \
    FUNCTION(cuGraphicsUnmapResources)                \
    FUNCTION(cuGraphicsResourceGetMappedPointer_v2)   \
    FUNCTION(cuGraphicsResourceSetMapFlags_v2)        \
    FUNCTION(cuGraphicsSubResourceGetMappedArray)     \
    FUNCTION(cuGraphicsUnregisterResource)            \
    FUNCTION(cuIpcGetEventHandle)                     \
    FUNCTION(cuIpcOpenEventHandle)                    \
    FUNCTION(cuCtxGetLimit)                           \
    FUNCTION(cuCtxSetLimit)                           \
    FUNCTION(cuMemPoolCreate)                         \
    FUNCTION(cuMemPoolDestroy)                        \
    FUNCTION(cuMemPoolGetAttribute)                   \
    FUNCTION(cuMemPoolSetAttribute)                   \
    FUNCTION(cuMemAllocFromPoolAsync)                 \
    FUNCTION(cuMemsetD2D8_v2)                         \
    FUNCTION(cuMemsetD2D8Async)                       \
    FUNCTION(cuMemsetD2D16_v2)                        \
    FUNCTION(cuMemsetD2D16Async)                      \
    FUNCTION(cuMemsetD2D32_v2)                        \
    FUNCTION(cuMemsetD2D32Async)                      \
    FUNCTION(cuExternalMemoryGetMappedMipmappedArray) \
    FUNCTION(cuImportExternalSemaphore)               \
    FUNCTION(cuDestroyExternalSemaphore)              \
    FUNCTION(cuSignalExternalSemaphoresAsync)         \
    FUNCTION(cuWaitExternalSemaphoresAsync)

#define FAKE_API __attribute__((visibility("default")))
#define FAKE_DECLARE_MEMBER(member, symbol, arguments) FAKE_API CUresult symbol arguments;
#define FAKE_DECLARE(symbol, arguments) FAKE_API CUresult symbol arguments;
#define FAKE_DECLARE_UNSUPPORTED(symbol) FAKE_API CUresult symbol(void);
CUDA_DRIVER_FUNCTIONS(FAKE_DECLARE_MEMBER)
FAKE_FUNCTIONS(FAKE_DECLARE)
FAKE_UNSUPPORTED_FUNCTIONS(FAKE_DECLARE_UNSUPPORTED)

#endif
