/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Completes operations: one by one, or all when their connection ends. */
#include "transfer/completion.h"

#include "base/fd.h"
#include "transfer/queue.h"

static bool uses_region(const struct operation *operation)
{
    return operation->completion.region &&
           operation->completion.kind != GPUD_COMPLETION_NOTIFICATION;
}

void gpud_operation_complete_locked(struct operation *operation, enum gpud_status status)
{
    struct gpud_connection *connection = operation->connection;
    operation->completion.status = status;
    if (uses_region(operation))
        operation->completion.region->uses--;
    operation->busy = true;
    if (!connection->queue || !gpud_completion_queue_push(connection->queue, operation)) {
        operation->busy = false;
        if (operation->home)
            gpud_operation_append(operation->home, operation);
    }
    pthread_cond_broadcast(&connection->changed);
}

void gpud_operation_arrive_locked(struct operation *operation)
{
    enum gpud_status status = GPUD_OK;
    if (operation->memory && operation->completion.length > 0)
        status = gpud_memory_flush_remote((struct gpud_memory *)operation->memory, NULL);
    gpud_operation_complete_locked(operation, status);
}

void gpud_operation_reap_locked(struct gpud_connection *connection)
{
    struct operation *first;
    while ((first = connection->posted.first) && first->number <= connection->state.done) {
        gpud_operation_take(&connection->posted);
        gpud_operation_arrive_locked(first);
    }
}

/* --- the end of a connection --------------------------------------------------------------- */

static void complete_all_locked(struct operation_list *list, enum gpud_status status)
{
    struct operation *operation;
    while ((operation = gpud_operation_take(list)))
        gpud_operation_complete_locked(operation, status);
}

void gpud_connection_end_locked(struct gpud_connection *connection, enum gpud_status status,
                                const char *reason)
{
    struct gpud_channel *channel = connection->channel;
    if (connection->phase == CONNECTION_ENDED)
        return;
    bool stood = connection->phase >= CONNECTION_GREETING;
    gpud_fail(&connection->end, status, "%s", reason); /* before the channel reports another one */
    connection->phase = CONNECTION_ENDED;
    if (stood) {
        /* The card stops before the memory is returned. */
        channel->ops->verbs->end(channel, connection->end.reason);
        channel->ops->verbs->look(channel, &connection->state);
        gpud_operation_reap_locked(connection);
        struct operation *refused =
            connection->state.refused ? gpud_operation_take(&connection->posted) : NULL;
        if (connection->state.refused)
            connection->end.status = GPUD_NO_ACCESS;
        if (refused)
            gpud_operation_complete_locked(refused, GPUD_NO_ACCESS);
        complete_all_locked(&connection->posted, status);
        complete_all_locked(&connection->waiting, status);
        complete_all_locked(&connection->receiving, status);
        gpud_operation_complete_locked(&connection->last, connection->end.status);
    } else {
        gpud_channel_hang_up(channel);
    }
    pthread_cond_broadcast(&connection->changed);
    gpud_event_raise(connection->transfer->wake);
}

enum gpud_status gpud_connection_check_locked(const struct gpud_connection *connection,
                                              struct gpud_error *error)
{
    if (connection->phase != CONNECTION_ENDED)
        return GPUD_OK;
    return gpud_fail(error, connection->end.status, "%s", connection->end.reason);
}
