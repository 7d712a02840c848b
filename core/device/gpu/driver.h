/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The driver of a vendor's GPUs as device/gpu/ uses it. A vendor's api.c fills the calls of calls.h
 * from the library, and has its own hooks where its driver differs. */
#ifndef GPUD_DEVICE_GPU_DRIVER_H
#define GPUD_DEVICE_GPU_DRIVER_H

#include "base/error.h"
#include "base/lock.h"
#include "device/gpu/calls.h"

#include <stdbool.h>

struct gpud_device;
struct gpud_gpu;
struct gpud_memory;

/* Rows to copy between two addresses, whose memories the driver identifies by itself. */
struct gpud_rows {
    uint64_t to, from;
    uint32_t to_stride, from_stride;
    uint64_t row_bytes;
    uint32_t rows;
};

static inline bool gpud_rows_are_linear(const struct gpud_rows *rows)
{
    return rows->rows == 1 ||
           (rows->to_stride == rows->row_bytes && rows->from_stride == rows->row_bytes);
}

/* Operations that the driver does once a process, counted; see tables.h. */
struct gpud_pins {
    struct gpud_lock lock; /* held also during the driver's call, so that it is made once */
    struct gpud_pinned *first;
};

struct gpud_opens {
    struct gpud_lock lock; /* as that of the pins */
    struct gpud_opened *first;
};

#define GPUD_GPU_MEMBER(member, arguments) int(*member) arguments;

/* One for each vendor in the process. Complete when the library is found, and constant from then
 * on, except pins and opens. */
struct gpud_gpu_driver {
    const char *vendor;         /* "CUDA": in messages */
    const char *origin;         /* "cuda": of errors */
    const char *allocator;      /* "cuMemAlloc": its memory can be exported by handle */
    uint32_t fd_type, ipc_type; /* enum gpud_handle_type */
    int p2p_rank, p2p_atomics;  /* the attributes' numbers */
    unsigned read_only_flag;    /* of mem_host_register, for pages that this process may only read;
                                   0: none */
    bool pools_have_no_context; /* which identifies memory of a pool */
    /* stream_query of a default stream answers for the streams that work put on it would wait for.
     * Observed of CUDA (driver 580). */
    bool queries_default_streams;

    /* These depend on the library's version. */
    unsigned host_memory_type; /* the number of pinned memory; the next one is a device's */
    unsigned ipc_flags;        /* of ipc_open_mem_handle: access between peers as needed */
    bool imports_by_address;   /* mem_import takes the address of the descriptor */

    struct gpud_pins pins;
    struct gpud_opens opens;

    GPUD_GPU_CALLS(GPUD_GPU_MEMBER)

    /* NULL: the driver has no name for the result. */
    const char *(*error_name)(int result);
    /* Enclose all use of the driver by a thread; they nest. */
    void (*enter)(struct gpud_gpu *gpu);
    void (*leave)(struct gpud_gpu *gpu);
    /* on_gpu: both ends are memory of GPUs, and it is one row. */
    int (*copy)(void *stream, const struct gpud_rows *rows, bool on_gpu);
    /* Makes later work wait for word >= value; both are below 2^31. */
    int (*wait_value)(void *stream, uint64_t address, uint32_t value);
    /* Writes the value into both words, in this order, by one call. NULL: the driver has none. */
    int (*write_both)(void *stream, uint64_t first, uint64_t second, uint32_t value);
    /* Makes synchronous operations on the allocation at this address complete before they return,
     * because a card waits for no stream. NULL: the driver has no such call. GPUD_GPU_NOT_SUPPORTED
     * and GPUD_GPU_INVALID_VALUE: not possible for such memory. */
    int (*make_synchronous)(uint64_t address);
    /* For whole pages; *offset: of the address in the dma-buf. */
    enum gpud_status (*export_dmabuf)(struct gpud_device *device, uint64_t address, uint64_t size,
                                      int *fd, uint64_t *offset, struct gpud_error *error);
    /* Memory of a graphics driver of this GPU, of which `size` bytes are mapped. Takes fd,
     * on failure, too. NULL: it imports none. */
    int (*open_graphics)(int fd, uint64_t bytes, bool dedicated, uint64_t size, void **object,
                         uint64_t *address);
    void (*close_graphics)(void *object, uint64_t address);
    /* As gpud_memory_ops.flush_remote. */
    enum gpud_status (*flush_remote)(struct gpud_memory *memory, struct gpud_error *error);
};
#undef GPUD_GPU_MEMBER

/* Fills *error with the text and the driver's name for the result. The status follows from it. */
enum gpud_status gpud_gpu_fail(const struct gpud_gpu_driver *driver, struct gpud_error *error,
                               int result, const char *format, ...) GPUD_PRINTF(4, 5);

/* The same with a given status: for errors that a peer's data caused. */
enum gpud_status gpud_gpu_fail_as(const struct gpud_gpu_driver *driver, struct gpud_error *error,
                                  enum gpud_status status, int result, const char *format, ...)
    GPUD_PRINTF(5, 6);

#endif
