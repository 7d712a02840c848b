/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is common to vendors whose queues work by themselves: the list of a device's queues,
 * completions in queue order, and memory that is freed only behind the work that uses it.
 *
 * A queue may wait for a word that a peer writes, so it may stand still until the peer's death is
 * noticed. Therefore nothing here waits for a queue without a deadline, and what drivers free only
 * after waiting for all queues is freed by the context's `later` worker, once every queue of the
 * device has passed the point at which it was given up. */
#ifndef GPUD_DEVICE_ASYNC_H
#define GPUD_DEVICE_ASYNC_H

#include "device/device.h"

enum gpud_progress {
    GPUD_PROGRESS_BUSY,
    GPUD_PROGRESS_DONE,
    GPUD_PROGRESS_FAILED,
};

struct gpud_async_queue;

/* What these parts ask of a driver. `queue` is the backend's own handle of a queue, *result the
 * driver's number of an error. None of them may wait, for some are called under a lock. */
struct gpud_async_ops {
    /* Around all use of the driver by one of its threads or by the worker's. */
    void (*enter)(struct gpud_device *device);
    void (*leave)(struct gpud_device *device);
    /* BUSY: *event is behind what is on the queue now. DONE: nothing is on it that could still use
     * memory. FAILED: nothing is known, ask again. */
    enum gpud_progress (*mark)(struct gpud_device *device, void *queue, void **event);
    /* How far the work before an event is. */
    enum gpud_progress (*query)(struct gpud_device *device, void *event, long *result);
    void (*drop)(struct gpud_device *device, void *event);
    /* How far all work on a queue is. */
    enum gpud_progress (*state)(struct gpud_device *device, void *queue, long *result);
    /* Frees an idle queue, and its record. */
    void (*release)(struct gpud_async_queue *queue);
};

/* --- async.c: the queues of a device -------------------------------------------------------- */

struct gpud_async {
    const struct gpud_async_ops *ops;
    struct gpud_device *device;
    struct gpud_lock lock;           /* of the list; never held where the driver may wait */
    struct gpud_async_queue *queues; /* those destroyed but not yet at rest included */
};

/* Part of the backend's record of a queue. */
struct gpud_async_queue {
    struct gpud_async_queue *next;
    struct gpud_async *async;
    void *handle;
    struct gpud_completions *completions;
    struct gpud_work end;       /* once it was destroyed, ... */
    struct gpud_device *device; /* ... keeping this open */
};

/* Starts the context's `later` worker. */
enum gpud_status gpud_async_init(struct gpud_async *async, const struct gpud_async_ops *ops,
                                 struct gpud_device *device, struct gpud_error *error);
void gpud_async_finish(struct gpud_async *async);

void gpud_async_add(struct gpud_async *async, struct gpud_async_queue *queue);

/* Releases a queue as soon as it has come to rest and all its completions are told; until then it
 * stays on the list, so that no memory is freed under it. here: this thread may do so at once. */
void gpud_async_retire(struct gpud_async_queue *queue, bool here);

/* How many queues there are, those not yet at rest included. */
unsigned gpud_async_count(struct gpud_async *async);

/* Polls until the queue has passed what is on it now. FAILED: *result. BUSY: the deadline. */
enum gpud_progress gpud_async_wait(struct gpud_async *async, void *queue, int64_t deadline,
                                   long *result);

/* A pause in a polling loop that began at `start`: short at first, for work that is nearly done. */
void gpud_pause(int64_t start);

/* --- completion.c ---------------------------------------------------------------------------- */

/* One queue's completions, called in the order of the queue, one at a time and without a lock.
 * Reference counted: a driver may call back after the queue is gone. */
struct gpud_completions;
struct gpud_completion;

/* Polls the events of a device's queues where the driver does not call back. It sleeps when there
 * are no completions. */
struct gpud_completion_thread {
    const struct gpud_async_ops *ops;
    struct gpud_device *device;
    struct gpud_lock lock; /* of what follows, and of all its queues' completions */
    pthread_cond_t wanted;
    pthread_t thread;
    bool started, stopping;
    unsigned outstanding; /* completions, those being called included */
    struct gpud_completions *busy, **last_busy;
};

void gpud_completion_thread_init(struct gpud_completion_thread *thread,
                                 const struct gpud_async_ops *ops, struct gpud_device *device);
/* Ends the thread; false: some completions are still to be told after a second, and then the rest
 * of the device has to stay. */
bool gpud_completion_thread_finish(struct gpud_completion_thread *thread);

/* thread: of the queue's device, or NULL where the driver calls back. NULL: out of memory. */
struct gpud_completions *gpud_completions_create(const struct gpud_async_ops *ops,
                                                 struct gpud_device *device,
                                                 struct gpud_completion_thread *thread);
void gpud_completions_unref(struct gpud_completions *completions);

/* Whether all completions have been called. */
bool gpud_completions_are_told(const struct gpud_completions *completions);

/* The driver's number of the failure that ended the queue; 0: none. */
long gpud_completions_failure(const struct gpud_completions *completions);

/* fn will be called when the work before the event is done, and after those that were added before.
 * Takes the event, on GPUD_OK. Where the driver calls back *completion is what it is to be told of,
 * by _done() or, if the driver refuses, by _withdraw(); else NULL. */
enum gpud_status gpud_completions_add(struct gpud_completions *completions, void *event,
                                      gpud_complete_fn fn, void *arg,
                                      struct gpud_completion **completion,
                                      struct gpud_error *error);

/* The driver's callback, from any thread: this one is done, and so are all before it. */
void gpud_completion_done(struct gpud_completion *completion, bool failed);

/* The driver will not call back. false: fn was called all the same, or is about to be. */
bool gpud_completion_withdraw(struct gpud_completion *completion);

/* The queue has failed, which some drivers do not report: all pending completions are called. */
void gpud_completions_fail(struct gpud_completions *completions);

/* --- free_after.c ---------------------------------------------------------------------------- */

/* Part of the backend's record of a memory. */
struct gpud_free_after {
    struct gpud_async *async;
    struct gpud_memory *memory;
    void (*give_back)(struct gpud_memory *memory);
    int64_t not_before;
    bool fenced; /* every queue that had work has an event here, or had one that is passed */
    void **fences;
    unsigned count;
    void *few[8]; /* where there are no more: then nothing is allocated */
    struct gpud_work work;
};

/* Calls give_back(memory), which frees the backend's record, and gpud_memory_freed(), when all work
 * that is on the device's queues now is done, and not before that time. here: at once, on this
 * thread, if there is no such work; else always from the worker, because drivers wait when they
 * free. */
void gpud_free_after(struct gpud_async *async, struct gpud_free_after *after,
                     struct gpud_memory *memory, void (*give_back)(struct gpud_memory *memory),
                     int64_t not_before, bool here);

/* --- events.c -------------------------------------------------------------------------------- */

#define GPUD_EVENTS_KEPT 64

/* Events that nobody uses are kept, because making one costs more than a copy's launch. */
struct gpud_events {
    long (*create)(void **event);
    void (*destroy)(void *event);
    struct gpud_lock lock;
    void *kept[GPUD_EVENTS_KEPT];
    unsigned count;
};

void gpud_events_init(struct gpud_events *events, long (*create)(void **event),
                      void (*destroy)(void *event));
void gpud_events_finish(struct gpud_events *events);

/* NULL and *result: the driver makes none. */
void *gpud_events_take(struct gpud_events *events, long *result);

/* Whatever state it is in. */
void gpud_events_put(struct gpud_events *events, void *event);

#endif
