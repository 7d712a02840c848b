/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/base.h"

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
    [GPUD_RANK_OPENING] = "opening of devices",
    [GPUD_RANK_TRANSFER] = "transfer",
    [GPUD_RANK_TRANSFER_CONNECTION] = "transfer connection",
    [GPUD_RANK_SENDER] = "sender",
    [GPUD_RANK_RECEIVER] = "receiver",
    [GPUD_RANK_SESSION] = "session",
    [GPUD_RANK_GROUP] = "group",
    [GPUD_RANK_POOL_WAKE] = "pool wake",
    [GPUD_RANK_TRANSFER_COMPLETIONS] = "transfer completions",
    [GPUD_RANK_CAPTURE_NODE] = "capture node",
    [GPUD_RANK_CAPTURE_DRIVER] = "capture driver",
    [GPUD_RANK_CAPTURE_RING] = "capture ring",
    [GPUD_RANK_CAPTURE_INFO] = "capture info",
    [GPUD_RANK_CAPTURE_INTERRUPT] = "capture interrupt",
    [GPUD_RANK_TARGET] = "target",
    [GPUD_RANK_TARGET_RING] = "target ring",
    [GPUD_RANK_HUBS] = "hubs",
    [GPUD_RANK_TCP_RECEIVE] = "tcp receive",
    [GPUD_RANK_TCP_CHANNEL] = "tcp channel",
    [GPUD_RANK_TCP_IO] = "tcp I/O",
    [GPUD_RANK_RDMA_CLOSING] = "rdma closing",
    [GPUD_RANK_RDMA_CHANNEL] = "rdma channel",
    [GPUD_RANK_RDMA_ARM] = "rdma arm",
    [GPUD_RANK_RDMA_RECORDS] = "rdma records",
    [GPUD_RANK_RDMA_RECORD] = "rdma record",
    [GPUD_RANK_RDMA_WAYS] = "rdma ways",
    [GPUD_RANK_RDMA_DOMAIN] = "rdma domain",
    [GPUD_RANK_RDMA_CONNECTION] = "rdma connection",
    [GPUD_RANK_MAP] = "memory map",
    [GPUD_RANK_CONTEXT] = "context",
    [GPUD_RANK_OPENCL_SIGNAL] = "opencl signal",
    [GPUD_RANK_QUEUES] = "queues of a device",
    [GPUD_RANK_COMMANDS] = "commands",
    [GPUD_RANK_OPENCL_EXTERNAL] = "opencl external",
    [GPUD_RANK_COMPLETIONS] = "completions",
    [GPUD_RANK_BOUNCES] = "bounces",
    [GPUD_RANK_PINS] = "pins",
    [GPUD_RANK_OPENS] = "opened handles",
    [GPUD_RANK_IDENTIFY] = "identify",
    [GPUD_RANK_EVENTS] = "events",
    [GPUD_RANK_WORKER] = "worker",
    [GPUD_RANK_ABANDONED] = "abandoned memory",
};

/* More than the ranks that any call goes through. */
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
