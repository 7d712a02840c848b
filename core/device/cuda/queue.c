/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Streams and events. */
#include "device/cuda/cuda.h"

#include <sched.h>
#include <stdlib.h>

#define SPIN (30 * GPUD_USEC)
#define NAP_MIN (20 * GPUD_USEC)
#define NAP_MAX (200 * GPUD_USEC)

/* --- events -------------------------------------------------------------------------------- */

/* Under the context. Events are kept, because making one costs more than a copy's launch. */
static CUevent take_event(struct cuda_device *device, CUresult *result)
{
    CUevent event = NULL;
    pthread_mutex_lock(&device->lock);
    if (device->event_count)
        event = device->events[--device->event_count];
    pthread_mutex_unlock(&device->lock);
    if (!event) {
        *result = gpud_cu.event_create(&event, CU_EVENT_DISABLE_TIMING);
        if (*result != CUDA_SUCCESS)
            return NULL;
    }
    return event;
}

CUevent gpud_cuda_mark(struct cuda_device *device, CUstream stream, CUresult *result)
{
    CUevent event = take_event(device, result);
    if (!event)
        return NULL;
    *result = gpud_cu.event_record(event, stream);
    if (*result == CUDA_SUCCESS)
        return event;
    gpud_cuda_event_put(device, event);
    return NULL;
}

void gpud_cuda_event_put(struct cuda_device *device, CUevent event)
{
    pthread_mutex_lock(&device->lock);
    bool kept = device->event_count < CUDA_EVENTS_KEPT;
    if (kept)
        device->events[device->event_count++] = event;
    pthread_mutex_unlock(&device->lock);
    if (!kept)
        gpud_cu.event_destroy(event);
}

/* A stream that has failed says so again; an error that is gone was of the question alone. */
CUresult gpud_cuda_event_state(CUevent event)
{
    CUresult result = gpud_cu.event_query(event);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY)
        return result;
    return gpud_cu.event_query(event);
}

void gpud_cuda_pause(int64_t start)
{
    int64_t waited = gpud_now() - start;
    if (waited < SPIN) {
        sched_yield();
        return;
    }
    int64_t nap = waited / 8;
    nap = nap < NAP_MIN ? NAP_MIN : nap > NAP_MAX ? NAP_MAX : nap;
    nanosleep(&(struct timespec){.tv_nsec = nap}, NULL);
}

enum gpud_status gpud_cuda_wait(struct cuda_device *device, CUstream stream, int64_t deadline,
                                struct gpud_error *error)
{
    CUresult result = gpud_cu.stream_query(stream);
    if (result == CUDA_SUCCESS)
        return GPUD_OK;
    /* Without an event the whole stream is waited for: what is on it uses memory all the same. */
    CUevent event = gpud_cuda_mark(device, stream, &result);
    int64_t start = gpud_now();
    while ((result = event ? gpud_cuda_event_state(event) : gpud_cu.stream_query(stream)) ==
               CUDA_ERROR_NOT_READY &&
           gpud_now() < deadline)
        gpud_cuda_pause(start);
    if (event)
        gpud_cuda_event_put(device, event);
    if (result == CUDA_ERROR_NOT_READY)
        return gpud_fail(error, GPUD_TIMEOUT, "the GPU is still busy with what was enqueued");
    if (result != CUDA_SUCCESS)
        return gpud_cuda_fail(error, result, "work on the GPU failed");
    return GPUD_OK;
}

/* --- queues -------------------------------------------------------------------------------- */

static enum gpud_status create(struct gpud_queue *queue, struct gpud_error *error)
{
    struct cuda_device *device = gpud_cuda_device(queue->device);
    struct cuda_queue *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a queue");
    gpud_cuda_enter(device);
    CUresult result = gpud_cu.stream_create(&made->stream, CU_STREAM_NON_BLOCKING);
    gpud_cuda_leave();
    if (result != CUDA_SUCCESS) {
        free(made);
        return gpud_cuda_fail(error, result, "no stream on %s", queue->device->info.name);
    }
    pthread_mutex_lock(&device->lock);
    made->next = device->queues;
    device->queues = made;
    pthread_mutex_unlock(&device->lock);
    queue->native = made->stream;
    queue->backend = made;
    return GPUD_OK;
}

/* It stays on the device's list while it works, so that no memory is freed under it. */
static int64_t retire(void *arg)
{
    struct cuda_queue *queue = arg;
    struct cuda_device *device = gpud_cuda_device(queue->device);
    gpud_cuda_enter(device);
    bool busy = atomic_load(&queue->untold) > 0 ||
                gpud_cu.stream_query(queue->stream) == CUDA_ERROR_NOT_READY;
    if (!busy) {
        pthread_mutex_lock(&device->lock);
        struct cuda_queue **link = &device->queues;
        while (*link != queue)
            link = &(*link)->next;
        *link = queue->next;
        pthread_mutex_unlock(&device->lock);
        gpud_cu.stream_destroy(queue->stream);
    }
    gpud_cuda_leave();
    if (busy)
        return GPUD_MSEC;
    struct gpud_device *open = queue->device;
    free(queue);
    gpud_device_close(&open);
    return -1;
}

static void destroy(struct gpud_queue *queue)
{
    struct cuda_queue *gone = queue->backend;
    struct gpud_worker *worker = &queue->device->context->later;
    gone->device = gpud_device_ref(queue->device);
    if (retire(gone) >= 0)
        gpud_worker_add(worker, &gone->end, retire, gone);
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
    CUevent event = gpud_cuda_mark(device, gpud_cuda_stream(queue), &result);
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

/* What waits for the event has taken over what it stands for: it can be recorded again. */
static void drop(struct gpud_device *device, void *fence)
{
    struct cuda_device *cuda = gpud_cuda_device(device);
    gpud_cuda_enter(cuda);
    gpud_cuda_event_put(cuda, fence);
    gpud_cuda_leave();
}

static enum gpud_status flush(struct gpud_queue *queue, struct gpud_error *error)
{
    return GPUD_OK; /* a stream starts what it is given */
}

/* --- copies -------------------------------------------------------------------------------- */

CUresult gpud_cuda_copy_rows(CUstream stream, CUdeviceptr to, uint32_t to_stride, CUdeviceptr from,
                             uint32_t from_stride, uint64_t row_bytes, uint32_t rows)
{
    if (rows == 1 || (to_stride == row_bytes && from_stride == row_bytes))
        return gpud_cu.memcpy_async(to, from, row_bytes * rows, stream);
    const CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = from,
        .srcPitch = from_stride,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = to,
        .dstPitch = to_stride,
        .WidthInBytes = row_bytes,
        .Height = rows,
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
    CUdeviceptr to = gpud_cuda_address(copy->to) + copy->to_offset;
    CUdeviceptr from = gpud_cuda_address(copy->from) + copy->from_offset;
    gpud_cuda_enter(gpud_cuda_device(queue->device));
    if (is_pageable(copy->from)) {
        enum gpud_status status = gpud_cuda_bounce_copy(queue, copy, error);
        gpud_cuda_leave();
        return status;
    }
    CUresult result;
    if (copy->rows == 1 && is_on_device(copy->to) && is_on_device(copy->from))
        result = gpud_cu.memcpy_dtod_async(to, from, copy->row_bytes, stream);
    else
        result = gpud_cuda_copy_rows(stream, to, copy->to_stride, from, copy->from_stride,
                                     copy->row_bytes, copy->rows);
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
    int failed = own ? atomic_load(&own->failed) : 0;
    if (status == GPUD_OK && failed)
        return gpud_cuda_fail(error, (CUresult)failed, "work on %s failed",
                              queue->device->info.name);
    return status;
}

const struct gpud_queue_ops gpud_cuda_queue_ops = {
    .create = create,
    .destroy = destroy,
    .copy = copy,
    .flush = flush,
    .on_complete = gpud_cuda_on_complete,
    .finish = finish,
    .map = gpud_cuda_bounce_map,
    .unmap = gpud_cuda_bounce_unmap,
    .wrap = wrap,
    .mark = mark,
    .await = await,
    .drop = drop,
};
