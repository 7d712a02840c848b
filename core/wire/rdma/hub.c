/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Listening by rdma_cm: see wire/network.h. */
#include "wire/rdma/rdma.h"

#include "base/base.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG 128

struct rdma_listener {
    struct gpud_hub_listener hub; /* first */
    bool has_key;
    struct gpud_auth_key key;
};

struct rdma_hub {
    struct gpud_hub base; /* first */
    struct rdma_event_channel *events;
    struct rdma_cm_id *id; /* NULL: another process has the port, or the card was taken out */
    /* Listens on a port of this process since another one had the hub's. NULL: none ever had, or
     * the card was taken out. */
    struct rdma_cm_id *own_id;
};

/* --- the hub -------------------------------------------------------------------------------- */

static enum gpud_status hub_open(struct gpud_hub *base, struct gpud_error *error)
{
    struct rdma_hub *hub = (struct rdma_hub *)base;
    enum gpud_status status = gpud_rdma_open_events(&hub->events, error);
    if (status == GPUD_OK)
        base->events = hub->events->fd;
    return status;
}

static void hub_close(struct gpud_hub *base)
{
    struct rdma_hub *hub = (struct rdma_hub *)base;
    if (hub->own_id)
        rdma_destroy_id(hub->own_id);
    if (hub->id)
        rdma_destroy_id(hub->id);
    gpud_rdma_close_events(&hub->events);
}

/* Needed because rdma_cm reports the same errno for an address that is not this host's and for a
 * port that is taken on all of its addresses. */
static bool is_of_this_host(const struct sockaddr_storage *address)
{
    struct sockaddr_storage any_port = *address;
    int fd = socket(address->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *gpud_sockaddr_port(&any_port) = 0;
    bool is = fd >= 0 && bind(fd, (struct sockaddr *)&any_port, sizeof(any_port)) == 0;
    gpud_fd_close(&fd);
    return is;
}

static int hub_listen(struct gpud_hub *base, bool own)
{
    struct rdma_hub *hub = (struct rdma_hub *)base;
    struct rdma_cm_id **id = own ? &hub->own_id : &hub->id;
    struct sockaddr_storage bound = base->address; /* rdma_cm's parameter is not const */
    if (own)
        *gpud_sockaddr_port(&bound) = 0;
    if (rdma_create_id(hub->events, id, NULL, RDMA_PS_TCP) < 0)
        return errno;
    if (rdma_bind_addr(*id, (struct sockaddr *)&bound) == 0 && rdma_listen(*id, BACKLOG) == 0) {
        if (own)
            base->port.own_number = ntohs(rdma_get_src_port(*id));
        return 0;
    }
    int number = errno;
    rdma_destroy_id(*id);
    *id = NULL;
    return number == EADDRNOTAVAIL && is_of_this_host(&base->address) ? EADDRINUSE : number;
}

static bool hub_listens(const struct gpud_hub *base, bool own)
{
    const struct rdma_hub *hub = (const struct rdma_hub *)base;
    return (own ? hub->own_id : hub->id) != NULL;
}

static enum gpud_status hub_explain(int number, const char *where, struct gpud_error *error)
{
    return gpud_rdma_fail_call(error, number, "listen on", where);
}

static void reject(struct rdma_cm_id *id, const struct gpud_refusal *refusal)
{
    uint8_t bytes[GPUD_REFUSAL_MAX];
    rdma_reject(id, bytes, (uint8_t)gpud_refusal_write(refusal, bytes));
}

static void hub_refuse(void *connection, const struct gpud_refusal *refusal)
{
    if (refusal)
        reject(connection, refusal);
    rdma_destroy_id(connection);
}

static bool hub_redirect(struct gpud_hub *hub, const struct gpud_incoming *incoming,
                         uint16_t number, struct gpud_refusal *refusal)
{
    gpud_refusal_set_moved(refusal, number);
    return false;
}

static void hub_take(struct gpud_hub *base)
{
    struct rdma_hub *hub = (struct rdma_hub *)base;
    struct gpud_rdma_event event;
    while (gpud_rdma_next_event(hub->events, &event)) {
        if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
            gpud_hub_enqueue(base, event.id, event.queue_pair, event.data, event.size);
        } else if (event.id != hub->id && event.id != hub->own_id) {
            gpud_hub_forget(base, event.id);
        } else if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
            struct rdma_cm_id **id = event.id == hub->id ? &hub->id : &hub->own_id;
            rdma_destroy_id(*id); /* the kernel removes the card once it is unused */
            *id = NULL;
        }
    }
}

static const struct gpud_hub_ops hub_ops = {
    .scheme = &gpud_rdma_scheme,
    .size = sizeof(struct rdma_hub),
    .open = hub_open,
    .close = hub_close,
    .listen = hub_listen,
    .listens = hub_listens,
    .explain = hub_explain,
    .take = hub_take,
    .redirect = hub_redirect,
    .refuse = hub_refuse,
};

/* --- listeners ------------------------------------------------------------------------------ */

static enum gpud_status open_listener(struct rdma_listener *listener,
                                      const struct gpud_access_rule *access,
                                      struct gpud_error *error)
{
    struct sockaddr_storage address;
    struct gpud_place *place = &listener->hub.place;
    enum gpud_status status = gpud_rdma_check_access(access, error);
    if (status == GPUD_OK)
        status = gpud_place_parse(&gpud_rdma_scheme, listener->hub.where, place, NULL, error);
    if (status == GPUD_OK && !gpud_place_to_sockaddr(place, &address))
        status = gpud_fail(error, GPUD_INVALID,
                           "cannot listen on the name \"%s\": give an address of a network card of "
                           "this host, or rdma://0.0.0.0:%u for all of them",
                           place->host, place->port);
    /* The application's rule: its key, or that none is needed. */
    listener->has_key = access && access->key_file[0];
    if (status == GPUD_OK && listener->has_key)
        status = gpud_auth_read_key(access->key_file, &listener->key, error);
    if (status == GPUD_OK)
        status = gpud_auth_may_listen((const struct sockaddr *)&address, listener->has_key,
                                      access && access->allow_unauthenticated, error);
    return status == GPUD_OK ? gpud_hub_listen(&listener->hub, &hub_ops, &address, error) : status;
}

enum gpud_status gpud_rdma_listen(const struct gpud_address *address,
                                  const struct gpud_access_rule *access,
                                  struct gpud_listener **listener, struct gpud_error *error)
{
    struct rdma_listener *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to listen on %s", address->place);
    struct gpud_listener *base = &made->hub.base;
    base->ops = &gpud_rdma_channel_ops;
    base->fd = made->hub.event = -1;
    gpud_print(made->hub.where, "%s", address->place);
    char hint[GPUD_REASON_MAX]; /* listening on 0.0.0.0 succeeds even without a card */
    gpud_rdma_hint(made->hub.where, hint, sizeof(hint));
    if (hint[0])
        gpud_print(base->note, "no receiver can connect yet: %.476s", hint);
    enum gpud_status status = open_listener(made, access, error);
    if (status == GPUD_OK)
        *listener = base;
    else
        gpud_rdma_unlisten(base);
    return status;
}

void gpud_rdma_unlisten(struct gpud_listener *base)
{
    struct rdma_listener *listener = (struct rdma_listener *)base;
    gpud_hub_unlisten(&listener->hub);
    gpud_auth_wipe_key(&listener->key);
    free(listener);
}

/* The id's events go to the channel's from now on. */
static enum gpud_status own(const struct gpud_incoming *incoming, void *arg,
                            struct gpud_error *error)
{
    struct rdma_channel *channel = arg;
    if (rdma_migrate_id(incoming->connection, channel->events) == 0)
        return GPUD_OK;
    return gpud_fail_errno(error, "cannot take a connection");
}

enum gpud_status gpud_rdma_accept(struct gpud_listener *base, struct gpud_channel **channel,
                                  struct gpud_peer *peer, struct gpud_error *error)
{
    struct rdma_listener *listener = (struct rdma_listener *)base;
    struct gpud_refusal unable = {.reason = GPUD_REFUSAL_UNABLE};
    struct rdma_channel *made;
    struct gpud_incoming request;
    enum gpud_status status = gpud_hub_look(&listener->hub, channel, peer, error);
    if (status != GPUD_OK || *channel)
        return status;
    status = gpud_rdma_channel_create(true, &listener->hub.place, &made, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_hub_next(&listener->hub, &request, own, made, error);
    if (status == GPUD_OK) {
        struct rdma_cm_id *id = made->id = request.connection;
        /* The peer is identified by its network address. */
        gpud_sockaddr_print_host(rdma_get_peer_addr(id), made->base.peer.host,
                                 sizeof(made->base.peer.host));
        gpud_print(made->where, "the receiver at %s", made->base.peer.host);
        made->peer_receives = request.request.number;
        made->peer_queue_pair = request.queue_pair;
        gpud_print(made->place.name, "%s", request.request.name);
        made->has_key = listener->has_key;
        made->key = listener->key;
        if (made->peer_receives < GPUD_RDMA_RECEIVES_MIN)
            status = gpud_fail(error, GPUD_AGAIN, "the request is malformed");
        unable.reason = status == GPUD_OK ? GPUD_REFUSAL_UNABLE : GPUD_REFUSAL_MALFORMED;
        if (status == GPUD_OK)
            status = gpud_rdma_channel_accept(made, id, error);
        if (status != GPUD_OK)
            reject(id, &unable);
    }
    if (status != GPUD_OK) {
        gpud_rdma_channel_destroy(made);
        return status;
    }
    *peer = made->base.peer;
    *channel = &made->base;
    return GPUD_OK;
}
