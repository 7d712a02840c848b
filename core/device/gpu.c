/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Opening and closing a GPU, and what went wrong with it. */
#include "device/gpu.h"

#include "base/text.h"

#include <stdarg.h>
#include <string.h>

/* --- errors -------------------------------------------------------------------------------- */

static enum gpud_status fail(const struct gpud_gpu_ops *ops, struct gpud_error *error,
                             enum gpud_status status, long result, const char *format, va_list args)
{
    char text[160];
    const char *name = ops->error_name(result);
    gpud_text_format(text, sizeof(text), format, args);
    return gpud_fail_native(error, status, ops->origin, result, "%s: %s (%ld)", text,
                            name ? name : "an error that the driver has no name for", result);
}

enum gpud_status gpud_gpu_fail(const struct gpud_gpu_ops *ops, struct gpud_error *error,
                               long result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    enum gpud_status status = fail(ops, error, ops->error_status(result), result, format, args);
    va_end(args);
    return status;
}

enum gpud_status gpud_gpu_fail_as(const struct gpud_gpu_ops *ops, struct gpud_error *error,
                                  enum gpud_status status, long result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(ops, error, status, result, format, args);
    va_end(args);
    return status;
}

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
    gpu->ops->enter(gpu);
    long result = gpu->ops->stream->create(&gpu->service);
    gpu->ops->leave(gpu);
    if (result) {
        gpud_async_finish(&gpu->async);
        return gpud_gpu_fail(gpu->ops, error, result, "no stream on %s", device->info.name);
    }
    if (!gpud_gpu_pins_what_it_reads(gpu))
        device->caps |= GPUD_CAP_PINS_WRITABLE;
    if (!gpu->granularity)
        device->caps &= ~(uint32_t)GPUD_CAP_SHARE;
    gpud_completion_thread_init(&gpu->completions, &gpud_gpu_async_ops, device);
    gpud_events_init(&gpu->events, gpu->ops->stream->create_event, gpu->ops->stream->destroy_event);
    gpud_bounces_init(gpu);
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
    gpu->ops->enter(gpu);
    gpud_bounces_finish(gpu);
    gpu->ops->stream->destroy(gpu->service);
    gpud_events_finish(&gpu->events);
    gpu->ops->leave(gpu);
    gpud_async_finish(&gpu->async);
    return true;
}
