/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What CUDA and HIP share, but for memory: errors, opening a GPU, queues and signals. */
#include "device/gpu/gpu.h"

#include "base/base.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* === driver ================================================================================== */
/* Errors of a GPU's driver. */

static enum gpud_status gpu_api_status_of(int result)
{
    switch (result) {
    case GPUD_GPU_OUT_OF_MEMORY:
        return GPUD_NO_MEMORY;
    case GPUD_GPU_STUB_LIBRARY:
    case GPUD_GPU_INSUFFICIENT_DRIVER:
    case GPUD_GPU_NO_DEVICE:
    case GPUD_GPU_INVALID_DEVICE:
    case GPUD_GPU_SYSTEM_NOT_READY:
    case GPUD_GPU_SYSTEM_DRIVER_MISMATCH:
        return GPUD_NO_DEVICE;
    case GPUD_GPU_NOT_PERMITTED:
        return GPUD_NO_ACCESS;
    case GPUD_GPU_NOT_SUPPORTED:
        return GPUD_UNSUPPORTED;
    default:
        return GPUD_IO;
    }
}

static enum gpud_status gpu_api_fail(const struct gpud_gpu_driver *driver, struct gpud_error *error,
                                     enum gpud_status status, int result, const char *format,
                                     va_list args)
{
    char text[160];
    const char *name = driver->error_name(result);
    gpud_text_format(text, sizeof(text), format, args);
    return gpud_fail_native(error, status, driver->origin, result, "%s: %s (%d)", text,
                            name ? name : "an error that the driver has no name for", result);
}

enum gpud_status gpud_gpu_fail(const struct gpud_gpu_driver *driver, struct gpud_error *error,
                               int result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    enum gpud_status status =
        gpu_api_fail(driver, error, gpu_api_status_of(result), result, format, args);
    va_end(args);
    return status;
}

enum gpud_status gpud_gpu_fail_as(const struct gpud_gpu_driver *driver, struct gpud_error *error,
                                  enum gpud_status status, int result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    gpu_api_fail(driver, error, status, result, format, args);
    va_end(args);
    return status;
}

/* === events ================================================================================== */

static void *events_take(struct gpud_events *events, int *result)
{
    void *event = NULL;
    gpud_lock_take(&events->lock);
    if (events->count)
        event = events->kept[--events->count];
    gpud_lock_release(&events->lock);
    if (!event && (*result = events->driver->event_create(&event, GPUD_GPU_EVENT_DISABLE_TIMING)))
        return NULL;
    return event;
}

/* In any state. */
static void events_put(struct gpud_events *events, void *event)
{
    gpud_lock_take(&events->lock);
    bool kept = events->count < GPUD_EVENTS_KEPT;
    if (kept)
        events->kept[events->count++] = event;
    gpud_lock_release(&events->lock);
    if (!kept)
        events->driver->event_destroy(event);
}

/* === stream ================================================================================== */

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
    events_put(&gpud_gpu(device)->events, event);
}

/* Records an event, from gpu->events, after the stream's current work; NULL and *result on failure.
 */
static void *gpu_record_event(struct gpud_gpu *gpu, void *stream, int *result)
{
    void *event = events_take(&gpu->events, result);
    if (!event)
        return NULL;
    *result = gpu->driver->event_record(event, stream);
    if (*result) {
        events_put(&gpu->events, event);
        event = NULL;
    }
    return event;
}

static enum gpud_progress mark_stream(struct gpud_device *device, void *stream, void **event)
{
    struct gpud_gpu *gpu = gpud_gpu(device);
    int failure;
    void *made = events_take(&gpu->events, &failure);
    if (!made)
        return GPUD_PROGRESS_FAILED;
    if (gpu->driver->event_record(made, stream) == 0 ||
        gpu->driver->event_record(made, stream) == 0) {
        *event = made;
        return GPUD_PROGRESS_BUSY;
    }
    events_put(&gpu->events, made);
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
        events_put(&gpu->events, event);
    return status;
}

static enum gpud_status gpu_queue_wrap(struct gpud_queue *queue, void *stream,
                                       struct gpud_error *error)
{
    queue->native = stream;
    return GPUD_OK;
}

static bool gpu_queue_is_idle(struct gpud_queue *queue)
{
    struct gpud_gpu *gpu = gpud_gpu(queue->device);
    /* A default stream also orders work of streams that it is not asked about. */
    if ((uintptr_t)queue->native <= GPUD_GPU_STREAM_DEFAULT_MAX &&
        !gpu->driver->queries_default_streams)
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

/* --- pinned pages, for what the driver cannot reach --------------------------------------------
 */

static enum gpud_status gpu_bounce_make(struct gpud_device *device, uint64_t size,
                                        struct gpud_bounce **bounce, struct gpud_error *error)
{
    const struct gpud_gpu_driver *driver = gpud_gpu(device)->driver;
    struct gpud_bounce *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a mapping's record");
    int result = driver->mem_host_alloc(&made->pages, size, GPUD_GPU_HOST_PORTABLE);
    if (result) {
        free(made);
        return gpud_gpu_fail(driver, error, result, "no %llu bytes of pinned memory for %s",
                             (unsigned long long)size, device->info.name);
    }
    made->size = size;
    *bounce = made;
    return GPUD_OK;
}

static void gpu_bounce_free(struct gpud_device *device, struct gpud_bounce *bounce)
{
    gpud_gpu(device)->driver->mem_free_host(bounce->pages);
    free(bounce);
}

static void *gpu_bounce_mark(struct gpud_device *device, void *stream)
{
    void *event = NULL;
    mark_stream(device, stream, &event);
    return event;
}

static enum gpud_status gpu_bounce_download(const struct gpud_memory *memory, void *stream,
                                            struct gpud_bounce *bounce, int64_t deadline,
                                            struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(memory->device);
    const char *name = memory->device->info.name;
    const struct gpud_rows rows = {
        .to = (uintptr_t)bounce->pages,
        .from = gpud_gpu_record(memory)->address + bounce->offset,
        .row_bytes = bounce->length,
        .rows = 1,
    };
    long failure = 0;
    int result = gpu->driver->copy(stream, &rows, false);
    if (result)
        return gpud_gpu_fail(gpu->driver, error, result, "a copy from %s to the host", name);
    switch (gpud_async_wait(&gpu->async, stream, deadline, &failure)) {
    case GPUD_PROGRESS_BUSY:
        return gpud_fail(error, GPUD_TIMEOUT, "%s is still busy with what was enqueued", name);
    case GPUD_PROGRESS_FAILED:
        return gpud_gpu_fail(gpu->driver, error, (int)failure, "work on %s failed", name);
    default:
        return GPUD_OK;
    }
}

static enum gpud_status gpu_bounce_upload(const struct gpud_memory *memory, void *stream,
                                          struct gpud_bounce *bounce, struct gpud_error *error)
{
    const struct gpud_gpu_driver *driver = gpud_gpu(memory->device)->driver;
    const struct gpud_rows rows = {
        .to = gpud_gpu_record(memory)->address + bounce->offset,
        .from = (uintptr_t)bounce->pages,
        .row_bytes = bounce->length,
        .rows = 1,
    };
    int result = driver->copy(stream, &rows, false);
    return result == 0 ? GPUD_OK
                       : gpud_gpu_fail(driver, error, result, "what was written does not get to %s",
                                       memory->device->info.name);
}

static const struct gpud_bounce_ops gpu_bounce_ops = {
    .make = gpu_bounce_make,
    .free = gpu_bounce_free,
    .mark = gpu_bounce_mark,
    .download = gpu_bounce_download,
    .upload = gpu_bounce_upload,
};

/* Copies from pageable memory: the bytes are taken at once, and go up in the order of the queue.
 * A driver would do the same, but wait for a queue that stands still. Between enter and leave. */
static enum gpud_status gpu_copy_pageable(struct gpud_gpu *gpu, void *stream,
                                          const struct gpud_copy *copy, struct gpud_error *error)
{
    const char *name = gpu->async.device->info.name;
    struct gpud_bounce *bounce;
    enum gpud_status status =
        gpud_bounce_take(&gpu->bounces, copy->row_bytes * copy->rows, &bounce, error);
    if (status != GPUD_OK)
        return status;
    gpud_bounce_pack(bounce, copy);
    const struct gpud_rows rows = {
        .to = gpud_gpu_record(copy->to)->address + copy->to_offset,
        .from = (uintptr_t)bounce->pages,
        .to_stride = copy->to_stride,
        .from_stride = (uint32_t)copy->row_bytes,
        .row_bytes = copy->row_bytes,
        .rows = copy->rows,
    };
    int result = gpu->driver->copy(stream, &rows, false);
    if (result) {
        gpud_bounce_put(&gpu->bounces, bounce);
        return gpud_gpu_fail(gpu->driver, error, result, "a copy on %s", name);
    }
    if (!gpud_bounce_put_busy(&gpu->bounces, stream, bounce))
        return gpud_fail(error, GPUD_IO, "a copy on %s: the driver takes no more work", name);
    return GPUD_OK;
}

/* --- copies -------------------------------------------------------------------------------- */

static enum gpud_status gpu_queue_copy(struct gpud_queue *queue, const struct gpud_copy *copy,
                                       struct gpud_error *error)
{
    const struct gpud_gpu_memory *to = gpud_gpu_record(copy->to);
    const struct gpud_gpu_memory *from = gpud_gpu_record(copy->from);
    if (to->kind == GPUD_GPU_PAGEABLE)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s copies only into host memory that begins with a page and can be "
                         "pinned (ulimit -l)",
                         queue->device->info.name);
    void *stream = queue->native;
    struct gpud_gpu *gpu = gpud_gpu(queue->device);
    gpu->driver->enter(gpu);
    if (from->kind == GPUD_GPU_PAGEABLE) {
        enum gpud_status status = gpu_copy_pageable(gpu, stream, copy, error);
        gpu->driver->leave(gpu);
        return status;
    }
    const struct gpud_rows rows = {
        .to = to->address + copy->to_offset,
        .from = from->address + copy->from_offset,
        .to_stride = copy->to_stride,
        .from_stride = copy->from_stride,
        .row_bytes = copy->row_bytes,
        .rows = copy->rows,
    };
    bool on_gpu = copy->rows == 1 && to->kind < GPUD_GPU_PINNED && from->kind < GPUD_GPU_PINNED;
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
    return gpud_bounce_map(&gpud_gpu(queue->device)->bounces, queue->native, memory, offset, size,
                           access, deadline, data, error);
}

static enum gpud_status gpu_queue_unmap(struct gpud_queue *queue, struct gpud_memory *memory,
                                        void *data, struct gpud_error *error)
{
    return gpud_bounce_unmap(&gpud_gpu(queue->device)->bounces, queue->native, memory, data, error);
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

/* === signal ================================================================================== */
/* Signals: stream memory operations on a word in pinned host pages, which the CPU can read, and
 * write when a stream waits for a dead writer.
 *
 * Some drivers compare cyclically, some not, and we do not: values stay below 2^31 (a ring gets a
 * new epoch long before). A write has a system-wide fence for the work before it on its stream. */

static uint64_t gpu_signal_address_of(const struct gpud_signal *signal)
{
    return gpud_gpu_record(signal->memory)->address + signal->offset;
}

static enum gpud_status check_pinned(const struct gpud_signal *signal, struct gpud_error *error)
{
    if (gpud_gpu_record(signal->memory)->kind == GPUD_GPU_PINNED)
        return GPUD_OK;
    return gpud_fail(error, GPUD_UNSUPPORTED,
                     "%s waits for words in pinned host memory only: is the limit of locked memory "
                     "(ulimit -l) too low?",
                     signal->device->info.name);
}

static enum gpud_status gpu_signal_create(struct gpud_signal *signal, struct gpud_error *error)
{
    enum gpud_status status = check_pinned(signal, error);
    return status == GPUD_OK ? gpud_signal_create_word(signal, error) : status;
}

static void gpu_signal_destroy(struct gpud_signal *signal)
{
    gpud_signal_raise_word(signal, atomic_load(&signal->waited));
}

static enum gpud_status gpu_signal_import(struct gpud_signal *signal, struct gpud_error *error)
{
    enum gpud_status status = check_pinned(signal, error);
    return status == GPUD_OK ? gpud_signal_import_word(signal, error) : status;
}

static enum gpud_status gpu_signal_post(struct gpud_signal *signal, uint32_t value,
                                        struct gpud_queue *queue, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(signal->device);
    gpu->driver->enter(gpu);
    int result =
        gpu->driver->stream_write_value(queue->native, gpu_signal_address_of(signal), value, 0);
    gpu->driver->leave(gpu);
    if (result)
        return gpud_gpu_fail(gpu->driver, error, result, "%s cannot post a signal",
                             signal->device->info.name);
    return GPUD_OK;
}

static enum gpud_status gpu_signal_wait_queue(struct gpud_signal *signal, uint32_t value,
                                              struct gpud_queue *queue, struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(signal->device);
    gpu->driver->enter(gpu);
    int result = gpu->driver->wait_value(queue->native, gpu_signal_address_of(signal), value);
    gpu->driver->leave(gpu);
    if (result)
        return gpud_gpu_fail(gpu->driver, error, result, "%s cannot wait for a signal",
                             signal->device->info.name);
    return GPUD_OK;
}

static enum gpud_status gpu_signal_batch(const struct gpud_signal_value *values, uint32_t count,
                                         bool wait, struct gpud_queue *queue,
                                         struct gpud_error *error)
{
    struct gpud_gpu *gpu = gpud_gpu(queue->device);
    struct gpud_gpu_word words[GPUD_SIGNALS_AT_ONCE];
    if (!gpu->driver->batch)
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s takes one signal at a time",
                         queue->device->info.name);
    for (uint32_t i = 0; i < count; i++)
        words[i] = (struct gpud_gpu_word){gpu_signal_address_of(values[i].signal),
                                          (uint32_t)values[i].value};
    gpu->driver->enter(gpu);
    int result = gpu->driver->batch(queue->native, words, count, wait);
    gpu->driver->leave(gpu);
    if (result)
        return gpud_gpu_fail(gpu->driver, error, result, "%s cannot %s %u signals at once",
                             queue->device->info.name, wait ? "wait for" : "post", count);
    return GPUD_OK;
}

static enum gpud_status gpu_signal_wait_host(struct gpud_signal *signal, uint32_t value,
                                             int64_t deadline, struct gpud_error *error)
{
    int64_t start = gpud_now();
    for (;;) {
        uint32_t seen = atomic_load_explicit(gpud_signal_word(signal), memory_order_acquire);
        if (seen >= value)
            return GPUD_OK;
        if (gpud_now() >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT, "the signal stands at %u, not yet at %u", seen,
                             value);
        gpud_pause(start); /* a GPU cannot wake a thread */
    }
}

/* By the CPU, without the driver: it works even if the driver is stuck. */
static enum gpud_status gpu_signal_poison(struct gpud_signal *signal, uint32_t value,
                                          struct gpud_error *error)
{
    gpud_signal_raise_word(signal, value);
    return GPUD_OK;
}

const struct gpud_signal_ops gpud_gpu_signal_ops = {
    .create = gpu_signal_create,
    .destroy = gpu_signal_destroy,
    .import = gpu_signal_import,
    .post = gpu_signal_post,
    .wait_queue = gpu_signal_wait_queue,
    .batch = gpu_signal_batch,
    .wait_host = gpu_signal_wait_host,
    .poison = gpu_signal_poison,
};

/* === api ===================================================================================== */
/* Opening and closing a GPU, and asking its driver about it. */

/* --- opening and closing ------------------------------------------------------------------- */

void gpud_gpu_probe_reach(struct gpud_device *device, int count, bool (*reaches)(int from, int to),
                          bool (*read_uuid)(int ordinal, uint8_t uuid[16]))
{
    memcpy(device->reach[device->reach_count++], device->uuid, sizeof(device->uuid));
    for (int i = 0; i < count && device->reach_count < GPUD_REACH_MAX; i++)
        if (i != (int)device->index && reaches((int)device->index, i) &&
            read_uuid(i, device->reach[device->reach_count]))
            device->reach_count++;
}

enum gpud_status gpud_gpu_open(struct gpud_gpu *gpu, struct gpud_device *device,
                               struct gpud_error *error)
{
    /* The watchdog of the words that streams wait for runs on it. */
    enum gpud_status status = gpud_worker_start(&device->context->watch, error);
    if (status == GPUD_OK)
        status = gpud_async_init(&gpu->async, &gpud_gpu_async_ops, device, error);
    if (status != GPUD_OK)
        return status;
    gpu->driver->enter(gpu);
    int result = gpu->driver->stream_create(&gpu->service, GPUD_GPU_STREAM_NON_BLOCKING);
    gpu->driver->leave(gpu);
    if (result) {
        gpud_async_finish(&gpu->async);
        return gpud_gpu_fail(gpu->driver, error, result, "no stream on %s", device->info.name);
    }
    if (!gpud_gpu_pins_what_it_reads(gpu))
        device->caps |= GPUD_CAP_PINS_WRITABLE;
    if (!gpu->granularity)
        device->caps &= ~(uint32_t)GPUD_CAP_SHARE;
    gpud_completion_thread_init(&gpu->completions, &gpud_gpu_async_ops, device);
    gpu->events = (struct gpud_events){.driver = gpu->driver};
    gpud_lock_init(&gpu->events.lock, GPUD_RANK_EVENTS);
    gpud_bounces_init(&gpu->bounces, &gpu_bounce_ops, &gpu->async);
    device->backend = gpu;
    return GPUD_OK;
}

bool gpud_gpu_close(struct gpud_gpu *gpu)
{
    const struct gpud_device *device = gpu->async.device;
    if (!gpud_completion_thread_finish(&gpu->completions) || gpud_async_count(&gpu->async)) {
        gpud_log_error(&device->context->log, device->ops->name,
                       "%s: work is stuck on it, and what the driver holds for it cannot be "
                       "released",
                       device->info.name);
        return false;
    }
    gpu->driver->enter(gpu);
    gpud_bounces_finish(&gpu->bounces);
    gpu->driver->stream_destroy(gpu->service);
    while (gpu->events.count)
        gpu->driver->event_destroy(gpu->events.kept[--gpu->events.count]);
    gpud_lock_destroy(&gpu->events.lock);
    gpu->driver->leave(gpu);
    gpud_async_finish(&gpu->async);
    return true;
}

/* --- ways between GPUs --------------------------------------------------------------------- */

bool gpud_gpu_ask_link(const struct gpud_gpu_driver *driver, int from, int to,
                       struct gpud_device_link *link)
{
    int can = 0, value;
    if (driver->device_can_access_peer(&can, from, to))
        return false;
    link->direct = can;
    if (can && driver->device_get_p2p_attribute(&value, driver->p2p_atomics, from, to) == 0)
        link->atomics = value != 0;
    if (can && driver->device_get_p2p_attribute(&value, driver->p2p_rank, from, to) == 0)
        link->rank = value;
    return true;
}

/* --- whose memory a pointer is ------------------------------------------------------------- */

static bool gpu_api_ask(const struct gpud_gpu_driver *driver, enum gpud_gpu_attribute attribute,
                        void *value, const void *pointer)
{
    return driver->pointer_get_attribute(value, attribute, (uint64_t)(uintptr_t)pointer) == 0;
}

/* The order of the questions matters: memory that was mapped from a handle and memory of a pool
 * both look like plain device memory to the later ones. */
static enum gpud_pointer_kind kind_of_device_memory(const struct gpud_gpu_driver *driver,
                                                    const void *pointer)
{
    uint64_t allocation;
    void *context = NULL;
    if (driver->mem_retain_allocation_handle && driver->mem_release &&
        driver->mem_retain_allocation_handle(&allocation, (void *)pointer) == 0) {
        driver->mem_release(allocation);
        return GPUD_POINTER_MAPPED;
    }
    if (driver->pools_have_no_context &&
        (!gpu_api_ask(driver, GPUD_GPU_POINTER_CONTEXT, &context, pointer) || !context))
        return GPUD_POINTER_POOL;
    return GPUD_POINTER_DEVICE;
}

bool gpud_gpu_identify(const struct gpud_gpu_driver *driver, const char *kind, const void *pointer,
                       struct gpud_pointer_info *info)
{
    unsigned type = UINT32_MAX, managed = 0;
    int ordinal = 0;
    void *base = NULL;
    size_t size = 0;
    if (!gpu_api_ask(driver, GPUD_GPU_POINTER_MEMORY_TYPE, &type, pointer))
        return false;
    gpu_api_ask(driver, GPUD_GPU_POINTER_IS_MANAGED, &managed, pointer);
    bool on_host = type == driver->host_memory_type;
    if (!managed && !on_host && type != driver->host_memory_type + 1)
        return false;
    gpu_api_ask(driver, GPUD_GPU_POINTER_ORDINAL, &ordinal, pointer);
    if (gpu_api_ask(driver, GPUD_GPU_POINTER_START, &base, pointer) &&
        gpu_api_ask(driver, GPUD_GPU_POINTER_SIZE, &size, pointer)) {
        info->base = base;
        info->length = size;
    }
    info->kind = managed   ? GPUD_POINTER_MANAGED
                 : on_host ? GPUD_POINTER_PINNED
                           : kind_of_device_memory(driver, pointer);
    if (info->kind == GPUD_POINTER_PINNED)
        gpud_print(info->device, "host");
    else
        gpud_print(info->device, "%s:%d", kind, ordinal);
    return true;
}
