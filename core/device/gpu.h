/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is common to vendors whose drivers are alike: streams and events, stream memory operations,
 * physical allocations that are mapped, legacy handles, pinned pages. CUDA is one, HIP another. A
 * vendor's folder has the tables below, one a file, and what is his alone: finding the driver, what
 * a device can do, links, whose a pointer is.
 *
 * Results are the driver's own numbers; 0 is success. Addresses are the GPU's. Why nothing here
 * waits for a stream without a deadline: see async.h. */
#ifndef GPUD_DEVICE_GPU_H
#define GPUD_DEVICE_GPU_H

#include "base/clock.h"
#include "device/async.h"
#include "device/bounce.h"
#include "device/tables.h"

struct gpud_gpu;

/* Streams and events; in a vendor's queue.c. */
struct gpud_gpu_stream_ops {
    /* One that does not wait for others. */
    long (*create)(void **stream);
    void (*destroy)(void *stream);
    long (*query)(void *stream);
    long (*await)(void *stream, void *event);
    long (*create_event)(void **event);
    void (*destroy_event)(void *event);
    long (*record)(void *event, void *stream);
    long (*query_event)(void *event);
    /* on_gpu: both ends are memory of GPUs, and it is one row. */
    long (*copy)(void *stream, const struct gpud_rows *rows, bool on_gpu);
    long (*clear)(void *stream, uint64_t address, uint64_t size);
};

/* Memory of the GPU; in a vendor's memory.c. All but alloc, free and flush_remote only where the
 * GPU's granularity is not 0. */
struct gpud_gpu_memory_ops {
    /* Can be exported by handle only. */
    long (*alloc)(uint64_t *address, uint64_t size);
    void (*free)(uint64_t address);
    /* A physical allocation, which can be exported as a descriptor. */
    long (*create)(struct gpud_gpu *gpu, uint64_t size, uint64_t *allocation);
    void (*release)(uint64_t allocation);
    long (*reserve)(uint64_t *address, uint64_t size);
    void (*unreserve)(uint64_t address, uint64_t size);
    long (*map)(uint64_t address, uint64_t size, uint64_t allocation);
    long (*unmap)(uint64_t address, uint64_t size);
    long (*allow)(struct gpud_gpu *gpu, uint64_t address, uint64_t size, bool read_only);
    /* As the op of that name. */
    enum gpud_status (*flush_remote)(struct gpud_memory *memory, struct gpud_error *error);
};

/* Memory that others see; in a vendor's share.c. */
struct gpud_gpu_share_ops {
    uint32_t fd_type, ipc_type; /* enum gpud_handle_type */
    struct gpud_opens *opens;   /* peers' handles; by gpud_gpu.context */
    struct gpud_pins *pins;
    long (*find_range)(uint64_t address, uint64_t *base, uint64_t *size);
    long (*get_handle)(uint64_t base, void *handle); /* GPUD_OPEN_HANDLE_SIZE bytes */
    long (*export_fd)(uint64_t allocation, int *fd);
    long (*import_fd)(int fd, uint64_t *allocation);
    /* Whether an imported allocation lies on a GPU at all. */
    long (*check_imported)(uint64_t allocation, bool *on_gpu);
    /* Synchronous operations on what was allocated at this address are done when they return, which
     * others are not: a card waits for no stream. not_supported: the driver knows that of no memory
     * of this kind. NULL: there is no such thing. */
    long (*make_synchronous)(uint64_t address, bool *not_supported);
    /* Page aligned; *offset is that of the address in the dma-buf. */
    enum gpud_status (*export_dmabuf)(struct gpud_device *device, uint64_t address, uint64_t size,
                                      int *fd, uint64_t *offset, struct gpud_error *error);
    /* The GPU's address of pinned host memory. */
    long (*find_pinned)(void *host, uint64_t *address);
    /* Pinned pages that every device of the driver reaches by the CPU's own addresses. */
    long (*alloc_host)(void **pages, uint64_t size);
    void (*free_host)(void *pages);
};

/* Stream memory operations on 32-bit words in pinned host pages; in a vendor's signal.c. */
struct gpud_gpu_signal_ops {
    /* After the work before it on the stream, which the whole system sees first. */
    long (*write)(void *stream, uint64_t address, uint32_t value);
    /* What is enqueued later waits for word >= value, which are below 2^31. */
    long (*wait)(void *stream, uint64_t address, uint32_t value);
};

/* In a vendor's api.c. */
struct gpud_gpu_ops {
    const char *vendor;    /* "CUDA": in messages */
    const char *origin;    /* "cuda": of errors */
    const char *allocator; /* "cuMemAlloc": whose memory can be given away by handle */
    long not_ready, no_memory;
    const char *(*error_name)(long result);
    enum gpud_status (*error_status)(long result);
    /* Around all use of the driver by a thread; they nest. */
    void (*enter)(struct gpud_gpu *gpu);
    void (*leave)(struct gpud_gpu *gpu);
    const struct gpud_gpu_stream_ops *stream;
    const struct gpud_gpu_memory_ops *memory;
    const struct gpud_gpu_share_ops *share;
    const struct gpud_gpu_signal_ops *signal;
};

/* Begins a vendor's record of an open device. */
struct gpud_gpu {
    const struct gpud_gpu_ops *ops;
    const void *context;  /* what the driver opens handles in */
    uint64_t granularity; /* of physical allocations; 0: the driver has none that are exported */
    void *service;        /* the stream for work that waits for nobody */
    struct gpud_async async;
    struct gpud_completion_thread completions;
    struct gpud_events events;
    struct gpud_bounces bounces;
    atomic_uint stuck; /* memories that the driver has not cleared in time: until it has, there are
                          no more */
};

enum gpud_gpu_memory_kind {
    GPUD_GPU_PHYSICAL, /* ours, or imported: a physical allocation that is mapped */
    GPUD_GPU_PLAIN,    /* ours: by the allocator */
    GPUD_GPU_IPC,      /* imported by the legacy handle */
    GPUD_GPU_WRAPPED,  /* the application's */
    GPUD_GPU_PINNED,   /* host pages that the driver knows */
    GPUD_GPU_PAGEABLE, /* host memory that it does not: copied from, through pinned pages */
};

struct gpud_gpu_memory {
    enum gpud_gpu_memory_kind kind;
    uint64_t address;           /* of the memory; pageable: 0 */
    uint64_t mapped;            /* physical: bytes of the mapping */
    uint64_t allocation;        /* physical */
    uint64_t base;              /* IPC: of the allocation that was opened */
    struct gpud_pinned *pinned; /* the registration that it shares; NULL: somebody else's */
    bool by_handle;             /* given away by a legacy handle */
    struct gpud_free_after after;
    struct gpud_device *device; /* whose driver is late to clear it, kept open until it has */
};

static inline struct gpud_gpu *gpud_gpu(const struct gpud_device *device)
{
    return device->backend;
}

static inline struct gpud_gpu_memory *gpud_gpu_record(const struct gpud_memory *memory)
{
    return memory->backend;
}

/* What a vendor's gpud_device_ops point to. */
extern const struct gpud_memory_ops gpud_gpu_memory_ops;
extern const struct gpud_queue_ops gpud_gpu_queue_ops;
extern const struct gpud_signal_ops gpud_gpu_signal_ops;

/* --- gpu.c --------------------------------------------------------------------------------- */

/* gpu has its ops, context and granularity. On failure nothing is left of it; the caller's own part
 * of the record stays the caller's. Without a granularity the device loses GPUD_CAP_SHARE. */
enum gpud_status gpud_gpu_open(struct gpud_gpu *gpu, struct gpud_device *device,
                               struct gpud_error *error);
/* All queues are gone. false: work is stuck on the device, and its record has to stay. */
bool gpud_gpu_close(struct gpud_gpu *gpu);

/* The uuids of all devices that this one reaches, itself first. */
void gpud_gpu_probe_reach(struct gpud_device *device, int count, bool (*reaches)(int from, int to),
                          bool (*read_uuid)(int ordinal, uint8_t uuid[16]));

/* Fills *error with the text and the driver's name for the result. The status follows from it. */
enum gpud_status gpud_gpu_fail(const struct gpud_gpu_ops *ops, struct gpud_error *error,
                               long result, const char *format, ...) GPUD_PRINTF(4, 5);

/* The same with the status chosen by the caller: for what a peer's word made the driver say. */
enum gpud_status gpud_gpu_fail_as(const struct gpud_gpu_ops *ops, struct gpud_error *error,
                                  enum gpud_status status, long result, const char *format, ...)
    GPUD_PRINTF(5, 6);

/* --- gpu_memory.c -------------------------------------------------------------------------- */

/* Maps a physical allocation for this GPU: reserve, map, allow. */
enum gpud_status gpud_gpu_map(struct gpud_gpu *gpu, uint64_t allocation, uint64_t size,
                              bool read_only, uint64_t *address, long *result);

/* --- gpu_share.c: handles, and host pages that GPUs see ------------------------------------ */

enum gpud_status gpud_gpu_export(struct gpud_memory *memory, struct gpud_handle *handle,
                                 struct gpud_error *error);
enum gpud_status gpud_gpu_import(struct gpud_memory *memory, const struct gpud_handle *handle,
                                 struct gpud_error *error);
enum gpud_status gpud_gpu_export_dmabuf(struct gpud_memory *memory, uint64_t from, uint64_t bytes,
                                        int *fd, uint64_t *offset, struct gpud_error *error);
enum gpud_status gpud_gpu_before_dma(struct gpud_memory *memory, struct gpud_error *error);
void gpud_gpu_close_ipc(struct gpud_gpu *gpu, uint64_t base);

/* Whether pages that this process may only read can be pinned, tried with one. */
bool gpud_gpu_pins_what_it_reads(struct gpud_gpu *gpu);

/* Host memory as the GPU addresses it. *pinned is NULL where somebody else has pinned it.
 * GPUD_UNSUPPORTED: it cannot be pinned. */
enum gpud_status gpud_gpu_pin(struct gpud_gpu *gpu, void *data, uint64_t size, bool read_only,
                              struct gpud_pinned **pinned, uint64_t *address);

/* --- gpu_queue.c --------------------------------------------------------------------------- */

extern const struct gpud_async_ops gpud_gpu_async_ops;

/* Waits until the stream has passed what is on it now. */
enum gpud_status gpud_gpu_wait(struct gpud_gpu *gpu, void *stream, int64_t deadline,
                               struct gpud_error *error);

#endif
