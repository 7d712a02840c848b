/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each hub has one listening id for an address and port of this process. One lock serves all hubs;
 * no thread blocks while holding it. */
#include "wire/rdma/hub.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/lock.h"
#include "wire/rdma/events.h"
#include "wire/rdma/local.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG 128
/* The process that has the port may be dying. */
#define PATIENCE (2 * GPUD_SEC)
#define PAUSE (20 * GPUD_MSEC)

struct rdma_hub {
    struct rdma_hub *next;
    struct sockaddr_storage address;
    struct rdma_event_channel *events;
    struct rdma_cm_id *id; /* NULL: its network card was taken out */
    struct rdma_port *ports;
};

static struct gpud_lock hubs_lock = GPUD_LOCK_INITIALIZER(GPUD_RANK_RDMA_HUBS);
static struct rdma_hub *hubs;

/* --- requests ------------------------------------------------------------------------------ */

static void reject(struct rdma_cm_id *id, const struct gpud_rdma_refusal *refusal)
{
    uint8_t bytes[GPUD_RDMA_REFUSAL_MAX];
    rdma_reject(id, bytes, (uint8_t)gpud_rdma_write_refusal(refusal, bytes));
}

void gpud_rdma_reject(struct rdma_cm_id *id, enum gpud_rdma_refusal_reason reason)
{
    struct gpud_rdma_refusal refusal = {.reason = reason};
    reject(id, &refusal);
}

/* A request without a name is for the channel without one, or for the only channel, not counting
 * its streams. */
static struct rdma_port *find_port(const struct rdma_hub *hub, const char *name)
{
    struct rdma_port *channel = NULL;
    unsigned channels = 0;
    for (struct rdma_port *port = hub->ports; port; port = port->next) {
        if (strcmp(port->name, name) == 0)
            return port;
        if (strchr(port->name, '/'))
            continue;
        channel = port;
        channels++;
    }
    return channels == 1 && !name[0] ? channel : NULL;
}

/* Lists the names behind `name` in their order, which may be more than fit. */
static void list_names(const struct rdma_hub *hub, const char *name,
                       struct gpud_rdma_refusal *refusal)
{
    const char *next;
    do {
        next = NULL;
        for (const struct rdma_port *port = hub->ports; port; port = port->next)
            if (strcmp(port->name, name) > 0 && (!next || strcmp(port->name, next) < 0))
                next = port->name;
        if (next)
            gpud_rdma_add_name(refusal, next);
        name = next;
    } while (next);
}

/* Queues the request for its channel; false, with the reason in *refusal, if that is impossible. */
static bool enqueue(const struct rdma_hub *hub, const struct gpud_rdma_event *event,
                    struct gpud_rdma_refusal *refusal)
{
    struct rdma_request request = {.id = event->id, .queue_pair = event->queue_pair};
    enum gpud_status status = gpud_rdma_read_request(event->data, event->size, &request.data, NULL);
    if (status != GPUD_OK) {
        refusal->reason =
            status == GPUD_UNSUPPORTED ? GPUD_RDMA_OTHER_VERSION : GPUD_RDMA_MALFORMED;
        return false;
    }
    if (request.data.receives == 0) {
        refusal->reason = GPUD_RDMA_NAMES;
        list_names(hub, request.data.name, refusal);
        return false;
    }
    struct rdma_port *port = find_port(hub, request.data.name);
    if (!port) {
        refusal->reason = request.data.name[0] ? GPUD_RDMA_UNKNOWN_NAME : GPUD_RDMA_NAME_WANTED;
        for (port = hub->ports; port; port = port->next)
            gpud_rdma_add_name(refusal, port->name);
        return false;
    }
    refusal->reason = GPUD_RDMA_BUSY;
    if (port->count == RDMA_QUEUE_MAX)
        return false;
    port->queue[(port->first + port->count++) % RDMA_QUEUE_MAX] = request;
    gpud_event_raise(port->event);
    return true;
}

/* Drops a cancelled request if it is still queued; otherwise its new owner does. */
static void forget(const struct rdma_hub *hub, const struct rdma_cm_id *id)
{
    for (struct rdma_port *port = hub->ports; port; port = port->next) {
        for (uint32_t i = 0; i < port->count; i++) {
            struct rdma_request *gone = &port->queue[(port->first + i) % RDMA_QUEUE_MAX];
            if (gone->id != id)
                continue;
            rdma_destroy_id(gone->id);
            for (; i + 1 < port->count; i++)
                port->queue[(port->first + i) % RDMA_QUEUE_MAX] =
                    port->queue[(port->first + i + 1) % RDMA_QUEUE_MAX];
            port->count--;
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
            if (enqueue(hub, &event, &refusal))
                continue;
            reject(event.id, &refusal);
            rdma_destroy_id(event.id);
        } else if (event.id != hub->id) {
            forget(hub, event.id);
        } else if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
            rdma_destroy_id(hub->id); /* the kernel removes the card once it is unused */
            hub->id = NULL;
        }
    }
}

/* 0, or the errno of what failed. */
static int listen_on(struct rdma_hub *hub)
{
    struct sockaddr_storage bound = hub->address; /* rdma_cm's parameter is not const */
    if (rdma_create_id(hub->events, &hub->id, NULL, RDMA_PS_TCP) < 0)
        return errno;
    if (rdma_bind_addr(hub->id, (struct sockaddr *)&bound) == 0 &&
        rdma_listen(hub->id, BACKLOG) == 0)
        return 0;
    int number = errno;
    rdma_destroy_id(hub->id);
    hub->id = NULL;
    return number;
}

/* Keeps the event readable only while a request is queued, or the card's return must be polled. */
static void settle_event(const struct rdma_port *port)
{
    uint64_t ignored;
    ssize_t got = port->count || !port->hub->id ? 0 : read(port->event, &ignored, sizeof(ignored));
    (void)got; /* non-blocking; the count does not matter */
}

enum gpud_status gpud_rdma_look_for_request(struct rdma_port *port, struct gpud_error *error)
{
    enum gpud_status status = GPUD_AGAIN;
    gpud_lock_take(&hubs_lock);
    struct rdma_hub *hub = port->hub;
    take_events(hub);
    if (port->count)
        status = GPUD_OK;
    else if (!hub->id && listen_on(hub) != 0)
        status = gpud_fail(error, GPUD_IO,
                           "no receiver can connect until the network card with this address, "
                           "which was taken out of the system, is back");
    for (struct rdma_port *one = hub->ports; !hub->id && one; one = one->next)
        gpud_event_raise(one->event);
    settle_event(port);
    gpud_lock_release(&hubs_lock);
    return status;
}

enum gpud_status gpud_rdma_take_request(struct rdma_port *port, struct rdma_event_channel *events,
                                        struct rdma_request *request, struct gpud_error *error)
{
    enum gpud_status status = GPUD_AGAIN;
    gpud_lock_take(&hubs_lock);
    if (port->count > 0) {
        struct rdma_request taken = port->queue[port->first];
        port->first = (port->first + 1) % RDMA_QUEUE_MAX;
        port->count--;
        status = GPUD_OK;
        if (rdma_migrate_id(taken.id, events) < 0) {
            status = gpud_fail_errno(error, "cannot take a connection");
            gpud_rdma_reject(taken.id, GPUD_RDMA_UNABLE);
            rdma_destroy_id(taken.id);
        }
        if (status == GPUD_OK)
            *request = taken;
        settle_event(port);
    }
    gpud_lock_release(&hubs_lock);
    return status;
}

/* --- hubs ---------------------------------------------------------------------------------- */

static void destroy_hub(struct rdma_hub *hub)
{
    if (hub->id)
        rdma_destroy_id(hub->id);
    if (hub->events)
        rdma_destroy_event_channel(hub->events);
    free(hub);
}

/* Needed because rdma_cm reports the same errno for an address that is not this host's and for a
 * port that is taken on all of its addresses. */
static bool is_of_this_host(const struct sockaddr_storage *address)
{
    struct sockaddr_storage any_port = *address;
    int fd = socket(address->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)&any_port)->sin_port = 0;
    else
        ((struct sockaddr_in6 *)&any_port)->sin6_port = 0;
    bool is = fd >= 0 && bind(fd, (struct sockaddr *)&any_port, sizeof(any_port)) == 0;
    gpud_fd_close(&fd);
    return is;
}

static enum gpud_status create_hub(const struct sockaddr_storage *address, const char *where,
                                   struct rdma_hub **hub, struct gpud_error *error)
{
    struct rdma_hub *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to listen on %s", where);
    made->address = *address;
    enum gpud_status status = gpud_rdma_open_events(&made->events, error);
    int number = status == GPUD_OK ? listen_on(made) : 0;
    if (number) {
        if (number == EADDRINUSE || (number == EADDRNOTAVAIL && is_of_this_host(address)))
            status = gpud_fail_native(error, GPUD_IO, "errno", EADDRINUSE, "the port is taken");
        else
            status = gpud_rdma_fail_call(error, number, "listen on", where);
    }
    if (status == GPUD_OK)
        *hub = made;
    else
        destroy_hub(made);
    return status;
}

static struct rdma_hub *find_hub(const struct sockaddr_storage *address)
{
    struct rdma_hub *hub = hubs;
    while (hub && memcmp(&hub->address, address, sizeof(*address)) != 0)
        hub = hub->next;
    return hub;
}

static enum gpud_status join_locked(struct rdma_port *port, const struct sockaddr_storage *address,
                                    const char *where, struct gpud_error *error)
{
    struct rdma_hub *hub = find_hub(address);
    enum gpud_status status = GPUD_OK;
    for (struct rdma_port *other = hub ? hub->ports : NULL; other; other = other->next)
        if (strcmp(other->name, port->name) == 0)
            return gpud_fail_native(error, GPUD_IO, "errno", EEXIST,
                                    "another sender has the address %s: this process itself; stop "
                                    "that one, or put another /NAME behind the port",
                                    where);
    if (!hub) {
        status = create_hub(address, where, &hub, error);
        if (status != GPUD_OK)
            return status;
        hub->next = hubs;
        hubs = hub;
    }
    port->hub = hub;
    port->next = hub->ports;
    hub->ports = port;
    return GPUD_OK;
}

static enum gpud_status fail_taken(const struct sockaddr_storage *address, const char *where,
                                   struct gpud_error *error)
{
    char holder[GPUD_PEER_TEXT_MAX];
    in_port_t port = address->ss_family == AF_INET
                         ? ((const struct sockaddr_in *)address)->sin_port
                         : ((const struct sockaddr_in6 *)address)->sin6_port;
    gpud_rdma_local_find(ntohs(port), holder, sizeof(holder));
    return gpud_fail_native(error, GPUD_IO, "errno", EADDRINUSE,
                            "%s listens on the port of %s: stop that, or choose another port "
                            "(channels share a port if one process sends them, on one address)",
                            holder[0] ? holder : "another process, no sender of this user,", where);
}

enum gpud_status gpud_rdma_join(struct rdma_port *port, const struct sockaddr_storage *address,
                                const char *where, struct gpud_error *error)
{
    int64_t deadline = gpud_deadline(PATIENCE);
    struct gpud_error why;
    for (;;) {
        why.native = 0;
        gpud_lock_take(&hubs_lock);
        enum gpud_status status = join_locked(port, address, where, &why);
        gpud_lock_release(&hubs_lock);
        bool taken = status == GPUD_IO && why.native == EADDRINUSE;
        if (taken && gpud_now() < deadline) {
            clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = PAUSE}, NULL);
            continue;
        }
        if (taken)
            return fail_taken(address, where, error);
        if (status == GPUD_IO && why.native == EEXIST)
            why.native = EADDRINUSE;
        if (status != GPUD_OK && error)
            *error = why;
        return status;
    }
}

void gpud_rdma_leave(struct rdma_port *port)
{
    gpud_lock_take(&hubs_lock);
    struct rdma_hub *hub = port->hub, **link = &hubs;
    struct rdma_port **place = &hub->ports;
    take_events(hub); /* removes cancelled requests from the queues */
    while (*place != port)
        place = &(*place)->next;
    *place = port->next;
    for (; port->count; port->count--) {
        struct rdma_cm_id *id = port->queue[port->first].id;
        gpud_rdma_reject(id, GPUD_RDMA_UNABLE);
        rdma_destroy_id(id);
        port->first = (port->first + 1) % RDMA_QUEUE_MAX;
    }
    if (!hub->ports) {
        while (*link != hub)
            link = &(*link)->next;
        *link = hub->next;
        destroy_hub(hub);
    }
    gpud_lock_release(&hubs_lock);
}

int gpud_rdma_hub_fd(const struct rdma_port *port)
{
    return port->hub->events->fd;
}
