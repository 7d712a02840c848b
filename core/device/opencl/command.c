/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A command queue as the backend uses it: commands in order, and waits with deadlines. */
#include "device/opencl/opencl.h"

#include <stdlib.h>

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
void gpud_opencl_queue_retire(struct opencl_queue *queue)
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

static enum gpud_progress query_event(struct gpud_device *device, void *event, long *result)
{
    return progress(gpud_opencl_state(event), result);
}

static void drop_event(struct gpud_device *device, void *event)
{
    clReleaseEvent(event);
}

static enum gpud_progress query_queue(struct gpud_device *device, void *handle, long *result)
{
    return progress(state_of_last(handle), result);
}

static void release(struct gpud_async_queue *async)
{
    release_queue((struct opencl_queue *)async);
}

const struct gpud_async_ops gpud_opencl_async_ops = {
    .enter = nothing_to_enter,
    .leave = nothing_to_enter,
    .mark = mark_queue,
    .query = query_event,
    .drop = drop_event,
    .state = query_queue,
    .release = release,
};

/* --- commands ------------------------------------------------------------------------------ */

enum gpud_status gpud_opencl_queue_start(struct opencl_queue *queue, struct gpud_error *error)
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
    return gpud_opencl_say_failed(state, error);
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

void gpud_opencl_queue_push(struct opencl_queue *queue, cl_event event)
{
    if (queue->last)
        clReleaseEvent(queue->last);
    queue->last = event;
}

cl_event gpud_opencl_queue_last(struct opencl_queue *queue)
{
    gpud_lock_take(&queue->lock);
    cl_event last = queue->last;
    if (last)
        clRetainEvent(last);
    gpud_lock_release(&queue->lock);
    return last;
}

enum gpud_status gpud_opencl_queue_wait(struct opencl_queue *queue, cl_event event,
                                        int64_t deadline, struct gpud_error *error)
{
    enum gpud_status status = gpud_opencl_queue_start(queue, error);
    if (status == GPUD_OK)
        status = gpud_opencl_wait(event, deadline, error);
    clReleaseEvent(event);
    /* Some drivers call back for success only. */
    if (status == GPUD_IO)
        gpud_completions_fail(queue->async.completions);
    return status;
}

enum gpud_status gpud_opencl_queue_finish(struct opencl_queue *queue, int64_t deadline,
                                          struct gpud_error *error)
{
    cl_event last = gpud_opencl_queue_last(queue);
    return last ? gpud_opencl_queue_wait(queue, last, deadline, error) : GPUD_OK;
}

static void CL_CALLBACK complete(cl_event event, cl_int code, void *completion)
{
    bool nested = in_callback;
    in_callback = true;
    gpud_completion_done(completion, code < 0);
    in_callback = nested;
}

/* Added under the queue's lock, to keep the order of the commands. The callback is set without it:
 * it may run at once, on this thread. */
enum gpud_status gpud_opencl_queue_on_complete(struct opencl_queue *opencl, gpud_complete_fn fn,
                                               void *arg, struct gpud_error *error)
{
    struct gpud_completion *completion = NULL;
    enum gpud_status status = gpud_opencl_queue_start(opencl, error);
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
        cl_int code = clSetEventCallback(event, CL_COMPLETE, complete, completion);
        if (code != CL_SUCCESS && gpud_completion_withdraw(completion))
            status = gpud_opencl_fail(error, code, "the driver cannot tell when a queue is done");
    } else {
        clReleaseEvent(event);
    }
    clReleaseEvent(event);
    return status;
}

enum gpud_status gpud_opencl_check_service(const struct gpud_device *device,
                                           struct gpud_error *error)
{
    if (gpud_opencl_queue_idle(gpud_opencl_device(device)->service))
        return GPUD_OK;
    return gpud_fail(error, GPUD_IO,
                     "%s has not done what it was asked for within %d s: the device or its driver "
                     "is stuck, and gives no memory until it goes on",
                     device->info.name, (int)(OPENCL_SERVICE_TIMEOUT / GPUD_SEC));
}

enum gpud_status gpud_opencl_serve(struct opencl_device *device, cl_event event, const char *what,
                                   struct gpud_error *error)
{
    struct gpud_error why = {0};
    enum gpud_status status = gpud_opencl_queue_start(device->service, &why);
    if (status == GPUD_OK)
        status = gpud_opencl_wait(event, gpud_deadline(OPENCL_SERVICE_TIMEOUT), &why);
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
