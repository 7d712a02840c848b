/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "ceilingrdma.h"

#include "remotes.h"

static bool writer_ready(struct bench_child *children, size_t count)
{
    return children[0].ready;
}

static bool both_finished(struct bench_child *children, size_t count)
{
    return children[0].finished && children[1].finished;
}

/* children: the writer and the target; both are started, or neither is. */
static bool run(struct bench_child *children, struct bench_job *job, struct bench_remotes *remotes,
                struct bench_failure *failure)
{
    int64_t duration = 18 * BENCH_STEP_TIMEOUT;
    if (!bench_child_start(&children[0], "raw-writer", 0, NULL, 0, failure))
        return false;
    bench_send(children[0].fd, BENCH_JOB, job, sizeof(*job));
    if (!bench_children_wait(children, 1, clock_now() + 2 * BENCH_STEP_TIMEOUT, writer_ready,
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
        duration += bench_paced_time(job, bench_raw_paced(job) + RAW_RDMA_WARMUP);
    return bench_children_wait(children, 2, clock_now() + duration, both_finished,
                               "measuring the network card", failure);
}

bool bench_ceiling_rdma(const struct bench_job *wanted, struct bench_remotes *remotes, double *rate,
                        struct stats_latency *latency, struct bench_failure *failure)
{
    struct bench_job job = *wanted;
    struct bench_child children[2] = {{.pid = -1, .fd = -1}, {.pid = -1, .fd = -1}};
    if (remotes)
        job.fps_num = 0;
    bool good = run(children, &job, remotes, failure);
    if (!good && !bench_caught_signal())
        bench_children_find_death(children, 2, failure);
    if (good) {
        *rate = children[0].result.raw_write;
        *latency = stats_latency_of(children[1].latencies, children[1].result.latencies);
    }
    if (remotes)
        children[1].fd = -1; /* the connection stays the other bench's */
    for (size_t i = 0; i < G_N_ELEMENTS(children); i++)
        bench_child_stop(&children[i], good ? clock_now() + BENCH_STEP_TIMEOUT : 0);
    return good;
}
