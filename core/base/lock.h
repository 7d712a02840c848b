/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Mutexes with a rank. A thread takes locks only in increasing order of rank, so that threads
 * cannot deadlock. enum gpud_rank is that order; core/README.md says what each lock guards, which
 * threads take it, and which locks are taken under it.
 *
 *     struct gpud_lock lock;
 *     gpud_lock_init(&lock, GPUD_RANK_SENDER);          or GPUD_LOCK_INITIALIZER(rank)
 *     gpud_lock_take(&lock);
 *     while (!ready)
 *         gpud_lock_wait_until(&lock, &condition, deadline);
 *     gpud_lock_release(&lock);
 *
 * With GPUD_LOCK_CHECKS (buildtype=debug, a sanitizer, the core that tests/kill links) each thread
 * keeps a list of the locks it holds, and the process aborts with a message when a lock is taken
 * out of order or twice, released by a thread that does not hold it, or held while the thread
 * sleeps on another lock's condition. Otherwise a gpud_lock is a plain pthread mutex. */
#ifndef GPUD_BASE_LOCK_H
#define GPUD_BASE_LOCK_H

#include "base/clock.h"

/* Outermost first: a lock may be taken while holding ones listed above it, never the reverse; two
 * locks of one rank are never held together. */
enum gpud_rank {
    GPUD_RANK_OPENING,
    /* stream: an application's calls, and the threads of a sender, a receiver, a transfer */
    GPUD_RANK_TRANSFER,
    GPUD_RANK_TRANSFER_CONNECTION,
    GPUD_RANK_SENDER,
    GPUD_RANK_RECEIVER,
    GPUD_RANK_SESSION,
    GPUD_RANK_GROUP,
    GPUD_RANK_POOL_WAKE,
    GPUD_RANK_TRANSFER_COMPLETIONS,
    /* capture */
    GPUD_RANK_CAPTURE_NODE,
    GPUD_RANK_CAPTURE_DRIVER,
    GPUD_RANK_CAPTURE_RING,
    GPUD_RANK_CAPTURE_INFO,
    GPUD_RANK_CAPTURE_INTERRUPT,
    GPUD_RANK_TARGET,
    GPUD_RANK_TARGET_RING,
    /* wire: connections of network cards */
    GPUD_RANK_RDMA_HUBS,
    GPUD_RANK_RDMA_CLOSING,
    GPUD_RANK_RDMA_CHANNEL,
    GPUD_RANK_RDMA_ARM,
    GPUD_RANK_RDMA_RECORDS,
    GPUD_RANK_RDMA_RECORD,
    /* device */
    GPUD_RANK_RDMA_WAYS,
    GPUD_RANK_RDMA_DOMAIN,
    GPUD_RANK_RDMA_CONNECTION,
    GPUD_RANK_MAP,
    GPUD_RANK_CONTEXT,
    GPUD_RANK_OPENCL_SIGNAL,
    GPUD_RANK_QUEUES,
    GPUD_RANK_COMMANDS,
    GPUD_RANK_OPENCL_EXTERNAL,
    GPUD_RANK_COMPLETIONS,
    GPUD_RANK_BOUNCES,
    GPUD_RANK_PINS,
    GPUD_RANK_OPENS,
    GPUD_RANK_IDENTIFY,
    GPUD_RANK_EVENTS,
    GPUD_RANK_WORKER,
    GPUD_RANK_ABANDONED,
    GPUD_RANKS,
};

#ifdef GPUD_LOCK_CHECKS

struct gpud_lock {
    pthread_mutex_t mutex;
    enum gpud_rank rank;
};

#define GPUD_LOCK_INITIALIZER(its_rank)                         \
    {                                                           \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .rank = (its_rank), \
    }

/* gpud_lock_expect aborts unless the lock may be taken now; the next two update the list. */
void gpud_lock_expect(const struct gpud_lock *lock);
void gpud_lock_noted(const struct gpud_lock *lock);
void gpud_lock_forgotten(const struct gpud_lock *lock);
void gpud_lock_expect_alone(const struct gpud_lock *lock);

/* Whether the calling thread holds a lock of that rank. */
bool gpud_lock_held(enum gpud_rank rank);

/* The calling thread must hold the lock, or none of that rank: nothing in a release build. */
void gpud_lock_assert_held(const struct gpud_lock *lock);
void gpud_lock_assert_free(enum gpud_rank rank);

#else

struct gpud_lock {
    pthread_mutex_t mutex;
};

#define GPUD_LOCK_INITIALIZER(its_rank)     \
    {                                       \
        .mutex = PTHREAD_MUTEX_INITIALIZER, \
    }
#define gpud_lock_expect(lock) ((void)0)
#define gpud_lock_noted(lock) ((void)0)
#define gpud_lock_forgotten(lock) ((void)0)
#define gpud_lock_expect_alone(lock) ((void)0)
#define gpud_lock_assert_held(lock) ((void)0)
#define gpud_lock_assert_free(rank) ((void)0)

#endif

static inline void gpud_lock_init(struct gpud_lock *lock, enum gpud_rank rank)
{
    *lock = (struct gpud_lock)GPUD_LOCK_INITIALIZER(rank);
    pthread_mutex_init(&lock->mutex, NULL);
}

/* The holder inherits the highest priority of the waiting threads: for locks that real-time threads
 * share with others. Contended calls then always go through the kernel. */
void gpud_lock_init_inheriting(struct gpud_lock *lock, enum gpud_rank rank);

static inline void gpud_lock_destroy(struct gpud_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

static inline void gpud_lock_take(struct gpud_lock *lock)
{
    gpud_lock_expect(lock);
    pthread_mutex_lock(&lock->mutex);
    gpud_lock_noted(lock);
}

/* Does not wait, so it may be called in any order; locks taken while it is held still need a
 * greater rank. */
static inline bool gpud_lock_try(struct gpud_lock *lock)
{
    if (pthread_mutex_trylock(&lock->mutex) != 0)
        return false;
    gpud_lock_noted(lock);
    return true;
}

static inline void gpud_lock_release(struct gpud_lock *lock)
{
    gpud_lock_forgotten(lock);
    pthread_mutex_unlock(&lock->mutex);
}

/* The thread must hold no other lock, because only this one is dropped meanwhile. */
static inline void gpud_lock_wait(struct gpud_lock *lock, pthread_cond_t *condition)
{
    gpud_lock_expect_alone(lock);
    pthread_cond_wait(condition, &lock->mutex);
}

/* The condition must be from gpud_cond_init(). false: the deadline has passed. */
static inline bool gpud_lock_wait_until(struct gpud_lock *lock, pthread_cond_t *condition,
                                        int64_t deadline)
{
    struct timespec at = gpud_timespec(deadline);
    gpud_lock_expect_alone(lock);
    return pthread_cond_timedwait(condition, &lock->mutex, &at) == 0;
}

#endif
