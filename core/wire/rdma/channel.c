/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The operations of the rdma kind of channel. */
#include "base/fd.h"
#include "wire/rdma/closing.h"
#include "wire/rdma/connect.h"
#include "wire/rdma/ending.h"
#include "wire/rdma/lifetime.h"
#include "wire/rdma/listen.h"
#include "wire/rdma/records.h"
#include "wire/rdma/verbs.h"
#include "wire/rdma/wake.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
static enum gpud_status keep(struct rdma_channel *channel, const uint8_t *bytes, size_t size,
                             struct gpud_error *error)
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

static enum gpud_status send_message(struct gpud_channel *base, struct gpud_message *message,
                                     struct gpud_error *error)
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
        status = keep(channel, bytes, size, error);
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

static bool is_dead(const struct gpud_channel *base)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    gpud_lock_take(&channel->lock);
    gpud_rdma_drive_locked(channel);
    bool dead = channel->phase == RDMA_ENDED || channel->hung_up ||
                (channel->phase >= RDMA_PROVING && !gpud_rdma_is_alive(channel->rdma));
    gpud_lock_release(&channel->lock);
    return dead;
}

static void hang_up(struct gpud_channel *base)
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
    } else if (first && gpud_rdma_has_arrived_locked(channel) &&
               gpud_rdma_has_route_locked(channel)) {
        gpud_rdma_disconnect_locked(channel, "this side hung up");
    } else if (first) {
        later = true;
    }
    channel->hung_up = true;
    gpud_event_raise(channel->event);
    gpud_lock_release(&channel->lock);
    if (later)
        gpud_rdma_disconnect_later(channel);
}

static void close_channel(struct gpud_channel *base)
{
    struct rdma_channel *channel = (struct rdma_channel *)base;
    /* No lock is needed: there is no other reference. */
    if (gpud_rdma_has_arrived_locked(channel) && gpud_rdma_has_route_locked(channel))
        gpud_rdma_channel_destroy(channel);
    else
        gpud_rdma_destroy_later(channel);
}

const struct gpud_channel_ops gpud_rdma_channel_ops = {
    .listen = gpud_rdma_listen,
    .unlisten = gpud_rdma_unlisten,
    .accept = gpud_rdma_accept,
    .connect = connect_to,
    .send = send_message,
    .receive = receive_message,
    .is_dead = is_dead,
    .hang_up = hang_up,
    .close = close_channel,
    .tell = gpud_rdma_tell,
    .remote = &gpud_rdma_remote_ops,
    .verbs = &gpud_rdma_verbs,
};
