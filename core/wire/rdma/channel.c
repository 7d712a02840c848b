/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection between hosts, from looking up the name to its end. */
#include "wire/rdma/rdma.h"

#include "base/base.h"
#include "device/rdma/internal.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* === events ================================================================================== */
/* The events' descriptor owns the ids in the kernel: once its last copy is closed, the kernel ends
 * their connections. If a forked child kept one, the queue pair would go on answering for a process
 * that has died, and the peer would wait forever. */

enum gpud_status gpud_rdma_open_events(struct rdma_event_channel **events, struct gpud_error *error)
{
    char hint[GPUD_REASON_MAX];
    enum gpud_status status = gpud_library_need(&gpud_library_rdma, error);
    if (status != GPUD_OK)
        return status;
    struct rdma_event_channel *made = rdma_create_event_channel();
    if (!made) {
        int number = errno;
        gpud_rdma_hint(NULL, hint, sizeof(hint));
        if (hint[0])
            return gpud_fail_native(error, number == EACCES ? GPUD_NO_ACCESS : GPUD_NO_DEVICE,
                                    "errno", number, "%s", hint);
        errno = number;
        return gpud_fail_errno(error, "cannot use the kernel's rdma_cm");
    }
    int flags = fcntl(made->fd, F_GETFL);
    if (flags < 0 || fcntl(made->fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(made->fd, F_SETFD, FD_CLOEXEC) < 0) {
        status = gpud_fail_errno(error, "cannot use the kernel's rdma_cm");
        rdma_destroy_event_channel(made);
        return status;
    }
    gpud_fd_keep_from_children(made->fd);
    *events = made;
    return GPUD_OK;
}

void gpud_rdma_close_events(struct rdma_event_channel **events)
{
    if (!*events)
        return;
    gpud_fd_let_children_keep((*events)->fd);
    rdma_destroy_event_channel(*events);
    *events = NULL;
}

bool gpud_rdma_next_event(struct rdma_event_channel *events, struct gpud_rdma_event *event)
{
    struct rdma_cm_event *got;
    int failed;
    do
        failed = rdma_get_cm_event(events, &got);
    while (failed && errno == EINTR);
    if (failed)
        return false;
    *event = (struct gpud_rdma_event){.type = got->event, .status = got->status, .id = got->id};
    bool carries = got->event == RDMA_CM_EVENT_CONNECT_REQUEST ||
                   got->event == RDMA_CM_EVENT_ESTABLISHED || got->event == RDMA_CM_EVENT_REJECTED;
    if (carries)
        event->queue_pair = got->param.conn.qp_num;
    if (carries && got->param.conn.private_data) {
        event->size = got->param.conn.private_data_len;
        memcpy(event->data, got->param.conn.private_data, event->size);
    }
    rdma_ack_cm_event(got);
    return true;
}

enum gpud_status gpud_rdma_fail_call(struct gpud_error *error, int number, const char *action,
                                     const char *where)
{
    char hint[GPUD_REASON_MAX];
    switch (number) {
    case ENODEV:
        gpud_rdma_hint(NULL, hint, sizeof(hint));
        return gpud_fail_native(error, GPUD_NO_DEVICE, "errno", number,
                                "cannot %s %s: the network interface of the route there has no "
                                "RDMA device; %s",
                                action, where,
                                hint[0] ? hint
                                        : "rdma link shows which have one, and soft-RoCE makes one "
                                          "of any other: rdma link add rxe1 type rxe netdev NAME");
    case ENETUNREACH:
    case EHOSTUNREACH:
        return gpud_fail_native(error, GPUD_IO, "errno", number,
                                "cannot %s %s: no route leads there (ip route get ADDRESS)", action,
                                where);
    case EADDRNOTAVAIL:
        return gpud_fail_native(error, GPUD_IO, "errno", number,
                                "cannot %s %s: it is not an address of this host (ip address)",
                                action, where);
    case ETIMEDOUT:
        return gpud_fail_native(error, GPUD_IO, "errno", number,
                                "cannot %s %s: no host has this address, or the host is down "
                                "(ping it)",
                                action, where);
    default:
        errno = number;
        return gpud_fail_errno(error, "cannot %s %s", action, where);
    }
}

/* === ending ================================================================================== */
/* Destroying a connection's id, and whether that is possible now; closing, below, says why not. */

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
    *gpud_sockaddr_port(&own) = 0;
    int fd = socket(own.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool has =
        fd < 0 || (bind(fd, (struct sockaddr *)&own, size_of((struct sockaddr *)&own)) == 0 &&
                   connect(fd, peer, size_of(peer)) == 0);
    gpud_fd_close(&fd);
    return has;
}

/* Destroys the id and releases the queue pair. */
static void drop_id_locked(struct rdma_channel *channel)
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
    if (rdma_has_route_locked(channel)) /* else destroying the id does it, see closing */
        rdma_disconnect(channel->id);
}

/* === lifetime ================================================================================ */
/* Makes and frees a channel, with its descriptors and records. */

enum gpud_status gpud_rdma_channel_create(bool is_sender, const struct gpud_place *place,
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
    gpud_print(made->base.encryption, "no");
    made->is_sender = is_sender;
    made->place = *place;
    made->received.lock = -1;
    made->deadline = made->ask_again = INT64_MAX;
    gpud_lock_init(&made->lock, GPUD_RANK_RDMA_CHANNEL);
    gpud_lock_init(&made->arm_lock, GPUD_RANK_RDMA_ARM);
    gpud_lock_init(&made->records_lock, GPUD_RANK_RDMA_RECORDS);
    made->base.fd = epoll_create1(EPOLL_CLOEXEC);
    made->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    made->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    enum gpud_status status = GPUD_OK;
    if (made->base.fd < 0 || made->event < 0 || made->timer < 0 ||
        !gpud_fd_watch(made->base.fd, made->event) || !gpud_fd_watch(made->base.fd, made->timer))
        status = gpud_fail_errno(error, "no descriptors for a connection");
    if (status == GPUD_OK)
        status = gpud_rdma_open_events(&made->events, error);
    if (status == GPUD_OK && !gpud_fd_watch(made->base.fd, made->events->fd))
        status = gpud_fail_errno(error, "no descriptors for a connection");
    if (status == GPUD_OK)
        *channel = made;
    else
        gpud_rdma_channel_destroy(made);
    return status;
}

void gpud_rdma_channel_destroy(struct rdma_channel *channel)
{
    gpud_rdma_disconnect_locked(channel, "this side closed the connection");
    drop_id_locked(channel);
    gpud_rdma_collect_records(channel, true);
    gpud_rdma_close_events(&channel->events);
    gpud_lookup_end(&channel->lookup);
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
    gpud_lookup_end(&channel->lookup);
    gpud_auth_wipe_key(&channel->key);
    gpud_event_raise(channel->event);
}

/* Before RDMA_OPEN: ends the channel for this reason. */
static void end_locked(struct rdma_channel *channel, const struct gpud_error *why)
{
    channel->end = *why;
    connect_finish(channel, RDMA_ENDED);
}

/* --- to the sender ------------------------------------------------------------------------- */

static void connect_next(struct rdma_channel *channel, const struct gpud_error *why);

/* Abandons this address and tries the next one. */
static void connect_give_up(struct rdma_channel *channel, struct gpud_error *why)
{
    drop_id_locked(channel);
    connect_next(channel, why);
}

static void fail_call(struct rdma_channel *channel, int number, const char *action)
{
    struct gpud_error why;
    gpud_rdma_fail_call(&why, number, action, channel->where);
    connect_give_up(channel, &why);
}

/* why: how the previous address failed; NULL: there was none. */
static void connect_next(struct rdma_channel *channel, const struct gpud_error *why)
{
    struct gpud_error failed;
    channel->phase = RDMA_ROUTING;
    while (channel->address_next < channel->address_count) {
        struct sockaddr_storage *address = &channel->addresses[channel->address_next++];
        if (rdma_create_id(channel->events, &channel->id, channel, RDMA_PS_TCP) == 0 &&
            rdma_resolve_addr(channel->id, NULL, (struct sockaddr *)address, RDMA_RESOLVE_MS) == 0)
            return;
        gpud_rdma_fail_call(&failed, errno, "connect to", channel->where);
        why = &failed;
        drop_id_locked(channel);
    }
    end_locked(channel, why);
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
    if (status == GPUD_OK && !gpud_fd_watch(channel->base.fd, gpud_rdma_get_fd(channel->rdma)))
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
    uint8_t bytes[GPUD_REQUEST_MAX];
    struct gpud_request wanted = {.number = channel->asks_names ? 0 : GPUD_RDMA_RECEIVES};
    struct rdma_conn_param params;
    struct gpud_error why;
    if (needs_queue_pair(channel) && create_queue_pair(channel, &why) != GPUD_OK) {
        connect_give_up(channel, &why);
        return;
    }
    gpud_print(wanted.name, "%s", channel->place.name);
    fill_params(&params, bytes, gpud_request_write(&wanted, bytes));
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
    drop_id_locked(channel);
    connect_next(channel, NULL);
}

/* The answer of the program that listens there. */
static void handle_refusal(struct rdma_channel *channel, const struct gpud_rdma_event *event)
{
    struct gpud_error why;
    struct gpud_refusal refusal;
    if (gpud_refusal_read(event->data, event->size, &refusal, &why) != GPUD_OK) {
        gpud_fail(&why, GPUD_PEER, "the program that listens on %s is not a gpudirect sender",
                  channel->where);
    } else if (gpud_refusal_moved_to(&refusal) && !channel->has_moved) {
        /* Sends the request to another port of the same host. */
        struct sockaddr_storage *address = &channel->addresses[--channel->address_next];
        *gpud_sockaddr_port(address) = htons(gpud_refusal_moved_to(&refusal));
        channel->has_moved = true;
        drop_id_locked(channel);
        connect_next(channel, NULL);
        return;
    } else {
        gpud_refusal_explain(&refusal, &channel->place, &why);
        channel->refusal = refusal;
    }
    drop_id_locked(channel);
    end_locked(channel, &why);
}

static void handle_rejection(struct rdma_channel *channel, const struct gpud_rdma_event *event)
{
    struct gpud_error why;
    if (event->status == REJECTED_BY_PEER || (event->status < 0 && event->size > 0)) {
        handle_refusal(channel, event);
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

/* Sends the authentication messages that are due; when both ends are done, the channel is open. */
static void send_proof(struct rdma_channel *channel)
{
    uint8_t bytes[GPUD_AUTH_MESSAGE_SIZE];
    struct gpud_error why;
    enum gpud_status status = GPUD_OK;
    while (gpud_auth_next(&channel->auth, bytes))
        if (gpud_rdma_send(channel->rdma, bytes, sizeof(bytes), &why) != GPUD_OK) {
            why.status = GPUD_CLOSED; /* the status that receiving would report */
            end_locked(channel, &why);
            return;
        }
    if (!gpud_auth_is_done(&channel->auth))
        return;
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

/* RDMA_PROVING: handles an authentication message from the peer; false: none has come. */
static bool prove_locked(struct rdma_channel *channel)
{
    const void *bytes;
    size_t size;
    struct gpud_error why;
    enum gpud_status status = gpud_rdma_receive(channel->rdma, &bytes, &size, &why);
    if (status == GPUD_AGAIN)
        return false;
    if (status == GPUD_OK) {
        status = gpud_auth_handle(&channel->auth, bytes, size, &why);
        send_proof(channel); /* or the refusal */
    }
    if (status != GPUD_OK)
        end_locked(channel, &why);
    return true;
}

static void handle_established(struct rdma_channel *channel, const struct gpud_rdma_event *event)
{
    uint8_t context[GPUD_AUTH_CONTEXT_MAX];
    struct gpud_error why;
    enum gpud_status status = GPUD_OK;
    if (!channel->is_sender) {
        channel->peer_queue_pair = event->queue_pair;
        status = gpud_reply_read(event->data, event->size, &channel->peer_receives, &why);
        if (status == GPUD_OK && channel->peer_receives < GPUD_RDMA_RECEIVES_MIN)
            status = gpud_fail(&why, GPUD_PEER, "the peer can receive only %u messages",
                               channel->peer_receives);
    }
    if (status == GPUD_OK)
        status = gpud_auth_begin(&channel->auth,
                                 channel->is_sender ? GPUD_AUTH_SENDER : GPUD_AUTH_RECEIVER,
                                 channel->base.peer.host, channel->has_key ? &channel->key : NULL,
                                 context, describe_connection(channel, context), &why);
    if (status != GPUD_OK) {
        gpud_rdma_disconnect_locked(channel, why.reason);
        end_locked(channel, &why);
        return;
    }
    channel->base.peer.own_address = gpud_network_is_own(&channel->id->route.addr.dst_storage);
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
    end_locked(channel, &why);
    if (is_connected)
        gpud_rdma_disconnect_locked(channel, why.reason);
    else
        drop_id_locked(channel);
}

void gpud_rdma_drive_locked(struct rdma_channel *channel)
{
    struct gpud_rdma_event event;
    struct gpud_error why;
    if (channel->phase == RDMA_LOOKING_UP) {
        enum gpud_status status =
            gpud_lookup_get(channel->lookup, channel->addresses, &channel->address_count, &why);
        if (status == GPUD_OK)
            connect_next(channel, NULL);
        else if (status != GPUD_AGAIN)
            end_locked(channel, &why);
    }
    while (gpud_rdma_next_event(channel->events, &event))
        connect_handle(channel, &event);
    int64_t now = gpud_now();
    if (channel->phase < RDMA_OPEN && now >= channel->deadline) {
        time_out(channel);
    } else if (channel->phase == RDMA_ROUTING && now >= channel->ask_again) {
        ask_again(channel);
    } else if (channel->phase == RDMA_OPEN && now >= channel->deadline) {
        /* Detects a vanished host for a side that only waits for messages. */
        if (gpud_rdma_is_alive(channel->rdma)) {
            set_deadline(channel, GPUD_RDMA_SILENCE);
        } else {
            channel->deadline = INT64_MAX;
            gpud_fd_close(&channel->timer);
        }
    }
}

/* --- beginning ----------------------------------------------------------------------------- */

/* Begins to connect; the channel is not connected yet. */
static enum gpud_status begin(struct rdma_channel *channel, struct gpud_error *error)
{
    set_deadline(channel, gpud_rdma_handshake_deadline);
    if (!gpud_place_to_sockaddr(&channel->place, &channel->addresses[0]))
        return gpud_lookup_begin(&gpud_rdma_scheme, &channel->place, channel->event,
                                 &channel->lookup, error);
    channel->address_count = 1;
    gpud_lock_take(&channel->lock);
    connect_next(channel, NULL); /* receiving reports a failure, now or later */
    gpud_lock_release(&channel->lock);
    return GPUD_OK;
}

enum gpud_status gpud_rdma_channel_accept(struct rdma_channel *channel, struct rdma_cm_id *id,
                                          struct gpud_error *error)
{
    struct gpud_rdma_event event;
    struct rdma_conn_param params;
    uint8_t bytes[GPUD_REPLY_SIZE];
    gpud_lock_take(&channel->lock);
    set_deadline(channel, gpud_rdma_handshake_deadline);
    channel->phase = RDMA_ROUTING;
    channel->id = id;
    enum gpud_status status = create_queue_pair(channel, error);
    if (status == GPUD_OK) {
        fill_params(&params, bytes, gpud_reply_write(GPUD_RDMA_RECEIVES, bytes));
        if (rdma_accept(channel->id, &params) < 0)
            status = gpud_rdma_fail_call(error, errno, "accept a connection from", channel->where);
    }
    /* A failure because the other end gave up meanwhile is not an error. */
    if (status != GPUD_OK && gpud_rdma_next_event(channel->events, &event))
        status = GPUD_AGAIN;
    gpud_lock_release(&channel->lock);
    return status;
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
static pthread_t closing_thread;
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

static void *closing_run(void *arg)
{
    gpud_lock_take(&closing_lock);
    while (closing) {
        int64_t pause;
        struct rdma_channel *over = closing_take_over(&pause);
        gpud_lock_release(&closing_lock);
        if (!over)
            gpud_nap(pause);
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

/* Ends the connection after its messages have arrived and the peer can be notified, or RDMA_LINGER
 * has passed: disconnects a channel whose reference it takes over, or destroys one that has none.
 * Not under its lock. */
static void end_later(struct rdma_channel *channel)
{
    channel->last_posted = gpud_rdma_posted(channel->rdma);
    channel->linger = gpud_deadline(RDMA_LINGER);
    gpud_lock_take(&closing_lock);
    if (started_by != getpid()) {
        closing = NULL; /* a parent's */
        is_running = is_joinable = false;
    }
    channel->next_closing = closing;
    closing = channel;
    if (!is_running) {
        if (is_joinable)
            pthread_join(closing_thread, NULL); /* it is already returning */
        is_joinable = is_running = pthread_create(&closing_thread, NULL, closing_run, NULL) == 0;
        started_by = getpid();
    }
    bool started = is_running;
    if (!started)
        closing = channel->next_closing;
    gpud_lock_release(&closing_lock);
    if (started)
        return;
    while (!closing_is_over(channel)) /* without a thread, the caller waits */
        gpud_nap(LOOK);
    closing_finish(channel);
}

__attribute__((destructor)) static void await_thread(void)
{
    gpud_lock_take(&closing_lock);
    bool join = is_joinable && started_by == getpid();
    is_exiting = true;
    gpud_lock_release(&closing_lock);
    if (join) /* RDMA_LINGER at most */
        pthread_join(closing_thread, NULL);
}

/* === channel ================================================================================= */
/* The operations of the rdma kind of channel. */

/* --- connecting ---------------------------------------------------------------------------- */

enum gpud_status gpud_rdma_check_access(const struct gpud_access_rule *access,
                                        struct gpud_error *error)
{
    if (access && access->tls_certificate[0])
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "rdma:// has no TLS, and so no use for tls-certificate: set psk-file "
                         "instead, or use an address tcp:// at both ends");
    return GPUD_OK;
}

static enum gpud_status connect_to(const struct gpud_address *address,
                                   const struct gpud_access_rule *access,
                                   struct gpud_channel **channel, struct gpud_peer *peer,
                                   struct gpud_error *error)
{
    struct gpud_place place;
    struct rdma_channel *made;
    struct gpud_auth_key key = {0};
    bool has_key = access && access->key_file[0];
    enum gpud_status status = gpud_rdma_check_access(access, error);
    if (status == GPUD_OK)
        status = gpud_place_parse(&gpud_rdma_scheme, address->text, &place, NULL, error);
    if (status == GPUD_OK && gpud_place_is_wildcard(&place))
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
    status = begin(made, error);
    if (status == GPUD_OK)
        *channel = &made->base;
    else
        gpud_rdma_channel_destroy(made);
    return status;
}

/* --- messages ------------------------------------------------------------------------------ */

static enum gpud_status channel_send_message(struct gpud_channel *base,
                                             struct gpud_message *message, struct gpud_error *error)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    struct rdma_waiting waiting;
    uint8_t bytes[GPUD_MESSAGE_MAX];
    size_t size;
    if (!gpud_message_can_travel(message))
        return gpud_fail(error, GPUD_INVALID,
                         "a %s with memory of this host cannot be sent to another one",
                         gpud_message_name(message->type));
    enum gpud_status status = gpud_message_encode(message, bytes, sizeof(bytes), &size, error);
    if (status != GPUD_OK)
        return status;
    gpud_lock_take(&channel->lock);
    if (channel->phase < RDMA_OPEN)
        gpud_rdma_drive_locked(channel);
    if (channel->hung_up) {
        status = gpud_fail(error, GPUD_PEER, "this side hung up");
    } else if (channel->phase == RDMA_ENDED) {
        status = gpud_fail(error, GPUD_PEER, "%s", channel->end.reason);
    } else if (channel->phase == RDMA_OPEN) {
        status = gpud_rdma_send(channel->rdma, bytes, size, error);
    } else if (channel->waiting_count == RDMA_WAITING_MAX) {
        status = gpud_fail(error, GPUD_AGAIN, "%s is not connected yet", channel->where);
    } else if (!(waiting.bytes = malloc(size))) {
        status = gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a message");
    } else {
        waiting.size = size;
        memcpy(waiting.bytes, bytes, size);
        channel->waiting[channel->waiting_count++] = waiting;
    }
    gpud_lock_release(&channel->lock);
    return status;
}

/* Handles pending events and receives a message, or a KICK. *phase: the phase afterwards. The
 * caller sees the channel connected before it gets the first message. */
static enum gpud_status look_once(struct rdma_channel *channel, struct gpud_message *message,
                                  enum rdma_phase *phase, struct gpud_error *error)
{
    enum gpud_status status = GPUD_AGAIN;
    bool was_connected = atomic_load(&channel->base.connected);
    const void *bytes;
    size_t size;
    gpud_lock_take(&channel->lock);
    gpud_rdma_drive_locked(channel);
    while (channel->phase == RDMA_PROVING && prove_locked(channel))
        ;
    *phase = channel->phase;
    if (channel->hung_up) {
        status = gpud_fail(error, GPUD_CLOSED, "this side hung up");
    } else if (channel->phase == RDMA_ENDED) {
        /* Statuses that callers do not distinguish become GPUD_CLOSED. */
        status = channel->end.status;
        if (status != GPUD_NO_ACCESS && status != GPUD_UNSUPPORTED && status != GPUD_PEER)
            status = GPUD_CLOSED;
        if (error) {
            *error = channel->end;
            error->status = status;
        }
    }
    gpud_lock_release(&channel->lock);
    if (status != GPUD_AGAIN || !was_connected)
        return status;
    status = gpud_rdma_receive(channel->rdma, &bytes, &size, error);
    if (status == GPUD_AGAIN && gpud_rdma_take_kick(channel)) {
        message->type = GPUD_MESSAGE_KICK;
        message->position = 0;
        return GPUD_OK;
    }
    if (status == GPUD_OK)
        status = gpud_message_decode(message, bytes, size, error);
    if (status == GPUD_OK && !gpud_message_can_travel(message))
        status = gpud_fail(error, GPUD_PEER, "the peer sent a %s with memory of its own host",
                           gpud_message_name(message->type));
    return status;
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
    gpud_event_drain(channel->event);
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
        end_locked(channel, &why);
        drop_id_locked(channel);
    } else if (first && rdma_has_arrived_locked(channel) && rdma_has_route_locked(channel)) {
        gpud_rdma_disconnect_locked(channel, "this side hung up");
    } else if (first) {
        later = true;
    }
    channel->hung_up = true;
    gpud_event_raise(channel->event);
    gpud_lock_release(&channel->lock);
    if (later) {
        gpud_channel_ref(base);
        end_later(channel);
    }
}

static void channel_close_channel(struct gpud_channel *base)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    /* No lock is needed: there is no other reference. */
    if (rdma_has_arrived_locked(channel) && rdma_has_route_locked(channel))
        gpud_rdma_channel_destroy(channel);
    else
        end_later(channel);
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
    .tell = gpud_hub_tell,
    .remote = &gpud_rdma_remote_ops,
    .verbs = &gpud_rdma_verbs,
};

/* === names =================================================================================== */

/* Connects until the request is refused, which is the answer. */
static enum gpud_status await_answer(struct rdma_channel *channel, int64_t deadline,
                                     struct gpud_error *error)
{
    struct gpud_message message;
    enum gpud_status status = begin(channel, error);
    while (status == GPUD_OK) {
        status = channel->base.ops->receive(&channel->base, &message, error);
        if (status != GPUD_AGAIN)
            break;
        status = gpud_channel_wait(&channel->base, deadline, NULL);
        if (status != GPUD_OK)
            return gpud_fail(error, GPUD_CLOSED, "no answer came from %s in time", channel->where);
    }
    if (channel->refusal.reason == GPUD_REFUSAL_NAMES)
        return GPUD_OK;
    if (status != GPUD_OK)
        return status;
    gpud_message_close(&message);
    return gpud_fail(error, GPUD_PEER, "%s answers a question for names by a message",
                     channel->where);
}

enum gpud_status gpud_rdma_ask_names(const struct gpud_place *place, const char *port,
                                     int64_t deadline, char *names, size_t size,
                                     struct gpud_error *error)
{
    struct rdma_channel *channel;
    enum gpud_status status = gpud_rdma_channel_create(false, place, &channel, error);
    if (status != GPUD_OK)
        return status;
    struct gpud_channel *base = &channel->base;
    gpud_print(channel->where, "%s", port);
    channel->asks_names = true;
    status = await_answer(channel, deadline, error);
    gpud_print_n(names, size, "%s", channel->refusal.names);
    gpud_channel_unref(&base);
    return status;
}

/* === hint ==================================================================================== */

void gpud_rdma_hint(const char *place, char *hint, size_t size)
{
    char why[GPUD_REASON_MAX];
    gpud_rdma_find_lack(why);
    gpud_print_n(hint, size, "%s", why);
}
