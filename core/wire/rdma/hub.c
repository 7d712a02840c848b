/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each hub has one listening id for an address and port, and another one where a different process
 * has the port (share.h). One lock serves all hubs; no thread blocks while holding it, except that
 * gpud_rdma_share_try() may wait 20 ms for the kernel. */
#include "wire/rdma/hub.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/lock.h"
#include "wire/rdma/events.h"
#include "wire/rdma/local.h"
#include "wire/rdma/share.h"

#include <gpudirect/channel.h>

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define BACKLOG 128
/* The process that has, or had, the port may be dying. */
#define PATIENCE (2 * GPUD_SEC)
#define PAUSE (20 * GPUD_MSEC)

struct rdma_hub {
    struct rdma_hub *next;
    struct sockaddr_storage address;
    char where[GPUD_ADDRESS_MAX]; /* "10.0.0.1:7174" */
    struct rdma_event_channel *events;
    int fd;                /* to poll: of events, of the wait for the port, and of `retry` */
    int retry;             /* a timer, while the port is expected to become free */
    struct rdma_cm_id *id; /* NULL: another process has the port, or the card was taken out */
    struct gpud_rdma_share share;
    struct gpud_rdma_shares shares;
    /* Listens on a port of this process since another one had the hub's. NULL: none ever had, or
     * the card was taken out. */
    struct rdma_cm_id *own_id;
    uint16_t own_number;
    int64_t patience; /* until when a port that was taken over may still be taken */
    bool is_deaf;     /* it cannot listen, and tries again and again */
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

/* A channel or stream at the port: of this process, or of one that shares the port. */
struct known {
    char name[GPUD_RDMA_NAME_MAX + 1];
    struct rdma_port *port; /* NULL: another process listens for it, on port `number` */
    uint16_t number;
};

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct known *)a)->name, ((const struct known *)b)->name);
}

static struct rdma_port *find_own(const struct rdma_hub *hub, const char *name)
{
    struct rdma_port *port = hub->ports;
    while (port && strcmp(port->name, name) != 0)
        port = port->next;
    return port;
}

/* Lists all of them in the order of their names. The caller frees it; NULL: out of memory. */
static struct known *list_known(struct rdma_hub *hub, size_t *count)
{
    size_t own = 0, used = 0;
    gpud_rdma_shares_update(&hub->shares, hub->where);
    const struct gpud_rdma_shared *shared = hub->shares.entries;
    size_t others = hub->shares.count;
    for (const struct rdma_port *port = hub->ports; port; port = port->next)
        own++;
    struct known *known = calloc(own + others + 1, sizeof(*known));
    for (struct rdma_port *port = hub->ports; known && port; port = port->next) {
        known[used].port = port;
        gpud_print(known[used++].name, "%s", port->name);
    }
    for (size_t i = 0; known && i < others; i++) {
        if (find_own(hub, shared[i].name))
            continue;
        known[used].number = shared[i].number;
        memcpy(known[used++].name, shared[i].name, sizeof(shared[i].name));
    }
    if (known)
        qsort(known, used, sizeof(*known), compare);
    *count = known ? used : 0;
    return known;
}

/* Lists the names behind `name` in their order, which may be more than fit. */
static void list_names(struct rdma_hub *hub, const char *name, struct gpud_rdma_refusal *refusal)
{
    size_t count;
    struct known *known = list_known(hub, &count);
    for (size_t i = 0; i < count; i++)
        if (!name || strcmp(known[i].name, name) > 0)
            gpud_rdma_add_name(refusal, known[i].name);
    free(known);
}

/* The only channel, not counting its streams; false: there are none or several. */
static bool find_only_channel(struct rdma_hub *hub, struct known *only)
{
    size_t count, channels = 0;
    struct known *known = list_known(hub, &count);
    for (size_t i = 0; i < count; i++) {
        if (strchr(known[i].name, '/'))
            continue;
        *only = known[i];
        channels++;
    }
    free(known);
    return channels == 1;
}

/* A request without a name is for the channel without one, or for the only channel. */
static bool find_channel(struct rdma_hub *hub, const char *name, struct known *found)
{
    char channel[GPUD_ADDRESS_MAX + GPUD_RDMA_NAME_MAX];
    found->port = find_own(hub, name);
    if (found->port)
        return true;
    gpud_print(channel, "%s%s%s", hub->where, name[0] ? "/" : "", name);
    found->number = gpud_rdma_share_find(channel);
    return found->number || (!name[0] && find_only_channel(hub, found));
}

/* Queues the request for its channel; false, with the reason in *refusal, if that is impossible. */
static bool enqueue(struct rdma_hub *hub, const struct gpud_rdma_event *event,
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
    struct known found = {.name = ""};
    if (!find_channel(hub, request.data.name, &found)) {
        refusal->reason = request.data.name[0] ? GPUD_RDMA_UNKNOWN_NAME : GPUD_RDMA_NAME_WANTED;
        list_names(hub, NULL, refusal);
        return false;
    }
    struct rdma_port *port = found.port;
    if (!port) {
        gpud_rdma_refuse_moved(refusal, found.number);
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
        } else if (event.id != hub->id && event.id != hub->own_id) {
            forget(hub, event.id);
        } else if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
            struct rdma_cm_id **id = event.id == hub->id ? &hub->id : &hub->own_id;
            rdma_destroy_id(*id); /* the kernel removes the card once it is unused */
            *id = NULL;
        }
    }
}

/* --- listening ----------------------------------------------------------------------------- */

static in_port_t *port_of(struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? &((struct sockaddr_in *)address)->sin_port
                                         : &((struct sockaddr_in6 *)address)->sin6_port;
}

/* Needed because rdma_cm reports the same errno for an address that is not this host's and for a
 * port that is taken on all of its addresses. */
static bool is_of_this_host(const struct sockaddr_storage *address)
{
    struct sockaddr_storage any_port = *address;
    int fd = socket(address->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *port_of(&any_port) = 0;
    bool is = fd >= 0 && bind(fd, (struct sockaddr *)&any_port, sizeof(any_port)) == 0;
    gpud_fd_close(&fd);
    return is;
}

/* On the hub's port, or on one that the kernel chooses. 0, or the errno of what failed, which is
 * EADDRINUSE if the port is taken. */
static int listen_on(struct rdma_hub *hub, struct rdma_cm_id **id, bool any_port)
{
    struct sockaddr_storage bound = hub->address; /* rdma_cm's parameter is not const */
    if (any_port)
        *port_of(&bound) = 0;
    if (rdma_create_id(hub->events, id, NULL, RDMA_PS_TCP) < 0)
        return errno;
    if (rdma_bind_addr(*id, (struct sockaddr *)&bound) == 0 && rdma_listen(*id, BACKLOG) == 0)
        return 0;
    int number = errno;
    rdma_destroy_id(*id);
    *id = NULL;
    return number == EADDRNOTAVAIL && is_of_this_host(&hub->address) ? EADDRINUSE : number;
}

/* Makes the note of a channel right, which is needed as long as another process has the port. */
static enum gpud_status note(const struct rdma_hub *hub, struct rdma_port *port,
                             struct gpud_error *error)
{
    return gpud_rdma_share_note(port->where + strlen("rdma://"),
                                hub->share.waits ? hub->own_number : 0, error);
}

static int listen_on_own(struct rdma_hub *hub)
{
    int number = listen_on(hub, &hub->own_id, true);
    if (number)
        return number;
    hub->own_number = ntohs(rdma_get_src_port(hub->own_id));
    for (struct rdma_port *port = hub->ports; port; port = port->next)
        if (port->is_noted)
            note(hub, port, NULL);
    return 0;
}

static bool watch(const struct rdma_hub *hub, int fd)
{
    struct epoll_event readable = {.events = EPOLLIN};
    return epoll_ctl(hub->fd, EPOLL_CTL_ADD, fd, &readable) == 0;
}

static void retry_soon(const struct rdma_hub *hub)
{
    struct itimerspec soon = {.it_value = gpud_timespec(PAUSE)};
    uint64_t ignored;
    ssize_t got = read(hub->retry, &ignored, sizeof(ignored));
    (void)got; /* non-blocking; the count does not matter */
    timerfd_settime(hub->retry, 0, &soon, NULL);
}

/* Takes over the port when its holder has ended, and listens again where a network card was taken
 * out. GPUD_AGAIN: there is nothing to do, or not yet. GPUD_IO: no receiver can connect. */
static enum gpud_status attend(struct rdma_hub *hub, struct gpud_error *error)
{
    enum gpud_status status = GPUD_AGAIN;
    int number = 0;
    hub->is_deaf = false;
    if (hub->share.waits) {
        status = gpud_rdma_share_try(&hub->share, error);
        hub->patience = gpud_deadline(PATIENCE);
    }
    if (hub->share.waits && !hub->own_id)
        number = listen_on_own(hub);
    else if (!hub->share.waits && !hub->id)
        number = listen_on(hub, &hub->id, false);
    if (number == EADDRINUSE && gpud_now() < hub->patience) {
        retry_soon(hub);
        return GPUD_AGAIN;
    }
    hub->is_deaf = number != 0;
    if (number == EADDRINUSE)
        return gpud_fail(error, GPUD_IO,
                         "no receiver can connect: the sender that had the port of %s has ended, "
                         "and another program has the port now: stop that program",
                         hub->where);
    if (number)
        return gpud_fail(error, GPUD_IO,
                         "no receiver can connect until the network card with this address, "
                         "which was taken out of the system, is back");
    return status == GPUD_OK ? GPUD_AGAIN : status;
}

/* Keeps the event readable only while a request is queued, or listening must be tried again. */
static void settle_event(const struct rdma_port *port)
{
    uint64_t ignored;
    ssize_t got =
        port->count || port->hub->is_deaf ? 0 : read(port->event, &ignored, sizeof(ignored));
    (void)got; /* non-blocking; the count does not matter */
}

enum gpud_status gpud_rdma_look_for_request(struct rdma_port *port, struct gpud_error *error)
{
    gpud_lock_take(&hubs_lock);
    struct rdma_hub *hub = port->hub;
    take_events(hub);
    enum gpud_status status = attend(hub, error);
    if (port->count)
        status = GPUD_OK;
    for (struct rdma_port *one = hub->ports; hub->is_deaf && one; one = one->next)
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
    if (hub->own_id)
        rdma_destroy_id(hub->own_id);
    if (hub->id)
        rdma_destroy_id(hub->id);
    gpud_rdma_shares_free(&hub->shares);
    gpud_rdma_share_close(&hub->share); /* last: the next holder finds the port free */
    if (hub->events)
        rdma_destroy_event_channel(hub->events);
    gpud_fd_close(&hub->retry);
    gpud_fd_close(&hub->fd);
    free(hub);
}

static enum gpud_status open_hub(struct rdma_hub *hub, const char *where, struct gpud_error *error)
{
    enum gpud_status status = gpud_rdma_open_events(&hub->events, error);
    if (status == GPUD_OK)
        status = gpud_rdma_share_open(&hub->share, hub->where, error);
    if (status != GPUD_OK)
        return status;
    hub->fd = epoll_create1(EPOLL_CLOEXEC);
    hub->retry = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (hub->fd < 0 || hub->retry < 0 || !watch(hub, hub->events->fd) || !watch(hub, hub->retry) ||
        (hub->share.waits && !watch(hub, hub->share.wait.events)))
        return gpud_fail_errno(error, "no descriptors to listen on %s", where);
    int number = hub->share.waits ? listen_on_own(hub) : listen_on(hub, &hub->id, false);
    if (number == EADDRINUSE)
        return gpud_fail_native(error, GPUD_IO, "errno", number, "the port is taken");
    return number ? gpud_rdma_fail_call(error, number, "listen on", where) : GPUD_OK;
}

static enum gpud_status create_hub(const struct sockaddr_storage *address, const char *where,
                                   struct rdma_hub **hub, struct gpud_error *error)
{
    struct rdma_hub *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to listen on %s", where);
    const char *host = where + strlen("rdma://");
    made->address = *address;
    made->fd = made->retry = made->share.lock = -1;
    gpud_print(made->where, "%.*s", (int)strcspn(host, "/"), host);
    enum gpud_status status = open_hub(made, where, error);
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
    port->where = where;
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
                            "(the senders of one user share a port if all give the same address)",
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

enum gpud_status gpud_rdma_announce(struct rdma_port *port, struct gpud_error *error)
{
    gpud_lock_take(&hubs_lock);
    enum gpud_status status = note(port->hub, port, error);
    port->is_noted = status == GPUD_OK;
    if (!port->hub->share.waits)
        status = GPUD_OK; /* nothing was to be noted */
    gpud_lock_release(&hubs_lock);
    return status;
}

bool gpud_rdma_is_shared(const struct rdma_port *port)
{
    gpud_lock_take(&hubs_lock);
    bool is = port->hub->share.waits;
    gpud_lock_release(&hubs_lock);
    return is || gpud_rdma_share_find(port->where + strlen("rdma://"));
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
    if (port->is_noted)
        gpud_rdma_share_note(port->where + strlen("rdma://"), 0, NULL);
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
    return port->hub->fd;
}
