/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The coordinator of one run, as bench.h draws it. Sockets lie in a directory made for the run. */
#include "run.h"

#include "children.h"
#include "rows.h"
#include "submittimes.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct processes {
    struct bench_child
        child[1 + GPUD_RECEIVERS_MAX]; /* the sender, the receivers, the joiner if any */
    size_t count;
    size_t receivers;
};

/* --- the directory ---------------------------------------------------------------------------- */

static char *make_directory(struct bench_failure *failure)
{
    GError *error = NULL;
    char *path = g_dir_make_tmp("gpudirect-bench-XXXXXX", &error);
    if (!path) {
        failure->status = GPUD_IO;
        g_strlcpy(failure->reason, error->message, sizeof(failure->reason));
        g_clear_error(&error);
    }
    return path;
}

static void remove_directory(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
    }
    if (directory)
        closedir(directory);
    rmdir(path);
}

static bool fill_in_directory(struct bench_job *job, const char *directory,
                              struct bench_failure *failure)
{
    char *texts[] = {job->sink, job->src};
    g_snprintf(job->address, sizeof(job->address), "unix:%s/link", directory);
    for (int i = 0; i < 2; i++) {
        GString *text = g_string_new(texts[i]);
        g_string_replace(text, "{dir}", directory, 0);
        bool fits = g_strlcpy(texts[i], text->str, sizeof(job->sink)) < sizeof(job->sink);
        g_string_free(text, TRUE);
        if (!fits) {
            failure->status = GPUD_INVALID;
            g_strlcpy(failure->reason, "the description of the elements is too long",
                      sizeof(failure->reason));
            return false;
        }
    }
    return true;
}

/* --- the processes
 * --------------------------------------------------------------------------------- */

static bool sender_ready(struct bench_child *children, size_t count)
{
    return children[0].ready;
}

static bool all_ready(struct bench_child *children, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!children[i].ready)
            return false;
    return true;
}

static bool sender_finished(struct bench_child *children, size_t count)
{
    return children[0].finished;
}

static bool all_finished(struct bench_child *children, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!children[i].finished)
            return false;
    return true;
}

static bool start_process(struct processes *processes, const char *role,
                          const struct bench_job *job, struct bench_failure *failure)
{
    struct bench_child *child = &processes->child[processes->count++];
    return bench_child_start(child, role, job->number, &job->page, job->page >= 0, failure) &&
           (bench_send(child->fd, BENCH_JOB, job, sizeof(*job)) ||
            true); /* if it has ended, waiting for it says so */
}

static bool joins_finished(struct bench_child *children, size_t count)
{
    return children[count - 1].finished;
}

/* Lets receivers join from the start of the measured section. The sender goes on until all have
 * left, so that a slow machine changes figures, not counts. */
static bool follow_joins(struct processes *processes, int64_t deadline,
                         struct bench_failure *failure)
{
    processes->child[0].ready = false;
    if (!bench_children_wait(processes->child, processes->count, deadline, sender_ready,
                             "the warm-up", failure))
        return false;
    bench_send(processes->child[1 + processes->receivers].fd, BENCH_GO, NULL, 0);
    if (!bench_children_wait(processes->child, processes->count, deadline, joins_finished,
                             "joining and leaving", failure))
        return false;
    bench_send(processes->child[0].fd, BENCH_GO, NULL, 0);
    return true;
}

static bool run_processes(struct processes *processes, struct bench_job *job, const char *directory,
                          int64_t deadline, struct bench_failure *failure)
{
    struct bench_child *sender = &processes->child[0];
    if (!start_process(processes, "sender", job, failure) ||
        !bench_children_wait(sender, 1, bench_now() + 2 * BENCH_STEP_TIMEOUT, sender_ready,
                             "starting the sender", failure))
        return false;
    sender->ready = false;
    for (job->number = 1; job->number <= job->receivers; job->number++)
        if (!start_process(processes, "receiver", job, failure))
            return false;
    processes->receivers = job->receivers;
    job->number = 0;
    if (job->joins && !start_process(processes, "joiner", job, failure))
        return false;
    if (!bench_children_wait(sender, processes->count, bench_now() + 3 * BENCH_STEP_TIMEOUT,
                             all_ready, "connecting the receivers", failure))
        return false;
    /* Removed as soon as nobody connects any more: then even a coordinator that is killed leaves
     * nothing behind. With --join somebody connects until the end. */
    if (!job->joins)
        remove_directory(directory);
    bench_send(sender->fd, BENCH_GO, NULL, 0);
    if (job->joins && !follow_joins(processes, deadline, failure))
        return false;
    if (!bench_children_wait(sender, processes->count, deadline, sender_finished, "sending",
                             failure))
        return false;
    for (size_t i = 1; i < processes->count; i++)
        bench_send(processes->child[i].fd, BENCH_STOP, NULL, 0);
    if (!bench_children_wait(sender, processes->count, bench_now() + 2 * BENCH_STEP_TIMEOUT,
                             all_finished, "receiving", failure))
        return false;
    bench_send(sender->fd, BENCH_STOP, NULL, 0);
    return true;
}

static bool end_processes(struct processes *processes, bool good, bool elements,
                          struct bench_failure *failure)
{
    if (!good && !bench_caught_signal())
        bench_children_find_death(processes->child, processes->count, failure);
    for (size_t i = 0; i < processes->count && !good; i++)
        bench_child_hang_up(&processes->child[i]);
    /* Elements may have files to remove; the core's only file is the socket in our directory. */
    int64_t deadline = good       ? bench_now() + BENCH_STEP_TIMEOUT
                       : elements ? bench_now() + 2 * GPUD_SEC
                                  : 0;
    for (size_t i = processes->count; i-- > 0;) {
        if (bench_child_stop(&processes->child[i], deadline) || !good)
            continue;
        good = false;
        failure->status = GPUD_TIMEOUT;
        g_snprintf(failure->reason, sizeof(failure->reason),
                   "the %s did not end by itself and was killed", processes->child[i].role);
    }
    return good;
}

/* --- the result ------------------------------------------------------------------------------- */

static double per_frame(int64_t counter, uint64_t frames)
{
    return counter == BENCH_UNKNOWN || frames == 0 ? NAN : (double)counter / (double)frames;
}

/* Told apart for marks on a GPU only: those by the CPU stand for what an application does anyway.
 */
static double marking(const struct bench_result *result)
{
    return result->marking_ns ? per_frame(result->marking_ns, result->frames) / 1e3 : NAN;
}

static void add_receiver(struct bench_run *run, const struct bench_child *child, uint64_t sent)
{
    const struct bench_result *result = &child->result;
    struct bench_receiver_run *receiver = &run->receiver[run->receivers++];
    receiver->frames = result->frames;
    receiver->missing = sent > result->all ? sent - result->all : 0;
    receiver->dropped = result->reported_drops;
    receiver->torn = result->torn;
    receiver->fps = result->end > result->start
                        ? (double)(result->frames - 1) * 1e9 / (double)(result->end - result->start)
                        : NAN;
    receiver->cpu_us = per_frame(result->cpu_ns, result->frames) / 1e3;
    receiver->latency = bench_latency_of(child->latencies, result->latencies);
    receiver->latency_cpu =
        bench_latency_of(child->latencies + result->latencies, result->latencies_cpu);
    run->lost += receiver->missing;
    run->torn += receiver->torn;
    run->cpu_receiver += receiver->cpu_us;
    run->marking_receiver += marking(result);
    run->copies_cpu += per_frame(result->copies_cpu, run->frames);
    run->copies_gpu += per_frame(result->copies_gpu, run->frames);
    run->kicks_receiver += per_frame(result->kicks, result->frames);
    run->waits_receiver += per_frame(result->waits, result->frames);
    run->waits_device_receiver += per_frame(result->waits_device, result->frames);
    run->latency.jitter += receiver->latency.jitter;
    run->latency_cpu.jitter += receiver->latency_cpu.jitter;
}

/* Jitter, from one sample to the next, is computed within each receiver and then averaged. */
static void replace_latency(struct bench_latency *latency, const GArray *all, uint32_t receivers)
{
    double jitter = latency->jitter / receivers;
    *latency = bench_latency_of((const int64_t *)(void *)all->data, all->len);
    latency->jitter = jitter;
}

static void join_latencies(const struct processes *processes, struct bench_run *run)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(int64_t));
    GArray *cpu = g_array_new(FALSE, FALSE, sizeof(int64_t));
    for (size_t i = 1; i <= processes->receivers; i++) {
        const struct bench_child *child = &processes->child[i];
        g_array_append_vals(all, child->latencies, (guint)child->result.latencies);
        g_array_append_vals(cpu, child->latencies + child->result.latencies,
                            (guint)child->result.latencies_cpu);
    }
    replace_latency(&run->latency, all, run->receivers);
    replace_latency(&run->latency_cpu, cpu, run->receivers);
    g_array_unref(all);
    g_array_unref(cpu);
}

static void join_intervals(const struct processes *processes, struct bench_run *run)
{
    const struct bench_child *sender = &processes->child[0];
    GArray *all = g_array_new(FALSE, FALSE, sizeof(int64_t));
    run->interval_sender = bench_latency_of(sender->latencies, sender->result.intervals);
    for (size_t i = 1; i <= processes->receivers; i++) {
        const struct bench_result *result = &processes->child[i].result;
        const int64_t *own =
            processes->child[i].latencies + result->latencies + result->latencies_cpu;
        run->interval_receiver.jitter += bench_latency_of(own, result->intervals).jitter;
        g_array_append_vals(all, own, (guint)result->intervals);
    }
    replace_latency(&run->interval_receiver, all, run->receivers);
    g_array_unref(all);
}

static void add_joins(const struct processes *processes, struct bench_run *run)
{
    const struct bench_result *result = &processes->child[1 + processes->receivers].result;
    run->joined = result->joined;
    run->left = result->left;
    run->joins_measured = result->measured;
    run->torn += result->torn;
    run->lost += result->missing;
}

static void sum_up(const struct processes *processes, const struct bench_job *job,
                   struct bench_run *run)
{
    const struct bench_result *sender = &processes->child[0].result,
                              *first = &processes->child[1].result;
    int64_t end = sender->end;
    double received = 0;
    g_strlcpy(run->route, sender->route[0] ? sender->route : first->route, sizeof(run->route));
    g_strlcpy(run->fallback_reason, sender->fallback_reason, sizeof(run->fallback_reason));
    run->frames = sender->frames;
    run->joins = job->joins;
    run->cpu_sender = per_frame(sender->cpu_ns, sender->frames) / 1e3;
    run->marking_sender = marking(sender);
    run->copies_cpu = per_frame(sender->copies_cpu, sender->frames);
    run->copies_gpu = per_frame(sender->copies_gpu, sender->frames);
    run->kicks_sender = per_frame(sender->kicks, sender->frames);
    run->waits_sender = per_frame(sender->waits, sender->frames);
    run->waits_device_sender = per_frame(sender->waits_device, sender->frames);
    run->lent = per_frame((int64_t)sender->lent, sender->frames);
    for (size_t i = 1; i <= processes->receivers; i++) {
        add_receiver(run, &processes->child[i], sender->all);
        end = MAX(end, processes->child[i].result.end);
        received += (double)processes->child[i].result.frames;
    }
    run->cpu_receiver /= run->receivers;
    run->marking_receiver /= run->receivers;
    run->kicks_receiver /= run->receivers;
    run->waits_receiver /= run->receivers;
    run->waits_device_receiver /= run->receivers;
    run->fps = received / run->receivers * 1e9 / (double)(end - sender->start);
    run->gigabytes_per_second = run->fps * run->receivers * (double)bench_frame_bytes(job) / 1e9;
    if (job->joins)
        add_joins(processes, run);
    run->dropped = (uint64_t)sender->dropped;
    run->lost = run->lost > run->dropped ? run->lost - run->dropped : 0;
    join_latencies(processes, run);
    join_intervals(processes, run);
}

/* A rate is compared with rates, a latency with times. */
static double ratio_to(const struct bench_job *job, const struct bench_run *run,
                       const struct bench_ceiling *ceiling)
{
    bool rate = strcmp(ceiling->unit, "frames/s") == 0;
    if (rate != (job->fps_num == 0))
        return NAN;
    return (rate ? run->fps : run->latency.p50) / ceiling->value;
}

static void compare(const struct bench_job *job, struct bench_run *run)
{
    for (unsigned i = 0; i < run->ceilings.count; i++)
        run->ceiling_ratios[i] = ratio_to(job, run, &run->ceilings.ceiling[i]);
    run->ceiling_ratio = run->ceiling_ratios[run->ceilings.main];
    run->ceiling_ratio_p99 = job->fps_num ? run->latency.p99 / run->ceiling.p99 : NAN;
}

bool bench_run(const struct bench_job *wanted, int64_t timeout, struct bench_run *run,
               struct bench_failure *failure)
{
    struct bench_job job = *wanted;
    *run = (struct bench_run){.route = ""};
    if (!bench_ceilings_measure(&job, &run->ceilings, failure))
        return false;
    run->ceiling = run->ceilings.ceiling[run->ceilings.main];
    job.page =
        bench_uses_rows(&job) && bench_uses_elements(&job) ? bench_submit_times_create() : -1;
    char *directory = make_directory(failure);
    if (!directory) {
        if (job.page >= 0)
            close(job.page);
        return false;
    }
    struct processes *processes = g_new0(struct processes, 1);
    bool good = fill_in_directory(&job, directory, failure) &&
                run_processes(processes, &job, directory, bench_now() + timeout, failure);
    if (good)
        sum_up(processes, &job, run);
    good = end_processes(processes, good, bench_uses_elements(&job), failure);
    remove_directory(directory);
    g_free(processes);
    g_free(directory);
    if (job.page >= 0)
        close(job.page);
    compare(&job, run);
    return good;
}
