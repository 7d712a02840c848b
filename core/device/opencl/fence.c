/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Fences: events for which other queues of the context wait, and the application's own. */
#include "device/opencl/opencl.h"

static bool is_own(const struct gpud_queue *queue)
{
    return queue->backend;
}

/* The event of a queue's latest work. The queue is flushed, without which waiting for the event has
 * no effect. */
static cl_int mark_commands(cl_command_queue queue, cl_event *event)
{
    cl_int code = clEnqueueMarkerWithWaitList(queue, 0, NULL, event);
    return code == CL_SUCCESS ? clFlush(queue) : code;
}

static enum gpud_status mark_own(struct opencl_queue *queue, cl_event *event,
                                 struct gpud_error *error)
{
    enum gpud_status status = gpud_opencl_queue_begin(queue, error);
    if (status != GPUD_OK)
        return status;
    cl_int code = CL_SUCCESS;
    *event = queue->last;
    if (queue->last)
        clRetainEvent(queue->last);
    else
        code = mark_commands(queue->queue, event);
    gpud_opencl_queue_end(queue, NULL);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail(error, code, "the queue cannot be marked");
    return gpud_opencl_queue_start(queue, error);
}

static enum gpud_status mark(struct gpud_queue *queue, void **fence, struct gpud_error *error)
{
    cl_event event = NULL;
    enum gpud_status status = GPUD_OK;
    if (is_own(queue)) {
        status = mark_own(queue->backend, &event, error);
    } else {
        cl_int code = mark_commands(queue->native, &event);
        if (code != CL_SUCCESS)
            status = gpud_opencl_fail(error, code, "the command queue cannot be waited for");
    }
    if (status == GPUD_OK)
        *fence = event;
    else if (event)
        clReleaseEvent(event);
    return status;
}

/* A failure of the work before the fence would be this queue's, too, and end its use. */
static enum gpud_status check_fence(cl_event fence, struct gpud_error *error)
{
    cl_int state = gpud_opencl_state(fence);
    return state < 0 ? gpud_opencl_say_failed(state, error) : GPUD_OK;
}

static enum gpud_status await_own(struct opencl_queue *queue, cl_event fence,
                                  struct gpud_error *error)
{
    cl_event after[2] = {fence}, event = NULL;
    enum gpud_status status = gpud_opencl_queue_begin(queue, error);
    if (status != GPUD_OK)
        return status;
    after[1] = queue->last;
    cl_int code = clEnqueueBarrierWithWaitList(queue->queue, queue->last ? 2 : 1, after, &event);
    gpud_opencl_queue_end(queue, code == CL_SUCCESS ? event : NULL);
    return code == CL_SUCCESS ? GPUD_OK
                              : gpud_opencl_fail(error, code, "the queue cannot wait for another");
}

static enum gpud_status await(struct gpud_queue *queue, void *fence, struct gpud_error *error)
{
    cl_event event = fence;
    enum gpud_status status = check_fence(event, error);
    if (status != GPUD_OK)
        return status;
    if (is_own(queue))
        return await_own(queue->backend, event, error);
    cl_int code = clEnqueueBarrierWithWaitList(queue->native, 1, &event, NULL);
    return code == CL_SUCCESS ? GPUD_OK
                              : gpud_opencl_fail(error, code, "the command queue cannot wait");
}

static bool is_passed(struct gpud_device *device, void *fence)
{
    return gpud_opencl_state(fence) <= CL_COMPLETE;
}

static void drop(struct gpud_device *device, void *fence)
{
    clReleaseEvent(fence);
}

/* Events work in their own context alone. */
static enum gpud_status wrap(struct gpud_queue *queue, void *native, struct gpud_error *error)
{
    const struct opencl_device *device = gpud_opencl_device(queue->device);
    cl_context context = NULL;
    if (!native)
        return gpud_fail(error, GPUD_INVALID,
                         "OpenCL has no default queue: give a cl_command_queue");
    cl_int code = clGetCommandQueueInfo(native, CL_QUEUE_CONTEXT, sizeof(context), &context, NULL);
    if (code != CL_SUCCESS)
        return gpud_opencl_fail_as(error, GPUD_INVALID, code, "this is no cl_command_queue");
    if (context != device->context)
        return gpud_fail(error, GPUD_INVALID,
                         "the command queue is of another context than %s: make it in the context "
                         "of the frame's cl_mem (CL_MEM_CONTEXT)",
                         queue->device->info.name);
    queue->native = native;
    return GPUD_OK;
}

const struct gpud_fence_ops gpud_opencl_fence_ops = {
    .mark = mark,
    .await = await,
    .is_passed = is_passed,
    .drop = drop,
    .wrap = wrap,
};
