/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory is freed after all work that may use it, without blocking the caller: an event is recorded
 * on each queue of the device, and the worker waits for them. */
#include "device/free_after.h"

#include "base/clock.h"

#include <stdlib.h>

static void drop_fences(struct gpud_free_after *after)
{
    struct gpud_async *async = after->async;
    while (after->count)
        async->ops->drop(async->device, after->fences[--after->count]);
    if (after->fences != after->few)
        free(after->fences);
    after->fences = NULL;
}

static unsigned count_queues(const struct gpud_async *async)
{
    unsigned count = 0;
    for (const struct gpud_async_queue *queue = async->queues; queue; queue = queue->next)
        count++;
    return count;
}

/* Holds the lock, so that no queue is released meanwhile. false: some queue could not be marked;
 * try again. */
static bool set_fences(struct gpud_free_after *after)
{
    struct gpud_async *async = after->async;
    bool complete = true;
    gpud_lock_take(&async->lock);
    unsigned count = count_queues(async);
    after->fences = count <= sizeof(after->few) / sizeof(after->few[0])
                        ? after->few
                        : calloc(count, sizeof(*after->fences));
    if (!after->fences)
        complete = false;
    for (struct gpud_async_queue *queue = async->queues; after->fences && queue;
         queue = queue->next) {
        enum gpud_progress marked =
            async->ops->mark(async->device, queue->handle, &after->fences[after->count]);
        if (marked == GPUD_PROGRESS_BUSY)
            after->count++;
        else if (marked == GPUD_PROGRESS_FAILED)
            complete = false;
    }
    gpud_lock_release(&async->lock);
    if (!complete)
        drop_fences(after);
    return complete;
}

static bool all_passed(struct gpud_free_after *after)
{
    const struct gpud_async *async = after->async;
    long result;
    if (!after->fenced)
        after->fenced = set_fences(after);
    while (after->count && async->ops->query(async->device, after->fences[after->count - 1],
                                             &result) != GPUD_PROGRESS_BUSY)
        async->ops->drop(async->device, after->fences[--after->count]);
    return after->fenced && after->count == 0;
}

static int64_t free_when_passed(void *arg)
{
    struct gpud_free_after *after = arg;
    struct gpud_memory *memory = after->memory;
    const struct gpud_async *async = after->async;
    int64_t early = after->not_before - gpud_now();
    async->ops->enter(async->device);
    bool passed = all_passed(after) && early <= 0;
    if (passed) {
        drop_fences(after);
        after->give_back(memory);
    }
    async->ops->leave(async->device);
    if (!passed)
        return early > GPUD_MSEC ? early : GPUD_MSEC;
    gpud_memory_freed(memory);
    return -1;
}

void gpud_free_after(struct gpud_async *async, struct gpud_free_after *after,
                     struct gpud_memory *memory, void (*give_back)(struct gpud_memory *memory),
                     int64_t not_before, bool here)
{
    struct gpud_worker *later = &async->device->context->later;
    *after = (struct gpud_free_after){
        .async = async, .memory = memory, .give_back = give_back, .not_before = not_before};
    async->ops->enter(async->device);
    after->fenced = set_fences(after);
    async->ops->leave(async->device);
    if (!here || free_when_passed(after) >= 0)
        gpud_worker_add(later, &after->work, free_when_passed, after);
}
