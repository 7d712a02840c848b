/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What CUDA and HIP share: one implementation over a table of a driver's calls. */
#ifndef GPUD_DEVICE_GPU_GPU_H
#define GPUD_DEVICE_GPU_GPU_H

#include "base/base.h"
#include "device/device.h"
#include "device/gpu/calls.h"
#include <stdbool.h>

/* === driver ================================================================================== */
/* The driver of a vendor's GPUs as device/gpu/ uses it. A vendor's file fills the calls of calls.h
 * from the library, and has its own hooks where its driver differs. */

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

/* A word of a signal, and its value. */
struct gpud_gpu_word {
    uint64_t address;
    uint32_t value;
};

/* Operations that the driver does once a process, counted; see memory.c. */
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
    /* Bracket every call of the driver by a thread; they nest, 32 deep at most. In between the
     * thread captures in relaxed mode: while an application captures a graph in the global one, the
     * default, a query or an allocation of another thread fails with 900 and makes the capture
     * invalid (observed of CUDA, driver 580). Ours cannot be part of it: they use streams of their
     * own. */
    void (*enter)(struct gpud_gpu *gpu);
    void (*leave)(struct gpud_gpu *gpu);
    /* on_gpu: both ends are memory of GPUs, and it is one row. */
    int (*copy)(void *stream, const struct gpud_rows *rows, bool on_gpu);
    /* Makes later work wait for word >= value; both are below 2^31. */
    int (*wait_value)(void *stream, uint64_t address, uint32_t value);
    /* Writes the values into the words, or waits for them as above, in this order, by one call.
     * NULL: the driver has none. */
    int (*batch)(void *stream, const struct gpud_gpu_word *words, unsigned count, bool wait);
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

/* === events ================================================================================== */
/* Keeps unused events, because creating one costs more than launching a copy. */

#define GPUD_EVENTS_KEPT 64

struct gpud_events {
    const struct gpud_gpu_driver *driver;
    struct gpud_lock lock;
    void *kept[GPUD_EVENTS_KEPT];
    unsigned count;
};

/* === gpu ===================================================================================== */
/* The code that CUDA and HIP share: an open GPU and its memories. A vendor's folder fills the table
 * above, finds devices and reports their capabilities; everything else is here.
 *
 * Results are the driver's own numbers; 0 is success. Addresses are the GPU's. Why nothing here
 * waits for a stream without a deadline: see device/device.h. */

/* Begins a vendor's record of an open device. */
struct gpud_gpu {
    struct gpud_gpu_driver *driver;
    int ordinal;          /* of the device, for the driver */
    const void *context;  /* of the driver, in which it opens peers' handles */
    uint64_t granularity; /* of physical allocations; 0: the driver cannot export any */
    bool rdma;            /* they are allocated for access by network cards */
    void *service;        /* the stream for work that depends on no peer */
    struct gpud_async async;
    struct gpud_completion_thread completions;
    struct gpud_events events;
    struct gpud_bounces bounces;
};

enum gpud_gpu_memory_kind {
    GPUD_GPU_PHYSICAL, /* ours, or imported: a physical allocation that is mapped */
    GPUD_GPU_PLAIN,    /* ours: by the allocator */
    GPUD_GPU_IPC,      /* imported by the legacy handle */
    GPUD_GPU_GRAPHICS, /* imported from a graphics driver */
    GPUD_GPU_WRAPPED,  /* the application's */
    GPUD_GPU_PINNED,   /* host pages that the driver knows */
    GPUD_GPU_PAGEABLE, /* host memory unknown to it: copied from, through pinned pages */
};

struct gpud_gpu_memory {
    enum gpud_gpu_memory_kind kind;
    uint64_t address;           /* of the memory; pageable: 0 */
    uint64_t mapped;            /* physical: bytes of the mapping */
    uint64_t allocation;        /* physical */
    uint64_t base;              /* IPC: of the allocation that was opened */
    void *object;               /* graphics: the driver's */
    struct gpud_pinned *pinned; /* the registration that it shares; NULL: the application's */
    bool by_handle;             /* exported by a legacy handle */
    struct gpud_free_after after;
};

static inline struct gpud_gpu *gpud_gpu(const struct gpud_device *device)
{
    return device->backend;
}

static inline struct gpud_gpu_memory *gpud_gpu_record(const struct gpud_memory *memory)
{
    return memory->backend;
}

/* What a vendor's gpud_device_ops point to; in memory.c and gpu.c. */
extern const struct gpud_memory_ops gpud_gpu_memory_ops;
extern const struct gpud_dmabuf_ops gpud_gpu_dmabuf_ops;
extern const struct gpud_queue_ops gpud_gpu_queue_ops;
extern const struct gpud_fence_ops gpud_gpu_fence_ops;
extern const struct gpud_signal_ops gpud_gpu_signal_ops;

/* === api ===================================================================================== */
/* What a vendor calls to open a GPU, and to ask its driver about it. */

/* The granularity of allocations; 0: the driver cannot export any. gpu has its driver and ordinal.
 * Between enter and leave. */
uint64_t gpud_gpu_find_granularity(const struct gpud_gpu *gpu);

/* gpu has its driver, ordinal, context and granularity. On failure nothing is left of it; the
 * caller's own part of the record stays the caller's. Without a granularity the device loses
 * GPUD_CAP_SHARE. */
enum gpud_status gpud_gpu_open(struct gpud_gpu *gpu, struct gpud_device *device,
                               struct gpud_error *error);

/* All queues are gone. false: work is stuck on the device, and its record has to stay. */
bool gpud_gpu_close(struct gpud_gpu *gpu);

/* The uuids of all devices that this one reaches, itself first. */
void gpud_gpu_probe_reach(struct gpud_device *device, int count, bool (*reaches)(int from, int to),
                          bool (*read_uuid)(int ordinal, uint8_t uuid[16]));

/* Fills what the driver says of a way between two of its devices: direct, and if so atomics and
 * rank. false: it does not answer. */
bool gpud_gpu_ask_link(const struct gpud_gpu_driver *driver, int from, int to,
                       struct gpud_device_link *link);

/* As gpud_device_ops.identify; kind: the part of a device's name before the colon. */
bool gpud_gpu_identify(const struct gpud_gpu_driver *driver, const char *kind, const void *pointer,
                       struct gpud_pointer_info *info);

/* === map ===================================================================================== */
/* Physical allocations, and where they are mapped. All calls are made between enter and leave. */

/* Makes record->allocation of record->mapped bytes and maps it. Returns the driver's result. */
int gpud_gpu_create(const struct gpud_gpu *gpu, struct gpud_gpu_memory *record);

/* Undoes either, also for what was imported. */
void gpud_gpu_unmap(const struct gpud_gpu *gpu, const struct gpud_gpu_memory *record);

/* === share =================================================================================== */
/* Shared memory: handles to and from other processes, and host pages pinned for GPUs. */

/* Whether read-only pages can be pinned, tried with one. */
bool gpud_gpu_pins_what_it_reads(struct gpud_gpu *gpu);

/* Pins host memory and gets its GPU address. *pinned is NULL if the application has pinned it.
 * GPUD_UNSUPPORTED: it cannot be pinned. Between enter and leave. */
enum gpud_status gpud_gpu_pin(struct gpud_gpu *gpu, void *data, uint64_t size, bool read_only,
                              struct gpud_pinned **pinned, uint64_t *address);

/* pinned may be NULL. Between enter and leave. */
void gpud_pins_remove(struct gpud_gpu_driver *driver, struct gpud_pinned *pinned);

/* === stream ================================================================================== */
/* A driver's streams: the progress of their work. */

extern const struct gpud_async_ops gpud_gpu_async_ops;

/* Waits until the stream's current work is done. Between enter and leave. */
enum gpud_status gpud_gpu_wait(struct gpud_gpu *gpu, void *stream, int64_t deadline,
                               struct gpud_error *error);

#endif
