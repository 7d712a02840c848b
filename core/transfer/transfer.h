/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Transfers: registered memory between hosts. */
#ifndef GPUD_TRANSFER_TRANSFER_H
#define GPUD_TRANSFER_TRANSFER_H

#include "base/base.h"
#include "device/device.h"
#include "wire/wire.h"
#include <gpudirect/transfer.h>

/* === message ================================================================================= */
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

/* === transfer ================================================================================ */
/* clang-format off */
/* Transfers of an application's own bytes between hosts: what the files of this room share.
 *
 *   gpud_transfer                a listener, a thread
 *     └─ gpud_connection …       a channel, regions, operations
 *
 * The states of a connection:
 *
 *   CONNECTING ──the channel stands──▶ GREETING ──the peer's HELLO──▶ OPEN
 *       │                                 │                             │
 *       └──────────────┬──────────────────┴─────────────────────────────┘
 *                      └─ failed, or left by either side ─▶ ENDED
 *
 * An operation is a record that is in one list at a time:
 *
 *   put, get, send   free_operations ──▶ waiting ──▶ posted ──▶ completion queue ─┐
 *                     ▲                  for a GPU's queue,                       │
 *                     │                  or for the card                          │
 *                     └───────────────────────────────────────────────────────────┘
 *   receive          free_receives ──▶ receiving ──the peer's SENT──▶ completion queue ──▶ free
 *   notification     free_arrivals ──the peer's NOTIFY──▶ completion queue ──▶ free
 *
 * When a connection ends, every operation that is waiting, posted or receiving completes.
 *
 * Files:
 *   connection.c  messages, and a connection from its first one to its end; the calls put, get,
 *                 send and receive; registered memory
 *   endpoint.c    listens and connects; the thread that looks after the connections; the queue
 *
 * Locks, in this order: transfer, connection, completion queue. Functions whose names end with
 * _locked are called with connection->lock held. */
/* clang-format on */

/* Messages that wait for room at the peer. Only the reports of unused regions are caused by the
 * peer; everything else by this side's application. */
#define TRANSFER_OUTBOX_MAX 512

/* Regions that the peer can take back at a time. */
#define TRANSFER_REVOCATIONS_MAX 64

/* From connecting to the other side's HELLO. */
#define TRANSFER_HELLO_DEADLINE (5 * GPUD_SEC)

/* Time that the goodbye has to arrive. */
#define TRANSFER_LINGER GPUD_SEC

struct operation {
    struct operation *next;
    struct gpud_connection *connection;
    struct operation_list *home; /* the free list that it returns to; NULL: it is the only one */
    struct gpud_completion completion;
    const struct gpud_memory *memory; /* where the bytes arrive, or NULL */
    struct transfer_message target;   /* the peer's region, or its receive */
    bool notify, written, busy;       /* busy: in the completion queue */
    atomic_int ready;                 /* enum operation_order: state of the work on a GPU's queue */
    /* Of an operation, the card's request that completes it; of a receive, its own number. */
    uint64_t number;
};

enum operation_order { OPERATION_WAITS, OPERATION_READY, OPERATION_FAILED };

struct operation_list {
    struct operation *first, *last;
};

static inline void gpud_operation_append(struct operation_list *list, struct operation *operation)
{
    operation->next = NULL;
    if (list->last)
        list->last->next = operation;
    else
        list->first = operation;
    list->last = operation;
}

static inline struct operation *gpud_operation_take(struct operation_list *list)
{
    struct operation *taken = list->first;
    if (taken) {
        list->first = taken->next;
        if (!list->first)
            list->last = NULL;
    }
    return taken;
}

struct gpud_completion_queue {
    atomic_uint references;
    struct gpud_lock lock; /* guards all below */
    struct operation_list list;
    bool abandoned;
    int event;     /* readable: the list is not empty */
    int interrupt; /* readable: waiting calls return */
    atomic_bool interrupted;
};

struct gpud_region {
    struct gpud_connection *connection;
    struct gpud_verbs_region verbs;
    struct gpud_memory *memory;
    struct gpud_queue *queue; /* of its device, made on first use; under the lock */
    uint32_t slot, generation;
    unsigned access;
    unsigned uses;         /* operations that use it; under the lock */
    bool closing, revoked; /* revoked: by the peer; under the lock */
};

enum connection_phase {
    CONNECTION_CONNECTING,
    CONNECTION_GREETING, /* the channel is open */
    CONNECTION_OPEN,
    CONNECTION_ENDED,
};

struct revocation {
    uint32_t slot, generation;
    uint64_t number; /* the last request posted before it */
};

struct gpud_connection {
    atomic_uint references;
    atomic_uint callbacks; /* that a GPU's queue still has to make */
    struct gpud_transfer *transfer;
    struct gpud_channel *channel;
    int event; /* wakes the thread, which handles the connection */

    struct gpud_lock lock;  /* guards all below */
    pthread_cond_t changed; /* an operation, a revocation, the phase or the end */
    enum connection_phase phase;
    bool accepted; /* by the listener */
    bool leaving;  /* this side ends it */
    bool closed;   /* only the thread and records still reference it */
    bool stalled;  /* a message waits for a free record */
    bool wants_operation, wants_receive, wants_target; /* what a refused call lacked */
    int64_t deadline;
    struct gpud_error end;
    struct gpud_completion_queue *queue;
    uint64_t nonce, peer_nonce;
    struct gpud_verbs_state state;

    struct gpud_region *regions[GPUD_REGIONS_MAX];
    uint32_t generations[GPUD_REGIONS_MAX]; /* of the latest region in each slot */
    uint32_t revoked[GPUD_REGIONS_MAX];     /* the peer's regions up to this one are gone */

    struct operation operations[GPUD_OPERATIONS_MAX], receives[GPUD_RECEIVES_MAX],
        arrivals[GPUD_RECEIVES_MAX], room, last;
    struct operation_list free_operations, free_receives, free_arrivals;
    struct operation_list waiting, posted, receiving;
    uint32_t receive_number; /* of the latest RECEIVE */

    struct transfer_message peer_receives[GPUD_RECEIVES_MAX]; /* that the peer posted */
    uint32_t peer_receive_first, peer_receive_count, peer_receive_number;
    struct revocation revocations[TRANSFER_REVOCATIONS_MAX];
    uint32_t revocation_first, revocation_count;
    struct transfer_message outbox[TRANSFER_OUTBOX_MAX];
    uint32_t outbox_first, outbox_count;
};

struct gpud_transfer {
    atomic_uint references;
    struct gpud_context *context;
    struct gpud_access_rule access;
    struct gpud_listener *listener; /* or NULL */
    pthread_t thread;
    int wake;      /* readable: the thread has work */
    int waiting;   /* readable: a connection can be accepted */
    int interrupt; /* readable: waiting calls return */
    atomic_bool stopping, interrupted;

    struct gpud_lock lock; /* guards all below */
    struct gpud_connection *connections[GPUD_CONNECTIONS_MAX];
    uint32_t count;
    int64_t accept_pause;
};

/* === completion ============================================================================== */

/* Puts the operation into the completion queue. */
void gpud_operation_complete_locked(struct operation *operation, enum gpud_status status);

/* Stops the card's access to this process's memory, then completes everything. Idempotent. */
void gpud_connection_end_locked(struct gpud_connection *connection, enum gpud_status status,
                                const char *reason);

/* GPUD_OK, or why the connection has ended. */
enum gpud_status gpud_connection_check_locked(const struct gpud_connection *connection,
                                              struct gpud_error *error);

/* === connection ============================================================================== */

/* Takes over the channel, also on failure. */
enum gpud_status gpud_connection_create(struct gpud_transfer *transfer,
                                        struct gpud_channel *channel, bool accepted,
                                        struct gpud_connection **connection,
                                        struct gpud_error *error);

/* Before it is open: handles what the channel has received. */
void gpud_connection_advance_locked(struct gpud_connection *connection);

/* Handles everything that is pending. */
void gpud_connection_progress_locked(struct gpud_connection *connection);

/* Says goodbye, which has until the deadline to arrive, and ends the connection. To leave several
 * at once, say it on all of them first. */
void gpud_connection_say_bye_locked(struct gpud_connection *connection);
void gpud_connection_leave_locked(struct gpud_connection *connection, int64_t deadline);

/* === references ============================================================================== */

void gpud_transfer_unref(struct gpud_transfer *transfer);
struct gpud_connection *gpud_connection_ref(struct gpud_connection *connection);
void gpud_connection_unref(struct gpud_connection *connection);
struct gpud_completion_queue *gpud_completion_queue_ref(struct gpud_completion_queue *queue);
void gpud_completion_queue_unref(struct gpud_completion_queue *queue);

/* === wait ==================================================================================== */

/* Waits for the connection to change. GPUD_TIMEOUT, GPUD_AGAIN. */
enum gpud_status gpud_connection_wait_locked(struct gpud_connection *connection, int64_t deadline,
                                             struct gpud_error *error);

#endif
