/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stages.h"

#include "ceilings/stats.h"
#include "clock.h"

#include <glib.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#define RUNS 5

static const char *const names[STAGES] = {
    [STAGE_PROCESS] = "the process, its libraries",
    [STAGE_GSTREAMER] = "GStreamer's formats",
    [STAGE_RECEIVER] = "the receiver",
    [STAGE_DISPLAY] = "SDL, the display",
    [STAGE_WINDOW] = "the window",
    [STAGE_RENDERER] = "the renderer, its driver",
    [STAGE_FONT] = "the font",
    [STAGE_FRAME] = "connection, first frame",
    [STAGE_PICTURE] = "texture, first picture shown",
};

static int64_t ended[STAGES];

void stages_end(enum stage stage)
{
    if (!ended[stage])
        ended[stage] = clock_now();
}

void stages_write(void)
{
    for (int i = 0; i < STAGES && ended[STAGE_PICTURE]; i++)
        printf("%" PRId64 "\n", ended[i]);
    fflush(stdout);
}

static void die_with_parent(gpointer data)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* In ms, each from the end of the one before. What a second thread has done by then took none.
 * Returns the exit status of the start. */
static int run_once(const char *const *arguments, double ms[STAGES])
{
    GError *error = NULL;
    gchar *text = NULL;
    gint status = 0;
    int64_t before = clock_now();
    bool good = g_spawn_sync(NULL, (gchar **)arguments, NULL, 0, die_with_parent, NULL, &text, NULL,
                             &status, &error) &&
                g_spawn_check_wait_status(status, &error);
    gchar **lines = g_strsplit(good ? text : "", "\n", 0);
    if (good && g_strv_length(lines) != STAGES + 1) {
        g_set_error(&error, G_SPAWN_ERROR, G_SPAWN_ERROR_FAILED, "no picture was shown");
        good = false;
    }
    for (int i = 0; good && i < STAGES; i++) {
        int64_t end = g_ascii_strtoll(lines[i], NULL, 10);
        ms[i] = (double)MAX(end - before, 0) / 1e6;
        before = MAX(before, end);
    }
    if (!good && error->domain != G_SPAWN_EXIT_ERROR) /* else it has said why */
        fprintf(stderr, "gpudirect-view: %s\n", error->message);
    int result = good                                  ? EXIT_SUCCESS
                 : error->domain == G_SPAWN_EXIT_ERROR ? error->code
                                                       : EXIT_FAILURE;
    g_clear_error(&error);
    g_strfreev(lines);
    g_free(text);
    return result;
}

int stages_measure(const char *const *arguments)
{
    double ms[RUNS][STAGES], sums[RUNS] = {0}, column[RUNS];
    for (int run = 0; run < RUNS; run++) {
        int result = run_once(arguments, ms[run]);
        if (result != EXIT_SUCCESS)
            return result;
        for (int i = 0; i < STAGES; i++)
            sums[run] += ms[run][i];
    }
    printf("ms, medians of %d starts\n", RUNS);
    for (int i = 0; i < STAGES; i++) {
        for (int run = 0; run < RUNS; run++)
            column[run] = ms[run][i];
        printf("  %-30s%8.1f\n", names[i], stats_median(column, RUNS));
    }
    printf("  %-30s%8.1f\n", "in all", stats_median(sums, RUNS));
    return EXIT_SUCCESS;
}
