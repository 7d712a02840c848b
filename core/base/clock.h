/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Time. Inside the library a wait is given an absolute deadline on CLOCK_MONOTONIC, in nanoseconds,
 * so that it can be handed down through retries without growing; relative timeouts exist in the
 * public API only. */
#ifndef GPUD_BASE_CLOCK_H
#define GPUD_BASE_CLOCK_H

#include <gpudirect/types.h>
#include <pthread.h>
#include <time.h>

static inline int64_t gpud_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * GPUD_SEC + now.tv_nsec;
}

/* Saturates, so that a caller's INT64_MAX means "very long". */
static inline int64_t gpud_deadline_from(int64_t now, int64_t timeout_ns)
{
    return timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

static inline int64_t gpud_deadline(int64_t timeout_ns)
{
    return gpud_deadline_from(gpud_now(), timeout_ns);
}

static inline struct timespec gpud_timespec(int64_t ns)
{
    if (ns < 0)
        ns = 0;
    return (struct timespec){.tv_sec = (time_t)(ns / GPUD_SEC), .tv_nsec = (long)(ns % GPUD_SEC)};
}

/* The time until the deadline, for calls that take a relative time. */
static inline struct timespec gpud_time_left(int64_t deadline)
{
    return gpud_timespec(deadline - gpud_now());
}

/* Initialises a condition whose timed waits use this clock. */
static inline void gpud_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

#endif
