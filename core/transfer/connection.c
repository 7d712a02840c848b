/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection, and the messages that set it up. */
#include "transfer/transfer.h"

#include "base/base.h"

#include <endian.h>
#include <gpudirect/transfer.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
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

static void put16(uint8_t *bytes, uint16_t number)
{
    number = htole16(number);
    memcpy(bytes, &number, sizeof(number));
}

static void put32(uint8_t *bytes, uint32_t number)
{
    number = htole32(number);
    memcpy(bytes, &number, sizeof(number));
}

static void put64(uint8_t *bytes, uint64_t number)
{
    number = htole64(number);
    memcpy(bytes, &number, sizeof(number));
}

static uint16_t get16(const uint8_t *bytes)
{
    uint16_t number;
    memcpy(&number, bytes, sizeof(number));
    return le16toh(number);
}

static uint32_t get32(const uint8_t *bytes)
{
    uint32_t number;
    memcpy(&number, bytes, sizeof(number));
    return le32toh(number);
}

static uint64_t get64(const uint8_t *bytes)
{
    uint64_t number;
    memcpy(&number, bytes, sizeof(number));
    return le64toh(number);
}

void gpud_transfer_encode(const struct transfer_message *message,
                          uint8_t bytes[TRANSFER_MESSAGE_SIZE])
{
    memset(bytes, 0, TRANSFER_MESSAGE_SIZE);
    memcpy(bytes, MAGIC, 4);
    put16(bytes + 4, TRANSFER_VERSION);
    put16(bytes + 6, (uint16_t)message->type);
    put32(bytes + 8, message->slot);
    put32(bytes + 12, message->generation);
    put64(bytes + 16, message->address);
    put64(bytes + 24, message->offset);
    put64(bytes + 32, message->size);
    put32(bytes + 40, message->key);
    put32(bytes + 44, message->value);
    put32(bytes + 48, message->number);
    put64(bytes + 56, message->nonce);
}

enum gpud_status gpud_transfer_decode(const void *data, size_t size,
                                      struct transfer_message *message, struct gpud_error *error)
{
    const uint8_t *bytes = data;
    uint64_t end;
    if (size >= 4 && memcmp(bytes, MAGIC_OF_FRAMES, 4) == 0)
        return gpud_fail(error, GPUD_PEER,
                         "the peer sends or receives frames: transfers have an address of their "
                         "own");
    if (size < 8 || memcmp(bytes, MAGIC, 4) != 0)
        return gpud_fail(error, GPUD_PEER, "these bytes are no message of a transfer, and no key");
    if (get16(bytes + 4) != TRANSFER_VERSION)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the peer speaks version %u of transfers, this side version %u: use the "
                         "same gpudirect at both ends",
                         get16(bytes + 4), TRANSFER_VERSION);
    if (size != TRANSFER_MESSAGE_SIZE || get32(bytes + 52) != 0 ||
        get16(bytes + 6) < TRANSFER_KEY || get16(bytes + 6) > TRANSFER_BYE)
        return gpud_fail(error, GPUD_PEER, "a message of a transfer, or a key, makes no sense");
    struct transfer_message made = {
        .type = (enum transfer_type)get16(bytes + 6),
        .slot = get32(bytes + 8),
        .generation = get32(bytes + 12),
        .address = get64(bytes + 16),
        .offset = get64(bytes + 24),
        .size = get64(bytes + 32),
        .key = get32(bytes + 40),
        .value = get32(bytes + 44),
        .number = get32(bytes + 48),
        .nonce = get64(bytes + 56),
    };
    if (made.slot >= GPUD_REGIONS_MAX || __builtin_add_overflow(made.address, made.size, &end) ||
        __builtin_add_overflow(made.offset, made.size, &end))
        return gpud_fail(error, GPUD_PEER, "a message of a transfer, or a key, makes no sense");
    *message = made;
    return GPUD_OK;
}

static void compute_seal(const uint8_t bytes[TRANSFER_MESSAGE_SIZE],
                         const struct transfer_secret *secret, uint8_t seal[SEAL_SIZE])
{
    struct hmac_sha256_ctx hmac;
    uint8_t key[16], digest[SHA256_DIGEST_SIZE];
    put64(key, secret->own);
    put64(key + 8, secret->peer);
    hmac_sha256_set_key(&hmac, sizeof(key), key);
    hmac_sha256_update(&hmac, SEAL_AT, bytes);
    hmac_sha256_digest(&hmac, sizeof(digest), digest);
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
                         "these bytes are no key of a region: give those of "
                         "gpud_region_info.key as they are; a local region has none");
    compute_seal(own, secret, seal);
    if (!memeql_sec(seal, own + SEAL_AT, SEAL_SIZE))
        return gpud_fail(error, GPUD_INVALID,
                         "the key is of a region that was not registered with this connection (the "
                         "peer has to register it there, too), or was damaged on its way here: "
                         "give the bytes of gpud_region_info.key as they are");
    made.nonce = 0;
    *message = made;
    return GPUD_OK;
}

bool gpud_transfer_is_inside(uint64_t offset, uint64_t length, uint64_t size)
{
    return offset <= size && length <= size - offset;
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

static void exchange_handle(struct gpud_connection *connection,
                            const struct transfer_message *message)
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
    connection_hear_locked(connection);
    connection_flush_locked(connection);
    if (connection->phase == CONNECTION_OPEN) {
        gpud_operation_post_locked(connection);
        gpud_operation_reap_locked(connection);
        connection_confirm_locked(connection);
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
