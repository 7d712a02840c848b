/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection: its messages, its operations, and the memory that is registered with it. */
#include "transfer/transfer.h"

#include "base/base.h"

#include <endian.h>
#include <gpudirect/transfer.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>

/* === message ================================================================================= */

#define TRANSFER_VERSION 2
#define MAGIC "GPUT"
#define MAGIC_OF_FRAMES "GPUD"
#define SEAL_AT 56
#define SEAL_SIZE (TRANSFER_MESSAGE_SIZE - SEAL_AT)

/* The 64 bytes of a message; numbers are in little-endian. */
struct encoded {
    char magic[4];
    uint16_t version, type;
    uint32_t slot, generation;
    uint64_t address, offset, size;
    uint32_t key, value, number, zero;
    uint64_t nonce; /* of a KEY: its seal */
};

_Static_assert(sizeof(struct encoded) == TRANSFER_MESSAGE_SIZE &&
                   offsetof(struct encoded, nonce) == SEAL_AT,
               "no padding");

void gpud_transfer_encode(const struct transfer_message *message,
                          uint8_t bytes[TRANSFER_MESSAGE_SIZE])
{
    struct encoded made = {
        .version = htole16(TRANSFER_VERSION),
        .type = htole16((uint16_t)message->type),
        .slot = htole32(message->slot),
        .generation = htole32(message->generation),
        .address = htole64(message->address),
        .offset = htole64(message->offset),
        .size = htole64(message->size),
        .key = htole32(message->key),
        .value = htole32(message->value),
        .number = htole32(message->number),
        .nonce = htole64(message->nonce),
    };
    memcpy(made.magic, MAGIC, sizeof(made.magic));
    memcpy(bytes, &made, sizeof(made));
}

enum gpud_status gpud_transfer_decode(const void *data, size_t size,
                                      struct transfer_message *message, struct gpud_error *error)
{
    struct encoded got = {.magic = ""};
    uint64_t end;
    if (size > 0)
        memcpy(&got, data, size < sizeof(got) ? size : sizeof(got));
    if (memcmp(got.magic, MAGIC_OF_FRAMES, sizeof(got.magic)) == 0)
        return gpud_fail(error, GPUD_PEER,
                         "the peer sends or receives frames: transfers have an address of their "
                         "own");
    if (size < 8 || memcmp(got.magic, MAGIC, sizeof(got.magic)) != 0)
        return gpud_fail(error, GPUD_PEER,
                         "these bytes are neither a message of a transfer nor a key");
    if (le16toh(got.version) != TRANSFER_VERSION)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the peer speaks version %u of transfers, this side version %u: use the "
                         "same gpudirect at both ends",
                         le16toh(got.version), TRANSFER_VERSION);
    struct transfer_message made = {
        .type = (enum transfer_type)le16toh(got.type),
        .slot = le32toh(got.slot),
        .generation = le32toh(got.generation),
        .address = le64toh(got.address),
        .offset = le64toh(got.offset),
        .size = le64toh(got.size),
        .key = le32toh(got.key),
        .value = le32toh(got.value),
        .number = le32toh(got.number),
        .nonce = le64toh(got.nonce),
    };
    if (size != TRANSFER_MESSAGE_SIZE || got.zero != 0 || made.type < TRANSFER_KEY ||
        made.type > TRANSFER_BYE || made.slot >= GPUD_REGIONS_MAX ||
        __builtin_add_overflow(made.address, made.size, &end) ||
        __builtin_add_overflow(made.offset, made.size, &end))
        return gpud_fail(error, GPUD_PEER, "a message or key of a transfer is malformed");
    *message = made;
    return GPUD_OK;
}

static void compute_seal(const uint8_t bytes[TRANSFER_MESSAGE_SIZE],
                         const struct transfer_secret *secret, uint8_t seal[SEAL_SIZE])
{
    const uint64_t key[] = {htole64(secret->own), htole64(secret->peer)};
    uint8_t digest[SHA256_DIGEST_LENGTH];
    /* Without memory for it, a seal that no key has. */
    if (!HMAC(EVP_sha256(), key, sizeof(key), bytes, SEAL_AT, digest, NULL) &&
        getrandom(digest, sizeof(digest), 0) < 0)
        abort();
    memcpy(seal, digest, SEAL_SIZE);
}

void gpud_transfer_seal(const struct transfer_message *message,
                        const struct transfer_secret *secret, uint8_t bytes[TRANSFER_MESSAGE_SIZE])
{
    gpud_transfer_encode(message, bytes);
    compute_seal(bytes, secret, bytes + SEAL_AT);
}

enum gpud_status gpud_transfer_unseal(const uint8_t bytes[TRANSFER_MESSAGE_SIZE],
                                      const struct transfer_secret *secret,
                                      struct transfer_message *message, struct gpud_error *error)
{
    const unsigned all = GPUD_REGION_REMOTE_WRITE | GPUD_REGION_REMOTE_READ;
    uint8_t own[TRANSFER_MESSAGE_SIZE], seal[SEAL_SIZE];
    struct transfer_message made;
    memcpy(own, bytes, sizeof(own)); /* the application may change its bytes */
    if (gpud_transfer_decode(own, sizeof(own), &made, NULL) != GPUD_OK ||
        made.type != TRANSFER_KEY || made.generation == 0 || made.size == 0 || made.offset != 0 ||
        made.number != 0 || made.value == 0 || (made.value & ~all))
        return gpud_fail(error, GPUD_INVALID,
                         "these bytes are not the key of a region: give those of the peer's "
                         "gpud_region_info.key unchanged; a local region has none");
    compute_seal(own, secret, seal);
    if (CRYPTO_memcmp(seal, own + SEAL_AT, SEAL_SIZE) != 0)
        return gpud_fail(error, GPUD_INVALID,
                         "the key is of a region that was not registered with this connection (the "
                         "peer has to register it there, too), or was damaged on its way here: "
                         "give the bytes of gpud_region_info.key as they are");
    made.nonce = 0;
    *message = made;
    return GPUD_OK;
}

/* Whether `length` bytes at `offset` are inside `size`; 0 bytes are, also at its end. */
static bool is_inside(uint64_t offset, uint64_t length, uint64_t size)
{
    return offset <= size && length <= size - offset;
}

/* === references ============================================================================== */
/* Keeps transfers, connections and completion queues alive, and frees them with the last
 * reference. */

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

/* === completion ============================================================================== */
/* Completes operations: one by one, or all when their connection ends. */

void gpud_operation_complete_locked(struct operation *operation, enum gpud_status status)
{
    struct gpud_connection *connection = operation->connection;
    struct gpud_completion_queue *queue = connection->queue;
    operation->completion.status = status;
    if (operation->completion.region && operation->completion.kind != GPUD_COMPLETION_NOTIFICATION)
        operation->completion.region->uses--;
    operation->busy = true;
    bool wanted = false;
    if (queue) {
        gpud_lock_take(&queue->lock);
        wanted = !queue->abandoned;
        if (wanted) {
            bool was_empty = !queue->list.first;
            gpud_connection_ref(connection);
            gpud_operation_append(&queue->list, operation);
            if (was_empty)
                gpud_event_raise(queue->event);
        }
        gpud_lock_release(&queue->lock);
    }
    if (!wanted) { /* the queue was destroyed: the operation stays the connection's */
        operation->busy = false;
        if (operation->home)
            gpud_operation_append(operation->home, operation);
    }
    pthread_cond_broadcast(&connection->changed);
}

/* The same for bytes that arrived: whatever a GPU reads from now on sees them. */
static void operation_arrive_locked(struct operation *operation)
{
    enum gpud_status status = GPUD_OK;
    if (operation->memory && operation->completion.length > 0)
        status = gpud_memory_flush_remote((struct gpud_memory *)operation->memory, NULL);
    gpud_operation_complete_locked(operation, status);
}

/* Completes what the card has done. */
static void operation_reap_locked(struct gpud_connection *connection)
{
    struct operation *first;
    while ((first = connection->posted.first) && first->number <= connection->state.done) {
        gpud_operation_take(&connection->posted);
        operation_arrive_locked(first);
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
        operation_reap_locked(connection);
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

/* === post ==================================================================================== */
/* Moves waiting operations to the card. */

/* Whether the peer took the region back. */
static bool operation_is_revoked(const struct gpud_connection *connection,
                                 const struct transfer_message *target)
{
    return target->generation && target->generation <= connection->revoked[target->slot];
}

/* The bytes, and the message behind them that tells the peer about them. GPUD_AGAIN: not yet. */
static enum gpud_status post_one(struct gpud_connection *connection, struct operation *operation)
{
    struct gpud_channel *channel = connection->channel;
    const struct gpud_verbs_ops *verbs = channel->ops->verbs;
    const struct gpud_completion *range = &operation->completion;
    const struct transfer_message *target = &operation->target;
    enum gpud_status status = GPUD_OK;
    int ready = atomic_load(&operation->ready);
    if (ready == OPERATION_WAITS)
        return GPUD_AGAIN;
    if (ready == OPERATION_FAILED)
        return GPUD_IO;
    if (!operation->written && operation_is_revoked(connection, target))
        return GPUD_NO_ACCESS;
    if (!operation->written && range->length > 0) {
        status = (range->kind == GPUD_COMPLETION_GET ? verbs->read : verbs->write)(
            channel, &range->region->verbs, range->offset, range->length,
            target->address + target->offset, target->key, NULL);
        operation->written = status == GPUD_OK;
    }
    bool is_send = range->kind == GPUD_COMPLETION_SEND;
    if (status == GPUD_OK && (is_send || operation->notify)) {
        uint8_t bytes[TRANSFER_MESSAGE_SIZE];
        struct transfer_message message = *target;
        message.type = is_send ? TRANSFER_SENT : TRANSFER_NOTIFY;
        message.address = 0;
        message.key = 0;
        message.size = range->length;
        message.value = range->value;
        gpud_transfer_encode(&message, bytes);
        status = verbs->send(channel, bytes, sizeof(bytes), NULL);
    }
    return status == GPUD_PEER ? GPUD_AGAIN : status; /* the connection's end completes it */
}

/* Gives the card the waiting operations, in order, while it has room and their queues are done. */
static void operation_post_locked(struct gpud_connection *connection)
{
    struct operation *first;
    while ((first = connection->waiting.first)) {
        enum gpud_status status = post_one(connection, first);
        if (status == GPUD_AGAIN)
            return;
        gpud_operation_take(&connection->waiting);
        if (status != GPUD_OK && first->completion.kind == GPUD_COMPLETION_SEND) {
            /* The peer's receive is free for another message. */
            connection->peer_receive_first =
                (connection->peer_receive_first + GPUD_RECEIVES_MAX - 1) % GPUD_RECEIVES_MAX;
            connection->peer_receives[connection->peer_receive_first] = first->target;
            connection->peer_receive_count++;
        }
        connection->channel->ops->verbs->look(connection->channel, &connection->state);
        first->number = connection->state.posted;
        if (status == GPUD_OK)
            gpud_operation_append(&connection->posted, first);
        else
            gpud_operation_complete_locked(first, status);
    }
}

/* === exchange ================================================================================ */
/* The messages between the two ends; see transfer.h. */

/* --- sending ------------------------------------------------------------------------------- */

static void connection_flush_locked(struct gpud_connection *connection)
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

/* Sends the message as soon as the peer has room for it. */
static void connection_say_locked(struct gpud_connection *connection,
                                  const struct transfer_message *message)
{
    uint32_t place = connection->outbox_first + connection->outbox_count;
    if (connection->outbox_count == TRANSFER_OUTBOX_MAX) {
        gpud_connection_end_locked(connection, GPUD_PEER, "the peer does not read what it is told");
        return;
    }
    connection->outbox[place % TRANSFER_OUTBOX_MAX] = *message;
    connection->outbox_count++;
    connection_flush_locked(connection);
}

/* Tells the peer which of the regions that it took back are no longer written. */
static void connection_confirm_locked(struct gpud_connection *connection)
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
        connection_say_locked(connection, &revoked);
    }
}

/* --- receiving ----------------------------------------------------------------------------- */

static void break_off(struct gpud_connection *connection, const char *why)
{
    char reason[GPUD_REASON_MAX];
    gpud_print(reason, "the peer broke the protocol of transfers: %s", why);
    gpud_connection_end_locked(connection, GPUD_PEER, reason);
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
    operation_arrive_locked(receive);
}

/* For a region that this side has deregistered meanwhile, only the value is delivered. */
static void hear_notification(struct gpud_connection *connection,
                              const struct transfer_message *message)
{
    struct gpud_region *region = connection->regions[message->slot];
    if (message->generation == 0 || !region || region->generation != message->generation)
        region = NULL;
    if (region && (!(region->access & GPUD_REGION_REMOTE_WRITE) ||
                   !is_inside(message->offset, message->size, region->memory->size))) {
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
    operation_arrive_locked(arrival);
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

static void exchange_handle(struct gpud_connection *connection,
                            const struct transfer_message *message)
{
    if ((connection->phase == CONNECTION_GREETING) != (message->type == TRANSFER_HELLO)) {
        break_off(connection, "it greets twice, or not at all");
        return;
    }
    switch (message->type) {
    case TRANSFER_HELLO:
        connection->peer_nonce = message->nonce;
        connection->phase = CONNECTION_OPEN;
        connection->deadline = INT64_MAX;
        if (connection->accepted)
            gpud_event_raise(connection->transfer->waiting);
        pthread_cond_broadcast(&connection->changed);
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
    case TRANSFER_REVOKED: {
        struct gpud_region *region = connection->regions[message->slot];
        if (!region || region->generation != message->generation || !region->closing)
            break; /* it came too late */
        region->revoked = true;
        pthread_cond_broadcast(&connection->changed);
        break;
    }
    case TRANSFER_BYE:
        gpud_connection_end_locked(connection, GPUD_CLOSED, "the peer closed the connection");
        break;
    case TRANSFER_KEY:
        break_off(connection, "keys do not travel this way");
        break;
    }
}

/* Handles the peer's messages. */
static void connection_hear_locked(struct gpud_connection *connection)
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
            exchange_handle(connection, &message);
        else
            gpud_connection_end_locked(connection, GPUD_PEER, error.reason);
    }
}

/* === connection ============================================================================== */
/* A connection from its first message to its end. */

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
    atomic_fetch_add_explicit(&transfer->references, 1, memory_order_relaxed);
    made->transfer = transfer;
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

void gpud_connection_advance_locked(struct gpud_connection *connection)
{
    struct gpud_message message;
    struct gpud_error error = {.reason = ""};
    enum gpud_status status = gpud_channel_receive(connection->channel, &message, &error);
    if (status == GPUD_AGAIN && atomic_load(&connection->channel->connected)) {
        const struct transfer_message hello = {.type = TRANSFER_HELLO, .nonce = connection->nonce};
        connection->phase = CONNECTION_GREETING;
        connection->deadline = gpud_deadline(TRANSFER_HELLO_DEADLINE);
        connection_say_locked(connection, &hello);
    } else if (status == GPUD_OK) {
        gpud_message_close(&message);
        gpud_connection_end_locked(connection, GPUD_PEER, "the peer speaks before it is connected");
    } else if (status != GPUD_AGAIN) {
        gpud_connection_end_locked(connection, status, error.reason);
    }
}

/* --- going on ------------------------------------------------------------------------------ */

void gpud_connection_progress_locked(struct gpud_connection *connection)
{
    if (connection->phase != CONNECTION_GREETING && connection->phase != CONNECTION_OPEN)
        return;
    const struct gpud_verbs_ops *verbs = connection->channel->ops->verbs;
    verbs->look(connection->channel, &connection->state);
    connection_hear_locked(connection);
    connection_flush_locked(connection);
    if (connection->phase == CONNECTION_OPEN) {
        operation_post_locked(connection);
        operation_reap_locked(connection);
        connection_confirm_locked(connection);
        bool has_room = (connection->wants_operation && connection->free_operations.first) ||
                        (connection->wants_receive && connection->free_receives.first) ||
                        (connection->wants_target && connection->peer_receive_count > 0);
        if (has_room && !connection->room.busy) {
            connection->wants_operation = connection->wants_receive = false;
            connection->wants_target = false;
            gpud_operation_complete_locked(&connection->room, GPUD_OK);
        }
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
        connection_say_locked(connection, &bye);
    }
}

void gpud_connection_leave_locked(struct gpud_connection *connection, int64_t deadline)
{
    const struct gpud_verbs_ops *verbs = connection->channel->ops->verbs;
    struct gpud_verbs_state *state = &connection->state;
    gpud_connection_say_bye_locked(connection);
    while (connection->phase == CONNECTION_OPEN && gpud_now() < deadline) {
        connection_flush_locked(connection);
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
        return gpud_fail(error, GPUD_INVALID,
                         "%u is not an operation: expected put, get, send or receive",
                         (unsigned)kind);
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
    if (own->region && !is_inside(own->offset, own->length, own->region->memory->size))
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
    if (!is_inside(params->key_offset, params->length, key.size))
        return gpud_fail(error, GPUD_INVALID,
                         "%llu bytes at %llu are not inside of the peer's region of %llu",
                         (unsigned long long)params->length, (unsigned long long)params->key_offset,
                         (unsigned long long)key.size);
    key.offset = params->key_offset;
    *target = key;
    return GPUD_OK;
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
    bool is_send = kind == GPUD_COMPLETION_SEND;
    struct transfer_message target = connection->peer_receives[connection->peer_receive_first];
    if (params->region && params->region->closing)
        return gpud_fail(error, GPUD_INVALID, "the region is being deregistered");
    if (is_send && params->length > target.size)
        return gpud_fail(error, GPUD_INVALID,
                         "a message of %llu bytes, and the peer's next receive has room for %llu",
                         (unsigned long long)params->length, (unsigned long long)target.size);
    enum gpud_status status =
        is_send ? GPUD_OK : read_key(connection, kind, params, &target, error);
    if (status != GPUD_OK)
        return status;
    if (operation_is_revoked(connection, &target))
        return gpud_fail(error, GPUD_NO_ACCESS,
                         "the peer took the region back: ask it for a new key");
    struct operation *operation = connection->free_operations.first;
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
    if (is_send) {
        connection->peer_receive_first = (connection->peer_receive_first + 1) % GPUD_RECEIVES_MAX;
        connection->peer_receive_count--;
    }
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
    connection_say_locked(connection, &message);
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

/* === region ================================================================================== */
/* Registered memory. */

#define ACCESS_ALL (GPUD_REGION_REMOTE_WRITE | GPUD_REGION_REMOTE_READ)

/* The least time that a peer has to stop using a region. */
#define REVOKE_MIN GPUD_SEC

_Static_assert((int)GPUD_REGION_REMOTE_WRITE == (int)GPUD_VERBS_REMOTE_WRITE &&
                   (int)GPUD_REGION_REMOTE_READ == (int)GPUD_VERBS_REMOTE_READ,
               "the same bits");

/* --- registering --------------------------------------------------------------------------- */

/* The memory that the caller gives, or its bytes on the device that it, or the drivers, name. */
static enum gpud_status find_memory(struct gpud_context *context,
                                    const struct gpud_region_params *params,
                                    struct gpud_memory **memory, struct gpud_error *error)
{
    struct gpud_device *device = NULL;
    uint64_t end;
    if (params->memory && (params->address || params->length || params->device))
        return gpud_fail(error, GPUD_INVALID,
                         "either a memory, or an address with its length and device");
    if (params->memory) {
        *memory = gpud_memory_ref(params->memory);
        return GPUD_OK;
    }
    if (!params->address || params->length == 0 ||
        __builtin_add_overflow((uintptr_t)params->address, params->length, &end))
        return gpud_fail(error, GPUD_INVALID, "no memory, and no bytes at an address");
    struct gpud_pointer_info info = GPUD_INFO_INIT(info);
    const char *name = params->device;
    if (!name || strcmp(name, "auto") == 0) {
        gpud_pointer_get_info(params->address, &info);
        name = info.device;
        if (info.kind == GPUD_POINTER_MANAGED)
            return gpud_fail(
                error, GPUD_UNSUPPORTED,
                "the address is managed memory, which moves between %s and the host by "
                "itself: no card can follow; allocate it on the device (cuMemAlloc)",
                name);
    }
    enum gpud_status status = gpud_device_open(context, name, &device, error);
    if (status == GPUD_OK)
        status =
            gpud_memory_wrap(device, params->address, params->length, NULL, NULL, memory, error);
    gpud_device_close(&device);
    return status;
}

static void region_discard(struct gpud_region *region)
{
    struct gpud_connection *connection = region->connection;
    if (region->verbs.record)
        connection->channel->ops->verbs->unregister(&region->verbs);
    gpud_queue_unref(&region->queue);
    gpud_memory_unref(&region->memory);
    gpud_connection_unref(connection);
    free(region);
}

enum gpud_status gpud_region_create(struct gpud_connection *connection,
                                    const struct gpud_region_params *params,
                                    struct gpud_region **region, struct gpud_error *error)
{
    struct gpud_region_params own;
    enum gpud_status status =
        connection && region
            ? gpud_sized_read(&own, sizeof(own), params,
                              GPUD_END_OF(struct gpud_region_params, memory), "gpud_region_params",
                              error)
            : gpud_fail(error, GPUD_INVALID, "no connection, or no place for the region");
    if (status == GPUD_OK && own.access & ~(unsigned)ACCESS_ALL)
        status = gpud_fail(error, GPUD_INVALID, "there is no access 0x%x", own.access);
    if (status != GPUD_OK)
        return status;
    struct gpud_region *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a region");
    made->connection = gpud_connection_ref(connection);
    made->access = own.access;
    status = find_memory(connection->transfer->context, &own, &made->memory, error);
    if (status == GPUD_OK && made->memory->read_only)
        status = gpud_fail(error, GPUD_INVALID, "read-only memory cannot be registered: copy it");
    if (status == GPUD_OK)
        status = connection->channel->ops->verbs->register_memory(connection->channel, made->memory,
                                                                  own.access, &made->verbs, error);
    if (status == GPUD_OK) {
        uint32_t slot = 0;
        gpud_lock_take(&connection->lock);
        status = gpud_connection_check_locked(connection, error);
        while (slot < GPUD_REGIONS_MAX && connection->regions[slot])
            slot++;
        if (status == GPUD_OK && slot == GPUD_REGIONS_MAX)
            status = gpud_fail(error, GPUD_NO_MEMORY,
                               "%d regions are registered with this connection, which are the "
                               "most: register larger ones, and use ranges of them",
                               GPUD_REGIONS_MAX);
        if (status == GPUD_OK) {
            made->slot = slot;
            made->generation = ++connection->generations[slot];
            connection->regions[slot] = made;
        }
        gpud_lock_release(&connection->lock);
    }
    if (status == GPUD_OK)
        *region = made;
    else
        region_discard(made);
    return status;
}

void gpud_region_get_info(const struct gpud_region *region, struct gpud_region_info *info)
{
    struct gpud_connection *connection = region->connection;
    struct gpud_region_info made = {.length = region->memory->size, .access = region->access};
    gpud_print(made.device, "%s", region->memory->device->info.name);
    gpud_print(made.way, "%s", region->verbs.way);
    if (region->access != GPUD_REGION_LOCAL) {
        const struct transfer_message message = {
            .type = TRANSFER_KEY,
            .slot = region->slot,
            .generation = region->generation,
            .address = region->verbs.address,
            .size = region->memory->size,
            .key = region->verbs.key,
            .value = region->access,
        };
        gpud_lock_take(&connection->lock);
        const struct transfer_secret secret = {connection->nonce, connection->peer_nonce};
        gpud_lock_release(&connection->lock);
        gpud_transfer_seal(&message, &secret, made.key.bytes);
    }
    gpud_sized_copy(info, info->size, &made, sizeof(made));
}

/* --- deregistering ------------------------------------------------------------------------- */

enum gpud_status gpud_region_destroy(struct gpud_region **region, int64_t timeout_ns,
                                     struct gpud_error *error)
{
    if (!region || !*region)
        return GPUD_OK;
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    struct gpud_region *gone = *region;
    struct gpud_connection *connection = gone->connection;
    enum gpud_status status = GPUD_OK;
    int64_t now = gpud_now();
    gpud_lock_take(&connection->lock);
    gone->closing = true;
    gpud_connection_progress_locked(connection);
    /* Waits for this side's own operations. */
    while (status == GPUD_OK && gone->uses > 0)
        status =
            gpud_connection_wait_locked(connection, gpud_deadline_from(now, timeout_ns), error);
    if (status == GPUD_TIMEOUT)
        status = gpud_fail(error, status,
                           "%u operations of the region are not done: receives wait for a "
                           "message of the peer's, and end with the connection",
                           gone->uses);
    if (status != GPUD_OK) {
        gone->closing = false;
        gpud_lock_release(&connection->lock);
        return status;
    }
    if (gone->access != GPUD_REGION_LOCAL && connection->phase == CONNECTION_OPEN) {
        /* Waits until the peer has finished its pending operations, or its time is over. */
        const struct transfer_message message = {
            .type = TRANSFER_REVOKE,
            .slot = gone->slot,
            .generation = gone->generation,
        };
        int64_t deadline =
            gpud_deadline_from(now, timeout_ns < REVOKE_MIN ? REVOKE_MIN : timeout_ns);
        connection_say_locked(connection, &message);
        while (!gone->revoked && connection->phase == CONNECTION_OPEN &&
               gpud_connection_wait_locked(connection, deadline, NULL) == GPUD_OK)
            ;
    }
    connection->regions[gone->slot] = NULL;
    gpud_lock_release(&connection->lock);
    *region = NULL;
    region_discard(gone);
    return GPUD_OK;
}
