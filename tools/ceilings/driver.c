/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What differs between CUDA and HIP, and what does not. The calls are the core's declarations, and
 * the core's files load the libraries. */
#include "ceilings/ceilings.h"

#include "clock.h"
#include "device/cuda/driver.h"
#include "device/hip/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPIN_NS 1000000
#define NESTED_MAX 8
#define PATIENCE INT64_C(1000000000) /* ns, for a stream with hardly any work */

/* === CUDA ==================================================================================== */

static struct cuda_driver cu;
static CUcontext contexts[RAW_GPUS_MAX]; /* retained */

static bool cuda_open(char *reason, size_t size)
{
    const char *missing = gpud_cuda_load(&cu);
    if (missing) {
        if (missing[0])
            snprintf(reason, size, "the CUDA driver has no %s: a newer one is needed", missing);
        else
            snprintf(reason, size, "no CUDA driver: %s: install NVIDIA's", dlerror());
        return false;
    }
#define TAKE(member, arguments) memcpy(&raw_cuda.member, &cu.member, sizeof(cu.member));
    GPUD_GPU_CALLS(TAKE)
#undef TAKE
    CUresult result = cu.init(0);
    if (result != CUDA_SUCCESS)
        raw_say(&raw_cuda, reason, size, "cuInit", result);
    return result == CUDA_SUCCESS;
}

static const char *cuda_error_name(int result)
{
    const char *name = NULL;
    return cu.get_error_name((CUresult)result, &name) == CUDA_SUCCESS ? name : NULL;
}

/* Every GPU can, with a driver that has these functions. */
static bool cuda_has_words(unsigned gpu)
{
    (void)gpu;
    return true;
}

static int cuda_find_context(unsigned gpu)
{
    CUdevice device;
    if (contexts[gpu])
        return 0;
    CUresult result = cu.device_get(&device, (int)gpu);
    if (result == CUDA_SUCCESS)
        result = cu.device_primary_ctx_retain(&contexts[gpu], device);
    return result;
}

int raw_cuda_push(void *context)
{
    return cu.ctx_push_current(context);
}

static int cuda_enter(unsigned gpu)
{
    int result = cuda_find_context(gpu);
    return result ? result : raw_cuda_push(contexts[gpu]);
}

static void cuda_leave(void)
{
    CUcontext context;
    cu.ctx_pop_current(&context);
}

static int cuda_enable_peer(unsigned peer)
{
    int result = cuda_find_context(peer);
    if (result == 0)
        result = cu.ctx_enable_peer_access(contexts[peer], 0);
    return result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED ? 0 : result;
}

static int cuda_copy(raw_address to, raw_address from, size_t size, raw_stream stream)
{
    return cu.memcpy_async(to, from, size, stream);
}

static int cuda_copy_rows(raw_address to, size_t to_pitch, raw_address from, size_t from_pitch,
                          size_t width, size_t rows, raw_stream stream)
{
    const CUDA_MEMCPY2D both = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = from,
        .srcPitch = from_pitch,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = to,
        .dstPitch = to_pitch,
        .WidthInBytes = width,
        .Height = rows,
    };
    return cu.memcpy_2d_async(&both, stream);
}

static int cuda_wait_value(raw_stream stream, raw_address word, uint32_t value)
{
    return cu.stream_wait_value(stream, word, value, CU_STREAM_WAIT_VALUE_GEQ);
}

struct raw_driver raw_cuda = {
    .vendor = "CUDA",
    .prefix = "cuda",
    .open = cuda_open,
    .error_name = cuda_error_name,
    .has_words = cuda_has_words,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .enable_peer = cuda_enable_peer,
    .copy = cuda_copy,
    .copy_rows = cuda_copy_rows,
    .wait_value = cuda_wait_value,
};

/* === HIP ===================================================================================== */
/* The HIP runtime has no contexts to push: each thread has a current device. */

static struct hip_driver hip;

static bool hip_open(char *reason, size_t size)
{
    const char *missing = gpud_hip_load(&hip);
    if (missing) {
        if (missing[0])
            snprintf(reason, size, "the HIP runtime has no %s: ROCm 5.2 or a newer one is needed",
                     missing);
        else
            snprintf(reason, size,
                     "no HIP runtime (libamdhip64.so.7, .6 or .5 cannot be loaded): "
                     "install ROCm, or Debian's libamdhip64-5");
        return false;
    }
#define TAKE(member, arguments) memcpy(&raw_hip.member, &hip.member, sizeof(hip.member));
    GPUD_GPU_CALLS(TAKE)
#undef TAKE
    hipError_t result = hip.init(0);
    if (result != hipSuccess)
        raw_say(&raw_hip, reason, size, "the HIP runtime finds no GPU that it may use", result);
    return result == hipSuccess;
}

static const char *hip_error_name(int result)
{
    return hip.get_error_name ? hip.get_error_name((hipError_t)result) : NULL;
}

static void *hip_pointer(raw_address address)
{
    return (void *)(uintptr_t)address;
}

/* The devices to restore. */
static _Thread_local int hip_before[NESTED_MAX];
static _Thread_local unsigned hip_nested;

static int hip_enter(unsigned gpu)
{
    int result = hip.get_device(&hip_before[hip_nested % NESTED_MAX]);
    if (result == 0)
        result = hip.set_device((int)gpu);
    if (result == 0)
        hip_nested++;
    return result;
}

static void hip_leave(void)
{
    hip.set_device(hip_before[--hip_nested % NESTED_MAX]);
}

static int hip_enable_peer(unsigned peer)
{
    int result = hip.device_enable_peer_access((int)peer, 0);
    return result == hipErrorPeerAccessAlreadyEnabled ? 0 : result;
}

static int hip_copy(raw_address to, raw_address from, size_t size, raw_stream stream)
{
    return hip.memcpy_async(hip_pointer(to), hip_pointer(from), size, hipMemcpyDefault, stream);
}

static int hip_copy_rows(raw_address to, size_t to_pitch, raw_address from, size_t from_pitch,
                         size_t width, size_t rows, raw_stream stream)
{
    return hip.memcpy_2d_async(hip_pointer(to), to_pitch, hip_pointer(from), from_pitch, width,
                               rows, hipMemcpyDefault, stream);
}

static int hip_wait_value(raw_stream stream, raw_address word, uint32_t value)
{
    return hip.stream_wait_value(stream, hip_pointer(word), value, hipStreamWaitValueGte,
                                 UINT32_MAX);
}

/* The attribute guarantees it only for memory of hipMallocSignalMemory, so pinned memory is
 * tried. */
static bool hip_has_words(unsigned gpu)
{
    int can = 0, result;
    void *page, *stream;
    bool found = false;
    if (hip.device_get_attribute(&can, hipDeviceAttributeCanUseStreamWaitValue, (int)gpu) != 0 ||
        !can || hip_enter(gpu) != 0)
        return false;
    if (raw_stream_create(&raw_hip, &stream) == 0) {
        if (raw_host_alloc(&raw_hip, &page, sizeof(uint32_t)) == 0) {
            volatile uint32_t *word = page;
            raw_address address;
            *word = 0;
            found = raw_host_address(&raw_hip, &address, page) == 0 &&
                    hip_wait_value(stream, address, 0) == 0 &&
                    raw_write_value(&raw_hip, stream, address, 1) == 0 &&
                    raw_finish(&raw_hip, stream, clock_now() + PATIENCE, &result) && *word == 1;
            hip.mem_free_host(page);
        }
        raw_stream_destroy(&raw_hip, stream);
    }
    hip_leave();
    return found;
}

struct raw_driver raw_hip = {
    .vendor = "HIP",
    .prefix = "hip",
    .open = hip_open,
    .error_name = hip_error_name,
    .has_words = hip_has_words,
    .enter = hip_enter,
    .leave = hip_leave,
    .enable_peer = hip_enable_peer,
    .copy = hip_copy,
    .copy_rows = hip_copy_rows,
    .wait_value = hip_wait_value,
};

/* === both ==================================================================================== */

struct raw_driver *raw_driver_of(const char *device, unsigned *gpu)
{
    static struct raw_driver *const drivers[] = {&raw_cuda, &raw_hip};
    for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
        size_t length = strlen(drivers[i]->prefix);
        const char *rest = device + length;
        unsigned long ordinal = 0; /* "cuda" is cuda:0 */
        if (strncmp(device, drivers[i]->prefix, length) != 0)
            continue;
        if (*rest) {
            char *end;
            if (rest[0] != ':' || rest[1] < '0' || rest[1] > '9')
                continue;
            ordinal = strtoul(rest + 1, &end, 10);
            if (*end || ordinal >= RAW_GPUS_MAX)
                continue;
        }
        if (gpu)
            *gpu = (unsigned)ordinal;
        return drivers[i];
    }
    return NULL;
}

bool raw_open(struct raw_driver *driver, char *reason, size_t size)
{
    if (!driver->opened)
        driver->opened = driver->open(reason, size);
    return driver->opened;
}

void raw_say(const struct raw_driver *driver, char *reason, size_t size, const char *what,
             int result)
{
    const char *name = driver->error_name(result);
    snprintf(reason, size, "%s: %s (%d)", what, name ? name : "an unknown error", result);
}

bool raw_enter(const struct raw_driver *driver, unsigned gpu, char *reason, size_t size)
{
    char what[32];
    int result = driver->enter(gpu);
    snprintf(what, sizeof(what), "%s:%u", driver->prefix, gpu);
    if (result != 0)
        raw_say(driver, reason, size, what, result);
    return result == 0;
}

bool raw_finish(const struct raw_driver *driver, raw_stream stream, int64_t deadline, int *result)
{
    int64_t start = clock_now(), time = start;
    while ((*result = driver->stream_query(stream)) == RAW_NOT_READY && time < deadline) {
        if (time - start > SPIN_NS)
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        time = clock_now();
    }
    return *result == 0;
}
