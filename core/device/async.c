/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The queues of a device: their lifetimes, and waiting for one with a deadline. */
#include "device/async.h"

#include "base/clock.h"

enum gpud_status gpud_async_init(struct gpud_async *async, const struct gpud_async_ops *ops,
                                 struct gpud_device *device, struct gpud_error *error)
{
    enum gpud_status status = gpud_worker_start(&device->context->later, error);
    if (status != GPUD_OK)
        return status;
    *async = (struct gpud_async){.ops = ops, .device = device};
    gpud_lock_init(&async->lock, GPUD_RANK_QUEUES);
    return GPUD_OK;
}

void gpud_async_finish(struct gpud_async *async)
{
    gpud_lock_destroy(&async->lock);
}

void gpud_async_add(struct gpud_async *async, struct gpud_async_queue *queue)
{
    queue->async = async;
    gpud_lock_take(&async->lock);
    queue->next = async->queues;
    async->queues = queue;
    gpud_lock_release(&async->lock);
}

unsigned gpud_async_count(struct gpud_async *async)
{
    unsigned count = 0;
    gpud_lock_take(&async->lock);
    for (const struct gpud_async_queue *queue = async->queues; queue; queue = queue->next)
        count++;
    gpud_lock_release(&async->lock);
    return count;
}

/* Some drivers report no completions for a failed queue, so they are called here. */
static bool is_at_rest(struct gpud_async_queue *queue)
{
    long result;
    enum gpud_progress state =
        queue->async->ops->state(queue->async->device, queue->handle, &result);
    if (state == GPUD_PROGRESS_FAILED)
        gpud_completions_fail(queue->completions);
    return state != GPUD_PROGRESS_BUSY && gpud_completions_are_called(queue->completions);
}

static void remove_from_list(struct gpud_async_queue *queue)
{
    struct gpud_async *async = queue->async;
    gpud_lock_take(&async->lock);
    struct gpud_async_queue **link = &async->queues;
    while (*link != queue)
        link = &(*link)->next;
    *link = queue->next;
    gpud_lock_release(&async->lock);
}

static int64_t release(void *arg)
{
    struct gpud_async_queue *queue = arg;
    const struct gpud_async_ops *ops = queue->async->ops;
    struct gpud_device *device = queue->device;
    ops->enter(device);
    bool at_rest = is_at_rest(queue);
    if (at_rest) {
        remove_from_list(queue);
        gpud_completions_unref(queue->completions);
        ops->release(queue);
    }
    ops->leave(device);
    if (!at_rest)
        return GPUD_MSEC;
    gpud_device_close(&device);
    return -1;
}

void gpud_async_retire(struct gpud_async_queue *queue, bool here)
{
    struct gpud_worker *later = &queue->async->device->context->later;
    queue->device = gpud_device_ref(queue->async->device);
    if (!here || release(queue) >= 0)
        gpud_worker_add(later, &queue->end, release, queue);
}

/* --- waiting ------------------------------------------------------------------------------- */

enum gpud_progress gpud_async_wait(struct gpud_async *async, void *queue, int64_t deadline,
                                   long *result)
{
    const struct gpud_async_ops *ops = async->ops;
    void *event = NULL;
    if (ops->state(async->device, queue, result) == GPUD_PROGRESS_DONE)
        return GPUD_PROGRESS_DONE;
    /* Without an event, waits for the whole queue, whose work still uses memory. */
    ops->mark(async->device, queue, &event);
    int64_t start = gpud_now();
    enum gpud_progress state;
    while ((state = event ? ops->query(async->device, event, result)
                          : ops->state(async->device, queue, result)) == GPUD_PROGRESS_BUSY &&
           gpud_now() < deadline)
        gpud_pause(start);
    if (event)
        ops->drop(async->device, event);
    return state;
}
