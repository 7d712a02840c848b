/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Work that must not run in a caller's or a driver's thread. */
#include "device/device.h"

#include "base/base.h"

void gpud_worker_init(struct gpud_worker *worker)
{
    *worker = (struct gpud_worker){0};
    gpud_lock_init(&worker->lock, GPUD_RANK_WORKER);
    gpud_cond_init(&worker->changed);
}

static void *worker_run(void *arg)
{
    struct gpud_worker *worker = arg;
    gpud_lock_take(&worker->lock);
    while (!worker->stopping) {
        /* Takes what is due off the list. */
        struct gpud_work *due = NULL, **last = &due, **link = &worker->list;
        int64_t now = gpud_now(), first = INT64_MAX;
        while (*link) {
            struct gpud_work *work = *link;
            if (!worker->hurried && work->due > now) {
                first = work->due < first ? work->due : first;
                link = &work->next;
                continue;
            }
            *link = work->next;
            work->next = NULL;
            *last = work;
            last = &work->next;
        }
        worker->hurried = false;
        if (!due) {
            if (first == INT64_MAX)
                gpud_lock_wait(&worker->lock, &worker->changed); /* until something is added */
            else
                gpud_lock_wait_until(&worker->lock, &worker->changed, first);
            continue;
        }
        gpud_lock_release(&worker->lock);
        struct gpud_work *again = NULL;
        unsigned finished = 0;
        while (due) {
            struct gpud_work *work = due;
            due = work->next;
            int64_t pause = work->fn(work->arg);
            if (pause < 0) {
                finished++; /* the record may be freed by now */
                continue;
            }
            work->due = gpud_now() + pause;
            work->next = again;
            again = work;
        }
        gpud_lock_take(&worker->lock);
        worker->outstanding -= finished;
        while (again) {
            struct gpud_work *work = again;
            again = work->next;
            work->next = worker->list;
            worker->list = work;
        }
    }
    gpud_lock_release(&worker->lock);
    return NULL;
}

enum gpud_status gpud_worker_start(struct gpud_worker *worker, struct gpud_error *error)
{
    gpud_lock_take(&worker->lock);
    if (!worker->started)
        worker->started = pthread_create(&worker->thread, NULL, worker_run, worker) == 0;
    bool started = worker->started;
    gpud_lock_release(&worker->lock);
    return started ? GPUD_OK
                   : gpud_fail(error, GPUD_NO_MEMORY, "the system has no thread left (ulimit -u)");
}

void gpud_worker_add(struct gpud_worker *worker, struct gpud_work *work, int64_t (*fn)(void *arg),
                     void *arg)
{
    *work = (struct gpud_work){.fn = fn, .arg = arg};
    gpud_lock_take(&worker->lock);
    struct gpud_work **last = &worker->list;
    while (*last)
        last = &(*last)->next;
    *last = work;
    worker->outstanding++;
    pthread_cond_signal(&worker->changed);
    gpud_lock_release(&worker->lock);
}

void gpud_worker_hurry(struct gpud_worker *worker)
{
    gpud_lock_take(&worker->lock);
    worker->hurried = true;
    pthread_cond_signal(&worker->changed);
    gpud_lock_release(&worker->lock);
}

bool gpud_worker_is_idle(struct gpud_worker *worker)
{
    gpud_lock_take(&worker->lock);
    bool idle = worker->outstanding == 0;
    gpud_lock_release(&worker->lock);
    return idle;
}

void gpud_worker_finish(struct gpud_worker *worker)
{
    gpud_lock_take(&worker->lock);
    worker->stopping = true;
    pthread_cond_signal(&worker->changed);
    gpud_lock_release(&worker->lock);
    if (worker->started)
        pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->changed);
    gpud_lock_destroy(&worker->lock);
}
