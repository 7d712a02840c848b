/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A HIP runtime whose calls are calls of the CUDA driver, one to one: the HIP backend runs on it
 * where there is an NVIDIA GPU, and on the fake driver of tests/fakes where there is none, which is
 * as strict as it is for CUDA. It shows logic; that AMD's runtime behaves so, only an AMD GPU
 * shows.
 *
 *   GPUD_HIP_SHIM_VERSION=60000000  the runtime that it says it is, and behaves as (default: 5.2)
 *   GPUD_HIP_SHIM_WAIT=none         the attribute says that streams do not wait for words
 *                     =refuse       ... but they refuse words in pinned pages
 *                     =blind        ... but they go on without waiting
 *                     =low          ... but they go on at any value
 *                     =stuck        ... but they never see what the CPU writes
 *                     =silent       ... but their writes are never visible
 *
 * Stricter than the runtime: flags that another version has, masks, and values that a comparison
 * could see as negative are refused, and said on stderr. */
#include "shim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES_MAX 16

struct cuda_driver shim_cu;
void *shim_library;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static hipError_t state = hipErrorNoDevice;
static int device_count, version = 50200000;
static CUcontext contexts[DEVICES_MAX]; /* retained, and never released, as the runtime's */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int current;

static void load(void)
{
    const char *text = getenv("GPUD_HIP_SHIM_VERSION");
    shim_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (text)
        version = atoi(text);
    if (!shim_library)
        return;
#define RESOLVE(member, symbol, arguments)                           \
    if (!(*(void **)&shim_cu.member = dlsym(shim_library, #symbol))) \
        return;
    CUDA_DRIVER_FUNCTIONS(RESOLVE)
#undef RESOLVE
    state = (hipError_t)shim_cu.init(0);
    if (state == hipSuccess)
        state = (hipError_t)shim_cu.device_get_count(&device_count);
    if (state == hipSuccess && device_count == 0)
        state = hipErrorNoDevice;
}

hipError_t shim_start(void)
{
    pthread_once(&once, load);
    return state;
}

int shim_version(void)
{
    shim_start();
    return version;
}

hipError_t shim_refuse(const char *function, const char *what)
{
    fprintf(stderr, "hip shim: %s: %s\n", function, what);
    return hipErrorInvalidValue;
}

bool shim_waits(const char *how)
{
    const char *text = getenv("GPUD_HIP_SHIM_WAIT");
    return text && strcmp(text, how) == 0;
}

static hipError_t find_context(int ordinal, CUcontext *context)
{
    CUdevice device;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!contexts[ordinal]) {
        result = shim_cu.device_get(&device, ordinal);
        if (result == CUDA_SUCCESS)
            result = shim_cu.device_primary_ctx_retain(&contexts[ordinal], device);
    }
    *context = contexts[ordinal];
    pthread_mutex_unlock(&lock);
    return (hipError_t)result;
}

hipError_t shim_enter(void)
{
    CUcontext context;
    hipError_t result = shim_start();
    if (result == hipSuccess)
        result = find_context(current, &context);
    return result == hipSuccess ? (hipError_t)shim_cu.ctx_push_current(context) : result;
}

hipError_t shim_leave(CUresult result)
{
    CUcontext context;
    shim_cu.ctx_pop_current(&context);
    return (hipError_t)result;
}

/* --- devices ------------------------------------------------------------------------------- */

static bool is_device(int device)
{
    return device >= 0 && device < device_count && device < DEVICES_MAX;
}

#define START_WITH(device)                  \
    do {                                    \
        hipError_t started_ = shim_start(); \
        if (started_ != hipSuccess)         \
            return started_;                \
        if (!is_device(device))             \
            return hipErrorInvalidDevice;   \
    } while (0)

const char *hipGetErrorName(hipError_t result)
{
    switch ((int)result) {
    case hipSuccess:
        return "hipSuccess";
    case hipErrorInvalidValue:
        return "hipErrorInvalidValue";
    case hipErrorOutOfMemory:
        return "hipErrorOutOfMemory";
    case hipErrorNoDevice:
        return "hipErrorNoDevice";
    case hipErrorInvalidDevice:
        return "hipErrorInvalidDevice";
    case hipErrorInvalidContext:
        return "hipErrorInvalidContext";
    case hipErrorNotReady:
        return "hipErrorNotReady";
    case hipErrorPeerAccessAlreadyEnabled:
        return "hipErrorPeerAccessAlreadyEnabled";
    case hipErrorNotSupported:
        return "hipErrorNotSupported";
    default:
        return "hipErrorUnknown";
    }
}

hipError_t hipInit(unsigned flags)
{
    return flags ? hipErrorInvalidValue : shim_start();
}

hipError_t hipRuntimeGetVersion(int *out)
{
    *out = shim_version();
    return hipSuccess;
}

hipError_t hipGetDeviceCount(int *count)
{
    *count = 0;
    if (shim_start() == hipSuccess)
        *count = device_count;
    return state;
}

hipError_t hipSetDevice(int device)
{
    START_WITH(device);
    current = device;
    return hipSuccess;
}

hipError_t hipGetDevice(int *device)
{
    *device = current;
    return shim_start();
}

hipError_t hipDeviceGetName(char *name, int size, hipDevice_t device)
{
    CUdevice id;
    START_WITH(device);
    CUresult result = shim_cu.device_get(&id, device);
    return (hipError_t)(result ? result : shim_cu.device_get_name(name, size, id));
}

hipError_t hipDeviceGetPCIBusId(char *text, int size, int device)
{
    CUdevice id;
    START_WITH(device);
    CUresult result = shim_cu.device_get(&id, device);
    return (hipError_t)(result ? result : shim_cu.device_get_pci_bus_id(text, size, id));
}

hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device)
{
    CUdevice id;
    START_WITH(device);
    CUresult result = shim_cu.device_get(&id, device);
    return (hipError_t)(result ? result : shim_cu.device_get_uuid((CUuuid *)uuid, id));
}

static int ask(int device, CUdevice_attribute attribute)
{
    CUdevice id;
    int value = 0;
    return shim_cu.device_get(&id, device) == CUDA_SUCCESS &&
                   shim_cu.device_get_attribute(&value, attribute, id) == CUDA_SUCCESS
               ? value
               : 0;
}

hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device)
{
    static uint32_t needs_no_flush;
    START_WITH(device);
    switch ((int)attribute) {
    case hipDeviceAttributeComputeMode:
        *value = ask(device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
        return hipSuccess;
    case hipDeviceAttributeIntegrated:
        *value = ask(device, CU_DEVICE_ATTRIBUTE_INTEGRATED);
        return hipSuccess;
    case HIP_ATTRIBUTE_TEXTURE_WIDTH:
        *value = ask(device, (CUdevice_attribute)22);
        return hipSuccess;
    case HIP_ATTRIBUTE_TEXTURE_HEIGHT:
        *value = ask(device, (CUdevice_attribute)23);
        return hipSuccess;
    case HIP_ATTRIBUTE_TEXTURE_ALIGNMENT:
        *value = ask(device, (CUdevice_attribute)14);
        return hipSuccess;
    case hipDeviceAttributeCanUseStreamWaitValue:
        *value = !shim_waits("none");
        return hipSuccess;
    case hipDeviceAttributeHdpMemFlushCntl:
        *(uint32_t **)(void *)value =
            ask(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
                    CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER
                ? &needs_no_flush
                : NULL;
        return hipSuccess;
    case HIP_ATTRIBUTE_VIRTUAL_MEMORY:
        *value = version >= HIP_VERSION_6 &&
                 ask(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
        return version >= HIP_VERSION_6 ? hipSuccess : hipErrorInvalidValue;
    default:
        return shim_refuse(__func__, "an attribute that the shim does not know");
    }
}

hipError_t hipDeviceCanAccessPeer(int *can, int device, int peer)
{
    CUdevice a, b;
    START_WITH(device);
    START_WITH(peer);
    if (shim_cu.device_get(&a, device) || shim_cu.device_get(&b, peer))
        return hipErrorInvalidDevice;
    return (hipError_t)shim_cu.device_can_access_peer(can, a, b);
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
    CUcontext context;
    START_WITH(peer);
    hipError_t result = find_context(peer, &context);
    if (result != hipSuccess)
        return result;
    SHIM_IN_CONTEXT(shim_cu.ctx_enable_peer_access(context, flags));
}

hipError_t hipDeviceGetP2PAttribute(int *value, hipDeviceP2PAttr attribute, int from, int to)
{
    CUdevice a, b;
    START_WITH(from);
    START_WITH(to);
    if (shim_cu.device_get(&a, from) || shim_cu.device_get(&b, to))
        return hipErrorInvalidDevice;
    return (hipError_t)shim_cu.device_get_p2p_attribute(
        value, (CUdevice_P2PAttribute)((int)attribute + 1), a, b);
}

hipError_t hipExtGetLinkTypeAndHopCount(int from, int to, uint32_t *type, uint32_t *hops)
{
    int can = 0;
    hipError_t result = hipDeviceCanAccessPeer(&can, from, to);
    *type = can ? 4 : 2; /* as XGMI, and as PCIe */
    *hops = 1;
    return result;
}

/* --- streams and events -------------------------------------------------------------------- */

hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags)
{
    SHIM_IN_CONTEXT(shim_cu.stream_create((CUstream *)stream, flags));
}

hipError_t hipStreamDestroy(hipStream_t stream)
{
    SHIM_IN_CONTEXT(shim_cu.stream_destroy((CUstream)stream));
}

hipError_t hipStreamQuery(hipStream_t stream)
{
    SHIM_IN_CONTEXT(shim_cu.stream_query((CUstream)stream));
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags)
{
    SHIM_IN_CONTEXT(shim_cu.stream_wait_event((CUstream)stream, (CUevent)event, flags));
}

/* A stream that goes on where it should wait does so before the next call returns, however busy
 * this machine is. */
static CUstream careless;

static void settle(void)
{
    for (int i = 0; i < 200 && shim_cu.stream_query(careless) == CUDA_ERROR_NOT_READY; i++)
        usleep(1000);
}

/* The runtime compares without wrapping, and CUDA with: below 2^31 they agree. */
hipError_t hipStreamWaitValue32(hipStream_t stream, void *address, uint32_t value, unsigned flags,
                                uint32_t mask)
{
    if (shim_waits("refuse"))
        return hipErrorInvalidValue;
    careless = (CUstream)stream;
    if (shim_waits("blind"))
        return hipSuccess;
    if (flags != hipStreamWaitValueGte || mask != UINT32_MAX || value > INT32_MAX)
        return shim_refuse(__func__, "only >= with all bits of a value below 2^31 is known here");
    if (shim_waits("low"))
        value = 1;
    if (shim_waits("stuck") && value < INT32_MAX)
        value = INT32_MAX; /* what only a poison reaches */
    SHIM_IN_CONTEXT(shim_cu.stream_wait_value((CUstream)stream, (CUdeviceptr)(uintptr_t)address,
                                              value, CU_STREAM_WAIT_VALUE_GEQ));
}

hipError_t hipStreamWriteValue32(hipStream_t stream, void *address, uint32_t value, unsigned flags)
{
    if (flags)
        return shim_refuse(__func__, "flags must be 0");
    if (shim_waits("silent"))
        return hipSuccess;
    hipError_t result = shim_enter();
    if (result)
        return result;
    CUresult written = shim_cu.stream_write_value((CUstream)stream, (CUdeviceptr)(uintptr_t)address,
                                                  value, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (shim_waits("blind") || shim_waits("low"))
        settle();
    return shim_leave(written);
}

hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags)
{
    SHIM_IN_CONTEXT(shim_cu.event_create((CUevent *)event, flags));
}

hipError_t hipEventDestroy(hipEvent_t event)
{
    SHIM_IN_CONTEXT(shim_cu.event_destroy((CUevent)event));
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    SHIM_IN_CONTEXT(shim_cu.event_record((CUevent)event, (CUstream)stream));
}

hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode)
{
    CUstreamCaptureMode exchanged = (CUstreamCaptureMode)*mode;
    CUresult result = shim_cu.thread_exchange_capture_mode(&exchanged);
    *mode = (hipStreamCaptureMode)exchanged;
    return (hipError_t)result;
}

hipError_t hipEventQuery(hipEvent_t event)
{
    SHIM_IN_CONTEXT(shim_cu.event_query((CUevent)event));
}

/* --- copies -------------------------------------------------------------------------------- */

hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t count,
                            hipStream_t stream)
{
    SHIM_IN_CONTEXT(
        shim_cu.memset_d8_async((CUdeviceptr)(uintptr_t)to, value, count, (CUstream)stream));
}

hipError_t hipMemcpyAsync(void *to, const void *from, size_t size, hipMemcpyKind kind,
                          hipStream_t stream)
{
    if (kind != hipMemcpyDefault)
        return shim_refuse(__func__, "only hipMemcpyDefault is known here");
    SHIM_IN_CONTEXT(shim_cu.memcpy_async((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
                                         size, (CUstream)stream));
}

hipError_t hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                            size_t width, size_t height, hipMemcpyKind kind, hipStream_t stream)
{
    const CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = (CUdeviceptr)(uintptr_t)from,
        .srcPitch = from_pitch,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = (CUdeviceptr)(uintptr_t)to,
        .dstPitch = to_pitch,
        .WidthInBytes = width,
        .Height = height,
    };
    if (kind != hipMemcpyDefault || width > to_pitch || width > from_pitch)
        return shim_refuse(__func__, "rows that overlap, or another kind than hipMemcpyDefault");
    SHIM_IN_CONTEXT(shim_cu.memcpy_2d_async(&copy, (CUstream)stream));
}
