/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/unix/channel.h"

#include "base/fd.h"
#include "base/process.h"
#include "wire/unix/farewell.h"
#include "wire/unix/lock.h"
#include "wire/unix/registry.h"
#include "wire/unix/socket.h"

#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

struct unix_listener {
    struct gpud_listener base; /* first */
    struct gpud_socket_listener socket;
    atomic_int farewell;
    struct gpud_lock_wait wait; /* while it stands by; -1 else */
    struct gpud_access_rule access;
    char path[GPUD_SOCKET_PATH_MAX];
};

struct unix_channel {
    struct gpud_channel base; /* first */
    atomic_int farewell;
    atomic_uint kicks; /* sent since the peer was last seen to have read everything */
};

/* So many KICKs may be unread at once. Asking the kernel before each would cost as much as saving
 * them does. */
#define KICKS_UNREAD 8

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
    atomic_init(&made->kicks, 0);
    made->base.fd = fd;
    made->base.peer_fd = -1;
    made->base.peer = *peer;
    gpud_fd_keep_from_children(fd);
    gpud_farewell_add(fd, GPUD_FAREWELL_BYE, &made->farewell);
    *channel = &made->base;
    return GPUD_OK;
}

/* --- listening ----------------------------------------------------------------------------- */

static enum gpud_status create_listener(const struct gpud_address *address,
                                        const struct gpud_access_rule *access,
                                        struct unix_listener **listener, struct gpud_error *error)
{
    enum gpud_status status =
        gpud_access_check_address(access, address->text, address->place, error);
    if (status != GPUD_OK)
        return status;
    struct unix_listener *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a socket");
    made->base.ops = &gpud_unix_channel_ops;
    made->base.fd = made->wait.events = made->wait.file = -1;
    if (access)
        made->access = *access;
    gpud_print(made->path, "%s", address->place);
    *listener = made;
    return GPUD_OK;
}

/* The socket listens: announces it. */
static void begin(struct unix_listener *listener)
{
    listener->base.fd = listener->socket.fd;
    gpud_farewell_add(listener->base.fd, GPUD_FAREWELL_UNLISTEN, &listener->farewell);
    struct gpud_error unlisted; /* not fatal: only lists of channels use it */
    if (gpud_registry_add(listener->path, &unlisted) != GPUD_OK)
        gpud_print(listener->base.note, "not in lists of channels: %s", unlisted.reason);
    gpud_registry_touch(listener->path); /* watchers saw the socket before it could be queried */
}

static enum gpud_status listen_on(const struct gpud_address *address,
                                  const struct gpud_access_rule *access,
                                  struct gpud_listener **listener, struct gpud_error *error)
{
    struct unix_listener *made;
    enum gpud_status status = create_listener(address, access, &made, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_socket_listen(&made->socket, made->path, access, error);
    if (status != GPUD_OK) {
        free(made);
        return status;
    }
    begin(made);
    *listener = &made->base;
    return GPUD_OK;
}

static enum gpud_status take_over(struct gpud_listener *base, struct gpud_error *error)
{
    struct unix_listener *listener = (struct unix_listener *)base;
    int lock;
    enum gpud_status status = gpud_lock_wait_try(&listener->wait, listener->path, &lock, error);
    if (status == GPUD_OK)
        status = gpud_socket_listen_locked(&listener->socket, listener->path, lock,
                                           &listener->access, error);
    if (status != GPUD_OK)
        return status;
    begin(listener);
    atomic_store(&base->stands_by, false);
    gpud_lock_wait_end(&listener->wait);
    return GPUD_OK;
}

static enum gpud_status stand_by(const struct gpud_address *address,
                                 const struct gpud_access_rule *access,
                                 struct gpud_listener **listener, struct gpud_error *error)
{
    struct unix_listener *made;
    enum gpud_status status = create_listener(address, access, &made, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_lock_wait_begin(&made->wait, error);
    made->base.fd = made->wait.events;
    atomic_store(&made->base.stands_by, true);
    if (status == GPUD_OK)
        status = take_over(&made->base, error);
    if (status != GPUD_OK && status != GPUD_AGAIN) {
        gpud_lock_wait_end(&made->wait);
        free(made);
        return status;
    }
    *listener = &made->base;
    return GPUD_OK;
}

static void tell(struct gpud_listener *listener)
{
    if (!atomic_load(&listener->stands_by))
        gpud_registry_touch(((struct unix_listener *)listener)->path);
}

static void unlisten(struct gpud_listener *listener)
{
    struct unix_listener *gone = (struct unix_listener *)listener;
    gpud_lock_wait_end(&gone->wait);
    if (atomic_load(&listener->stands_by)) {
        free(gone);
        return;
    }
    gpud_registry_remove(gone->path);
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

/* Whether a KICK can be left out: one more would only fill the connection of a peer that never
 * reads, and then other messages find no room. A peer that polls is woken by what is unread. */
static bool is_surplus_kick(struct unix_channel *channel)
{
    int unread = 0;
    if (atomic_load_explicit(&channel->kicks, memory_order_relaxed) >= KICKS_UNREAD) {
        if (ioctl(channel->base.fd, SIOCOUTQ, &unread) == 0 && unread > 0)
            return true;
        atomic_store_explicit(&channel->kicks, 0, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&channel->kicks, 1, memory_order_relaxed);
    return false;
}

static enum gpud_status send_message(struct gpud_channel *channel, struct gpud_message *message,
                                     struct gpud_error *error)
{
    if (message->type == GPUD_MESSAGE_KICK && is_surplus_kick((struct unix_channel *)channel))
        return GPUD_OK;
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

/* Hangs up where only children of the peer hold the connection open: what it has sent is still
 * received, and then the end. */
static bool is_dead(const struct gpud_channel *channel)
{
    struct pollfd look[] = {{.fd = channel->fd}, {.fd = channel->peer_fd, .events = POLLIN}};
    if (poll(look, 2, 0) <= 0)
        return false;
    if (look[1].revents)
        shutdown(channel->fd, SHUT_RDWR);
    return look[1].revents || look[0].revents & (POLLHUP | POLLERR | POLLNVAL);
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
    .stand_by = stand_by,
    .take_over = take_over,
};
