/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/unix/channel.h"

#include "base/fd.h"
#include "base/process.h"
#include "wire/unix/farewell.h"
#include "wire/unix/lock.h"
#include "wire/unix/registry.h"
#include "wire/unix/socket.h"

#include <stdlib.h>
#include <sys/socket.h>

struct unix_listener {
    struct gpud_listener base; /* first */
    struct gpud_socket_listener socket;
    atomic_int farewell;
};

struct unix_channel {
    struct gpud_channel base; /* first */
    atomic_int farewell;
};

const struct gpud_channel_ops *gpud_unix_channel = &gpud_unix_channel_ops;

enum gpud_status gpud_unix_channel_create(int fd, const struct gpud_peer *peer,
                                          struct gpud_channel **channel, struct gpud_error *error)
{
    struct unix_channel *made = malloc(sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a connection");
    made->base.ops = gpud_unix_channel;
    atomic_init(&made->base.references, 1);
    atomic_init(&made->base.connected, true);
    made->base.fd = fd;
    made->base.peer = *peer;
    gpud_farewell_add(fd, GPUD_FAREWELL_BYE, &made->farewell);
    *channel = &made->base;
    return GPUD_OK;
}

/* --- listening ----------------------------------------------------------------------------- */

static enum gpud_status listen_on(const struct gpud_address *address,
                                  const struct gpud_access_rule *access,
                                  struct gpud_listener **listener, struct gpud_error *error)
{
    enum gpud_status status =
        gpud_access_check_address(access, address->text, address->place, error);
    if (status != GPUD_OK)
        return status;
    struct unix_listener *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a socket");
    status = gpud_socket_listen(&made->socket, address->place, access, error);
    if (status != GPUD_OK) {
        free(made);
        return status;
    }
    made->base.ops = &gpud_unix_channel_ops;
    made->base.fd = made->socket.fd;
    gpud_farewell_add(made->base.fd, GPUD_FAREWELL_UNLISTEN, &made->farewell);
    struct gpud_error unlisted; /* not fatal: only lists of channels use it */
    if (gpud_registry_add(address->place, &unlisted) != GPUD_OK)
        gpud_print(made->base.note, "not in lists of channels: %s", unlisted.reason);
    gpud_registry_touch(address->place); /* watchers saw the socket before it could be queried */
    *listener = &made->base;
    return GPUD_OK;
}

static void tell(struct gpud_listener *listener)
{
    gpud_registry_touch(((struct unix_listener *)listener)->socket.path);
}

static void unlisten(struct gpud_listener *listener)
{
    struct unix_listener *gone = (struct unix_listener *)listener;
    gpud_registry_remove(gone->socket.path);
    if (!gpud_farewell_remove(&gone->farewell))
        return; /* the process ends */
    gpud_socket_unlisten(&gone->socket);
    free(gone);
}

static enum gpud_status accept_one(struct gpud_listener *listener, struct gpud_channel **channel,
                                   struct gpud_peer *peer, struct gpud_error *error)
{
    struct unix_listener *at = (struct unix_listener *)listener;
    int fd;
    enum gpud_status status = gpud_socket_accept(&at->socket, &fd, peer, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_unix_channel_create(fd, peer, channel, error);
    if (status != GPUD_OK)
        gpud_fd_close(&fd);
    return status;
}

/* --- connecting ---------------------------------------------------------------------------- */

/* Does not query a stopped sender: the unread query would occupy a place in its queue. */
static enum gpud_status reach(const struct gpud_address *address, int *fd, struct gpud_peer *peer,
                              struct gpud_error *error)
{
    peer->pid = gpud_lock_find(address->place, address->any_owner);
    if (gpud_process_is_stopped(peer->pid))
        return gpud_fail(error, GPUD_AGAIN, "the sender on %s is stopped", address->place);
    return gpud_socket_reach(address->place, address->any_owner, fd, peer, error);
}

static enum gpud_status connect_to(const struct gpud_address *address,
                                   const struct gpud_access_rule *access,
                                   struct gpud_channel **channel, struct gpud_peer *peer,
                                   struct gpud_error *error)
{
    int fd;
    enum gpud_status status = access ? gpud_socket_connect(address->place, access, &fd, peer, error)
                                     : reach(address, &fd, peer, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_unix_channel_create(fd, peer, channel, error);
    if (status != GPUD_OK)
        gpud_fd_close(&fd);
    return status;
}

/* --- a channel ----------------------------------------------------------------------------- */

static enum gpud_status send_message(struct gpud_channel *channel, struct gpud_message *message,
                                     struct gpud_error *error)
{
    enum gpud_status status = gpud_socket_send(channel->fd, message, error);
    if (message->type == GPUD_MESSAGE_BYE && status == GPUD_OK) /* do not repeat it at exit() */
        gpud_farewell_remove(&((struct unix_channel *)channel)->farewell);
    return status;
}

static enum gpud_status receive_message(struct gpud_channel *channel, struct gpud_message *message,
                                        struct gpud_error *error)
{
    return gpud_socket_receive(channel->fd, message, error);
}

static bool is_dead(const struct gpud_channel *channel)
{
    return gpud_fd_is_hung_up(channel->fd);
}

static void hang_up(struct gpud_channel *channel)
{
    shutdown(channel->fd, SHUT_RDWR);
}

static void close_channel(struct gpud_channel *channel)
{
    if (!gpud_farewell_remove(&((struct unix_channel *)channel)->farewell))
        return; /* the process ends */
    gpud_fd_close(&channel->fd);
    free(channel);
}

const struct gpud_channel_ops gpud_unix_channel_ops = {
    .listen = listen_on,
    .unlisten = unlisten,
    .accept = accept_one,
    .connect = connect_to,
    .send = send_message,
    .receive = receive_message,
    .is_dead = is_dead,
    .hang_up = hang_up,
    .close = close_channel,
    .tell = tell,
};
