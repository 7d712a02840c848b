/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/gpu.h"

#include "support/check.h"
#include "support/peer.h"

#include <dlfcn.h>

static struct cuda_driver cu;

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(library, "%s", dlerror());
#define RESOLVE(member, symbol, arguments)                      \
    cu.member = (CUresult(*) arguments)dlsym(library, #symbol); \
    CHECK(cu.member, "the driver has no %s", #symbol);
    CUDA_DRIVER_FUNCTIONS(RESOLVE)
#undef RESOLVE
    CHECK(cu.init(0) == CUDA_SUCCESS, "cuInit");
}

static void enter(const struct gpu *gpu)
{
    CUresult result = cu.ctx_push_current(gpu->context);
    CHECK(result == CUDA_SUCCESS, "the context is gone: %d", (int)result);
}

static void leave(void)
{
    CUcontext context;
    cu.ctx_pop_current(&context);
}

/* A call of the driver that must succeed: an error here shows a stuck or broken context. */
#define DRIVER(call)                                             \
    do {                                                         \
        CUresult result_ = call;                                 \
        if (result_ != CUDA_SUCCESS)                             \
            FAIL("%s: the driver says %d", #call, (int)result_); \
    } while (0)

/* Behind the frame, on a line of its own. */
static size_t word_offset(const struct gpu *gpu)
{
    return (gpu->frame_size + 63) / 64 * 64;
}

static _Atomic uint32_t *word_of(const struct gpu *gpu)
{
    return (_Atomic uint32_t *)(void *)((char *)gpu->host + word_offset(gpu));
}

void gpu_open(struct gpu *gpu, const char *name, size_t frame_size)
{
    *gpu = (struct gpu){.frame_size = frame_size};
    if (!cu.init)
        load();
    DRIVER(cu.device_get(&gpu->device, atoi(strchr(name, ':') + 1)));
    DRIVER(cu.device_primary_ctx_retain(&gpu->context, gpu->device));
    enter(gpu);
    DRIVER(cu.stream_create(&gpu->stream, CU_STREAM_NON_BLOCKING));
    DRIVER(cu.event_create(&gpu->mark, CU_EVENT_DISABLE_TIMING));
    DRIVER(cu.mem_alloc(&gpu->store, frame_size * GPU_PLACES));
    DRIVER(cu.mem_host_alloc(&gpu->host, word_offset(gpu) + 64,
                             CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    DRIVER(cu.mem_host_get_device_pointer(&gpu->host_view, gpu->host, 0));
    leave();
    atomic_store(word_of(gpu), 0);
    CHECK(gpu_works(gpu), "%s does not work to begin with", name);
}

void gpu_close(struct gpu *gpu)
{
    gpu_let_go(gpu);
    CHECK(gpu_ends(gpu, 10000), "a stream that was let go does not come to its end");
    enter(gpu);
    DRIVER(cu.mem_free_host(gpu->host));
    DRIVER(cu.mem_free(gpu->store));
    DRIVER(cu.event_destroy(gpu->mark));
    DRIVER(cu.stream_destroy(gpu->stream));
    leave();
    DRIVER(cu.device_primary_ctx_release(gpu->device));
    *gpu = (struct gpu){0};
}

size_t gpu_used(const struct gpu *gpu)
{
    size_t unused = 0, total = 0;
    enter(gpu);
    DRIVER(cu.mem_get_info(&unused, &total));
    leave();
    return total - unused;
}

void gpu_hold(struct gpu *gpu)
{
    enter(gpu);
    DRIVER(cu.stream_wait_value(gpu->stream, gpu->host_view + word_offset(gpu), ++gpu->gates,
                                CU_STREAM_WAIT_VALUE_GEQ));
    leave();
}

void gpu_let_go(struct gpu *gpu)
{
    atomic_store(word_of(gpu), gpu->gates);
}

/* A picture repeats one byte, which identifies the frame. */
static unsigned char byte_of(uint64_t number)
{
    return (unsigned char)(number % 251 + 1);
}

static CUdeviceptr address_of(struct gpud_frame *frame)
{
    struct gpud_frame_info info = GPUD_INFO_INIT(info);
    gpud_frame_get_info(frame, &info);
    return (CUdeviceptr)(uintptr_t)info.native + info.memory_offset;
}

static CUdeviceptr place_of(const struct gpu *gpu, unsigned place)
{
    return gpu->store + place % GPU_PLACES * gpu->frame_size;
}

void gpu_fill(struct gpu *gpu, struct gpud_frame *frame, uint64_t number)
{
    enter(gpu);
    DRIVER(cu.memset_d8_async(address_of(frame), byte_of(number), gpu->frame_size, gpu->stream));
    leave();
}

void gpu_take(struct gpu *gpu, struct gpud_frame *frame, unsigned place)
{
    enter(gpu);
    DRIVER(cu.memcpy_async(place_of(gpu, place), address_of(frame), gpu->frame_size, gpu->stream));
    leave();
}

void gpu_mark(struct gpu *gpu)
{
    enter(gpu);
    DRIVER(cu.event_record(gpu->mark, gpu->stream));
    leave();
}

static bool is_done(CUresult result)
{
    CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY, "the stream failed: %d",
          (int)result);
    return result == CUDA_SUCCESS;
}

bool gpu_passed(struct gpu *gpu)
{
    enter(gpu);
    CUresult result = cu.event_query(gpu->mark);
    leave();
    return is_done(result);
}

bool gpu_is_idle(struct gpu *gpu)
{
    enter(gpu);
    CUresult result = cu.stream_query(gpu->stream);
    leave();
    return is_done(result);
}

bool gpu_ends(struct gpu *gpu, int64_t ms)
{
    int64_t until = gpud_test_now() + ms * GPUD_MSEC;
    bool idle;
    while (!(idle = gpu_is_idle(gpu)) && gpud_test_now() < until)
        gpud_test_nap(1);
    return idle;
}

bool gpu_is_picture(const struct gpu *gpu, const void *data, uint64_t number)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < gpu->frame_size; i++)
        if (byte[i] != byte_of(number))
            return false;
    return true;
}

bool gpu_holds(struct gpu *gpu, unsigned place, uint64_t number)
{
    memset(gpu->host, 0, gpu->frame_size);
    enter(gpu);
    DRIVER(cu.memcpy_async(gpu->host_view, place_of(gpu, place), gpu->frame_size, gpu->stream));
    leave();
    return gpu_ends(gpu, 10000) && gpu_is_picture(gpu, gpu->host, number);
}

bool gpu_works(struct gpu *gpu)
{
    static uint64_t number;
    number++;
    enter(gpu);
    DRIVER(cu.memset_d8_async(place_of(gpu, 0), byte_of(number), gpu->frame_size, gpu->stream));
    leave();
    return gpu_holds(gpu, 0, number);
}
