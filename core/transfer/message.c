/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "transfer/message.h"

#include <endian.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <string.h>

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
