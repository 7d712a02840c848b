/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/directory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool gpud_is_name(const char *text)
{
    return text[0] && text[0] != '.' && text[strspn(text, GPUD_NAME_CHARACTERS)] == '\0';
}

const char *gpud_runtime_base = "/run/user";

/* Whether only this user can enter it. */
static bool is_private(const struct stat *st)
{
    return S_ISDIR(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & 0077);
}

enum gpud_status gpud_runtime_directory(char *path, size_t size, struct gpud_error *error)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char usual[64];
    struct stat st;
    gpud_print(usual, "%s/%u", gpud_runtime_base, geteuid());
    if ((!runtime || runtime[0] != '/') && lstat(usual, &st) == 0 && is_private(&st))
        runtime = usual;
    int length = runtime && runtime[0] == '/'
                     ? gpud_print_n(path, size, "%s/gpudirect", runtime)
                     : gpud_print_n(path, size, "/tmp/gpudirect-%u", geteuid());
    if (length < 0 || (size_t)length >= size)
        return gpud_fail(error, GPUD_INVALID,
                         "XDG_RUNTIME_DIR is too long for a socket: use unix:/short/path");
    return GPUD_OK;
}

enum gpud_status gpud_private_directory(char *path, size_t size, struct gpud_error *error)
{
    enum gpud_status status = gpud_runtime_directory(path, size, error);
    if (status != GPUD_OK)
        return status;
    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        const char *runtime = getenv("XDG_RUNTIME_DIR");
        if (!runtime || runtime[0] != '/' || strncmp(path, runtime, strlen(runtime)) != 0)
            return gpud_fail_errno(error, "cannot make the directory %s for sockets", path);
        return gpud_fail_errno(error,
                               "cannot make the directory %s for sockets (set XDG_RUNTIME_DIR, now "
                               "%s, to a folder that is there and yours, or unset it, or use "
                               "address=unix:/path)",
                               path, runtime);
    }
    struct stat st;
    if (lstat(path, &st) < 0)
        return gpud_fail_errno(error, "cannot examine the directory %s", path);
    if (st.st_uid != geteuid())
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "%s belongs to user %u, who may have taken the name first: set "
                         "XDG_RUNTIME_DIR to a folder that you alone can enter, or let root "
                         "remove it",
                         path, st.st_uid);
    if (!is_private(&st))
        return gpud_fail(
            error, GPUD_NO_ACCESS,
            "%s is not a directory that you alone can enter: remove it, or chmod 700 it", path);
    return GPUD_OK;
}
