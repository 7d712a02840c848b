/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Queues of OpenCL: commands, events and fences; the use of another driver's memory, and the
 * markers of DirectGMA. */
#include "device/opencl/opencl.h"

#include "base/base.h"

#include <stdlib.h>

/* === event =================================================================================== */
/* Waits for an event with a deadline, which OpenCL itself does not offer. */

/* Some drivers (PoCL 3.1) call back for success only: failures have to be polled for. */
#define LOOK_AGAIN (100 * GPUD_MSEC)

/* Shared by the waiting thread and the driver's callback; the last to drop it frees it. */
struct wake {
    _Atomic uint32_t done;
    atomic_uint references;
};

static void wake_unref(struct wake *wake)
{
    if (atomic_fetch_sub_explicit(&wake->references, 1, memory_order_acq_rel) == 1)
        free(wake);
}

static void CL_CALLBACK wake_up(cl_event event, cl_int code, void *arg)
{
    struct wake *wake = arg;
    atomic_store_explicit(&wake->done, 1, memory_order_release);
    gpud_futex_wake(&wake->done);
    wake_unref(wake);
}

cl_int gpud_opencl_state(cl_event event)
{
    cl_int state = CL_INVALID_EVENT;
    cl_int code =
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(state), &state, NULL);
    return code == CL_SUCCESS ? state : code;
}

/* As an error code -1 is CL_DEVICE_NOT_FOUND; as the state of a command it means that the driver
 * gives no reason. */
static enum gpud_status opencl_say_failed(cl_int state, struct gpud_error *error)
{
    if (state == -1)
        return gpud_fail_native(error, GPUD_IO, "opencl", state,
                                "the queue failed, and its driver does not say why (-1)");
    return gpud_opencl_fail_as(error, GPUD_IO, state, "the queue failed");
}

/* The event's command has been flushed. GPUD_TIMEOUT changes nothing. */
static enum gpud_status opencl_wait(cl_event event, int64_t deadline, struct gpud_error *error)
{
    cl_int state = gpud_opencl_state(event);
    if (state > CL_COMPLETE && gpud_now() < deadline) {
        struct wake *wake = malloc(sizeof(*wake));
        if (!wake)
            return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to wait for a queue");
        atomic_init(&wake->done, 0);
        atomic_init(&wake->references, 2);
        cl_int code = clSetEventCallback(event, CL_COMPLETE, wake_up, wake);
        if (code != CL_SUCCESS) {
            free(wake);
            return gpud_opencl_fail(error, code, "the driver cannot tell when a queue is done");
        }
        while ((state = gpud_opencl_state(event)) > CL_COMPLETE && gpud_now() < deadline) {
            int64_t look = gpud_deadline(LOOK_AGAIN);
            gpud_futex_wait(&wake->done, 0, look < deadline ? look : deadline);
            if (atomic_load_explicit(&wake->done, memory_order_acquire))
                break;
        }
        state = gpud_opencl_state(event);
        if (atomic_load_explicit(&wake->done, memory_order_acquire) && state > CL_COMPLETE)
            state =
                CL_COMPLETE; /* the callback says so; the event's state may follow a moment later */
        wake_unref(wake);
    }
    if (state < 0)
        return opencl_say_failed(state, error);
    if (state > CL_COMPLETE)
        return gpud_fail(error, GPUD_TIMEOUT, "the queue was not done by the deadline");
    return GPUD_OK;
}

/* Makes a command wait for the one before it. In-order queues do so anyway, but only an event
 * passes a failure on, so that the last command's state covers all before it. */
#define OPENCL_AFTER(queue) (queue)->last ? 1 : 0, (queue)->last ? &(queue)->last : NULL

/* === command ================================================================================= */
/* A command queue as the backend uses it: commands in order, and waits with deadlines. */

enum gpud_status gpud_opencl_queue_new(struct opencl_device *device, struct opencl_queue **queue,
                                       struct gpud_error *error)
{
    struct opencl_queue *made = calloc(1, sizeof(*made));
    if (made)
        made->async.completions =
            gpud_completions_create(&gpud_opencl_async_ops, device->async.device, NULL);
    if (!made || !made->async.completions) {
        free(made);
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a queue");
    }
    cl_int code;
    made->queue = clCreateCommandQueue(device->context, device->id, 0, &code);
    if (!made->queue) {
        gpud_completions_unref(made->async.completions);
        free(made);
        return gpud_opencl_fail(error, code, "no command queue");
    }
    made->async.handle = made;
    gpud_lock_init(&made->lock, GPUD_RANK_COMMANDS);
    *queue = made;
    return GPUD_OK;
}

static cl_int state_of_last(struct opencl_queue *queue)
{
    gpud_lock_take(&queue->lock);
    cl_int state = queue->last ? gpud_opencl_state(queue->last) : CL_COMPLETE;
    gpud_lock_release(&queue->lock);
    return state;
}

bool gpud_opencl_queue_idle(struct opencl_queue *queue)
{
    return state_of_last(queue) <= CL_COMPLETE;
}

static void release_queue(struct opencl_queue *queue)
{
    if (queue->last)
        clReleaseEvent(queue->last);
    clReleaseCommandQueue(queue->queue);
    gpud_lock_destroy(&queue->lock);
    free(queue);
}

void gpud_opencl_queue_free(struct opencl_queue *queue)
{
    gpud_completions_unref(queue->async.completions);
    release_queue(queue);
}

/* Whether this thread is a driver's, inside a callback. */
static _Thread_local bool in_callback;

/* A completion may destroy its own queue, and a driver that releases a queue in its own thread may
 * wait for itself. */
static void opencl_queue_retire(struct opencl_queue *queue)
{
    if (!queue)
        return;
    clFlush(queue->queue);
    gpud_async_retire(&queue->async, !in_callback);
}

/* --- queries of the shared parts ----------------------------------------------------------- */

static void nothing_to_enter(struct gpud_device *device)
{
}

static enum gpud_progress progress(cl_int state, long *result)
{
    *result = state;
    return state < 0             ? GPUD_PROGRESS_FAILED
           : state > CL_COMPLETE ? GPUD_PROGRESS_BUSY
                                 : GPUD_PROGRESS_DONE;
}

static enum gpud_progress mark_queue(struct gpud_device *device, void *handle, void **event)
{
    struct opencl_queue *queue = handle;
    enum gpud_progress marked = GPUD_PROGRESS_DONE;
    gpud_lock_take(&queue->lock);
    if (queue->last && gpud_opencl_state(queue->last) > CL_COMPLETE) {
        clRetainEvent(queue->last);
        *event = queue->last;
        marked = GPUD_PROGRESS_BUSY;
    }
    gpud_lock_release(&queue->lock);
    if (marked == GPUD_PROGRESS_BUSY)
        clFlush(queue->queue); /* it may not be flushed otherwise */
    return marked;
}

static enum gpud_progress opencl_queue_query_event(struct gpud_device *device, void *event,
                                                   long *result)
{
    return progress(gpud_opencl_state(event), result);
}

static void opencl_queue_drop_event(struct gpud_device *device, void *event)
{
    clReleaseEvent(event);
}

static enum gpud_progress query_queue(struct gpud_device *device, void *handle, long *result)
{
    return progress(state_of_last(handle), result);
}

static void opencl_queue_release(struct gpud_async_queue *async)
{
    release_queue((struct opencl_queue *)async);
}

const struct gpud_async_ops gpud_opencl_async_ops = {
    .enter = nothing_to_enter,
    .leave = nothing_to_enter,
    .mark = mark_queue,
    .query = opencl_queue_query_event,
    .drop = opencl_queue_drop_event,
    .state = query_queue,
    .release = opencl_queue_release,
};

/* --- commands ------------------------------------------------------------------------------ */

static enum gpud_status start_queue(struct opencl_queue *queue, struct gpud_error *error)
{
    cl_int code = clFlush(queue->queue);
    return code == CL_SUCCESS ? GPUD_OK
                              : gpud_opencl_fail(error, code, "the queue cannot be started");
}

/* Some drivers run work after a failed command, so a failed queue accepts no more. */
enum gpud_status gpud_opencl_queue_begin(struct opencl_queue *queue, struct gpud_error *error)
{
    gpud_lock_take(&queue->lock);
    cl_int state = queue->last ? gpud_opencl_state(queue->last) : CL_COMPLETE;
    if (state >= CL_COMPLETE)
        return GPUD_OK;
    gpud_lock_release(&queue->lock);
    gpud_completions_fail(queue->async.completions);
    return opencl_say_failed(state, error);
}

void gpud_opencl_queue_end(struct opencl_queue *queue, cl_event event)
{
    cl_event before = NULL;
    if (event) {
        before = queue->last;
        queue->last = event;
    }
    gpud_lock_release(&queue->lock);
    if (before)
        clReleaseEvent(before);
}

/* As end, for a command that others follow: keeps the lock. */
static void opencl_queue_push(struct opencl_queue *queue, cl_event event)
{
    if (queue->last)
        clReleaseEvent(queue->last);
    queue->last = event;
}

/* A reference on the latest command's event; NULL: none. */
static cl_event opencl_queue_last(struct opencl_queue *queue)
{
    gpud_lock_take(&queue->lock);
    cl_event last = queue->last;
    if (last)
        clRetainEvent(last);
    gpud_lock_release(&queue->lock);
    return last;
}

/* Starts everything, waits for one command of it, and drops the reference on its event. */
static enum gpud_status opencl_finish_command(struct opencl_queue *queue, cl_event event,
                                              int64_t deadline, struct gpud_error *error)
{
    enum gpud_status status = start_queue(queue, error);
    if (status == GPUD_OK)
        status = opencl_wait(event, deadline, error);
    clReleaseEvent(event);
    /* Some drivers call back for success only. */
    if (status == GPUD_IO)
        gpud_completions_fail(queue->async.completions);
    return status;
}

/* Starts everything and waits for it until the deadline. GPUD_IO, with the error's name, if
 * something failed. */
static enum gpud_status finish_queue(struct opencl_queue *queue, int64_t deadline,
                                     struct gpud_error *error)
{
    cl_event last = opencl_queue_last(queue);
    return last ? opencl_finish_command(queue, last, deadline, error) : GPUD_OK;
}

static void CL_CALLBACK opencl_queue_complete(cl_event event, cl_int code, void *completion)
{
    bool nested = in_callback;
    in_callback = true;
    gpud_completion_done(completion, code < 0);
    in_callback = nested;
}

/* Added under the queue's lock, to keep the order of the commands. The callback is set without it:
 * it may run at once, on this thread. */
static enum gpud_status opencl_queue_on_complete(struct gpud_queue *queue, gpud_complete_fn fn,
                                                 void *arg, struct gpud_error *error)
{
    struct opencl_queue *opencl = queue->backend;
    struct gpud_completion *completion = NULL;
    enum gpud_status status = start_queue(opencl, error);
    if (status != GPUD_OK)
        return status;
    gpud_lock_take(&opencl->lock);
    cl_event event = opencl->last;
    if (event) {
        clRetainEvent(event); /* the completion's */
        clRetainEvent(event);
        status =
            gpud_completions_add(opencl->async.completions, event, fn, arg, &completion, error);
    }
    gpud_lock_release(&opencl->lock);
    if (!event) {
        fn(arg, GPUD_OK);
        return GPUD_OK;
    }
    if (status == GPUD_OK) {
        cl_int code = clSetEventCallback(event, CL_COMPLETE, opencl_queue_complete, completion);
        if (code != CL_SUCCESS && gpud_completion_withdraw(completion))
            status = gpud_opencl_fail(error, code, "the driver cannot tell when a queue is done");
    } else {
        clReleaseEvent(event);
    }
    clReleaseEvent(event);
    return status;
}

enum gpud_status gpud_opencl_serve(struct opencl_device *device, cl_event event, const char *what,
                                   struct gpud_error *error)
{
    struct gpud_error why = {0};
    enum gpud_status status = start_queue(device->service, &why);
    if (status == GPUD_OK)
        status = opencl_wait(event, gpud_deadline(OPENCL_SERVICE_TIMEOUT), &why);
    if (status == GPUD_TIMEOUT) {
        /* Kept, so that closing the device sees that the driver hangs. */
        gpud_lock_take(&device->service->lock);
        gpud_opencl_queue_end(device->service, event);
        return gpud_fail(error, GPUD_IO, "the driver failed to %s within %d s", what,
                         (int)(OPENCL_SERVICE_TIMEOUT / GPUD_SEC));
    }
    clReleaseEvent(event);
    if (status == GPUD_OK)
        return GPUD_OK;
    return gpud_fail_native(error, status, why.origin, why.native, "the driver failed to %s: %s",
                            what, why.reason);
}

/* === external ================================================================================ */
/* Memory of the same GPU that another driver made, behind a descriptor: cl_khr_external_memory,
 * which imports and does not export.
 *
 * Between an acquire and the release after it the memory is OpenCL's: the acquire makes what the
 * other driver has written visible, the release what OpenCL has. Every command has an acquire
 * before it and a release behind it, and those of one memory run in the order in which they were
 * enqueued, also on several queues: no release overtakes a command. Ownership is of the whole
 * buffer, where the other driver may write one slot while OpenCL reads another: words in the ring
 * page keep the two apart.
 *
 * CPU access is a copy to host memory, and one back. A mapping would be a use without a bound; on
 * an H200 (NVIDIA's 580) one hung when it overlapped another of the buffer and a second queue read
 * it, and large ones got 1 GB/s where copies get 12.
 *
 * That driver hangs, too, where such memory is used behind a user event that is not set yet: tests
 * hold queues so. Of the library's own queues only those that the software DirectGMA serves have
 * any.
 *
 * No queue waits for the other driver's. Semaphores (cl_khr_external_semaphore) do not help: CUDA
 * and NVIDIA's OpenCL (580) both import them, and neither exports any. Nor could the CPU end a wait
 * for a writer that died. The host hands frames over, when the writer's queue is done. */

/* --- acquire and release ------------------------------------------------------------------- */

static bool is_external(const struct opencl_memory *memory)
{
    return memory && memory->external;
}

static bool concerns(struct opencl_memory *const memories[2])
{
    return is_external(memories[0]) || is_external(memories[1]);
}

/* Enqueues one of the two commands, after all uses of the memory on any queue. */
static cl_int go_behind(opencl_hand_over command, struct opencl_queue *queue,
                        struct opencl_memory *memory)
{
    cl_event after[2], event = NULL;
    cl_uint count = 0;
    if (queue->last)
        after[count++] = queue->last;
    if (memory->used && memory->used != queue->last) {
        /* Waiting for an event has no effect unless the queue of its command is flushed. */
        cl_command_queue earlier = NULL;
        if (clGetEventInfo(memory->used, CL_EVENT_COMMAND_QUEUE, sizeof(earlier), &earlier, NULL) ==
                CL_SUCCESS &&
            earlier)
            clFlush(earlier);
        after[count++] = memory->used;
    }
    cl_int code = command(queue->queue, 1, &memory->memory, count, count ? after : NULL, &event);
    if (code != CL_SUCCESS)
        return code;
    opencl_queue_push(queue, event);
    if (memory->used)
        clReleaseEvent(memory->used);
    clRetainEvent(event);
    memory->used = event;
    return CL_SUCCESS;
}

/* Acquires or releases the memories, one after the other. */
static cl_int opencl_memory_hand_over(opencl_hand_over command, struct opencl_queue *queue,
                                      struct opencl_memory *const memories[2])
{
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < 2; i++) {
        cl_int one = is_external(memories[i]) ? go_behind(command, queue, memories[i]) : CL_SUCCESS;
        code = code == CL_SUCCESS ? one : code;
    }
    return code;
}

/* Enclose the command that uses these memories (one of them may be NULL), under the queue's lock:
 * another driver's memory is acquired before and released after; others cost nothing. Call end even
 * if begin fails. */
static cl_int begin_use(struct opencl_device *device, struct opencl_queue *queue,
                        struct opencl_memory *const memories[2])
{
    if (!concerns(memories))
        return CL_SUCCESS;
    gpud_lock_take(&device->external_lock);
    return opencl_memory_hand_over(device->external.acquire, queue, memories);
}

static cl_int end_use(struct opencl_device *device, struct opencl_queue *queue,
                      struct opencl_memory *const memories[2])
{
    if (!concerns(memories))
        return CL_SUCCESS;
    cl_int code = opencl_memory_hand_over(device->external.release, queue, memories);
    gpud_lock_release(&device->external_lock);
    return code;
}

/* --- CPU access ---------------------------------------------------------------------------- */

struct opencl_bounce {
    struct opencl_bounce *next;
    void *data;
    uint64_t room, offset, size;
    bool mapped, written;
    cl_event busy; /* the latest command that reads or writes data; NULL: none */
};

void gpud_opencl_free_bounces(struct opencl_memory *memory)
{
    while (memory->bounces) {
        struct opencl_bounce *gone = memory->bounces;
        memory->bounces = gone->next;
        if (gone->busy)
            clReleaseEvent(gone->busy);
        free(gone->data);
        free(gone);
    }
}

/* Takes host memory of that size that no command uses any more; NULL: no such memory. */
static struct opencl_bounce *take_bounce(struct opencl_device *device, struct opencl_memory *memory,
                                         uint64_t size)
{
    gpud_lock_take(&device->external_lock);
    struct opencl_bounce *bounce = memory->bounces;
    while (bounce && (bounce->mapped || bounce->room < size ||
                      (bounce->busy && gpud_opencl_state(bounce->busy) > CL_COMPLETE)))
        bounce = bounce->next;
    if (!bounce && (bounce = calloc(1, sizeof(*bounce)))) {
        bounce->room = (size + OPENCL_PAGE - 1) / OPENCL_PAGE * OPENCL_PAGE;
        bounce->data = aligned_alloc(OPENCL_PAGE, bounce->room);
        if (bounce->data) {
            bounce->next = memory->bounces;
            memory->bounces = bounce;
        } else {
            free(bounce);
            bounce = NULL;
        }
    }
    if (bounce)
        bounce->mapped = true;
    gpud_lock_release(&device->external_lock);
    return bounce;
}

static void put_bounce(struct opencl_device *device, struct opencl_bounce *bounce)
{
    gpud_lock_take(&device->external_lock);
    bounce->mapped = false;
    gpud_lock_release(&device->external_lock);
}

/* Enqueues a copy to the host, or from it. */
static enum gpud_status transfer(struct opencl_queue *queue, struct gpud_memory *memory,
                                 struct opencl_bounce *bounce, bool to_host,
                                 struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(memory->device);
    struct opencl_memory *const memories[2] = {gpud_opencl_record(memory)};
    enum gpud_status status = gpud_opencl_queue_begin(queue, error);
    if (status != GPUD_OK)
        return status;
    cl_event event = NULL;
    cl_int code = begin_use(device, queue, memories);
    if (code == CL_SUCCESS)
        code =
            to_host
                ? clEnqueueReadBuffer(queue->queue, memories[0]->memory, CL_FALSE, bounce->offset,
                                      bounce->size, bounce->data, OPENCL_AFTER(queue), &event)
                : clEnqueueWriteBuffer(queue->queue, memories[0]->memory, CL_FALSE, bounce->offset,
                                       bounce->size, bounce->data, OPENCL_AFTER(queue), &event);
    if (event)
        opencl_queue_push(queue, event);
    cl_int ended = end_use(device, queue, memories);
    code = code == CL_SUCCESS ? ended : code;
    if (event) {
        if (bounce->busy)
            clReleaseEvent(bounce->busy);
        clRetainEvent(queue->last);
        bounce->busy = queue->last;
    }
    gpud_opencl_queue_end(queue, NULL);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail(error, code, "%s cannot copy %llu bytes %s the host",
                                memory->device->info.name, (unsigned long long)bounce->size,
                                to_host ? "to" : "from");
    return start_queue(queue, error);
}

/* map and unmap for it. */
static enum gpud_status map_external(struct opencl_queue *queue, struct gpud_memory *memory,
                                     uint64_t offset, uint64_t size, unsigned access,
                                     int64_t deadline, void **data, struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(memory->device);
    struct opencl_bounce *bounce = take_bounce(device, gpud_opencl_record(memory), size);
    enum gpud_status status = GPUD_OK;
    if (!bounce)
        return gpud_fail(error, GPUD_NO_MEMORY, "no %llu bytes of host memory to map a frame in",
                         (unsigned long long)size);
    bounce->offset = offset;
    bounce->size = size;
    bounce->written = access & GPUD_WRITE;
    if (access & GPUD_READ) {
        status = transfer(queue, memory, bounce, true, error);
        if (status == GPUD_OK)
            status = finish_queue(queue, deadline, error);
    }
    if (status == GPUD_OK)
        *data = bounce->data;
    else
        put_bounce(device, bounce);
    return status;
}

static enum gpud_status unmap_external(struct opencl_queue *queue, struct gpud_memory *memory,
                                       void *data, struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(memory->device);
    gpud_lock_take(&device->external_lock);
    struct opencl_bounce *bounce = gpud_opencl_record(memory)->bounces;
    while (bounce && !(bounce->mapped && bounce->data == data))
        bounce = bounce->next;
    gpud_lock_release(&device->external_lock);
    if (!bounce)
        return GPUD_OK;
    enum gpud_status status = GPUD_OK;
    if (bounce->written)
        status = transfer(queue, memory, bounce, false, error);
    put_bounce(device, bounce);
    return status;
}

/* === queue =================================================================================== */
/* The ops of OpenCL's in-order command queues: copies, moves and CPU access. */

static enum gpud_status opencl_queue_create(struct gpud_queue *queue, struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(queue->device);
    struct opencl_queue *made = NULL;
    enum gpud_status status = gpud_opencl_queue_new(device, &made, error);
    if (status != GPUD_OK)
        return status;
    gpud_async_add(&device->async, &made->async);
    queue->backend = made;
    return GPUD_OK;
}

static void opencl_queue_destroy(struct gpud_queue *queue)
{
    opencl_queue_retire(queue->backend);
}

/* NULL for wrapped host memory. */
static cl_mem cl_mem_of(const struct gpud_memory *memory)
{
    return gpud_opencl_record(memory)->memory;
}

/* Memory behind a peer's bus address can only be written. */
static bool is_write_only(const struct gpud_memory *memory)
{
    return memory->imported && !gpud_opencl_record(memory)->external;
}

static cl_int copy_linear(struct opencl_queue *queue, const struct gpud_copy *copy, cl_event *event)
{
    cl_mem to = cl_mem_of(copy->to), from = cl_mem_of(copy->from);
    size_t size = copy->row_bytes * copy->rows;
    if (to && from)
        return clEnqueueCopyBuffer(queue->queue, from, to, copy->from_offset, copy->to_offset, size,
                                   OPENCL_AFTER(queue), event);
    if (to)
        return clEnqueueWriteBuffer(queue->queue, to, CL_FALSE, copy->to_offset, size,
                                    (const char *)copy->from->host + copy->from_offset,
                                    OPENCL_AFTER(queue), event);
    return clEnqueueReadBuffer(queue->queue, from, CL_FALSE, copy->from_offset, size,
                               (char *)copy->to->host + copy->to_offset, OPENCL_AFTER(queue),
                               event);
}

static cl_int opencl_queue_copy_rows(struct opencl_queue *queue, const struct gpud_copy *copy,
                                     cl_event *event)
{
    cl_mem to = cl_mem_of(copy->to), from = cl_mem_of(copy->from);
    const size_t region[3] = {copy->row_bytes, copy->rows, 1};
    /* Byte offsets are split into row and column: drivers check both against the pitch. */
    const size_t to_origin[3] = {copy->to_offset % copy->to_stride,
                                 copy->to_offset / copy->to_stride, 0};
    const size_t from_origin[3] = {copy->from_offset % copy->from_stride,
                                   copy->from_offset / copy->from_stride, 0};
    if (to && from)
        return clEnqueueCopyBufferRect(queue->queue, from, to, from_origin, to_origin, region,
                                       copy->from_stride, 0, copy->to_stride, 0,
                                       OPENCL_AFTER(queue), event);
    if (to)
        return clEnqueueWriteBufferRect(queue->queue, to, CL_FALSE, to_origin, from_origin, region,
                                        copy->to_stride, 0, copy->from_stride, 0, copy->from->host,
                                        OPENCL_AFTER(queue), event);
    return clEnqueueReadBufferRect(queue->queue, from, CL_FALSE, from_origin, to_origin, region,
                                   copy->from_stride, 0, copy->to_stride, 0, copy->to->host,
                                   OPENCL_AFTER(queue), event);
}

static enum gpud_status copy_op(struct gpud_queue *queue, const struct gpud_copy *copy,
                                struct gpud_error *error)
{
    if (is_write_only(copy->from))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "a peer's memory behind a bus address can only be written");
    if (!cl_mem_of(copy->to) && !cl_mem_of(copy->from))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s does not copy between two host memories: use the host's queue",
                         queue->device->info.name);
    struct opencl_device *device = gpud_opencl_device(queue->device);
    struct opencl_queue *opencl = queue->backend;
    struct opencl_memory *const memories[2] = {gpud_opencl_record(copy->to),
                                               gpud_opencl_record(copy->from)};
    enum gpud_status status = gpud_opencl_queue_begin(opencl, error);
    if (status != GPUD_OK)
        return status;
    cl_event event = NULL;
    cl_int code = begin_use(device, opencl, memories);
    if (code == CL_SUCCESS)
        code = copy->rows == 1 ||
                       (copy->to_stride == copy->row_bytes && copy->from_stride == copy->row_bytes)
                   ? copy_linear(opencl, copy, &event)
                   : opencl_queue_copy_rows(opencl, copy, &event);
    if (code == CL_SUCCESS)
        opencl_queue_push(opencl, event);
    cl_int ended = end_use(device, opencl, memories);
    code = code == CL_SUCCESS ? ended : code;
    gpud_opencl_queue_end(opencl, NULL);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail(error, code, "%s refused a copy of %u rows of %llu bytes",
                                queue->device->info.name, copy->rows,
                                (unsigned long long)copy->row_bytes);
    return GPUD_OK;
}

/* Flushes both queues: a command that waits for the other queue would never start otherwise. */
enum gpud_status gpud_opencl_migrate(struct gpud_queue *queue, struct gpud_memory *memory,
                                     struct gpud_queue *after, bool discard,
                                     struct gpud_error *error)
{
    struct opencl_queue *opencl = queue->backend, *earlier = after ? after->backend : NULL;
    cl_mem mem = cl_mem_of(memory);
    cl_event before[2], event = NULL;
    cl_uint count = 0;
    before[0] = earlier ? opencl_queue_last(earlier) : NULL;
    if (before[0])
        count++;
    enum gpud_status status = earlier ? start_queue(earlier, error) : GPUD_OK;
    if (status == GPUD_OK)
        status = gpud_opencl_queue_begin(opencl, error);
    if (status == GPUD_OK) {
        if (opencl->last)
            before[count++] = opencl->last;
        cl_int code = clEnqueueMigrateMemObjects(
            opencl->queue, 1, &mem, discard ? CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED : 0, count,
            count ? before : NULL, &event);
        gpud_opencl_queue_end(opencl, code == CL_SUCCESS ? event : NULL);
        if (code != CL_SUCCESS)
            status = gpud_opencl_fail(error, code, "%s refused to take a memory of %s",
                                      queue->device->info.name, memory->device->info.name);
    }
    if (earlier && before[0])
        clReleaseEvent(before[0]);
    return status == GPUD_OK ? start_queue(opencl, error) : status;
}

static enum gpud_status flush(struct gpud_queue *queue, struct gpud_error *error)
{
    return start_queue(queue->backend, error);
}

static enum gpud_status opencl_queue_finish(struct gpud_queue *queue, int64_t deadline,
                                            struct gpud_error *error)
{
    return finish_queue(queue->backend, deadline, error);
}

static enum gpud_status enqueue_unmap(struct opencl_queue *queue, cl_mem memory, void *data,
                                      struct gpud_error *error)
{
    enum gpud_status status = gpud_opencl_queue_begin(queue, error);
    if (status != GPUD_OK)
        return status;
    cl_event event = NULL;
    cl_int code = clEnqueueUnmapMemObject(queue->queue, memory, data, OPENCL_AFTER(queue), &event);
    gpud_opencl_queue_end(queue, code == CL_SUCCESS ? event : NULL);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail(error, code, "a mapping cannot be undone");
    clFlush(queue->queue);
    return GPUD_OK;
}

static enum gpud_status opencl_queue_map(struct gpud_queue *queue, struct gpud_memory *memory,
                                         uint64_t offset, uint64_t size, unsigned access,
                                         int64_t deadline, void **data, struct gpud_error *error)
{
    struct opencl_queue *opencl = queue->backend;
    if (is_write_only(memory))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "a peer's memory behind a bus address cannot be mapped");
    if (gpud_opencl_record(memory)->external)
        return map_external(opencl, memory, offset, size, access, deadline, data, error);
    cl_mem mem = cl_mem_of(memory);
    enum gpud_status status;
    if (!mem) {
        status = finish_queue(opencl, deadline, error);
        if (status == GPUD_OK)
            *data = (char *)memory->host + offset;
        return status;
    }

    status = gpud_opencl_queue_begin(opencl, error);
    if (status != GPUD_OK)
        return status;
    /* For writing alone nothing need be fetched from the device. */
    cl_map_flags flags = access == GPUD_WRITE  ? CL_MAP_WRITE_INVALIDATE_REGION
                         : access & GPUD_WRITE ? CL_MAP_READ | CL_MAP_WRITE
                                               : CL_MAP_READ;
    cl_event event = NULL;
    cl_int code;
    void *mapped = clEnqueueMapBuffer(opencl->queue, mem, CL_FALSE, flags, offset, size,
                                      OPENCL_AFTER(opencl), &event, &code);
    if (mapped)
        clRetainEvent(event);
    gpud_opencl_queue_end(opencl, mapped ? event : NULL);
    if (!mapped)
        return gpud_opencl_fail(error, code, "%s cannot map %llu bytes", queue->device->info.name,
                                (unsigned long long)size);
    status = opencl_finish_command(opencl, event, deadline, error);
    if (status == GPUD_OK)
        *data = mapped;
    else
        enqueue_unmap(opencl, mem, mapped,
                      NULL); /* in queue order: undone right after it was done */
    return status;
}

static enum gpud_status opencl_queue_unmap(struct gpud_queue *queue, struct gpud_memory *memory,
                                           void *data, struct gpud_error *error)
{
    cl_mem mem = cl_mem_of(memory);
    if (gpud_opencl_record(memory)->external)
        return unmap_external(queue->backend, memory, data, error);
    return mem ? enqueue_unmap(queue->backend, mem, data, error) : GPUD_OK;
}

const struct gpud_queue_ops gpud_opencl_queue_ops = {
    .create = opencl_queue_create,
    .destroy = opencl_queue_destroy,
    .copy = copy_op,
    .flush = flush,
    .on_complete = opencl_queue_on_complete,
    .finish = opencl_queue_finish,
    .map = opencl_queue_map,
    .unmap = opencl_queue_unmap,
};

/* === fence =================================================================================== */
/* Fences: events for which other queues of the context wait, and the application's own. */

/* The event of a queue's latest work. The queue is flushed, without which waiting for the event has
 * no effect. */
static cl_int mark_commands(cl_command_queue queue, cl_event *event)
{
    cl_int code = clEnqueueMarkerWithWaitList(queue, 0, NULL, event);
    return code == CL_SUCCESS ? clFlush(queue) : code;
}

static enum gpud_status opencl_queue_mark(struct gpud_queue *queue, void **fence,
                                          struct gpud_error *error)
{
    struct opencl_queue *own = queue->backend;
    cl_event event = NULL;
    cl_int code = CL_SUCCESS;
    enum gpud_status status = GPUD_OK;
    if (own) {
        status = gpud_opencl_queue_begin(own, error);
        if (status != GPUD_OK)
            return status;
        event = own->last;
        if (event)
            clRetainEvent(event);
        else
            code = mark_commands(own->queue, &event);
        gpud_opencl_queue_end(own, NULL);
        status = code == CL_SUCCESS ? start_queue(own, error)
                                    : gpud_opencl_fail(error, code, "the queue cannot be marked");
    } else {
        code = mark_commands(queue->native, &event);
        if (code != CL_SUCCESS)
            status = gpud_opencl_fail(error, code, "the command queue cannot be waited for");
    }
    if (status == GPUD_OK)
        *fence = event;
    else if (event)
        clReleaseEvent(event);
    return status;
}

static enum gpud_status opencl_queue_await(struct gpud_queue *queue, void *fence,
                                           struct gpud_error *error)
{
    struct opencl_queue *own = queue->backend;
    cl_event after[2] = {fence}, event = NULL;
    cl_int code, state = gpud_opencl_state(fence);
    /* A failure of the work before the fence would be this queue's, too, and end its use. */
    if (state < 0)
        return opencl_say_failed(state, error);
    if (!own) {
        code = clEnqueueBarrierWithWaitList(queue->native, 1, after, NULL);
        return code == CL_SUCCESS ? GPUD_OK
                                  : gpud_opencl_fail(error, code, "the command queue cannot wait");
    }
    enum gpud_status status = gpud_opencl_queue_begin(own, error);
    if (status != GPUD_OK)
        return status;
    after[1] = own->last;
    code = clEnqueueBarrierWithWaitList(own->queue, own->last ? 2 : 1, after, &event);
    gpud_opencl_queue_end(own, code == CL_SUCCESS ? event : NULL);
    return code == CL_SUCCESS ? GPUD_OK
                              : gpud_opencl_fail(error, code, "the queue cannot wait for another");
}

static bool opencl_queue_is_passed(struct gpud_device *device, void *fence)
{
    return gpud_opencl_state(fence) <= CL_COMPLETE;
}

/* Events work in their own context alone. */
static enum gpud_status opencl_queue_wrap(struct gpud_queue *queue, void *native,
                                          struct gpud_error *error)
{
    const struct opencl_device *device = gpud_opencl_device(queue->device);
    cl_context context = NULL;
    if (!native)
        return gpud_fail(error, GPUD_INVALID,
                         "OpenCL has no default queue: give a cl_command_queue");
    cl_int code = clGetCommandQueueInfo(native, CL_QUEUE_CONTEXT, sizeof(context), &context, NULL);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail_as(error, GPUD_INVALID, code,
                                   "the pointer given is not a cl_command_queue");
    if (context != device->context)
        return gpud_fail(error, GPUD_INVALID,
                         "the command queue is of another context than %s: make it in the context "
                         "of the frame's cl_mem (CL_MEM_CONTEXT)",
                         queue->device->info.name);
    queue->native = native;
    return GPUD_OK;
}

const struct gpud_fence_ops gpud_opencl_fence_ops = {
    .mark = opencl_queue_mark,
    .await = opencl_queue_await,
    .is_passed = opencl_queue_is_passed,
    .drop = opencl_queue_drop_event,
    .wrap = opencl_queue_wrap,
};

/* === signal ================================================================================== */
/* DirectGMA's markers. A marker belongs to a buffer: queues of the buffer's owner wait for it,
 * queues of a peer that holds the bus address write it. The comparison is unsigned; a value must
 * never be smaller than one before.
 *
 * The owner writes its own marker, at the start and as poison, through a view of its own bus
 * address, because the extension writes markers in no other way. */

/* The host's wait for one value: the only pending command on a queue of its own. */
struct opencl_watch {
    struct opencl_watch *next;
    struct opencl_queue *queue;
    uint32_t value;
};

struct opencl_signal {
    struct gpud_lock lock; /* of what follows; never held while a thread waits */
    struct opencl_watch *watches;
    uint32_t reached; /* the greatest value that the word is known to have had */
};

/* How long a driver may need to check a word: a shorter poll would never see it. */
#define LOOK (2 * GPUD_MSEC)

static uint64_t offset_in_page(const struct gpud_memory *memory)
{
    const struct opencl_memory *record = memory->backend;
    return record->bus.marker & (OPENCL_PAGE - 1);
}

/* --- creating ------------------------------------------------------------------------------ */

static enum gpud_status new_record(struct gpud_signal *signal, struct gpud_error *error)
{
    struct opencl_signal *record = calloc(1, sizeof(*record));
    if (!record)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a signal");
    gpud_lock_init(&record->lock, GPUD_RANK_OPENCL_SIGNAL);
    signal->backend = record;
    return GPUD_OK;
}

static void free_record(struct gpud_signal *signal)
{
    struct opencl_signal *record = signal->backend;
    gpud_lock_destroy(&record->lock);
    free(record);
    signal->backend = NULL;
}

/* Writes our own word from the CPU. */
static enum gpud_status opencl_signal_poison(struct gpud_signal *signal, uint32_t value,
                                             struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(signal->device);
    const struct opencl_memory *record = signal->memory->backend;
    if (!record->view)
        return gpud_fail(error, GPUD_INVALID,
                         "only the owner of a signal can raise it from the CPU");
    cl_event event;
    cl_int code = device->amd.write_signal(device->service->queue, record->view, value,
                                           offset_in_page(signal->memory), 0, NULL, &event);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail(error, code, "%s refused to write a signal",
                                signal->device->info.name);
    return gpud_opencl_serve(device, event, "write a signal", error);
}

static enum gpud_status opencl_signal_create(struct gpud_signal *signal, struct gpud_error *error)
{
    const struct opencl_memory *memory = signal->memory->backend;
    if (!memory || !memory->view)
        return gpud_fail(
            error, GPUD_UNSUPPORTED, "%s waits only for signals of memory that peers write: %s",
            signal->device->info.name,
            signal->device->no_direct[0] ? signal->device->no_direct : "this is not such memory");
    enum gpud_status status = new_record(signal, error);
    if (status != GPUD_OK)
        return status;
    /* Nothing else resets it, and an old value would end the first wait at once. */
    status = opencl_signal_poison(signal, 0, error);
    if (status != GPUD_OK)
        free_record(signal);
    return status;
}

/* Of a wait that is over, or will be, or of a queue that has failed and accepts no more work. */
static void drop_watch(struct opencl_watch **link)
{
    struct opencl_watch *gone = *link;
    *link = gone->next;
    opencl_queue_retire(gone->queue);
    free(gone);
}

static void opencl_signal_destroy(struct gpud_signal *signal)
{
    struct opencl_signal *record = signal->backend;
    if (!record)
        return;
    const struct opencl_watch *busy = record->watches;
    while (busy && gpud_opencl_queue_idle(busy->queue))
        busy = busy->next;
    /* An enqueued wait cannot be cancelled, only satisfied. */
    if (atomic_load(&signal->waited) || busy)
        opencl_signal_poison(signal, UINT32_MAX, NULL);
    while (record->watches)
        drop_watch(&record->watches);
    free_record(signal);
}

static enum gpud_status opencl_signal_import(struct gpud_signal *signal, struct gpud_error *error)
{
    const struct opencl_memory *memory = signal->memory->backend;
    if (!memory || memory->view || !memory->bus.surface)
        return gpud_fail(error, GPUD_INVALID,
                         "a signal can be imported only with the memory that it belongs to");
    /* The memory's handle has said where the marker lies, and it was checked. */
    if (signal->offset)
        return gpud_fail(error, GPUD_PEER,
                         "the peer's signal does not belong to the memory that it shared");
    return new_record(signal, error);
}

/* --- using --------------------------------------------------------------------------------- */

static enum gpud_status opencl_signal_post(struct gpud_signal *signal, uint32_t value,
                                           struct gpud_queue *queue, struct gpud_error *error)
{
    const struct opencl_memory *memory = signal->memory->backend;
    struct opencl_queue *opencl = queue->backend;
    if (memory->view)
        return gpud_fail(error, GPUD_INVALID,
                         "a queue cannot post its own device's signal, only a peer's");
    enum gpud_status status = gpud_opencl_queue_begin(opencl, error);
    if (status != GPUD_OK)
        return status;
    cl_event event = NULL;
    cl_int code =
        gpud_opencl_device(signal->device)
            ->amd.write_signal(opencl->queue, memory->memory, value, offset_in_page(signal->memory),
                               OPENCL_AFTER(opencl), &event);
    gpud_opencl_queue_end(opencl, code == CL_SUCCESS ? event : NULL);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail(error, code, "%s refused to post a signal",
                                signal->device->info.name);
    return GPUD_OK;
}

static enum gpud_status enqueue_wait(struct gpud_signal *signal, uint32_t value,
                                     struct opencl_queue *queue, struct gpud_error *error)
{
    const struct opencl_memory *memory = signal->memory->backend;
    if (!memory->view)
        return gpud_fail(error, GPUD_INVALID, "a peer's signal can be posted, not waited for");
    enum gpud_status status = gpud_opencl_queue_begin(queue, error);
    if (status != GPUD_OK)
        return status;
    cl_event event = NULL;
    cl_int code =
        gpud_opencl_device(signal->device)
            ->amd.wait_signal(queue->queue, memory->memory, value, OPENCL_AFTER(queue), &event);
    gpud_opencl_queue_end(queue, code == CL_SUCCESS ? event : NULL);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail(error, code, "%s refused to wait for a signal",
                                signal->device->info.name);
    return GPUD_OK;
}

static enum gpud_status opencl_signal_wait_queue(struct gpud_signal *signal, uint32_t value,
                                                 struct gpud_queue *queue, struct gpud_error *error)
{
    return enqueue_wait(signal, value, queue->backend, error);
}

/* --- the host waits ------------------------------------------------------------------------ */

/* The pending watch for this value, or NULL. A wait that timed out is still pending and is used
 * again, by any thread: there are never more watches than values waited for at one time. Under the
 * lock; *idle: a watch whose wait is over, or NULL. */
static struct opencl_watch *find_watch(struct gpud_signal *signal, uint32_t value,
                                       struct opencl_watch **idle)
{
    struct opencl_signal *record = signal->backend;
    struct opencl_watch *found = NULL;
    *idle = NULL;
    for (struct opencl_watch **link = &record->watches; *link;) {
        struct opencl_watch *watch = *link;
        long result;
        switch (gpud_opencl_async_ops.state(signal->device, watch->queue, &result)) {
        case GPUD_PROGRESS_FAILED:
            drop_watch(link);
            continue;
        case GPUD_PROGRESS_DONE:
            record->reached = watch->value > record->reached ? watch->value : record->reached;
            *idle = watch;
            break;
        case GPUD_PROGRESS_BUSY:
            found = watch->value == value ? watch : found;
            break;
        }
        link = &watch->next;
    }
    return found;
}

/* The event of a wait for this value, for the caller to release; NULL: the word has reached it.
 * Under the lock. *fresh: the wait was enqueued just now. */
static enum gpud_status watch_for(struct gpud_signal *signal, uint32_t value, cl_event *event,
                                  bool *fresh, struct gpud_error *error)
{
    struct opencl_device *device = gpud_opencl_device(signal->device);
    struct opencl_signal *record = signal->backend;
    struct opencl_watch *idle, *watch = find_watch(signal, value, &idle);
    enum gpud_status status;
    if (value <= record->reached)
        return GPUD_OK;
    if (!watch && !idle) {
        idle = calloc(1, sizeof(*idle));
        if (!idle)
            return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to wait for a signal");
        status = gpud_opencl_queue_new(device, &idle->queue, error);
        if (status != GPUD_OK) {
            free(idle);
            return status;
        }
        gpud_async_add(&device->async, &idle->queue->async);
        idle->next = record->watches;
        record->watches = idle;
    }
    if (!watch) {
        watch = idle;
        status = enqueue_wait(signal, value, watch->queue, error);
        if (status != GPUD_OK)
            return status;
        watch->value = value;
        *fresh = true;
    }
    *event = opencl_queue_last(watch->queue);
    return start_queue(watch->queue, error);
}

static void note_reached(struct opencl_signal *record, uint32_t value)
{
    gpud_lock_take(&record->lock);
    record->reached = value > record->reached ? value : record->reached;
    gpud_lock_release(&record->lock);
}

static enum gpud_status opencl_signal_wait_host(struct gpud_signal *signal, uint32_t value,
                                                int64_t deadline, struct gpud_error *error)
{
    struct opencl_signal *record = signal->backend;
    cl_event event = NULL;
    bool fresh = false;
    gpud_lock_take(&record->lock);
    enum gpud_status status = watch_for(signal, value, &event, &fresh, error);
    gpud_lock_release(&record->lock);
    if (!event)
        return status;
    if (fresh && deadline < gpud_deadline(LOOK))
        deadline = gpud_deadline(LOOK);
    if (status == GPUD_OK)
        status = opencl_wait(event, deadline, error);
    clReleaseEvent(event);
    if (status == GPUD_TIMEOUT)
        return gpud_fail(error, status, "the signal does not stand at %u yet", value);
    if (status == GPUD_OK)
        note_reached(record, value);
    return status;
}

static enum gpud_status opencl_signal_look(struct gpud_signal *signal, uint32_t value,
                                           bool *reached, struct gpud_error *error)
{
    struct opencl_signal *record = signal->backend;
    cl_event event = NULL;
    bool fresh = false;
    gpud_lock_take(&record->lock);
    enum gpud_status status = watch_for(signal, value, &event, &fresh, error);
    gpud_lock_release(&record->lock);
    cl_int state = CL_COMPLETE;
    if (event) {
        state = gpud_opencl_state(event);
        clReleaseEvent(event);
    }
    if (status != GPUD_OK)
        return status;
    if (state < 0)
        return opencl_say_failed(state, error);
    *reached = state == CL_COMPLETE;
    if (*reached)
        note_reached(record, value);
    return GPUD_OK;
}

const struct gpud_signal_ops gpud_opencl_signal_ops = {
    .create = opencl_signal_create,
    .destroy = opencl_signal_destroy,
    .import = opencl_signal_import,
    .post = opencl_signal_post,
    .wait_queue = opencl_signal_wait_queue,
    .wait_host = opencl_signal_wait_host,
    .look = opencl_signal_look,
    .poison = opencl_signal_poison,
};
