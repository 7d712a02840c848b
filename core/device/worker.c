/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Work that must not run in a caller's or a driver's thread, and memory that is freed behind a
 * queue. */
#include "device/device.h"

#include "base/base.h"

#include <stdlib.h>

/* === worker ================================================================================== */

void gpud_worker_init(struct gpud_worker *worker)
{
    *worker = (struct gpud_worker){0};
    gpud_lock_init(&worker->lock, GPUD_RANK_WORKER);
    gpud_cond_init(&worker->changed);
}

static void *worker_run(void *arg)
{
    struct gpud_worker *worker = arg;
    gpud_lock_take(&worker->lock);
    while (!worker->stopping) {
        /* Takes what is due off the list. */
        struct gpud_work *due = NULL, **last = &due, **link = &worker->list;
        int64_t now = gpud_now(), first = INT64_MAX;
        while (*link) {
            struct gpud_work *work = *link;
            if (!worker->hurried && work->due > now) {
                first = work->due < first ? work->due : first;
                link = &work->next;
                continue;
            }
            *link = work->next;
            work->next = NULL;
            *last = work;
            last = &work->next;
        }
        worker->hurried = false;
        if (!due) {
            if (first == INT64_MAX)
                gpud_lock_wait(&worker->lock, &worker->changed); /* until something is added */
            else
                gpud_lock_wait_until(&worker->lock, &worker->changed, first);
            continue;
        }
        gpud_lock_release(&worker->lock);
        struct gpud_work *again = NULL;
        unsigned finished = 0;
        while (due) {
            struct gpud_work *work = due;
            due = work->next;
            int64_t pause = work->fn(work->arg);
            if (pause < 0) {
                finished++; /* the record may be freed by now */
                continue;
            }
            work->due = gpud_now() + pause;
            work->next = again;
            again = work;
        }
        gpud_lock_take(&worker->lock);
        worker->outstanding -= finished;
        while (again) {
            struct gpud_work *work = again;
            again = work->next;
            work->next = worker->list;
            worker->list = work;
        }
    }
    gpud_lock_release(&worker->lock);
    return NULL;
}

enum gpud_status gpud_worker_start(struct gpud_worker *worker, struct gpud_error *error)
{
    gpud_lock_take(&worker->lock);
    if (!worker->started)
        worker->started = pthread_create(&worker->thread, NULL, worker_run, worker) == 0;
    bool started = worker->started;
    gpud_lock_release(&worker->lock);
    return started ? GPUD_OK
                   : gpud_fail(error, GPUD_NO_MEMORY, "the system has no thread left (ulimit -u)");
}

void gpud_worker_add(struct gpud_worker *worker, struct gpud_work *work, int64_t (*fn)(void *arg),
                     void *arg)
{
    *work = (struct gpud_work){.fn = fn, .arg = arg};
    gpud_lock_take(&worker->lock);
    struct gpud_work **last = &worker->list;
    while (*last)
        last = &(*last)->next;
    *last = work;
    worker->outstanding++;
    pthread_cond_signal(&worker->changed);
    gpud_lock_release(&worker->lock);
}

void gpud_worker_hurry(struct gpud_worker *worker)
{
    gpud_lock_take(&worker->lock);
    worker->hurried = true;
    pthread_cond_signal(&worker->changed);
    gpud_lock_release(&worker->lock);
}

bool gpud_worker_is_idle(struct gpud_worker *worker)
{
    gpud_lock_take(&worker->lock);
    bool idle = worker->outstanding == 0;
    gpud_lock_release(&worker->lock);
    return idle;
}

void gpud_worker_finish(struct gpud_worker *worker)
{
    gpud_lock_take(&worker->lock);
    worker->stopping = true;
    pthread_cond_signal(&worker->changed);
    gpud_lock_release(&worker->lock);
    if (worker->started)
        pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->changed);
    gpud_lock_destroy(&worker->lock);
}

/* === free_after ============================================================================== */
/* Memory is freed after all work that may use it, without blocking the caller: an event is recorded
 * on each queue of the device, and the worker waits for them. */

static void drop_fences(struct gpud_free_after *after)
{
    struct gpud_async *async = after->async;
    while (after->count)
        async->ops->drop(async->device, after->fences[--after->count]);
    if (after->fences != after->few)
        free(after->fences);
    after->fences = NULL;
}

/* Holds the lock, so that no queue is released meanwhile. false: some queue could not be marked;
 * try again. */
static bool set_fences(struct gpud_free_after *after)
{
    struct gpud_async *async = after->async;
    bool complete = true;
    gpud_lock_take(&async->lock);
    unsigned count = 0;
    for (const struct gpud_async_queue *queue = async->queues; queue; queue = queue->next)
        count++;
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

static int64_t free_when_passed(void *arg)
{
    struct gpud_free_after *after = arg;
    struct gpud_memory *memory = after->memory;
    const struct gpud_async *async = after->async;
    int64_t early = after->not_before - gpud_now();
    long result;
    async->ops->enter(async->device);
    if (!after->fenced)
        after->fenced = set_fences(after);
    while (after->count && async->ops->query(async->device, after->fences[after->count - 1],
                                             &result) != GPUD_PROGRESS_BUSY)
        async->ops->drop(async->device, after->fences[--after->count]);
    bool passed = after->fenced && after->count == 0 && early <= 0;
    if (passed) {
        drop_fences(after);
        after->give_back(async->device, memory->backend);
    }
    async->ops->leave(async->device);
    if (!passed)
        return early > GPUD_MSEC ? early : GPUD_MSEC;
    gpud_memory_freed(memory);
    return -1;
}

void gpud_free_after(struct gpud_async *async, struct gpud_free_after *after,
                     struct gpud_memory *memory,
                     void (*give_back)(struct gpud_device *device, void *record),
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

enum gpud_status gpud_check_clearing(struct gpud_async *async, struct gpud_error *error)
{
    if (atomic_load(&async->stuck) == 0)
        return GPUD_OK;
    return gpud_fail(error, GPUD_IO,
                     "%s has not cleared new memory within %d s: the GPU or its driver is stuck "
                     "(the kernel's log may say why), and gives no memory until it goes on",
                     async->device->info.name, (int)(GPUD_CLEAR_TIMEOUT / GPUD_SEC));
}

static int64_t free_when_cleared(void *arg)
{
    struct gpud_free_after *after = arg;
    struct gpud_async *async = after->async;
    struct gpud_device *device = after->device;
    long result;
    async->ops->enter(device);
    bool cleared = async->ops->state(device, after->queue, &result) != GPUD_PROGRESS_BUSY;
    if (cleared)
        after->give_back(device, after->record);
    async->ops->leave(device);
    if (!cleared)
        return 10 * GPUD_MSEC;
    atomic_fetch_sub(&async->stuck, 1);
    gpud_device_close(&device);
    return -1;
}

enum gpud_status gpud_free_when_cleared(struct gpud_async *async, struct gpud_free_after *after,
                                        void *record,
                                        void (*give_back)(struct gpud_device *device, void *record),
                                        void *queue, struct gpud_error *error)
{
    *after = (struct gpud_free_after){.async = async,
                                      .record = record,
                                      .give_back = give_back,
                                      .queue = queue,
                                      .device = gpud_device_ref(async->device)};
    atomic_fetch_add(&async->stuck, 1);
    gpud_worker_add(&async->device->context->later, &after->work, free_when_cleared, after);
    return gpud_check_clearing(async, error);
}
