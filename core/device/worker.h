/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Deferred work: functions that are called again until a device or a peer is done. */
#ifndef GPUD_DEVICE_WORKER_H
#define GPUD_DEVICE_WORKER_H

#include "base/error.h"
#include "base/lock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A function that is called again after as many ns as it returned, until it returns less than 0.
 * The record is embedded in what it works on, so that teardown never allocates; the last call may
 * free it. */
struct gpud_work {
    struct gpud_work *next;
    int64_t (*fn)(void *arg);
    void *arg;
    int64_t due;
};

/* The thread that calls them; it sleeps when there is nothing to do. */
struct gpud_worker {
    struct gpud_lock lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, stopping, hurried;
    unsigned outstanding; /* counts those being called, too */
    struct gpud_work *list;
};

void gpud_worker_init(struct gpud_worker *worker);

/* Before anything is added; again does no harm. */
enum gpud_status gpud_worker_start(struct gpud_worker *worker, struct gpud_error *error);

/* Ends the thread; unfinished work is never called again. */
void gpud_worker_finish(struct gpud_worker *worker);

/* Calls fn(arg) soon. In its last call, work may be added to another worker. */
void gpud_worker_add(struct gpud_worker *worker, struct gpud_work *work, int64_t (*fn)(void *arg),
                     void *arg);

/* Makes everything due now. */
void gpud_worker_hurry(struct gpud_worker *worker);

/* Whether everything is finished. */
bool gpud_worker_is_idle(struct gpud_worker *worker);

#endif
