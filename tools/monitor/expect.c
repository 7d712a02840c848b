/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "monitor/expect.h"

#include <gio/gio.h>
#include <gpudirect/channel.h>
#include <stdbool.h>
#include <string.h>

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* "cam1", "cam1/audio" */
static bool is_name(const char *text)
{
    size_t name = strspn(text, NAME_CHARACTERS);
    const char *stream = text[name] == '/' ? text + name + 1 : NULL;
    if (name == 0 || text[0] == '.')
        return false;
    return stream ? stream[0] && stream[0] != '.' && !stream[strspn(stream, NAME_CHARACTERS)]
                  : text[name] == '\0';
}

static bool is_address(const char *text)
{
    struct gpud_channel_info info;
    size_t length = strlen(text);
    if (length >= sizeof(info.address) || text[length - 1] == '/')
        return false;
    return g_str_has_prefix(text, "unix:/") || g_str_has_prefix(text, "rdma://") || is_name(text);
}

static bool read_line(GHashTable *expected, char *line)
{
    line[strcspn(line, "#")] = '\0';
    g_strstrip(line);
    if (!line[0])
        return true;
    if (!is_address(line))
        return false;
    g_hash_table_add(expected, g_strdup(line));
    return true;
}

static bool read_file(GHashTable *expected, const char *path, GError **error)
{
    char *text;
    if (!g_file_get_contents(path, &text, NULL, error))
        return false;
    char **lines = g_strsplit(text, "\n", -1);
    guint wrong = 0;
    while (lines[wrong] && read_line(expected, lines[wrong]))
        wrong++;
    bool works = !lines[wrong];
    if (!works)
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                    "%s, line %u: \"%.64s\" is no address: write one a line, such as cam1, "
                    "unix:/run/studio/cam1 or rdma://10.0.0.1:7174/cam1",
                    path, wrong + 1, lines[wrong]);
    g_strfreev(lines);
    g_free(text);
    return works;
}

/* All files of a folder but hidden ones and an editor's copies. */
static bool read_folder(GHashTable *expected, const char *path, GError **error)
{
    bool works = true;
    GDir *folder = g_dir_open(path, 0, error);
    if (!folder)
        return false;
    for (const char *name; works && (name = g_dir_read_name(folder));) {
        char *file = g_build_filename(path, name, NULL);
        if (name[0] != '.' && !g_str_has_suffix(name, "~") &&
            g_file_test(file, G_FILE_TEST_IS_REGULAR))
            works = read_file(expected, file, error);
        g_free(file);
    }
    g_dir_close(folder);
    return works;
}

GHashTable *monitor_expect_read(char *const *paths, GError **error)
{
    GHashTable *expected = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (; *paths; paths++) {
        bool works = g_file_test(*paths, G_FILE_TEST_IS_DIR) ? read_folder(expected, *paths, error)
                                                             : read_file(expected, *paths, error);
        if (!works) {
            g_hash_table_unref(expected);
            return NULL;
        }
    }
    return expected;
}
