/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What this machine can do at best, measured in the same run as the library. */
#ifndef GPUD_TOOLS_BENCH_CEILING_H
#define GPUD_TOOLS_BENCH_CEILING_H

#include "bench.h"

struct bench_ceiling {
    const char *key, *what;
    double value; /* frames per second, or the median in µs */
    const char *unit;
    double p99; /* of waking, µs; else NAN */
};

#define BENCH_CEILINGS_MAX 10

/* All ceilings of a job. */
struct bench_ceilings {
    struct bench_ceiling ceiling[BENCH_CEILINGS_MAX];
    unsigned count;
    unsigned main; /* the one for the report's ratio */
};

/* Makes the ceiling with this key the main one, if it is there. */
void bench_ceilings_choose(struct bench_ceilings *list, const char *key);

struct bench_remotes;
bool bench_ceilings_measure(const struct bench_job *job, struct bench_remotes *remotes,
                            struct bench_ceilings *ceilings, struct bench_failure *failure);

/* The ceiling of a run that the bench on another host measured, in frames a second. */
void bench_ceilings_set_rdma(const struct bench_job *job, double write,
                             struct bench_ceilings *ceilings);

#endif
