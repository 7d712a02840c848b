/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/bounce.h"

#include <stdio.h>
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

void gpud_bounces_init(struct gpud_bounces *bounces, const struct gpud_bounce_ops *ops,
                       struct gpud_async *async)
{
    *bounces = (struct gpud_bounces){.ops = ops, .async = async};
    pthread_mutex_init(&bounces->lock, NULL);
}

static void drop_event(struct gpud_bounces *bounces, struct gpud_bounce *bounce)
{
    if (bounce->busy)
        bounces->async->ops->drop(bounces->async->device, bounce->busy);
    bounce->busy = NULL;
}

static void destroy(struct gpud_bounces *bounces, struct gpud_bounce *bounce)
{
    drop_event(bounces, bounce);
    bounces->ops->free(bounce->pages);
    free(bounce);
}

static void destroy_all(struct gpud_bounces *bounces, struct gpud_bounce *bounce)
{
    while (bounce) {
        struct gpud_bounce *gone = bounce;
        bounce = bounce->next;
        destroy(bounces, gone);
    }
}

void gpud_bounces_finish(struct gpud_bounces *bounces)
{
    destroy_all(bounces, bounces->idle);
    destroy_all(bounces, bounces->used);
    pthread_mutex_destroy(&bounces->lock);
}

/* --- taking and putting back --------------------------------------------------------------- */

static bool is_at_rest(const struct gpud_bounces *bounces, const struct gpud_bounce *bounce)
{
    long result;
    return !bounce->busy || bounces->async->ops->query(bounces->async->device, bounce->busy,
                                                       &result) == GPUD_PROGRESS_DONE;
}

static struct gpud_bounce *find_idle(struct gpud_bounces *bounces, uint64_t size)
{
    struct gpud_bounce *found = NULL;
    pthread_mutex_lock(&bounces->lock);
    for (struct gpud_bounce **link = &bounces->idle; *link && !found;) {
        struct gpud_bounce *bounce = *link;
        if (bounce->size >= size && bounce->size / 2 <= size && is_at_rest(bounces, bounce)) {
            found = bounce;
            *link = bounce->next;
        } else {
            link = &bounce->next;
        }
    }
    pthread_mutex_unlock(&bounces->lock);
    if (found)
        drop_event(bounces, found);
    return found;
}

static enum gpud_status make(struct gpud_bounces *bounces, uint64_t size,
                             struct gpud_bounce **bounce, struct gpud_error *error)
{
    struct gpud_bounce *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a mapping's record");
    long result = bounces->ops->alloc(&made->pages, size);
    if (result) {
        char text[96];
        free(made);
        snprintf(text, sizeof(text), "no %llu bytes of pinned memory for %s",
                 (unsigned long long)size, bounces->async->device->info.name);
        return bounces->ops->fail(error, result, text);
    }
    made->size = size;
    *bounce = made;
    return GPUD_OK;
}

static enum gpud_status take(struct gpud_bounces *bounces, uint64_t size,
                             struct gpud_bounce **bounce, struct gpud_error *error)
{
    *bounce = find_idle(bounces, size);
    return *bounce ? GPUD_OK : make(bounces, size, bounce, error);
}

/* Puts pages back among the idle ones; frees the oldest when there are too many. */
static void put(struct gpud_bounces *bounces, struct gpud_bounce *bounce)
{
    struct gpud_bounce *surplus = NULL;
    unsigned count = 0;
    pthread_mutex_lock(&bounces->lock);
    bounce->next = bounces->idle;
    bounces->idle = bounce;
    for (struct gpud_bounce **link = &bounces->idle; *link; link = &(*link)->next) {
        if (++count > IDLE_MAX && !(*link)->next && is_at_rest(bounces, *link)) {
            surplus = *link;
            *link = NULL;
            break;
        }
    }
    pthread_mutex_unlock(&bounces->lock);
    if (surplus)
        destroy(bounces, surplus);
}

static void add_used(struct gpud_bounces *bounces, struct gpud_bounce *bounce)
{
    pthread_mutex_lock(&bounces->lock);
    bounce->next = bounces->used;
    bounces->used = bounce;
    pthread_mutex_unlock(&bounces->lock);
}

static struct gpud_bounce *take_used(struct gpud_bounces *bounces, const void *pages)
{
    pthread_mutex_lock(&bounces->lock);
    struct gpud_bounce **link = &bounces->used;
    while (*link && (*link)->pages != pages)
        link = &(*link)->next;
    struct gpud_bounce *bounce = *link;
    if (bounce)
        *link = bounce->next;
    pthread_mutex_unlock(&bounces->lock);
    return bounce;
}

/* For pages that a copy on the queue still uses. If the driver cannot mark its end, they stay in
 * use until the device is closed. */
static bool put_busy(struct gpud_bounces *bounces, void *queue, struct gpud_bounce *bounce)
{
    struct gpud_async *async = bounces->async;
    enum gpud_progress marked = async->ops->mark(async->device, queue, &bounce->busy);
    if (marked == GPUD_PROGRESS_BUSY)
        put(bounces, bounce);
    else
        add_used(bounces, bounce);
    return marked == GPUD_PROGRESS_BUSY;
}

/* --- copies -------------------------------------------------------------------------------- */

static uint64_t address_of(const struct gpud_bounce *bounce)
{
    return (uint64_t)(uintptr_t)bounce->pages;
}

static enum gpud_status failed(struct gpud_bounces *bounces, struct gpud_error *error, long result,
                               const char *before, const char *after)
{
    char text[96];
    snprintf(text, sizeof(text), "%s%s%s", before, bounces->async->device->info.name, after);
    return bounces->ops->fail(error, result, text);
}

static long copy_linear(struct gpud_bounces *bounces, void *queue, uint64_t to, uint64_t from,
                        uint64_t size)
{
    const struct gpud_rows rows = {.to = to, .from = from, .row_bytes = size, .rows = 1};
    return bounces->ops->copy(queue, &rows);
}

static enum gpud_status download(struct gpud_bounces *bounces, void *queue,
                                 const struct gpud_memory *memory, struct gpud_bounce *bounce,
                                 int64_t deadline, struct gpud_error *error)
{
    long result = copy_linear(bounces, queue, address_of(bounce),
                              bounces->ops->address(memory) + bounce->offset, bounce->length);
    if (result)
        return failed(bounces, error, result, "a copy from ", " to the host");
    switch (gpud_async_wait(bounces->async, queue, deadline, &result)) {
    case GPUD_PROGRESS_BUSY:
        return gpud_fail(error, GPUD_TIMEOUT, "%s is still busy with what was enqueued",
                         bounces->async->device->info.name);
    case GPUD_PROGRESS_FAILED:
        return failed(bounces, error, result, "work on ", " failed");
    default:
        return GPUD_OK;
    }
}

enum gpud_status gpud_bounce_copy(struct gpud_bounces *bounces, void *queue,
                                  const struct gpud_copy *copy, struct gpud_error *error)
{
    struct gpud_bounce *bounce;
    enum gpud_status status = take(bounces, copy->row_bytes * copy->rows, &bounce, error);
    if (status != GPUD_OK)
        return status;
    const char *from = (const char *)copy->from->host + copy->from_offset;
    for (uint32_t row = 0; row < copy->rows; row++)
        memcpy((char *)bounce->pages + row * copy->row_bytes,
               from + (size_t)row * copy->from_stride, copy->row_bytes);
    const struct gpud_rows rows = {
        .to = bounces->ops->address(copy->to) + copy->to_offset,
        .from = address_of(bounce),
        .to_stride = copy->to_stride,
        .from_stride = (uint32_t)copy->row_bytes,
        .row_bytes = copy->row_bytes,
        .rows = copy->rows,
    };
    long result = bounces->ops->copy(queue, &rows);
    if (result) {
        put(bounces, bounce);
        return failed(bounces, error, result, "a copy on ", "");
    }
    if (!put_busy(bounces, queue, bounce))
        return gpud_fail(error, GPUD_IO, "a copy on %s: the driver takes no more work",
                         bounces->async->device->info.name);
    return GPUD_OK;
}

/* --- mapping ------------------------------------------------------------------------------- */

enum gpud_status gpud_bounce_map(struct gpud_bounces *bounces, void *queue,
                                 struct gpud_memory *memory, uint64_t offset, uint64_t size,
                                 unsigned access, int64_t deadline, void **data,
                                 struct gpud_error *error)
{
    struct gpud_async *async = bounces->async;
    struct gpud_bounce *bounce;
    async->ops->enter(async->device);
    enum gpud_status status = take(bounces, size, &bounce, error);
    if (status == GPUD_OK) {
        bounce->access = access;
        bounce->offset = offset;
        bounce->length = size;
        if (access & GPUD_READ)
            status = download(bounces, queue, memory, bounce, deadline, error);
        if (status == GPUD_OK)
            add_used(bounces, bounce);
        else
            put_busy(bounces, queue, bounce);
    }
    async->ops->leave(async->device);
    if (status == GPUD_OK)
        *data = bounce->pages;
    return status;
}

enum gpud_status gpud_bounce_unmap(struct gpud_bounces *bounces, void *queue,
                                   struct gpud_memory *memory, void *data, struct gpud_error *error)
{
    struct gpud_async *async = bounces->async;
    struct gpud_bounce *bounce = take_used(bounces, data);
    long result = 0;
    if (!bounce)
        return GPUD_OK;
    bool written = bounce->access & GPUD_WRITE;
    async->ops->enter(async->device);
    if (written)
        result = copy_linear(bounces, queue, bounces->ops->address(memory) + bounce->offset,
                             address_of(bounce), bounce->length);
    if (written && result == 0)
        put_busy(bounces, queue, bounce);
    else
        put(bounces, bounce);
    async->ops->leave(async->device);
    return result == 0 ? GPUD_OK
                       : failed(bounces, error, result, "what was written does not get to ", "");
}
