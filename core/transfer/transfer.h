/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

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
 * Files, each of which calls only those before it:
 *   message.c        encoding and decoding
 *   references.c     what keeps the objects alive
 *   wait.c           sleeping calls, and interrupting them
 *   queue.c          the completion queue
 *   completion.c     records into it, and the end of a connection, which completes all
 *   exchange.c       what the two ends say to each other
 *   post.c           records to the card
 *   connection.c     a connection from its first message to its end
 *   operation.c      the calls put, get, send and receive;  region.c  registered memory
 *   thread.c         looks after the connections;  endpoint.c  listens and connects
 *
 * Locks, in this order: transfer, connection, completion queue. Functions whose names end with
 * _locked are called with connection->lock held. */
/* clang-format on */
#ifndef GPUD_TRANSFER_TRANSFER_H
#define GPUD_TRANSFER_TRANSFER_H

#include "base/clock.h"
#include "base/lock.h"
#include "device/device.h"
#include "transfer/message.h"
#include "wire/channel.h"

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

#endif
