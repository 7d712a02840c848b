/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frees memory only after the work that uses it. */
#ifndef GPUD_DEVICE_FREE_AFTER_H
#define GPUD_DEVICE_FREE_AFTER_H

#include "device/async.h"

/* Part of the backend's record of a memory. */
struct gpud_free_after {
    struct gpud_async *async;
    struct gpud_memory *memory;
    void (*give_back)(struct gpud_memory *memory);
    int64_t not_before;
    bool fenced; /* every busy queue has an event here, or had one that has passed */
    void **fences;
    unsigned count;
    void *few[8]; /* storage for a few fences, without an allocation */
    struct gpud_work work;
};

/* Calls give_back(memory), which frees the backend's record, and gpud_memory_freed(), when all
 * current work on the device's queues is done, and not before the given time. here: at once, on
 * this thread, if there is no such work; else always from the worker, because drivers block when
 * they free. */
void gpud_free_after(struct gpud_async *async, struct gpud_free_after *after,
                     struct gpud_memory *memory, void (*give_back)(struct gpud_memory *memory),
                     int64_t not_before, bool here);

#endif
