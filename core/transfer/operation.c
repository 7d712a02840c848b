/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The call for puts, gets, sends and receives. */
#include "base/fd.h"
#include "base/sized.h"
#include "transfer/completion.h"
#include "transfer/connection.h"
#include "transfer/exchange.h"
#include "transfer/post.h"
#include "transfer/wait.h"

#include <stdlib.h>
#include <string.h>

/* --- after a GPU's queue ------------------------------------------------------------------- */

/* Called by a driver's thread: wakes the connection's thread, and touches nothing of the connection
 * afterwards. */
static void queue_is_done(void *arg, enum gpud_status status)
{
    struct operation *operation = arg;
    struct gpud_connection *connection = operation->connection;
    atomic_store(&operation->ready, status == GPUD_OK ? OPERATION_READY : OPERATION_FAILED);
    gpud_event_raise(connection->event);
    atomic_fetch_sub(&connection->callbacks, 1);
}

static enum gpud_status order_locked(struct operation *operation, void *native_queue,
                                     struct gpud_error *error)
{
    struct gpud_connection *connection = operation->connection;
    struct gpud_region *region = operation->completion.region;
    struct gpud_queue theirs;
    enum gpud_status status =
        region ? gpud_queue_wrap(region->memory->device, native_queue, &theirs, error)
               : gpud_fail(error, GPUD_INVALID, "no region, and so no device with a queue");
    if (status == GPUD_OK && !region->queue)
        status = gpud_queue_create(region->memory->device, &region->queue, error);
    if (status == GPUD_OK)
        status = gpud_queue_join(region->queue, &theirs, error);
    if (status != GPUD_OK)
        return status;
    atomic_store(&operation->ready, OPERATION_WAITS);
    atomic_fetch_add(&connection->callbacks, 1);
    status = gpud_queue_on_complete(region->queue, queue_is_done, operation, error);
    if (status != GPUD_OK) {
        atomic_fetch_sub(&connection->callbacks, 1);
        return status;
    }
    gpud_queue_flush(region->queue, NULL); /* work that cannot be started fails the queue */
    return GPUD_OK;
}

/* --- the call ------------------------------------------------------------------------------ */

static enum gpud_status check_params(struct gpud_connection *connection,
                                     enum gpud_completion_kind kind,
                                     const struct gpud_operation_params *params,
                                     struct gpud_operation_params *own, struct gpud_error *error)
{
    enum gpud_status status =
        connection ? gpud_sized_read(own, sizeof(*own), params,
                                     GPUD_END_OF(struct gpud_operation_params, length),
                                     "gpud_operation_params", error)
                   : gpud_fail(error, GPUD_INVALID, "no connection");
    if (status != GPUD_OK)
        return status;
    if (kind < GPUD_COMPLETION_PUT || kind > GPUD_COMPLETION_RECEIVE)
        return gpud_fail(error, GPUD_INVALID, "%u is no kind of operation", (unsigned)kind);
    bool may_be_empty =
        kind == GPUD_COMPLETION_SEND || (kind == GPUD_COMPLETION_PUT && own->notify);
    if (own->timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    if (own->notify && kind != GPUD_COMPLETION_PUT)
        return gpud_fail(error, GPUD_INVALID, "only a put notifies the peer");
    if (own->after_queue && kind == GPUD_COMPLETION_RECEIVE)
        return gpud_fail(error, GPUD_INVALID,
                         "a receive is posted at once: wait for the GPU's queue before it");
    if (own->length == 0 && !may_be_empty)
        return gpud_fail(error, GPUD_INVALID,
                         "no bytes: only a message, or a notification, may "
                         "be empty");
    if (!own->region && own->length > 0)
        return gpud_fail(error, GPUD_INVALID, "no region that the bytes are in");
    if (own->region && own->region->connection != connection)
        return gpud_fail(error, GPUD_INVALID, "the region is registered with another connection");
    if (own->region &&
        !gpud_transfer_is_inside(own->offset, own->length, own->region->memory->size))
        return gpud_fail(error, GPUD_INVALID,
                         "%llu bytes at %llu are not inside of a region of "
                         "%llu",
                         (unsigned long long)own->length, (unsigned long long)own->offset,
                         (unsigned long long)own->region->memory->size);
    return GPUD_OK;
}

/* The peer's memory that a put or a get names. */
static enum gpud_status read_key(const struct gpud_connection *connection,
                                 enum gpud_completion_kind kind,
                                 const struct gpud_operation_params *params,
                                 struct transfer_message *target, struct gpud_error *error)
{
    struct transfer_message key;
    bool is_put = kind == GPUD_COMPLETION_PUT;
    unsigned wanted = is_put ? GPUD_REGION_REMOTE_WRITE : GPUD_REGION_REMOTE_READ;
    if (!params->key && params->length == 0) {
        *target = (struct transfer_message){.generation = 0};
        return GPUD_OK;
    }
    if (!params->key)
        return gpud_fail(error, GPUD_INVALID, "no key of the peer's memory");
    const struct transfer_secret secret = {connection->peer_nonce, connection->nonce};
    enum gpud_status status = gpud_transfer_unseal(params->key->bytes, &secret, &key, error);
    if (status != GPUD_OK)
        return status;
    if (!(key.value & wanted))
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "the peer did not open the region for this: it has to register it with %s",
                         is_put ? "GPUD_REGION_REMOTE_WRITE" : "GPUD_REGION_REMOTE_READ");
    if (!gpud_transfer_is_inside(params->key_offset, params->length, key.size))
        return gpud_fail(error, GPUD_INVALID,
                         "%llu bytes at %llu are not inside of the peer's region of %llu",
                         (unsigned long long)params->length, (unsigned long long)params->key_offset,
                         (unsigned long long)key.size);
    key.offset = params->key_offset;
    *target = key;
    return GPUD_OK;
}

static enum gpud_status fail_revoked(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_NO_ACCESS, "the peer took the region back: ask it for a new key");
}

/* Returns the flag of what an operation lacks, which is set to wait for it; NULL: it lacks
 * nothing. */
static bool *find_lack_locked(struct gpud_connection *connection, enum gpud_completion_kind kind,
                              struct gpud_error *error)
{
    if (kind == GPUD_COMPLETION_RECEIVE && !connection->free_receives.first) {
        gpud_fail(error, GPUD_TIMEOUT,
                  "%d receives are posted, or not taken from the completion queue",
                  GPUD_RECEIVES_MAX);
        return &connection->wants_receive;
    }
    if (kind != GPUD_COMPLETION_RECEIVE && !connection->free_operations.first) {
        gpud_fail(error, GPUD_TIMEOUT,
                  "%d operations are under way, or not taken from the completion queue",
                  GPUD_OPERATIONS_MAX);
        return &connection->wants_operation;
    }
    if (kind == GPUD_COMPLETION_SEND && connection->peer_receive_count == 0) {
        gpud_fail(error, GPUD_TIMEOUT, "the peer has posted no receive for this message");
        return &connection->wants_target;
    }
    return NULL;
}

static enum gpud_status await_room_locked(struct gpud_connection *connection,
                                          enum gpud_completion_kind kind, int64_t timeout,
                                          struct gpud_error *error)
{
    int64_t deadline = timeout > 0 ? gpud_deadline(timeout) : 0;
    gpud_connection_progress_locked(connection);
    for (;;) {
        enum gpud_status status = gpud_connection_check_locked(connection, error);
        bool *lack = status == GPUD_OK ? find_lack_locked(connection, kind, error) : NULL;
        if (!lack)
            return status;
        status = gpud_connection_wait_locked(connection, deadline, NULL);
        if (status == GPUD_AGAIN)
            return gpud_fail(error, status, "interrupted");
        if (status != GPUD_OK) {
            *lack = true;
            return status; /* the reason says what it lacks */
        }
    }
}

static enum gpud_status find_target_locked(const struct gpud_connection *connection,
                                           uint64_t length, struct transfer_message *target,
                                           struct gpud_error *error)
{
    const struct transfer_message *first =
        &connection->peer_receives[connection->peer_receive_first];
    if (length > first->size)
        return gpud_fail(error, GPUD_INVALID,
                         "a message of %llu bytes, and the peer's next receive has room for %llu",
                         (unsigned long long)length, (unsigned long long)first->size);
    *target = *first;
    return GPUD_OK;
}

static void take_target_locked(struct gpud_connection *connection)
{
    connection->peer_receive_first = (connection->peer_receive_first + 1) % GPUD_RECEIVES_MAX;
    connection->peer_receive_count--;
}

static struct gpud_completion describe(struct gpud_connection *connection,
                                       enum gpud_completion_kind kind,
                                       const struct gpud_operation_params *params)
{
    return (struct gpud_completion){
        .kind = kind,
        .connection = connection,
        .user = params->user,
        .region = params->region,
        .offset = params->offset,
        .length = params->length,
        .value = params->value,
    };
}

static enum gpud_status begin_locked(struct gpud_connection *connection,
                                     enum gpud_completion_kind kind,
                                     const struct gpud_operation_params *params,
                                     struct gpud_error *error)
{
    struct transfer_message target = {.generation = 0};
    enum gpud_status status = GPUD_OK;
    if (params->region && params->region->closing)
        return gpud_fail(error, GPUD_INVALID, "the region is being deregistered");
    if (kind == GPUD_COMPLETION_SEND)
        status = find_target_locked(connection, params->length, &target, error);
    else
        status = read_key(connection, kind, params, &target, error);
    if (status == GPUD_OK && gpud_operation_is_revoked(connection, &target))
        status = fail_revoked(error);
    struct operation *operation = connection->free_operations.first;
    if (status != GPUD_OK)
        return status;
    operation->completion = describe(connection, kind, params);
    operation->memory =
        kind == GPUD_COMPLETION_GET && params->region ? params->region->memory : NULL;
    operation->notify = params->notify;
    operation->written = false;
    atomic_store(&operation->ready, OPERATION_READY);
    if (params->after_queue)
        status = order_locked(operation, params->native_queue, error);
    if (status != GPUD_OK)
        return status;
    if (kind == GPUD_COMPLETION_SEND)
        take_target_locked(connection);
    gpud_operation_take(&connection->free_operations);
    operation->target = target;
    if (params->region)
        params->region->uses++;
    gpud_operation_append(&connection->waiting, operation);
    return GPUD_OK;
}

static enum gpud_status receive_locked(struct gpud_connection *connection,
                                       const struct gpud_operation_params *params,
                                       struct gpud_error *error)
{
    const struct gpud_region *region = params->region;
    if (region->closing)
        return gpud_fail(error, GPUD_INVALID, "the region is being deregistered");
    if (!(region->access & GPUD_REGION_REMOTE_WRITE))
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "the peer writes its messages where they are received: register the "
                         "region with GPUD_REGION_REMOTE_WRITE");
    struct operation *operation = gpud_operation_take(&connection->free_receives);
    operation->completion = describe(connection, GPUD_COMPLETION_RECEIVE, params);
    operation->memory = region->memory;
    params->region->uses++;
    operation->number = ++connection->receive_number;
    gpud_operation_append(&connection->receiving, operation);
    const struct transfer_message message = {
        .type = TRANSFER_RECEIVE,
        .slot = region->slot,
        .generation = region->generation,
        .address = region->verbs.address + params->offset,
        .size = params->length,
        .key = region->verbs.key,
        .number = connection->receive_number,
    };
    gpud_connection_say_locked(connection, &message);
    return GPUD_OK;
}

enum gpud_status gpud_connection_post(struct gpud_connection *connection,
                                      enum gpud_completion_kind kind,
                                      const struct gpud_operation_params *params,
                                      struct gpud_error *error)
{
    struct gpud_operation_params own;
    enum gpud_status status = check_params(connection, kind, params, &own, error);
    if (status != GPUD_OK)
        return status;
    gpud_lock_take(&connection->lock);
    status = await_room_locked(connection, kind, own.timeout_ns, error);
    if (status == GPUD_OK && kind == GPUD_COMPLETION_RECEIVE) {
        status = receive_locked(connection, &own, error);
    } else if (status == GPUD_OK) {
        status = begin_locked(connection, kind, &own, error);
        if (status == GPUD_OK)
            gpud_connection_progress_locked(connection);
    }
    gpud_lock_release(&connection->lock);
    return status;
}
