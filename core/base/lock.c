/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/lock.h"

#include <stdio.h>
#include <stdlib.h>

void gpud_lock_init_inheriting(struct gpud_lock *lock, enum gpud_rank rank)
{
    pthread_mutexattr_t inherits;
    pthread_mutexattr_init(&inherits);
    pthread_mutexattr_setprotocol(&inherits, PTHREAD_PRIO_INHERIT);
    gpud_lock_init(lock, rank);
    pthread_mutex_destroy(&lock->mutex);
    pthread_mutex_init(&lock->mutex, &inherits);
    pthread_mutexattr_destroy(&inherits);
}

#ifdef GPUD_LOCK_CHECKS

static const char *const names[GPUD_RANKS] = {
    [GPUD_RANK_SENDER] = "sender",
    [GPUD_RANK_POOL_WAKE] = "pool wake",
    [GPUD_RANK_CONTEXT] = "context",
};

/* More than there are ranks that one call comes through. */
#define HELD_MAX 16
static _Thread_local const struct gpud_lock *held[HELD_MAX];
static _Thread_local unsigned held_count;

static _Noreturn void fault(const char *what, const struct gpud_lock *lock,
                            const struct gpud_lock *other)
{
    fprintf(stderr, "gpudirect: lock \"%s\" %s", names[lock->rank], what);
    if (other)
        fprintf(stderr, " \"%s\"", names[other->rank]);
    fprintf(stderr, "; this thread holds:");
    for (unsigned i = 0; i < held_count; i++)
        fprintf(stderr, " \"%s\"", names[held[i]->rank]);
    fputc('\n', stderr);
    abort();
}

void gpud_lock_expect(const struct gpud_lock *lock)
{
    for (unsigned i = 0; i < held_count; i++) {
        if (held[i] == lock)
            fault("is taken twice", lock, NULL);
        if (held[i]->rank >= lock->rank)
            fault("is taken after", lock, held[i]);
    }
}

void gpud_lock_noted(const struct gpud_lock *lock)
{
    if (held_count == HELD_MAX)
        fault("is one more than this check can count", lock, NULL);
    held[held_count++] = lock;
}

void gpud_lock_forgotten(const struct gpud_lock *lock)
{
    for (unsigned i = held_count; i > 0; i--) {
        if (held[i - 1] != lock)
            continue;
        for (; i < held_count; i++)
            held[i - 1] = held[i];
        held_count--;
        return;
    }
    fault("is released, and not held", lock, NULL);
}

void gpud_lock_expect_alone(const struct gpud_lock *lock)
{
    gpud_lock_assert_held(lock);
    for (unsigned i = 0; i < held_count; i++)
        if (held[i] != lock)
            fault("is waited under while the thread keeps", lock, held[i]);
}

bool gpud_lock_held(enum gpud_rank rank)
{
    for (unsigned i = 0; i < held_count; i++)
        if (held[i]->rank == rank)
            return true;
    return false;
}

void gpud_lock_assert_held(const struct gpud_lock *lock)
{
    for (unsigned i = 0; i < held_count; i++)
        if (held[i] == lock)
            return;
    fault("should be held here", lock, NULL);
}

void gpud_lock_assert_free(enum gpud_rank rank)
{
    for (unsigned i = 0; i < held_count; i++)
        if (held[i]->rank == rank)
            fault("must not be held here", held[i], NULL);
}

#endif
