/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* --report: tools/report runs this program again and again, and draws what it measures. */
#include "bench.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* === publish ================================================================================= */
/* --report: tools/report runs this program again and again, and draws what it measures. */

#define SCRIPT "report.py"
#define PYTHON "/usr/bin/python3" /* Debian's, which has Debian's matplotlib */

/* In a build beside the sources of this program, else where it is installed, also below another
 * root. NULL: nowhere. */
static gchar *find_script(const gchar *programs)
{
    gchar *const places[] = {
        g_build_filename(programs, "report", SCRIPT, NULL),
        g_build_filename(programs, "..", "share", "gpudirect", "report", SCRIPT, NULL),
        g_build_filename(BENCH_REPORT_FOLDER, SCRIPT, NULL),
    };
    gchar *found = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
        if (!found && g_file_test(places[i], G_FILE_TEST_IS_REGULAR))
            found = places[i];
        else
            g_free(places[i]);
    }
    return found;
}

/* Becomes that program. Returns, with an exit status, only if it cannot. */
static int bench_publish(const struct bench_options *options)
{
    gchar *self = g_file_read_link("/proc/self/exe", NULL);
    gchar *programs = self ? g_path_get_dirname(self) : NULL;
    gchar *script = programs ? find_script(programs) : NULL;
    if (!script) {
        fputs("gpudirect-bench: the program that draws the report is not installed beside this "
              "one: " BENCH_REPORT_FOLDER "/" SCRIPT "\n",
              stderr);
        return EXIT_FAILURE;
    }
    gchar *info = g_build_filename(programs, "gpudirect-info", NULL);
    const char *mode = options->quick ? "--quick" : options->draw ? "--draw" : NULL;
    char *arguments[] = {NULL,
                         script,
                         "--bench",
                         self,
                         "--info",
                         info,
                         (char *)(mode ? mode : "--"),
                         mode ? "--" : (char *)options->report,
                         mode ? (char *)options->report : NULL,
                         NULL};
    /* A machine of another distribution, on which a bundle runs, may have it elsewhere. */
    static const char *const pythons[] = {PYTHON, "python3"};
    for (size_t i = 0; i < G_N_ELEMENTS(pythons); i++) {
        arguments[0] = (char *)pythons[i];
        execvp(pythons[i], arguments);
    }
    fprintf(stderr,
            "gpudirect-bench: the report needs %s: %s (apt install python3 "
            "python3-matplotlib)\n",
            PYTHON, g_strerror(errno));
    g_free(info);
    g_free(script);
    g_free(programs);
    g_free(self);
    return EXIT_FAILURE;
}

/* === main ==================================================================================== */
/* gpudirect-bench. One program has all roles: see bench.h. */

static int run_role(const char *role, int control)
{
    struct bench_job job;
    if (strcmp(role, "sender") == 0) {
        bench_run_sender(control);
    } else if (strcmp(role, "receiver") == 0) {
        bench_child_expect(control, BENCH_JOB, clock_now() + BENCH_STEP_TIMEOUT, &job, sizeof(job));
        if (bench_uses_elements(&job))
            bench_run_receiver_gst(control, &job);
        else
            bench_run_receiver_core(control, &job);
    } else if (strcmp(role, "joiner") == 0) {
        bench_run_joiner(control);
    } else if (strcmp(role, "echo") == 0) {
        bench_run_echo(control);
    } else if (strcmp(role, "words") == 0) {
        bench_run_words(control);
    } else if (strcmp(role, "channel-senders") == 0) {
        bench_run_channel_senders(control);
    } else if (strcmp(role, "channel-receivers") == 0) {
        bench_run_channel_receivers(control);
    } else if (strcmp(role, "failover-sender") == 0) {
        bench_run_failover_sender(control);
    } else if (strcmp(role, "failover-receiver") == 0) {
        bench_run_failover_receiver(control);
    } else if (strcmp(role, "lines") == 0) {
        bench_run_lines(control);
    } else if (strcmp(role, "raw") == 0) {
        bench_run_raw(control);
#ifdef GPUD_WITH_RDMA /* without it, the library refuses networks earlier */
    } else if (strcmp(role, "raw-writer") == 0) {
        bench_run_raw_writer(control);
    } else if (strcmp(role, "raw-target") == 0) {
        bench_run_raw_target(control);
#endif
    } else {
        return BENCH_EXIT_USAGE;
    }
    return EXIT_SUCCESS;
}

static bool main_run_once(const struct bench_options *options, const struct bench_job *job,
                          struct bench_remotes *remotes, struct bench_run *run, int *status)
{
    struct bench_failure failure = {.status = GPUD_IO};
    if (bench_run(job, options->timeout, job->remote ? remotes : NULL, run, &failure)) {
        if (run->lost || run->torn)
            *status = BENCH_EXIT_DAMAGE;
        return true;
    }
    bench_show_progress(0, options->runs);
    fprintf(stderr, "gpudirect-bench: %s\n", failure.reason);
    bench_remotes_close(remotes, &failure);
    *status = failure.status == GPUD_INVALID ? BENCH_EXIT_USAGE : EXIT_FAILURE;
    return false;
}

/* Alternates, so that other load on the machine affects both alike. */
static int run_all(const struct bench_options *options)
{
    struct bench_run *ours = g_new0(struct bench_run, options->runs);
    struct bench_run *peer = g_new0(struct bench_run, options->runs);
    struct bench_series mine = {&options->ours, ours, options->runs},
                        theirs = {&options->peer, peer, options->runs};
    int status = EXIT_SUCCESS;
    bool good = true;
    struct bench_remotes remotes;
    bench_remotes_init(&remotes, options->runs);
    for (uint32_t i = 0; i < options->runs && good; i++) {
        bench_show_progress(i + 1, options->runs);
        good = main_run_once(options, &options->ours, &remotes, &ours[i], &status) &&
               (!options->compare ||
                main_run_once(options, &options->peer, &remotes, &peer[i], &status));
    }
    bench_show_progress(0, options->runs);
    bench_remotes_close(&remotes, NULL);
    if (good && options->json)
        bench_print_json(&mine, options->compare ? &theirs : NULL);
    else if (good)
        bench_print_text(&mine, options->compare ? &theirs : NULL);
    if (good && status == BENCH_EXIT_DAMAGE)
        fputs("gpudirect-bench: frames were lost or torn\n", stderr);
    g_free(ours);
    g_free(peer);
    return status;
}

int main(int argc, char **argv)
{
    int control, status;
    const char *role = bench_role(argc, argv, &control);
    if (role)
        return run_role(role, control);

    struct bench_options *options = g_new0(struct bench_options, 1);
    setlocale(LC_CTYPE, ""); /* not LC_NUMERIC: decimal points stay points */
    if (bench_options_parse(argc, argv, options, &status)) {
        if (options->report[0])
            return bench_publish(options);
        bench_catch_signals();
        if (options->isolated)
            bench_children_isolate();
        status = options->capture        ? bench_capture_run(options)
                 : options->receive      ? bench_receive_all(options)
                 : options->start        ? bench_start_measure(options)
                 : options->ours.lines   ? bench_lines_measure(options)
                 : options->failover     ? bench_failover_measure(options)
                 : options->channel_rows ? bench_channels_measure(options)
                                         : run_all(options);
    }
    g_free(options);
    return fflush(stdout) == 0 ? status : EXIT_FAILURE;
}
