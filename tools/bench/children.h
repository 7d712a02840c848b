/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The processes of a run: this program, started again in other roles. They end with the
 * coordinator. */
#ifndef GPUD_TOOLS_BENCH_CHILDREN_H
#define GPUD_TOOLS_BENCH_CHILDREN_H

#include "control.h"

#include <sys/types.h>

struct bench_child {
    const char *role; /* as in main.c */
    uint32_t number;  /* of a receiver, from 1; else 0 */
    const char *host; /* another host, which is not trusted; NULL: this one */
    uint64_t message_max; /* largest message from it; 0: the default */
    pid_t pid;            /* -1: no process here */
    int fd;
    bool ready, finished; /* sent READY or LISTENING; sent its result */
    uint16_t port;        /* where it listens, if it sent one */
    bool idle_known;      /* on another host: it was reported */
    double idle_percent;  /* of one CPU, without frames; NAN: unknown */
    int64_t cpu_time;     /* when that measurement began */
    struct bench_result result;
    int64_t *latencies;
};

/* The processes of a run. */
struct bench_processes {
    struct bench_child
        child[1 + GPUD_RECEIVERS_MAX]; /* the sender, the receivers, the joiner if any */
    size_t count;
    size_t receivers;
};

/* inherited: descriptors that stay open in the child. */
bool bench_child_start(struct bench_child *child, const char *role, uint32_t number,
                       const int *inherited, size_t inherited_count, struct bench_failure *failure);

/* From now on every child gets a PID namespace of its own, as in containers. */
void bench_children_isolate(void);

/* Closes the connection, which ends a child that waits for a message. */
void bench_child_hang_up(struct bench_child *child);

/* Waits until it ends, and kills it at the deadline. false: it was killed. */
bool bench_child_stop(struct bench_child *child, int64_t deadline);

/* true: one of them was killed or crashed, which explains all other failures; *failure describes
 * it. Waits briefly, because a death may be noticed after its consequences. */
bool bench_children_find_death(struct bench_child *children, size_t count,
                               struct bench_failure *failure);

/* Handles the messages of all children until `done` returns true. false: a failure, a signal to
 * this process, or the deadline. */
bool bench_children_wait(struct bench_child *children, size_t count, int64_t deadline,
                         bool (*done)(struct bench_child *children, size_t count), const char *what,
                         struct bench_failure *failure);

/* Handles one message. false: a failure, or not a valid message. */
bool bench_child_handle(struct bench_child *child, struct bench_packet *packet,
                        struct bench_failure *failure);

/* A run of one process: from its start to its result, in `timeout` ns. */
bool bench_child_run(const struct bench_job *job, const char *role, int64_t timeout,
                     const char *what, struct bench_result *result, struct bench_failure *failure);

/* SIGINT, SIGTERM and SIGHUP end the run instead of this process, so that it cleans up first. */
void bench_catch_signals(void);
int bench_caught_signal(void); /* 0: none */

/* This process's role, and its control socket; NULL in the coordinator. */
const char *bench_role(int argc, char **argv, int *fd);

#endif
