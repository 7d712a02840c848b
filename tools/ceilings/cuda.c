/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What only CUDA has: contexts besides the GPU's own, as GStreamer makes them. The driver must be
 * open. */
#include "ceilings/ceilings.h"

#include "device/cuda/driver.h"
#include "vendor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static struct cuda_driver cu;
static CUcontext contexts[RAW_GPUS_MAX]; /* retained */

static bool open_cuda(char *reason, size_t size)
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
static bool has_words(unsigned gpu)
{
    (void)gpu;
    return true;
}

/* --- GPUs ------------------------------------------------------------------------------------- */

static int find_context(unsigned gpu)
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

static int enter(unsigned gpu)
{
    int result = find_context(gpu);
    return result ? result : raw_cuda_push(contexts[gpu]);
}

static void leave(void)
{
    CUcontext context;
    cu.ctx_pop_current(&context);
}

static int enable_peer(unsigned peer)
{
    int result = find_context(peer);
    if (result == 0)
        result = cu.ctx_enable_peer_access(contexts[peer], 0);
    return result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED ? 0 : result;
}

/* --- streams ---------------------------------------------------------------------------------- */

static int cuda_copy(uint64_t to, uint64_t from, size_t size, void *stream)
{
    return cu.memcpy_async(to, from, size, stream);
}

static int copy_rows(uint64_t to, size_t to_pitch, uint64_t from, size_t from_pitch, size_t width,
                     size_t rows, void *stream)
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

static int cuda_wait_value(void *stream, uint64_t word, uint32_t value)
{
    return cu.stream_wait_value(stream, word, value, CU_STREAM_WAIT_VALUE_GEQ);
}

struct raw_driver raw_cuda = {
    .vendor = "CUDA",
    .prefix = "cuda",
    .open = open_cuda,
    .error_name = cuda_error_name,
    .has_words = has_words,
    .enter = enter,
    .leave = leave,
    .enable_peer = enable_peer,
    .copy = cuda_copy,
    .copy_rows = copy_rows,
    .wait_value = cuda_wait_value,
};
