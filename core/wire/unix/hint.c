/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a waiting receiver cannot tell from a failed connect(): its sender has another
 * XDG_RUNTIME_DIR (a login shell, a service, sudo), where the same name is another socket; the
 * socket belongs to another user; its sender is dead; the folder is missing. */
#include "wire/unix/hint.h"

#include "base/directory.h"
#include "base/error.h"
#include "wire/unix/access.h"
#include "wire/unix/socket.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_socket(const char *path, uid_t *owner)
{
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return false;
    *owner = st.st_uid;
    return true;
}

/* Where a process of that user would look for the name, with XDG_RUNTIME_DIR and without. */
static bool find_of_user(const char *path, const char *name, unsigned long user,
                         char found[GPUD_SOCKET_PATH_MAX])
{
    for (int with = 0; with < 2; with++) {
        int length =
            snprintf(found, GPUD_SOCKET_PATH_MAX,
                     with ? "/run/user/%lu/gpudirect/%s" : "/tmp/gpudirect-%lu/%s", user, name);
        uid_t owner;
        if (length > 0 && (size_t)length < GPUD_SOCKET_PATH_MAX && strcmp(found, path) != 0 &&
            is_socket(found, &owner))
            return true;
    }
    return false;
}

/* Only root can search the directories of all users. */
static bool find_of_any_user(const char *name, char found[GPUD_SOCKET_PATH_MAX])
{
    static const char *const patterns[] = {"/run/user/*/gpudirect/%s", "/tmp/gpudirect-*/%s"};
    bool is_found = false;
    for (size_t i = 0; i < 2 && !is_found; i++) {
        char pattern[GPUD_SOCKET_PATH_MAX + 32];
        glob_t paths;
        uid_t owner;
        gpud_print(pattern, patterns[i], name);
        if (glob(pattern, 0, NULL, &paths) != 0)
            continue;
        is_found = strlen(paths.gl_pathv[0]) < GPUD_SOCKET_PATH_MAX &&
                   is_socket(paths.gl_pathv[0], &owner);
        if (is_found)
            gpud_print_n(found, GPUD_SOCKET_PATH_MAX, "%s", paths.gl_pathv[0]);
        globfree(&paths);
    }
    return is_found;
}

/* Only a bare name can mean several sockets; a path is unambiguous. */
static bool find_elsewhere(const char *path, char found[GPUD_SOCKET_PATH_MAX])
{
    char directory[GPUD_SOCKET_PATH_MAX];
    if (gpud_runtime_directory(directory, sizeof(directory), NULL) != GPUD_OK)
        return false;
    size_t length = strlen(directory);
    if (strncmp(path, directory, length) != 0 || path[length] != '/')
        return false;
    const char *name = path + length + 1, *before_sudo = getenv("SUDO_UID");
    return find_of_user(path, name, geteuid(), found) ||
           (before_sudo && find_of_user(path, name, strtoul(before_sudo, NULL, 10), found)) ||
           (geteuid() == 0 && find_of_any_user(name, found));
}

/* Leaves the hint empty if the folder exists and can be entered. */
static void explain_folder(const char *path, char *hint, size_t size)
{
    char folder[GPUD_SOCKET_PATH_MAX], user[GPUD_USER_MAX];
    gpud_print(folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    if (!folder[0] || access(folder, X_OK) == 0)
        return;
    if (errno == ENOENT)
        gpud_print_n(hint, size,
                     "there is no folder %s here: make it (mkdir), or, where the sender runs in "
                     "another container, share its folder with this one",
                     folder);
    else
        gpud_print_n(hint, size, "%s cannot enter the folder %s: %s",
                     gpud_user_name(geteuid(), user), folder, strerror(errno));
}

void gpud_socket_hint(const char *path, char *hint, size_t size)
{
    char elsewhere[GPUD_SOCKET_PATH_MAX];
    uid_t owner;
    hint[0] = '\0';
    if (is_socket(path, &owner)) {
        char own[GPUD_USER_MAX], other[GPUD_USER_MAX];
        if (owner != geteuid() && owner != 0)
            gpud_print_n(hint, size, "the socket there belongs to %s, and this is %s",
                         gpud_user_name(owner, other), gpud_user_name(geteuid(), own));
        else
            gpud_print_n(hint, size, "its sender died and left the socket: start it again");
    } else if (find_elsewhere(path, elsewhere)) {
        gpud_print_n(hint, size,
                     "there is %s, of a process with another XDG_RUNTIME_DIR (a login shell, a "
                     "service, sudo?): set it alike for both, or use address=unix:%s",
                     elsewhere, elsewhere);
    } else {
        explain_folder(path, hint, size);
    }
}
