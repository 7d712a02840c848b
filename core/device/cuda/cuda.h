/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of the CUDA backend. Why nothing here waits for a stream without a deadline: see
 * device/async.h. */
#ifndef GPUD_CUDA_CUDA_H
#define GPUD_CUDA_CUDA_H

#include "base/clock.h"
#include "device/async.h"
#include "device/bounce.h"
#include "device/cuda/driver.h"
#include "device/tables.h"

/* How long the driver may take for work that depends on nobody else, as zeroing. */
#define CUDA_SERVICE_TIMEOUT (5 * GPUD_SEC)

/* Freeing memory that another process has open by a legacy handle is undefined, and nothing says
 * when it was closed: a peer has this long after the end of the link. */
#define CUDA_HANDLE_GRACE (GPUD_SEC / 2)

struct cuda_queue {
    struct gpud_async_queue async;
    CUstream stream;
};

struct cuda_device {
    CUdevice id;
    CUcontext context;
    bool vmm, rdma;
    bool writes_ordered; /* those of others, over the bus: seen here in their order */
    bool can_flush;      /* else they can be waited for */
    size_t granularity;
    CUstream service; /* for work that waits for nobody */
    struct gpud_async async;
    struct gpud_completion_thread completions;
    struct gpud_events events;
    struct gpud_bounces bounces;
};

enum cuda_memory_kind {
    CUDA_MEMORY_VMM,      /* ours, or imported: a physical allocation that is mapped */
    CUDA_MEMORY_PLAIN,    /* ours: cuMemAlloc */
    CUDA_MEMORY_IPC,      /* imported by the legacy handle */
    CUDA_MEMORY_WRAPPED,  /* the application's */
    CUDA_MEMORY_PINNED,   /* host pages that the driver knows */
    CUDA_MEMORY_PAGEABLE, /* host memory that it does not: copied from, through pinned pages */
};

struct cuda_memory {
    enum cuda_memory_kind kind;
    CUdeviceptr address; /* of the memory; pageable: 0 */
    uint64_t mapped;     /* VMM: bytes of the mapping */
    CUmemGenericAllocationHandle handle;
    CUdeviceptr base;           /* IPC: of the allocation that was opened */
    struct gpud_pinned *pinned; /* the registration that it shares; NULL: somebody else's */
    bool by_handle;             /* given away by a legacy handle */
    struct gpud_free_after after;
};

static inline struct cuda_device *gpud_cuda_device(const struct gpud_device *device)
{
    return device->backend;
}

static inline CUstream gpud_cuda_stream(const struct gpud_queue *queue)
{
    return queue->native;
}

static inline CUdeviceptr gpud_cuda_address(const struct gpud_memory *memory)
{
    return ((const struct cuda_memory *)memory->backend)->address;
}

extern const struct gpud_memory_ops gpud_cuda_memory_ops;
extern const struct gpud_queue_ops gpud_cuda_queue_ops;
extern const struct gpud_signal_ops gpud_cuda_signal_ops;

/* --- api.c --------------------------------------------------------------------------------- */

/* The driver's functions; NULL where there is no driver. */
const struct cuda_driver *gpud_cuda_driver(void);

/* The same inside the backend, once a device is open. */
extern struct cuda_driver gpud_cu;

/* Fills *error with the text and the driver's name for the result. The status follows from it. */
enum gpud_status gpud_cuda_fail(struct gpud_error *error, CUresult result, const char *format, ...)
    GPUD_PRINTF(3, 4);

/* The same with the status chosen by the caller: for what a peer's word made the driver say. */
enum gpud_status gpud_cuda_fail_as(struct gpud_error *error, enum gpud_status status,
                                   CUresult result, const char *format, ...) GPUD_PRINTF(4, 5);

/* Around every use of the driver: the primary context on the thread's stack. */
void gpud_cuda_enter(const struct cuda_device *device);
void gpud_cuda_leave(void);

/* --- identify.c ---------------------------------------------------------------------------- */

bool gpud_cuda_identify(const void *pointer, struct gpud_pointer_info *info);

/* A device was opened; NULL: it is about to be closed. */
void gpud_cuda_identify_by(CUdevice ordinal, CUcontext context);

/* --- link.c -------------------------------------------------------------------------------- */

void gpud_cuda_link(const struct gpud_device *from, const struct gpud_device *to,
                    struct gpud_device_link *link);

/* What the slot and the GPU can do with the host's memory, in MB/s; 0: nobody says. */
uint32_t gpud_cuda_host_rate(const struct gpud_device *device);

/* --- share.c: handles, and the tables of what the driver opens and pins once only ----------- */

enum gpud_status gpud_cuda_export(struct gpud_memory *memory, struct gpud_handle *handle,
                                  struct gpud_error *error);
enum gpud_status gpud_cuda_import(struct gpud_memory *memory, const struct gpud_handle *handle,
                                  struct gpud_error *error);
enum gpud_status gpud_cuda_export_dmabuf(struct gpud_memory *memory, uint64_t from, uint64_t bytes,
                                         int *fd, uint64_t *offset, struct gpud_error *error);
void gpud_cuda_ipc_close(struct cuda_device *device, CUdeviceptr base);

/* Host memory as the device addresses it. *pinned is NULL where somebody else has pinned it.
 * GPUD_UNSUPPORTED: it cannot be pinned. */
enum gpud_status gpud_cuda_pin(void *data, uint64_t size, bool read_only,
                               struct gpud_pinned **pinned, CUdeviceptr *address);
void gpud_cuda_unpin(struct gpud_pinned *pinned);

/* --- memory.c ------------------------------------------------------------------------------ */

/* Maps a physical allocation for this device: reserve, map, give access. */
enum gpud_status gpud_cuda_map(struct cuda_device *device, CUmemGenericAllocationHandle handle,
                               uint64_t size, bool read_only, CUdeviceptr *address,
                               CUresult *result);

/* --- queue.c ------------------------------------------------------------------------------- */

extern const struct gpud_async_ops gpud_cuda_async_ops;
extern const struct gpud_bounce_ops gpud_cuda_bounce_ops;

long gpud_cuda_event_create(void **event);
void gpud_cuda_event_destroy(void *event);

/* Waits until the stream has passed what is on it now. */
enum gpud_status gpud_cuda_wait(struct cuda_device *device, CUstream stream, int64_t deadline,
                                struct gpud_error *error);

#endif
