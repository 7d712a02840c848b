/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of the CUDA backend.
 *
 * A stream may wait for a word that a peer writes, so it may be stuck until the peer's death is
 * noticed. Therefore nothing here waits for a stream without a deadline, and what a driver frees
 * only after all streams are at rest (it waits inside) is freed by the context's `later` worker,
 * after every stream of the device has passed the point at which it was given up. */
#ifndef GPUD_CUDA_CUDA_H
#define GPUD_CUDA_CUDA_H

#include "base/clock.h"
#include "device/cuda/driver.h"
#include "device/device.h"

/* How long the driver may take for work that waits for nobody: zeroing, a copy to the host. */
#define CUDA_SERVICE_TIMEOUT (5 * GPUD_SEC)

/* Freeing what another process has open by a legacy handle is undefined, and nobody tells when that
 * is over: so long a peer has to close it after the link has ended. */
#define CUDA_HANDLE_GRACE (GPUD_SEC / 2)

struct cuda_queue {
    struct cuda_queue *next; /* of the device */
    CUstream stream;
    struct gpud_work end;       /* once it was destroyed, ... */
    struct gpud_device *device; /* ... keeping this open */
    atomic_int failed;          /* the CUresult that ended it; 0: none */
    atomic_uint untold;         /* completions that have not been told yet */
    uint64_t busy_in;           /* the attendant's round in which it was found busy */
};

/* Pinned host memory through which the CPU sees device memory. */
struct cuda_bounce {
    struct cuda_bounce *next;
    void *host;
    uint64_t size;
    CUevent busy; /* a copy that still uses it; NULL: none */
    unsigned access;
    uint64_t offset, length; /* what is mapped */
};

/* Who is told when what is on a queue is done. */
struct cuda_completion {
    struct cuda_completion *next;
    CUevent event;
    struct cuda_queue *queue;
    gpud_complete_fn fn;
    void *arg;
};

#define CUDA_EVENTS_KEPT 64

struct cuda_device {
    CUdevice id;
    CUcontext context;
    struct gpud_context *owner;
    bool vmm, rdma, read_only_pages;
    size_t granularity;
    CUstream service; /* for work that waits for nobody */

    pthread_mutex_t lock;      /* of all that follows; never held where the driver may wait */
    struct cuda_queue *queues; /* those destroyed but not yet at rest included */
    CUevent events[CUDA_EVENTS_KEPT];
    unsigned event_count;
    struct cuda_bounce *idle_bounces, *used_bounces;

    pthread_cond_t wanted;
    pthread_t attendant; /* tells completions */
    bool attended, stopping;
    uint64_t rounds; /* of looking at completions */
    struct cuda_completion *completions, **last_completion;
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
    struct cuda_pinned *pinned; /* the registration that it shares; NULL: somebody else's */
    bool by_handle;             /* given away by a legacy handle */
    int64_t given_up;           /* when its owner had no use for it any more */
    struct gpud_memory *memory; /* while it waits to be freed, */
    struct gpud_work end;       /* by this */
    bool fenced;                /* the fences are complete */
    CUevent *fences;            /* one for each queue that had work then */
    unsigned fence_count;
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
enum gpud_status gpud_cuda_export_dmabuf(struct gpud_memory *memory, int *fd, uint64_t *offset,
                                         struct gpud_error *error);
void gpud_cuda_ipc_close(struct cuda_device *device, CUdeviceptr base);

/* Host memory that begins with a page. *pinned is NULL where somebody else has pinned it already.
 * GPUD_UNSUPPORTED: it cannot be: what shares a page with others must not be pinned behind their
 * backs, the driver refuses copies that are pinned in part. */
enum gpud_status gpud_cuda_pin(struct cuda_device *device, void *data, uint64_t size,
                               bool read_only, struct cuda_pinned **pinned, CUdeviceptr *address);
void gpud_cuda_unpin(struct cuda_pinned *pinned);

/* --- memory.c ------------------------------------------------------------------------------ */

/* Maps a physical allocation for this device: reserve, map, give access. */
enum gpud_status gpud_cuda_map(struct cuda_device *device, CUmemGenericAllocationHandle handle,
                               uint64_t size, bool read_only, CUdeviceptr *address,
                               CUresult *result);

/* --- queue.c ------------------------------------------------------------------------------- */

/* An event that marks what is on the stream now; NULL and *result on failure. Given back with
 * gpud_cuda_event_put(), whatever state it is in. */
CUevent gpud_cuda_mark(struct cuda_device *device, CUstream stream, CUresult *result);
void gpud_cuda_event_put(struct cuda_device *device, CUevent event);

/* How far the work before a mark is: CUDA_ERROR_NOT_READY, CUDA_SUCCESS, or how it failed. */
CUresult gpud_cuda_event_state(CUevent event);

/* Waits until the stream has passed what is on it now. */
enum gpud_status gpud_cuda_wait(struct cuda_device *device, CUstream stream, int64_t deadline,
                                struct gpud_error *error);

/* A pause in a wait that began at `start`: short at first, for what is nearly there. */
void gpud_cuda_pause(int64_t start);

/* Rows from one address to another, under the context. */
CUresult gpud_cuda_copy_rows(CUstream stream, CUdeviceptr to, uint32_t to_stride, CUdeviceptr from,
                             uint32_t from_stride, uint64_t row_bytes, uint32_t rows);

/* --- bounce.c: CPU access to device memory -------------------------------------------------- */

enum gpud_status gpud_cuda_bounce_map(struct gpud_queue *queue, struct gpud_memory *memory,
                                      uint64_t offset, uint64_t size, unsigned access,
                                      int64_t deadline, void **data, struct gpud_error *error);
enum gpud_status gpud_cuda_bounce_unmap(struct gpud_queue *queue, struct gpud_memory *memory,
                                        void *data, struct gpud_error *error);
void gpud_cuda_bounces_free(struct cuda_device *device);

/* Copies from pageable memory: the bytes are taken at once, and go up in the order of the queue.
 * The driver would do the same, but wait for a queue that stands still. */
enum gpud_status gpud_cuda_bounce_copy(struct gpud_queue *queue, const struct gpud_copy *copy,
                                       struct gpud_error *error);

/* --- attendant.c: completions ---------------------------------------------------------------- */

enum gpud_status gpud_cuda_on_complete(struct gpud_queue *queue, gpud_complete_fn fn, void *arg,
                                       struct gpud_error *error);

/* Ends the thread; false: some completions are still outstanding. */
bool gpud_cuda_attendant_finish(struct cuda_device *device);

#endif
