/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "publish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

int bench_publish(const struct bench_options *options)
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
