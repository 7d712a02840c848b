/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* Authentication between hosts: both ends of a connection prove that they have the same key, and
 * neither sends it. No end sends anything that opens memory, such as an rkey, before it is done.
 * No I/O except for random numbers and the key's file; the channel carries the messages and
 * enforces the deadline.
 *
 *     receiver (connects)                     sender (listens)
 *        ◀──────────────────────────── CHALLENGE      a nonce
 *        PROOF ────────────────────────────────▶      a nonce, and a MAC
 *        ◀────────────────────────────── VERDICT      another MAC: the sender has the key, too
 *        ◀───────────────────────────▶ REFUSE         instead of the next one: why, and the end
 *
 * A MAC is the HMAC-SHA256, under the key, of a label for the end that proves itself (with its
 * NUL), the sender's nonce, the receiver's nonce, and the context: bytes that identify this
 * connection, such as both addresses and queue pair numbers, so that a proof cannot be replayed on
 * another one. Ends without a key exchange the same messages without MACs, so that both ends can
 * report when only one of them has a key.
 *
 * Every message has 80 bytes, with numbers in little-endian; unused fields are zero:
 *
 *     0  magic "GPUA"     4  version, 16 bits     6  type, 16 bits     8  length, 32 bits
 *    12  32 bits: 1 with a key, 0 without; in a REFUSE the reason
 *    16  nonce, 32 bytes, in CHALLENGE and PROOF
 *    48  MAC, 32 bytes, in PROOF and VERDICT
 *
 * The first eight bytes are the same in every version. */
/* clang-format on */
#ifndef GPUD_WIRE_AUTH_H
#define GPUD_WIRE_AUTH_H

#include "base/error.h"
#include <sys/socket.h>

#define GPUD_AUTH_VERSION 1
#define GPUD_AUTH_MESSAGE_SIZE 80
#define GPUD_AUTH_NONCE_SIZE 32
#define GPUD_AUTH_CONTEXT_MAX 256

/* --- the key -------------------------------------------------------------------------------- */

#define GPUD_AUTH_KEY_MIN 16
#define GPUD_AUTH_KEY_MAX 1024

/* A secret: never logged, and wiped after use. */
struct gpud_auth_key {
    size_t size;
    uint8_t bytes[GPUD_AUTH_KEY_MAX];
};

/* The file must be a regular one, owned by this process's user or by root, without permissions for
 * others. It holds only the key; one newline at its end is ignored. On failure (GPUD_INVALID,
 * GPUD_NO_ACCESS, GPUD_IO) *key is unchanged and the reason says what to do. */
enum gpud_status gpud_auth_read_key(const char *path, struct gpud_auth_key *key,
                                    struct gpud_error *error);
void gpud_auth_wipe_key(struct gpud_auth_key *key);

/* Whether a sender may listen on this address: without a key only on loopback addresses, unless
 * unauthenticated_allowed. GPUD_NO_ACCESS, with what to set. A wildcard address is not loopback,
 * nor is one of a family other than IPv4 and IPv6. */
enum gpud_status gpud_auth_may_listen(const struct sockaddr *address, bool has_key,
                                      bool unauthenticated_allowed, struct gpud_error *error);

/* --- the exchange --------------------------------------------------------------------------- */

enum gpud_auth_role {
    GPUD_AUTH_SENDER,   /* listens, and speaks first */
    GPUD_AUTH_RECEIVER, /* connects */
};

enum gpud_auth_type {
    GPUD_AUTH_CHALLENGE = 1,
    GPUD_AUTH_PROOF,
    GPUD_AUTH_VERDICT,
    GPUD_AUTH_REFUSE,
};

enum gpud_auth_refusal {
    GPUD_AUTH_NOT_REFUSED,
    GPUD_AUTH_NO_KEY,     /* the refusing end has none, the other end does */
    GPUD_AUTH_KEY_WANTED, /* the refusing end has one, the other end does not */
    GPUD_AUTH_KEYS_DIFFER,
    GPUD_AUTH_OTHER_VERSION,
};

enum gpud_auth_state {
    GPUD_AUTH_FAILED, /* also before gpud_auth_begin(), in zeroed memory */
    GPUD_AUTH_SENDS,
    GPUD_AUTH_AWAITS,
    GPUD_AUTH_DONE,
};

struct gpud_auth {
    enum gpud_auth_role role;
    enum gpud_auth_state state;
    enum gpud_auth_type type; /* of the message to send or to expect next */
    enum gpud_auth_refusal refusal;
    const struct gpud_auth_key *key;
    char peer[128];                         /* "the sender at 10.0.0.1:7174" */
    uint8_t nonce[2][GPUD_AUTH_NONCE_SIZE]; /* by role */
    uint8_t context[GPUD_AUTH_CONTEXT_MAX];
    size_t context_size;
};

/* peer: the other end's address, for reasons. key: NULL for none; borrowed until the exchange is
 * done or has failed. context: the same at both ends, not empty; copied. After an error *auth is in
 * the state FAILED. */
enum gpud_status gpud_auth_begin(struct gpud_auth *auth, enum gpud_auth_role role, const char *peer,
                                 const struct gpud_auth_key *key, const void *context,
                                 size_t context_size, struct gpud_error *error);

/* Gets the message to send now; false if there is none. After a failure this may be a REFUSE for
 * the other end: send it, then close the connection. */
bool gpud_auth_next(struct gpud_auth *auth, uint8_t bytes[GPUD_AUTH_MESSAGE_SIZE]);

/* Handles a message from the other end. GPUD_NO_ACCESS: keys differ, or one end has none.
 * GPUD_UNSUPPORTED: another version. GPUD_PEER: it is malformed, or none was due. Every error is
 * final. */
enum gpud_status gpud_auth_handle(struct gpud_auth *auth, const uint8_t *bytes, size_t size,
                                  struct gpud_error *error);

/* Whether the other end has proved that it has the key or, without a key, has none either. The
 * sender is done once gpud_auth_next() has returned its VERDICT. */
bool gpud_auth_is_done(const struct gpud_auth *auth);

#endif
