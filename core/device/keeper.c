/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Chores: what must be looked at again until a device or a peer has come to rest. */
#include "base/clock.h"
#include "device/device.h"

void gpud_keeper_init(struct gpud_keeper *keeper)
{
    *keeper = (struct gpud_keeper){0};
    pthread_mutex_init(&keeper->lock, NULL);
    gpud_cond_init(&keeper->changed);
}

/* Takes what is due off the list. Under the lock. */
static struct gpud_chore *take_due(struct gpud_keeper *keeper, int64_t now)
{
    struct gpud_chore *due = NULL, **last = &due, **link = &keeper->chores;
    while (*link) {
        struct gpud_chore *chore = *link;
        if (!keeper->hurried && chore->due > now) {
            link = &chore->next;
            continue;
        }
        *link = chore->next;
        chore->next = NULL;
        *last = chore;
        last = &chore->next;
    }
    keeper->hurried = false;
    return due;
}

static int64_t next_due(const struct gpud_keeper *keeper)
{
    int64_t first = INT64_MAX;
    for (const struct gpud_chore *chore = keeper->chores; chore; chore = chore->next)
        first = chore->due < first ? chore->due : first;
    return first;
}

static void *run(void *arg)
{
    struct gpud_keeper *keeper = arg;
    pthread_mutex_lock(&keeper->lock);
    while (!keeper->stopping) {
        struct gpud_chore *due = take_due(keeper, gpud_now());
        if (!due) {
            int64_t until = next_due(keeper);
            struct timespec at = gpud_timespec(until);
            if (until == INT64_MAX)
                pthread_cond_wait(&keeper->changed, &keeper->lock); /* for the next chore */
            else
                pthread_cond_timedwait(&keeper->changed, &keeper->lock, &at);
            continue;
        }
        pthread_mutex_unlock(&keeper->lock);
        struct gpud_chore *again = NULL;
        unsigned finished = 0;
        while (due) {
            struct gpud_chore *chore = due;
            due = chore->next;
            int64_t pause = chore->fn(chore->arg);
            if (pause < 0) {
                finished++; /* and perhaps freed */
                continue;
            }
            chore->due = gpud_now() + pause;
            chore->next = again;
            again = chore;
        }
        pthread_mutex_lock(&keeper->lock);
        keeper->outstanding -= finished;
        while (again) {
            struct gpud_chore *chore = again;
            again = chore->next;
            chore->next = keeper->chores;
            keeper->chores = chore;
        }
    }
    pthread_mutex_unlock(&keeper->lock);
    return NULL;
}

enum gpud_status gpud_keeper_start(struct gpud_keeper *keeper, struct gpud_error *error)
{
    pthread_mutex_lock(&keeper->lock);
    if (!keeper->started)
        keeper->started = pthread_create(&keeper->thread, NULL, run, keeper) == 0;
    bool started = keeper->started;
    pthread_mutex_unlock(&keeper->lock);
    return started ? GPUD_OK
                   : gpud_fail(error, GPUD_NO_MEMORY, "the system has no thread left (ulimit -u)");
}

void gpud_keeper_add(struct gpud_keeper *keeper, struct gpud_chore *chore, int64_t (*fn)(void *arg),
                     void *arg)
{
    *chore = (struct gpud_chore){.fn = fn, .arg = arg};
    pthread_mutex_lock(&keeper->lock);
    struct gpud_chore **last = &keeper->chores;
    while (*last)
        last = &(*last)->next;
    *last = chore;
    keeper->outstanding++;
    pthread_cond_signal(&keeper->changed);
    pthread_mutex_unlock(&keeper->lock);
}

void gpud_keeper_hurry(struct gpud_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    keeper->hurried = true;
    pthread_cond_signal(&keeper->changed);
    pthread_mutex_unlock(&keeper->lock);
}

bool gpud_keeper_is_idle(struct gpud_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    bool idle = keeper->outstanding == 0;
    pthread_mutex_unlock(&keeper->lock);
    return idle;
}

void gpud_keeper_finish(struct gpud_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    keeper->stopping = true;
    pthread_cond_signal(&keeper->changed);
    pthread_mutex_unlock(&keeper->lock);
    if (keeper->started)
        pthread_join(keeper->thread, NULL);
    pthread_cond_destroy(&keeper->changed);
    pthread_mutex_destroy(&keeper->lock);
}
