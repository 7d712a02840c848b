/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A channel over a connection, and its end. */
#include "wire/rdma/rdma.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* === ending ================================================================================== */
/* Destroying a connection's id, and whether that is possible now; channel.c explains why not. */

/* Whether everything sent has arrived, or never will. */
static bool rdma_has_arrived_locked(struct rdma_channel *channel)
{
    return !channel->rdma || gpud_rdma_has_failed(channel->rdma, NULL) ||
           gpud_rdma_is_done(channel->rdma, gpud_rdma_posted(channel->rdma));
}

static socklen_t size_of(const struct sockaddr *address)
{
    return address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* Whether an rdma_cm message can reach the peer; also true if none would be sent. */
static bool rdma_has_route_locked(const struct rdma_channel *channel)
{
    if (channel->phase < RDMA_PROVING || !channel->id || channel->card_gone)
        return true;
    struct sockaddr_storage own = channel->id->route.addr.src_storage;
    const struct sockaddr *peer = rdma_get_peer_addr(channel->id);
    if (own.ss_family == AF_INET)
        ((struct sockaddr_in *)&own)->sin_port = 0;
    else
        ((struct sockaddr_in6 *)&own)->sin6_port = 0;
    int fd = socket(own.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool has =
        fd < 0 || (bind(fd, (struct sockaddr *)&own, size_of((struct sockaddr *)&own)) == 0 &&
                   connect(fd, peer, size_of(peer)) == 0);
    gpud_fd_close(&fd);
    return has;
}

void gpud_rdma_drop_id_locked(struct rdma_channel *channel)
{
    if (channel->rdma) {
        gpud_rdma_end(channel->rdma);
        gpud_rdma_unref(&channel->rdma);
    }
    if (channel->id)
        rdma_destroy_id(channel->id);
    channel->id = NULL;
}

void gpud_rdma_disconnect_locked(struct rdma_channel *channel, const char *why)
{
    gpud_received_remove(&channel->received);
    if (!channel->rdma)
        return;
    gpud_rdma_fail(channel->rdma, why);
    if (rdma_has_route_locked(channel)) /* else destroying the id does it, see channel.c */
        rdma_disconnect(channel->id);
}

/* === lifetime ================================================================================ */
/* Makes and frees a channel, with its descriptors and records. */

bool gpud_rdma_channel_watch(const struct rdma_channel *channel, int fd)
{
    struct epoll_event readable = {.events = EPOLLIN};
    return epoll_ctl(channel->base.fd, EPOLL_CTL_ADD, fd, &readable) == 0;
}

static enum gpud_status open_fds(struct rdma_channel *channel, struct gpud_error *error)
{
    channel->base.fd = epoll_create1(EPOLL_CLOEXEC);
    channel->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    channel->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (channel->base.fd < 0 || channel->event < 0 || channel->timer < 0 ||
        !gpud_rdma_channel_watch(channel, channel->event) ||
        !gpud_rdma_channel_watch(channel, channel->timer))
        return gpud_fail_errno(error, "no descriptors for a connection");
    enum gpud_status status = gpud_rdma_open_events(&channel->events, error);
    if (status == GPUD_OK && !gpud_rdma_channel_watch(channel, channel->events->fd))
        status = gpud_fail_errno(error, "no descriptors for a connection");
    return status;
}

enum gpud_status gpud_rdma_channel_create(bool is_sender, const struct gpud_rdma_place *place,
                                          struct rdma_channel **channel, struct gpud_error *error)
{
    struct rdma_channel *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a connection");
    made->base.ops = &gpud_rdma_channel_ops;
    atomic_init(&made->base.references, 1);
    made->base.fd = made->base.peer_fd = made->event = made->timer = -1;
    made->base.peer = (struct gpud_peer){.uid = (uid_t)-1, .foreign = true};
    gpud_print(made->base.peer.host, "%s", place->host);
    made->is_sender = is_sender;
    made->place = *place;
    made->received.lock = -1;
    made->deadline = made->ask_again = INT64_MAX;
    gpud_lock_init(&made->lock, GPUD_RANK_RDMA_CHANNEL);
    gpud_lock_init(&made->arm_lock, GPUD_RANK_RDMA_ARM);
    gpud_lock_init(&made->records_lock, GPUD_RANK_RDMA_RECORDS);
    enum gpud_status status = open_fds(made, error);
    if (status == GPUD_OK)
        *channel = made;
    else
        gpud_rdma_channel_destroy(made);
    return status;
}

void gpud_rdma_channel_destroy(struct rdma_channel *channel)
{
    gpud_rdma_disconnect_locked(channel, "this side closed the connection");
    gpud_rdma_drop_id_locked(channel);
    gpud_rdma_collect_records(channel, true);
    gpud_rdma_close_events(&channel->events);
    gpud_rdma_lookup_end(&channel->lookup);
    while (channel->waiting_count)
        free(channel->waiting[--channel->waiting_count].bytes);
    gpud_auth_wipe_key(&channel->key);
    gpud_fd_close(&channel->timer);
    gpud_fd_close(&channel->event);
    gpud_fd_close(&channel->base.fd);
    gpud_lock_destroy(&channel->records_lock);
    gpud_lock_destroy(&channel->arm_lock);
    gpud_lock_destroy(&channel->lock);
    free(channel);
}

/* === closing ================================================================================= */
/* Lingering: disconnecting discards what the card has not sent yet, and a side that hangs up after
 * a REFUSE or a BYE wants it delivered. One thread handles all connections that are ending, while
 * there are any; a process that exits waits a second for it.
 *
 * Destroying an id makes the kernel send an rdma_cm message. With soft-RoCE, such a message without
 * a route permanently stops the queue pair that the whole host uses for them: no program can
 * connect by that card any more. So an id is kept while its route is missing. */

#define LOOK GPUD_MSEC
#define ROUTE_LOOK (50 * GPUD_MSEC)

/* When to give up on a route that does not come back, as after a change of addresses. */
#define ROUTE_PATIENCE (600 * GPUD_SEC)

static struct gpud_lock closing_lock =
    GPUD_LOCK_INITIALIZER(GPUD_RANK_RDMA_CLOSING); /* for the variables below */

static struct rdma_channel *closing;
static pthread_t thread;
static bool is_running, is_joinable, is_exiting;
static pid_t started_by; /* a child of fork() has these variables, but no thread */

/* Also true if the other side has ended it meanwhile. */
static bool closing_is_over(struct rdma_channel *channel)
{
    gpud_lock_take(&channel->lock);
    gpud_rdma_drive_locked(channel);
    gpud_lock_release(&channel->lock);
    return gpud_rdma_has_failed(channel->rdma, NULL) ||
           gpud_rdma_is_done(channel->rdma, channel->last_posted) || gpud_now() >= channel->linger;
}

/* Whether its id can be destroyed now. */
static bool may_end(struct rdma_channel *channel)
{
    gpud_lock_take(&channel->lock);
    bool may = is_exiting || gpud_now() >= channel->linger + ROUTE_PATIENCE ||
               rdma_has_route_locked(channel);
    gpud_lock_release(&channel->lock);
    return may;
}

static void closing_finish(struct rdma_channel *channel)
{
    struct gpud_channel *base = &channel->base;
    if (atomic_load(&base->references) == 0) {
        gpud_rdma_channel_destroy(channel);
        return;
    }
    gpud_lock_take(&channel->lock);
    gpud_rdma_disconnect_locked(channel, "this side hung up");
    gpud_lock_release(&channel->lock);
    gpud_channel_unref(&base);
}

/* Unlinks the connections that can be finished. *pause: how long the others may wait. */
static struct rdma_channel *closing_take_over(int64_t *pause)
{
    struct rdma_channel *over = NULL, **link = &closing;
    *pause = ROUTE_LOOK;
    while (*link) {
        struct rdma_channel *one = *link;
        bool has_ended = closing_is_over(one);
        if (!has_ended)
            *pause = LOOK;
        if (!has_ended || !may_end(one)) {
            link = &one->next_closing;
            continue;
        }
        *link = one->next_closing;
        one->next_closing = over;
        over = one;
    }
    return over;
}

static void nap(int64_t pause)
{
    clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = pause}, NULL);
}

static void *closing_run(void *arg)
{
    gpud_lock_take(&closing_lock);
    while (closing) {
        int64_t pause;
        struct rdma_channel *over = closing_take_over(&pause);
        gpud_lock_release(&closing_lock);
        if (!over)
            nap(pause);
        while (over) {
            struct rdma_channel *one = over;
            over = one->next_closing;
            closing_finish(one); /* may add another */
        }
        gpud_lock_take(&closing_lock);
    }
    is_running = false;
    gpud_lock_release(&closing_lock);
    return NULL;
}

static bool closing_start(void)
{
    if (is_running && started_by == getpid())
        return true;
    if (is_joinable && started_by == getpid())
        pthread_join(thread, NULL); /* it is already returning */
    is_joinable = is_running = pthread_create(&thread, NULL, closing_run, NULL) == 0;
    started_by = getpid();
    return is_running;
}

static void closing_add(struct rdma_channel *channel)
{
    channel->last_posted = gpud_rdma_posted(channel->rdma);
    channel->linger = gpud_deadline(RDMA_LINGER);
    gpud_lock_take(&closing_lock);
    if (started_by != getpid())
        closing = NULL; /* a parent's */
    channel->next_closing = closing;
    closing = channel;
    bool started = closing_start();
    if (!started)
        closing = channel->next_closing;
    gpud_lock_release(&closing_lock);
    if (started)
        return;
    while (!closing_is_over(channel)) /* without a thread, the caller waits */
        nap(LOOK);
    closing_finish(channel);
}

/* Disconnects the channel, or destroys it once it has no reference, after its messages have arrived
 * and the peer can be notified, or RDMA_LINGER has passed. Not under its lock. */
static void rdma_disconnect_later(struct rdma_channel *channel)
{
    gpud_channel_ref(&channel->base);
    closing_add(channel);
}

static void rdma_destroy_later(struct rdma_channel *channel)
{
    closing_add(channel);
}

__attribute__((destructor)) static void await_thread(void)
{
    gpud_lock_take(&closing_lock);
    bool join = is_joinable && started_by == getpid();
    is_exiting = true;
    gpud_lock_release(&closing_lock);
    if (join) /* RDMA_LINGER at most */
        pthread_join(thread, NULL);
}

/* === verbs =================================================================================== */
/* The verbs of a connection's card, for the application's own data; see wire/wire.h. */

static struct gpud_rdma *rdma_of(const struct gpud_channel *base)
{
    return ((const struct rdma_channel *)base)->rdma;
}

/* --- memory -------------------------------------------------------------------------------- */

static enum gpud_status register_memory(struct gpud_channel *channel, struct gpud_memory *memory,
                                        unsigned access, struct gpud_verbs_region *region,
                                        struct gpud_error *error)
{
    static const char *const ways[] = {
        [GPUD_RDMA_DMABUF] = "dmabuf",
        [GPUD_RDMA_PEERMEM] = "peermem",
        [GPUD_RDMA_HOST] = "host",
    };
    struct gpud_rdma_region *made;
    enum gpud_rdma_way way;
    unsigned wanted = GPUD_RDMA_LOCAL_WRITE;
    if (access & GPUD_VERBS_REMOTE_WRITE)
        wanted |= GPUD_RDMA_REMOTE_WRITE;
    if (access & GPUD_VERBS_REMOTE_READ)
        wanted |= GPUD_RDMA_REMOTE_READ;
    enum gpud_status status =
        gpud_rdma_register_memory(rdma_of(channel), memory, wanted, &made, &way, error);
    if (status == GPUD_OK)
        *region = (struct gpud_verbs_region){
            .address = gpud_rdma_region_address(made),
            .key = gpud_rdma_region_key(made),
            .way = ways[way],
            .record = made,
        };
    return status;
}

static void unregister(struct gpud_verbs_region *region)
{
    struct gpud_rdma_region *gone = region->record;
    region->record = NULL;
    gpud_rdma_unregister(&gone);
}

/* --- requests ------------------------------------------------------------------------------ */

static struct gpud_rdma_transfer verbs_transfer_of(const struct gpud_verbs_region *region,
                                                   uint64_t offset, uint64_t size, uint64_t address,
                                                   uint32_t key)
{
    return (struct gpud_rdma_transfer){
        .local = region->record,
        .local_offset = offset,
        .remote_address = address,
        .remote_key = key,
        .size = size,
        .tells = true,
    };
}

static enum gpud_status write_to(struct gpud_channel *channel,
                                 const struct gpud_verbs_region *region, uint64_t offset,
                                 uint64_t size, uint64_t address, uint32_t key,
                                 struct gpud_error *error)
{
    struct gpud_rdma_transfer transfer = verbs_transfer_of(region, offset, size, address, key);
    return gpud_rdma_write(rdma_of(channel), &transfer, error);
}

static enum gpud_status read_from(struct gpud_channel *channel,
                                  const struct gpud_verbs_region *region, uint64_t offset,
                                  uint64_t size, uint64_t address, uint32_t key,
                                  struct gpud_error *error)
{
    struct gpud_rdma_transfer transfer = verbs_transfer_of(region, offset, size, address, key);
    return gpud_rdma_read(rdma_of(channel), &transfer, error);
}

static enum gpud_status send_bytes(struct gpud_channel *channel, const void *bytes, size_t size,
                                   struct gpud_error *error)
{
    return gpud_rdma_send(rdma_of(channel), bytes, size, error);
}

static enum gpud_status receive_bytes(struct gpud_channel *channel, const void **bytes,
                                      size_t *size, struct gpud_error *error)
{
    return gpud_rdma_receive(rdma_of(channel), bytes, size, error);
}

/* --- completions --------------------------------------------------------------------------- */

static void verbs_look(struct gpud_channel *channel, struct gpud_verbs_state *state)
{
    struct gpud_rdma *rdma = rdma_of(channel);
    struct gpud_error why = {.reason = ""};
    gpud_rdma_progress(rdma);
    state->posted = gpud_rdma_posted(rdma);
    gpud_rdma_is_done(rdma, state->posted); /* requests a completion if none is pending */
    state->failed = gpud_rdma_has_failed(rdma, &why);
    state->done = gpud_rdma_succeeded(rdma, &state->refused);
    gpud_print(state->reason, "%s", why.reason);
}

static void arm(struct gpud_channel *base)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    uint64_t ignored;
    ssize_t got = read(channel->event, &ignored, sizeof(ignored));
    (void)got; /* non-blocking; the count does not matter */
    gpud_lock_take(&channel->lock);
    gpud_rdma_drive_locked(channel);
    gpud_lock_release(&channel->lock);
    gpud_rdma_arm(channel->rdma, false);
}

static void verbs_end(struct gpud_channel *base, const char *reason)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    gpud_lock_take(&channel->lock);
    gpud_rdma_disconnect_locked(channel, reason);
    gpud_rdma_end(channel->rdma);
    gpud_lock_release(&channel->lock);
}

const struct gpud_verbs_ops gpud_rdma_verbs = {
    .register_memory = register_memory,
    .unregister = unregister,
    .write = write_to,
    .read = read_from,
    .send = send_bytes,
    .receive = receive_bytes,
    .look = verbs_look,
    .arm = arm,
    .end = verbs_end,
};

/* === channel ================================================================================= */
/* The operations of the rdma kind of channel. */

/* --- connecting ---------------------------------------------------------------------------- */

static enum gpud_status connect_to(const struct gpud_address *address,
                                   const struct gpud_access_rule *access,
                                   struct gpud_channel **channel, struct gpud_peer *peer,
                                   struct gpud_error *error)
{
    struct gpud_rdma_place place;
    struct rdma_channel *made;
    struct gpud_auth_key key = {0};
    bool has_key = access && access->key_file[0];
    enum gpud_status status = gpud_rdma_parse(address->place, &place, NULL, error);
    if (status == GPUD_OK && gpud_rdma_is_wildcard(&place))
        status =
            gpud_fail(error, GPUD_INVALID,
                      "%s means every address, to listen on: give the sender's own", place.host);
    /* Read first, so that a wrong key file is reported on a machine without a card too. */
    if (status == GPUD_OK && has_key)
        status = gpud_auth_read_key(access->key_file, &key, error);
    if (status == GPUD_OK)
        status = gpud_rdma_channel_create(false, &place, &made, error);
    if (status == GPUD_OK) {
        made->has_key = has_key;
        made->key = key;
    }
    gpud_auth_wipe_key(&key);
    if (status != GPUD_OK)
        return status;
    *peer = made->base.peer;
    gpud_print(made->where, "%s", address->place);
    status = gpud_rdma_channel_connect(made, error);
    if (status == GPUD_OK)
        *channel = &made->base;
    else
        gpud_rdma_channel_destroy(made);
    return status;
}

/* --- messages ------------------------------------------------------------------------------ */

static bool is_ring_of_network(const struct gpud_ring_description *ring)
{
    for (uint32_t i = 0; i < ring->memories; i++)
        if (ring->handle[i].type != GPUD_HANDLE_NETWORK)
            return false;
    return true;
}

static bool is_of_network(const struct gpud_handle *handle)
{
    return handle->type == GPUD_HANDLE_NONE || handle->type == GPUD_HANDLE_NETWORK;
}

/* Other kinds of handles are valid only on their host. */
static bool can_travel(const struct gpud_message *message)
{
    switch (message->type) {
    case GPUD_MESSAGE_OFFER:
        return is_of_network(&message->offer.page) && is_ring_of_network(&message->offer.ring);
    case GPUD_MESSAGE_ACCEPT:
        return is_of_network(&message->accept.page) &&
               is_of_network(&message->accept.large_metas) &&
               is_ring_of_network(&message->accept.ring);
    case GPUD_MESSAGE_GROW:
        return is_ring_of_network(&message->grow);
    default:
        return true;
    }
}

/* Queues a message until the connection is established. */
static enum gpud_status channel_keep(struct rdma_channel *channel, const uint8_t *bytes,
                                     size_t size, struct gpud_error *error)
{
    struct rdma_waiting *waiting = &channel->waiting[channel->waiting_count];
    if (channel->waiting_count == RDMA_WAITING_MAX)
        return gpud_fail(error, GPUD_AGAIN, "%s is not connected yet", channel->where);
    waiting->bytes = malloc(size);
    if (!waiting->bytes)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a message");
    memcpy(waiting->bytes, bytes, size);
    waiting->size = size;
    channel->waiting_count++;
    return GPUD_OK;
}

static enum gpud_status channel_send_message(struct gpud_channel *base,
                                             struct gpud_message *message, struct gpud_error *error)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    uint8_t bytes[GPUD_MESSAGE_MAX];
    size_t size;
    if (!can_travel(message))
        return gpud_fail(error, GPUD_INVALID,
                         "a %s with memory of this host cannot be sent to another one",
                         gpud_message_name(message->type));
    enum gpud_status status = gpud_message_encode(message, bytes, sizeof(bytes), &size, error);
    if (status != GPUD_OK)
        return status;
    gpud_lock_take(&channel->lock);
    if (channel->phase < RDMA_OPEN)
        gpud_rdma_drive_locked(channel);
    if (channel->hung_up)
        status = gpud_fail(error, GPUD_PEER, "this side hung up");
    else if (channel->phase == RDMA_ENDED)
        status = gpud_fail(error, GPUD_PEER, "%s", channel->end.reason);
    else if (channel->phase == RDMA_OPEN)
        status = gpud_rdma_send(channel->rdma, bytes, size, error);
    else
        status = channel_keep(channel, bytes, size, error);
    gpud_lock_release(&channel->lock);
    return status;
}

/* Receives a message, or a KICK, from an open channel. */
static enum gpud_status take_message(struct rdma_channel *channel, struct gpud_message *message,
                                     struct gpud_error *error)
{
    const void *bytes;
    size_t size;
    enum gpud_status status = gpud_rdma_receive(channel->rdma, &bytes, &size, error);
    if (status == GPUD_AGAIN && gpud_rdma_take_kick(channel)) {
        message->type = GPUD_MESSAGE_KICK;
        message->position = 0;
        return GPUD_OK;
    }
    if (status == GPUD_OK)
        status = gpud_message_decode(message, bytes, size, error);
    if (status == GPUD_OK && !can_travel(message))
        status = gpud_fail(error, GPUD_PEER, "the peer sent a %s with memory of its own host",
                           gpud_message_name(message->type));
    return status;
}

/* Reports why the connection was never established; statuses that callers do not distinguish become
 * GPUD_CLOSED. */
static enum gpud_status report_end(const struct gpud_error *end, struct gpud_error *error)
{
    enum gpud_status status = end->status;
    if (status != GPUD_NO_ACCESS && status != GPUD_UNSUPPORTED && status != GPUD_PEER)
        status = GPUD_CLOSED;
    if (error) {
        *error = *end;
        error->status = status;
    }
    return status;
}

/* Handles pending events and receives a message. *phase: the phase afterwards. The caller sees the
 * channel connected before it gets the first message. */
static enum gpud_status look_once(struct rdma_channel *channel, struct gpud_message *message,
                                  enum rdma_phase *phase, struct gpud_error *error)
{
    enum gpud_status status = GPUD_AGAIN;
    bool was_connected = atomic_load(&channel->base.connected);
    gpud_lock_take(&channel->lock);
    gpud_rdma_drive_locked(channel);
    while (channel->phase == RDMA_PROVING && gpud_rdma_prove_locked(channel))
        ;
    *phase = channel->phase;
    if (channel->hung_up)
        status = gpud_fail(error, GPUD_CLOSED, "this side hung up");
    else if (channel->phase == RDMA_ENDED)
        status = report_end(&channel->end, error);
    gpud_lock_release(&channel->lock);
    if (status == GPUD_AGAIN && was_connected)
        status = take_message(channel, message, error);
    return status;
}

static void drain_event(const struct rdma_channel *channel)
{
    uint64_t ignored;
    ssize_t got = read(channel->event, &ignored, sizeof(ignored));
    (void)got; /* non-blocking; the count does not matter */
}

static enum gpud_status receive_message(struct gpud_channel *base, struct gpud_message *message,
                                        struct gpud_error *error)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    bool was_connected = atomic_load(&base->connected);
    enum rdma_phase phase;
    enum gpud_status status = look_once(channel, message, &phase, error);
    if (status != GPUD_AGAIN || (phase == RDMA_OPEN && !was_connected))
        return status; /* the descriptor stays readable */
    drain_event(channel);
    if (phase >= RDMA_PROVING)
        gpud_rdma_arm_to_receive(channel);
    status = look_once(channel, message, &phase, error);
    if (status != GPUD_AGAIN || (phase == RDMA_OPEN && !was_connected))
        gpud_event_raise(channel->event); /* more may follow, and an end stays readable */
    if (status == GPUD_AGAIN)
        gpud_rdma_collect_records(channel, false);
    return status;
}

/* --- the end ------------------------------------------------------------------------------- */

static bool channel_is_dead(const struct gpud_channel *base)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    gpud_lock_take(&channel->lock);
    gpud_rdma_drive_locked(channel);
    bool dead = channel->phase == RDMA_ENDED || channel->hung_up ||
                (channel->phase >= RDMA_PROVING && !gpud_rdma_is_alive(channel->rdma));
    gpud_lock_release(&channel->lock);
    return dead;
}

static void channel_hang_up(struct gpud_channel *base)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    bool later = false;
    struct gpud_error why;
    gpud_lock_take(&channel->lock);
    bool first = !channel->hung_up;
    if (first && channel->phase < RDMA_PROVING) {
        gpud_fail(&why, GPUD_CLOSED, "this side hung up");
        gpud_rdma_end_locked(channel, &why);
        gpud_rdma_drop_id_locked(channel);
    } else if (first && rdma_has_arrived_locked(channel) && rdma_has_route_locked(channel)) {
        gpud_rdma_disconnect_locked(channel, "this side hung up");
    } else if (first) {
        later = true;
    }
    channel->hung_up = true;
    gpud_event_raise(channel->event);
    gpud_lock_release(&channel->lock);
    if (later)
        rdma_disconnect_later(channel);
}

static void channel_close_channel(struct gpud_channel *base)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    /* No lock is needed: there is no other reference. */
    if (rdma_has_arrived_locked(channel) && rdma_has_route_locked(channel))
        gpud_rdma_channel_destroy(channel);
    else
        rdma_destroy_later(channel);
}

const struct gpud_channel_ops gpud_rdma_channel_ops = {
    .listen = gpud_rdma_listen,
    .unlisten = gpud_rdma_unlisten,
    .accept = gpud_rdma_accept,
    .connect = connect_to,
    .send = channel_send_message,
    .receive = receive_message,
    .is_dead = channel_is_dead,
    .hang_up = channel_hang_up,
    .close = channel_close_channel,
    .tell = gpud_rdma_tell,
    .remote = &gpud_rdma_remote_ops,
    .verbs = &gpud_rdma_verbs,
};
