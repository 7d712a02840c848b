/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A connection for transfers: the input gives the peer's messages, the application's calls, and the
 * card's progress, in any order. The card gets only ranges of the own region, every operation
 * completes exactly once, arrivals are reported only within their ranges, and nothing follows the
 * end. */
#include "fuzz.h"
#include "transfer/transfer.h"

#include <stdlib.h>
#include <string.h>

#define REGION 4096
#define STEPS 400
#define OPERATIONS 1024
#define ADDRESS UINT64_C(0x100000)

static struct card {
    uint64_t posted, done;
    bool is_full, failed, refused, ended;
    uint8_t said[256];
    size_t said_size;
    bool has_said;
} card;

static struct gpud_context *context;
static uint8_t memory[REGION];
static bool completed[OPERATIONS];

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* --- the card --------------------------------------------------------------------------------- */

static enum gpud_status register_memory(struct gpud_channel *channel, struct gpud_memory *wanted,
                                        unsigned access, struct gpud_verbs_region *region,
                                        struct gpud_error *error)
{
    *region =
        (struct gpud_verbs_region){.address = ADDRESS, .key = 7, .way = "host", .record = memory};
    return GPUD_OK;
}

static void unregister(struct gpud_verbs_region *region)
{
    region->record = NULL;
}

static enum gpud_status post(void)
{
    require(!card.ended);
    if (card.failed)
        return GPUD_PEER;
    if (card.is_full)
        return GPUD_AGAIN;
    card.posted++;
    return GPUD_OK;
}

static enum gpud_status move(struct gpud_channel *channel, const struct gpud_verbs_region *region,
                             uint64_t offset, uint64_t size, uint64_t address, uint32_t key,
                             struct gpud_error *error)
{
    require(region->record == memory && size > 0 && size <= REGION && offset <= REGION - size);
    return post();
}

static enum gpud_status say(struct gpud_channel *channel, const void *bytes, size_t size,
                            struct gpud_error *error)
{
    struct transfer_message message;
    require(gpud_transfer_decode(bytes, size, &message, NULL) == GPUD_OK);
    return post();
}

static enum gpud_status hear(struct gpud_channel *channel, const void **bytes, size_t *size,
                             struct gpud_error *error)
{
    if (!card.has_said || card.failed)
        return GPUD_AGAIN;
    card.has_said = false;
    *bytes = card.said;
    *size = card.said_size;
    return GPUD_OK;
}

static void look(struct gpud_channel *channel, struct gpud_verbs_state *state)
{
    *state = (struct gpud_verbs_state){
        .posted = card.posted, .done = card.done, .failed = card.failed, .refused = card.refused};
    memcpy(state->reason, "the card failed", sizeof("the card failed"));
}

static void end(struct gpud_channel *channel, const char *reason)
{
    require(reason && strlen(reason) >= 10);
    card.ended = card.failed = true;
}

static const struct gpud_verbs_ops verbs = {
    .register_memory = register_memory,
    .unregister = unregister,
    .write = move,
    .read = move,
    .send = say,
    .receive = hear,
    .look = look,
    .end = end,
};

/* --- the channel ------------------------------------------------------------------------------ */

static enum gpud_status receive_nothing(struct gpud_channel *channel, struct gpud_message *message,
                                        struct gpud_error *error)
{
    return GPUD_AGAIN;
}

static void close_channel(struct gpud_channel *channel)
{
    free(channel);
}

static const struct gpud_channel_ops ops = {
    .receive = receive_nothing,
    .close = close_channel,
    .verbs = &verbs,
};

static struct gpud_connection *connect_one(struct gpud_completion_queue *queue)
{
    struct gpud_transfer *transfer = calloc(1, sizeof(*transfer));
    struct gpud_channel *channel = calloc(1, sizeof(*channel));
    struct gpud_connection *connection;
    require(transfer && channel);
    atomic_init(&transfer->references, 1);
    transfer->context = context;
    transfer->wake = transfer->waiting = -1;
    gpud_lock_init(&transfer->lock, GPUD_RANK_TRANSFER);
    channel->ops = &ops;
    atomic_init(&channel->references, 1);
    atomic_init(&channel->connected, true);
    require(gpud_connection_create(transfer, channel, false, &connection, NULL) == GPUD_OK);
    connection->queue = gpud_completion_queue_ref(queue);
    gpud_transfer_unref(transfer);
    return connection;
}

/* --- what happens ----------------------------------------------------------------------------- */

static void hear_message(struct fuzz_input *input)
{
    struct transfer_message message = {
        .type = (enum transfer_type)(fuzz_number(input, 1) % 10),
        .slot = fuzz_number(input, 1) % 4,
        .generation = fuzz_number(input, 1) % 4,
        .address = fuzz_number(input, 2),
        .offset = fuzz_number(input, 2),
        .size = fuzz_number(input, 2),
        .value = fuzz_number(input, 1),
        .number = fuzz_number(input, 1),
        .nonce = 5,
    };
    gpud_transfer_encode(&message, card.said);
    card.said_size = TRANSFER_MESSAGE_SIZE;
    card.has_said = true;
}

static uintptr_t ask(struct fuzz_input *input, struct gpud_connection *connection,
                     struct gpud_region *region, uintptr_t number)
{
    struct gpud_region_key key;
    const struct transfer_message peers = {
        .type = TRANSFER_KEY,
        .slot = fuzz_number(input, 1) % 4,
        .generation = 1,
        .size = REGION,
        .value = fuzz_number(input, 1) % 4,
    };
    const struct transfer_secret secret = {fuzz_number(input, 1) ? connection->peer_nonce : 6,
                                           connection->nonce};
    gpud_transfer_seal(&peers, &secret, key.bytes);
    unsigned what = fuzz_number(input, 1);
    struct gpud_operation_params params = {
        .size = sizeof(params),
        .region = region,
        .offset = fuzz_number(input, 2),
        .length = fuzz_number(input, 2),
        .key = &key,
        .notify = what & 16,
        .user = (void *)number,
    };
    struct gpud_error error = {.reason = ""};
    enum gpud_completion_kind kind = GPUD_COMPLETION_PUT + what % 4; /* …, GET, SEND, RECEIVE */
    enum gpud_status status = gpud_connection_post(connection, kind, &params, &error);
    require(status == GPUD_OK || (error.status == status && strlen(error.reason) >= 10));
    return status == GPUD_OK;
}

/* Returns how many operations of the application were among them. */
static uintptr_t take(struct gpud_completion_queue *queue, uintptr_t asked, unsigned most,
                      bool *has_ended)
{
    struct gpud_completion got = {.size = sizeof(got)};
    uintptr_t count = 0;
    size_t one;
    while (most-- > 0 && gpud_completion_queue_wait(queue, 0, &got, 1, &one, NULL) == GPUD_OK) {
        uintptr_t number = (uintptr_t)got.user;
        require(!*has_ended && got.length <= REGION && got.offset <= REGION - got.length);
        *has_ended = got.kind == GPUD_COMPLETION_END;
        if (!number)
            continue;
        require(number <= asked && !completed[number]);
        completed[number] = true;
        count++;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct gpud_completion_queue *queue;
    struct gpud_region *region;
    struct gpud_region_params params = GPUD_PARAMS_INIT(params);
    uintptr_t asked = 0, told = 0;
    bool has_ended = false;
    if (!context && gpud_context_create(NULL, &context, NULL) != GPUD_OK)
        abort();
    card = (struct card){0};
    memset(completed, 0, sizeof(completed));
    require(gpud_completion_queue_create(context, &queue, NULL) == GPUD_OK);
    struct gpud_connection *connection = connect_one(queue);
    gpud_lock_take(&connection->lock);
    gpud_connection_advance_locked(connection);
    gpud_lock_release(&connection->lock);
    params.address = memory;
    params.length = REGION;
    params.access = fuzz_number(&input, 1) % 4;
    require(gpud_region_create(connection, &params, &region, NULL) == GPUD_OK);
    for (int step = 0; step < STEPS && input.size > 0; step++) {
        unsigned what = fuzz_number(&input, 1);
        switch (what % 8) {
        case 0:
            card.said_size = fuzz_number(&input, 1) % 80;
            for (size_t i = 0; i < card.said_size; i++)
                card.said[i] = (uint8_t)fuzz_number(&input, 1);
            card.has_said = true;
            break;
        case 1:
        case 2:
            hear_message(&input);
            break;
        case 3:
        case 4:
            if (asked + 1 < OPERATIONS)
                asked += ask(&input, connection, region, asked + 1);
            break;
        case 5:
            card.done = card.failed ? card.done : card.posted - (card.posted > 0 && what > 127);
            break;
        case 6:
            card.is_full = what & 8;
            card.failed |= what == 6;
            card.refused |= what == 6 && step % 2;
            break;
        case 7:
            told += take(queue, asked, 1 + what / 8, &has_ended);
            break;
        }
        gpud_lock_take(&connection->lock);
        gpud_connection_progress_locked(connection);
        gpud_lock_release(&connection->lock);
    }
    gpud_lock_take(&connection->lock);
    gpud_connection_end_locked(connection, GPUD_CLOSED, "this side closed the connection");
    gpud_lock_release(&connection->lock);
    told += take(queue, asked, UINT32_MAX, &has_ended);
    require(told == asked && has_ended && region->uses == 0);
    require(gpud_region_destroy(&region, 0, NULL) == GPUD_OK);
    gpud_completion_queue_destroy(&queue);
    require(atomic_load(&connection->references) == 1);
    gpud_connection_unref(connection);
    return 0;
}
