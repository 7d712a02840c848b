/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* The messages between the two ends of a connection for transfers. Pure encoding and decoding.
 *
 *     this end                                the other
 *        HELLO ─────────────────────────────────▶     a nonce; both seal the keys of both ends
 *        ◀───────────────────────────────── HELLO
 *        RECEIVE ───────────────────────────────▶     where to write the next message
 *        ◀═══ the message's bytes, by the card ════
 *        ◀────────────────────────────────── SENT     they are complete; how many
 *        ◀═══ bytes that were put, by the card ════
 *        ◀──────────────────────────────── NOTIFY     they are complete; where
 *        REVOKE ────────────────────────────────▶     a region will be deregistered
 *        ◀─────────────────────────────── REVOKED     no request of mine uses it any more
 *        BYE ───────────────────────────────────▶     without it the end is a crash
 *
 * The RECEIVEs of one end are numbered from 1 on; a SENT has the number of the one that it used.
 *
 * A KEY travels by the application's own means, in the same shape. Its last eight bytes are a seal:
 * the first eight of the HMAC-SHA256 of all others, by both nonces of the connection. So a key that
 * was damaged on its way, or is of another connection, reaches no card.
 *
 * Every message has 64 bytes, with numbers in little-endian; what it does not need is zero:
 *
 *     0  magic "GPUT"      4  version, 16 bits    6  type, 16 bits
 *     8  slot of a region  12 its generation      16 address           24 offset
 *    32  size              40 rkey                44 value             48 number
 *    52  0                 56 nonce of a HELLO, seal of a KEY
 *
 * The first eight bytes are the same in every version. */
/* clang-format on */
#ifndef GPUD_TRANSFER_MESSAGE_H
#define GPUD_TRANSFER_MESSAGE_H

#include "base/error.h"
#include <gpudirect/transfer.h>

#define TRANSFER_VERSION 2
#define TRANSFER_MESSAGE_SIZE 64
_Static_assert(TRANSFER_MESSAGE_SIZE == GPUD_REGION_KEY_SIZE, "a key has the shape of a message");

enum transfer_type {
    TRANSFER_KEY = 1,
    TRANSFER_HELLO,
    TRANSFER_RECEIVE,
    TRANSFER_SENT,
    TRANSFER_NOTIFY,
    TRANSFER_REVOKE,
    TRANSFER_REVOKED,
    TRANSFER_BYE,
};

struct transfer_message {
    enum transfer_type type;
    uint32_t slot, generation; /* of a region, at its owner; generation 0: no region */
    uint64_t address, offset, size;
    uint32_t key;
    uint32_t value; /* the application's; of a KEY: its access */
    uint32_t number;
    uint64_t nonce; /* of a HELLO; else 0 */
};

void gpud_transfer_encode(const struct transfer_message *message,
                          uint8_t bytes[TRANSFER_MESSAGE_SIZE]);

/* Decodes what a peer sent, or the application passed. GPUD_UNSUPPORTED: another version.
 * GPUD_PEER: not a message. */
enum gpud_status gpud_transfer_decode(const void *bytes, size_t size,
                                      struct transfer_message *message, struct gpud_error *error);

/* What seals the keys of one end of a connection. */
struct transfer_secret {
    uint64_t own, peer; /* nonces, from the view of the region's end */
};

/* Encodes and seals a message of type KEY for the application. */
void gpud_transfer_seal(const struct transfer_message *message,
                        const struct transfer_secret *secret, uint8_t bytes[TRANSFER_MESSAGE_SIZE]);

/* Decodes it when the peer's application passes it. GPUD_INVALID: not a key, damaged, or of another
 * connection. */
enum gpud_status gpud_transfer_unseal(const uint8_t bytes[TRANSFER_MESSAGE_SIZE],
                                      const struct transfer_secret *secret,
                                      struct transfer_message *message, struct gpud_error *error);

/* Whether `length` bytes at `offset` are inside `size`; 0 bytes are, also at its end. */
bool gpud_transfer_is_inside(uint64_t offset, uint64_t length, uint64_t size);

#endif
