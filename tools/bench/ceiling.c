/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ceiling over a network card: plain RDMA writes of the same frame over the card of the job's
 * network. */
#include "bench.h"

#include "ceilings/ceilings.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* How many frames are counted with a pace. */
static inline uint32_t bench_raw_paced(const struct bench_job *job)
{
    return job->fps_num ? MIN(job->frames, 600) : 0;
}

/* === ceilingrdma ============================================================================= */

static bool writer_ready(struct bench_child *children, size_t count)
{
    return children[0].ready;
}

static bool both_finished(struct bench_child *children, size_t count)
{
    return children[0].finished && children[1].finished;
}

/* children: the writer and the target; both are started, or neither is. */
static bool ceilingrdma_run(struct bench_child *children, struct bench_job *job,
                            struct bench_remotes *remotes, struct bench_failure *failure)
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

/* With a pace, and within one host (one clock), *latency is until the write wakes the other
 * process; else *rate is frames a second. remotes: NULL: both processes are here. */
static bool bench_ceiling_rdma(const struct bench_job *wanted, struct bench_remotes *remotes,
                               double *rate, struct stats_latency *latency,
                               struct bench_failure *failure)
{
    struct bench_job job = *wanted;
    struct bench_child children[2] = {{.pid = -1, .fd = -1}, {.pid = -1, .fd = -1}};
    if (remotes)
        job.fps_num = 0;
    bool good = ceilingrdma_run(children, &job, remotes, failure);
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

/* === ceilingroles ============================================================================ */
/* The processes that measure, without gpudirect, what the machine can do at best. */

static void take_job(int control, struct bench_job *job)
{
    bench_child_expect(control, BENCH_JOB, clock_now() + BENCH_STEP_TIMEOUT, job, sizeof(*job));
}

/* --- two processes ---------------------------------------------------------------------------- */

/* Ends with the coordinator, like the next one. */
void bench_run_echo(int control)
{
    struct bench_job job;
    take_job(control, &job);
    const struct raw_wake wake = {job.ping, job.pong, job.page};
    const struct bench_result result = {.latencies = job.frames};
    int64_t *latencies = g_new0(int64_t, job.frames);
    if (!raw_wake_answer(&wake, job.frames, latencies))
        bench_child_fail(control, GPUD_IO, "cannot answer through an eventfd: %s",
                         g_strerror(errno));
    bench_send_result(control, &result, latencies);
    g_free(latencies);
}

void bench_run_words(int control)
{
    struct bench_job job;
    const struct bench_result result = {0};
    take_job(control, &job);
    if (!raw_words_answer(job.page))
        bench_child_fail(control, GPUD_IO, "no shared page: %s", g_strerror(errno));
    bench_send_result(control, &result, NULL);
}

/* --- GPUs ------------------------------------------------------------------------------------- */

/* The driver to compare a job with: that of the sender's GPU, else of the first receiver's GPU that
 * has one. Devices of another vendor count as the host, because frames reach them through it. */
static void plan(const struct bench_job *job, struct raw_gpu_job *gpus)
{
    *gpus = (struct raw_gpu_job){.size = bench_frame_bytes(job), .copies = job->fps_num == 0};
    gpus->driver = raw_driver_of(job->from, &gpus->from);
    gpus->sends = gpus->driver != NULL;
    for (uint32_t i = 1; i <= job->receivers; i++) {
        char device[32];
        unsigned gpu;
        struct raw_driver *driver =
            raw_driver_of(bench_device_of(job, i, device, sizeof(device)), &gpu);
        if (!gpus->driver)
            gpus->driver = driver;
        if (driver && driver == gpus->driver)
            gpus->to[gpus->targets++] = gpu;
    }
}

void bench_run_raw(int control)
{
    struct bench_job job;
    struct raw_gpu_job gpus;
    struct bench_result result = {0};
    char reason[GPUD_REASON_MAX];
    const struct raw_caller caller = bench_child_caller(&control);
    take_job(control, &job);
    plan(&job, &gpus);
    if (gpus.driver && !raw_open(gpus.driver, reason, sizeof(reason)))
        bench_child_fail(control, GPUD_NO_DEVICE,
                         "--from %s --to %s: %s, in a container pass the GPU through, or name "
                         "other devices",
                         job.from, job.to, reason);
    if (gpus.driver)
        raw_gpu_measure(&gpus, &caller, &result.raw);
    bench_send_result(control, &result, NULL);
}

/* --- a network card --------------------------------------------------------------------------- */

#ifdef GPUD_WITH_RDMA
static void plan_rdma(int control, const struct bench_job *job, uint16_t port,
                      struct sockaddr_storage *address, struct raw_rdma_job *rdma)
{
    struct bench_failure failure;
    if (!bench_network_resolve(job->network, port, address, &failure))
        bench_child_fail(control, failure.status, "%s", failure.reason);
    *rdma = (struct raw_rdma_job){
        .address = address,
        .size = bench_frame_bytes(job),
        .slots = job->slots,
        .paced = bench_raw_paced(job),
        .period = job->fps_num ? 1e9 * job->fps_den / job->fps_num : 0,
        .abandoned = control,
    };
}

static void say_port(void *user, uint16_t port)
{
    bench_send(*(const int *)user, BENCH_LISTENING, &port, sizeof(port));
}

void bench_run_raw_writer(int control)
{
    struct bench_job job;
    struct sockaddr_storage address;
    struct raw_rdma_job rdma;
    struct bench_result result = {0};
    const struct raw_caller caller = bench_child_caller(&control);
    take_job(control, &job);
    plan_rdma(control, &job, 0, &address, &rdma);
    result.frames = raw_rdma_write(&rdma, &caller, say_port, &result.raw_write);
    bench_send_result(control, &result, NULL);
}

void bench_run_raw_target(int control)
{
    struct bench_job job;
    struct sockaddr_storage address;
    struct raw_rdma_job rdma;
    struct bench_result result = {0};
    const struct raw_caller caller = bench_child_caller(&control);
    take_job(control, &job);
    plan_rdma(control, &job, job.raw_port, &address, &rdma);
    int64_t *latencies = g_new0(int64_t, rdma.paced + 1);
    result.frames = raw_rdma_receive(&rdma, &caller, latencies);
    if (result.frames > RAW_RDMA_WARMUP)
        result.latencies = MIN(result.frames - RAW_RDMA_WARMUP, rdma.paced);
    bench_send_result(control, &result, latencies);
    g_free(latencies);
}
#endif

/* === ceiling ================================================================================= */

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
static void ceiling_add(struct bench_ceilings *list, const char *key, const char *what,
                        double value, const char *unit)
{
    if (value > 0 && list->count < BENCH_CEILINGS_MAX)
        list->ceiling[list->count++] = (struct bench_ceiling){
            .key = key, .what = what, .value = value, .unit = unit, .p99 = NAN};
}

static void add_copies(struct bench_ceilings *list, const struct raw_gpu_figures *raw)
{
    const char *unit = "frames/s";
    ceiling_add(list, "copy", "raw copies of the same frame within the GPU", raw->copy, unit);
    ceiling_add(list, "peer", "raw copies of the same frame to the receiver's GPU", raw->peer,
                unit);
    ceiling_add(list, "fan_out",
                "raw copies of the same frame to all receivers' GPUs at once, for each",
                raw->fan_out, unit);
    ceiling_add(list, "download", "raw copies of the same frame from the GPU to pinned memory",
                raw->download, unit);
    ceiling_add(list, "upload", "raw copies of the same frame from pinned memory to the GPU",
                raw->upload, unit);
}

static void add_marks(struct bench_ceilings *list, const struct raw_gpu_figures *raw)
{
    ceiling_add(list, "marker", "a word from stream to stream, half of a round trip", raw->marker,
                "us");
    ceiling_add(list, "handoff",
                "p50 of a word from the CPU's call through both streams to the CPU", raw->handoff,
                "us");
}

/* If GPUs' streams cannot pass words, processes do. */
static bool add_words(const struct bench_job *job, struct bench_ceilings *list,
                      const struct raw_gpu_figures *raw, struct bench_failure *failure)
{
    double rate;
    if (raw->words > 0) {
        ceiling_add(list, "words", "words from stream to stream and back, one each a frame",
                    raw->words, "frames/s");
        return true;
    }
    if (!measure_words(job, &rate, failure))
        return false;
    ceiling_add(list, "words",
                "words to another process and back, one each a frame, as many as slots", rate,
                "frames/s");
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
