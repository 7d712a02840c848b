/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Completions of a queue, in the queue's order, for vendors whose queues work by themselves. */
#ifndef GPUD_DEVICE_COMPLETION_H
#define GPUD_DEVICE_COMPLETION_H

#include "device/progress.h"

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

#endif
