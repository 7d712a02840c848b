/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "channels/waiting.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX ".waiting!"
#define NOTE_MAX 512
#define WAITERS_MAX 1024 /* of one folder */

/* The name of the receivers that take a monitor's thumbnails. */
#define MONITOR "gpudirect-monitor"

static void waiter_free(gpointer data)
{
    struct channels_waiter *waiter = data;
    g_free(waiter->address);
    g_free(waiter->name);
    g_free(waiter);
}

/* The receiver's lock, which the kernel releases when it dies. */
static bool is_alive(int fd)
{
    struct flock found = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &found) == 0 && found.l_type != F_UNLCK;
}

/* A process id means nothing in another container's PID namespace. */
static bool is_own_namespace(const char *number)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 && g_ascii_strtoull(number, NULL, 10) == st.st_ino;
}

/* Where bare names lie, as core/base/base.h says. */
static bool is_runtime_directory(const char *folder)
{
    const char *base = g_getenv("XDG_RUNTIME_DIR");
    char *usual = g_strdup_printf("/run/user/%u", geteuid());
    char *own = base && base[0] ? g_strdup_printf("%s/gpudirect", base)
                : g_file_test(usual, G_FILE_TEST_IS_DIR)
                    ? g_strdup_printf("%s/gpudirect", usual)
                    : g_strdup_printf("/tmp/gpudirect-%u", geteuid());
    bool is_own = strcmp(folder, own) == 0;
    g_free(own);
    g_free(usual);
    return is_own;
}

/* The note's "cam1!subs" of this folder, "/run/studio/cam1" or "rdma://…", as an address. */
static char *read_address(const char *folder, const char *what)
{
    if (strchr(what, '/'))
        return g_strdup_printf("%s%s", what[0] == '/' ? "unix:" : "", what);
    if (is_runtime_directory(folder))
        return g_strdelimit(g_strdup(what), "!", '/');
    return g_strdup_printf("unix:%s/%s", folder, what);
}

/* Another user's word is shown to people: made to be text. */
static char *clean(const char *text)
{
    char *valid = g_utf8_make_valid(text, -1);
    for (char *c = valid; *c; c++)
        if (g_ascii_iscntrl(*c))
            *c = '?';
    return valid;
}

static struct channels_waiter *parse(const char *folder, char *text)
{
    enum { PROCESS, NAME, WHAT, SINCE, LINES };
    char **line = g_strsplit(text, "\n", LINES + 1);
    struct channels_waiter *waiter = NULL;
    if (g_strv_length(line) > SINCE && line[WHAT][0]) {
        const char *namespace = strchr(line[PROCESS], ' ');
        char *what = clean(line[WHAT]);
        waiter = g_new0(struct channels_waiter, 1);
        waiter->address = read_address(folder, what);
        waiter->name = clean(line[NAME]);
        waiter->since = g_ascii_strtoll(line[SINCE], NULL, 10);
        if (namespace && is_own_namespace(namespace + 1))
            waiter->pid = g_ascii_strtoll(line[PROCESS], NULL, 10);
        g_free(what);
    }
    g_strfreev(line);
    return waiter;
}

/* NULL: no receiver waits by this note. */
static struct channels_waiter *read_note(int directory, const char *folder, const char *entry)
{
    char text[NOTE_MAX + 1];
    struct stat st;
    ssize_t size = -1;
    int fd = openat(directory, entry, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && is_alive(fd))
        size = pread(fd, text, NOTE_MAX, 0);
    close(fd);
    if (size <= 0)
        return NULL;
    text[size] = '\0';
    return parse(folder, text);
}

GPtrArray *channels_read_waiting(const char *folder, const char *address)
{
    GPtrArray *waiters = g_ptr_array_new_with_free_func(waiter_free);
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        if (!g_str_has_prefix(entry->d_name, PREFIX) || waiters->len == WAITERS_MAX)
            continue;
        struct channels_waiter *waiter = read_note(dirfd(entries), folder, entry->d_name);
        if (!waiter)
            continue;
        if (strcmp(waiter->name, MONITOR) == 0 ||
            (address && strcmp(waiter->address, address) != 0))
            waiter_free(waiter);
        else
            g_ptr_array_add(waiters, waiter);
    }
    if (entries)
        closedir(entries);
    return waiters;
}
