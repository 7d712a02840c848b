/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The processes that measure, without gpudirect, what the machine can do at best. */
#include "ceilingrdma.h"
#include "ceilings/wake.h"
#include "ceilings/words.h"
#include "control.h"
#include "network.h"
#include "roles.h"

#include <errno.h>
#include <string.h>

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
