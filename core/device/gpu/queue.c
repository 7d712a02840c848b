/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Queues on streams. */
#include "device/gpu/gpu.h"

#include <stdlib.h>

/* === stream ================================================================================== */
/* A driver's streams: the progress of their work. */

static void gpu_queue_enter(struct gpud_device *device)
{
    struct gpud_gpu *gpu = gpud_gpu(device);
    gpu->driver->enter(gpu);
}

static void gpu_queue_leave(struct gpud_device *device)
{
    struct gpud_gpu *gpu = gpud_gpu(device);
    gpu->driver->leave(gpu);
}

static void gpu_queue_drop_event(struct gpud_device *device, void *event)
{
    gpud_events_put(&gpud_gpu(device)->events, event);
}

/* Records an event, from gpu->events, after the stream's current work; NULL and *result on failure.
 */
static void *gpu_record_event(struct gpud_gpu *gpu, void *stream, int *result)
{
    void *event = gpud_events_take(&gpu->events, result);
    if (!event)
        return NULL;
    *result = gpu->driver->event_record(event, stream);
    if (*result) {
        gpud_events_put(&gpu->events, event);
        event = NULL;
    }
    return event;
}

static enum gpud_progress mark_stream(struct gpud_device *device, void *stream, void **event)
{
    struct gpud_gpu *gpu = gpud_gpu(device);
    int failure;
    void *made = gpud_events_take(&gpu->events, &failure);
    if (!made)
        return GPUD_PROGRESS_FAILED;
    if (gpu->driver->event_record(made, stream) == 0 ||
        gpu->driver->event_record(made, stream) == 0) {
        *event = made;
        return GPUD_PROGRESS_BUSY;
    }
    gpud_events_put(&gpu->events, made);
    return GPUD_PROGRESS_DONE; /* it failed twice: the stream is broken and does no more work */
}

/* Queries twice: a failed stream fails again; an error that disappears was the query's own. */
static enum gpud_progress gpu_queue_ask(int (*query)(void *), void *what, long *result)
{
    *result = query(what);
    if (*result && *result != GPUD_GPU_NOT_READY)
        *result = query(what);
    return *result == 0                    ? GPUD_PROGRESS_DONE
           : *result == GPUD_GPU_NOT_READY ? GPUD_PROGRESS_BUSY
                                           : GPUD_PROGRESS_FAILED;
}

static enum gpud_progress gpu_queue_query_event(struct gpud_device *device, void *event,
                                                long *result)
{
    return gpu_queue_ask(gpud_gpu(device)->driver->event_query, event, result);
}

static enum gpud_progress query_stream(struct gpud_device *device, void *stream, long *result)
{
    return gpu_queue_ask(gpud_gpu(device)->driver->stream_query, stream, result);
}

static void gpu_queue_release(struct gpud_async_queue *async)
{
    gpud_gpu(async->async->device)->driver->stream_destroy(async->handle);
    free(async);
}

const struct gpud_async_ops gpud_gpu_async_ops = {
    .enter = gpu_queue_enter,
    .leave = gpu_queue_leave,
    .mark = mark_stream,
    .query = gpu_queue_query_event,
    .drop = gpu_queue_drop_event,
    .state = query_stream,
    .release = gpu_queue_release,
};

enum gpud_status gpud_gpu_wait(struct gpud_gpu *gpu, void *stream, int64_t deadline,
                               struct gpud_error *error)
{
    long result = 0;
    switch (gpud_async_wait(&gpu->async, stream, deadline, &result)) {
    case GPUD_PROGRESS_BUSY:
        return gpud_fail(error, GPUD_TIMEOUT, "the GPU is still busy with what was enqueued");
    case GPUD_PROGRESS_FAILED:
        return gpud_gpu_fail(gpu->driver, error, (int)result, "work on the GPU failed");
    default:
        return GPUD_OK;
    }
}

/* === queue =================================================================================== */
/* Queues that are a driver's streams. */

/* --- queues -------------------------------------------------------------------------------- */

static enum gpud_status gpu_queue_create(struct gpud_queue *queue, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(queue->device);
    struct gpud_async_queue *made = calloc(1, sizeof(*made));
    if (made)
        made->completions =
            gpud_completions_create(&gpud_gpu_async_ops, queue->device, &gpu->completions);
    if (!made || !made->completions) {
        free(made);
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a queue");
    }
    gpu->driver->enter(gpu);
    int result = gpu->driver->stream_create(&made->handle, GPUD_GPU_STREAM_NON_BLOCKING);
    gpu->driver->leave(gpu);
    if (result) {
        gpud_completions_unref(made->completions);
        free(made);
        return gpud_gpu_fail(gpu->driver, error, result, "no stream on %s",
                             queue->device->info.name);
    }
    gpud_async_add(&gpu->async, made);
    queue->native = made->handle;
    queue->backend = made;
    return GPUD_OK;
}

static void gpu_queue_destroy(struct gpud_queue *queue)
{
    gpud_async_retire(queue->backend, true);
}

static enum gpud_status gpu_queue_on_complete(struct gpud_queue *queue, gpud_complete_fn fn,
                                              void *arg, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(queue->device);
    struct gpud_completions *completions = ((struct gpud_async_queue *)queue->backend)->completions;
    void *stream = queue->native;
    gpu->driver->enter(gpu);
    int result = gpu->driver->stream_query(stream);
    if (result == 0 && gpud_completions_are_called(completions)) {
        gpu->driver->leave(gpu);
        fn(arg, gpud_completions_failure(completions) ? GPUD_IO : GPUD_OK);
        return GPUD_OK;
    }
    void *event = gpu_record_event(gpu, stream, &result);
    gpu->driver->leave(gpu);
    if (!event)
        return gpud_gpu_fail(gpu->driver, error, result, "the driver takes no more work");
    enum gpud_status status = gpud_completions_add(completions, event, fn, arg, NULL, error);
    if (status != GPUD_OK)
        gpud_events_put(&gpu->events, event);
    return status;
}

static enum gpud_status gpu_queue_wrap(struct gpud_queue *queue, void *stream,
                                       struct gpud_error *error)
{
    queue->native = stream;
    return GPUD_OK;
}

/* A default stream also orders work of streams that it is not asked about. */
static bool is_default(const void *stream)
{
    return (uintptr_t)stream <= GPUD_GPU_STREAM_DEFAULT_MAX;
}

static bool gpu_queue_is_idle(struct gpud_queue *queue)
{
    struct gpud_gpu *gpu = gpud_gpu(queue->device);
    if (is_default(queue->native) && !gpu->driver->queries_default_streams)
        return false;
    gpu->driver->enter(gpu);
    int result = gpu->driver->stream_query(queue->native);
    gpu->driver->leave(gpu);
    return result == 0;
}

static enum gpud_status not_joined(const struct gpud_queue *queue, int result,
                                   struct gpud_error *error)
{
    return gpud_gpu_fail_as(gpud_gpu(queue->device)->driver, error, GPUD_INVALID, result,
                            "the stream cannot be joined: is it one of the primary context of %s?",
                            queue->device->info.name);
}

static enum gpud_status gpu_queue_mark(struct gpud_queue *queue, void **fence,
                                       struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(queue->device);
    int result;
    gpu->driver->enter(gpu);
    void *event = gpu_record_event(gpu, queue->native, &result);
    gpu->driver->leave(gpu);
    *fence = event;
    return event ? GPUD_OK : not_joined(queue, result, error);
}

static enum gpud_status gpu_queue_await(struct gpud_queue *queue, void *fence,
                                        struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(queue->device);
    gpu->driver->enter(gpu);
    int result = gpu->driver->stream_wait_event(queue->native, fence, 0);
    gpu->driver->leave(gpu);
    return result == 0 ? GPUD_OK : not_joined(queue, result, error);
}

/* A failure counts as passed: the driver stops all work on a failed stream. */
static bool gpu_queue_is_passed(struct gpud_device *device, void *fence)
{
    long result;
    gpud_gpu_async_ops.enter(device);
    enum gpud_progress progress = gpud_gpu_async_ops.query(device, fence, &result);
    gpud_gpu_async_ops.leave(device);
    return progress != GPUD_PROGRESS_BUSY;
}

/* Enqueued waits keep the event's recorded state, so it can be recorded again. */
static void gpu_queue_drop(struct gpud_device *device, void *fence)
{
    gpud_gpu_async_ops.enter(device);
    gpud_gpu_async_ops.drop(device, fence);
    gpud_gpu_async_ops.leave(device);
}

/* --- copies -------------------------------------------------------------------------------- */

static bool is_pageable(const struct gpud_memory *memory)
{
    return gpud_gpu_record(memory)->kind == GPUD_GPU_PAGEABLE;
}

static bool is_on_gpu(const struct gpud_memory *memory)
{
    return gpud_gpu_record(memory)->kind < GPUD_GPU_PINNED;
}

static enum gpud_status gpu_queue_copy(struct gpud_queue *queue, const struct gpud_copy *copy,
                                       struct gpud_error *error)
{
    if (is_pageable(copy->to))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s copies only into host memory that begins with a page and can be "
                         "pinned (ulimit -l)",
                         queue->device->info.name);
    void *stream = queue->native;
    struct gpud_gpu *gpu = gpud_gpu(queue->device);
    gpu->driver->enter(gpu);
    if (is_pageable(copy->from)) {
        enum gpud_status status = gpud_bounce_copy(gpu, stream, copy, error);
        gpu->driver->leave(gpu);
        return status;
    }
    const struct gpud_rows rows = {
        .to = gpud_gpu_record(copy->to)->address + copy->to_offset,
        .from = gpud_gpu_record(copy->from)->address + copy->from_offset,
        .to_stride = copy->to_stride,
        .from_stride = copy->from_stride,
        .row_bytes = copy->row_bytes,
        .rows = copy->rows,
    };
    bool on_gpu = copy->rows == 1 && is_on_gpu(copy->to) && is_on_gpu(copy->from);
    int result = gpu->driver->copy(stream, &rows, on_gpu);
    gpu->driver->leave(gpu);
    if (result)
        return gpud_gpu_fail(gpu->driver, error, result, "a copy on %s", queue->device->info.name);
    return GPUD_OK;
}

static enum gpud_status gpu_queue_finish(struct gpud_queue *queue, int64_t deadline,
                                         struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(queue->device);
    const struct gpud_async_queue *own = queue->backend;
    gpu->driver->enter(gpu);
    enum gpud_status status = gpud_gpu_wait(gpu, queue->native, deadline, error);
    gpu->driver->leave(gpu);
    long failure = own ? gpud_completions_failure(own->completions) : 0;
    if (status == GPUD_OK && failure)
        return gpud_gpu_fail(gpu->driver, error, (int)failure, "work on %s failed",
                             queue->device->info.name);
    return status;
}

/* --- CPU access ---------------------------------------------------------------------------- */

static enum gpud_status gpu_queue_map(struct gpud_queue *queue, struct gpud_memory *memory,
                                      uint64_t offset, uint64_t size, unsigned access,
                                      int64_t deadline, void **data, struct gpud_error *error)
{
    return gpud_bounce_map(gpud_gpu(queue->device), queue->native, memory, offset, size, access,
                           deadline, data, error);
}

static enum gpud_status gpu_queue_unmap(struct gpud_queue *queue, struct gpud_memory *memory,
                                        void *data, struct gpud_error *error)
{
    return gpud_bounce_unmap(gpud_gpu(queue->device), queue->native, memory, data, error);
}

const struct gpud_queue_ops gpud_gpu_queue_ops = {
    .create = gpu_queue_create,
    .destroy = gpu_queue_destroy,
    .copy = gpu_queue_copy,
    .on_complete = gpu_queue_on_complete,
    .finish = gpu_queue_finish,
    .map = gpu_queue_map,
    .unmap = gpu_queue_unmap,
};

const struct gpud_fence_ops gpud_gpu_fence_ops = {
    .mark = gpu_queue_mark,
    .await = gpu_queue_await,
    .is_passed = gpu_queue_is_passed,
    .drop = gpu_queue_drop,
    .is_idle = gpu_queue_is_idle,
    .wrap = gpu_queue_wrap,
};
