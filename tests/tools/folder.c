/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "folder.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static gchar *folder; /* NULL: there is none yet */

static void empty(void)
{
    GDir *files = g_dir_open(folder, 0, NULL);
    for (const gchar *name; files && (name = g_dir_read_name(files));) {
        gchar *path = g_build_filename(folder, name, NULL);
        g_unlink(path);
        g_free(path);
    }
    if (files)
        g_dir_close(files);
}

/* Another thread may make a file meanwhile. */
void folder_remove(void)
{
    while (folder && g_rmdir(folder) != 0 && errno == ENOTEMPTY)
        empty();
}

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", g_get_prgname());
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    folder_remove();
    _exit(EXIT_FAILURE);
}

void must(const char *what, enum gpud_status status, const struct gpud_error *error)
{
    if (status != GPUD_OK)
        die("%s: %s", what, error->reason);
}

/* All other threads have these signals blocked. */
static gpointer await_signal(gpointer user)
{
    int number;
    sigset_t *signals = user;
    while (sigwait(signals, &number) != 0)
        continue;
    die("interrupted by signal %d", number);
}

const char *folder_open(void)
{
    static char address[256];
    static sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    folder = g_dir_make_tmp("gpudirect-XXXXXX", NULL);
    if (!folder)
        die("no folder for a socket can be made in %s", g_get_tmp_dir());
    g_snprintf(address, sizeof(address), "unix:%s/link", folder);
    g_thread_unref(g_thread_new("signals", await_signal, &signals));
    return address;
}
