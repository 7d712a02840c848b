/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The CUDA driver, with our own declarations. */
#include "bench/rawcuda.h"

#include <dlfcn.h>
#include <stdio.h>

#define LIBRARY "libcuda.so.1"

/* CUDA_MEMCPY2D */
struct copy_2d {
    size_t from_x, from_y;
    int from_type;
    const void *from_host;
    raw_address from_device;
    void *from_array;
    size_t from_pitch;
    size_t to_x, to_y;
    int to_type;
    void *to_host;
    raw_address to_device;
    void *to_array;
    size_t to_pitch;
    size_t width, height;
};

#define TYPE_UNIFIED 4 /* the driver knows by the address */
#define NOT_READY 600
#define PEER_ALREADY_ENABLED 704
#define STREAM_NON_BLOCKING 1u
#define HOST_PORTABLE 1u
#define HOST_MAPPED 2u
#define WAIT_GREATER_OR_EQUAL 0u

/* Contexts and streams are pointers to what nobody sees. */
#define FUNCTIONS(FUNCTION)                                                                \
    FUNCTION(init, cuInit, (unsigned flags))                                               \
    FUNCTION(get_error_name, cuGetErrorName, (int result, const char **name))              \
    FUNCTION(device_get, cuDeviceGet, (int *device, int ordinal))                          \
    FUNCTION(can_access_peer, cuDeviceCanAccessPeer, (int *can, int device, int peer))     \
    FUNCTION(context_retain, cuDevicePrimaryCtxRetain, (void **context, int device))       \
    FUNCTION(context_push, cuCtxPushCurrent_v2, (void *context))                           \
    FUNCTION(context_pop, cuCtxPopCurrent_v2, (void **context))                            \
    FUNCTION(enable_peer, cuCtxEnablePeerAccess, (void *peer, unsigned flags))             \
    FUNCTION(alloc, cuMemAlloc_v2, (raw_address * address, size_t size))                   \
    FUNCTION(free, cuMemFree_v2, (raw_address address))                                    \
    FUNCTION(host_alloc, cuMemHostAlloc, (void **host, size_t size, unsigned flags))       \
    FUNCTION(host_free, cuMemFreeHost, (void *host))                                       \
    FUNCTION(host_address, cuMemHostGetDevicePointer_v2,                                   \
             (raw_address * address, void *host, unsigned flags))                          \
    FUNCTION(fill, cuMemsetD8Async,                                                        \
             (raw_address address, unsigned char value, size_t size, raw_stream stream))   \
    FUNCTION(copy, cuMemcpyAsync,                                                          \
             (raw_address to, raw_address from, size_t size, raw_stream stream))           \
    FUNCTION(copy_2d, cuMemcpy2DAsync_v2, (const struct copy_2d *copy, raw_stream stream)) \
    FUNCTION(stream_create, cuStreamCreate, (raw_stream * stream, unsigned flags))         \
    FUNCTION(stream_destroy, cuStreamDestroy_v2, (raw_stream stream))                      \
    FUNCTION(stream_query, cuStreamQuery, (raw_stream stream))                             \
    FUNCTION(wait_value, cuStreamWaitValue32_v2,                                           \
             (raw_stream stream, raw_address address, uint32_t value, unsigned flags))     \
    FUNCTION(write_value, cuStreamWriteValue32_v2,                                         \
             (raw_stream stream, raw_address address, uint32_t value, unsigned flags))

#define MEMBER(member, symbol, arguments) int(*member) arguments;
static struct {
    FUNCTIONS(MEMBER)
} cu;
#undef MEMBER

static bool opened;
static void *contexts[RAW_GPUS_MAX]; /* retained */

/* The first symbol that is missing, or NULL. */
static const char *load(void *library)
{
    const char *missing = NULL;
#define LOAD(member, symbol, arguments)             \
    *(void **)&cu.member = dlsym(library, #symbol); \
    if (!cu.member && !missing)                     \
        missing = #symbol;
    FUNCTIONS(LOAD)
#undef LOAD
    return missing;
}

static bool open_cuda(char *reason, size_t size)
{
    if (opened)
        return true;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(reason, size, "no CUDA driver: %s: install NVIDIA's", dlerror());
        return false;
    }
    const char *missing = load(library);
    if (missing) {
        snprintf(reason, size, "the CUDA driver has no %s: a newer one is needed", missing);
        return false;
    }
    int result = cu.init(0);
    if (result != 0)
        raw_say(&raw_cuda, reason, size, "cuInit", result);
    opened = result == 0;
    return opened;
}

static const char *error_name(int result)
{
    const char *name = NULL;
    return cu.get_error_name(result, &name) == 0 ? name : NULL;
}

/* Every GPU has, of a driver that has these functions. */
static bool has_words(unsigned gpu)
{
    (void)gpu;
    return true;
}

/* --- GPUs ------------------------------------------------------------------------------------- */

static int find_context(unsigned gpu)
{
    int device, result = 0;
    if (contexts[gpu])
        return 0;
    result = cu.device_get(&device, (int)gpu);
    return result ? result : cu.context_retain(&contexts[gpu], device);
}

int raw_cuda_push(void *context)
{
    return cu.context_push(context);
}

static int enter(unsigned gpu)
{
    int result = find_context(gpu);
    return result ? result : cu.context_push(contexts[gpu]);
}

static void leave(void)
{
    void *context;
    cu.context_pop(&context);
}

static int can_access_peer(int *can, unsigned gpu, unsigned peer)
{
    int a, b, result = cu.device_get(&a, (int)gpu);
    if (result == 0)
        result = cu.device_get(&b, (int)peer);
    return result ? result : cu.can_access_peer(can, a, b);
}

static int enable_peer(unsigned peer)
{
    int result = find_context(peer);
    if (result == 0)
        result = cu.enable_peer(contexts[peer], 0);
    return result == PEER_ALREADY_ENABLED ? 0 : result;
}

/* --- memory ----------------------------------------------------------------------------------- */

static int alloc(raw_address *address, size_t size)
{
    return cu.alloc(address, size);
}

static int free_memory(raw_address address)
{
    return cu.free(address);
}

static int host_alloc(void **host, size_t size)
{
    return cu.host_alloc(host, size, HOST_PORTABLE | HOST_MAPPED);
}

static int host_free(void *host)
{
    return cu.host_free(host);
}

static int host_address(raw_address *address, void *host)
{
    return cu.host_address(address, host, 0);
}

static int fill(raw_address address, unsigned char value, size_t size, raw_stream stream)
{
    return cu.fill(address, value, size, stream);
}

static int copy(raw_address to, raw_address from, size_t size, raw_stream stream)
{
    return cu.copy(to, from, size, stream);
}

static int copy_rows(raw_address to, size_t to_pitch, raw_address from, size_t from_pitch,
                     size_t width, size_t rows, raw_stream stream)
{
    const struct copy_2d both = {
        .from_type = TYPE_UNIFIED,
        .from_device = from,
        .from_pitch = from_pitch,
        .to_type = TYPE_UNIFIED,
        .to_device = to,
        .to_pitch = to_pitch,
        .width = width,
        .height = rows,
    };
    return cu.copy_2d(&both, stream);
}

/* --- streams ---------------------------------------------------------------------------------- */

static int stream_create(raw_stream *stream)
{
    return cu.stream_create(stream, STREAM_NON_BLOCKING);
}

static int stream_destroy(raw_stream stream)
{
    return cu.stream_destroy(stream);
}

static int stream_query(raw_stream stream)
{
    return cu.stream_query(stream);
}

static int wait_value(raw_stream stream, raw_address word, uint32_t value)
{
    return cu.wait_value(stream, word, value, WAIT_GREATER_OR_EQUAL);
}

static int write_value(raw_stream stream, raw_address word, uint32_t value)
{
    return cu.write_value(stream, word, value, 0);
}

const struct raw_driver raw_cuda = {
    .vendor = "CUDA",
    .prefix = "cuda",
    .not_ready = NOT_READY,
    .open = open_cuda,
    .error_name = error_name,
    .has_words = has_words,
    .enter = enter,
    .leave = leave,
    .can_access_peer = can_access_peer,
    .enable_peer = enable_peer,
    .alloc = alloc,
    .free = free_memory,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .host_address = host_address,
    .fill = fill,
    .copy = copy,
    .copy_rows = copy_rows,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_query = stream_query,
    .wait_value = wait_value,
    .write_value = write_value,
};
