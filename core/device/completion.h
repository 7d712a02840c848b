/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Completions of a queue, in its order, for vendors with asynchronous queues. */
#ifndef GPUD_DEVICE_COMPLETION_H
#define GPUD_DEVICE_COMPLETION_H

#include "device/progress.h"

/* One queue's completions, called in the order of the queue, one at a time and without a lock.
 * Reference counted: a driver may call back after the queue is gone. */
struct gpud_completions;
struct gpud_completion;

/* Polls the events of a device's queues if the driver does not call back. It sleeps while there are
 * no completions. */
struct gpud_completion_thread {
    const struct gpud_async_ops *ops;
    struct gpud_device *device;
    struct gpud_lock lock; /* for the fields below, and for all its queues' completions */
    pthread_cond_t wanted;
    pthread_t thread;
    bool started, stopping;
    unsigned outstanding; /* completions, including those being called */
    struct gpud_completions *busy, **last_busy;
};

void gpud_completion_thread_init(struct gpud_completion_thread *thread,
                                 const struct gpud_async_ops *ops, struct gpud_device *device);
/* Ends the thread; false: after a second some completions are still pending, so the rest of the
 * device has to stay. */
bool gpud_completion_thread_finish(struct gpud_completion_thread *thread);

/* thread: of the queue's device, or NULL if the driver calls back. NULL: out of memory. */
struct gpud_completions *gpud_completions_create(const struct gpud_async_ops *ops,
                                                 struct gpud_device *device,
                                                 struct gpud_completion_thread *thread);
void gpud_completions_unref(struct gpud_completions *completions);

/* Whether all completions have been called. */
bool gpud_completions_are_called(const struct gpud_completions *completions);

/* The driver's error that ended the queue; 0: none. */
long gpud_completions_failure(const struct gpud_completions *completions);

/* Calls fn when the work before the event is done, after all earlier completions. Takes the event
 * on GPUD_OK. If the driver calls back, *completion is to be passed to _done() or, if the driver
 * refuses the callback, to _withdraw(); else it is NULL. */
enum gpud_status gpud_completions_add(struct gpud_completions *completions, void *event,
                                      gpud_complete_fn fn, void *arg,
                                      struct gpud_completion **completion,
                                      struct gpud_error *error);

/* For the driver's callback, from any thread: this completion and all before it are done. */
void gpud_completion_done(struct gpud_completion *completion, bool failed);

/* Removes a completion for which the driver will not call back. false: fn was called anyway, or is
 * about to be. */
bool gpud_completion_withdraw(struct gpud_completion *completion);

/* The queue has failed, which some drivers do not report: all pending completions are called. */
void gpud_completions_fail(struct gpud_completions *completions);

#endif
