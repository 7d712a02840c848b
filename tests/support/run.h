/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs a function of a test in child processes or threads, and sets limits of its process. */
#ifndef GPUD_TESTS_RUN_H
#define GPUD_TESTS_RUN_H

#include "support/check.h"

#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* So many threads at once, up to the end of all. */
static inline void run_threads(unsigned count, void *(*run)(void *), void *argument)
{
    pthread_t threads[16];
    CHECK(count <= 16, "more threads than there is room for");
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, run, argument) == 0, "no thread");
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* A child that goes on: the function writes to `ready` once it is; what it writes is `told`. */
static inline pid_t start_child(void (*run)(void *argument, int ready), void *argument, void *told,
                                size_t size)
{
    int ends[2];
    fflush(stdout);
    CHECK(pipe(ends) == 0, "pipe: %s", strerror(errno));
    pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        run(argument, ends[1]);
        _exit(1);
    }
    close(ends[1]);
    CHECK(read(ends[0], told, size) == (ssize_t)size, "the child is not ready");
    close(ends[0]);
    return child;
}

/* A child up to its end, which is clean; its exit status is 0, or 77: it could not. */
static inline int run_child(void (*run)(void *argument), void *argument)
{
    int state;
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        run(argument);
        _exit(0);
    }
    CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state), "the child dies");
    CHECK(WEXITSTATUS(state) == 0 || WEXITSTATUS(state) == 77, "the child ends with %d",
          WEXITSTATUS(state));
    return WEXITSTATUS(state);
}

/* Returns the limit that was. */
static inline rlim_t set_limit(int resource, rlim_t limit)
{
    struct rlimit both;
    CHECK(getrlimit(resource, &both) == 0, "getrlimit: %s", strerror(errno));
    rlim_t before = both.rlim_cur;
    both.rlim_cur = limit;
    fflush(stdout);
    CHECK(setrlimit(resource, &both) == 0, "setrlimit: %s", strerror(errno));
    return before;
}

#endif
