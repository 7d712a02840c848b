/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/unix/registry.h"

#include "base/clock.h"
#include "base/directory.h"
#include "base/fd.h"
#include "wire/unix/channel.h"
#include "wire/unix/socket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX ".unix"
#define NAME_SIZE (sizeof(PREFIX) + 2 * GPUD_SOCKET_PATH_MAX)

/* A process that is stopped while it holds the lock must not stop the others. */
#define PATIENCE GPUD_SEC
#define PAUSE (5 * GPUD_MSEC)

/* --- links --------------------------------------------------------------------------------- */

/* One name for each path: '/' becomes "!", "!" becomes "=1", "=" becomes "=0". */
static void link_name(const char *path, char link[NAME_SIZE])
{
    char *at = stpcpy(link, PREFIX);
    for (; *path; path++) {
        if (*path == '!' || *path == '=') {
            *at++ = '=';
            *at++ = *path == '!' ? '1' : '0';
        } else {
            *at++ = *path == '/' ? '!' : *path;
        }
    }
    *at = '\0';
}

/* The path that a link leads to. false: it is not one of ours. */
static bool read_link(int directory, const char *link, char path[GPUD_SOCKET_PATH_MAX])
{
    char again[NAME_SIZE];
    ssize_t length = readlinkat(directory, link, path, GPUD_SOCKET_PATH_MAX);
    if (length <= 0 || (size_t)length >= GPUD_SOCKET_PATH_MAX || path[0] != '/')
        return false;
    path[length] = '\0';
    link_name(path, again);
    return strcmp(again, link) == 0;
}

/* The bare name that a path is reached by; NULL: none. */
static const char *bare_name(const char *directory, const char *path)
{
    size_t length = strlen(directory);
    if (strncmp(path, directory, length) != 0 || path[length] != '/' ||
        !gpud_is_name(path + length + 1))
        return NULL;
    return path + length + 1;
}

/* --- the directory ------------------------------------------------------------------------- */

/* Only if nobody but this user can enter it. */
static int open_directory(const char *path, struct gpud_error *error)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        gpud_fail_errno(error, "cannot open the directory %s", path);
    } else if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 0077)) {
        gpud_fail(error, GPUD_NO_ACCESS,
                  "%s is not a directory that you alone can enter: remove it, or chmod 700 it",
                  path);
        gpud_fd_close(&fd);
        errno = EACCES;
    }
    return fd;
}

static bool lock(int directory, int64_t patience)
{
    int64_t deadline = gpud_deadline(patience);
    while (flock(directory, LOCK_EX | LOCK_NB) < 0) {
        if (gpud_now() >= deadline)
            return false;
        struct timespec pause = gpud_timespec(PAUSE);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
    return true;
}

enum gpud_status gpud_registry_add(const char *path, struct gpud_error *error)
{
    char name[GPUD_SOCKET_PATH_MAX], link[NAME_SIZE];
    enum gpud_status status = gpud_private_directory(name, sizeof(name), error);
    if (status != GPUD_OK || bare_name(name, path))
        return status;
    int directory = open_directory(name, error);
    if (directory < 0)
        return GPUD_NO_ACCESS;
    link_name(path, link);
    /* Without the lock somebody may remove the link again: that is all. */
    lock(directory, PATIENCE);
    unlinkat(directory, link, 0);
    if (symlinkat(path, directory, link) < 0)
        status = gpud_fail_errno(error, "cannot make a link to %s in %s", path, name);
    gpud_fd_close(&directory);
    return status;
}

void gpud_registry_touch(const char *path)
{
    char name[GPUD_SOCKET_PATH_MAX], link[NAME_SIZE];
    if (gpud_runtime_directory(name, sizeof(name), NULL) != GPUD_OK)
        return;
    const char *bare = bare_name(name, path);
    int directory = open_directory(name, NULL);
    if (directory < 0)
        return;
    link_name(path, link);
    utimensat(directory, bare ? bare : link, NULL, AT_SYMLINK_NOFOLLOW);
    gpud_fd_close(&directory);
}

static void remove_link(const char *path, bool only_if_dead)
{
    char name[GPUD_SOCKET_PATH_MAX], link[NAME_SIZE];
    int fd = -1;
    struct gpud_peer peer;
    if (gpud_runtime_directory(name, sizeof(name), NULL) != GPUD_OK || bare_name(name, path))
        return;
    int directory = open_directory(name, NULL);
    if (directory < 0)
        return;
    link_name(path, link);
    if (!only_if_dead ||
        (lock(directory, 0) && gpud_socket_reach(path, &fd, &peer, NULL) == GPUD_CLOSED))
        unlinkat(directory, link, 0);
    gpud_fd_close(&fd);
    gpud_fd_close(&directory);
}

void gpud_registry_remove(const char *path)
{
    remove_link(path, false);
}

void gpud_registry_reclaim(const char *path)
{
    remove_link(path, true);
}

/* --- looking ------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct gpud_address *x = a, *y = b;
    return strcmp(x->text, y->text);
}

/* Whether an entry of the directory is an address. */
static bool read_entry(int fd, const char *directory, const char *entry, struct gpud_address *found)
{
    struct stat st;
    if (fstatat(fd, entry, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid != geteuid())
        return false;
    found->ops = &gpud_unix_channel_ops;
    if (S_ISLNK(st.st_mode)) {
        if (!read_link(fd, entry, found->place))
            return false;
        gpud_print(found->text, "unix:%s", found->place);
        return true;
    }
    if (!S_ISSOCK(st.st_mode) || !gpud_is_name(entry))
        return false;
    gpud_print(found->text, "%s", entry);
    int length = gpud_print_n(found->place, GPUD_SOCKET_PATH_MAX, "%s/%s", directory, entry);
    return length > 0 && (size_t)length < GPUD_SOCKET_PATH_MAX;
}

enum gpud_status gpud_registry_list(struct gpud_address *found, size_t max, size_t *count,
                                    char directory[GPUD_ADDRESS_MAX], struct gpud_error *error)
{
    size_t seen = 0;
    enum gpud_status status = gpud_runtime_directory(directory, GPUD_SOCKET_PATH_MAX, error);
    if (status != GPUD_OK)
        return status;
    int fd = open_directory(directory, error);
    if (fd < 0 && errno == ENOENT) {
        *count = 0; /* nobody has sent from here yet */
        return GPUD_OK;
    }
    if (fd < 0)
        return GPUD_NO_ACCESS;
    DIR *entries = fdopendir(fd);
    if (!entries) {
        gpud_fd_close(&fd);
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a directory");
    }
    for (struct dirent *entry; seen < max && (entry = readdir(entries));)
        seen += read_entry(fd, directory, entry->d_name, &found[seen]);
    closedir(entries);
    qsort(found, seen, sizeof(*found), compare);
    *count = seen;
    return GPUD_OK;
}
