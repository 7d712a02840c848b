/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/gpu/stream.h"

#include <stdlib.h>

static void enter(struct gpud_device *device)
{
    struct gpud_gpu *gpu = gpud_gpu(device);
    gpu->driver->enter(gpu);
}

static void leave(struct gpud_device *device)
{
    struct gpud_gpu *gpu = gpud_gpu(device);
    gpu->driver->leave(gpu);
}

static void drop_event(struct gpud_device *device, void *event)
{
    gpud_events_put(&gpud_gpu(device)->events, event);
}

void *gpud_gpu_record_event(struct gpud_gpu *gpu, void *stream, int *result)
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
static enum gpud_progress ask(int (*query)(void *), void *what, long *result)
{
    *result = query(what);
    if (*result && *result != GPUD_GPU_NOT_READY)
        *result = query(what);
    return *result == 0                    ? GPUD_PROGRESS_DONE
           : *result == GPUD_GPU_NOT_READY ? GPUD_PROGRESS_BUSY
                                           : GPUD_PROGRESS_FAILED;
}

static enum gpud_progress query_event(struct gpud_device *device, void *event, long *result)
{
    return ask(gpud_gpu(device)->driver->event_query, event, result);
}

static enum gpud_progress query_stream(struct gpud_device *device, void *stream, long *result)
{
    return ask(gpud_gpu(device)->driver->stream_query, stream, result);
}

static void release(struct gpud_async_queue *async)
{
    gpud_gpu(async->async->device)->driver->stream_destroy(async->handle);
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
        return gpud_gpu_fail(gpu->driver, error, (int)result, "work on the GPU failed");
    default:
        return GPUD_OK;
    }
}
