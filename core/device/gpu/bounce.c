/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/gpu/bounce.h"

#include <stdlib.h>
#include <string.h>

#define IDLE_MAX 8

struct gpud_bounce {
    struct gpud_bounce *next;
    void *pages;
    uint64_t size;
    void *busy; /* the event behind a copy that still uses them; NULL: none */
    unsigned access;
    uint64_t offset, length; /* what is mapped */
};

void gpud_bounces_init(struct gpud_gpu *gpu)
{
    gpu->bounces.idle = gpu->bounces.used = NULL;
    gpud_lock_init(&gpu->bounces.lock, GPUD_RANK_BOUNCES);
}

static void drop_event(struct gpud_gpu *gpu, struct gpud_bounce *bounce)
{
    if (bounce->busy)
        gpud_events_put(&gpu->events, bounce->busy);
    bounce->busy = NULL;
}

static void destroy(struct gpud_gpu *gpu, struct gpud_bounce *bounce)
{
    drop_event(gpu, bounce);
    gpu->driver->mem_free_host(bounce->pages);
    free(bounce);
}

static void destroy_all(struct gpud_gpu *gpu, struct gpud_bounce *bounce)
{
    while (bounce) {
        struct gpud_bounce *gone = bounce;
        bounce = bounce->next;
        destroy(gpu, gone);
    }
}

void gpud_bounces_finish(struct gpud_gpu *gpu)
{
    destroy_all(gpu, gpu->bounces.idle);
    destroy_all(gpu, gpu->bounces.used);
    gpud_lock_destroy(&gpu->bounces.lock);
}

/* --- taking and putting back --------------------------------------------------------------- */

static bool is_at_rest(const struct gpud_gpu *gpu, const struct gpud_bounce *bounce)
{
    long result;
    return !bounce->busy ||
           gpu->async.ops->query(gpu->async.device, bounce->busy, &result) == GPUD_PROGRESS_DONE;
}

static struct gpud_bounce *find_idle(struct gpud_gpu *gpu, uint64_t size)
{
    struct gpud_bounce *found = NULL;
    gpud_lock_take(&gpu->bounces.lock);
    for (struct gpud_bounce **link = &gpu->bounces.idle; *link && !found;) {
        struct gpud_bounce *bounce = *link;
        if (bounce->size >= size && bounce->size / 2 <= size && is_at_rest(gpu, bounce)) {
            found = bounce;
            *link = bounce->next;
        } else {
            link = &bounce->next;
        }
    }
    gpud_lock_release(&gpu->bounces.lock);
    if (found)
        drop_event(gpu, found);
    return found;
}

static enum gpud_status make(struct gpud_gpu *gpu, uint64_t size, struct gpud_bounce **bounce,
                             struct gpud_error *error)
{
    struct gpud_bounce *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a mapping's record");
    int result = gpu->driver->mem_host_alloc(&made->pages, size, GPUD_GPU_HOST_PORTABLE);
    if (result) {
        free(made);
        return gpud_gpu_fail(gpu->driver, error, result, "no %llu bytes of pinned memory for %s",
                             (unsigned long long)size, gpu->async.device->info.name);
    }
    made->size = size;
    *bounce = made;
    return GPUD_OK;
}

static enum gpud_status take(struct gpud_gpu *gpu, uint64_t size, struct gpud_bounce **bounce,
                             struct gpud_error *error)
{
    *bounce = find_idle(gpu, size);
    return *bounce ? GPUD_OK : make(gpu, size, bounce, error);
}

/* Puts pages back among the idle ones; frees the oldest when there are too many. */
static void put(struct gpud_gpu *gpu, struct gpud_bounce *bounce)
{
    struct gpud_bounce *surplus = NULL;
    unsigned count = 0;
    gpud_lock_take(&gpu->bounces.lock);
    bounce->next = gpu->bounces.idle;
    gpu->bounces.idle = bounce;
    for (struct gpud_bounce **link = &gpu->bounces.idle; *link; link = &(*link)->next) {
        if (++count > IDLE_MAX && !(*link)->next && is_at_rest(gpu, *link)) {
            surplus = *link;
            *link = NULL;
            break;
        }
    }
    gpud_lock_release(&gpu->bounces.lock);
    if (surplus)
        destroy(gpu, surplus);
}

static void add_used(struct gpud_gpu *gpu, struct gpud_bounce *bounce)
{
    gpud_lock_take(&gpu->bounces.lock);
    bounce->next = gpu->bounces.used;
    gpu->bounces.used = bounce;
    gpud_lock_release(&gpu->bounces.lock);
}

static struct gpud_bounce *take_used(struct gpud_gpu *gpu, const void *pages)
{
    gpud_lock_take(&gpu->bounces.lock);
    struct gpud_bounce **link = &gpu->bounces.used;
    while (*link && (*link)->pages != pages)
        link = &(*link)->next;
    struct gpud_bounce *bounce = *link;
    if (bounce)
        *link = bounce->next;
    gpud_lock_release(&gpu->bounces.lock);
    return bounce;
}

/* For pages that a copy on the queue still uses. If the driver cannot mark its end, they stay in
 * use until the device is closed. */
static bool put_busy(struct gpud_gpu *gpu, void *queue, struct gpud_bounce *bounce)
{
    enum gpud_progress marked = gpu->async.ops->mark(gpu->async.device, queue, &bounce->busy);
    if (marked == GPUD_PROGRESS_BUSY)
        put(gpu, bounce);
    else
        add_used(gpu, bounce);
    return marked == GPUD_PROGRESS_BUSY;
}

/* --- copies -------------------------------------------------------------------------------- */

static uint64_t address_of(const struct gpud_bounce *bounce)
{
    return (uint64_t)(uintptr_t)bounce->pages;
}

static int copy_linear(struct gpud_gpu *gpu, void *queue, uint64_t to, uint64_t from, uint64_t size)
{
    const struct gpud_rows rows = {.to = to, .from = from, .row_bytes = size, .rows = 1};
    return gpu->driver->copy(queue, &rows, false);
}

static enum gpud_status download(struct gpud_gpu *gpu, void *queue,
                                 const struct gpud_memory *memory, struct gpud_bounce *bounce,
                                 int64_t deadline, struct gpud_error *error)
{
    long failure = 0;
    int result = copy_linear(gpu, queue, address_of(bounce),
                             gpud_gpu_record(memory)->address + bounce->offset, bounce->length);
    if (result)
        return gpud_gpu_fail(gpu->driver, error, result, "a copy from %s to the host",
                             gpu->async.device->info.name);
    switch (gpud_async_wait(&gpu->async, queue, deadline, &failure)) {
    case GPUD_PROGRESS_BUSY:
        return gpud_fail(error, GPUD_TIMEOUT, "%s is still busy with what was enqueued",
                         gpu->async.device->info.name);
    case GPUD_PROGRESS_FAILED:
        return gpud_gpu_fail(gpu->driver, error, (int)failure, "work on %s failed",
                             gpu->async.device->info.name);
    default:
        return GPUD_OK;
    }
}

enum gpud_status gpud_bounce_copy(struct gpud_gpu *gpu, void *queue, const struct gpud_copy *copy,
                                  struct gpud_error *error)
{
    struct gpud_bounce *bounce;
    enum gpud_status status = take(gpu, copy->row_bytes * copy->rows, &bounce, error);
    if (status != GPUD_OK)
        return status;
    const char *from = (const char *)copy->from->host + copy->from_offset;
    for (uint32_t row = 0; row < copy->rows; row++)
        memcpy((char *)bounce->pages + row * copy->row_bytes,
               from + (size_t)row * copy->from_stride, copy->row_bytes);
    const struct gpud_rows rows = {
        .to = gpud_gpu_record(copy->to)->address + copy->to_offset,
        .from = address_of(bounce),
        .to_stride = copy->to_stride,
        .from_stride = (uint32_t)copy->row_bytes,
        .row_bytes = copy->row_bytes,
        .rows = copy->rows,
    };
    int result = gpu->driver->copy(queue, &rows, false);
    if (result) {
        put(gpu, bounce);
        return gpud_gpu_fail(gpu->driver, error, result, "a copy on %s",
                             gpu->async.device->info.name);
    }
    if (!put_busy(gpu, queue, bounce))
        return gpud_fail(error, GPUD_IO, "a copy on %s: the driver takes no more work",
                         gpu->async.device->info.name);
    return GPUD_OK;
}

/* --- mapping ------------------------------------------------------------------------------- */

enum gpud_status gpud_bounce_map(struct gpud_gpu *gpu, void *queue, struct gpud_memory *memory,
                                 uint64_t offset, uint64_t size, unsigned access, int64_t deadline,
                                 void **data, struct gpud_error *error)
{
    struct gpud_bounce *bounce;
    gpu->driver->enter(gpu);
    enum gpud_status status = take(gpu, size, &bounce, error);
    if (status == GPUD_OK) {
        bounce->access = access;
        bounce->offset = offset;
        bounce->length = size;
        if (access & GPUD_READ)
            status = download(gpu, queue, memory, bounce, deadline, error);
        if (status == GPUD_OK)
            add_used(gpu, bounce);
        else
            put_busy(gpu, queue, bounce);
    }
    gpu->driver->leave(gpu);
    if (status == GPUD_OK)
        *data = bounce->pages;
    return status;
}

enum gpud_status gpud_bounce_unmap(struct gpud_gpu *gpu, void *queue, struct gpud_memory *memory,
                                   void *data, struct gpud_error *error)
{
    struct gpud_bounce *bounce = take_used(gpu, data);
    int result = 0;
    if (!bounce)
        return GPUD_OK;
    bool written = bounce->access & GPUD_WRITE;
    gpu->driver->enter(gpu);
    if (written)
        result = copy_linear(gpu, queue, gpud_gpu_record(memory)->address + bounce->offset,
                             address_of(bounce), bounce->length);
    if (written && result == 0)
        put_busy(gpu, queue, bounce);
    else
        put(gpu, bounce);
    gpu->driver->leave(gpu);
    return result == 0
               ? GPUD_OK
               : gpud_gpu_fail(gpu->driver, error, result, "what was written does not get to %s",
                               gpu->async.device->info.name);
}
