/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The receiving benches on other hosts, for the sending one. */
#ifndef GPUD_TOOLS_BENCH_REMOTES_H
#define GPUD_TOOLS_BENCH_REMOTES_H

#include "children.h"
#include "hosts.h"

struct bench_remotes {
    int listener;
    uint32_t runs; /* the number of all runs */
    uint32_t count;
    struct bench_remote {
        int fd;
        char host[64], device[32];
    } remote[GPUD_RECEIVERS_MAX];
};

void bench_remotes_init(struct bench_remotes *remotes, uint32_t runs);

/* Waits until there is one for each receiver of the job, and sets the job's `to`. They stay for all
 * runs. false also if the sender fails meanwhile. */
bool bench_remotes_gather(struct bench_remotes *remotes, struct bench_job *job,
                          struct bench_child *sender, int64_t deadline,
                          struct bench_failure *failure);

/* Has them start their receivers: each is a child now, with a connection instead of a process. */
void bench_remotes_start(struct bench_remotes *remotes, const struct bench_job *job,
                         struct bench_processes *processes);

/* The run succeeded: forgets the children, keeps the connections. */
void bench_remotes_release(struct bench_processes *processes);

/* Only the first one has work: its child is the raw target. */
void bench_remotes_start_target(struct bench_remotes *remotes, const struct bench_job *job,
                                struct bench_child *target);

void bench_remotes_sum_up(struct bench_remotes *remotes, const struct bench_summary *summary);

/* failure: what to tell them; NULL: success. */
void bench_remotes_close(struct bench_remotes *remotes, const struct bench_failure *failure);

#endif
