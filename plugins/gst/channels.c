/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Addresses on which somebody sends now: the sockets in the runtime directory that are listening.
 * The kernel's table says so without a connection, which a sender would count. */
#include "channels.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* In /proc/net/unix: a socket that listens. */
#define SOCKET_ACCEPTS 0x10000

/* Where bare names live; see the address property. */
static gchar *runtime_directory(void)
{
    const gchar *runtime = g_getenv("XDG_RUNTIME_DIR");

    if (runtime && runtime[0] == '/')
        return g_strdup_printf("%s/gpudirect/", runtime);
    return g_strdup_printf("/tmp/gpudirect-%u/", (guint)geteuid());
}

/* A line is "address: references protocol flags type state inode path". */
static gchar *listening_path(const gchar *line)
{
    guint flags;
    gint path = 0;

    if (sscanf(line, "%*[^:]: %*x %*x %x %*x %*x %*u %n", &flags, &path) != 1 || path == 0 ||
        !(flags & SOCKET_ACCEPTS))
        return NULL;
    return g_strdup(line + path);
}

GList *channels_list(void)
{
    gchar *directory = runtime_directory();
    gchar *table = NULL;
    GList *list = NULL;

    if (g_file_get_contents("/proc/net/unix", &table, NULL, NULL)) {
        gchar **lines = g_strsplit(table, "\n", -1);
        for (guint i = 0; lines[i]; i++) {
            gchar *path = listening_path(lines[i]);
            if (path && g_str_has_prefix(path, directory) && !strchr(path + strlen(directory), '/'))
                list = g_list_insert_sorted(list, g_strdup(path + strlen(directory)),
                                            (GCompareFunc)strcmp);
            g_free(path);
        }
        g_strfreev(lines);
    }
    g_free(table);
    g_free(directory);
    return list;
}
