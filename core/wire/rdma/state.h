/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A channel as the files of this folder share it. Functions that end with _locked are called with
 * channel->lock held. Each file calls only those before it:
 *
 *   publish.c, records.c    the records of links: what is written, and what is kept
 *   ending.c, lifetime.c    how a connection is ended; a channel is made and freed
 *   connect.c               how a connection comes about
 *   wake.c, carrier.c       which thread is woken; the ring page between hosts
 *   record.c, verbs.c       links and transfers over a connection
 *   hub.c, listen.c         who connects
 *   closing.c, channel.c    the end behind the last words; the kind of channel
 */
#ifndef GPUD_WIRE_RDMA_STATE_H
#define GPUD_WIRE_RDMA_STATE_H

#include "base/lock.h"
#include "device/rdma/rdma.h"
#include "wire/auth.h"
#include "wire/rdma/kind.h"
#include "wire/rdma/lookup.h"
#include "wire/rdma/private_data.h"
#include "wire/unix/received.h"

/* From the first look-up of a name to the connection: rdma_cm itself would try for a minute. */
#define RDMA_CONNECT_DEADLINE (5 * GPUD_SEC)
#define RDMA_RESOLVE_MS 2000
/* A request that was lost with its link is repeated by the kernel after 4.3 s only: the first one
 * has so long for an answer, then a new one is sent. */
#define RDMA_ASK_AGAIN (3 * GPUD_SEC / 2)
#define RDMA_PROOF_DEADLINE (5 * GPUD_SEC)
/* What was sent before the end has so long to arrive. */
#define RDMA_LINGER GPUD_SEC

/* Messages that wait until the connection stands. */
#define RDMA_WAITING_MAX 4

enum rdma_phase {
    RDMA_LOOKING_UP, /* the host's name */
    RDMA_ROUTING,    /* address, route, connection: rdma_cm's */
    RDMA_PROVING,    /* each end, that it has the key */
    RDMA_OPEN,       /* for messages; for good: what ends it is the connection's to say */
    RDMA_ENDED,      /* before it was open; `end` says why */
};

struct rdma_waiting {
    uint8_t *bytes;
    size_t size;
};

struct rdma_remote;

struct rdma_channel {
    struct gpud_channel base; /* first */
    bool is_sender;           /* it was accepted */
    struct gpud_rdma_place place;
    char where[GPUD_ADDRESS_MAX]; /* of the other end, for people */
    int event;                    /* whoever polls the channel is to look */

    struct gpud_lock lock; /* for all until the next lock */
    enum rdma_phase phase;
    struct gpud_error end;
    bool hung_up;
    bool card_gone; /* the card was taken out, and takes no message any more */
    /* Of all that comes before RDMA_OPEN; from then on of the next look at whether the peer lives.
     */
    int64_t deadline;
    int64_t ask_again; /* when the request is sent anew; INT64_MAX: no more */
    bool asked;        /* a request was sent */
    int timer;         /* tells of the earlier of these two */
    struct gpud_rdma_lookup *lookup;
    struct sockaddr_storage addresses[GPUD_RDMA_ADDRESSES_MAX];
    size_t address_count, address_next;
    struct rdma_event_channel *events;
    struct rdma_cm_id *id;
    uint32_t peer_receives, peer_queue_pair; /* as the request said, of who was accepted */
    struct rdma_waiting waiting[RDMA_WAITING_MAX];
    uint32_t waiting_count;
    bool has_key;
    struct gpud_auth_key key;
    struct gpud_auth auth;
    struct rdma_channel *next_closing; /* see closing.c */
    struct gpud_received received;     /* a receiver's, while it is open */
    uint64_t last_posted;
    int64_t linger;

    /* Set under the lock. From RDMA_PROVING on it stays, and is for who has seen that. */
    struct gpud_rdma *rdma;

    /* See wake.c. */
    struct gpud_lock arm_lock;
    atomic_uint notices;    /* so often something came, whoever saw it */
    atomic_uint messages;   /* that have come, as last seen */
    atomic_uint sleepers;   /* records whose side sleeps, see carrier.c */
    atomic_uint behind;     /* records with words that had no room */
    atomic_bool wants_kick; /* the side polls, and was not told yet */
    atomic_uint kick_after; /* notices by then */

    struct gpud_lock records_lock; /* for the lists, and who is in them */
    struct rdma_remote *records, *retired;
    uint64_t record_count; /* ever made */
};

#endif
