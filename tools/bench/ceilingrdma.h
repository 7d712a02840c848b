/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ceiling over a network card: plain RDMA writes of the same frame over the card of the job's
 * network. */
#ifndef GPUD_TOOLS_BENCH_CEILINGRDMA_H
#define GPUD_TOOLS_BENCH_CEILINGRDMA_H

#include "bench.h"
#include "ceilings/rdma.h"
#include "ceilings/stats.h"

struct bench_remotes;

/* With a pace, and within one host (one clock), *latency is until the write wakes the other
 * process; else *rate is frames a second. remotes: NULL: both processes are here. */
bool bench_ceiling_rdma(const struct bench_job *job, struct bench_remotes *remotes, double *rate,
                        struct stats_latency *latency, struct bench_failure *failure);

/* How many frames are counted with a pace. */
static inline uint32_t bench_raw_paced(const struct bench_job *job)
{
    return job->fps_num ? MIN(job->frames, 600) : 0;
}

#endif
