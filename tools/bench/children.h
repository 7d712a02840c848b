/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The processes of a run: this program, started again in other roles. They die with the
 * coordinator. */
#ifndef GPUD_TOOLS_BENCH_CHILDREN_H
#define GPUD_TOOLS_BENCH_CHILDREN_H

#include "control.h"

#include <sys/types.h>

struct bench_child {
    const char *role; /* as main.c knows them */
    uint32_t number;  /* of a receiver, from 1; else 0 */
    const char *host; /* the other host that it is on, and is not to be trusted; NULL: this one */
    uint64_t message_max; /* of it; 0: the usual */
    pid_t pid;            /* -1: none here */
    int fd;
    bool ready, finished; /* sent READY or LISTENING; sent its result */
    uint16_t port;        /* where it listens, if it said so */
    bool idle_known;      /* on another host: it said */
    double idle_percent;  /* of one CPU, without frames; NAN: not known */
    int64_t cpu_time;     /* when measuring that began */
    struct bench_result result;
    int64_t *latencies;
};

/* Those of a run. */
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

/* true: one of them was killed or crashed, which explains whatever else failed; *failure says so.
 * Waits briefly, since the death may show after its consequences. */
bool bench_children_find_death(struct bench_child *children, size_t count,
                               struct bench_failure *failure);

/* Handles the messages of all children until `done` returns true. false at the first failure, at a
 * signal to this process, and at the deadline. */
bool bench_children_wait(struct bench_child *children, size_t count, int64_t deadline,
                         bool (*done)(struct bench_child *children, size_t count), const char *what,
                         struct bench_failure *failure);

/* Handles one message. false: it failed, or the message is none. */
bool bench_child_handle(struct bench_child *child, struct bench_packet *packet,
                        struct bench_failure *failure);

/* SIGINT, SIGTERM and SIGHUP end the run, not this process at once: it cleans up first. */
void bench_catch_signals(void);
int bench_caught_signal(void); /* 0: none */

/* The role that this process was started in, and its control socket; NULL in the coordinator. */
const char *bench_role(int argc, char **argv, int *fd);

#endif
