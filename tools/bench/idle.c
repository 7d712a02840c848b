/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "idle.h"

#include <math.h>
#include <time.h>

/* Excludes what follows the last frame: its credits, and a thread that was still looking for the
 * next. */
#define SETTLE (500 * GPUD_MSEC)
#define STEP (20 * GPUD_MSEC)

/* CPU time of all its threads; -1: it has ended. */
static int64_t cpu_time_of(const struct bench_child *child)
{
    clockid_t clock;
    struct timespec t;
    if (child->pid <= 0 || clock_getcpuclockid(child->pid, &clock) != 0 ||
        clock_gettime(clock, &t) != 0)
        return -1;
    return t.tv_sec * GPUD_SEC + t.tv_nsec;
}

/* Sleeps until then, or until a signal to this process. */
static void rest(int64_t until)
{
    while (clock_now() < until && !bench_caught_signal())
        clock_sleep_until(MIN(until, clock_now() + STEP));
}

void bench_idle_measure(struct bench_child *children, size_t count, int64_t duration)
{
    rest(clock_now() + SETTLE);
    int64_t start = clock_now();
    for (size_t i = 0; i < count; i++)
        children[i].cpu_time = cpu_time_of(&children[i]);
    rest(start + duration);
    for (size_t i = 0; i < count; i++) {
        struct bench_child *child = &children[i];
        int64_t now = cpu_time_of(child), passed = clock_now() - start;
        if (now >= 0 && child->cpu_time >= 0)
            child->idle_percent = (double)(now - child->cpu_time) * 100 / (double)passed;
    }
}
