/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The progress of work on asynchronous queues, as the parts shared by vendors query it.
 *
 * A queue may wait for a word that a peer writes, so it may stall until the peer's death is
 * detected. So no shared part waits for a queue without a deadline, and memory that drivers free
 * only after waiting for all queues is freed by the context's `later` worker, when every queue of
 * the device has passed the point at which the memory was released. */
#ifndef GPUD_DEVICE_PROGRESS_H
#define GPUD_DEVICE_PROGRESS_H

#include "device/device.h"

enum gpud_progress {
    GPUD_PROGRESS_BUSY,
    GPUD_PROGRESS_DONE,
    GPUD_PROGRESS_FAILED,
};

struct gpud_async_queue;

/* A driver's side of these queries. `queue` is the backend's handle of a queue, *result the
 * driver's error. None of them may wait, because some are called under a lock. */
struct gpud_async_ops {
    /* Enclose all use of the driver by its own threads or the worker's. */
    void (*enter)(struct gpud_device *device);
    void (*leave)(struct gpud_device *device);
    /* BUSY: *event comes after the queue's current work. DONE: no work on it can still use memory.
     * FAILED: unknown, try again. */
    enum gpud_progress (*mark)(struct gpud_device *device, void *queue, void **event);
    /* How far the work before an event is. */
    enum gpud_progress (*query)(struct gpud_device *device, void *event, long *result);
    void (*drop)(struct gpud_device *device, void *event);
    /* How far all work on a queue is. */
    enum gpud_progress (*state)(struct gpud_device *device, void *queue, long *result);
    /* Frees an idle queue, and its record. */
    void (*release)(struct gpud_async_queue *queue);
};

/* A pause in a polling loop that began at `start`: short at first, for work that is nearly done. */
void gpud_pause(int64_t start);

#endif
