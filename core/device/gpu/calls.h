/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The calls that CUDA's driver API and HIP's runtime have alike.
 *
 * HIP is modelled on CUDA: most of its calls have the same meaning, arguments, structures and
 * numbers, under other names. The types here stand for those of both: an address and an allocation
 * have 64 bits, a stream and an event are pointers, an enumeration is an int. That arguments are
 * passed alike, and that the numbers are the same, tests/hip/calls.cc compares with the
 * declarations of both. */
#ifndef GPUD_DEVICE_GPU_CALLS_H
#define GPUD_DEVICE_GPU_CALLS_H

#include <stddef.h>
#include <stdint.h>

/* --- structures of both drivers ------------------------------------------------------------- */

/* CUmemLocation, hipMemLocation */
struct gpud_gpu_location {
    int type; /* GPUD_GPU_ON_DEVICE */
    int id;   /* its ordinal */
};

/* CUmemAllocationProp; hipMemAllocationProp from 6.0 on */
struct gpud_gpu_allocation {
    int type;    /* GPUD_GPU_TYPE_PINNED */
    int handles; /* GPUD_GPU_HANDLE_FD */
    struct gpud_gpu_location location;
    void *meta_data;
    struct {
        unsigned char compression, rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
};

/* CUmemAccessDesc, hipMemAccessDesc */
struct gpud_gpu_access {
    struct gpud_gpu_location location;
    int flags; /* GPUD_GPU_READ, GPUD_GPU_READ_WRITE */
};

#define GPUD_GPU_IPC_SIZE 64

/* CUipcMemHandle, hipIpcMemHandle_t */
struct gpud_gpu_ipc {
    unsigned char bytes[GPUD_GPU_IPC_SIZE];
};

/* --- numbers of both drivers ---------------------------------------------------------------- */

enum gpud_gpu_result {
    GPUD_GPU_INVALID_VALUE = 1,
    GPUD_GPU_OUT_OF_MEMORY = 2,
    GPUD_GPU_STUB_LIBRARY = 34,
    GPUD_GPU_INSUFFICIENT_DRIVER = 35,
    GPUD_GPU_NO_DEVICE = 100,
    GPUD_GPU_INVALID_DEVICE = 101,
    GPUD_GPU_NOT_READY = 600,
    GPUD_GPU_NOT_PERMITTED = 800,
    GPUD_GPU_NOT_SUPPORTED = 801,
    GPUD_GPU_SYSTEM_NOT_READY = 802,
    GPUD_GPU_SYSTEM_DRIVER_MISMATCH = 803,
};

enum gpud_gpu_attribute { /* of a pointer */
                          GPUD_GPU_POINTER_CONTEXT = 1,
                          GPUD_GPU_POINTER_MEMORY_TYPE = 2,
                          GPUD_GPU_POINTER_IS_MANAGED = 8,
                          GPUD_GPU_POINTER_ORDINAL = 9,
                          GPUD_GPU_POINTER_START = 11,
                          GPUD_GPU_POINTER_SIZE = 12,
};

#define GPUD_GPU_TYPE_PINNED 1
#define GPUD_GPU_ON_DEVICE 1
#define GPUD_GPU_HANDLE_FD 1
#define GPUD_GPU_GRANULARITY_MINIMUM 0
#define GPUD_GPU_READ 1
#define GPUD_GPU_READ_WRITE 3
#define GPUD_GPU_STREAM_NON_BLOCKING 1
#define GPUD_GPU_STREAM_DEFAULT_MAX 2 /* NULL, the legacy one (1) and that of the thread (2) */
#define GPUD_GPU_EVENT_DISABLE_TIMING 2
#define GPUD_GPU_HOST_PORTABLE 1
#define GPUD_GPU_HOST_MAPPED 2
#define GPUD_GPU_REGISTER_PORTABLE 1
#define GPUD_GPU_REGISTER_MAPPED 2
#define GPUD_GPU_CAPTURE_RELAXED 2

/* --- the calls ------------------------------------------------------------------------------ */

/* clang-format off */

/* CALL(member, arguments); each returns the driver's result, 0 is success. */
#define GPUD_GPU_CALLS(CALL)                                                                       \
    CALL(device_can_access_peer, (int *can, int from, int to))                                     \
    CALL(device_get_p2p_attribute, (int *value, int attribute, int from, int to))                  \
    CALL(mem_alloc, (uint64_t *address, size_t size))                                              \
    CALL(mem_free, (uint64_t address))                                                             \
    CALL(mem_get_address_range, (uint64_t *base, size_t *size, uint64_t address))                  \
    CALL(mem_host_alloc, (void **host, size_t size, unsigned flags))                               \
    CALL(mem_free_host, (void *host))                                                              \
    CALL(mem_host_register, (void *host, size_t size, unsigned flags))                             \
    CALL(mem_host_unregister, (void *host))                                                        \
    CALL(mem_host_get_device_pointer, (uint64_t *address, void *host, unsigned flags))             \
    CALL(pointer_get_attribute, (void *value, int attribute, uint64_t address))                    \
    CALL(ipc_get_mem_handle, (struct gpud_gpu_ipc *handle, uint64_t address))                      \
    CALL(ipc_open_mem_handle, (uint64_t *address, struct gpud_gpu_ipc handle, unsigned flags))     \
    CALL(ipc_close_mem_handle, (uint64_t address))                                                 \
    CALL(memset_d8_async, (uint64_t address, unsigned char value, size_t size, void *stream))      \
    CALL(stream_create, (void **stream, unsigned flags))                                           \
    CALL(stream_destroy, (void *stream))                                                           \
    CALL(stream_query, (void *stream))                                                             \
    CALL(stream_wait_event, (void *stream, void *event, unsigned flags))                           \
    CALL(stream_write_value, (void *stream, uint64_t address, uint32_t value, unsigned flags))     \
    CALL(event_create, (void **event, unsigned flags))                                             \
    CALL(event_destroy, (void *event))                                                             \
    CALL(event_record, (void *event, void *stream))                                                \
    CALL(event_query, (void *event))                                                               \
    CALL(thread_exchange_capture_mode, (int *mode))                                                \
    /* Physical allocations: NULL where an old runtime has none, and then granularity is 0. */     \
    CALL(mem_get_allocation_granularity,                                                           \
         (size_t *granularity, const struct gpud_gpu_allocation *what, int option))                \
    CALL(mem_create, (uint64_t *allocation, size_t size, const struct gpud_gpu_allocation *what,   \
                      unsigned long long flags))                                                   \
    CALL(mem_release, (uint64_t allocation))                                                       \
    CALL(mem_retain_allocation_handle, (uint64_t *allocation, void *address))                      \
    CALL(mem_get_allocation_properties, (struct gpud_gpu_allocation *what, uint64_t allocation))   \
    CALL(mem_address_reserve, (uint64_t *address, size_t size, size_t alignment, uint64_t wished,  \
                               unsigned long long flags))                                          \
    CALL(mem_address_free, (uint64_t address, size_t size))                                        \
    CALL(mem_map, (uint64_t address, size_t size, size_t offset, uint64_t allocation,              \
                   unsigned long long flags))                                                      \
    CALL(mem_unmap, (uint64_t address, size_t size))                                               \
    CALL(mem_set_access, (uint64_t address, size_t size, const struct gpud_gpu_access *access,     \
                          size_t count))                                                           \
    CALL(mem_export, (void *fd, uint64_t allocation, int type, unsigned long long flags))          \
    CALL(mem_import, (uint64_t *allocation, void *fd, int type))
/* clang-format on */

#endif
