/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* The state of a channel that the files of this folder share. Functions that end with _locked are
 * called with channel->lock held. Each file calls only those before it:
 *
 *   publish.c, records.c    records of links: writing ranges, releasing registrations
 *   ending.c, lifetime.c    ending a connection; making and freeing a channel
 *   connect.c               establishing a connection
 *   wake.c, carrier.c       which thread is woken; the ring page between hosts
 *   record.c, verbs.c       links and transfers over a connection
 *   local.c, share.c        queries of this host; several processes on one port
 *   hub.c, listen.c         incoming connections
 *   closing.c, channel.c    lingering before a disconnect; the kind of channel
 *   names.c                 which channels a port has */
/* clang-format on */
#ifndef GPUD_WIRE_RDMA_STATE_H
#define GPUD_WIRE_RDMA_STATE_H

#include "base/lock.h"
#include "device/rdma/rdma.h"
#include "wire/auth.h"
#include "wire/rdma/kind.h"
#include "wire/rdma/lookup.h"
#include "wire/rdma/private_data.h"
#include "wire/unix/received.h"

/* From looking up the name to the connection, for which rdma_cm itself would try for a minute; and
 * again, until each end has proved that it has the key. 5 s; tests that share an emulated machine
 * with others set a longer time before they begin. */
extern int64_t gpud_rdma_handshake_deadline;
#define RDMA_RESOLVE_MS 2000
/* How long a request may go unanswered before a new one is sent: the kernel repeats a lost request
 * only after 4.3 s. */
#define RDMA_ASK_AGAIN (3 * GPUD_SEC / 2)
/* How long messages sent before the end have to arrive. */
#define RDMA_LINGER GPUD_SEC

/* Messages queued until the connection is established. */
#define RDMA_WAITING_MAX 4

enum rdma_phase {
    RDMA_LOOKING_UP, /* the host's name */
    RDMA_ROUTING,    /* address, route, connection: rdma_cm's */
    RDMA_PROVING,    /* each end proves that it has the key */
    RDMA_OPEN,       /* for messages; final: `rdma` reports the end of an open connection */
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
    int event;                    /* makes the channel's descriptor readable */

    struct gpud_lock lock; /* for the fields up to the next lock */
    enum rdma_phase phase;
    struct gpud_error end;
    bool hung_up;
    bool card_gone; /* the card was taken out of the system */
    /* Before RDMA_OPEN: of the handshake; afterwards: of the next check that the peer lives. */
    int64_t deadline;
    int64_t ask_again; /* when to send a new request; INT64_MAX: never */
    int timer;         /* expires at the earlier of the two */
    struct gpud_rdma_lookup *lookup;
    struct sockaddr_storage addresses[GPUD_RDMA_ADDRESSES_MAX];
    size_t address_count, address_next;
    struct rdma_event_channel *events;
    struct rdma_cm_id *id;
    uint32_t peer_receives, peer_queue_pair; /* from the request or the reply */
    bool asks_names;                         /* the request is only for the names at the port */
    bool asks_by_pair;                       /* and needs a queue pair for it */
    bool has_moved;                          /* to another port, as it was told once */
    struct gpud_rdma_refusal refusal;        /* the answer to it; reason 0: none yet */
    struct rdma_waiting waiting[RDMA_WAITING_MAX];
    uint32_t waiting_count;
    bool has_key;
    struct gpud_auth_key key;
    struct gpud_auth auth;
    struct rdma_channel *next_closing; /* see closing.c */
    struct gpud_received received;     /* a receiver's, while it is open */
    uint64_t last_posted;
    int64_t linger;

    /* Set under the lock. Constant from RDMA_PROVING on, then used without the lock. */
    struct gpud_rdma *rdma;

    /* See wake.c. */
    struct gpud_lock arm_lock;
    atomic_uint notices;    /* how often any thread took notices or messages from the card */
    atomic_uint messages;   /* received so far */
    atomic_uint sleepers;   /* threads that sleep on a record, see carrier.c */
    atomic_uint behind;     /* records with ranges still to be written */
    atomic_bool wants_kick; /* this side polls, and has had no KICK yet */
    atomic_uint kick_after; /* `notices` when it began to poll */

    struct gpud_lock records_lock; /* for the lists and their members */
    struct rdma_remote *records, *retired;
    uint64_t record_count; /* ever made */
};

#endif
