/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Stands between the core and OpenCL (the linker's --wrap), and knows of each buffer on which
 * device it lies: where it was moved to, or where the last command used it. */
#ifndef GPUD_CONFORMANCE_MIGRATE_LAYER_H
#define GPUD_CONFORMANCE_MIGRATE_LAYER_H

#include <CL/cl.h>
#include <stdbool.h>

/* Home is the device whose queue used a buffer first. */
struct layer_counts {
    unsigned away;        /* explicit moves, with their content */
    unsigned home;        /* explicit moves without it, back to that device */
    unsigned home_filled; /* the same with it, which is unnecessary */
    unsigned idle;        /* explicit moves to where the buffer lies already */
    unsigned implicit; /* commands that used a buffer where it did not lie: the driver moved it */
};
struct layer_counts layer_count(void);

/* Forgets all counts, but not where buffers lie. */
void layer_reset(void);

/* From now on each write into a buffer waits for layer_let_go(), as if the device were busy. */
void layer_hold_writes(void);
void layer_let_go(void);

/* How many writes are held, and how many explicit moves were enqueued behind a held one. */
unsigned layer_held(void);
unsigned layer_moved_behind_held(void);

enum layer_fault {
    LAYER_WORKS,
    LAYER_REFUSES, /* explicit moves with content */
    LAYER_SPOILS,  /* the content, on the way */
};
void layer_set_fault(enum layer_fault fault);

#endif
