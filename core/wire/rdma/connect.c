/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Setting up a connection, from either end. */
#include "wire/rdma/rdma.h"

#include "base/base.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* === connect ================================================================================= */
/* Establishes a connection step by step, driven by rdma_cm's events. Each of a host's addresses is
 * tried in turn; the last failure is reported. */

/* Reasons of the InfiniBand connection manager; iWARP has negative errnos in their place. */
#define REJECTED_NO_LISTENER 8
#define REJECTED_STALE 10
#define REJECTED_BY_PEER 28

_Static_assert(GPUD_RDMA_RECEIVES_MIN > GPUD_RDMA_NOTICES, "messages have receives, too");

_Static_assert(GPUD_RDMA_MESSAGE_MAX >= GPUD_MESSAGE_MAX, "every message fits");

int64_t gpud_rdma_handshake_deadline = 5 * GPUD_SEC;

/* --- ending -------------------------------------------------------------------------------- */

static void set_timer(struct rdma_channel *channel)
{
    bool sooner = channel->ask_again < channel->deadline;
    struct itimerspec until = {0};
    until.it_value = gpud_timespec(sooner ? channel->ask_again : channel->deadline);
    timerfd_settime(channel->timer, TFD_TIMER_ABSTIME, &until, NULL);
}

static void set_deadline(struct rdma_channel *channel, int64_t timeout)
{
    channel->deadline = gpud_deadline(timeout);
    set_timer(channel);
}

/* The connection is established or has failed for good: wakes the thread that polls the channel. */
static void connect_finish(struct rdma_channel *channel, enum rdma_phase phase)
{
    channel->phase = phase;
    if (phase == RDMA_OPEN)
        set_deadline(channel, GPUD_RDMA_SILENCE);
    else
        gpud_fd_close(&channel->timer);
    if (phase == RDMA_OPEN && !channel->is_sender)
        gpud_received_note(&channel->received, channel->where);
    gpud_rdma_lookup_end(&channel->lookup);
    gpud_auth_wipe_key(&channel->key);
    gpud_event_raise(channel->event);
}

void gpud_rdma_end_locked(struct rdma_channel *channel, const struct gpud_error *why)
{
    channel->end = *why;
    connect_finish(channel, RDMA_ENDED);
}

/* Detects a vanished host for a side that only waits for messages. */
static void check_peer(struct rdma_channel *channel)
{
    if (gpud_rdma_is_alive(channel->rdma)) {
        set_deadline(channel, GPUD_RDMA_SILENCE);
        return;
    }
    channel->deadline = INT64_MAX;
    gpud_fd_close(&channel->timer);
}

/* --- to the sender ------------------------------------------------------------------------- */

static void connect_next(struct rdma_channel *channel, const struct gpud_error *why);

/* Abandons this address and tries the next one. */
static void connect_give_up(struct rdma_channel *channel, struct gpud_error *why)
{
    gpud_rdma_drop_id_locked(channel);
    connect_next(channel, why);
}

static void fail_call(struct rdma_channel *channel, int number, const char *action)
{
    struct gpud_error why;
    gpud_rdma_fail_call(&why, number, action, channel->where);
    connect_give_up(channel, &why);
}

static bool connect_resolve(struct rdma_channel *channel, struct sockaddr *address)
{
    return rdma_create_id(channel->events, &channel->id, channel, RDMA_PS_TCP) == 0 &&
           rdma_resolve_addr(channel->id, NULL, address, RDMA_RESOLVE_MS) == 0;
}

/* why: how the previous address failed; NULL: there was none. */
static void connect_next(struct rdma_channel *channel, const struct gpud_error *why)
{
    struct gpud_error failed;
    channel->phase = RDMA_ROUTING;
    while (channel->address_next < channel->address_count) {
        if (connect_resolve(channel,
                            (struct sockaddr *)&channel->addresses[channel->address_next++]))
            return;
        gpud_rdma_fail_call(&failed, errno, "connect to", channel->where);
        why = &failed;
        gpud_rdma_drop_id_locked(channel);
    }
    gpud_rdma_end_locked(channel, why);
}

static void fill_params(struct rdma_conn_param *params, const void *data, size_t size)
{
    *params = (struct rdma_conn_param){
        .private_data = data,
        .private_data_len = (uint8_t)size,
        .responder_resources = RDMA_MAX_RESP_RES,
        .initiator_depth = RDMA_MAX_INIT_DEPTH,
        .flow_control = 1,
        .retry_count = GPUD_RDMA_RETRIES,
        .rnr_retry_count = GPUD_RDMA_RNR_RETRIES,
    };
}

/* Creates the queue pair, with the options that must be set before connecting. */
static enum gpud_status create_queue_pair(struct rdma_channel *channel, struct gpud_error *error)
{
    uint8_t timeout = GPUD_RDMA_ACK_TIMEOUT;
    /* Older kernels lack this option; their timeout is longer. */
    rdma_set_option(channel->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
                    sizeof(timeout));
    enum gpud_status status = gpud_rdma_create(channel->id, &channel->rdma, error);
    if (status == GPUD_OK && !gpud_rdma_channel_watch(channel, gpud_rdma_get_fd(channel->rdma)))
        status = gpud_fail_errno(error, "no descriptor to poll");
    return status;
}

/* A question for names is answered by the refusal of its request, and so needs no queue pair. On
 * iWARP the attempt to create one says why such cards are not used. */
static bool needs_queue_pair(const struct rdma_channel *channel)
{
    return !channel->asks_names || channel->asks_by_pair ||
           channel->id->verbs->device->transport_type != IBV_TRANSPORT_IB;
}

static void request(struct rdma_channel *channel)
{
    uint8_t bytes[GPUD_RDMA_REQUEST_MAX];
    struct gpud_rdma_request wanted = {.receives = channel->asks_names ? 0 : GPUD_RDMA_RECEIVES};
    struct rdma_conn_param params;
    struct gpud_error why;
    if (needs_queue_pair(channel) && create_queue_pair(channel, &why) != GPUD_OK) {
        connect_give_up(channel, &why);
        return;
    }
    gpud_print(wanted.name, "%s", channel->place.name);
    fill_params(&params, bytes, gpud_rdma_write_request(&wanted, bytes));
    if (rdma_connect(channel->id, &params) < 0) {
        fail_call(channel, errno, "connect to");
        return;
    }
    channel->ask_again = gpud_deadline(RDMA_ASK_AGAIN);
    set_timer(channel);
}

/* Sends a new request to the same address, because the request or its answer was lost, or because
 * it is to be another one. */
static void ask_again(struct rdma_channel *channel)
{
    channel->ask_again = INT64_MAX;
    set_timer(channel);
    channel->address_next--;
    gpud_rdma_drop_id_locked(channel);
    connect_next(channel, NULL);
}

/* Sends the request to another port of the same host. */
static void connect_move(struct rdma_channel *channel, uint16_t port)
{
    struct sockaddr_storage *address = &channel->addresses[--channel->address_next];
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)address)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
    channel->has_moved = true;
    gpud_rdma_drop_id_locked(channel);
    connect_next(channel, NULL);
}

static void handle_rejection(struct rdma_channel *channel, const struct gpud_rdma_event *event)
{
    struct gpud_error why;
    struct gpud_rdma_refusal refusal;
    if (event->status == REJECTED_BY_PEER || (event->status < 0 && event->size > 0)) {
        if (gpud_rdma_read_refusal(event->data, event->size, &refusal, &why) == GPUD_OK) {
            if (gpud_rdma_moved_to(&refusal) && !channel->has_moved) {
                connect_move(channel, gpud_rdma_moved_to(&refusal));
                return;
            }
            gpud_rdma_explain_refusal(&refusal, &channel->place, &why);
            channel->refusal = refusal;
        } else {
            gpud_fail(&why, GPUD_PEER, "the program that listens on %s is not a gpudirect sender",
                      channel->where);
        }
        gpud_rdma_drop_id_locked(channel);
        gpud_rdma_end_locked(channel, &why);
        return;
    }
    /* Requests without a queue pair all have the number 0, which no queue pair has: of two that
     * arrive at once, the peer's kernel takes one for a remnant. */
    if (event->status == REJECTED_STALE && !needs_queue_pair(channel)) {
        channel->asks_by_pair = true;
        ask_again(channel);
        return;
    }
    if (event->status == REJECTED_NO_LISTENER || event->status == -ECONNREFUSED)
        gpud_fail(&why, GPUD_CLOSED,
                  "no sender listens on %s: is it running there, and is the port right?",
                  channel->where);
    else if (event->status == REJECTED_STALE)
        gpud_fail(&why, GPUD_CLOSED, "the host of %s still has an older connection: try again",
                  channel->where);
    else
        gpud_fail_native(&why, GPUD_CLOSED, "rdma_cm", event->status,
                         "the host of %s rejects the connection, with rdma_cm reason %d",
                         channel->where, event->status);
    connect_give_up(channel, &why);
}

/* --- authentication ------------------------------------------------------------------------ */

static void put_number(uint8_t *bytes, uint32_t number)
{
    number = htole32(number);
    memcpy(bytes, &number, sizeof(number));
}

/* Identifies this connection alike at both ends: the numbers of the queue pairs, the receiver's
 * first, and the channel. iWARP has no such numbers. */
static size_t describe_connection(const struct rdma_channel *channel,
                                  uint8_t context[GPUD_AUTH_CONTEXT_MAX])
{
    bool numbered =
        channel->id->verbs->device->transport_type == IBV_TRANSPORT_IB && channel->id->qp;
    uint32_t own = numbered ? channel->id->qp->qp_num : 0;
    uint32_t peers = numbered ? channel->peer_queue_pair : 0;
    size_t length = strlen(channel->place.name);
    put_number(context, channel->is_sender ? peers : own);
    put_number(context + 4, channel->is_sender ? own : peers);
    memcpy(context + 8, channel->place.name, length);
    return 8 + length;
}

static void open_channel(struct rdma_channel *channel)
{
    struct gpud_error why;
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < channel->waiting_count && status == GPUD_OK; i++)
        status = gpud_rdma_send(channel->rdma, channel->waiting[i].bytes, channel->waiting[i].size,
                                &why);
    while (channel->waiting_count)
        free(channel->waiting[--channel->waiting_count].bytes);
    connect_finish(channel, RDMA_OPEN);
    atomic_store(&channel->base.connected, true);
    if (status != GPUD_OK)
        gpud_rdma_fail(channel->rdma, why.reason);
}

/* Sends the authentication messages that are due. */
static void send_proof(struct rdma_channel *channel)
{
    uint8_t bytes[GPUD_AUTH_MESSAGE_SIZE];
    struct gpud_error why;
    while (gpud_auth_next(&channel->auth, bytes))
        if (gpud_rdma_send(channel->rdma, bytes, sizeof(bytes), &why) != GPUD_OK) {
            why.status = GPUD_CLOSED; /* the status that receiving would report */
            gpud_rdma_end_locked(channel, &why);
            return;
        }
    if (gpud_auth_is_done(&channel->auth))
        open_channel(channel);
}

bool gpud_rdma_prove_locked(struct rdma_channel *channel)
{
    const void *bytes;
    size_t size;
    struct gpud_error why;
    enum gpud_status status = gpud_rdma_receive(channel->rdma, &bytes, &size, &why);
    if (status == GPUD_AGAIN)
        return false;
    if (status != GPUD_OK) {
        gpud_rdma_end_locked(channel, &why);
        return true;
    }
    status = gpud_auth_handle(&channel->auth, bytes, size, &why);
    send_proof(channel); /* or the refusal */
    if (status != GPUD_OK)
        gpud_rdma_end_locked(channel, &why);
    return true;
}

static void handle_established(struct rdma_channel *channel, const struct gpud_rdma_event *event)
{
    uint8_t context[GPUD_AUTH_CONTEXT_MAX];
    struct gpud_error why;
    enum gpud_status status = GPUD_OK;
    if (!channel->is_sender) {
        channel->peer_queue_pair = event->queue_pair;
        status = gpud_rdma_read_reply(event->data, event->size, &channel->peer_receives, &why);
    }
    if (status == GPUD_OK)
        status = gpud_auth_begin(&channel->auth,
                                 channel->is_sender ? GPUD_AUTH_SENDER : GPUD_AUTH_RECEIVER,
                                 channel->base.peer.host, channel->has_key ? &channel->key : NULL,
                                 context, describe_connection(channel, context), &why);
    if (status != GPUD_OK) {
        gpud_rdma_disconnect_locked(channel, why.reason);
        gpud_rdma_end_locked(channel, &why);
        return;
    }
    channel->base.peer.own_address = gpud_rdma_is_own(&channel->id->route.addr.dst_storage);
    gpud_rdma_set_peer_receives(channel->rdma, channel->peer_receives);
    channel->phase = RDMA_PROVING;
    channel->ask_again = INT64_MAX;
    set_deadline(channel, gpud_rdma_handshake_deadline);
    send_proof(channel);
    gpud_event_raise(channel->event); /* a message may have arrived before this event */
}

/* --- events -------------------------------------------------------------------------------- */

/* Handles the end of an established connection, or the failure of one being established. */
static void handle_end(struct rdma_channel *channel, const char *reason)
{
    struct gpud_error why;
    if (channel->phase < RDMA_PROVING) {
        gpud_fail(&why, GPUD_CLOSED, "%s: %s", channel->where, reason);
        connect_give_up(channel, &why);
    } else {
        gpud_rdma_disconnect_locked(channel, reason);
    }
}

static void connect_handle(struct rdma_channel *channel, const struct gpud_rdma_event *event)
{
    char reason[GPUD_REASON_MAX];
    if (event->id != channel->id)
        return;
    if (channel->phase == RDMA_ENDED && event->type != RDMA_CM_EVENT_DISCONNECTED)
        return;
    switch (event->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rdma_resolve_route(channel->id, RDMA_RESOLVE_MS) < 0)
            fail_call(channel, errno, "find a route to");
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        request(channel);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        handle_established(channel, event);
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        handle_end(channel, "a question for names was taken for a connection");
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        if (channel->is_sender)
            handle_end(channel, "the receiver did not complete its connection");
        else
            fail_call(channel, event->status < 0 ? -event->status : ETIMEDOUT, "connect to");
        break;
    case RDMA_CM_EVENT_ROUTE_ERROR:
        fail_call(channel, event->status < 0 ? -event->status : ENETUNREACH, "find a route to");
        break;
    case RDMA_CM_EVENT_REJECTED:
        if (channel->is_sender)
            handle_end(channel, "the receiver gave up before the connection was established");
        else
            handle_rejection(channel, event);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        handle_end(channel, "the peer closed the connection");
        break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        gpud_print(reason, "the network card %s was taken out of the system",
                   channel->rdma ? gpud_rdma_card(channel->rdma) : "of the connection");
        channel->card_gone = true;
        handle_end(channel, reason);
        break;
    default: /* multicast, and the end of the timewait state */
        break;
    }
}

static void look_up(struct rdma_channel *channel)
{
    struct gpud_error why;
    enum gpud_status status =
        gpud_rdma_lookup_get(channel->lookup, channel->addresses, &channel->address_count, &why);
    if (status == GPUD_OK)
        connect_next(channel, NULL);
    else if (status != GPUD_AGAIN)
        gpud_rdma_end_locked(channel, &why);
}

static void time_out(struct rdma_channel *channel)
{
    struct gpud_error why;
    bool is_connected = channel->phase == RDMA_PROVING;
    if (channel->phase == RDMA_LOOKING_UP)
        gpud_fail(&why, GPUD_CLOSED, "looking up the address of the host \"%s\" takes too long",
                  channel->place.host);
    else if (is_connected)
        gpud_fail(&why, GPUD_CLOSED, "%s did not authenticate within %d s: is it stopped?",
                  channel->where, (int)(gpud_rdma_handshake_deadline / GPUD_SEC));
    else
        gpud_fail(&why, GPUD_CLOSED,
                  "%s did not answer within %d s: is the sender stopped, or the network between "
                  "broken?",
                  channel->where, (int)(gpud_rdma_handshake_deadline / GPUD_SEC));
    gpud_rdma_end_locked(channel, &why);
    if (is_connected)
        gpud_rdma_disconnect_locked(channel, why.reason);
    else
        gpud_rdma_drop_id_locked(channel);
}

void gpud_rdma_drive_locked(struct rdma_channel *channel)
{
    struct gpud_rdma_event event;
    if (channel->phase == RDMA_LOOKING_UP)
        look_up(channel);
    while (gpud_rdma_next_event(channel->events, &event))
        connect_handle(channel, &event);
    int64_t now = gpud_now();
    if (channel->phase < RDMA_OPEN && now >= channel->deadline)
        time_out(channel);
    else if (channel->phase == RDMA_ROUTING && now >= channel->ask_again)
        ask_again(channel);
    else if (channel->phase == RDMA_OPEN && now >= channel->deadline)
        check_peer(channel);
}

/* --- beginning ----------------------------------------------------------------------------- */

enum gpud_status gpud_rdma_channel_connect(struct rdma_channel *channel, struct gpud_error *error)
{
    set_deadline(channel, gpud_rdma_handshake_deadline);
    if (!gpud_rdma_to_sockaddr(&channel->place, &channel->addresses[0]))
        return gpud_rdma_lookup_begin(&channel->place, channel->event, &channel->lookup, error);
    channel->address_count = 1;
    gpud_lock_take(&channel->lock);
    connect_next(channel, NULL); /* receiving reports a failure, now or later */
    gpud_lock_release(&channel->lock);
    return GPUD_OK;
}

static enum gpud_status accept_request(struct rdma_channel *channel, struct gpud_error *error)
{
    uint8_t bytes[GPUD_RDMA_REPLY_SIZE];
    struct rdma_conn_param params;
    enum gpud_status status = create_queue_pair(channel, error);
    if (status != GPUD_OK)
        return status;
    fill_params(&params, bytes, gpud_rdma_write_reply(GPUD_RDMA_RECEIVES, bytes));
    if (rdma_accept(channel->id, &params) < 0)
        return gpud_rdma_fail_call(error, errno, "accept a connection from", channel->where);
    return GPUD_OK;
}

/* Accepts the request. The channel owns the id from now on; its events go to channel->events.
 * GPUD_AGAIN: the receiver has given up. */
static enum gpud_status rdma_channel_accept(struct rdma_channel *channel, struct rdma_cm_id *id,
                                            struct gpud_error *error)
{
    struct gpud_rdma_event event;
    gpud_lock_take(&channel->lock);
    set_deadline(channel, gpud_rdma_handshake_deadline);
    channel->phase = RDMA_ROUTING;
    channel->id = id;
    enum gpud_status status = accept_request(channel, error);
    /* A failure because the other end gave up meanwhile is not an error. */
    if (status != GPUD_OK && gpud_rdma_next_event(channel->events, &event))
        status = GPUD_AGAIN;
    gpud_lock_release(&channel->lock);
    return status;
}

/* === listen ================================================================================== */
/* Listening: the operations of gpud_channel_ops. Listeners on one address and port share a hub.
 *
 *     gpud_listener cam1 ─┐
 *     gpud_listener cam2 ─┴─ hub: one id of rdma_cm, one descriptor ◀── requests, with a name
 *
 * The first listener's thread to see a request takes it from the hub, and queues it for the
 * listener that it names. */

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

static void listen_destroy(struct rdma_listener *listener)
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

static bool listen_watch(const struct rdma_listener *listener, int fd)
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
    if (listener->base.fd < 0 || listener->port.event < 0 ||
        !listen_watch(listener, listener->port.event))
        return gpud_fail_errno(error, "no descriptors to listen on %s", where);
    status = gpud_rdma_join(&listener->port, &address, where, error);
    listener->joined = status == GPUD_OK;
    if (listener->joined && !listen_watch(listener, gpud_rdma_hub_fd(&listener->port)))
        status = gpud_fail_errno(error, "no descriptors to listen on %s", where);
    return status;
}

/* Answers queries of this host and, if another process has the port, is found by that one. */
static enum gpud_status listen_announce(struct rdma_listener *listener, struct gpud_error *error)
{
    char holder[GPUD_PEER_TEXT_MAX];
    struct gpud_error unlisted;
    listener->is_local =
        gpud_rdma_local_open(&listener->local, listener->where, &unlisted) == GPUD_OK;
    if (listener->is_local) {
        listen_watch(listener, listener->local.fd);
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
        status = listen_announce(made, error);
    if (status != GPUD_OK) {
        listen_destroy(made);
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
    listen_destroy((struct rdma_listener *)listener);
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
    status = rdma_channel_accept(channel, request.id, error);
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
