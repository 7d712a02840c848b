/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pages through which the CPU accesses the memory of a device. */
#include "device/device.h"

#include <string.h>

#define IDLE_MAX 8

void gpud_bounces_init(struct gpud_bounces *bounces, const struct gpud_bounce_ops *ops,
                       const struct gpud_async *async)
{
    *bounces = (struct gpud_bounces){.ops = ops, .async = async};
    gpud_lock_init(&bounces->lock, GPUD_RANK_BOUNCES);
}

static void bounce_drop_event(struct gpud_bounces *bounces, struct gpud_bounce *bounce)
{
    if (bounce->busy)
        bounces->async->ops->drop(bounces->async->device, bounce->busy);
    bounce->busy = NULL;
}

static void bounce_destroy(struct gpud_bounces *bounces, struct gpud_bounce *bounce)
{
    bounce_drop_event(bounces, bounce);
    bounces->ops->free(bounces->async->device, bounce);
}

void gpud_bounces_finish(struct gpud_bounces *bounces)
{
    struct gpud_bounce *lists[] = {bounces->idle, bounces->used};
    for (int i = 0; i < 2; i++)
        while (lists[i]) {
            struct gpud_bounce *gone = lists[i];
            lists[i] = gone->next;
            bounce_destroy(bounces, gone);
        }
    gpud_lock_destroy(&bounces->lock);
}

/* Also after a failure: a failed queue does no more work. */
static bool bounce_is_at_rest(const struct gpud_bounces *bounces, const struct gpud_bounce *bounce)
{
    const struct gpud_async *async = bounces->async;
    long result;
    return !bounce->busy ||
           async->ops->query(async->device, bounce->busy, &result) != GPUD_PROGRESS_BUSY;
}

enum gpud_status gpud_bounce_take(struct gpud_bounces *bounces, uint64_t size,
                                  struct gpud_bounce **bounce, struct gpud_error *error)
{
    struct gpud_bounce *found = NULL;
    gpud_lock_take(&bounces->lock);
    for (struct gpud_bounce **link = &bounces->idle; *link && !found;) {
        struct gpud_bounce *idle = *link;
        if (idle->size >= size && idle->size / 2 <= size && bounce_is_at_rest(bounces, idle)) {
            found = idle;
            *link = idle->next;
        } else {
            link = &idle->next;
        }
    }
    gpud_lock_release(&bounces->lock);
    if (!found)
        return bounces->ops->make(bounces->async->device, size, bounce, error);
    bounce_drop_event(bounces, found);
    *bounce = found;
    return GPUD_OK;
}

void gpud_bounce_put(struct gpud_bounces *bounces, struct gpud_bounce *bounce)
{
    struct gpud_bounce *surplus = NULL;
    unsigned count = 0;
    gpud_lock_take(&bounces->lock);
    bounce->next = bounces->idle;
    bounces->idle = bounce;
    /* The oldest is freed when there are too many. */
    for (struct gpud_bounce **link = &bounces->idle; *link; link = &(*link)->next) {
        if (++count > IDLE_MAX && !(*link)->next && bounce_is_at_rest(bounces, *link)) {
            surplus = *link;
            *link = NULL;
            break;
        }
    }
    gpud_lock_release(&bounces->lock);
    if (surplus)
        bounce_destroy(bounces, surplus);
}

static void bounce_add_used(struct gpud_bounces *bounces, struct gpud_bounce *bounce)
{
    gpud_lock_take(&bounces->lock);
    bounce->next = bounces->used;
    bounces->used = bounce;
    gpud_lock_release(&bounces->lock);
}

bool gpud_bounce_put_busy(struct gpud_bounces *bounces, void *queue, struct gpud_bounce *bounce)
{
    bounce->busy = bounces->ops->mark(bounces->async->device, queue);
    bool marked = bounce->busy;
    if (marked)
        gpud_bounce_put(bounces, bounce);
    else
        bounce_add_used(bounces, bounce);
    return marked;
}

void gpud_bounce_pack(struct gpud_bounce *bounce, const struct gpud_copy *copy)
{
    const char *from = (const char *)copy->from->host + copy->from_offset;
    for (uint32_t row = 0; row < copy->rows; row++)
        memcpy((char *)bounce->pages + row * copy->row_bytes,
               from + (size_t)row * copy->from_stride, copy->row_bytes);
}

enum gpud_status gpud_bounce_map(struct gpud_bounces *bounces, void *queue,
                                 struct gpud_memory *memory, uint64_t offset, uint64_t size,
                                 unsigned access, int64_t deadline, void **data,
                                 struct gpud_error *error)
{
    const struct gpud_async *async = bounces->async;
    struct gpud_bounce *bounce;
    async->ops->enter(async->device);
    enum gpud_status status = gpud_bounce_take(bounces, size, &bounce, error);
    if (status == GPUD_OK) {
        bounce->access = access;
        bounce->offset = offset;
        bounce->length = size;
        if (access & GPUD_READ)
            status = bounces->ops->download(memory, queue, bounce, deadline, error);
        if (status == GPUD_OK)
            bounce_add_used(bounces, bounce);
        else
            gpud_bounce_put_busy(bounces, queue, bounce);
    }
    async->ops->leave(async->device);
    if (status == GPUD_OK)
        *data = bounce->pages;
    return status;
}

enum gpud_status gpud_bounce_unmap(struct gpud_bounces *bounces, void *queue,
                                   struct gpud_memory *memory, void *data,
                                   struct gpud_error *error)
{
    const struct gpud_async *async = bounces->async;
    enum gpud_status status = GPUD_OK;
    gpud_lock_take(&bounces->lock);
    struct gpud_bounce **link = &bounces->used;
    while (*link && (*link)->pages != data)
        link = &(*link)->next;
    struct gpud_bounce *bounce = *link;
    if (bounce)
        *link = bounce->next;
    gpud_lock_release(&bounces->lock);
    if (!bounce)
        return GPUD_OK;
    bool written = bounce->access & GPUD_WRITE;
    async->ops->enter(async->device);
    if (written)
        status = bounces->ops->upload(memory, queue, bounce, error);
    if (written && status == GPUD_OK)
        gpud_bounce_put_busy(bounces, queue, bounce);
    else
        gpud_bounce_put(bounces, bounce);
    async->ops->leave(async->device);
    return status;
}
