/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Moves waiting operations to the card. */
#include "transfer/post.h"

#include "transfer/completion.h"

bool gpud_operation_is_revoked(const struct gpud_connection *connection,
                               const struct transfer_message *target)
{
    return target->generation && target->generation <= connection->revoked[target->slot];
}

/* GPUD_AGAIN: not yet. */
static enum gpud_status move_bytes(struct gpud_connection *connection, struct operation *operation,
                                   struct gpud_error *error)
{
    const struct gpud_verbs_ops *verbs = connection->channel->ops->verbs;
    const struct gpud_completion *range = &operation->completion;
    const struct transfer_message *target = &operation->target;
    if (operation->written || range->length == 0)
        return GPUD_OK;
    enum gpud_status status = (range->kind == GPUD_COMPLETION_GET ? verbs->read : verbs->write)(
        connection->channel, &range->region->verbs, range->offset, range->length,
        target->address + target->offset, target->key, error);
    operation->written = status == GPUD_OK;
    return status;
}

/* Tells the peer about the bytes, behind them. */
static enum gpud_status tell_peer(struct gpud_connection *connection,
                                  const struct operation *operation, struct gpud_error *error)
{
    uint8_t bytes[TRANSFER_MESSAGE_SIZE];
    struct transfer_message message = operation->target;
    bool is_send = operation->completion.kind == GPUD_COMPLETION_SEND;
    if (!is_send && !operation->notify)
        return GPUD_OK;
    message.type = is_send ? TRANSFER_SENT : TRANSFER_NOTIFY;
    message.address = 0;
    message.key = 0;
    message.size = operation->completion.length;
    message.value = operation->completion.value;
    gpud_transfer_encode(&message, bytes);
    return connection->channel->ops->verbs->send(connection->channel, bytes, sizeof(bytes), error);
}

static enum gpud_status post_one(struct gpud_connection *connection, struct operation *operation)
{
    int ready = atomic_load(&operation->ready);
    if (ready == OPERATION_WAITS)
        return GPUD_AGAIN;
    if (ready == OPERATION_FAILED)
        return GPUD_IO;
    if (!operation->written && gpud_operation_is_revoked(connection, &operation->target))
        return GPUD_NO_ACCESS;
    enum gpud_status status = move_bytes(connection, operation, NULL);
    if (status == GPUD_OK)
        status = tell_peer(connection, operation, NULL);
    return status == GPUD_PEER ? GPUD_AGAIN : status; /* the connection's end completes it */
}

/* The receive is free for another message. */
static void return_target(struct gpud_connection *connection, const struct transfer_message *target)
{
    connection->peer_receive_first =
        (connection->peer_receive_first + GPUD_RECEIVES_MAX - 1) % GPUD_RECEIVES_MAX;
    connection->peer_receives[connection->peer_receive_first] = *target;
    connection->peer_receive_count++;
}

void gpud_operation_post_locked(struct gpud_connection *connection)
{
    struct operation *first;
    while ((first = connection->waiting.first)) {
        enum gpud_status status = post_one(connection, first);
        if (status == GPUD_AGAIN)
            return;
        gpud_operation_take(&connection->waiting);
        if (status != GPUD_OK && first->completion.kind == GPUD_COMPLETION_SEND)
            return_target(connection, &first->target);
        connection->channel->ops->verbs->look(connection->channel, &connection->state);
        first->number = connection->state.posted;
        if (status == GPUD_OK)
            gpud_operation_append(&connection->posted, first);
        else
            gpud_operation_complete_locked(first, status);
    }
}
