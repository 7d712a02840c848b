/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Queues that are a driver's streams. */
#include "device/gpu.h"

#include <stdlib.h>

/* --- what the shared parts ask ------------------------------------------------------------- */

static void enter(struct gpud_device *device)
{
    struct gpud_gpu *gpu = gpud_gpu(device);
    gpu->ops->enter(gpu);
}

static void leave(struct gpud_device *device)
{
    struct gpud_gpu *gpu = gpud_gpu(device);
    gpu->ops->leave(gpu);
}

static void drop_event(struct gpud_device *device, void *event)
{
    gpud_events_put(&gpud_gpu(device)->events, event);
}

/* An event behind what is on the stream now; NULL and *result on failure. */
static void *record(struct gpud_gpu *gpu, void *stream, long *result)
{
    void *event = gpud_events_take(&gpu->events, result);
    if (!event)
        return NULL;
    *result = gpu->ops->stream->record(event, stream);
    if (*result) {
        gpud_events_put(&gpu->events, event);
        event = NULL;
    }
    return event;
}

static enum gpud_progress mark_stream(struct gpud_device *device, void *stream, void **event)
{
    struct gpud_gpu *gpu = gpud_gpu(device);
    long failure;
    void *made = gpud_events_take(&gpu->events, &failure);
    if (!made)
        return GPUD_PROGRESS_FAILED;
    if (gpu->ops->stream->record(made, stream) == 0 ||
        gpu->ops->stream->record(made, stream) == 0) {
        *event = made;
        return GPUD_PROGRESS_BUSY;
    }
    gpud_events_put(&gpu->events, made);
    return GPUD_PROGRESS_DONE; /* it failed twice: the stream is broken and does no more work */
}

/* Asked twice: what has failed says so again; an error that is gone was one of the query. */
static enum gpud_progress ask(struct gpud_device *device, long (*query)(void *), void *what,
                              long *result)
{
    *result = query(what);
    if (*result && *result != gpud_gpu(device)->ops->not_ready)
        *result = query(what);
    return *result == 0                                  ? GPUD_PROGRESS_DONE
           : *result == gpud_gpu(device)->ops->not_ready ? GPUD_PROGRESS_BUSY
                                                         : GPUD_PROGRESS_FAILED;
}

static enum gpud_progress query_event(struct gpud_device *device, void *event, long *result)
{
    return ask(device, gpud_gpu(device)->ops->stream->query_event, event, result);
}

static enum gpud_progress query_stream(struct gpud_device *device, void *stream, long *result)
{
    return ask(device, gpud_gpu(device)->ops->stream->query, stream, result);
}

static void release(struct gpud_async_queue *async)
{
    gpud_gpu(async->async->device)->ops->stream->destroy(async->handle);
    free(async);
}

const struct gpud_async_ops gpud_gpu_async_ops = {
    .enter = enter,
    .leave = leave,
    .mark = mark_stream,
    .query = query_event,
    .drop = drop_event,
    .state = query_stream,
    .release = release,
};

enum gpud_status gpud_gpu_wait(struct gpud_gpu *gpu, void *stream, int64_t deadline,
                               struct gpud_error *error)
{
    long result = 0;
    switch (gpud_async_wait(&gpu->async, stream, deadline, &result)) {
    case GPUD_PROGRESS_BUSY:
        return gpud_fail(error, GPUD_TIMEOUT, "the GPU is still busy with what was enqueued");
    case GPUD_PROGRESS_FAILED:
        return gpud_gpu_fail(gpu->ops, error, result, "work on the GPU failed");
    default:
        return GPUD_OK;
    }
}

/* --- queues -------------------------------------------------------------------------------- */

static enum gpud_status create(struct gpud_queue *queue, struct gpud_error *error)
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
    gpu->ops->enter(gpu);
    long result = gpu->ops->stream->create(&made->handle);
    gpu->ops->leave(gpu);
    if (result) {
        gpud_completions_unref(made->completions);
        free(made);
        return gpud_gpu_fail(gpu->ops, error, result, "no stream on %s", queue->device->info.name);
    }
    gpud_async_add(&gpu->async, made);
    queue->native = made->handle;
    queue->backend = made;
    return GPUD_OK;
}

static void destroy(struct gpud_queue *queue)
{
    gpud_async_retire(queue->backend, true);
}

static enum gpud_status on_complete(struct gpud_queue *queue, gpud_complete_fn fn, void *arg,
                                    struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(queue->device);
    struct gpud_completions *completions = ((struct gpud_async_queue *)queue->backend)->completions;
    void *stream = queue->native;
    gpu->ops->enter(gpu);
    long result = gpu->ops->stream->query(stream);
    if (result == 0 && gpud_completions_are_told(completions)) {
        gpu->ops->leave(gpu);
        fn(arg, gpud_completions_failure(completions) ? GPUD_IO : GPUD_OK);
        return GPUD_OK;
    }
    void *event = record(gpu, stream, &result);
    gpu->ops->leave(gpu);
    if (!event)
        return gpud_gpu_fail(gpu->ops, error, result, "the driver takes no more work");
    enum gpud_status status = gpud_completions_add(completions, event, fn, arg, NULL, error);
    if (status != GPUD_OK)
        gpud_events_put(&gpu->events, event);
    return status;
}

static enum gpud_status wrap(struct gpud_queue *queue, void *stream, struct gpud_error *error)
{
    queue->native = stream;
    return GPUD_OK;
}

static enum gpud_status not_joined(const struct gpud_queue *queue, long result,
                                   struct gpud_error *error)
{
    return gpud_gpu_fail_as(gpud_gpu(queue->device)->ops, error, GPUD_INVALID, result,
                            "the stream cannot be joined: is it one of the primary context of %s?",
                            queue->device->info.name);
}

static enum gpud_status mark(struct gpud_queue *queue, void **fence, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(queue->device);
    long result;
    gpu->ops->enter(gpu);
    void *event = record(gpu, queue->native, &result);
    gpu->ops->leave(gpu);
    *fence = event;
    return event ? GPUD_OK : not_joined(queue, result, error);
}

static enum gpud_status await(struct gpud_queue *queue, void *fence, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(queue->device);
    gpu->ops->enter(gpu);
    long result = gpu->ops->stream->await(queue->native, fence);
    gpu->ops->leave(gpu);
    return result == 0 ? GPUD_OK : not_joined(queue, result, error);
}

/* A failure is an end, too: the driver stops what is on a stream that has failed. */
static bool is_passed(struct gpud_device *device, void *fence)
{
    long result;
    enter(device);
    enum gpud_progress progress = query_event(device, fence, &result);
    leave(device);
    return progress != GPUD_PROGRESS_BUSY;
}

/* Waits that are enqueued keep the state they were given: the event can be recorded again. */
static void drop(struct gpud_device *device, void *fence)
{
    enter(device);
    drop_event(device, fence);
    leave(device);
}

static enum gpud_status flush(struct gpud_queue *queue, struct gpud_error *error)
{
    return GPUD_OK; /* a stream starts work when it is enqueued */
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

static enum gpud_status copy(struct gpud_queue *queue, const struct gpud_copy *copy,
                             struct gpud_error *error)
{
    if (is_pageable(copy->to))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s copies only into host memory that begins with a page and can be "
                         "pinned (ulimit -l)",
                         queue->device->info.name);
    void *stream = queue->native;
    struct gpud_gpu *gpu = gpud_gpu(queue->device);
    gpu->ops->enter(gpu);
    if (is_pageable(copy->from)) {
        enum gpud_status status = gpud_bounce_copy(gpu, stream, copy, error);
        gpu->ops->leave(gpu);
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
    long result = gpu->ops->stream->copy(stream, &rows, on_gpu);
    gpu->ops->leave(gpu);
    if (result)
        return gpud_gpu_fail(gpu->ops, error, result, "a copy on %s", queue->device->info.name);
    return GPUD_OK;
}

static enum gpud_status finish(struct gpud_queue *queue, int64_t deadline, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(queue->device);
    const struct gpud_async_queue *own = queue->backend;
    gpu->ops->enter(gpu);
    enum gpud_status status = gpud_gpu_wait(gpu, queue->native, deadline, error);
    gpu->ops->leave(gpu);
    long failure = own ? gpud_completions_failure(own->completions) : 0;
    if (status == GPUD_OK && failure)
        return gpud_gpu_fail(gpu->ops, error, failure, "work on %s failed",
                             queue->device->info.name);
    return status;
}

/* --- CPU access ---------------------------------------------------------------------------- */

static enum gpud_status map(struct gpud_queue *queue, struct gpud_memory *memory, uint64_t offset,
                            uint64_t size, unsigned access, int64_t deadline, void **data,
                            struct gpud_error *error)
{
    return gpud_bounce_map(gpud_gpu(queue->device), queue->native, memory, offset, size, access,
                           deadline, data, error);
}

static enum gpud_status unmap(struct gpud_queue *queue, struct gpud_memory *memory, void *data,
                              struct gpud_error *error)
{
    return gpud_bounce_unmap(gpud_gpu(queue->device), queue->native, memory, data, error);
}

const struct gpud_queue_ops gpud_gpu_queue_ops = {
    .create = create,
    .destroy = destroy,
    .copy = copy,
    .flush = flush,
    .on_complete = on_complete,
    .finish = finish,
    .map = map,
    .unmap = unmap,
    .wrap = wrap,
    .mark = mark,
    .await = await,
    .is_passed = is_passed,
    .drop = drop,
};
