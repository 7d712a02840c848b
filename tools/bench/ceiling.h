/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What this machine can do at best, measured in the same run as what is compared with it. */
#ifndef GPUD_TOOLS_BENCH_CEILING_H
#define GPUD_TOOLS_BENCH_CEILING_H

#include "bench.h"
#include "bench/rawgpu.h"

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

/* How many buffers of this size exceed the processor's caches together. */
uint32_t bench_ceiling_buffers(uint64_t size);

struct bench_remotes;
bool bench_ceilings_measure(const struct bench_job *job, struct bench_remotes *remotes,
                            struct bench_ceilings *ceilings, struct bench_failure *failure);

/* Those of a run whose ceiling was measured by the bench on another host: frames a second. */
void bench_ceilings_set_rdma(const struct bench_job *job, double write,
                             struct bench_ceilings *ceilings);

/* Whose copies and words a job's are compared with: the driver of the sender's GPU, else of the
 * first receiver's that has one. NULL: none has. */
const struct raw_driver *bench_raw_driver_of(const struct bench_job *job);

/* Copying frames of this size by one thread. */
bool bench_ceiling_memcpy(uint64_t size, struct bench_ceiling *ceiling,
                          struct bench_failure *failure);

/* Words a second to another process and back, where nothing is copied. */
bool bench_ceiling_words(const struct bench_job *job, double *rate, struct bench_failure *failure);

/* Waking another process through an eventfd, at the job's pace. */
bool bench_ceiling_wake(const struct bench_job *job, struct bench_ceiling *ceiling,
                        struct bench_failure *failure);

/* Plain RDMA writes of the same frame over the card of the job's network; at a pace, and within one
 * host, which has one clock, until they wake the other process. */
bool bench_ceiling_rdma(const struct bench_job *job, struct bench_remotes *remotes,
                        struct bench_ceiling *ceiling, struct bench_failure *failure);

/* Of that: how many frames are written one after the other, at a pace; the first ones are not
 * counted. */
#define BENCH_RAW_WARMUP 10
static inline uint32_t bench_raw_pings(const struct bench_job *job)
{
    return MIN(job->frames, 600) + BENCH_RAW_WARMUP;
}

#endif
