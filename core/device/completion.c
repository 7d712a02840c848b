/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Completions. Some drivers call back for each event, from any thread and in any order (NVIDIA's
 * OpenCL uses five threads). With others a callback stops the queue while it runs and must not call
 * the driver, but releasing a frame does call it: for those, a thread polls the events. Either way
 * the completions of a queue are called one after the other, in the order of the queue. */
#include "device/completion.h"

#include "base/clock.h"

#include <stdlib.h>

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

/* Takes the leading completions that are done off the list. */
static struct gpud_completion *take_done(struct gpud_completions *completions)
{
    struct gpud_completion *first = completions->first, **link = &completions->first;
    while (*link && (*link)->done)
        link = &(*link)->next;
    struct gpud_completion *rest = *link;
    if (link == &completions->first)
        return NULL;
    *link = NULL;
    completions->first = rest;
    if (!rest)
        completions->last = &completions->first;
    return first;
}

/* Drops the lock around the calls: fn may use the queue, or destroy it. */
static void call_done(struct gpud_completions *completions)
{
    struct gpud_completion *done;
    if (completions->calling)
        return;
    completions->calling = true;
    while ((done = take_done(completions))) {
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

/* Marks the leading completions that are done, up to the first busy one: it may finish a moment
 * later, before a following one is found done. */
static bool look(struct gpud_completions *completions)
{
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
    return each != completions->first;
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
        if (look(completions)) {
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

static void *run(void *arg)
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

/* Under the lock. */
static bool wake(struct gpud_completions *completions)
{
    struct gpud_completion_thread *thread = completions->thread;
    if (!thread->started)
        thread->started = pthread_create(&thread->thread, NULL, run, thread) == 0;
    if (!thread->started)
        return false;
    if (!completions->listed) {
        completions->listed = true;
        completions->references++;
        put_last(thread, completions);
    }
    pthread_cond_signal(&thread->wanted);
    return true;
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
    struct gpud_completion *made = malloc(sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to be told when a queue is done");
    *made = (struct gpud_completion){
        .completions = completions, .references = 1, .event = event, .fn = fn, .arg = arg};
    gpud_lock_take(completions->lock);
    if (completions->thread && !wake(completions)) {
        gpud_lock_release(completions->lock);
        free(made);
        return gpud_fail(error, GPUD_NO_MEMORY, "no thread for completions (ulimit -u)");
    }
    if (!completions->thread) {
        made->references++;
        completions->references++; /* the callback's */
    }
    if (completions->thread)
        completions->thread->outstanding++;
    atomic_fetch_add(&completions->untold, 1);
    *completions->last = made;
    completions->last = &made->next;
    gpud_lock_release(completions->lock);
    if (completion)
        *completion = completions->thread ? NULL : made;
    return GPUD_OK;
}
