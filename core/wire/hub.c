/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Listening on a port between hosts, which several channels and processes share. */
#include "wire/network.h"

#include "base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* The process that has, or had, the port may be dying. */
#define PATIENCE (2 * GPUD_SEC)
#define PAUSE (20 * GPUD_MSEC)

static struct gpud_lock hubs_lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_HUBS);
static struct gpud_hub *hubs;

/* --- requests ------------------------------------------------------------------------------ */

static struct gpud_hub_listener *listener_of(struct gpud_port_member *member)
{
    return (struct gpud_hub_listener *)((char *)member -
                                        offsetof(struct gpud_hub_listener, member));
}

/* Lists the names behind `name` in their order, which may be more than fit. */
static void list_names(struct gpud_hub *hub, const char *name, struct gpud_refusal *refusal)
{
    size_t count;
    struct gpud_port_name *names = gpud_port_list(&hub->port, &count);
    for (size_t i = 0; i < count; i++)
        if (!name || strcmp(names[i].text, name) > 0)
            gpud_refusal_add_name(refusal, names[i].text);
    free(names);
}

static struct gpud_incoming *queued(struct gpud_hub_listener *listener, uint32_t i)
{
    return &listener->queue[(listener->first + i) % GPUD_HUB_QUEUE_MAX];
}

static void remove_queued(struct gpud_hub_listener *listener, uint32_t i)
{
    for (; i + 1 < listener->count; i++)
        *queued(listener, i) = *queued(listener, i + 1);
    listener->count--;
}

/* Makes room in a full queue for a request of this host by dropping the last request of another
 * host, which must have more requests there than this host would have then. false: no host has. */
static bool make_room(struct gpud_hub *hub, struct gpud_hub_listener *listener, int64_t host)
{
    const struct gpud_refusal busy = {.reason = GPUD_REFUSAL_BUSY};
    uint32_t own = 1, most = 0, last = 0;
    for (uint32_t i = 0; i < listener->count; i++) {
        uint32_t count = 0;
        for (uint32_t j = 0; j < listener->count; j++)
            count += queued(listener, j)->host == queued(listener, i)->host;
        own += queued(listener, i)->host == host;
        if (count >= most) {
            most = count;
            last = i;
        }
    }
    if (most <= own)
        return false;
    hub->ops->refuse(queued(listener, last)->connection, &busy);
    remove_queued(listener, last);
    return true;
}

/* true: the connection has an owner. false: *refusal says what to answer. */
static bool enqueue(struct gpud_hub *hub, struct gpud_incoming *incoming, const uint8_t *bytes,
                    size_t size, struct gpud_refusal *refusal)
{
    enum gpud_status status = gpud_request_read(bytes, size, &incoming->request, NULL);
    const char *name = incoming->request.name;
    if (status != GPUD_OK) {
        refusal->reason =
            status == GPUD_UNSUPPORTED ? GPUD_REFUSAL_OTHER_VERSION : GPUD_REFUSAL_MALFORMED;
        return false;
    }
    if (incoming->request.number == 0) {
        refusal->reason = GPUD_REFUSAL_NAMES;
        list_names(hub, name, refusal);
        return false;
    }
    struct gpud_port_name found = {.text = ""};
    if (!gpud_port_find(&hub->port, name, &found)) {
        refusal->reason = name[0] ? GPUD_REFUSAL_UNKNOWN_NAME : GPUD_REFUSAL_NAME_WANTED;
        list_names(hub, NULL, refusal);
        return false;
    }
    if (!found.member)
        return hub->ops->redirect(hub, incoming, found.number, refusal);
    struct gpud_hub_listener *listener = listener_of(found.member);
    refusal->reason = GPUD_REFUSAL_BUSY;
    incoming->host = hub->ops->find_host ? hub->ops->find_host(incoming->connection) : 0;
    if (listener->count == GPUD_HUB_QUEUE_MAX && !make_room(hub, listener, incoming->host))
        return false;
    *queued(listener, listener->count++) = *incoming;
    gpud_event_raise(listener->event);
    return true;
}

void gpud_hub_enqueue(struct gpud_hub *hub, void *connection, uint32_t queue_pair,
                      const uint8_t *bytes, size_t size)
{
    struct gpud_incoming incoming = {.connection = connection, .queue_pair = queue_pair};
    struct gpud_refusal refusal = {.names = ""};
    if (!enqueue(hub, &incoming, bytes, size, &refusal))
        hub->ops->refuse(connection, &refusal);
}

void gpud_hub_forget(const struct gpud_hub *hub, const void *connection)
{
    for (struct gpud_port_member *member = hub->port.members; member; member = member->next) {
        struct gpud_hub_listener *one = listener_of(member);
        for (uint32_t i = 0; i < one->count; i++) {
            if (queued(one, i)->connection != connection)
                continue;
            hub->ops->refuse(queued(one, i)->connection, NULL);
            remove_queued(one, i);
            return;
        }
    }
}

/* --- listening ----------------------------------------------------------------------------- */

static int listen_on_own(struct gpud_hub *hub)
{
    int number = hub->ops->listen(hub, true);
    if (number)
        return number;
    for (const struct gpud_port_member *one = hub->port.members; one; one = one->next)
        if (one->is_noted)
            gpud_port_note(&hub->port, one, NULL);
    return 0;
}

/* Takes over the port when its holder has ended, and listens again where a network card was taken
 * out. GPUD_AGAIN: there is nothing to do, or not yet. GPUD_IO: no receiver can connect. */
static enum gpud_status attend(struct gpud_hub *hub, struct gpud_error *error)
{
    enum gpud_status status = GPUD_AGAIN;
    int number = 0;
    hub->is_deaf = false;
    if (hub->port.waits) {
        status = gpud_port_try(&hub->port, error);
        hub->patience = gpud_deadline(PATIENCE);
    }
    if (hub->port.waits && !hub->ops->listens(hub, true))
        number = listen_on_own(hub);
    else if (!hub->port.waits && !hub->ops->listens(hub, false))
        number = hub->ops->listen(hub, false);
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
static void settle_event(const struct gpud_hub_listener *listener)
{
    if (!listener->count && !listener->hub->is_deaf)
        gpud_event_drain(listener->event);
}

enum gpud_status gpud_hub_look(struct gpud_hub_listener *listener, struct gpud_channel **channel,
                               struct gpud_peer *peer, struct gpud_error *error)
{
    *channel = NULL;
    gpud_lock_take(&hubs_lock);
    struct gpud_hub *hub = listener->hub;
    hub->ops->take(hub);
    enum gpud_status status = attend(hub, error);
    if (hub->failed)
        status = gpud_fail_native(error, GPUD_IO, "errno", hub->failed,
                                  "no receiver can connect to %s: %s; are there descriptors left "
                                  "(ulimit -n)?",
                                  listener->where, strerror(hub->failed));
    if (listener->count)
        status = GPUD_OK;
    for (struct gpud_port_member *one = hub->port.members; hub->is_deaf && one; one = one->next)
        gpud_event_raise(listener_of(one)->event);
    settle_event(listener);
    gpud_lock_release(&hubs_lock);
    if (status != GPUD_OK && listener->is_local &&
        gpud_unix_accept_query(&listener->local, channel, peer, NULL) == GPUD_OK)
        return GPUD_OK;
    return status;
}

enum gpud_status gpud_hub_next(struct gpud_hub_listener *listener, struct gpud_incoming *incoming,
                               enum gpud_status (*own)(const struct gpud_incoming *incoming,
                                                       void *arg, struct gpud_error *error),
                               void *arg, struct gpud_error *error)
{
    enum gpud_status status = GPUD_AGAIN;
    gpud_lock_take(&hubs_lock);
    if (listener->count > 0) {
        struct gpud_refusal refusal = {.reason = GPUD_REFUSAL_UNABLE};
        *incoming = listener->queue[listener->first];
        listener->first = (listener->first + 1) % GPUD_HUB_QUEUE_MAX;
        listener->count--;
        status = own ? own(incoming, arg, error) : GPUD_OK;
        if (status != GPUD_OK)
            listener->hub->ops->refuse(incoming->connection, &refusal);
        settle_event(listener);
    }
    gpud_lock_release(&hubs_lock);
    return status;
}

/* --- hubs ---------------------------------------------------------------------------------- */

static void destroy_hub(struct gpud_hub *hub)
{
    hub->ops->close(hub);
    gpud_port_close(&hub->port); /* last: the next holder finds the port free */
    gpud_fd_close(&hub->retry);
    gpud_fd_close(&hub->fd);
    free(hub);
}

static enum gpud_status create_hub(const struct gpud_hub_ops *ops,
                                   const struct sockaddr_storage *address, const char *where,
                                   struct gpud_hub **hub, struct gpud_error *error)
{
    struct gpud_hub *made = calloc(1, ops->size);
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to listen on %s", where);
    made->ops = ops;
    made->address = *address;
    made->events = made->fd = made->retry = made->port.lock = -1;
    enum gpud_status status = ops->open(made, error);
    if (status == GPUD_OK)
        status = gpud_port_open(&made->port, ops->scheme, where, error);
    if (status != GPUD_OK)
        goto fail;
    bool waits = made->port.waits;
    made->fd = epoll_create1(EPOLL_CLOEXEC);
    made->retry = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (made->fd < 0 || made->retry < 0 || !gpud_fd_watch(made->fd, made->events) ||
        !gpud_fd_watch(made->fd, made->retry) ||
        (waits && !gpud_fd_watch(made->fd, made->port.wait.events))) {
        status = gpud_fail_errno(error, "no descriptors to listen on %s", where);
        goto fail;
    }
    int number = waits ? listen_on_own(made) : ops->listen(made, false);
    if (number == EADDRINUSE)
        status = gpud_fail_native(error, GPUD_IO, "errno", number, "the port is taken");
    else if (number)
        status = ops->explain(number, where, error);
    if (status == GPUD_OK) {
        *hub = made;
        return GPUD_OK;
    }
fail:
    destroy_hub(made);
    return status;
}

static enum gpud_status join_locked(struct gpud_hub_listener *listener,
                                    const struct gpud_hub_ops *ops,
                                    const struct sockaddr_storage *address,
                                    struct gpud_error *error)
{
    struct gpud_hub *hub = hubs;
    enum gpud_status status = GPUD_OK;
    while (hub && (hub->ops != ops || memcmp(&hub->address, address, sizeof(*address)) != 0))
        hub = hub->next;
    if (hub && gpud_port_member(&hub->port, listener->place.name))
        return gpud_fail_native(error, GPUD_IO, "errno", EEXIST,
                                "another sender has the address %s: this process itself; stop "
                                "that one, or put another /NAME behind the port",
                                listener->where);
    if (!hub) {
        status = create_hub(ops, address, listener->where, &hub, error);
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
static enum gpud_status join(struct gpud_hub_listener *listener, const struct gpud_hub_ops *ops,
                             const struct sockaddr_storage *address, struct gpud_error *error)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    char holder[GPUD_PEER_TEXT_MAX];
    struct sockaddr_storage copy = *address;
    struct gpud_error why;
    for (;;) {
        why.native = 0;
        gpud_lock_take(&hubs_lock);
        enum gpud_status status = join_locked(listener, ops, address, &why);
        gpud_lock_release(&hubs_lock);
        bool taken = status == GPUD_IO && why.native == EADDRINUSE;
        if (taken && gpud_now() < deadline) {
            gpud_nap(PAUSE);
            continue;
        }
        if (taken) {
            gpud_local_find_port(ops->scheme, ntohs(*gpud_sockaddr_port(&copy)), holder,
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

static void leave(struct gpud_hub_listener *listener)
{
    gpud_lock_take(&hubs_lock);
    struct gpud_hub *hub = listener->hub, **link = &hubs;
    struct gpud_port_member **place = &hub->port.members;
    struct gpud_refusal refusal = {.reason = GPUD_REFUSAL_UNABLE};
    hub->ops->take(hub); /* removes cancelled requests from the queues */
    while (*place != &listener->member)
        place = &(*place)->next;
    *place = listener->member.next;
    if (listener->member.is_noted)
        gpud_port_forget(&hub->port, &listener->member);
    for (; listener->count; listener->count--) {
        hub->ops->refuse(listener->queue[listener->first].connection, &refusal);
        listener->first = (listener->first + 1) % GPUD_HUB_QUEUE_MAX;
    }
    if (!hub->port.members) {
        while (*link != hub)
            link = &(*link)->next;
        *link = hub->next;
        destroy_hub(hub);
    }
    gpud_lock_release(&hubs_lock);
}

/* --- listeners ----------------------------------------------------------------------------- */

/* Answers queries of this host and, if another process has the port, is found by that one. */
static enum gpud_status be_found(struct gpud_hub_listener *listener, struct gpud_error *error)
{
    const struct gpud_scheme *scheme = listener->hub->ops->scheme;
    char holder[GPUD_PEER_TEXT_MAX];
    struct gpud_error unlisted;
    listener->is_local =
        gpud_local_open(&listener->local, scheme, listener->where, &unlisted) == GPUD_OK;
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
    gpud_local_find_sender(scheme, listener->where, holder, sizeof(holder));
    return gpud_fail_native(error, GPUD_IO, "errno", EADDRINUSE,
                            "another sender has the address %s: %s; stop that one, or put another "
                            "/NAME behind the port",
                            listener->where, holder);
}

enum gpud_status gpud_hub_listen(struct gpud_hub_listener *listener, const struct gpud_hub_ops *ops,
                                 const struct sockaddr_storage *address, struct gpud_error *error)
{
    const char *where = listener->where;
    listener->base.fd = epoll_create1(EPOLL_CLOEXEC);
    listener->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (listener->base.fd < 0 || listener->event < 0 ||
        !gpud_fd_watch(listener->base.fd, listener->event))
        return gpud_fail_errno(error, "no descriptors to listen on %s", where);
    enum gpud_status status = join(listener, ops, address, error);
    if (status == GPUD_OK && !gpud_fd_watch(listener->base.fd, listener->hub->fd))
        status = gpud_fail_errno(error, "no descriptors to listen on %s", where);
    return status == GPUD_OK ? be_found(listener, error) : status;
}

void gpud_hub_unlisten(struct gpud_hub_listener *listener)
{
    if (listener->hub) /* removes the note, while the name is still locked */
        leave(listener);
    if (listener->is_local)
        gpud_socket_unlisten(&listener->local);
    gpud_fd_close(&listener->base.fd);
    gpud_fd_close(&listener->event);
}

void gpud_hub_tell(struct gpud_listener *base)
{
    const struct gpud_hub_listener *listener = (const struct gpud_hub_listener *)base;
    if (listener->is_local)
        gpud_local_tell(&listener->local);
}
