/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The CUDA driver itself, with our own declarations, opened at run time and independent of the
 * library under test: for the ceilings that it is compared with, and for the work that an
 * application puts on its own streams. */
#ifndef GPUD_TOOLS_BENCH_RAWCUDA_H
#define GPUD_TOOLS_BENCH_RAWCUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef unsigned long long raw_address; /* CUdeviceptr */
typedef struct CUctx_st *raw_context;
typedef struct CUstream_st *raw_stream;
typedef struct CUevent_st *raw_event;

/* CUDA_MEMCPY2D */
struct raw_copy_2d {
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

#define RAW_TYPE_HOST 1
#define RAW_TYPE_DEVICE 2
#define RAW_NOT_READY 600
#define RAW_PEER_ALREADY_ENABLED 704
#define RAW_STREAM_NON_BLOCKING 1u
#define RAW_HOST_PORTABLE 1u
#define RAW_HOST_MAPPED 2u
#define RAW_POINTER_CONTEXT 1

#define RAW_CUDA_FUNCTIONS(FUNCTION)                                                           \
    FUNCTION(init, cuInit, (unsigned flags))                                                   \
    FUNCTION(get_error_name, cuGetErrorName, (int result, const char **name))                  \
    FUNCTION(device_get_count, cuDeviceGetCount, (int *count))                                 \
    FUNCTION(device_get, cuDeviceGet, (int *device, int ordinal))                              \
    FUNCTION(can_access_peer, cuDeviceCanAccessPeer, (int *can, int device, int peer))         \
    FUNCTION(context_retain, cuDevicePrimaryCtxRetain, (raw_context * context, int device))    \
    FUNCTION(context_release, cuDevicePrimaryCtxRelease_v2, (int device))                      \
    FUNCTION(context_push, cuCtxPushCurrent_v2, (raw_context context))                         \
    FUNCTION(context_pop, cuCtxPopCurrent_v2, (raw_context * context))                         \
    FUNCTION(enable_peer, cuCtxEnablePeerAccess, (raw_context peer, unsigned flags))           \
    FUNCTION(alloc, cuMemAlloc_v2, (raw_address * address, size_t size))                       \
    FUNCTION(free, cuMemFree_v2, (raw_address address))                                        \
    FUNCTION(host_alloc, cuMemHostAlloc, (void **host, size_t size, unsigned flags))           \
    FUNCTION(host_free, cuMemFreeHost, (void *host))                                           \
    FUNCTION(host_address, cuMemHostGetDevicePointer_v2,                                       \
             (raw_address * address, void *host, unsigned flags))                              \
    FUNCTION(pointer_attribute, cuPointerGetAttribute,                                         \
             (void *value, int attribute, raw_address address))                                \
    FUNCTION(fill, cuMemsetD8Async,                                                            \
             (raw_address address, unsigned char value, size_t size, raw_stream stream))       \
    FUNCTION(copy, cuMemcpyAsync,                                                              \
             (raw_address to, raw_address from, size_t size, raw_stream stream))               \
    FUNCTION(copy_2d, cuMemcpy2DAsync_v2, (const struct raw_copy_2d *copy, raw_stream stream)) \
    FUNCTION(stream_create, cuStreamCreate, (raw_stream * stream, unsigned flags))             \
    FUNCTION(stream_destroy, cuStreamDestroy_v2, (raw_stream stream))                          \
    FUNCTION(stream_query, cuStreamQuery, (raw_stream stream))                                 \
    FUNCTION(wait_value, cuStreamWaitValue32_v2,                                               \
             (raw_stream stream, raw_address address, unsigned value, unsigned flags))         \
    FUNCTION(write_value, cuStreamWriteValue32_v2,                                             \
             (raw_stream stream, raw_address address, unsigned value, unsigned flags))         \
    FUNCTION(event_create, cuEventCreate, (raw_event * event, unsigned flags))                 \
    FUNCTION(event_destroy, cuEventDestroy_v2, (raw_event event))                              \
    FUNCTION(event_record, cuEventRecord, (raw_event event, raw_stream stream))                \
    FUNCTION(event_query, cuEventQuery, (raw_event event))

#define RAW_CUDA_MEMBER(member, symbol, arguments) int(*member) arguments;
struct raw_cuda {
    RAW_CUDA_FUNCTIONS(RAW_CUDA_MEMBER)
};
#undef RAW_CUDA_MEMBER

/* The driver, initialised; NULL with the reason. The first call must not race with another. */
const struct raw_cuda *raw_cuda_open(char *reason, size_t size);

/* A failed call as text: "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)". */
void raw_cuda_say(char *reason, size_t size, const char *what, int result);

/* Retains a device's primary context and makes it current, until raw_cuda_leave(). */
bool raw_cuda_enter(const struct raw_cuda *cu, unsigned ordinal, raw_context *context, char *reason,
                    size_t size);
void raw_cuda_leave(const struct raw_cuda *cu);

/* Waits until the stream is idle, polling without sleep for the first millisecond. false: the
 * deadline (monotonic ns) passed; where the stream failed, *result is not RAW_NOT_READY. */
bool raw_cuda_finish(const struct raw_cuda *cu, raw_stream stream, int64_t deadline, int *result);

/* "cuda:3" → 3; -1: not a CUDA device. */
int raw_cuda_ordinal(const char *device);

#endif
