/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The list of a device's queues, for vendors with asynchronous queues: their lifetimes, and waiting
 * for one with a deadline. */
#ifndef GPUD_DEVICE_ASYNC_H
#define GPUD_DEVICE_ASYNC_H

#include "device/completion.h"

struct gpud_async {
    const struct gpud_async_ops *ops;
    struct gpud_device *device;
    struct gpud_lock lock;           /* for the list; never held where the driver may wait */
    struct gpud_async_queue *queues; /* including destroyed ones that are still busy */
};

/* Part of the backend's record of a queue. */
struct gpud_async_queue {
    struct gpud_async_queue *next;
    struct gpud_async *async;
    void *handle;
    struct gpud_completions *completions;
    struct gpud_work end;       /* its release after it is destroyed */
    struct gpud_device *device; /* kept open until then */
};

/* Starts the context's `later` worker. */
enum gpud_status gpud_async_init(struct gpud_async *async, const struct gpud_async_ops *ops,
                                 struct gpud_device *device, struct gpud_error *error);
void gpud_async_finish(struct gpud_async *async);

void gpud_async_add(struct gpud_async *async, struct gpud_async_queue *queue);

/* Releases a queue once it is idle and all its completions were called; until then it stays on the
 * list, so that no memory it uses is freed. here: this thread may do so at once. */
void gpud_async_retire(struct gpud_async_queue *queue, bool here);

/* How many queues there are, including destroyed ones that are still busy. */
unsigned gpud_async_count(struct gpud_async *async);

/* Polls until the queue's current work is done. FAILED: *result. BUSY: the deadline has passed. */
enum gpud_progress gpud_async_wait(struct gpud_async *async, void *queue, int64_t deadline,
                                   long *result);

#endif
