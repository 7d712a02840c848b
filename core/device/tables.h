/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What drivers do only once, counted: pinning a host page, and opening a peer's handle in a
 * context. A backend has one static table of each for the whole process. */
#ifndef GPUD_DEVICE_TABLES_H
#define GPUD_DEVICE_TABLES_H

#include "base/lock.h"

#include <stdbool.h>
#include <stdint.h>

/* --- pinned host pages: registered once, for all devices of the driver ----------------------- */

struct gpud_pinned;

struct gpud_pins {
    bool (*pin)(void *pages, uint64_t size, bool read_only);
    void (*unpin)(void *pages);
    struct gpud_lock lock; /* also while the driver is called: it must not be asked twice */
    struct gpud_pinned *first;
};

/* The registration that covers the range: made, or found. NULL with true: the driver refuses, and
 * perhaps somebody else has pinned the pages; what shares a page with others is never pinned behind
 * their backs, because drivers refuse copies of what is pinned in part. false: out of memory. */
bool gpud_pins_add(struct gpud_pins *pins, void *data, uint64_t size, bool read_only,
                   struct gpud_pinned **pinned);

/* NULL is nothing. */
void gpud_pins_remove(struct gpud_pins *pins, struct gpud_pinned *pinned);

/* --- handles, opened once a context ---------------------------------------------------------- */

#define GPUD_OPEN_HANDLE_SIZE 64

struct gpud_opened;

struct gpud_opens {
    /* Both in the context, which the thread has entered. */
    long (*open)(const void *handle, uint64_t *base);
    void (*close)(uint64_t base);
    long no_memory; /* the driver's number for that */
    struct gpud_lock lock;
    struct gpud_opened *first;
};

/* handle: GPUD_OPEN_HANDLE_SIZE bytes. The driver's result; 0 is success. */
long gpud_opens_add(struct gpud_opens *opens, const void *context, const void *handle,
                    uint64_t *base);
void gpud_opens_remove(struct gpud_opens *opens, const void *context, uint64_t base);

#endif
