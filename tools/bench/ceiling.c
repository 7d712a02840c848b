/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "ceiling.h"

#include "ceilingrdma.h"
#include "ceilings/memory.h"
#include "ceilings/stats.h"
#include "ceilings/wake.h"
#include "ceilings/words.h"
#include "children.h"
#include "rows.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#define PINGS_MAX 600

static bool finished(struct bench_child *children, size_t count)
{
    return children[0].finished;
}

static bool stopped(void)
{
    return bench_caught_signal() != 0;
}

/* --- by the processors ------------------------------------------------------------------------ */

static bool measure_memcpy(const struct bench_job *job, struct bench_ceiling *ceiling,
                           struct bench_failure *failure)
{
    double rate = raw_memory_copy_rate(bench_frame_bytes(job));
    *ceiling = (struct bench_ceiling){
        .key = "memcpy",
        .what = "memcpy of the same frame, one thread, buffers larger than the caches",
        .value = rate,
        .unit = "frames/s",
        .p99 = NAN,
    };
    return rate > 0 ||
           bench_fail(failure, GPUD_NO_MEMORY, "out of memory for the memcpy to compare with");
}

static bool wake_child(const struct raw_wake *wake, const struct bench_job *job,
                       struct bench_ceiling *ceiling, struct bench_failure *failure)
{
    const int keep[] = {wake->ping, wake->pong, wake->page};
    struct bench_child echo;
    bool good = bench_child_start(&echo, "echo", 0, keep, G_N_ELEMENTS(keep), failure) &&
                bench_send(echo.fd, BENCH_JOB, job, sizeof(*job));
    if (good && !raw_wake_send(wake, job->frames, 1e9 * job->fps_den / job->fps_num, stopped))
        good = bench_fail(failure, GPUD_PEER, "%s",
                          stopped() ? "interrupted" : "the process to be woken does not answer");
    good = good && bench_children_wait(&echo, 1, clock_now() + BENCH_STEP_TIMEOUT, finished,
                                       "waking", failure);
    if (good) {
        struct stats_latency latency = stats_latency_of(echo.latencies, echo.result.latencies);
        *ceiling = (struct bench_ceiling){
            .key = "wake",
            .what = "p50 of waking another process through an eventfd at the same pace",
            .value = latency.p50,
            .unit = "us",
            .p99 = latency.p99,
        };
    }
    bench_child_stop(&echo, good ? clock_now() + GPUD_SEC : 0);
    return good;
}

static bool measure_wake(const struct bench_job *wanted, struct bench_ceiling *ceiling,
                         struct bench_failure *failure)
{
    struct bench_job job = *wanted;
    struct raw_wake wake;
    bool good = raw_wake_open(&wake) ||
                bench_fail(failure, GPUD_IO, "no eventfd to compare with: %s", g_strerror(errno));
    job.frames = MIN(wanted->frames, PINGS_MAX);
    job.ping = wake.ping;
    job.pong = wake.pong;
    job.page = wake.page;
    good = good && wake_child(&wake, &job, ceiling, failure);
    raw_wake_close(&wake);
    return good;
}

static bool measure_words(const struct bench_job *wanted, double *rate,
                          struct bench_failure *failure)
{
    struct bench_job job = *wanted;
    struct bench_child child;
    job.page = raw_words_open();
    if (job.page < 0)
        return bench_fail(failure, GPUD_IO, "no shared memory for words to compare with: %s",
                          g_strerror(errno));
    bool good = bench_child_start(&child, "words", 0, &job.page, 1, failure);
    if (good) {
        *rate = bench_send(child.fd, BENCH_JOB, &job, sizeof(job))
                    ? raw_words_rate(job.page, job.slots, stopped)
                    : 0;
        /* Wait even without an answer: the other process reports the cause. */
        good = bench_children_wait(&child, 1, clock_now() + BENCH_STEP_TIMEOUT, finished,
                                   "answering words", failure) &&
               (*rate > 0 || bench_fail(failure, GPUD_PEER, "%s",
                                        stopped() ? "interrupted"
                                                  : "the process to exchange words with, as a "
                                                    "ceiling, does not answer"));
        bench_child_stop(&child, good ? clock_now() + GPUD_SEC : 0);
    }
    close(job.page);
    return good;
}

/* --- by GPUs' drivers ------------------------------------------------------------------------- */

static bool measure_raw(const struct bench_job *job, struct raw_gpu_figures *raw,
                        struct bench_failure *failure)
{
    struct bench_child child;
    bool good = bench_child_start(&child, "raw", 0, NULL, 0, failure) &&
                bench_send(child.fd, BENCH_JOB, job, sizeof(*job));
    if (!good || !bench_children_wait(&child, 1, clock_now() + 6 * BENCH_STEP_TIMEOUT, finished,
                                      "measuring the driver", failure)) {
        if (!bench_caught_signal())
            bench_children_find_death(&child, 1, failure);
        bench_child_stop(&child, 0);
        return false;
    }
    *raw = child.result.raw;
    bench_child_stop(&child, clock_now() + BENCH_STEP_TIMEOUT);
    return true;
}

/* --- over a network card ---------------------------------------------------------------------- */

static struct bench_ceiling rdma_rate(const struct bench_job *job, double write)
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

static bool measure_rdma(const struct bench_job *job, struct bench_remotes *remotes,
                         struct bench_ceiling *ceiling, struct bench_failure *failure)
{
    double rate;
    struct stats_latency latency;
    if (!bench_ceiling_rdma(job, remotes, &rate, &latency, failure))
        return false;
    if (remotes || !job->fps_num)
        *ceiling = rdma_rate(job, rate);
    else
        *ceiling = (struct bench_ceiling){
            .key = "write",
            .what = "p50 of a plain RDMA write of the same frame, until it wakes the other "
                    "process, at the same pace",
            .value = latency.p50,
            .unit = "us",
            .p99 = latency.p99,
        };
    return true;
}

void bench_ceilings_set_rdma(const struct bench_job *job, double write,
                             struct bench_ceilings *ceilings)
{
    *ceilings = (struct bench_ceilings){.count = 1};
    ceilings->ceiling[0] = rdma_rate(job, write > 0 ? write : NAN);
}

/* --- all ceilings of a job
 * --------------------------------------------------------------------- */

/* Adds nothing if it was not measured. */
static void add(struct bench_ceilings *list, const char *key, const char *what, double value,
                const char *unit)
{
    if (value > 0 && list->count < BENCH_CEILINGS_MAX)
        list->ceiling[list->count++] = (struct bench_ceiling){
            .key = key, .what = what, .value = value, .unit = unit, .p99 = NAN};
}

static void add_copies(struct bench_ceilings *list, const struct raw_gpu_figures *raw)
{
    const char *unit = "frames/s";
    add(list, "copy", "raw copies of the same frame within the GPU", raw->copy, unit);
    add(list, "peer", "raw copies of the same frame to the receiver's GPU", raw->peer, unit);
    add(list, "fan_out", "raw copies of the same frame to all receivers' GPUs at once, for each",
        raw->fan_out, unit);
    add(list, "download", "raw copies of the same frame from the GPU to pinned memory",
        raw->download, unit);
    add(list, "upload", "raw copies of the same frame from pinned memory to the GPU", raw->upload,
        unit);
}

static void add_marks(struct bench_ceilings *list, const struct raw_gpu_figures *raw)
{
    add(list, "marker", "a word from stream to stream, half of a round trip", raw->marker, "us");
    add(list, "handoff", "p50 of a word from the CPU's call through both streams to the CPU",
        raw->handoff, "us");
}

/* If GPUs' streams cannot pass words, processes do. */
static bool add_words(const struct bench_job *job, struct bench_ceilings *list,
                      const struct raw_gpu_figures *raw, struct bench_failure *failure)
{
    double rate;
    if (raw->words > 0) {
        add(list, "words", "words from stream to stream and back, one each a frame", raw->words,
            "frames/s");
        return true;
    }
    if (!measure_words(job, &rate, failure))
        return false;
    add(list, "words", "words to another process and back, one each a frame, as many as slots",
        rate, "frames/s");
    return true;
}

/* The ceiling for the one copy that a frame of this job needs; within one GPU, which needs none,
 * for the copy that is saved. */
static const char *needed_copy(const struct bench_job *job)
{
    bool leaves = false, arrives = false;
    unsigned from, to;
    const struct raw_driver *driver = raw_driver_of(job->from, &from);
    for (uint32_t i = 1; driver && i <= job->receivers; i++) {
        char device[32];
        bench_device_of(job, i, device, sizeof(device));
        bool same = raw_driver_of(device, &to) == driver;
        leaves = leaves || !same || to != from;
        arrives = arrives || same;
    }
    if (!driver)
        return "upload";
    if (!arrives)
        return "download";
    if (!leaves)
        return "copy";
    return job->receivers > 1 ? "fan_out" : "peer";
}

void bench_ceilings_choose(struct bench_ceilings *list, const char *key)
{
    for (unsigned i = 0; i < list->count; i++)
        if (strcmp(list->ceiling[i].key, key) == 0)
            list->main = i;
}

bool bench_ceilings_measure(const struct bench_job *job, struct bench_remotes *remotes,
                            struct bench_ceilings *ceilings, struct bench_failure *failure)
{
    struct raw_gpu_figures raw = {0};
    *ceilings = (struct bench_ceilings){.count = 0};
    if (bench_uses_rows(job) && !remotes && !measure_raw(job, &raw, failure))
        return false;
    if (job->network[0]) {
        ceilings->count = 1;
        if (!measure_rdma(job, remotes, &ceilings->ceiling[0], failure))
            return false;
        add_copies(ceilings, &raw);
        add_marks(ceilings, &raw);
        return true;
    }
    if (job->fps_num) {
        ceilings->count = 1;
        if (!measure_wake(job, &ceilings->ceiling[0], failure))
            return false;
        add_marks(ceilings, &raw);
        return true;
    }
    add_copies(ceilings, &raw);
    if (ceilings->count) {
        bench_ceilings_choose(ceilings, needed_copy(job));
        add_marks(ceilings, &raw);
    } else {
        ceilings->count = 1;
        if (!measure_memcpy(job, &ceilings->ceiling[0], failure))
            return false;
    }
    return add_words(job, ceilings, &raw, failure);
}
