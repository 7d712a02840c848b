/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What GStreamer's libgsthip resolves when it loads the runtime (1.28), beyond what the core uses.
 * Kernels, textures and OpenGL are refused: there is nothing here that could run them. */
#include "shim.h"

#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))

/* --- streams and events -------------------------------------------------------------------- */

EXPORT hipError_t hipStreamCreate(hipStream_t *stream);
hipError_t hipStreamCreate(hipStream_t *stream)
{
    SHIM_IN_CONTEXT(shim_cu.stream_create((CUstream *)stream, 0));
}

static CUresult call_with(const char *symbol, void *argument)
{
    CUresult (*function)(void *);

    *(void **)&function = dlsym(shim_library, symbol);
    return function ? function(argument) : CUDA_ERROR_NOT_SUPPORTED;
}

EXPORT hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream)
{
    SHIM_IN_CONTEXT(call_with("cuStreamSynchronize", stream));
}

EXPORT hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventSynchronize(hipEvent_t event)
{
    SHIM_IN_CONTEXT(call_with("cuEventSynchronize", event));
}

/* --- what it is ---------------------------------------------------------------------------- */

EXPORT hipError_t hipDriverGetVersion(int *out);
hipError_t hipDriverGetVersion(int *out)
{
    return hipRuntimeGetVersion(out);
}

/* What GStreamer does not ask, and its tests do. */
EXPORT hipError_t hipMemGetInfo(size_t *available, size_t *total);
hipError_t hipMemGetInfo(size_t *available, size_t *total)
{
    SHIM_IN_CONTEXT(shim_cu.mem_get_info(available, total));
}

EXPORT const char *hipGetErrorString(hipError_t result);
const char *hipGetErrorString(hipError_t result)
{
    return hipGetErrorName(result);
}

/* --- copies -------------------------------------------------------------------------------- */

/* The runtime's hip_Memcpy2D: CUDA's, but for the numbers of the types of memory. */
struct hip_copy {
    size_t from_x, from_y;
    unsigned from_type;
    const void *from_host;
    void *from_device, *from_array;
    size_t from_pitch;
    size_t to_x, to_y;
    unsigned to_type;
    void *to_host, *to_device, *to_array;
    size_t to_pitch;
    size_t width, height;
};

static bool is_host(unsigned type)
{
    return type == HIP_MEMORY_HOST(shim_version());
}

EXPORT hipError_t hipMemcpyParam2DAsync(const struct hip_copy *copy, hipStream_t stream);
hipError_t hipMemcpyParam2DAsync(const struct hip_copy *copy, hipStream_t stream)
{
    unsigned device = HIP_MEMORY_DEVICE(shim_version());

    if ((!is_host(copy->from_type) && copy->from_type != device) ||
        (!is_host(copy->to_type) && copy->to_type != device) || copy->from_x || copy->from_y ||
        copy->to_x || copy->to_y)
        return shim_refuse(__func__, "only copies of whole memory of the host or a device are "
                                     "known here, by the numbers of this version");
    if (copy->width > copy->from_pitch || copy->width > copy->to_pitch)
        return shim_refuse(__func__, "rows that overlap");
    const CUDA_MEMCPY2D cuda = {
        .srcMemoryType = is_host(copy->from_type) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .srcHost = copy->from_host,
        .srcDevice = (CUdeviceptr)(uintptr_t)copy->from_device,
        .srcPitch = copy->from_pitch,
        .dstMemoryType = is_host(copy->to_type) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
        .dstHost = copy->to_host,
        .dstDevice = (CUdeviceptr)(uintptr_t)copy->to_device,
        .dstPitch = copy->to_pitch,
        .WidthInBytes = copy->width,
        .Height = copy->height,
    };
    SHIM_IN_CONTEXT(shim_cu.memcpy_2d_async(&cuda, (CUstream)stream));
}

/* --- what is refused ----------------------------------------------------------------------- */

#define REFUSE(symbol)               \
    EXPORT hipError_t symbol(void);  \
    hipError_t symbol(void)          \
    {                                \
        return hipErrorNotSupported; \
    }

REFUSE(hipGetDevicePropertiesR0600)
REFUSE(hipMemsetD16Async)
REFUSE(hipMemsetD32Async)
REFUSE(hipModuleLoadData)
REFUSE(hipModuleUnload)
REFUSE(hipModuleGetFunction)
REFUSE(hipModuleLaunchKernel)
REFUSE(hipTexObjectCreate)
REFUSE(hipTexObjectDestroy)
REFUSE(hipGraphicsMapResources)
REFUSE(hipGraphicsResourceGetMappedPointer)
REFUSE(hipGraphicsUnmapResources)
REFUSE(hipGraphicsUnregisterResource)
REFUSE(hipGLGetDevices)
REFUSE(hipGraphicsGLRegisterBuffer)
