/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Operations, and how their completion is told. */
#include "transfer/transfer.h"

#include "base/base.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* === completion ============================================================================== */
/* Completes operations: one by one, or all when their connection ends. */

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

/* === post ==================================================================================== */
/* Moves waiting operations to the card. */

/* Whether the peer took the region back. */
static bool operation_is_revoked(const struct gpud_connection *connection,
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
    if (!operation->written && operation_is_revoked(connection, &operation->target))
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

/* === wait ==================================================================================== */
/* How calls sleep, and what wakes them. */

enum gpud_status gpud_transfer_await(int fd, int interrupt, int64_t deadline)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = interrupt, .events = POLLIN}};
    for (;;) {
        struct timespec left = gpud_time_left(deadline);
        int ready = ppoll(fds, 2, &left, NULL);
        if (ready > 0)
            return fds[1].revents ? GPUD_AGAIN : GPUD_OK;
        if (gpud_now() >= deadline) /* else a signal interrupted it */
            return GPUD_TIMEOUT;
    }
}

void gpud_transfer_set_interrupt(int interrupt, bool interrupted)
{
    uint64_t ignored;
    if (interrupted)
        gpud_event_raise(interrupt);
    else if (read(interrupt, &ignored, sizeof(ignored)) < 0)
        return; /* was not set */
}

enum gpud_status gpud_connection_wait_locked(struct gpud_connection *connection, int64_t deadline,
                                             struct gpud_error *error)
{
    if (atomic_load(&connection->transfer->interrupted))
        return gpud_fail(error, GPUD_AGAIN, "interrupted");
    if (gpud_now() >= deadline)
        return gpud_fail(error, GPUD_TIMEOUT, "the deadline is over");
    gpud_lock_wait_until(&connection->lock, &connection->changed, deadline);
    return GPUD_OK;
}

/* === operation =============================================================================== */
/* The call for puts, gets, sends and receives. */

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

static enum gpud_status operation_check_params(struct gpud_connection *connection,
                                               enum gpud_completion_kind kind,
                                               const struct gpud_operation_params *params,
                                               struct gpud_operation_params *own,
                                               struct gpud_error *error)
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

static struct gpud_completion operation_describe(struct gpud_connection *connection,
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
    if (status == GPUD_OK && operation_is_revoked(connection, &target))
        status = fail_revoked(error);
    struct operation *operation = connection->free_operations.first;
    if (status != GPUD_OK)
        return status;
    operation->completion = operation_describe(connection, kind, params);
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
    operation->completion = operation_describe(connection, GPUD_COMPLETION_RECEIVE, params);
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
    enum gpud_status status = operation_check_params(connection, kind, params, &own, error);
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

/* === references ============================================================================== */
/* Keeps transfers, connections and completion queues alive, and frees them with the last
 * reference. */

struct gpud_transfer *gpud_transfer_ref(struct gpud_transfer *transfer)
{
    atomic_fetch_add_explicit(&transfer->references, 1, memory_order_relaxed);
    return transfer;
}

void gpud_transfer_unref(struct gpud_transfer *transfer)
{
    if (atomic_fetch_sub_explicit(&transfer->references, 1, memory_order_acq_rel) != 1)
        return;
    gpud_listener_close(&transfer->listener);
    gpud_fd_close(&transfer->wake);
    gpud_fd_close(&transfer->waiting);
    gpud_fd_close(&transfer->interrupt);
    gpud_lock_destroy(&transfer->lock);
    free(transfer);
}

struct gpud_completion_queue *gpud_completion_queue_ref(struct gpud_completion_queue *queue)
{
    atomic_fetch_add_explicit(&queue->references, 1, memory_order_relaxed);
    return queue;
}

void gpud_completion_queue_unref(struct gpud_completion_queue *queue)
{
    if (!queue || atomic_fetch_sub_explicit(&queue->references, 1, memory_order_acq_rel) != 1)
        return;
    gpud_fd_close(&queue->event);
    gpud_fd_close(&queue->interrupt);
    gpud_lock_destroy(&queue->lock);
    free(queue);
}

struct gpud_connection *gpud_connection_ref(struct gpud_connection *connection)
{
    atomic_fetch_add_explicit(&connection->references, 1, memory_order_relaxed);
    return connection;
}

void gpud_connection_unref(struct gpud_connection *connection)
{
    if (atomic_fetch_sub_explicit(&connection->references, 1, memory_order_acq_rel) != 1)
        return;
    gpud_channel_unref(&connection->channel);
    gpud_completion_queue_unref(connection->queue);
    gpud_fd_close(&connection->event);
    pthread_cond_destroy(&connection->changed);
    gpud_lock_destroy(&connection->lock);
    gpud_transfer_unref(connection->transfer);
    free(connection);
}
