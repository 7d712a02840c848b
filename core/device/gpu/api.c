/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Opening and closing a GPU, and asking its driver about it. */
#include "device/gpu/api.h"

#include "device/gpu/bounce.h"
#include "device/gpu/map.h"
#include "device/gpu/share.h"
#include "device/gpu/stream.h"

#include <string.h>

/* --- opening and closing ------------------------------------------------------------------- */

uint64_t gpud_gpu_find_granularity(const struct gpud_gpu *gpu)
{
    const struct gpud_gpu_allocation what = gpud_gpu_describe(gpu);
    size_t unit = 0;
    return gpu->driver->mem_get_allocation_granularity(&unit, &what,
                                                       GPUD_GPU_GRANULARITY_MINIMUM) == 0
               ? unit
               : 0;
}

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
    gpud_events_init(&gpu->events, gpu->driver);
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
    gpu->driver->enter(gpu);
    gpud_bounces_finish(gpu);
    gpu->driver->stream_destroy(gpu->service);
    gpud_events_finish(&gpu->events);
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

static bool ask(const struct gpud_gpu_driver *driver, enum gpud_gpu_attribute attribute,
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
        (!ask(driver, GPUD_GPU_POINTER_CONTEXT, &context, pointer) || !context))
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
    if (!ask(driver, GPUD_GPU_POINTER_MEMORY_TYPE, &type, pointer))
        return false;
    ask(driver, GPUD_GPU_POINTER_IS_MANAGED, &managed, pointer);
    bool on_host = type == driver->host_memory_type;
    if (!managed && !on_host && type != driver->host_memory_type + 1)
        return false;
    ask(driver, GPUD_GPU_POINTER_ORDINAL, &ordinal, pointer);
    if (ask(driver, GPUD_GPU_POINTER_START, &base, pointer) &&
        ask(driver, GPUD_GPU_POINTER_SIZE, &size, pointer)) {
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
