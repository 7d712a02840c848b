/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Streams and events. */
#include "device/cuda/cuda.h"

#include <stdlib.h>

/* --- what the shared parts ask ------------------------------------------------------------- */

static void enter(struct gpud_device *device)
{
    gpud_cuda_enter(gpud_cuda_device(device));
}

static void leave(struct gpud_device *device)
{
    gpud_cuda_leave();
}

long gpud_cuda_event_create(void **event)
{
    CUevent made;
    CUresult result = gpud_cu.event_create(&made, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        *event = made;
    return result;
}

void gpud_cuda_event_destroy(void *event)
{
    gpud_cu.event_destroy(event);
}

static void drop_event(struct gpud_device *device, void *event)
{
    gpud_events_put(&gpud_cuda_device(device)->events, event);
}

/* An event behind what is on the stream now; NULL and *result on failure. */
static CUevent record(struct cuda_device *device, CUstream stream, CUresult *result)
{
    long failure = 0;
    CUevent event = gpud_events_take(&device->events, &failure);
    *result = event ? gpud_cu.event_record(event, stream) : (CUresult)failure;
    if (event && *result != CUDA_SUCCESS) {
        gpud_events_put(&device->events, event);
        event = NULL;
    }
    return event;
}

static enum gpud_progress mark_stream(struct gpud_device *device, void *stream, void **event)
{
    struct cuda_device *cuda = gpud_cuda_device(device);
    long failure;
    CUevent made = gpud_events_take(&cuda->events, &failure);
    if (!made)
        return GPUD_PROGRESS_FAILED;
    if (gpud_cu.event_record(made, stream) == CUDA_SUCCESS ||
        gpud_cu.event_record(made, stream) == CUDA_SUCCESS) {
        *event = made;
        return GPUD_PROGRESS_BUSY;
    }
    gpud_events_put(&cuda->events, made);
    return GPUD_PROGRESS_DONE; /* it failed twice: the stream is broken and does no more work */
}

static enum gpud_progress progress(CUresult state, long *result)
{
    *result = state;
    return state == CUDA_SUCCESS           ? GPUD_PROGRESS_DONE
           : state == CUDA_ERROR_NOT_READY ? GPUD_PROGRESS_BUSY
                                           : GPUD_PROGRESS_FAILED;
}

/* Asked twice: a stream that has failed says so again; an error that is gone was one of the query.
 */
static enum gpud_progress query_event(struct gpud_device *device, void *event, long *result)
{
    enum gpud_progress state = progress(gpud_cu.event_query(event), result);
    return state == GPUD_PROGRESS_FAILED ? progress(gpud_cu.event_query(event), result) : state;
}

static enum gpud_progress query_stream(struct gpud_device *device, void *stream, long *result)
{
    enum gpud_progress state = progress(gpud_cu.stream_query(stream), result);
    return state == GPUD_PROGRESS_FAILED ? progress(gpud_cu.stream_query(stream), result) : state;
}

static void release(struct gpud_async_queue *async)
{
    struct cuda_queue *queue = (struct cuda_queue *)async;
    gpud_cu.stream_destroy(queue->stream);
    free(queue);
}

const struct gpud_async_ops gpud_cuda_async_ops = {
    .enter = enter,
    .leave = leave,
    .mark = mark_stream,
    .query = query_event,
    .drop = drop_event,
    .state = query_stream,
    .release = release,
};

enum gpud_status gpud_cuda_wait(struct cuda_device *device, CUstream stream, int64_t deadline,
                                struct gpud_error *error)
{
    long result = 0;
    switch (gpud_async_wait(&device->async, stream, deadline, &result)) {
    case GPUD_PROGRESS_BUSY:
        return gpud_fail(error, GPUD_TIMEOUT, "the GPU is still busy with what was enqueued");
    case GPUD_PROGRESS_FAILED:
        return gpud_cuda_fail(error, (CUresult)result, "work on the GPU failed");
    default:
        return GPUD_OK;
    }
}

/* --- queues -------------------------------------------------------------------------------- */

static enum gpud_status create(struct gpud_queue *queue, struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(queue->device);
    struct cuda_queue *made = calloc(1, sizeof(*made));
    if (made)
        made->async.completions =
            gpud_completions_create(&gpud_cuda_async_ops, queue->device, &device->completions);
    if (!made || !made->async.completions) {
        free(made);
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a queue");
    }
    gpud_cuda_enter(device);
    CUresult result = gpud_cu.stream_create(&made->stream, CU_STREAM_NON_BLOCKING);
    gpud_cuda_leave();
    if (result != CUDA_SUCCESS) {
        gpud_completions_unref(made->async.completions);
        free(made);
        return gpud_cuda_fail(error, result, "no stream on %s", queue->device->info.name);
    }
    made->async.handle = made->stream;
    gpud_async_add(&device->async, &made->async);
    queue->native = made->stream;
    queue->backend = made;
    return GPUD_OK;
}

static void destroy(struct gpud_queue *queue)
{
    struct cuda_queue *gone = queue->backend;
    gpud_async_retire(&gone->async, true);
}

static enum gpud_status on_complete(struct gpud_queue *queue, gpud_complete_fn fn, void *arg,
                                    struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(queue->device);
    struct gpud_completions *completions = ((struct cuda_queue *)queue->backend)->async.completions;
    CUstream stream = gpud_cuda_stream(queue);
    gpud_cuda_enter(device);
    CUresult result = gpud_cu.stream_query(stream);
    if (result == CUDA_SUCCESS && gpud_completions_are_told(completions)) {
        gpud_cuda_leave();
        fn(arg, gpud_completions_failure(completions) ? GPUD_IO : GPUD_OK);
        return GPUD_OK;
    }
    CUevent event = record(device, stream, &result);
    gpud_cuda_leave();
    if (!event)
        return gpud_cuda_fail(error, result, "the driver takes no more work");
    enum gpud_status status = gpud_completions_add(completions, event, fn, arg, NULL, error);
    if (status != GPUD_OK)
        gpud_events_put(&device->events, event);
    return status;
}

static enum gpud_status wrap(struct gpud_queue *queue, void *stream, struct gpud_error *error)
{
    queue->native = stream;
    return GPUD_OK;
}

static enum gpud_status not_joined(const struct gpud_queue *queue, CUresult result,
                                   struct gpud_error *error)
{
    return gpud_cuda_fail_as(error, GPUD_INVALID, result,
                             "the stream cannot be joined: is it one of the primary context of %s?",
                             queue->device->info.name);
}

static enum gpud_status mark(struct gpud_queue *queue, void **fence, struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(queue->device);
    CUresult result;
    gpud_cuda_enter(device);
    CUevent event = record(device, gpud_cuda_stream(queue), &result);
    gpud_cuda_leave();
    *fence = event;
    return event ? GPUD_OK : not_joined(queue, result, error);
}

static enum gpud_status await(struct gpud_queue *queue, void *fence, struct gpud_error *error)
{
    gpud_cuda_enter(gpud_cuda_device(queue->device));
    CUresult result = gpud_cu.stream_wait_event(gpud_cuda_stream(queue), fence, 0);
    gpud_cuda_leave();
    return result == CUDA_SUCCESS ? GPUD_OK : not_joined(queue, result, error);
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

static CUresult copy_rows(CUstream stream, const struct gpud_rows *rows)
{
    if (rows->rows == 1 ||
        (rows->to_stride == rows->row_bytes && rows->from_stride == rows->row_bytes))
        return gpud_cu.memcpy_async(rows->to, rows->from, rows->row_bytes * rows->rows, stream);
    const CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = rows->from,
        .srcPitch = rows->from_stride,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = rows->to,
        .dstPitch = rows->to_stride,
        .WidthInBytes = rows->row_bytes,
        .Height = rows->rows,
    };
    return gpud_cu.memcpy_2d_async(&copy, stream);
}

static bool is_pageable(const struct gpud_memory *memory)
{
    return ((const struct cuda_memory *)memory->backend)->kind == CUDA_MEMORY_PAGEABLE;
}

static bool is_on_device(const struct gpud_memory *memory)
{
    return ((const struct cuda_memory *)memory->backend)->kind < CUDA_MEMORY_PINNED;
}

static enum gpud_status copy(struct gpud_queue *queue, const struct gpud_copy *copy,
                             struct gpud_error *error)
{
    if (is_pageable(copy->to))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s copies only into host memory that begins with a page and can be "
                         "pinned (ulimit -l)",
                         queue->device->info.name);
    CUstream stream = gpud_cuda_stream(queue);
    struct cuda_device *device = gpud_cuda_device(queue->device);
    gpud_cuda_enter(device);
    if (is_pageable(copy->from)) {
        enum gpud_status status = gpud_bounce_copy(&device->bounces, stream, copy, error);
        gpud_cuda_leave();
        return status;
    }
    const struct gpud_rows rows = {
        .to = gpud_cuda_address(copy->to) + copy->to_offset,
        .from = gpud_cuda_address(copy->from) + copy->from_offset,
        .to_stride = copy->to_stride,
        .from_stride = copy->from_stride,
        .row_bytes = copy->row_bytes,
        .rows = copy->rows,
    };
    CUresult result;
    if (copy->rows == 1 && is_on_device(copy->to) && is_on_device(copy->from))
        result = gpud_cu.memcpy_dtod_async(rows.to, rows.from, copy->row_bytes, stream);
    else
        result = copy_rows(stream, &rows);
    gpud_cuda_leave();
    if (result != CUDA_SUCCESS)
        return gpud_cuda_fail(error, result, "a copy on %s", queue->device->info.name);
    return GPUD_OK;
}

static enum gpud_status finish(struct gpud_queue *queue, int64_t deadline, struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(queue->device);
    const struct cuda_queue *own = queue->backend;
    gpud_cuda_enter(device);
    enum gpud_status status = gpud_cuda_wait(device, gpud_cuda_stream(queue), deadline, error);
    gpud_cuda_leave();
    long failure = own ? gpud_completions_failure(own->async.completions) : 0;
    if (status == GPUD_OK && failure)
        return gpud_cuda_fail(error, (CUresult)failure, "work on %s failed",
                              queue->device->info.name);
    return status;
}

/* --- bounce pages -------------------------------------------------------------------------- */

static long alloc_pages(void **pages, uint64_t size)
{
    return gpud_cu.mem_host_alloc(pages, size, CU_MEMHOSTALLOC_PORTABLE);
}

static void free_pages(void *pages)
{
    gpud_cu.mem_free_host(pages);
}

static long copy_pages(void *queue, const struct gpud_rows *rows)
{
    return copy_rows(queue, rows);
}

static uint64_t address(const struct gpud_memory *memory)
{
    return gpud_cuda_address(memory);
}

static enum gpud_status fail(struct gpud_error *error, long result, const char *text)
{
    return gpud_cuda_fail(error, (CUresult)result, "%s", text);
}

const struct gpud_bounce_ops gpud_cuda_bounce_ops = {
    .alloc = alloc_pages,
    .free = free_pages,
    .copy = copy_pages,
    .address = address,
    .fail = fail,
};

static enum gpud_status map(struct gpud_queue *queue, struct gpud_memory *memory, uint64_t offset,
                            uint64_t size, unsigned access, int64_t deadline, void **data,
                            struct gpud_error *error)
{
    return gpud_bounce_map(&gpud_cuda_device(queue->device)->bounces, queue->native, memory, offset,
                           size, access, deadline, data, error);
}

static enum gpud_status unmap(struct gpud_queue *queue, struct gpud_memory *memory, void *data,
                              struct gpud_error *error)
{
    return gpud_bounce_unmap(&gpud_cuda_device(queue->device)->bounces, queue->native, memory, data,
                             error);
}

const struct gpud_queue_ops gpud_cuda_queue_ops = {
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
    .drop = drop,
};
