/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection from its first message to its end. */
#include "transfer/connection.h"

#include "base/fd.h"
#include "base/sized.h"
#include "transfer/completion.h"
#include "transfer/exchange.h"
#include "transfer/post.h"
#include "transfer/references.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>

/* --- creating ------------------------------------------------------------------------------ */

static void init_records(struct gpud_connection *connection, struct operation *records,
                         size_t count, struct operation_list *home)
{
    for (size_t i = 0; i < count; i++) {
        records[i].connection = connection;
        records[i].home = home;
        gpud_operation_append(home, &records[i]);
    }
}

enum gpud_status gpud_connection_create(struct gpud_transfer *transfer,
                                        struct gpud_channel *channel, bool accepted,
                                        struct gpud_connection **connection,
                                        struct gpud_error *error)
{
    struct gpud_connection *made = calloc(1, sizeof(*made));
    if (!made) {
        gpud_channel_unref(&channel);
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a connection");
    }
    atomic_init(&made->references, 1);
    made->transfer = gpud_transfer_ref(transfer);
    made->channel = channel;
    made->accepted = accepted;
    made->deadline = INT64_MAX; /* until it is open, the channel has a deadline of its own */
    gpud_lock_init(&made->lock, GPUD_RANK_TRANSFER_CONNECTION);
    gpud_cond_init(&made->changed);
    init_records(made, made->operations, GPUD_OPERATIONS_MAX, &made->free_operations);
    init_records(made, made->receives, GPUD_RECEIVES_MAX, &made->free_receives);
    init_records(made, made->arrivals, GPUD_RECEIVES_MAX, &made->free_arrivals);
    made->room.connection = made->last.connection = made;
    made->room.completion.kind = GPUD_COMPLETION_ROOM;
    made->last.completion.kind = GPUD_COMPLETION_END;
    made->room.completion.connection = made->last.completion.connection = made;
    enum gpud_status status = GPUD_OK;
    made->event = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->event < 0)
        status = gpud_fail_errno(error, "no descriptor for a connection");
    else if (getrandom(&made->nonce, sizeof(made->nonce), 0) != sizeof(made->nonce))
        status = gpud_fail_errno(error, "the system gives no random numbers");
    if (status == GPUD_OK)
        *connection = made;
    else
        gpud_connection_unref(made);
    return status;
}

/* --- beginning ----------------------------------------------------------------------------- */

static void greet_locked(struct gpud_connection *connection)
{
    const struct transfer_message hello = {.type = TRANSFER_HELLO, .nonce = connection->nonce};
    connection->phase = CONNECTION_GREETING;
    connection->deadline = gpud_deadline(TRANSFER_HELLO_DEADLINE);
    gpud_connection_say_locked(connection, &hello);
}

void gpud_connection_advance_locked(struct gpud_connection *connection)
{
    struct gpud_message message;
    struct gpud_error error = {.reason = ""};
    enum gpud_status status = gpud_channel_receive(connection->channel, &message, &error);
    if (status == GPUD_AGAIN && atomic_load(&connection->channel->connected)) {
        greet_locked(connection);
    } else if (status == GPUD_OK) {
        gpud_message_close(&message);
        gpud_connection_end_locked(connection, GPUD_PEER, "the peer speaks before it is connected");
    } else if (status != GPUD_AGAIN) {
        gpud_connection_end_locked(connection, status, error.reason);
    }
}

/* --- going on ------------------------------------------------------------------------------ */

static void tell_room_locked(struct gpud_connection *connection)
{
    bool has_room = (connection->wants_operation && connection->free_operations.first) ||
                    (connection->wants_receive && connection->free_receives.first) ||
                    (connection->wants_target && connection->peer_receive_count > 0);
    if (!has_room || connection->room.busy)
        return;
    connection->wants_operation = connection->wants_receive = connection->wants_target = false;
    gpud_operation_complete_locked(&connection->room, GPUD_OK);
}

void gpud_connection_progress_locked(struct gpud_connection *connection)
{
    if (connection->phase != CONNECTION_GREETING && connection->phase != CONNECTION_OPEN)
        return;
    const struct gpud_verbs_ops *verbs = connection->channel->ops->verbs;
    verbs->look(connection->channel, &connection->state);
    gpud_connection_hear_locked(connection);
    gpud_connection_flush_locked(connection);
    if (connection->phase == CONNECTION_OPEN) {
        gpud_operation_post_locked(connection);
        gpud_operation_reap_locked(connection);
        gpud_connection_confirm_locked(connection);
        tell_room_locked(connection);
    }
    if (connection->state.failed) /* perhaps because the other side left, as this one does */
        gpud_connection_end_locked(connection, connection->leaving ? GPUD_CLOSED : GPUD_PEER,
                                   connection->state.reason);
}

/* --- ending -------------------------------------------------------------------------------- */

void gpud_connection_say_bye_locked(struct gpud_connection *connection)
{
    const struct transfer_message bye = {.type = TRANSFER_BYE};
    if (connection->phase == CONNECTION_OPEN && !connection->leaving) {
        connection->leaving = true;
        gpud_connection_say_locked(connection, &bye);
    }
}

void gpud_connection_leave_locked(struct gpud_connection *connection, int64_t deadline)
{
    const struct gpud_verbs_ops *verbs = connection->channel->ops->verbs;
    struct gpud_verbs_state *state = &connection->state;
    gpud_connection_say_bye_locked(connection);
    while (connection->phase == CONNECTION_OPEN && gpud_now() < deadline) {
        gpud_connection_flush_locked(connection);
        verbs->look(connection->channel, state);
        if (state->failed || (connection->outbox_count == 0 && state->done >= state->posted))
            break;
        gpud_lock_wait_until(&connection->lock, &connection->changed, gpud_deadline(GPUD_MSEC));
    }
    gpud_connection_end_locked(connection, GPUD_CLOSED, "this side closed the connection");
}

void gpud_connection_close(struct gpud_connection **connection)
{
    if (!connection || !*connection)
        return;
    struct gpud_connection *gone = *connection;
    *connection = NULL;
    gpud_lock_take(&gone->lock);
    gpud_connection_leave_locked(gone, gpud_deadline(TRANSFER_LINGER));
    gone->closed = true;
    gpud_lock_release(&gone->lock);
    gpud_event_raise(gone->transfer->wake);
    gpud_connection_unref(gone);
}

void gpud_connection_get_info(struct gpud_connection *connection, struct gpud_connection_info *info)
{
    struct gpud_connection_info made = {.status = GPUD_OK};
    gpud_print(made.host, "%s", connection->channel->peer.host);
    gpud_lock_take(&connection->lock);
    if (connection->phase == CONNECTION_ENDED) {
        made.status = connection->end.status;
        gpud_print(made.reason, "%s", connection->end.reason);
    }
    gpud_lock_release(&connection->lock);
    gpud_sized_copy(info, info->size, &made, sizeof(made));
}
