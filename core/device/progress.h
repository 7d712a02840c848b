/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the parts that vendors share ask of a driver whose queues work by themselves: how far work
 * is.
 *
 * A queue may wait for a word that a peer writes, so it may stand still until the peer's death is
 * noticed. Therefore no shared part waits for a queue without a deadline, and what drivers free
 * only after waiting for all queues is freed by the context's `later` worker, once every queue of
 * the device has passed the point at which it was given up. */
#ifndef GPUD_DEVICE_PROGRESS_H
#define GPUD_DEVICE_PROGRESS_H

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

/* A pause in a polling loop that began at `start`: short at first, for work that is nearly done. */
void gpud_pause(int64_t start);

#endif
