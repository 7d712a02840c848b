/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the bench uses of the HIP runtime, the same in all versions from 5.2 on; all functions
 * return hipError_t. Types are those of the file that includes this. tests/hip compares it with the
 * vendor's header where that is installed, and with what the library under test declares. */
#ifndef GPUD_TOOLS_BENCH_RAWHIP_H
#define GPUD_TOOLS_BENCH_RAWHIP_H

#define RAW_HIP_NOT_READY 600
#define RAW_HIP_PEER_ALREADY_ENABLED 704
#define RAW_HIP_STREAM_NON_BLOCKING 1u
#define RAW_HIP_HOST_PORTABLE 1u
#define RAW_HIP_HOST_MAPPED 2u
#define RAW_HIP_COPY_DEFAULT 4
#define RAW_HIP_WAIT_GREATER_OR_EQUAL 0u
#define RAW_HIP_ATTRIBUTE_WAIT_VALUE 10013

/* FUNCTION(member of the table, symbol in the library, arguments) */
#define RAW_HIP_FUNCTIONS(FUNCTION)                                                               \
    FUNCTION(init, hipInit, (unsigned flags))                                                     \
    FUNCTION(get_attribute, hipDeviceGetAttribute,                                                \
             (int *value, hipDeviceAttribute_t attribute, int device))                            \
    FUNCTION(get_device, hipGetDevice, (int *device))                                             \
    FUNCTION(set_device, hipSetDevice, (int device))                                              \
    FUNCTION(can_access_peer, hipDeviceCanAccessPeer, (int *can, int device, int peer))           \
    FUNCTION(enable_peer, hipDeviceEnablePeerAccess, (int peer, unsigned flags))                  \
    FUNCTION(alloc, hipMalloc, (void **address, size_t size))                                     \
    FUNCTION(free, hipFree, (void *address))                                                      \
    FUNCTION(host_alloc, hipHostMalloc, (void **host, size_t size, unsigned flags))               \
    FUNCTION(host_free, hipHostFree, (void *host))                                                \
    FUNCTION(host_address, hipHostGetDevicePointer, (void **address, void *host, unsigned flags)) \
    FUNCTION(fill, hipMemsetAsync, (void *to, int value, size_t size, hipStream_t stream))        \
    FUNCTION(copy, hipMemcpyAsync,                                                                \
             (void *to, const void *from, size_t size, hipMemcpyKind kind, hipStream_t stream))   \
    FUNCTION(copy_2d, hipMemcpy2DAsync,                                                           \
             (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,       \
              size_t height, hipMemcpyKind kind, hipStream_t stream))                             \
    FUNCTION(stream_create, hipStreamCreateWithFlags, (hipStream_t * stream, unsigned flags))     \
    FUNCTION(stream_destroy, hipStreamDestroy, (hipStream_t stream))                              \
    FUNCTION(stream_query, hipStreamQuery, (hipStream_t stream))                                  \
    FUNCTION(wait_value, hipStreamWaitValue32,                                                    \
             (hipStream_t stream, void *address, uint32_t value, unsigned flags, uint32_t mask))  \
    FUNCTION(write_value, hipStreamWriteValue32,                                                  \
             (hipStream_t stream, void *address, uint32_t value, unsigned flags))

#endif
