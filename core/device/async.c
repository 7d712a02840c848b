/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What vendors with asynchronous queues share: completions, the lifetimes of queues and of memory
 * that they use, and pages through which the CPU accesses the memory of a device. */
#include "device/device.h"

#include "base/base.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* === progress ================================================================================ */

#define SPIN (30 * GPUD_USEC)
#define NAP_MIN (20 * GPUD_USEC)
#define NAP_MAX (200 * GPUD_USEC)

void gpud_pause(int64_t start)
{
    int64_t waited = gpud_now() - start;
    if (waited < SPIN) {
        sched_yield();
        return;
    }
    int64_t nap = waited / 8;
    nap = nap < NAP_MIN ? NAP_MIN : nap > NAP_MAX ? NAP_MAX : nap;
    nanosleep(&(struct timespec){.tv_nsec = nap}, NULL);
}

/* === completion ============================================================================== */
/* Completions. Some drivers call back for each event, from any thread and in any order (NVIDIA's
 * OpenCL uses five threads). With others a callback stops the queue while it runs and must not call
 * the driver, but releasing a frame does call it: for those, a thread polls the events. Either way
 * the completions of a queue are called one after the other, in the order of the queue. */

/* Referenced by the list until fn was called, and by the driver's callback. */
struct gpud_completion {
    struct gpud_completion *next;
    struct gpud_completions *completions;
    unsigned references;
    void *event;
    bool done;
    enum gpud_status status; /* once done */
    gpud_complete_fn fn;
    void *arg;
};

struct gpud_completions {
    const struct gpud_async_ops *ops;
    struct gpud_device *device;
    struct gpud_completion_thread *thread;
    struct gpud_lock own_lock;
    struct gpud_lock *lock; /* for the fields below and the completions: its own or the thread's */
    struct gpud_completion *first, **last;
    bool calling; /* a thread calls completions, and checks for more before it stops */
    bool listed;  /* in the thread's list */
    struct gpud_completions *next;
    unsigned references;
    atomic_uint untold;
    atomic_long failure;
};

struct gpud_completions *gpud_completions_create(const struct gpud_async_ops *ops,
                                                 struct gpud_device *device,
                                                 struct gpud_completion_thread *thread)
{
    struct gpud_completions *made = calloc(1, sizeof(*made));
    if (!made)
        return NULL;
    made->ops = ops;
    made->device = device;
    made->thread = thread;
    made->last = &made->first;
    made->references = 1;
    gpud_lock_init(&made->own_lock, GPUD_RANK_COMPLETIONS);
    made->lock = thread ? &thread->lock : &made->own_lock;
    return made;
}

static void free_completions(struct gpud_completions *completions)
{
    gpud_lock_destroy(&completions->own_lock);
    free(completions);
}

/* Drops a reference and releases the lock. */
static void unref_and_unlock(struct gpud_completions *completions)
{
    bool last = --completions->references == 0;
    gpud_lock_release(completions->lock);
    if (last)
        free_completions(completions);
}

void gpud_completions_unref(struct gpud_completions *completions)
{
    gpud_lock_take(completions->lock);
    unref_and_unlock(completions);
}

bool gpud_completions_are_called(const struct gpud_completions *completions)
{
    return atomic_load(&completions->untold) == 0;
}

long gpud_completions_failure(const struct gpud_completions *completions)
{
    return atomic_load(&completions->failure);
}

/* --- under the lock ------------------------------------------------------------------------ */

static void completion_unref(struct gpud_completion *completion)
{
    const struct gpud_completions *all = completion->completions;
    if (--completion->references > 0)
        return;
    all->ops->drop(all->device, completion->event);
    if (all->thread)
        all->thread->outstanding--;
    free(completion);
}

/* Once a queue has failed, all its later completions fail. */
static void mark_done(struct gpud_completion *completion, long failure)
{
    struct gpud_completions *all = completion->completions;
    if (completion->done)
        return;
    if (failure)
        atomic_store(&all->failure, failure);
    completion->done = true;
    completion->status = atomic_load(&all->failure) ? GPUD_IO : GPUD_OK;
}

/* The driver's error for this event; 0: none. The driver may still report it as running. */
static long failure_of(const struct gpud_completion *completion)
{
    const struct gpud_completions *all = completion->completions;
    long result = 0;
    return all->ops->query(all->device, completion->event, &result) == GPUD_PROGRESS_FAILED ? result
                                                                                            : 0;
}

/* Drops the lock around the calls: fn may use the queue, or destroy it. */
static void call_done(struct gpud_completions *completions)
{
    if (completions->calling)
        return;
    completions->calling = true;
    while (completions->first && completions->first->done) {
        /* Takes the leading completions that are done off the list. */
        struct gpud_completion *done = completions->first, **link = &completions->first;
        while (*link && (*link)->done)
            link = &(*link)->next;
        completions->first = *link;
        *link = NULL;
        if (!completions->first)
            completions->last = &completions->first;
        gpud_lock_release(completions->lock);
        for (struct gpud_completion *each = done; each; each = each->next) {
            each->fn(each->arg, each->status);
            atomic_fetch_sub(&completions->untold, 1);
        }
        gpud_lock_take(completions->lock);
        while (done) {
            struct gpud_completion *told = done;
            done = told->next;
            completion_unref(told);
        }
    }
    completions->calling = false;
}

/* --- the driver calls back ----------------------------------------------------------------- */

void gpud_completion_done(struct gpud_completion *completion, bool failed)
{
    struct gpud_completions *all = completion->completions;
    gpud_lock_take(all->lock);
    for (struct gpud_completion *before = all->first; !completion->done && before != completion;
         before = before->next)
        mark_done(before, failure_of(before));
    /* Some drivers pass the requested state, not the command's result. */
    long failure = failure_of(completion);
    mark_done(completion, failed && !failure ? -1 : failure);
    completion_unref(completion);
    call_done(all);
    unref_and_unlock(all);
}

bool gpud_completion_withdraw(struct gpud_completion *completion)
{
    struct gpud_completions *all = completion->completions;
    gpud_lock_take(all->lock);
    bool waits = !completion->done;
    if (waits) {
        struct gpud_completion **link = &all->first;
        while (*link != completion)
            link = &(*link)->next;
        *link = completion->next;
        if (!*link)
            all->last = link;
        atomic_fetch_sub(&all->untold, 1);
        completion->references--;
    }
    completion_unref(completion); /* the callback's */
    unref_and_unlock(all);
    return waits;
}

void gpud_completions_fail(struct gpud_completions *completions)
{
    gpud_lock_take(completions->lock);
    completions->references++;
    for (struct gpud_completion *each = completions->first; each; each = each->next) {
        long failure = failure_of(each);
        mark_done(each, failure ? failure : -1);
    }
    call_done(completions);
    unref_and_unlock(completions);
}

/* --- a thread polls ------------------------------------------------------------------------ */

void gpud_completion_thread_init(struct gpud_completion_thread *thread,
                                 const struct gpud_async_ops *ops, struct gpud_device *device)
{
    *thread = (struct gpud_completion_thread){.ops = ops, .device = device};
    gpud_lock_init(&thread->lock, GPUD_RANK_COMPLETIONS);
    gpud_cond_init(&thread->wanted);
    thread->last_busy = &thread->busy;
}

static void put_last(struct gpud_completion_thread *thread, struct gpud_completions *completions)
{
    completions->next = NULL;
    *thread->last_busy = completions;
    thread->last_busy = &completions->next;
}

/* One queue after the other. Under the lock; false: no completion was called. */
static bool look_at_all(struct gpud_completion_thread *thread)
{
    bool told = false;
    struct gpud_completions *all = thread->busy;
    thread->busy = NULL;
    thread->last_busy = &thread->busy;
    while (all) {
        struct gpud_completions *completions = all;
        all = all->next;
        completions->listed = false;
        /* Marks the leading completions that are done, up to the first busy one: it may finish a
         * moment later, before a following one is found done. */
        struct gpud_completion *each = completions->first;
        for (; each; each = each->next) {
            long result = 0;
            enum gpud_progress state =
                each->done ? GPUD_PROGRESS_DONE
                           : completions->ops->query(completions->device, each->event, &result);
            if (state == GPUD_PROGRESS_BUSY)
                break;
            mark_done(each, state == GPUD_PROGRESS_FAILED ? result : 0);
        }
        if (each != completions->first) {
            told = true;
            call_done(completions);
        }
        if (completions->first && !completions->listed) {
            completions->listed = true;
            put_last(thread, completions);
        } else if (--completions->references == 0) {
            free_completions(completions);
        }
    }
    return told;
}

static void *completion_run(void *arg)
{
    struct gpud_completion_thread *thread = arg;
    thread->ops->enter(thread->device);
    int64_t start = gpud_now();
    gpud_lock_take(&thread->lock);
    while (!thread->stopping) {
        if (!thread->busy) {
            gpud_lock_wait(&thread->lock, &thread->wanted); /* until there is a completion */
            start = gpud_now();
        } else if (look_at_all(thread)) {
            start = gpud_now();
        } else {
            gpud_lock_release(&thread->lock);
            gpud_pause(start);
            gpud_lock_take(&thread->lock);
        }
    }
    gpud_lock_release(&thread->lock);
    thread->ops->leave(thread->device);
    return NULL;
}

bool gpud_completion_thread_finish(struct gpud_completion_thread *thread)
{
    int64_t deadline = gpud_deadline(GPUD_SEC);
    bool busy = true;
    while (busy) {
        gpud_lock_take(&thread->lock);
        busy = thread->outstanding > 0;
        thread->stopping = !busy || gpud_now() >= deadline;
        bool stopping = thread->stopping;
        pthread_cond_signal(&thread->wanted);
        gpud_lock_release(&thread->lock);
        if (stopping)
            break;
        nanosleep(&(struct timespec){.tv_nsec = GPUD_MSEC}, NULL);
    }
    if (thread->started)
        pthread_join(thread->thread, NULL);
    if (busy)
        return false;
    pthread_cond_destroy(&thread->wanted);
    gpud_lock_destroy(&thread->lock);
    return true;
}

/* --- adding -------------------------------------------------------------------------------- */

enum gpud_status gpud_completions_add(struct gpud_completions *completions, void *event,
                                      gpud_complete_fn fn, void *arg,
                                      struct gpud_completion **completion, struct gpud_error *error)
{
    struct gpud_completion_thread *thread = completions->thread;
    struct gpud_completion *made = malloc(sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to be told when a queue is done");
    *made = (struct gpud_completion){
        .completions = completions, .references = 1, .event = event, .fn = fn, .arg = arg};
    gpud_lock_take(completions->lock);
    if (thread) {
        if (!thread->started)
            thread->started = pthread_create(&thread->thread, NULL, completion_run, thread) == 0;
        if (!thread->started) {
            gpud_lock_release(completions->lock);
            free(made);
            return gpud_fail(error, GPUD_NO_MEMORY, "no thread for completions (ulimit -u)");
        }
        if (!completions->listed) {
            completions->listed = true;
            completions->references++;
            put_last(thread, completions);
        }
        pthread_cond_signal(&thread->wanted);
        thread->outstanding++;
    } else {
        made->references++;
        completions->references++; /* the callback's */
    }
    atomic_fetch_add(&completions->untold, 1);
    *completions->last = made;
    completions->last = &made->next;
    gpud_lock_release(completions->lock);
    if (completion)
        *completion = thread ? NULL : made;
    return GPUD_OK;
}

/* === async =================================================================================== */
/* The queues of a device: their lifetimes, and waiting for one with a deadline. */

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

static int64_t async_release(void *arg)
{
    struct gpud_async_queue *queue = arg;
    struct gpud_async *async = queue->async;
    const struct gpud_async_ops *ops = async->ops;
    struct gpud_device *device = queue->device;
    long result;
    ops->enter(device);
    enum gpud_progress state = ops->state(async->device, queue->handle, &result);
    /* Some drivers report no completions for a failed queue, so they are called here. */
    if (state == GPUD_PROGRESS_FAILED)
        gpud_completions_fail(queue->completions);
    bool at_rest = state != GPUD_PROGRESS_BUSY && gpud_completions_are_called(queue->completions);
    if (at_rest) {
        gpud_lock_take(&async->lock);
        struct gpud_async_queue **link = &async->queues;
        while (*link != queue)
            link = &(*link)->next;
        *link = queue->next;
        gpud_lock_release(&async->lock);
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
    if (!here || async_release(queue) >= 0)
        gpud_worker_add(later, &queue->end, async_release, queue);
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

static enum gpud_status say_stuck(const struct gpud_device *device, struct gpud_error *error)
{
    return gpud_fail(error, GPUD_IO,
                     "%s has not cleared new memory within %d s: the GPU or its driver is stuck "
                     "(the kernel's log may say why), and gives no memory until it goes on",
                     device->info.name, (int)(GPUD_CLEAR_TIMEOUT / GPUD_SEC));
}

enum gpud_status gpud_check_clearing(struct gpud_async *async, struct gpud_error *error)
{
    return atomic_load(&async->stuck) > 0 ? say_stuck(async->device, error) : GPUD_OK;
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
    return say_stuck(async->device, error);
}

/* === bounce ================================================================================== */

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

/* Not after a failure, which can be that of the question: a DMA may still be pending. */
static bool bounce_is_at_rest(const struct gpud_bounces *bounces, const struct gpud_bounce *bounce)
{
    const struct gpud_async *async = bounces->async;
    long result;
    return !bounce->busy ||
           async->ops->query(async->device, bounce->busy, &result) == GPUD_PROGRESS_DONE;
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
                                   struct gpud_memory *memory, void *data, struct gpud_error *error)
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
