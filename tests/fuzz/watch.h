/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The invariants under any behaviour of a peer: calls return, no thread spins, nothing grows. A
 * violation is reported, and aborts. */
#ifndef GPUD_TESTS_FUZZ_WATCH_H
#define GPUD_TESTS_FUZZ_WATCH_H

#include <gpudirect/types.h>
#include <pthread.h>
#include <stdbool.h>

__attribute__((format(printf, 1, 2), noreturn)) void watch_fail(const char *format, ...);

/* --- time ------------------------------------------------------------------------------------- */

/* Starts the watchdog's thread, once. */
void watch_start(void);

/* Milliseconds that this program was able to run: while the machine does something else for long,
 * the watchdog does not wake up either, and no deadline passes. */
int64_t watch_time(void);

/* Milliseconds after which something that happens by itself must have happened. */
#define WATCH_PATIENCE 3000

/* Calls with a timeout, one at a time for each caller: the watchdog aborts when one does not come
 * back within its timeout and a second. */
enum watch_caller { WATCH_SENDER, WATCH_HONEST, WATCH_BENT, WATCH_CALLERS };
void watch_begin(enum watch_caller caller, const char *what, int64_t timeout_ns);
void watch_end(enum watch_caller caller);

/* Checks that idle threads use no CPU time, that is, do not spin. Takes some milliseconds if all
 * is well. */
struct watch_thread {
    const char *name;
    pthread_t thread;
};
void watch_quiet(const struct watch_thread *threads, unsigned count);

/* --- what an input leaves behind -------------------------------------------------------------- */

struct watch_baseline {
    unsigned fds, maps, shared; /* mappings: all, and those of shared memory */
    int64_t heap;
};
struct watch_baseline watch_baseline_take(void);

/* Expects the baseline again, after a wait for delayed releases. */
void watch_baseline_check(const struct watch_baseline *before);

#endif
