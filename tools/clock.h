/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Times for the tools, in ns. */
#ifndef GPUD_TOOLS_CLOCK_H
#define GPUD_TOOLS_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_read(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* The monotonic clock. */
static inline int64_t clock_now(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

/* CPU time of this process, all threads. */
static inline int64_t clock_cpu_time(void)
{
    return clock_read(CLOCK_PROCESS_CPUTIME_ID);
}

/* Signals do not end the sleep. */
static inline void clock_sleep_until(int64_t when)
{
    const struct timespec until = {.tv_sec = when / 1000000000, .tv_nsec = when % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        continue;
}

#endif
