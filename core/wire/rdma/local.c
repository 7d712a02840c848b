/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/rdma/local.h"

#include "base/directory.h"
#include "base/fd.h"
#include "base/process.h"
#include "wire/unix/channel.h"
#include "wire/unix/lock.h"
#include "wire/unix/registry.h"

#include <gpudirect/channel.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- channels for queries ------------------------------------------------------------------ */

static enum gpud_status send_message(struct gpud_channel *channel, struct gpud_message *message,
                                     struct gpud_error *error)
{
    return gpud_unix_channel_ops.send(channel, message, error);
}

/* Accepts only queries: receivers must use the network address, where the key is checked. */
static enum gpud_status receive_query(struct gpud_channel *channel, struct gpud_message *message,
                                      struct gpud_error *error)
{
    enum gpud_status status = gpud_unix_channel_ops.receive(channel, message, error);
    if (status != GPUD_OK || message->type == GPUD_MESSAGE_QUERY)
        return status;
    gpud_message_close(message);
    return gpud_fail(error, GPUD_UNSUPPORTED,
                     "this socket only answers queries: receive from the rdma:// address, with "
                     "its key");
}

static bool is_dead(const struct gpud_channel *channel)
{
    return gpud_unix_channel_ops.is_dead(channel);
}

static void hang_up(struct gpud_channel *channel)
{
    gpud_unix_channel_ops.hang_up(channel);
}

static void close_channel(struct gpud_channel *channel)
{
    gpud_unix_channel_ops.close(channel);
}

static const struct gpud_channel_ops query_ops = {
    .send = send_message,
    .receive = receive_query,
    .is_dead = is_dead,
    .hang_up = hang_up,
    .close = close_channel,
};

/* --- listening ----------------------------------------------------------------------------- */

static enum gpud_status path_of(const char *place, char path[GPUD_SOCKET_PATH_MAX],
                                struct gpud_error *error)
{
    char entry[GPUD_REGISTRY_ENTRY_MAX], directory[GPUD_SOCKET_PATH_MAX];
    enum gpud_status status = gpud_private_directory(directory, sizeof(directory), error);
    if (status != GPUD_OK)
        return status;
    gpud_registry_rdma_entry(place, entry);
    int length = gpud_print_n(path, GPUD_SOCKET_PATH_MAX, "%s/%s", directory, entry);
    if (length < 0 || (size_t)length >= GPUD_SOCKET_PATH_MAX)
        return gpud_fail(error, GPUD_INVALID, "%s/%s is too long for a socket", directory, entry);
    return GPUD_OK;
}

enum gpud_status gpud_rdma_local_open(struct gpud_socket_listener *local, const char *place,
                                      struct gpud_error *error)
{
    char path[GPUD_SOCKET_PATH_MAX];
    enum gpud_status status = path_of(place, path, error);
    if (status == GPUD_OK)
        status = gpud_socket_listen(local, path, NULL, error);
    if (status == GPUD_OK)
        gpud_rdma_local_tell(local); /* watchers saw the socket before it could be queried */
    return status;
}

enum gpud_status gpud_rdma_local_accept(struct gpud_socket_listener *local,
                                        struct gpud_channel **channel, struct gpud_peer *peer,
                                        struct gpud_error *error)
{
    int fd;
    enum gpud_status status = gpud_socket_accept(local, &fd, peer, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_unix_channel_create(fd, peer, channel, error);
    if (status == GPUD_OK)
        (*channel)->ops = &query_ops;
    else
        gpud_fd_close(&fd);
    return status;
}

void gpud_rdma_local_tell(const struct gpud_socket_listener *local)
{
    utimensat(AT_FDCWD, local->path, NULL, AT_SYMLINK_NOFOLLOW);
}

/* --- other senders ------------------------------------------------------------------------- */

void gpud_rdma_local_find(uint16_t port, char *text, size_t size)
{
    char directory[GPUD_ADDRESS_MAX], wanted[8], name[64];
    size_t count = 0, omitted;
    struct gpud_address *found = NULL;
    text[0] = '\0';
    gpud_print(wanted, ":%u", port);
    if (gpud_registry_list(NULL, &found, &count, &omitted, directory, NULL) != GPUD_OK)
        return;
    for (size_t i = 0; i < count && !text[0]; i++) {
        const char *at = strrchr(found[i].text, ':');
        size_t length = strlen(wanted);
        if (found[i].receiver || strncmp(found[i].text, "rdma://", 7) != 0 || !at ||
            strncmp(at, wanted, length) != 0 || (at[length] && at[length] != '/'))
            continue;
        pid_t pid = gpud_lock_find(found[i].place, false);
        if (pid > 0 && pid != getpid() && gpud_process_name(pid, name, sizeof(name)))
            gpud_print_n(text, size, "process %d (%s)", (int)pid, name);
    }
    free(found);
}

void gpud_rdma_local_find_name(const char *place, char *text, size_t size)
{
    char path[GPUD_SOCKET_PATH_MAX], name[64];
    gpud_print_n(text, size, "another process");
    if (path_of(place, path, NULL) != GPUD_OK)
        return;
    pid_t pid = gpud_lock_find(path, false);
    if (pid > 0 && gpud_process_name(pid, name, sizeof(name)))
        gpud_print_n(text, size, "process %d (%s)", (int)pid, name);
}
