/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of the OpenCL backend.
 *
 * clFinish, clWaitForEvents and, in some drivers, releasing a queue wait without a deadline. None
 * of them is used on work that may be stuck: waits are event callbacks with a deadline, and a busy
 * queue that is destroyed is kept until it is idle. */
#ifndef GPUD_DEVICE_OPENCL_OPENCL_H
#define GPUD_DEVICE_OPENCL_OPENCL_H

#include "base/base.h"
#include "device/device.h"

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#endif
#include <CL/cl.h>
#include <CL/cl_ext.h>

/* --- cl_amd_bus_addressable_memory: declared by AMD's own headers only --------------------- */

#ifndef CL_MEM_BUS_ADDRESSABLE_AMD
#define CL_MEM_BUS_ADDRESSABLE_AMD ((cl_mem_flags)1 << 30)
#define CL_MEM_EXTERNAL_PHYSICAL_AMD ((cl_mem_flags)1 << 31)
#endif

/* cl_bus_address_amd */
struct opencl_bus_address {
    cl_ulong surface;
    cl_ulong marker;
};

/* The extension's functions; all NULL where it is missing or failed the test at open. */
struct opencl_amd {
    cl_int(CL_API_CALL *wait_signal)(cl_command_queue queue, cl_mem memory, cl_uint value,
                                     cl_uint events, const cl_event *after, cl_event *event);
    cl_int(CL_API_CALL *write_signal)(cl_command_queue queue, cl_mem memory, cl_uint value,
                                      cl_ulong offset, cl_uint events, const cl_event *after,
                                      cl_event *event);
    cl_int(CL_API_CALL *make_resident)(cl_command_queue queue, cl_uint count, cl_mem *memories,
                                       cl_bool blocking, struct opencl_bus_address *addresses,
                                       cl_uint events, const cl_event *after, cl_event *event);
};

/* --- cl_khr_external_memory: not in headers before 2021 ------------------------------------- */

#ifndef CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR
#define CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR 0x204F
#endif

#ifndef CL_MEM_DEVICE_HANDLE_LIST_KHR /* an older name: CL_DEVICE_HANDLE_LIST_KHR */
#define CL_MEM_DEVICE_HANDLE_LIST_KHR 0x2051
#define CL_MEM_DEVICE_HANDLE_LIST_END_KHR 0
#endif

#ifndef CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR
#define CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR 0x2060
#endif

#ifndef CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR
#define CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR 0x2067
#endif

/* clEnqueueAcquireExternalMemObjectsKHR, and …Release… */
typedef cl_int(CL_API_CALL *opencl_hand_over)(cl_command_queue queue, cl_uint count,
                                              const cl_mem *memories, cl_uint events,
                                              const cl_event *after, cl_event *event);

/* The extension's abilities; all 0 if it is missing. */
struct opencl_external {
    bool opaque_fd, dma_buf; /* the kinds of descriptors that the device imports */
    opencl_hand_over acquire, release;
};

/* The unit that bus addresses are mapped in; the marker is addressed by its page and an offset into
 * it. */
#define OPENCL_PAGE UINT64_C(4096)

/* How long the driver may take for work that depends on no peer: zeroing, residency, mapping a
 * peer's address. */
#define OPENCL_SERVICE_TIMEOUT (5 * GPUD_SEC)

/* --- the records behind the public objects ------------------------------------------------- */

/* Frames are mapped and released from any thread, so several may use a queue at once. The lock is
 * held while a command is enqueued, never during a completion or a wait. */
struct opencl_queue {
    struct gpud_async_queue async;
    cl_command_queue queue; /* in-order */
    struct gpud_lock lock;  /* for the fields below */
    cl_event last;          /* of the latest command; NULL: there was none */
};

struct opencl_device {
    cl_device_id id;
    cl_context context;
    struct opencl_amd amd;
    struct opencl_external external;
    struct gpud_lock external_lock; /* for used and bounces; taken under a queue's lock */
    struct opencl_queue *service;   /* never waits for a signal, so that poison always works */
    struct gpud_async async;        /* all other queues */
};

struct opencl_memory {
    cl_mem memory; /* NULL: host memory, which has none */
    cl_mem view;   /* of our own TARGET memory, as a peer sees it; needed to write the marker */
    struct opencl_bus_address bus; /* TARGET memory, own and imported */
    bool external;                 /* another driver's, imported */
    cl_event used;                 /* external: its latest release, on any queue; NULL: none */
    struct opencl_bounce *bounces; /* external: copies for the CPU */
    struct gpud_free_after after;
};

static inline struct opencl_device *gpud_opencl_device(const struct gpud_device *device)
{
    return device->backend;
}

static inline struct opencl_memory *gpud_opencl_record(const struct gpud_memory *memory)
{
    return memory->backend;
}

extern const struct gpud_memory_ops gpud_opencl_memory_ops;
extern const struct gpud_queue_ops gpud_opencl_queue_ops;
extern const struct gpud_fence_ops gpud_opencl_fence_ops;
extern const struct gpud_signal_ops gpud_opencl_signal_ops;

/* --- device.c --------------------------------------------------------------------------------- */

/* Fills *error with the text and the name of the OpenCL error. The status follows from the code. */
enum gpud_status gpud_opencl_fail(struct gpud_error *error, cl_int code, const char *format, ...)
    GPUD_PRINTF(3, 4);

/* The same with a given status: for errors that a peer's data caused. */
enum gpud_status gpud_opencl_fail_as(struct gpud_error *error, enum gpud_status status, cl_int code,
                                     const char *format, ...) GPUD_PRINTF(4, 5);

/* --- memory.c ------------------------------------------------------------------------------ */

/* Frees what the ops made, for a memory that was never handed out. */
void gpud_opencl_memory_undo(struct gpud_device *device, void *record);

/* Frees its copies for the CPU, which no command uses any more. */
void gpud_opencl_free_bounces(struct opencl_memory *memory);

/* --- queue.c --------------------------------------------------------------------------------- */

/* CL_COMPLETE, a state before it (positive), or the command's error (negative). */
cl_int gpud_opencl_state(cl_event event);

/* As gpud_device_ops.migrate. */
enum gpud_status gpud_opencl_migrate(struct gpud_queue *queue, struct gpud_memory *memory,
                                     struct gpud_queue *after, bool discard,
                                     struct gpud_error *error);

extern const struct gpud_async_ops gpud_opencl_async_ops;

/* Not in the device's list yet. */
enum gpud_status gpud_opencl_queue_new(struct opencl_device *device, struct opencl_queue **queue,
                                       struct gpud_error *error);
void gpud_opencl_queue_free(struct opencl_queue *queue);

/* Enclose enqueueing a command. begin: GPUD_IO if a command on the queue has failed, after which it
 * accepts no more work; on GPUD_OK the lock is held. end: event, of the command, becomes the
 * queue's latest (NULL: the driver refused it). */
enum gpud_status gpud_opencl_queue_begin(struct opencl_queue *queue, struct gpud_error *error);
void gpud_opencl_queue_end(struct opencl_queue *queue, cl_event event);

/* Whether all its commands are done. */
bool gpud_opencl_queue_idle(struct opencl_queue *queue);

/* Starts a command that was enqueued on the service queue, waits for its event and releases that.
 * what completes "the driver failed to …". */
enum gpud_status gpud_opencl_serve(struct opencl_device *device, cl_event event, const char *what,
                                   struct gpud_error *error);

#endif
