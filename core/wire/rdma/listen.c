/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "wire/rdma/listen.h"

#include "base/fd.h"
#include "wire/rdma/connect.h"
#include "wire/rdma/hint.h"
#include "wire/rdma/hub.h"
#include "wire/rdma/lifetime.h"
#include "wire/rdma/local.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

struct rdma_listener {
    struct gpud_listener base; /* first */
    struct rdma_port port;
    struct gpud_rdma_place place;
    char where[GPUD_ADDRESS_MAX];
    bool joined, has_key;
    bool is_local; /* has `local` */
    struct gpud_socket_listener local;
    struct gpud_auth_key key;
};

static void destroy(struct rdma_listener *listener)
{
    if (listener->joined)
        gpud_rdma_leave(&listener->port);
    if (listener->is_local)
        gpud_socket_unlisten(&listener->local);
    gpud_fd_close(&listener->base.fd);
    gpud_fd_close(&listener->port.event);
    gpud_auth_wipe_key(&listener->key);
    free(listener);
}

static bool watch(const struct rdma_listener *listener, int fd)
{
    struct epoll_event readable = {.events = EPOLLIN};
    return epoll_ctl(listener->base.fd, EPOLL_CTL_ADD, fd, &readable) == 0;
}

/* Applies the application's rule: reads its key, or checks that none is needed. */
static enum gpud_status check_access(struct rdma_listener *listener,
                                     const struct gpud_access_rule *access,
                                     const struct sockaddr_storage *address,
                                     struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    listener->has_key = access && access->key_file[0];
    if (listener->has_key)
        status = gpud_auth_read_key(access->key_file, &listener->key, error);
    if (status == GPUD_OK)
        status = gpud_auth_may_listen((const struct sockaddr *)address, listener->has_key,
                                      access && access->allow_unauthenticated, error);
    return status;
}

static enum gpud_status open_listener(struct rdma_listener *listener,
                                      const struct gpud_access_rule *access,
                                      struct gpud_error *error)
{
    const char *where = listener->where;
    struct sockaddr_storage address;
    enum gpud_status status = gpud_rdma_parse(where, &listener->place, NULL, error);
    if (status == GPUD_OK && !gpud_rdma_to_sockaddr(&listener->place, &address))
        status = gpud_fail(error, GPUD_INVALID,
                           "cannot listen on the name \"%s\": give an address of a network card of "
                           "this host, or rdma://0.0.0.0:%u for all of them",
                           listener->place.host, listener->place.port);
    if (status == GPUD_OK)
        status = check_access(listener, access, &address, error);
    if (status != GPUD_OK)
        return status;
    listener->base.fd = epoll_create1(EPOLL_CLOEXEC);
    listener->port.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    listener->port.name = listener->place.name;
    if (listener->base.fd < 0 || listener->port.event < 0 || !watch(listener, listener->port.event))
        return gpud_fail_errno(error, "no descriptors to listen on %s", where);
    status = gpud_rdma_join(&listener->port, &address, where, error);
    listener->joined = status == GPUD_OK;
    if (listener->joined && !watch(listener, gpud_rdma_hub_fd(&listener->port)))
        status = gpud_fail_errno(error, "no descriptors to listen on %s", where);
    return status;
}

/* Answers queries of this host and, if another process has the port, is found by that one. */
static enum gpud_status announce(struct rdma_listener *listener, struct gpud_error *error)
{
    char holder[GPUD_PEER_TEXT_MAX];
    struct gpud_error unlisted;
    listener->is_local =
        gpud_rdma_local_open(&listener->local, listener->where, &unlisted) == GPUD_OK;
    if (listener->is_local) {
        watch(listener, listener->local.fd);
        return gpud_rdma_announce(&listener->port, error);
    }
    if (!gpud_rdma_is_shared(&listener->port)) { /* not fatal: only lists of channels use it */
        if (!listener->base.note[0])
            gpud_print(listener->base.note, "not in lists of channels: %.470s", unlisted.reason);
        return GPUD_OK;
    }
    if (unlisted.native != EADDRINUSE)
        return gpud_fail(error, GPUD_IO,
                         "cannot share the port of %s with the process that listens on it, choose "
                         "another port: %.300s",
                         listener->where, unlisted.reason);
    gpud_rdma_local_find_name(listener->where, holder, sizeof(holder));
    return gpud_fail_native(error, GPUD_IO, "errno", EADDRINUSE,
                            "another sender has the address %s: %s; stop that one, or put another "
                            "/NAME behind the port",
                            listener->where, holder);
}

enum gpud_status gpud_rdma_listen(const struct gpud_address *address,
                                  const struct gpud_access_rule *access,
                                  struct gpud_listener **listener, struct gpud_error *error)
{
    struct rdma_listener *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to listen on %s", address->place);
    made->base.ops = &gpud_rdma_channel_ops;
    made->base.fd = made->port.event = -1;
    gpud_print(made->where, "%s", address->place);
    enum gpud_status status = open_listener(made, access, error);
    char hint[GPUD_REASON_MAX]; /* listening on 0.0.0.0 succeeds even without a card */
    gpud_rdma_hint(made->where, hint, sizeof(hint));
    if (hint[0])
        gpud_print(made->base.note, "no receiver can connect yet: %.476s", hint);
    if (status == GPUD_OK)
        status = announce(made, error);
    if (status != GPUD_OK) {
        destroy(made);
        return status;
    }
    *listener = &made->base;
    return GPUD_OK;
}

void gpud_rdma_tell(struct gpud_listener *base)
{
    const struct rdma_listener *listener = (const struct rdma_listener *)base;
    if (listener->is_local)
        gpud_rdma_local_tell(&listener->local);
}

void gpud_rdma_unlisten(struct gpud_listener *listener)
{
    destroy((struct rdma_listener *)listener);
}

/* --- accepting ----------------------------------------------------------------------------- */

/* Identifies the peer by its network address. */
static void describe_peer(struct rdma_channel *channel, struct rdma_cm_id *id)
{
    gpud_rdma_print_host(rdma_get_peer_addr(id), channel->base.peer.host,
                         sizeof(channel->base.peer.host));
    gpud_print(channel->where, "the receiver at %s", channel->base.peer.host);
}

static enum gpud_status accept_with(const struct rdma_listener *listener, struct rdma_port *port,
                                    struct rdma_channel *channel, struct gpud_error *error)
{
    struct rdma_request request;
    enum gpud_status status = gpud_rdma_take_request(port, channel->events, &request, error);
    if (status != GPUD_OK)
        return status;
    describe_peer(channel, request.id);
    channel->peer_receives = request.data.receives;
    channel->peer_queue_pair = request.queue_pair;
    gpud_print(channel->place.name, "%s", request.data.name);
    channel->has_key = listener->has_key;
    channel->key = listener->key;
    status = gpud_rdma_channel_accept(channel, request.id, error);
    if (status != GPUD_OK)
        gpud_rdma_reject(request.id, GPUD_RDMA_UNABLE);
    return status;
}

enum gpud_status gpud_rdma_accept(struct gpud_listener *base, struct gpud_channel **channel,
                                  struct gpud_peer *peer, struct gpud_error *error)
{
    struct rdma_listener *listener = (struct rdma_listener *)base;
    struct rdma_channel *made;
    enum gpud_status status = gpud_rdma_look_for_request(&listener->port, error);
    if (status != GPUD_OK && listener->is_local &&
        gpud_rdma_local_accept(&listener->local, channel, peer, NULL) == GPUD_OK)
        return GPUD_OK;
    if (status == GPUD_OK)
        status = gpud_rdma_channel_create(true, &listener->place, &made, error);
    if (status != GPUD_OK)
        return status;
    status = accept_with(listener, &listener->port, made, error);
    if (status == GPUD_OK) {
        *peer = made->base.peer;
        *channel = &made->base;
    } else {
        gpud_rdma_channel_destroy(made);
    }
    return status;
}
