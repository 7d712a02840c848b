/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The coordinator of one run, as drawn in bench.h. Sockets lie in a directory made for the run. */
#include "run.h"

#include "hosts.h"
#include "idle.h"
#include "remotes.h"
#include "rows.h"
#include "submittimes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* --- the directory ---------------------------------------------------------------------------- */

void bench_show_progress(uint32_t number, uint32_t count)
{
    if (count < 2 || !isatty(STDERR_FILENO) ||
        g_strcmp0(g_getenv("GPUDIRECT_PROGRESS"), "off") == 0)
        return;
    fputs("\r\033[K", stderr);
    if (number)
        fprintf(stderr, "run %u of %u", number, count);
}

char *bench_make_directory(struct bench_failure *failure)
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

void bench_remove_directory(const char *path)
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

/* Makes a key for this run if one is needed and none is given, so that other programs on the
 * network cannot connect. */
static bool make_key(struct bench_job *job, const char *directory, struct bench_failure *failure)
{
    guchar random[32];
    if (!job->network[0] || job->remote || job->psk_file[0] || job->allow_unauthenticated)
        return true;
    g_snprintf(job->psk_file, sizeof(job->psk_file), "%s/" BENCH_KEY_FILE, directory);
    int fd = open(job->psk_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = fd >= 0 && getrandom(random, sizeof(random), 0) == sizeof(random);
    char *text = g_base64_encode(random, sizeof(random));
    good = good && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (!good) {
        failure->status = GPUD_IO;
        g_snprintf(failure->reason, sizeof(failure->reason), "no key can be written to %s: %s",
                   job->psk_file, g_strerror(errno));
    }
    g_free(text);
    if (fd >= 0)
        close(fd);
    return good;
}

static bool fill_in_directory(struct bench_job *job, const char *directory,
                              struct bench_failure *failure)
{
    char *texts[] = {job->sink, job->src};
    if (job->network[0])
        memcpy(job->address, job->network, sizeof(job->address));
    else
        g_snprintf(job->address, sizeof(job->address), "unix:%s/link", directory);
    if (!make_key(job, directory, failure))
        return false;
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

static bool start_process(struct bench_processes *processes, const char *role,
                          const struct bench_job *job, struct bench_failure *failure)
{
    struct bench_child *child = &processes->child[processes->count++];
    return bench_child_start(child, role, job->number, &job->page, job->page >= 0, failure) &&
           (bench_send(child->fd, BENCH_JOB, job, sizeof(*job)) ||
            true); /* if it has ended, waiting for it explains why */
}

static bool joins_finished(struct bench_child *children, size_t count)
{
    return children[count - 1].finished;
}

/* Lets receivers join from the start of the measured section. The sender goes on until all have
 * left, so that a slow machine changes figures, not counts. */
static bool follow_joins(struct bench_processes *processes, int64_t deadline,
                         struct bench_failure *failure)
{
    if (!bench_children_wait(processes->child, processes->count, deadline, sender_ready,
                             "the warm-up", failure))
        return false;
    bench_send(processes->child[1 + processes->receivers].fd, BENCH_GO, NULL, 0);
    if (!bench_children_wait(processes->child, processes->count, deadline, joins_finished,
                             "joining and leaving", failure))
        return false;
    processes->child[0].ready = false;
    bench_send(processes->child[0].fd, BENCH_GO, NULL, 0);
    return true;
}

static bool all_idle_known(struct bench_child *children, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (!children[i].idle_known)
            return false;
    return true;
}

/* Measures the sender and the receivers between the last frame and the end of the stream. */
static bool follow_idle(struct bench_processes *processes, const struct bench_job *job,
                        int64_t deadline, struct bench_failure *failure)
{
    if (!bench_children_wait(processes->child, processes->count, deadline, sender_ready, "sending",
                             failure))
        return false;
    if (job->remote)
        for (size_t i = 1; i < processes->count; i++)
            bench_send(processes->child[i].fd, BENCH_IDLE, NULL, 0);
    bench_idle_measure(processes->child, 1 + processes->receivers, job->idle);
    if (job->remote &&
        !bench_children_wait(processes->child, processes->count, clock_now() + BENCH_STEP_TIMEOUT,
                             all_idle_known, "the time without frames", failure))
        return false;
    bench_send(processes->child[0].fd, BENCH_GO, NULL, 0);
    return true;
}

static bool start_receivers(struct bench_processes *processes, struct bench_job *job,
                            struct bench_remotes *remotes, struct bench_failure *failure)
{
    processes->receivers = job->receivers;
    if (remotes) {
        if (!bench_remotes_gather(remotes, job, &processes->child[0], clock_now() + job->patience,
                                  failure))
            return false;
        bench_remotes_start(remotes, job, processes);
        return true;
    }
    for (job->number = 1; job->number <= job->receivers; job->number++)
        if (!start_process(processes, "receiver", job, failure))
            return false;
    job->number = 0;
    return !job->joins || start_process(processes, "joiner", job, failure);
}

static bool run_processes(struct bench_processes *processes, struct bench_job *job,
                          struct bench_remotes *remotes, const char *directory, int64_t timeout,
                          struct bench_failure *failure)
{
    struct bench_child *sender = &processes->child[0];
    if (!start_process(processes, "sender", job, failure) ||
        !bench_children_wait(sender, 1, clock_now() + job->patience, sender_ready,
                             "starting the sender", failure))
        return false;
    sender->ready = false;
    if (!start_receivers(processes, job, remotes, failure))
        return false;
    int64_t deadline = clock_now() + timeout;
    if (!bench_children_wait(sender, processes->count,
                             clock_now() + job->patience + BENCH_STEP_TIMEOUT, all_ready,
                             "connecting the receivers", failure))
        return false;
    /* Removed once no more receivers connect, so that even a killed coordinator leaves nothing
     * behind. With --join receivers connect until the end. */
    if (!job->joins)
        bench_remove_directory(directory);
    sender->ready = false;
    bench_send(sender->fd, BENCH_GO, NULL, 0);
    if (job->joins && !follow_joins(processes, deadline, failure))
        return false;
    if (job->idle && !follow_idle(processes, job, deadline, failure))
        return false;
    if (!bench_children_wait(sender, processes->count, deadline, sender_finished, "sending",
                             failure))
        return false;
    for (size_t i = 1; i < processes->count; i++)
        bench_send(processes->child[i].fd, BENCH_STOP, NULL, 0);
    if (!bench_children_wait(sender, processes->count, clock_now() + 2 * BENCH_STEP_TIMEOUT,
                             all_finished, "receiving", failure))
        return false;
    bench_send(sender->fd, BENCH_STOP, NULL, 0);
    return true;
}

static bool end_processes(struct bench_processes *processes, bool good, bool elements,
                          struct bench_failure *failure)
{
    if (!good && !bench_caught_signal())
        bench_children_find_death(processes->child, processes->count, failure);
    for (size_t i = 0; i < processes->count && !good; i++)
        bench_child_hang_up(&processes->child[i]);
    /* Elements may have files to remove; the core's only file is the socket in the bench's
     * directory. */
    int64_t deadline = good       ? clock_now() + BENCH_STEP_TIMEOUT
                       : elements ? clock_now() + 2 * GPUD_SEC
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

/* --- the run ---------------------------------------------------------------------------------- */

static bool run_link(struct bench_job *job, int64_t timeout, struct bench_remotes *remotes,
                     struct bench_run *run, struct bench_result *sender,
                     struct bench_failure *failure)
{
    job->page = bench_uses_rows(job) && bench_uses_elements(job) ? bench_submit_times_create() : -1;
    char *directory = bench_make_directory(failure);
    if (!directory) {
        if (job->page >= 0)
            close(job->page);
        return false;
    }
    struct bench_processes *processes = g_new0(struct bench_processes, 1);
    bool good = fill_in_directory(job, directory, failure) &&
                run_processes(processes, job, remotes, directory, timeout, failure);
    if (good)
        bench_figures_sum_up(processes, job, run);
    *sender = processes->child[0].result;
    if (remotes)
        bench_remotes_release(processes);
    good = end_processes(processes, good, bench_uses_elements(job), failure);
    bench_remove_directory(directory);
    g_free(processes);
    g_free(directory);
    if (job->page >= 0)
        close(job->page);
    return good;
}

bool bench_run(const struct bench_job *wanted, int64_t timeout, struct bench_remotes *remotes,
               struct bench_run *run, struct bench_failure *failure)
{
    struct bench_job job = *wanted;
    struct bench_result sender;
    *run = (struct bench_run){.route = ""};
    /* A network ceiling comes last, because the library best explains why it cannot use the
     * network. */
    bool last = job.network[0] != '\0';
    if (!last && !bench_ceilings_measure(&job, remotes, &run->ceilings, failure))
        return false;
    if (!run_link(&job, timeout, remotes, run, &sender, failure))
        return false;
    if (last && !bench_ceilings_measure(&job, remotes, &run->ceilings, failure))
        return false;
    bench_figures_compare(&job, run);
    if (remotes)
        bench_remotes_sum_up(remotes, &(struct bench_summary){.sender = sender,
                                                              .idle_percent = run->idle_sender,
                                                              .write = run->ceiling.value});
    return true;
}
