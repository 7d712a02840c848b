/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory that is freed only behind the work that uses it. */
#ifndef GPUD_DEVICE_FREE_AFTER_H
#define GPUD_DEVICE_FREE_AFTER_H

#include "device/async.h"

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

#endif
