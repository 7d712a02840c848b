/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Listening on a port, which several channels and processes share. */
#include "wire/rdma/rdma.h"

#include "base/base.h"
#include "wire/unix/unix.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* === hub ===================================================================================== */
/* Each hub has one listening id for an address and port, and another one where a different process
 * has the port (wire/network.h). One lock serves all hubs; no thread blocks while holding it,
 * except that gpud_port_try() may wait 20 ms for the kernel. */

#define BACKLOG 128

/* The process that has, or had, the port may be dying. */
#define PATIENCE (2 * GPUD_SEC)
#define PAUSE (20 * GPUD_MSEC)

#define QUEUE_MAX 64

/* A receiver's request to connect. */
struct request {
    struct rdma_cm_id *id;
    uint32_t queue_pair;
    struct gpud_rdma_request data;
};

struct rdma_listener {
    struct gpud_listener base; /* first */
    struct gpud_place place;
    char where[GPUD_ADDRESS_MAX];
    bool has_key;
    struct gpud_auth_key key;
    bool is_local; /* has `local` */
    struct gpud_socket_listener local;

    /* Its part in the hub; under hubs_lock. */
    struct rdma_hub *hub; /* NULL: it has not joined */
    struct gpud_port_member member;
    int event; /* readable: the queue is not empty */
    uint32_t first, count;
    struct request queue[QUEUE_MAX];
};

struct rdma_hub {
    struct rdma_hub *next;
    struct sockaddr_storage address;
    struct rdma_event_channel *events;
    int fd;                /* to poll: of events, of the wait for the port, and of `retry` */
    int retry;             /* a timer, while the port is expected to become free */
    struct rdma_cm_id *id; /* NULL: another process has the port, or the card was taken out */
    struct gpud_port port;
    /* Listens on a port of this process since another one had the hub's. NULL: none ever had, or
     * the card was taken out. */
    struct rdma_cm_id *own_id;
    int64_t patience; /* until when a port that was taken over may still be taken */
    bool is_deaf;     /* it cannot listen, and tries again and again */
};

static struct gpud_lock hubs_lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_RDMA_HUBS);
static struct rdma_hub *hubs;

/* --- requests ------------------------------------------------------------------------------ */

static void reject(struct rdma_cm_id *id, const struct gpud_rdma_refusal *refusal)
{
    uint8_t bytes[GPUD_RDMA_REFUSAL_MAX];
    rdma_reject(id, bytes, (uint8_t)gpud_rdma_write_refusal(refusal, bytes));
}

static void reject_unable(struct rdma_cm_id *id)
{
    struct gpud_rdma_refusal refusal = {.reason = GPUD_RDMA_UNABLE};
    reject(id, &refusal);
}

static struct rdma_listener *listener_of(struct gpud_port_member *member)
{
    return (struct rdma_listener *)((char *)member - offsetof(struct rdma_listener, member));
}

/* Lists the names behind `name` in their order, which may be more than fit. */
static void hub_list_names(struct rdma_hub *hub, const char *name,
                           struct gpud_rdma_refusal *refusal)
{
    size_t count;
    struct gpud_port_name *names = gpud_port_list(&hub->port, &count);
    for (size_t i = 0; i < count; i++)
        if (!name || strcmp(names[i].text, name) > 0)
            gpud_rdma_add_name(refusal, names[i].text);
    free(names);
}

/* Queues the request for its channel; false, with the reason in *refusal, if that is impossible. */
static bool hub_enqueue(struct rdma_hub *hub, const struct gpud_rdma_event *event,
                        struct gpud_rdma_refusal *refusal)
{
    struct request request = {.id = event->id, .queue_pair = event->queue_pair};
    enum gpud_status status = gpud_rdma_read_request(event->data, event->size, &request.data, NULL);
    if (status != GPUD_OK) {
        refusal->reason =
            status == GPUD_UNSUPPORTED ? GPUD_RDMA_OTHER_VERSION : GPUD_RDMA_MALFORMED;
        return false;
    }
    if (request.data.receives == 0) {
        refusal->reason = GPUD_RDMA_NAMES;
        hub_list_names(hub, request.data.name, refusal);
        return false;
    }
    struct gpud_port_name found = {.text = ""};
    if (!gpud_port_find(&hub->port, request.data.name, &found)) {
        refusal->reason = request.data.name[0] ? GPUD_RDMA_UNKNOWN_NAME : GPUD_RDMA_NAME_WANTED;
        hub_list_names(hub, NULL, refusal);
        return false;
    }
    if (!found.member) {
        gpud_rdma_refuse_moved(refusal, found.number);
        return false;
    }
    struct rdma_listener *listener = listener_of(found.member);
    refusal->reason = GPUD_RDMA_BUSY;
    if (listener->count == QUEUE_MAX)
        return false;
    listener->queue[(listener->first + listener->count++) % QUEUE_MAX] = request;
    gpud_event_raise(listener->event);
    return true;
}

/* Drops a cancelled request if it is still queued; otherwise its new owner does. */
static void hub_forget(const struct rdma_hub *hub, const struct rdma_cm_id *id)
{
    for (struct gpud_port_member *member = hub->port.members; member; member = member->next) {
        struct rdma_listener *one = listener_of(member);
        for (uint32_t i = 0; i < one->count; i++) {
            struct request *gone = &one->queue[(one->first + i) % QUEUE_MAX];
            if (gone->id != id)
                continue;
            rdma_destroy_id(gone->id);
            for (; i + 1 < one->count; i++)
                one->queue[(one->first + i) % QUEUE_MAX] =
                    one->queue[(one->first + i + 1) % QUEUE_MAX];
            one->count--;
            return;
        }
    }
}

static void take_events(struct rdma_hub *hub)
{
    struct gpud_rdma_event event;
    while (gpud_rdma_next_event(hub->events, &event)) {
        struct gpud_rdma_refusal refusal = {.names = ""};
        if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
            if (hub_enqueue(hub, &event, &refusal))
                continue;
            reject(event.id, &refusal);
            rdma_destroy_id(event.id);
        } else if (event.id != hub->id && event.id != hub->own_id) {
            hub_forget(hub, event.id);
        } else if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
            struct rdma_cm_id **id = event.id == hub->id ? &hub->id : &hub->own_id;
            rdma_destroy_id(*id); /* the kernel removes the card once it is unused */
            *id = NULL;
        }
    }
}

/* --- listening ----------------------------------------------------------------------------- */

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

/* On the hub's port, or on one that the kernel chooses. 0, or the errno of what failed, which is
 * EADDRINUSE if the port is taken. */
static int hub_listen_on(struct rdma_hub *hub, struct rdma_cm_id **id, bool any_port)
{
    struct sockaddr_storage bound = hub->address; /* rdma_cm's parameter is not const */
    if (any_port)
        *gpud_sockaddr_port(&bound) = 0;
    if (rdma_create_id(hub->events, id, NULL, RDMA_PS_TCP) < 0)
        return errno;
    if (rdma_bind_addr(*id, (struct sockaddr *)&bound) == 0 && rdma_listen(*id, BACKLOG) == 0)
        return 0;
    int number = errno;
    rdma_destroy_id(*id);
    *id = NULL;
    return number == EADDRNOTAVAIL && is_of_this_host(&hub->address) ? EADDRINUSE : number;
}

static int listen_on_own(struct rdma_hub *hub)
{
    int number = hub_listen_on(hub, &hub->own_id, true);
    if (number)
        return number;
    hub->port.own_number = ntohs(rdma_get_src_port(hub->own_id));
    for (const struct gpud_port_member *one = hub->port.members; one; one = one->next)
        if (one->is_noted)
            gpud_port_note(&hub->port, one, NULL);
    return 0;
}

/* Takes over the port when its holder has ended, and listens again where a network card was taken
 * out. GPUD_AGAIN: there is nothing to do, or not yet. GPUD_IO: no receiver can connect. */
static enum gpud_status attend(struct rdma_hub *hub, struct gpud_error *error)
{
    enum gpud_status status = GPUD_AGAIN;
    int number = 0;
    hub->is_deaf = false;
    if (hub->port.waits) {
        status = gpud_port_try(&hub->port, error);
        hub->patience = gpud_deadline(PATIENCE);
    }
    if (hub->port.waits && !hub->own_id)
        number = listen_on_own(hub);
    else if (!hub->port.waits && !hub->id)
        number = hub_listen_on(hub, &hub->id, false);
    if (number == EADDRINUSE && gpud_now() < hub->patience) {
        struct itimerspec soon = {.it_value = gpud_timespec(PAUSE)};
        gpud_event_drain(hub->retry);
        timerfd_settime(hub->retry, 0, &soon, NULL);
        return GPUD_AGAIN;
    }
    hub->is_deaf = number != 0;
    if (number == EADDRINUSE)
        return gpud_fail(error, GPUD_IO,
                         "no receiver can connect: the sender that had the port of %s has ended, "
                         "and another program has the port now: stop that program",
                         hub->port.where);
    if (number)
        return gpud_fail(error, GPUD_IO,
                         "no receiver can connect until the network card with this address, "
                         "which was taken out of the system, is back");
    return status == GPUD_OK ? GPUD_AGAIN : status;
}

/* Keeps the event readable only while a request is queued, or listening must be tried again. */
static void settle_event(const struct rdma_listener *listener)
{
    if (!listener->count && !listener->hub->is_deaf)
        gpud_event_drain(listener->event);
}

/* Whether there is a request; handles the hub's pending events first. GPUD_AGAIN: none. GPUD_IO: no
 * request can arrive until the network card is back. */
static enum gpud_status look_for_request(struct rdma_listener *listener, struct gpud_error *error)
{
    gpud_lock_take(&hubs_lock);
    struct rdma_hub *hub = listener->hub;
    take_events(hub);
    enum gpud_status status = attend(hub, error);
    if (listener->count)
        status = GPUD_OK;
    for (struct gpud_port_member *one = hub->port.members; hub->is_deaf && one; one = one->next)
        gpud_event_raise(listener_of(one)->event);
    settle_event(listener);
    gpud_lock_release(&hubs_lock);
    return status;
}

/* Takes the next request of this listener. The caller owns its id, whose events go to `events` from
 * then on. Remaining requests keep the listener's event readable. GPUD_AGAIN: none. */
static enum gpud_status take_request(struct rdma_listener *listener,
                                     struct rdma_event_channel *events, struct request *request,
                                     struct gpud_error *error)
{
    enum gpud_status status = GPUD_AGAIN;
    gpud_lock_take(&hubs_lock);
    if (listener->count > 0) {
        *request = listener->queue[listener->first];
        listener->first = (listener->first + 1) % QUEUE_MAX;
        listener->count--;
        status = GPUD_OK;
        if (rdma_migrate_id(request->id, events) < 0) {
            status = gpud_fail_errno(error, "cannot take a connection");
            reject_unable(request->id);
            rdma_destroy_id(request->id);
        }
        settle_event(listener);
    }
    gpud_lock_release(&hubs_lock);
    return status;
}

/* --- hubs ---------------------------------------------------------------------------------- */

static void destroy_hub(struct rdma_hub *hub)
{
    if (hub->own_id)
        rdma_destroy_id(hub->own_id);
    if (hub->id)
        rdma_destroy_id(hub->id);
    gpud_port_close(&hub->port); /* last: the next holder finds the port free */
    gpud_rdma_close_events(&hub->events);
    gpud_fd_close(&hub->retry);
    gpud_fd_close(&hub->fd);
    free(hub);
}

static enum gpud_status create_hub(const struct sockaddr_storage *address, const char *where,
                                   struct rdma_hub **hub, struct gpud_error *error)
{
    struct rdma_hub *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to listen on %s", where);
    made->address = *address;
    made->fd = made->retry = made->port.lock = -1;
    enum gpud_status status = gpud_rdma_open_events(&made->events, error);
    if (status == GPUD_OK)
        status = gpud_port_open(&made->port, &gpud_rdma_scheme, where, error);
    if (status != GPUD_OK)
        goto fail;
    bool waits = made->port.waits;
    made->fd = epoll_create1(EPOLL_CLOEXEC);
    made->retry = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (made->fd < 0 || made->retry < 0 || !gpud_fd_watch(made->fd, made->events->fd) ||
        !gpud_fd_watch(made->fd, made->retry) ||
        (waits && !gpud_fd_watch(made->fd, made->port.wait.events))) {
        status = gpud_fail_errno(error, "no descriptors to listen on %s", where);
        goto fail;
    }
    int number = waits ? listen_on_own(made) : hub_listen_on(made, &made->id, false);
    if (number == EADDRINUSE)
        status = gpud_fail_native(error, GPUD_IO, "errno", number, "the port is taken");
    else if (number)
        status = gpud_rdma_fail_call(error, number, "listen on", where);
    if (status == GPUD_OK) {
        *hub = made;
        return GPUD_OK;
    }
fail:
    destroy_hub(made);
    return status;
}

static enum gpud_status join_locked(struct rdma_listener *listener,
                                    const struct sockaddr_storage *address,
                                    struct gpud_error *error)
{
    struct rdma_hub *hub = hubs;
    enum gpud_status status = GPUD_OK;
    while (hub && memcmp(&hub->address, address, sizeof(*address)) != 0)
        hub = hub->next;
    if (hub && gpud_port_member(&hub->port, listener->place.name))
        return gpud_fail_native(error, GPUD_IO, "errno", EEXIST,
                                "another sender has the address %s: this process itself; stop "
                                "that one, or put another /NAME behind the port",
                                listener->where);
    if (!hub) {
        status = create_hub(address, listener->where, &hub, error);
        if (status != GPUD_OK)
            return status;
        hub->next = hubs;
        hubs = hub;
    }
    listener->hub = hub;
    listener->member = (struct gpud_port_member){
        .next = hub->port.members,
        .name = listener->place.name,
        .where = listener->where,
    };
    hub->port.members = &listener->member;
    return GPUD_OK;
}

/* Joins the hub of that address, or creates it. GPUD_IO with EADDRINUSE: the port is taken, or the
 * name by this process. */
static enum gpud_status join(struct rdma_listener *listener, const struct sockaddr_storage *address,
                             struct gpud_error *error)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    char holder[GPUD_PEER_TEXT_MAX];
    struct sockaddr_storage copy = *address;
    struct gpud_error why;
    for (;;) {
        why.native = 0;
        gpud_lock_take(&hubs_lock);
        enum gpud_status status = join_locked(listener, address, &why);
        gpud_lock_release(&hubs_lock);
        bool taken = status == GPUD_IO && why.native == EADDRINUSE;
        if (taken && gpud_now() < deadline) {
            gpud_nap(PAUSE);
            continue;
        }
        if (taken) {
            gpud_local_find_port(&gpud_rdma_scheme, ntohs(*gpud_sockaddr_port(&copy)), holder,
                                 sizeof(holder));
            return gpud_fail_native(
                error, GPUD_IO, "errno", EADDRINUSE,
                "%s listens on the port of %s: stop that, or choose another port "
                "(the senders of one user share a port if all give the same address)",
                holder[0] ? holder : "another process, no sender of this user,", listener->where);
        }
        if (status == GPUD_IO && why.native == EEXIST)
            why.native = EADDRINUSE;
        if (status != GPUD_OK && error)
            *error = why;
        return status;
    }
}

static void leave(struct rdma_listener *listener)
{
    gpud_lock_take(&hubs_lock);
    struct rdma_hub *hub = listener->hub, **link = &hubs;
    struct gpud_port_member **place = &hub->port.members;
    take_events(hub); /* removes cancelled requests from the queues */
    while (*place != &listener->member)
        place = &(*place)->next;
    *place = listener->member.next;
    if (listener->member.is_noted)
        gpud_port_forget(&hub->port, &listener->member);
    for (; listener->count; listener->count--) {
        struct rdma_cm_id *id = listener->queue[listener->first].id;
        reject_unable(id);
        rdma_destroy_id(id);
        listener->first = (listener->first + 1) % QUEUE_MAX;
    }
    if (!hub->port.members) {
        while (*link != hub)
            link = &(*link)->next;
        *link = hub->next;
        destroy_hub(hub);
    }
    gpud_lock_release(&hubs_lock);
}

/* === listen ================================================================================== */
/* Listening: the operations of gpud_channel_ops. Listeners on one address and port share a hub.
 *
 *     gpud_listener cam1 ─┐
 *     gpud_listener cam2 ─┴─ hub: one id of rdma_cm, one descriptor ◀── requests, with a name
 *
 * The first listener's thread to see a request takes it from the hub, and queues it for the
 * listener that it names. */

static enum gpud_status open_listener(struct rdma_listener *listener,
                                      const struct gpud_access_rule *access,
                                      struct gpud_error *error)
{
    const char *where = listener->where;
    struct sockaddr_storage address;
    enum gpud_status status =
        gpud_place_parse(&gpud_rdma_scheme, where, &listener->place, NULL, error);
    if (status == GPUD_OK && !gpud_place_to_sockaddr(&listener->place, &address))
        status = gpud_fail(error, GPUD_INVALID,
                           "cannot listen on the name \"%s\": give an address of a network card of "
                           "this host, or rdma://0.0.0.0:%u for all of them",
                           listener->place.host, listener->place.port);
    /* The application's rule: its key, or that none is needed. */
    listener->has_key = access && access->key_file[0];
    if (status == GPUD_OK && listener->has_key)
        status = gpud_auth_read_key(access->key_file, &listener->key, error);
    if (status == GPUD_OK)
        status = gpud_auth_may_listen((const struct sockaddr *)&address, listener->has_key,
                                      access && access->allow_unauthenticated, error);
    if (status != GPUD_OK)
        return status;
    listener->base.fd = epoll_create1(EPOLL_CLOEXEC);
    listener->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (listener->base.fd < 0 || listener->event < 0 ||
        !gpud_fd_watch(listener->base.fd, listener->event))
        return gpud_fail_errno(error, "no descriptors to listen on %s", where);
    status = join(listener, &address, error);
    if (status == GPUD_OK && !gpud_fd_watch(listener->base.fd, listener->hub->fd))
        status = gpud_fail_errno(error, "no descriptors to listen on %s", where);
    return status;
}

/* Answers queries of this host and, if another process has the port, is found by that one. */
static enum gpud_status listen_announce(struct rdma_listener *listener, struct gpud_error *error)
{
    char holder[GPUD_PEER_TEXT_MAX];
    struct gpud_error unlisted;
    listener->is_local =
        gpud_local_open(&listener->local, &gpud_rdma_scheme, listener->where, &unlisted) == GPUD_OK;
    if (listener->is_local) {
        gpud_fd_watch(listener->base.fd, listener->local.fd);
        gpud_lock_take(&hubs_lock);
        enum gpud_status status = gpud_port_note(&listener->hub->port, &listener->member, error);
        listener->member.is_noted = status == GPUD_OK;
        if (!listener->hub->port.waits)
            status = GPUD_OK; /* nothing was to be noted */
        gpud_lock_release(&hubs_lock);
        return status;
    }
    gpud_lock_take(&hubs_lock);
    bool is_shared = listener->hub->port.waits;
    gpud_lock_release(&hubs_lock);
    /* Another process has the port, or is found by this name at it. */
    is_shared = is_shared || gpud_port_is_elsewhere(&listener->hub->port, &listener->member);
    if (!is_shared) { /* not fatal: only lists of channels use it */
        if (!listener->base.note[0])
            gpud_print(listener->base.note, "not in lists of channels: %.470s", unlisted.reason);
        return GPUD_OK;
    }
    if (unlisted.native != EADDRINUSE)
        return gpud_fail(error, GPUD_IO,
                         "cannot share the port of %s with the process that listens on it, choose "
                         "another port: %.300s",
                         listener->where, unlisted.reason);
    gpud_local_find_sender(&gpud_rdma_scheme, listener->where, holder, sizeof(holder));
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
    made->base.fd = made->event = -1;
    gpud_print(made->where, "%s", address->place);
    enum gpud_status status = open_listener(made, access, error);
    char hint[GPUD_REASON_MAX]; /* listening on 0.0.0.0 succeeds even without a card */
    gpud_rdma_hint(made->where, hint, sizeof(hint));
    if (hint[0])
        gpud_print(made->base.note, "no receiver can connect yet: %.476s", hint);
    if (status == GPUD_OK)
        status = listen_announce(made, error);
    if (status == GPUD_OK)
        *listener = &made->base;
    else
        gpud_rdma_unlisten(&made->base);
    return status;
}

void gpud_rdma_tell(struct gpud_listener *base)
{
    const struct rdma_listener *listener = (const struct rdma_listener *)base;
    if (listener->is_local)
        gpud_local_tell(&listener->local);
}

void gpud_rdma_unlisten(struct gpud_listener *base)
{
    struct rdma_listener *listener = (struct rdma_listener *)base;
    if (listener->hub) /* removes the note, while the name is still locked */
        leave(listener);
    if (listener->is_local)
        gpud_socket_unlisten(&listener->local);
    gpud_fd_close(&listener->base.fd);
    gpud_fd_close(&listener->event);
    gpud_auth_wipe_key(&listener->key);
    free(listener);
}

enum gpud_status gpud_rdma_accept(struct gpud_listener *base, struct gpud_channel **channel,
                                  struct gpud_peer *peer, struct gpud_error *error)
{
    struct rdma_listener *listener = (struct rdma_listener *)base;
    struct rdma_channel *made;
    struct request request;
    enum gpud_status status = look_for_request(listener, error);
    if (status != GPUD_OK && listener->is_local &&
        gpud_unix_accept_query(&listener->local, channel, peer, NULL) == GPUD_OK)
        return GPUD_OK;
    if (status == GPUD_OK)
        status = gpud_rdma_channel_create(true, &listener->place, &made, error);
    if (status != GPUD_OK)
        return status;
    status = take_request(listener, made->events, &request, error);
    if (status == GPUD_OK) {
        /* The peer is identified by its network address. */
        gpud_sockaddr_print_host(rdma_get_peer_addr(request.id), made->base.peer.host,
                                 sizeof(made->base.peer.host));
        gpud_print(made->where, "the receiver at %s", made->base.peer.host);
        made->peer_receives = request.data.receives;
        made->peer_queue_pair = request.queue_pair;
        gpud_print(made->place.name, "%s", request.data.name);
        made->has_key = listener->has_key;
        made->key = listener->key;
        status = gpud_rdma_channel_accept(made, request.id, error);
        if (status != GPUD_OK)
            reject_unable(request.id);
    }
    if (status != GPUD_OK) {
        gpud_rdma_channel_destroy(made);
        return status;
    }
    *peer = made->base.peer;
    *channel = &made->base;
    return GPUD_OK;
}
