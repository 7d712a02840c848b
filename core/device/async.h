/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The list of a device's queues, for vendors whose queues work by themselves: how long each is
 * kept, and waiting for one with a deadline. */
#ifndef GPUD_DEVICE_ASYNC_H
#define GPUD_DEVICE_ASYNC_H

#include "device/completion.h"

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

#endif
