/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The messages between the two ends; see message.h. */
#include "transfer/exchange.h"

#include "base/fd.h"
#include "transfer/completion.h"

#include <string.h>

/* --- sending ------------------------------------------------------------------------------- */

void gpud_connection_flush_locked(struct gpud_connection *connection)
{
    struct gpud_channel *channel = connection->channel;
    uint8_t bytes[TRANSFER_MESSAGE_SIZE];
    if (connection->phase == CONNECTION_ENDED)
        return;
    while (connection->outbox_count > 0) {
        gpud_transfer_encode(&connection->outbox[connection->outbox_first], bytes);
        if (channel->ops->verbs->send(channel, bytes, sizeof(bytes), NULL) != GPUD_OK)
            return; /* later; or never, if the connection has failed */
        connection->outbox_first = (connection->outbox_first + 1) % TRANSFER_OUTBOX_MAX;
        connection->outbox_count--;
    }
}

void gpud_connection_say_locked(struct gpud_connection *connection,
                                const struct transfer_message *message)
{
    uint32_t place = connection->outbox_first + connection->outbox_count;
    if (connection->outbox_count == TRANSFER_OUTBOX_MAX) {
        gpud_connection_end_locked(connection, GPUD_PEER, "the peer does not read what it is told");
        return;
    }
    connection->outbox[place % TRANSFER_OUTBOX_MAX] = *message;
    connection->outbox_count++;
    gpud_connection_flush_locked(connection);
}

void gpud_connection_confirm_locked(struct gpud_connection *connection)
{
    while (connection->phase == CONNECTION_OPEN && connection->revocation_count > 0) {
        const struct revocation *first = &connection->revocations[connection->revocation_first];
        const struct transfer_message revoked = {
            .type = TRANSFER_REVOKED,
            .slot = first->slot,
            .generation = first->generation,
        };
        if (first->number > connection->state.done)
            return;
        connection->revocation_first =
            (connection->revocation_first + 1) % TRANSFER_REVOCATIONS_MAX;
        connection->revocation_count--;
        gpud_connection_say_locked(connection, &revoked);
    }
}

/* --- receiving ----------------------------------------------------------------------------- */

static void break_off(struct gpud_connection *connection, const char *why)
{
    char reason[GPUD_REASON_MAX];
    gpud_print(reason, "the peer broke the protocol of transfers: %s", why);
    gpud_connection_end_locked(connection, GPUD_PEER, reason);
}

static void hear_hello(struct gpud_connection *connection, const struct transfer_message *message)
{
    connection->peer_nonce = message->nonce;
    connection->phase = CONNECTION_OPEN;
    connection->deadline = INT64_MAX;
    if (connection->accepted)
        gpud_event_raise(connection->transfer->waiting);
    pthread_cond_broadcast(&connection->changed);
}

static void hear_receive(struct gpud_connection *connection, const struct transfer_message *message)
{
    uint32_t place = connection->peer_receive_first + connection->peer_receive_count;
    if (message->number != connection->peer_receive_number + 1 || message->generation == 0 ||
        connection->peer_receive_count == GPUD_RECEIVES_MAX) {
        break_off(connection, "a receive that it cannot have posted");
        return;
    }
    connection->peer_receive_number++;
    connection->peer_receives[place % GPUD_RECEIVES_MAX] = *message;
    connection->peer_receive_count++;
    pthread_cond_broadcast(&connection->changed);
}

/* The first one, except for a send that failed before any of it was sent. */
static struct operation *find_receive(struct gpud_connection *connection, uint32_t number)
{
    struct operation_list others = {NULL, NULL};
    struct operation *one, *found = NULL;
    while (!found && (one = gpud_operation_take(&connection->receiving))) {
        if (one->number == number)
            found = one;
        else
            gpud_operation_append(&others, one);
    }
    while ((one = gpud_operation_take(&connection->receiving)))
        gpud_operation_append(&others, one);
    connection->receiving = others;
    return found;
}

static void hear_sent(struct gpud_connection *connection, const struct transfer_message *message)
{
    struct operation *receive = find_receive(connection, message->number);
    if (!receive || message->size > receive->completion.length) {
        if (receive)
            gpud_operation_append(&connection->receiving, receive);
        break_off(connection, "a message without a receive, or one that is too long for it");
        return;
    }
    receive->completion.length = message->size;
    receive->completion.value = message->value;
    gpud_operation_arrive_locked(receive);
}

/* For a region that this side has deregistered meanwhile, only the value is delivered. */
static void hear_notification(struct gpud_connection *connection,
                              const struct transfer_message *message)
{
    struct gpud_region *region = connection->regions[message->slot];
    if (message->generation == 0 || !region || region->generation != message->generation)
        region = NULL;
    if (region &&
        (!(region->access & GPUD_REGION_REMOTE_WRITE) ||
         !gpud_transfer_is_inside(message->offset, message->size, region->memory->size))) {
        break_off(connection, "a notification of what it cannot have put");
        return;
    }
    struct operation *arrival = gpud_operation_take(&connection->free_arrivals);
    arrival->memory = region ? region->memory : NULL;
    arrival->completion = (struct gpud_completion){
        .kind = GPUD_COMPLETION_NOTIFICATION,
        .connection = connection,
        .region = region,
        .offset = region ? message->offset : 0,
        .length = region ? message->size : 0,
        .value = message->value,
    };
    gpud_operation_arrive_locked(arrival);
}

static void hear_revoke(struct gpud_connection *connection, const struct transfer_message *message)
{
    uint32_t place = connection->revocation_first + connection->revocation_count;
    if (message->generation <= connection->revoked[message->slot] ||
        connection->revocation_count == TRANSFER_REVOCATIONS_MAX) {
        break_off(connection, "it takes back what it cannot have given");
        return;
    }
    connection->revoked[message->slot] = message->generation;
    connection->channel->ops->verbs->look(connection->channel, &connection->state);
    connection->revocations[place % TRANSFER_REVOCATIONS_MAX] = (struct revocation){
        .slot = message->slot,
        .generation = message->generation,
        .number = connection->state.posted,
    };
    connection->revocation_count++;
}

static void hear_revoked(struct gpud_connection *connection, const struct transfer_message *message)
{
    struct gpud_region *region = connection->regions[message->slot];
    if (!region || region->generation != message->generation || !region->closing)
        return; /* it came too late */
    region->revoked = true;
    pthread_cond_broadcast(&connection->changed);
}

static void handle(struct gpud_connection *connection, const struct transfer_message *message)
{
    if ((connection->phase == CONNECTION_GREETING) != (message->type == TRANSFER_HELLO)) {
        break_off(connection, "it greets twice, or not at all");
        return;
    }
    switch (message->type) {
    case TRANSFER_HELLO:
        hear_hello(connection, message);
        break;
    case TRANSFER_RECEIVE:
        hear_receive(connection, message);
        break;
    case TRANSFER_SENT:
        hear_sent(connection, message);
        break;
    case TRANSFER_NOTIFY:
        hear_notification(connection, message);
        break;
    case TRANSFER_REVOKE:
        hear_revoke(connection, message);
        break;
    case TRANSFER_REVOKED:
        hear_revoked(connection, message);
        break;
    case TRANSFER_BYE:
        gpud_connection_end_locked(connection, GPUD_CLOSED, "the peer closed the connection");
        break;
    case TRANSFER_KEY:
        break_off(connection, "keys do not travel this way");
        break;
    }
}

void gpud_connection_hear_locked(struct gpud_connection *connection)
{
    struct gpud_channel *channel = connection->channel;
    struct transfer_message message;
    struct gpud_error error;
    const void *bytes;
    size_t size;
    while (connection->phase != CONNECTION_ENDED) {
        /* Any message may be a notification, so all wait while the application takes none, or has
         * not accepted the connection. */
        connection->stalled = connection->phase == CONNECTION_OPEN &&
                              (!connection->queue || !connection->free_arrivals.first);
        if (connection->stalled ||
            channel->ops->verbs->receive(channel, &bytes, &size, NULL) != GPUD_OK)
            return;
        if (gpud_transfer_decode(bytes, size, &message, &error) == GPUD_OK)
            handle(connection, &message);
        else
            gpud_connection_end_locked(connection, GPUD_PEER, error.reason);
    }
}
