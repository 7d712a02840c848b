/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* gpudirect-bench. One program has all roles: see bench.h. */
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

/* Becomes that program. Returns, with an exit status, only if it cannot. */
static int publish(const struct bench_options *options)
{
    gchar *self = g_file_read_link("/proc/self/exe", NULL);
    gchar *programs = g_path_get_dirname(self ? self : ".");
    /* In a build beside this program, else where it is installed, also below another root. */
    gchar *const places[] = {
        g_build_filename(programs, "report", SCRIPT, NULL),
        g_build_filename(programs, "..", "share", "gpudirect", "report", SCRIPT, NULL),
        g_build_filename(BENCH_REPORT_FOLDER, SCRIPT, NULL),
    };
    gchar *script = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(places) && !script; i++)
        if (g_file_test(places[i], G_FILE_TEST_IS_REGULAR))
            script = places[i];
    if (!script) {
        fputs("gpudirect-bench: the program that draws the report is not installed beside this "
              "one: " BENCH_REPORT_FOLDER "/" SCRIPT "\n",
              stderr);
        return EXIT_FAILURE;
    }
    gchar *info = g_build_filename(programs, "gpudirect-info", NULL);
    char *arguments[12] = {NULL, script, "--bench", self, "--info", info};
    size_t count = 6;
    if (options->quick)
        arguments[count++] = "--quick";
    if (options->draw)
        arguments[count++] = "--draw";
    if (options->beside)
        arguments[count++] = "--beside";
    arguments[count++] = "--";
    arguments[count++] = (char *)options->report;
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
    return EXIT_FAILURE;
}

/* === main ==================================================================================== */

static bool run_once(const struct bench_options *options, const struct bench_job *job,
                     struct bench_run *run)
{
    if (bench_run(job, options->timeout, run))
        return true;
    bench_show_progress(0, job->runs);
    fprintf(stderr, "gpudirect-bench: %s\n", bench_failure.reason);
    bench_remotes_close(true);
    return false;
}

/* Alternates, so that other load on the machine affects both alike. */
static int run_all(const struct bench_options *options)
{
    uint32_t runs = options->ours.runs;
    struct bench_run *ours = g_new0(struct bench_run, runs), *peer = g_new0(struct bench_run, runs);
    struct bench_series mine = {&options->ours, ours, runs}, theirs = {&options->peer, peer, runs};
    bool good = true;
    for (uint32_t i = 0; i < runs && good; i++) {
        bench_show_progress(i + 1, runs);
        good = run_once(options, &options->ours, &ours[i]) &&
               (!options->compare || run_once(options, &options->peer, &peer[i]));
    }
    bench_show_progress(0, runs);
    bench_remotes_close(false);
    int status = good ? bench_report(options->json, &mine, options->compare ? &theirs : NULL)
                 : bench_failure.status == GPUD_INVALID ? BENCH_EXIT_USAGE
                                                        : EXIT_FAILURE;
    g_free(ours);
    g_free(peer);
    return status;
}

/* Sender and receivers are in two network namespaces from now on. */
static bool separate(const struct bench_options *options)
{
    char host[256];
    bench_network_host(options->ours.network, host, sizeof(host));
    return bench_children_separate(host, options->ours.peer_host);
}

int main(int argc, char **argv)
{
    int status;
    if (bench_be_child(argc, argv))
        return EXIT_SUCCESS;
    struct bench_options *options = g_new0(struct bench_options, 1);
    setlocale(LC_CTYPE, ""); /* not LC_NUMERIC: decimal points stay points */
    if (bench_options_parse(argc, argv, options, &status)) {
        if (options->report[0])
            return publish(options);
        bench_catch_signals();
        if (options->isolated)
            bench_children_isolate();
        if (options->separate && !separate(options)) {
            fprintf(stderr, "gpudirect-bench: %s\n", bench_failure.reason);
            return EXIT_FAILURE;
        }
        status = options->receive        ? bench_receive_all(options)
                 : options->failover     ? bench_failover_measure(options)
                 : options->channel_rows ? bench_channels_measure(options)
                                         : run_all(options);
    }
    g_free(options);
    return fflush(stdout) == 0 ? status : EXIT_FAILURE;
}
