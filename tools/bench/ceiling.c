/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "ceiling.h"

#include "children.h"
#include "roles.h"
#include "rows.h"
#include "stats.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* --- copying ---------------------------------------------------------------------------------- */

#define ROUNDS 7
#define ROUND (40 * GPUD_MSEC)
#define POOL_MAX (UINT64_C(384) << 20)

uint32_t bench_ceiling_buffers(uint64_t size)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    uint64_t pool = cache > 0 ? 4 * (uint64_t)cache : UINT64_C(128) << 20;
    return (uint32_t)CLAMP(MIN(pool, POOL_MAX) / size, 3, 512);
}

static double copy_for_a_while(char *from, char *to, uint64_t size, uint32_t buffers)
{
    int64_t start = bench_now(), now = start;
    uint64_t copies = 0;
    while (now - start < ROUND || copies < 2) {
        uint64_t offset = copies % buffers * size;
        memcpy(to + offset, from + offset, size);
        /* Or the compiler might leave the copy out. */
        __asm__ volatile("" : : "r"(to) : "memory");
        copies++;
        now = bench_now();
    }
    return (double)copies * 1e9 / (double)(now - start);
}

bool bench_ceiling_memcpy(uint64_t size, struct bench_ceiling *ceiling,
                          struct bench_failure *failure)
{
    uint32_t buffers = bench_ceiling_buffers(size);
    char *from = malloc(size * buffers), *to = malloc(size * buffers);
    if (!from || !to) {
        free(from);
        free(to);
        failure->status = GPUD_NO_MEMORY;
        g_strlcpy(failure->reason, "out of memory for the memcpy to compare with",
                  sizeof(failure->reason));
        return false;
    }
    memset(from, 1, size * buffers);
    memset(to, 2, size * buffers);
    double rates[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        rates[i] = copy_for_a_while(from, to, size, buffers);
    free(from);
    free(to);
    *ceiling = (struct bench_ceiling){
        .key = "memcpy",
        .what = "memcpy of the same frame, one thread, buffers larger than the caches",
        .value = bench_median(rates, ROUNDS),
        .unit = "frames/s",
        .p99 = NAN,
    };
    return true;
}

/* --- waking ----------------------------------------------------------------------------------- */

#define PINGS_MAX 600
#define WARMUP 10

struct page {
    _Atomic int64_t sent;
};

static bool wait_for_pong(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    uint64_t value;
    int polled;
    do
        polled = poll(&ready, 1, BENCH_STEP_TIMEOUT / GPUD_MSEC);
    while (polled < 0 && errno == EINTR && !bench_caught_signal());
    return polled > 0 && read(fd, &value, sizeof(value)) == sizeof(value);
}

static bool send_pings(const struct bench_job *job, struct page *page)
{
    int64_t first = bench_now();
    for (uint32_t i = 1; i <= job->frames + WARMUP; i++) {
        int64_t when = first + (int64_t)((double)i * 1e9 * job->fps_den / job->fps_num);
        const struct timespec until = {.tv_sec = when / GPUD_SEC, .tv_nsec = when % GPUD_SEC};
        uint64_t one = 1;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        atomic_store(&page->sent, bench_now());
        if (write(job->ping, &one, sizeof(one)) != sizeof(one) || !wait_for_pong(job->pong))
            return false;
    }
    return true;
}

static bool finished(struct bench_child *children, size_t count)
{
    return children[0].finished;
}

static bool measure_wakes(struct bench_job *job, struct page *page, struct bench_ceiling *ceiling,
                          struct bench_failure *failure)
{
    const int keep[] = {job->ping, job->pong, job->page};
    struct bench_child echo;
    bool good = bench_child_start(&echo, "echo", 0, keep, G_N_ELEMENTS(keep), failure) &&
                bench_send(echo.fd, BENCH_JOB, job, sizeof(*job));
    if (good && !send_pings(job, page)) {
        good = false;
        failure->status = GPUD_PEER;
        g_strlcpy(failure->reason,
                  bench_caught_signal() ? "interrupted" : "the process to be woken does not answer",
                  sizeof(failure->reason));
    }
    good = good && bench_children_wait(&echo, 1, bench_now() + BENCH_STEP_TIMEOUT, finished,
                                       "waking", failure);
    if (good) {
        struct bench_latency latency = bench_latency_of(echo.latencies, echo.result.latencies);
        *ceiling = (struct bench_ceiling){
            .key = "wake",
            .what = "p50 of waking another process through an eventfd at the same pace",
            .value = latency.p50,
            .unit = "us",
            .p99 = latency.p99,
        };
    }
    bench_child_stop(&echo, good ? bench_now() + GPUD_SEC : 0);
    return good;
}

static struct page *map_page(int fd)
{
    struct page *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

bool bench_ceiling_wake(const struct bench_job *wanted, struct bench_ceiling *ceiling,
                        struct bench_failure *failure)
{
    struct bench_job job = *wanted;
    bool good = false;
    job.frames = MIN(wanted->frames, PINGS_MAX);
    job.ping = eventfd(0, EFD_CLOEXEC);
    job.pong = eventfd(0, EFD_CLOEXEC);
    job.page = memfd_create("gpudirect-bench", MFD_CLOEXEC);
    struct page *page = NULL;
    if (job.ping >= 0 && job.pong >= 0 && job.page >= 0 && ftruncate(job.page, sizeof(*page)) == 0)
        page = map_page(job.page);
    if (page) {
        good = measure_wakes(&job, page, ceiling, failure);
        munmap(page, sizeof(*page));
    } else {
        failure->status = GPUD_IO;
        g_snprintf(failure->reason, sizeof(failure->reason), "no eventfd to compare with: %s",
                   g_strerror(errno));
    }
    const int fds[] = {job.ping, job.pong, job.page};
    for (size_t i = 0; i < G_N_ELEMENTS(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return good;
}

/* The process that is woken. Its reads have no deadline: it dies with the coordinator. */
void bench_run_echo(int control)
{
    struct bench_job job;
    bench_child_expect(control, BENCH_JOB, bench_now() + BENCH_STEP_TIMEOUT, &job, sizeof(job));
    struct page *page = map_page(job.page);
    if (!page)
        bench_child_fail(control, GPUD_IO, "no shared page: %s", g_strerror(errno));
    struct bench_result result = {0};
    int64_t *latencies = g_new0(int64_t, job.frames);
    for (uint32_t i = 0; i < job.frames + WARMUP; i++) {
        uint64_t one;
        if (read(job.ping, &one, sizeof(one)) != sizeof(one))
            bench_child_fail(control, GPUD_IO, "cannot read an eventfd: %s", g_strerror(errno));
        int64_t now = bench_now();
        if (i >= WARMUP)
            latencies[result.latencies++] = now - atomic_load(&page->sent);
        if (write(job.pong, &one, sizeof(one)) != sizeof(one))
            bench_child_fail(control, GPUD_IO, "cannot write an eventfd: %s", g_strerror(errno));
    }
    bench_send_result(control, &result, latencies);
    munmap(page, sizeof(*page));
    g_free(latencies);
}

/* --- GPUs' drivers ---------------------------------------------------------------------------- */

const struct raw_driver *bench_raw_driver_of(const struct bench_job *job)
{
    char device[32];
    const struct raw_driver *driver = raw_driver_of(job->from, NULL);
    for (uint32_t i = 1; i <= job->receivers && !driver; i++)
        driver = raw_driver_of(bench_device_of(job, i, device, sizeof(device)), NULL);
    return driver;
}

static bool measure_raw(const struct bench_job *job, struct bench_raw *raw,
                        struct bench_failure *failure)
{
    struct bench_child child;
    bool good = bench_child_start(&child, "raw", 0, NULL, 0, failure) &&
                bench_send(child.fd, BENCH_JOB, job, sizeof(*job));
    if (!good || !bench_children_wait(&child, 1, bench_now() + 6 * BENCH_STEP_TIMEOUT, finished,
                                      "measuring the driver", failure)) {
        if (!bench_caught_signal())
            bench_children_find_death(&child, 1, failure);
        bench_child_stop(&child, 0);
        return false;
    }
    *raw = child.result.raw;
    bench_child_stop(&child, bench_now() + BENCH_STEP_TIMEOUT);
    return true;
}

/* Adds nothing for what was not measured. */
static void add(struct bench_ceilings *list, const char *key, const char *what, double value,
                const char *unit)
{
    if (value > 0 && list->count < BENCH_CEILINGS_MAX)
        list->ceiling[list->count++] = (struct bench_ceiling){
            .key = key, .what = what, .value = value, .unit = unit, .p99 = NAN};
}

static void add_copies(struct bench_ceilings *list, const struct bench_raw *raw)
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

static void add_marks(struct bench_ceilings *list, const struct bench_raw *raw)
{
    add(list, "marker", "a word from stream to stream, half of a round trip", raw->marker, "us");
    add(list, "handoff", "p50 of a word from the CPU's call through both streams to the CPU",
        raw->handoff, "us");
}

/* Where GPUs' streams pass no words, processes do. */
static bool add_words(const struct bench_job *job, struct bench_ceilings *list,
                      const struct bench_raw *raw, struct bench_failure *failure)
{
    double rate;
    if (raw->words > 0) {
        add(list, "words", "words from stream to stream and back, one each a frame", raw->words,
            "frames/s");
        return true;
    }
    if (!bench_ceiling_words(job, &rate, failure))
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
    struct gpud_layout layout;
    struct gpud_error error;
    struct bench_raw raw = {0};
    *ceilings = (struct bench_ceilings){.count = 0};
    if (bench_uses_rows(job) && !remotes && !measure_raw(job, &raw, failure))
        return false;
    if (job->network[0]) {
        ceilings->count = 1;
        if (!bench_ceiling_rdma(job, remotes, &ceilings->ceiling[0], failure))
            return false;
        add_copies(ceilings, &raw);
        add_marks(ceilings, &raw);
        return true;
    }
    if (job->fps_num) {
        ceilings->count = 1;
        if (!bench_ceiling_wake(job, &ceilings->ceiling[0], failure))
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
        if (gpud_layout_init(&layout, job->format, job->width, job->height, 0, &error) != GPUD_OK) {
            failure->status = error.status;
            g_strlcpy(failure->reason, error.reason, sizeof(failure->reason));
            return false;
        }
        if (!bench_ceiling_memcpy(layout.size, &ceilings->ceiling[0], failure))
            return false;
    }
    return add_words(job, ceilings, &raw, failure);
}
