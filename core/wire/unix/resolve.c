/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/unix/resolve.h"

#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

enum gpud_status gpud_runtime_directory(char *path, size_t size, struct gpud_error *error)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
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
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return gpud_fail_errno(error, "cannot make the directory %s for sockets", path);
    struct stat st;
    if (lstat(path, &st) < 0)
        return gpud_fail_errno(error, "cannot look at the directory %s", path);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0077))
        return gpud_fail(
            error, GPUD_NO_ACCESS,
            "%s is not a directory that you alone can enter: remove it, or chmod 700 it", path);
    return GPUD_OK;
}

/* As much of a bad address as its refusal quotes. */
static int quoted(const char *address)
{
    return (int)gpud_text_whole(address, strnlen(address, 64));
}

bool gpud_socket_is_name(const char *address)
{
    return address[0] && address[0] != '.' && address[strspn(address, NAME_CHARACTERS)] == '\0';
}

enum gpud_status gpud_socket_resolve(const char *address, char path[GPUD_SOCKET_PATH_MAX],
                                     struct gpud_error *error)
{
    if (!address || !address[0])
        return gpud_fail(error, GPUD_INVALID,
                         "no address: give a name (cam1) or unix:/absolute/path");
    if (strncmp(address, "unix:", 5) == 0) {
        const char *name = address + 5;
        if (name[0] != '/' || strlen(name) >= GPUD_SOCKET_PATH_MAX)
            return gpud_fail(error, GPUD_INVALID,
                             "\"%.*s\": unix: needs an absolute path of at most %zu bytes",
                             quoted(address), address, GPUD_SOCKET_PATH_MAX - 1);
        memcpy(path, name, strlen(name) + 1);
        return GPUD_OK;
    }
    if (address[strspn(address, NAME_CHARACTERS)])
        return gpud_fail(error, GPUD_INVALID,
                         "\"%.*s\" is not an address: letters, digits, '.', '_', '-', or "
                         "unix:/absolute/path",
                         quoted(address), address);
    if (address[0] == '.')
        return gpud_fail(error, GPUD_INVALID, "the address \"%.*s\" begins with a dot",
                         quoted(address), address);

    char directory[GPUD_SOCKET_PATH_MAX];
    enum gpud_status status = gpud_private_directory(directory, sizeof(directory), error);
    if (status != GPUD_OK)
        return status;
    char joined[2 * GPUD_SOCKET_PATH_MAX];
    int length = gpud_print_n(joined, sizeof(joined), "%s/%s", directory, address);
    if (length < 0 || (size_t)length >= GPUD_SOCKET_PATH_MAX)
        return gpud_fail(error, GPUD_INVALID, "the address \"%.*s\" is too long", quoted(address),
                         address);
    memcpy(path, joined, (size_t)length + 1);
    return GPUD_OK;
}
