/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How a path is claimed, listened on, and given up. */
#include "base/fd.h"
#include "wire/unix/lock.h"
#include "wire/unix/socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Call with the lock held: any socket there is then left over from a dead process. */
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

enum gpud_status gpud_socket_listen(struct gpud_socket_listener *listener, const char *path,
                                    const struct gpud_access_rule *access, struct gpud_error *error)
{
    int lock;
    enum gpud_status status = gpud_lock_file_take(path, &lock, error);
    return status == GPUD_OK ? gpud_socket_listen_locked(listener, path, lock, access, error)
                             : status;
}

enum gpud_status gpud_socket_listen_locked(struct gpud_socket_listener *listener, const char *path,
                                           int lock, const struct gpud_access_rule *access,
                                           struct gpud_error *error)
{
    struct gpud_socket_listener made = {.fd = -1, .lock = lock};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (access)
        made.access = *access;
    memcpy(made.path, path, strlen(path) + 1);
    memcpy(name.sun_path, path, strlen(path) + 1);

    enum gpud_status status = clear_stale(path, error);
    if (status != GPUD_OK)
        goto fail;
    made.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made.fd < 0) {
        status = gpud_fail_errno(error, "cannot create a socket");
        goto fail;
    }
    gpud_fd_keep_from_children(made.fd);
    /* Before bind(), so that the file never has another mode, regardless of the umask. */
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
    gpud_lock_file_drop(made.path, &made.lock);
    return status;
}

void gpud_socket_unlisten(struct gpud_socket_listener *listener)
{
    if (listener->fd < 0)
        return;
    unlink(listener->path);
    gpud_fd_close(&listener->fd);
    gpud_lock_file_drop(listener->path, &listener->lock);
}
