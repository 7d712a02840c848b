/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The coordinator of one run, as drawn in bench.h, and what its processes' results mean. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

void bench_show_progress(uint32_t number, uint32_t count)
{
    if (count < 2 || !isatty(STDERR_FILENO) ||
        g_strcmp0(g_getenv("GPUDIRECT_PROGRESS"), "off") == 0)
        return;
    fputs("\r\033[K", stderr);
    if (number)
        fprintf(stderr, "run %u of %u", number, count);
}

/* === the processes =========================================================================== */

/* Makes a key for this run if one is needed and none is given, so that other programs on the
 * network cannot connect. */
static bool make_key(struct bench_job *job, const char *directory)
{
    guchar random[32];
    if (!job->network[0] || job->remote || job->psk_file[0] || job->allow_unauthenticated)
        return true;
    g_snprintf(job->psk_file, sizeof(job->psk_file), "%s/" BENCH_KEY_FILE, directory);
    int fd = open(job->psk_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = fd >= 0 && getrandom(random, sizeof(random), 0) == sizeof(random);
    char *text = g_base64_encode(random, sizeof(random));
    good = good && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (!good)
        bench_fail(GPUD_IO, "no key can be written to %s: %s", job->psk_file, g_strerror(errno));
    g_free(text);
    if (fd >= 0)
        close(fd);
    return good;
}

static bool fill_in_directory(struct bench_job *job, const char *directory)
{
    char *texts[] = {job->sink, job->src};
    if (job->network[0])
        memcpy(job->address, job->network, sizeof(job->address));
    else
        g_snprintf(job->address, sizeof(job->address), "unix:%s/link", directory);
    for (int i = 0; i < 2; i++) {
        GString *text = g_string_new(texts[i]);
        g_string_replace(text, "{dir}", directory, 0);
        bool fits = g_strlcpy(texts[i], text->str, sizeof(job->sink)) < sizeof(job->sink);
        g_string_free(text, TRUE);
        if (!fits)
            return bench_fail(GPUD_INVALID, "the description of the elements is too long");
    }
    return make_key(job, directory);
}

static bool start_receivers(struct bench_processes *processes, struct bench_job *job)
{
    if (job->remote) {
        if (!bench_remotes_gather(job, &processes->child[0], clock_now() + job->patience))
            return false;
        bench_remotes_start(job, processes);
        return true;
    }
    for (job->number = 1; job->number <= job->receivers; job->number++)
        if (!bench_start(&processes->child[processes->count++], "receiver", job->number, job))
            return false;
    return true;
}

static bool run_processes(struct bench_processes *processes, struct bench_job *job,
                          const char *directory, int64_t timeout)
{
    struct bench_child *child = processes->child, *sender = &child[0];
    if (!bench_start(&child[processes->count++], "sender", 0, job) ||
        !bench_wait(sender, 1, 0, 1, BENCH_IS_READY, clock_now() + job->patience,
                    "starting the sender" BENCH_TOO_LONG))
        return false;
    sender->ready = false;
    if (!start_receivers(processes, job))
        return false;
    size_t count = processes->count;
    int64_t deadline = clock_now() + timeout;
    if (!bench_wait(child, count, 0, count, BENCH_IS_READY,
                    clock_now() + job->patience + BENCH_STEP_TIMEOUT,
                    "connecting the receivers" BENCH_TOO_LONG))
        return false;
    /* No more receivers connect: so even a killed coordinator leaves nothing behind. */
    bench_remove_directory(directory);
    sender->ready = false;
    bench_send(sender->fd, BENCH_GO, NULL, 0);
    if (!bench_wait(child, count, 0, 1, BENCH_IS_FINISHED, deadline, "sending" BENCH_TOO_LONG))
        return false;
    for (size_t i = 1; i < count; i++)
        bench_send(child[i].fd, BENCH_STOP, NULL, 0);
    if (!bench_wait(child, count, 0, count, BENCH_IS_FINISHED, clock_now() + 2 * BENCH_STEP_TIMEOUT,
                    "the receivers do not report what they measured"))
        return false;
    bench_send(sender->fd, BENCH_STOP, NULL, 0);
    return true;
}

static bool run_link(struct bench_job *job, int64_t timeout, struct bench_run *run,
                     struct bench_result *sender)
{
    char *directory = bench_make_directory();
    if (!directory)
        return false;
    /* The core does not know of a peer in another network namespace that it has the same clock. */
    if (!job->remote && (job->elements || job->floor || job->network[0]))
        job->page = bench_page_create(job->floor ? bench_layout_of(job).size * job->slots : 0);
    struct bench_processes *processes = g_new0(struct bench_processes, 1);
    bool good =
        fill_in_directory(job, directory) && run_processes(processes, job, directory, timeout);
    if (good)
        bench_figures_sum_up(processes, job, run);
    *sender = processes->child[0].result;
    /* Connections to other hosts stay for the next run, or to say what failed. Elements may have
     * files to remove; the core's only file is the socket in the bench's directory. */
    for (size_t i = 1; job->remote && i < processes->count; i++)
        processes->child[i].fd = 0;
    good =
        bench_stop_all(processes->child, processes->count, good, job->elements ? 2 * GPUD_SEC : 0);
    bench_remove_directory(directory);
    g_free(processes);
    g_free(directory);
    if (job->page >= 0)
        close(job->page);
    job->page = -1;
    return good;
}

#define MEANING_CPU "until the CPU had a frame that a GPU reads"

static const char *meaning_of(const struct bench_job *job)
{
    bool gpu = bench_reads_on_gpu(job);
    if (job->elements)
        return gpu ? "push into the sink to the GPU's sight of the buffer behind the source"
                   : "push into the sink to mapped buffer behind the source";
    if (gpu)
        return "submit to the GPU's sight of the frame";
    bool host = strcmp(job->from, "host") == 0 && strcmp(job->to, "host") == 0;
    return host ? "submit to acquire" : "submit to mapped and readable";
}

/* Of a run that sends nothing. */
static struct bench_run no_figures(const struct bench_job *job)
{
    const struct stats_latency unknown = stats_latency_of(NULL, 0);
    return (struct bench_run){
        .fps = NAN,
        .latency = unknown,
        .latency_cpu = unknown,
        .meaning = meaning_of(job),
        .meaning_cpu = MEANING_CPU,
        .cpu_sender = NAN,
        .cpu_receiver = NAN,
        .marking_sender = NAN,
        .marking_receiver = NAN,
        .waits_device_sender = NAN,
        .waits_device_receiver = NAN,
        .gigabytes_per_second = NAN,
        .copies_cpu = NAN,
        .copies_gpu = NAN,
        .kicks_sender = NAN,
        .waits_sender = NAN,
        .kicks_receiver = NAN,
        .waits_receiver = NAN,
        .lent = NAN,
    };
}

bool bench_run(const struct bench_job *wanted, int64_t timeout, struct bench_run *run)
{
    struct bench_job job = *wanted;
    struct bench_result sender;
    *run = job.only_ceilings ? no_figures(&job) : (struct bench_run){.route = ""};
    /* Where a GPU takes part; of the devices on other hosts a sender knows nothing. */
    job.on_gpu = bench_works_on_gpu(&job, job.from) || (!job.remote && bench_reads_on_gpu(&job));
    job.fills = job.on_gpu && bench_layout_of(&job).size <= BENCH_FILLED_MAX;
    /* Ceilings come last: what cannot be measured is refused at once, and by the library, which
     * best explains why. */
    if ((!job.only_ceilings && !run_link(&job, timeout, run, &sender)) ||
        !bench_ceilings_measure(&job, &run->ceilings))
        return false;
    bench_figures_compare(&job, run);
    if (job.remote)
        bench_remotes_sum_up(&sender, &run->ceiling);
    return true;
}

/* === figures ================================================================================= */

static double per_frame(int64_t counter, uint64_t frames)
{
    return counter == BENCH_UNKNOWN || frames == 0 ? NAN : (double)counter / (double)frames;
}

/* Known for marks on a GPU only: marks by the CPU stand for what an application does anyway. */
static double marking(const struct bench_result *result)
{
    return result->marking_ns ? per_frame(result->marking_ns, result->frames) / 1e3 : NAN;
}

/* Elements do not report it. */
static double setup_ms(const struct bench_result *result)
{
    return result->setup_ns ? (double)result->setup_ns / 1e6 : NAN;
}

/* Samples of all receivers. Jitter, from one sample to the next, is computed within each receiver
 * and then averaged. */
struct samples {
    GArray *all;
    double jitter;
};

static struct stats_latency add_samples(struct samples *samples, const int64_t *ns, uint64_t count)
{
    struct stats_latency own = stats_latency_of(ns, count);
    samples->jitter += own.jitter;
    g_array_append_vals(samples->all, ns, (guint)count);
    return own;
}

static struct stats_latency take_samples(struct samples *samples, uint32_t receivers)
{
    const int64_t *ns = (const int64_t *)(void *)samples->all->data;
    struct stats_latency latency = stats_latency_of(ns, samples->all->len);
    latency.jitter = samples->jitter / receivers;
    g_array_unref(samples->all);
    return latency;
}

/* With map, receivers read what upstream wrote into the sender's memory, so only words move. With
 * other routes frames move although neither side copies: the OpenCL driver or the card does. */
static bool moves_nothing(const struct bench_run *run)
{
    return strcmp(run->route, "map") == 0 && run->copies_cpu + run->copies_gpu < 0.5;
}

static void add_receiver(struct bench_run *run, const struct bench_child *child, uint64_t sent,
                         struct samples samples[2])
{
    const struct bench_result *result = &child->result;
    const int64_t *ns = child->latencies;
    struct bench_receiver_run *receiver = &run->receiver[run->receivers++];
    *receiver = (struct bench_receiver_run){
        .frames = result->frames,
        .missing = sent > result->all ? sent - result->all : 0,
        .dropped = result->reported_drops,
        .torn = result->torn,
        .fps = result->end > result->start
                   ? (double)(result->frames - 1) * 1e9 / (double)(result->end - result->start)
                   : NAN,
        .cpu_us = per_frame(result->cpu_ns, result->frames) / 1e3,
        .latency = add_samples(&samples[0], ns, result->latencies),
        .latency_cpu = add_samples(&samples[1], ns + result->latencies, result->latencies_cpu),
        .meaning = run->meaning,
        .meaning_cpu = run->meaning_cpu,
    };
    run->lost += receiver->missing;
    run->torn += receiver->torn;
    run->cpu_receiver += receiver->cpu_us;
    run->marking_receiver += marking(result);
    run->copies_cpu += per_frame(result->copies_cpu, run->frames);
    run->copies_gpu += per_frame(result->copies_gpu, run->frames);
    run->kicks_receiver += per_frame(result->kicks, result->frames);
    run->waits_receiver += per_frame(result->waits, result->frames);
    run->waits_device_receiver += per_frame(result->waits_device, result->frames);
    run->setup_receiver += setup_ms(result);
}

void bench_figures_sum_up(const struct bench_processes *processes, const struct bench_job *job,
                          struct bench_run *run)
{
    const struct bench_child *child = processes->child;
    const struct bench_result *sender = &child[0].result, *first = &child[1].result;
    struct samples samples[2];
    int64_t end = sender->end;
    double received = 0, rates = 0;
    for (int i = 0; i < 2; i++)
        samples[i] = (struct samples){.all = g_array_new(FALSE, FALSE, sizeof(int64_t))};
    g_strlcpy(run->route, sender->route[0] ? sender->route : first->route, sizeof(run->route));
    g_strlcpy(run->fallback_reason, sender->fallback_reason, sizeof(run->fallback_reason));
    run->meaning = meaning_of(job);
    run->meaning_cpu = MEANING_CPU;
    run->frames = sender->frames;
    run->cpu_sender = per_frame(sender->cpu_ns, sender->frames) / 1e3;
    run->marking_sender = marking(sender);
    run->copies_cpu = per_frame(sender->copies_cpu, sender->frames);
    run->copies_gpu = per_frame(sender->copies_gpu, sender->frames);
    run->kicks_sender = per_frame(sender->kicks, sender->frames);
    run->waits_sender = per_frame(sender->waits, sender->frames);
    run->waits_device_sender = per_frame(sender->waits_device, sender->frames);
    run->lent = per_frame((int64_t)sender->lent, sender->frames);
    run->setup_sender = setup_ms(sender);
    for (size_t i = 1; i < processes->count; i++) {
        add_receiver(run, &child[i], sender->all, samples);
        end = MAX(end, child[i].result.end);
        received += (double)child[i].result.frames;
        rates += run->receiver[i - 1].fps;
    }
    run->cpu_receiver /= run->receivers;
    run->marking_receiver /= run->receivers;
    run->kicks_receiver /= run->receivers;
    run->waits_receiver /= run->receivers;
    run->waits_device_receiver /= run->receivers;
    run->setup_receiver /= run->receivers;
    /* The mean of the rates does not need the sender's clock, which may be another one. */
    run->fps = job->remote ? rates / run->receivers
                           : received / run->receivers * 1e9 / (double)(end - sender->start);
    run->gigabytes_per_second =
        moves_nothing(run) ? NAN
                           : run->fps * run->receivers * (double)bench_layout_of(job).size / 1e9;
    run->dropped = (uint64_t)sender->dropped;
    run->lost = run->lost > run->dropped ? run->lost - run->dropped : 0;
    run->distribution_points = stats_distribution_of((const int64_t *)(void *)samples[0].all->data,
                                                     samples[0].all->len, run->distribution);
    run->latency = take_samples(&samples[0], run->receivers);
    run->latency_cpu = take_samples(&samples[1], run->receivers);
}

void bench_figures_compare(const struct bench_job *job, struct bench_run *run)
{
    if (moves_nothing(run))
        bench_ceilings_choose(&run->ceilings, "words");
    /* A rate is compared with rates, a latency with times. Where nothing is copied, the limit is
     * not a copy. */
    for (unsigned i = 0; i < run->ceilings.count; i++) {
        struct bench_ceiling *ceiling = &run->ceilings.ceiling[i];
        bool rate = strcmp(ceiling->unit, "frames/s") == 0;
        bool words = strcmp(ceiling->key, "words") == 0;
        ceiling->ratio = rate != (job->fps_num == 0) || (rate && words != moves_nothing(run))
                             ? NAN
                             : (rate ? run->fps : run->latency.p50) / ceiling->value;
    }
    run->ceiling = run->ceilings.ceiling[run->ceilings.main];
    run->ceiling_ratio_p99 = job->fps_num ? run->latency.p99 / run->ceiling.p99 : NAN;
    run->ceiling_ratio_cpu = (run->cpu_sender + run->cpu_receiver) /
                             (run->ceiling.cpu_sender + run->ceiling.cpu_receiver);
}
