/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ceiling over a network card: starts the processes that rawrdma.c draws. */
#include "ceiling.h"
#include "remotes.h"
#include "stats.h"

#include <math.h>

static bool writer_ready(struct bench_child *children, size_t count)
{
    return children[0].ready;
}

static bool both_finished(struct bench_child *children, size_t count)
{
    return children[0].finished && children[1].finished;
}

/* children: the writer, the target; both are started, or are as they were. */
static bool run(struct bench_child *children, struct bench_job *job, struct bench_remotes *remotes,
                struct bench_failure *failure)
{
    int64_t duration = 18 * BENCH_STEP_TIMEOUT;
    if (!bench_child_start(&children[0], "raw-writer", 0, NULL, 0, failure))
        return false;
    bench_send(children[0].fd, BENCH_JOB, job, sizeof(*job));
    if (!bench_children_wait(children, 1, bench_now() + 2 * BENCH_STEP_TIMEOUT, writer_ready,
                             "opening the network card", failure))
        return false;
    job->raw_port = children[0].port;
    if (remotes)
        bench_remotes_start_target(remotes, job, &children[1]);
    else if (!bench_child_start(&children[1], "raw-target", 0, NULL, 0, failure))
        return false;
    else
        bench_send(children[1].fd, BENCH_JOB, job, sizeof(*job));
    if (job->fps_num)
        duration += bench_paced_time(job, bench_raw_pings(job));
    return bench_children_wait(children, 2, bench_now() + duration, both_finished,
                               "measuring the network card", failure);
}

static struct bench_ceiling ceiling_of_rate(const struct bench_job *job, double write)
{
    return (struct bench_ceiling){
        .key = "write",
        .what = job->receivers > 1
                    ? "plain RDMA writes of the same frame, as many at once as there are slots, "
                      "to each receiver in turn"
                    : "plain RDMA writes of the same frame, as many at once as there are slots",
        .value = write / job->receivers,
        .unit = "frames/s",
        .p99 = NAN,
    };
}

static struct bench_ceiling ceiling_of_latency(const struct bench_child *target)
{
    struct bench_latency latency = bench_latency_of(target->latencies, target->result.latencies);
    return (struct bench_ceiling){
        .key = "write",
        .what = "p50 of a plain RDMA write of the same frame, until it wakes the other process, at "
                "the same pace",
        .value = latency.p50,
        .unit = "us",
        .p99 = latency.p99,
    };
}

void bench_ceilings_set_rdma(const struct bench_job *job, double write,
                             struct bench_ceilings *ceilings)
{
    *ceilings = (struct bench_ceilings){.count = 1};
    ceilings->ceiling[0] = ceiling_of_rate(job, write > 0 ? write : NAN);
}

bool bench_ceiling_rdma(const struct bench_job *wanted, struct bench_remotes *remotes,
                        struct bench_ceiling *ceiling, struct bench_failure *failure)
{
    struct bench_job job = *wanted;
    struct bench_child children[2] = {{.pid = -1, .fd = -1}, {.pid = -1, .fd = -1}};
    if (remotes)
        job.fps_num = 0;
    bool good = run(children, &job, remotes, failure);
    if (!good && !bench_caught_signal())
        bench_children_find_death(children, 2, failure);
    if (good)
        *ceiling = job.fps_num ? ceiling_of_latency(&children[1])
                               : ceiling_of_rate(&job, children[0].result.raw.write);
    if (remotes)
        children[1].fd = -1; /* theirs */
    for (size_t i = 0; i < G_N_ELEMENTS(children); i++)
        bench_child_stop(&children[i], good ? bench_now() + BENCH_STEP_TIMEOUT : 0);
    return good;
}
