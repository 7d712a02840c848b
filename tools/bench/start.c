/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Starts gst-launch-1.0 as a user does, and reads the stages from its log: a line's stamp is the
 * time since GStreamer's start, which is known from when the lines arrive here. */
#include "bench.h"

#include "ceilings/ceilings.h"
#include "json.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEBUG "GST_INIT:4,GST_PLUGIN_LOADING:4,gpudirectcore:4,gpudirectsink:4,gpudirectsrc:4"
#define ERROR "ERROR: " /* gst-launch-1.0's */
#define KEPT 400        /* of its first error, or else its last line, as a reason */

/* Each stage ends with a line of the log. */
enum stage { PROCESS, GSTREAMER, PLUGIN, ELEMENTS, OFFER, LINK, FRAME, PICTURE, STAGES };
enum side { SENDER, RECEIVER, SIDES };

/* clang-format off */
static const struct {
    const char *key, *what, *end[SIDES];
} stages[STAGES] = {
    [PROCESS] = {"process", "the process, its libraries",
        {"Initializing GStreamer", "Initializing GStreamer"}},
    [GSTREAMER] = {"gstreamer", "GStreamer, its registry",
        {"initialized GStreamer successfully", "initialized GStreamer successfully"}},
    [PLUGIN] = {"plugin", "the plugin, its libraries",
        {"libgstgpudirect.so\" loaded", "libgstgpudirect.so\" loaded"}},
    [ELEMENTS] = {"elements", "elements, devices",
        {"sender: sending on ", "receiver: receiving from "}},
    [OFFER] = {"offer", "format and ring; connection, offer",
        {"sender: epoch ", "receiver: epoch "}},
    [LINK] = {"link", "link, test frame",
        {" connected by ", "receiver: connected to "}},
    /* The receiver's are the sender's, too. */
    [FRAME] = {"frame", "until the next frame",
        {NULL, "gpudirect-sender-connected, "}},
    [PICTURE] = {"picture", "frames from before the receiver's start",
        {NULL, "the signal is there: pictures come"}},
};
/* clang-format on */

struct program {
    enum side side;
    GPid pid; /* 0: it does not run */
    int log;  /* the read end of its log; -1: closed */
    GString *unread;
    char last[KEPT];
    int64_t begin;       /* when it was started */
    int64_t offset;      /* of stamps to this clock */
    int64_t end[STAGES]; /* stamps; −1: not yet */
    double devices;      /* ms, for drivers and devices */
};

struct figures {
    double ms[SIDES][STAGES], devices[SIDES];
};

/* --- a program -------------------------------------------------------------------------------- */

static void die_with_parent(gpointer data)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static bool start_start(struct program *program, enum side side, const char *description,
                        struct bench_failure *failure)
{
    GError *error = NULL;
    gchar **argv = NULL, **env = g_get_environ();
    gchar *command = g_strdup_printf("gst-launch-1.0 -q %s", description);
    *program = (struct program){.side = side, .log = -1, .offset = INT64_MAX};
    for (int i = 0; i < STAGES; i++)
        program->end[i] = -1;
    env = g_environ_setenv(env, "GST_DEBUG", DEBUG, TRUE);
    env = g_environ_setenv(env, "GST_DEBUG_NO_COLOR", "1", TRUE);
    env = g_environ_setenv(env, "LC_ALL", "C.UTF-8", TRUE);
    env = g_environ_unsetenv(env, "GST_DEBUG_FILE");
    program->begin = clock_now();
    bool good = g_shell_parse_argv(command, NULL, &argv, &error) &&
                g_spawn_async_with_pipes(
                    NULL, argv, env,
                    G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_STDOUT_TO_DEV_NULL,
                    die_with_parent, NULL, &program->pid, NULL, NULL, &program->log, &error);
    if (!good)
        bench_fail(failure, GPUD_IO,
                   "%s: --start needs gst-launch-1.0, which the package gstreamer1.0-tools has",
                   error->message);
    program->unread = g_string_new(NULL);
    g_clear_error(&error);
    g_strfreev(argv);
    g_strfreev(env);
    g_free(command);
    return good;
}

static void start_stop(struct program *program)
{
    if (program->pid) {
        kill(program->pid, SIGKILL);
        waitpid(program->pid, NULL, 0);
        g_spawn_close_pid(program->pid);
        program->pid = 0;
    }
    if (program->log >= 0)
        close(program->log);
    program->log = -1;
    if (program->unread)
        g_string_free(g_steal_pointer(&program->unread), TRUE);
}

static void read_line(struct program *program, const char *line, int64_t arrived)
{
    unsigned hours, minutes, seconds, ns;
    int pid;
    double found, opened;
    if (line[0] && !g_str_has_prefix(program->last, ERROR))
        g_strlcpy(program->last, line, sizeof(program->last));
    /* Others are gst-launch-1.0's own lines, and those of a process that scans plugins for it. */
    if (sscanf(line, "%u:%2u:%2u.%9u %d ", &hours, &minutes, &seconds, &ns, &pid) != 5 ||
        pid != program->pid)
        return;
    int64_t stamp = ((hours * INT64_C(60) + minutes) * 60 + seconds) * GPUD_SEC + ns;
    program->offset = MIN(program->offset, arrived - stamp);
    for (int i = 0; i < STAGES; i++) {
        const char *end = stages[i].end[program->side];
        if (program->end[i] < 0 && end && strstr(line, end))
            program->end[i] = stamp;
    }
    const char *device = strstr(line, "device: ");
    if (device &&
        sscanf(device, "device: %*s driver in %lf ms, opened in %lf ms", &found, &opened) == 2)
        program->devices += found + opened;
}

static void read_log(struct program *program)
{
    char bytes[4096], *end;
    ssize_t got = read(program->log, bytes, sizeof(bytes));
    int64_t now = clock_now();
    if (got < 0 && errno == EINTR)
        return;
    if (got <= 0) {
        close(program->log);
        program->log = -1;
        return;
    }
    g_string_append_len(program->unread, bytes, got);
    while ((end = strchr(program->unread->str, '\n'))) {
        *end = 0;
        read_line(program, program->unread->str, now);
        g_string_erase(program->unread, 0, end + 1 - program->unread->str);
    }
}

/* Reads both logs until that stage of `one` has ended. */
static bool wait_for(struct program *one, struct program *other, enum stage stage, int64_t deadline,
                     struct bench_failure *failure)
{
    const char *name = one->side == SENDER ? "sender" : "receiver";
    while (one->end[stage] < 0) {
        struct pollfd logs[] = {{one->log, POLLIN, 0}, {other->log, POLLIN, 0}};
        int64_t left = deadline - clock_now();
        if (bench_caught_signal())
            return bench_fail(failure, GPUD_IO, "interrupted");
        if (one->log < 0)
            return bench_fail(failure, GPUD_IO, "the %s ended before its first picture: %s", name,
                              one->last);
        if (left <= 0)
            return bench_fail(failure, GPUD_TIMEOUT,
                              "the %s did not reach \"%s\" in time (--timeout); it says: %s", name,
                              stages[stage].what, one->last);
        if (poll(logs, 2, (int)(left / GPUD_MSEC) + 1) <= 0)
            continue;
        if (logs[0].revents)
            read_log(one);
        if (logs[1].revents)
            read_log(other);
    }
    return true;
}

/* --- a run ------------------------------------------------------------------------------------ */

/* By this process's clock. A stage that ended before the one ahead of it took nothing: a receiver
 * may be there before the format. */
static void add_up(const struct program *program, const struct program *receiver,
                   struct figures *figures)
{
    int64_t before = program->begin;
    for (int i = 0; i < STAGES; i++) {
        const struct program *ends = stages[i].end[program->side] ? program : receiver;
        int64_t end = ends->offset + ends->end[i];
        figures->ms[program->side][i] = end > before ? (double)(end - before) / 1e6 : 0;
        before = MAX(before, end);
    }
    figures->devices[program->side] = program->devices;
}

/* A receiver waits for a sender; then another one joins that sender. */
static bool start_run_once(const struct bench_options *options, const char *directory,
                           struct figures *figures, struct bench_failure *failure)
{
    const struct bench_job *job = &options->ours;
    struct program sender = {.log = -1}, receiver = {.log = -1};
    gchar *from = g_strdup_printf("videotestsrc pattern=black is-live=true ! \"%s\" ! "
                                  "gpudirectsink address=unix:%s/link device=%s",
                                  job->caps, directory, job->from);
    gchar *to = g_strdup_printf("gpudirectsrc address=unix:%s/link device=%s ! fakesink", directory,
                                job->to);
    int64_t deadline = clock_now() + options->timeout;
    bool good = start_start(&receiver, RECEIVER, to, failure) &&
                wait_for(&receiver, &sender, ELEMENTS, deadline, failure) &&
                start_start(&sender, SENDER, from, failure) &&
                wait_for(&sender, &receiver, LINK, deadline, failure) &&
                wait_for(&receiver, &sender, PICTURE, deadline, failure);
    if (good)
        add_up(&sender, &receiver, figures);
    start_stop(&receiver);
    good = good && start_start(&receiver, RECEIVER, to, failure) &&
           wait_for(&receiver, &sender, PICTURE, deadline, failure);
    if (good)
        add_up(&receiver, &receiver, figures);
    start_stop(&receiver);
    start_stop(&sender);
    g_free(from);
    g_free(to);
    return good;
}

/* --- the report ------------------------------------------------------------------------------- */

static double median(const struct figures *runs, uint32_t count, size_t offset)
{
    double *values = g_new0(double, count);
    for (uint32_t i = 0; i < count; i++)
        values[i] = *(const double *)((const char *)&runs[i] + offset);
    double middle = stats_median(values, count);
    g_free(values);
    return middle;
}

static struct figures median_of(const struct figures *runs, uint32_t count)
{
    struct figures figures;
    for (int side = 0; side < SIDES; side++) {
        for (int i = 0; i < STAGES; i++)
            figures.ms[side][i] = median(runs, count, offsetof(struct figures, ms[side][i]));
        figures.devices[side] = median(runs, count, offsetof(struct figures, devices[side]));
    }
    return figures;
}

/* Of stages after the first `skipped`. */
static double sum(const struct figures *figures, enum side side, int skipped)
{
    double all = 0;
    for (int i = skipped; i < STAGES; i++)
        all += figures->ms[side][i];
    return all;
}

static void start_print_row(const char *what, double sender, double receiver)
{
    printf("  %-42s%10.1f%12.1f\n", what, sender, receiver);
}

static void start_print_text(const struct bench_options *options, const struct figures *figures)
{
    const struct bench_job *job = &options->ours;
    printf("%s to %s, %ux%u %s, ms, medians of %u\n", job->from, job->to, job->width, job->height,
           job->format, options->runs);
    printf("  %-42s%10s%12s\n", "", "sender", "receiver");
    for (int i = 0; i < STAGES; i++) {
        start_print_row(stages[i].what, figures->ms[SENDER][i], figures->ms[RECEIVER][i]);
        if (i == ELEMENTS)
            start_print_row("  of that, drivers and devices", figures->devices[SENDER],
                            figures->devices[RECEIVER]);
    }
    start_print_row("in all", sum(figures, SENDER, 0), sum(figures, RECEIVER, 0));
    start_print_row("without GStreamer's own, drivers, devices",
                    sum(figures, SENDER, PLUGIN) - figures->devices[SENDER],
                    sum(figures, RECEIVER, PLUGIN) - figures->devices[RECEIVER]);
    printf("  sender: gst-launch-1.0 starts it while a receiver waits\n"
           "  receiver: gst-launch-1.0 starts it beside a running sender\n");
}

static void start_print_json(const struct bench_options *options, const struct figures *figures)
{
    static const char *const sides[SIDES] = {"sender_ms", "receiver_ms"};
    JsonBuilder *builder = json_builder_new();
    json_builder_begin_object(builder);
    json_put_string(builder, "from", options->ours.from);
    json_put_string(builder, "to", options->ours.to);
    json_put_int(builder, "runs", options->runs);
    for (int side = 0; side < SIDES; side++) {
        json_begin_object(builder, sides[side]);
        for (int i = 0; i < STAGES; i++)
            json_put_number(builder, stages[i].key, figures->ms[side][i]);
        json_put_number(builder, "devices", figures->devices[side]);
        json_put_number(builder, "all", sum(figures, side, 0));
        json_put_number(builder, "own", sum(figures, side, PLUGIN) - figures->devices[side]);
        json_builder_end_object(builder);
    }
    json_builder_end_object(builder);
    json_print(builder, true);
}

int bench_start_measure(const struct bench_options *options)
{
    struct bench_failure failure = {.status = GPUD_IO};
    struct figures *runs = g_new0(struct figures, options->runs);
    char *directory = bench_make_directory(&failure);
    bool good = directory;
    for (uint32_t i = 0; i < options->runs && good; i++)
        good = start_run_once(options, directory, &runs[i], &failure);
    if (directory)
        bench_remove_directory(directory);
    g_free(directory);
    struct figures figures = good ? median_of(runs, options->runs) : (struct figures){0};
    if (!good)
        fprintf(stderr, "gpudirect-bench: %s\n", failure.reason);
    else if (options->json)
        start_print_json(options, &figures);
    else
        start_print_text(options, &figures);
    g_free(runs);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
