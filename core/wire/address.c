/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Addresses, and how a path is claimed for listening. */
#include "base/fd.h"
#include "base/text.h"
#include "wire/lock.h"
#include "wire/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* --- addresses ----------------------------------------------------------------------------- */

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

bool gpud_address_is_name(const char *address)
{
    return address[0] && address[0] != '.' && address[strspn(address, NAME_CHARACTERS)] == '\0';
}

enum gpud_status gpud_address_resolve(const char *address, char path[GPUD_SOCKET_PATH_MAX],
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

/* --- listening ----------------------------------------------------------------------------- */

/* Only with the lock in hand: what is there belongs to a process that died. */
static enum gpud_status clear_stale(const char *path, struct gpud_error *error)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return GPUD_OK;
    if (!S_ISSOCK(st.st_mode))
        return gpud_fail(error, GPUD_NO_ACCESS, "%s exists and is not a socket: move it away",
                         path);
    if (unlink(path) < 0)
        return gpud_fail_errno(error, "cannot remove the stale socket %s", path);
    return GPUD_OK;
}

enum gpud_status gpud_listener_open(struct gpud_listener *listener, const char *path,
                                    const struct gpud_access_rule *access, struct gpud_error *error)
{
    struct gpud_listener made = {.fd = -1, .lock = -1};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (access)
        made.access = *access;
    memcpy(made.path, path, strlen(path) + 1);
    memcpy(name.sun_path, path, strlen(path) + 1);

    enum gpud_status status = gpud_lock_take(path, &made.lock, error);
    if (status != GPUD_OK)
        return status;
    status = clear_stale(path, error);
    if (status != GPUD_OK)
        goto fail;
    made.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made.fd < 0) {
        status = gpud_fail_errno(error, "cannot create a socket");
        goto fail;
    }
    /* Before bind: the file gets this mode at once, whatever the umask of this process is. */
    if (fchmod(made.fd, 0600) < 0 || bind(made.fd, (struct sockaddr *)&name, sizeof(name)) < 0) {
        status = gpud_fail_errno(error, "cannot make the socket %s", path);
        goto fail;
    }
    status = gpud_access_open_socket(&made.access, path, error);
    if (status == GPUD_OK && listen(made.fd, 64) < 0)
        status = gpud_fail_errno(error, "cannot listen on %s", path);
    if (status != GPUD_OK) {
        unlink(path);
        goto fail;
    }
    *listener = made;
    return GPUD_OK;
fail:
    gpud_fd_close(&made.fd);
    gpud_lock_drop(made.path, &made.lock);
    return status;
}

void gpud_listener_close(struct gpud_listener *listener)
{
    if (listener->fd < 0)
        return;
    unlink(listener->path);
    gpud_fd_close(&listener->fd);
    gpud_lock_drop(listener->path, &listener->lock);
}
