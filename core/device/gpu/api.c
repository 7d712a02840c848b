/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The driver, its tables and contexts. */
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
/* Keeps unused events, because creating one costs more than launching a copy. */

static void events_init(struct gpud_events *events, const struct gpud_gpu_driver *driver)
{
    events->driver = driver;
    events->count = 0;
    gpud_lock_init(&events->lock, GPUD_RANK_EVENTS);
}

static void events_finish(struct gpud_events *events)
{
    while (events->count)
        events->driver->event_destroy(events->kept[--events->count]);
    gpud_lock_destroy(&events->lock);
}

void *gpud_events_take(struct gpud_events *events, int *result)
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

void gpud_events_put(struct gpud_events *events, void *event)
{
    gpud_lock_take(&events->lock);
    bool kept = events->count < GPUD_EVENTS_KEPT;
    if (kept)
        events->kept[events->count++] = event;
    gpud_lock_release(&events->lock);
    if (!kept)
        events->driver->event_destroy(event);
}

/* === api ===================================================================================== */
/* Opening and closing a GPU, and asking its driver about it. */

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
    events_init(&gpu->events, gpu->driver);
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
    events_finish(&gpu->events);
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

/* === tables ================================================================================== */
/* Counted operations that a driver does once a process: pinning a host page, and opening a peer's
 * handle in a context. All calls are made between the driver's enter and leave. */

/* --- pinned host pages --------------------------------------------------------------------- */

struct gpud_pinned {
    struct gpud_pinned *next;
    char *start;
    uint64_t size;
    unsigned count;
};

bool gpud_pins_register(const struct gpud_gpu_driver *driver, void *pages, uint64_t size,
                        bool read_only)
{
    unsigned flags = GPUD_GPU_REGISTER_PORTABLE | GPUD_GPU_REGISTER_MAPPED;
    if (read_only && driver->read_only_flag &&
        driver->mem_host_register(pages, size, flags | driver->read_only_flag) == 0)
        return true;
    return driver->mem_host_register(pages, size, flags) == 0;
}

bool gpud_pins_add(struct gpud_gpu_driver *driver, void *data, uint64_t size, bool read_only,
                   struct gpud_pinned **pinned)
{
    struct gpud_pins *pins = &driver->pins;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct gpud_pinned *range = malloc(sizeof(*range));
    if (!range)
        return false;
    *range = (struct gpud_pinned){
        .start = data,
        .size = (size + page - 1) / page * page,
        .count = 1,
    };
    gpud_lock_take(&pins->lock);
    struct gpud_pinned *found = pins->first;
    while (found &&
           (found->start > range->start || found->start + found->size < range->start + range->size))
        found = found->next;
    if (found) {
        found->count++;
    } else if ((uintptr_t)data % page == 0 &&
               gpud_pins_register(driver, range->start, range->size, read_only)) {
        range->next = pins->first;
        pins->first = found = range;
        range = NULL;
    }
    gpud_lock_release(&pins->lock);
    free(range);
    *pinned = found;
    return true;
}

void gpud_pins_remove(struct gpud_gpu_driver *driver, struct gpud_pinned *pinned)
{
    struct gpud_pins *pins = &driver->pins;
    if (!pinned)
        return;
    gpud_lock_take(&pins->lock);
    if (--pinned->count == 0) {
        struct gpud_pinned **link = &pins->first;
        while (*link != pinned)
            link = &(*link)->next;
        *link = pinned->next;
        driver->mem_host_unregister(pinned->start);
        free(pinned);
    }
    gpud_lock_release(&pins->lock);
}

/* --- opened handles ------------------------------------------------------------------------ */

struct gpud_opened {
    struct gpud_opened *next;
    const void *context;
    struct gpud_gpu_ipc handle;
    uint64_t base;
    unsigned count;
};

static struct gpud_opened *open_new(struct gpud_gpu_driver *driver, const void *context,
                                    const struct gpud_gpu_ipc *handle, int *result)
{
    struct gpud_opened *made = calloc(1, sizeof(*made));
    *result = made ? driver->ipc_open_mem_handle(&made->base, *handle, driver->ipc_flags)
                   : GPUD_GPU_OUT_OF_MEMORY;
    if (*result) {
        free(made);
        return NULL;
    }
    made->context = context;
    made->handle = *handle;
    made->next = driver->opens.first;
    driver->opens.first = made;
    return made;
}

int gpud_opens_add(struct gpud_gpu_driver *driver, const void *context,
                   const struct gpud_gpu_ipc *handle, uint64_t *base)
{
    struct gpud_opens *opens = &driver->opens;
    int result = 0;
    gpud_lock_take(&opens->lock);
    struct gpud_opened *found = opens->first;
    while (found &&
           (found->context != context || memcmp(&found->handle, handle, sizeof(*handle)) != 0))
        found = found->next;
    if (!found)
        found = open_new(driver, context, handle, &result);
    if (found) {
        found->count++;
        *base = found->base;
    }
    gpud_lock_release(&opens->lock);
    return result;
}

void gpud_opens_remove(struct gpud_gpu_driver *driver, const void *context, uint64_t base)
{
    struct gpud_opens *opens = &driver->opens;
    gpud_lock_take(&opens->lock);
    struct gpud_opened **link = &opens->first;
    while (*link && ((*link)->context != context || (*link)->base != base))
        link = &(*link)->next;
    struct gpud_opened *found = *link;
    if (found && --found->count == 0) {
        *link = found->next;
        driver->ipc_close_mem_handle(base);
        free(found);
    }
    gpud_lock_release(&opens->lock);
}
