/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What this machine can do at best, measured in the same run as what is compared with it. */
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

/* All that apply to a job. */
struct bench_ceilings {
    struct bench_ceiling ceiling[BENCH_CEILINGS_MAX];
    unsigned count;
    unsigned main; /* the one that the report's ratio is to */
};

/* Takes the one with this key for that, if it is there. */
void bench_ceilings_choose(struct bench_ceilings *list, const char *key);

struct bench_remotes;
bool bench_ceilings_measure(const struct bench_job *job, struct bench_remotes *remotes,
                            struct bench_ceilings *ceilings, struct bench_failure *failure);

/* Those of a run whose ceiling was measured by the bench on another host: frames a second. */
void bench_ceilings_set_rdma(const struct bench_job *job, double write,
                             struct bench_ceilings *ceilings);

#endif
