/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The processes of a run: this program, started anew in other roles. They die with the director. */
#ifndef GPUD_TOOLS_BENCH_CHILDREN_H
#define GPUD_TOOLS_BENCH_CHILDREN_H

#include "control.h"

#include <sys/types.h>

struct bench_child {
    const char *role; /* "sender", "receiver", "echo" */
    uint32_t number;  /* of a receiver, from 1; else 0 */
    pid_t pid;
    int fd;
    bool ready, finished; /* said READY; gave its result */
    struct bench_result result;
    int64_t *latencies;
};

/* keep: descriptors that the child inherits. */
bool bench_child_start(struct bench_child *child, const char *role, uint32_t number,
                       const int *keep, size_t keep_count, struct bench_failure *failure);

/* From now on every child gets a PID namespace of its own, as in containers. */
void bench_children_isolate(void);

/* The connection ends; a child that waits for anything ends too. */
void bench_child_hang_up(struct bench_child *child);

/* Ends it, by force if it has not ended by itself by then. false: force was needed. */
bool bench_child_stop(struct bench_child *child, int64_t deadline);

/* If one of them was killed, or crashed, that is the cause of whatever else was seen. Waits a
 * moment for it. */
bool bench_children_explain(struct bench_child *children, size_t count,
                            struct bench_failure *failure);

/* The messages of all until `done` says so; GO on is up to it. false with the first failure, a
 * signal to this process, or the deadline. */
bool bench_children_follow(struct bench_child *children, size_t count, int64_t deadline,
                           bool (*done)(struct bench_child *children, size_t count),
                           const char *what, struct bench_failure *failure);

/* SIGINT and SIGTERM end the run, not this process at once: it has things to remove. */
void bench_catch_signals(void);
int bench_caught_signal(void); /* 0: none */

/* In a new process: the role it was started in and its control socket, or NULL in the director. */
const char *bench_role(int argc, char **argv, int *fd);

#endif
