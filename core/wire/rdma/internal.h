/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of this folder share. Functions that end with _locked want channel->lock. */
#ifndef GPUD_WIRE_RDMA_INTERNAL_H
#define GPUD_WIRE_RDMA_INTERNAL_H

#include "base/lock.h"
#include "device/rdma/rdma.h"
#include "wire/auth.h"
#include "wire/rdma/channel.h"
#include "wire/rdma/lookup.h"
#include "wire/rdma/private_data.h"

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

/* --- channel.c ----------------------------------------------------------------------------- */

/* With one reference, without an id. */
enum gpud_status gpud_rdma_channel_create(bool is_sender, const struct gpud_rdma_place *place,
                                          struct rdma_channel **channel, struct gpud_error *error);

/* Frees one that nobody else uses, with all that belongs to it. */
void gpud_rdma_channel_destroy(struct rdma_channel *channel);

bool gpud_rdma_channel_watch(const struct rdma_channel *channel, int fd);

/* --- connect.c ----------------------------------------------------------------------------- */

/* Begins to connect; *channel is not connected yet. */
enum gpud_status gpud_rdma_channel_connect(struct rdma_channel *channel, struct gpud_error *error);

/* Takes the request, whose id is the channel's from now on, and reports to channel->events.
 * GPUD_AGAIN: whoever asked has given up. */
enum gpud_status gpud_rdma_channel_accept(struct rdma_channel *channel, struct rdma_cm_id *id,
                                          struct gpud_error *error);

/* Goes on with what rdma_cm has told meanwhile. */
void gpud_rdma_drive_locked(struct rdma_channel *channel);

/* RDMA_PROVING: goes on with what the peer has sent. For who receives. false: it sent nothing. */
bool gpud_rdma_prove_locked(struct rdma_channel *channel);

/* Before RDMA_OPEN: it has ended for this reason. */
void gpud_rdma_end_locked(struct rdma_channel *channel, const struct gpud_error *why);

/* Ends the connection, if there is one. */
void gpud_rdma_disconnect_locked(struct rdma_channel *channel, const char *why);

/* Lets go of id and queue pair. */
void gpud_rdma_drop_id_locked(struct rdma_channel *channel);

/* --- closing.c ----------------------------------------------------------------------------- */

/* Whether what was sent has arrived, or never will. */
bool gpud_rdma_has_arrived_locked(struct rdma_channel *channel);

/* Whether the peer can be told of the end: a message of rdma_cm would find its way. Also where none
 * would be sent. */
bool gpud_rdma_has_route_locked(const struct rdma_channel *channel);

/* Disconnects when both hold, which is asked once; or destroys the channel, to which there is no
 * reference any more. Not under its lock. */
void gpud_rdma_disconnect_later(struct rdma_channel *channel);
void gpud_rdma_destroy_later(struct rdma_channel *channel);

/* --- wake.c -------------------------------------------------------------------------------- */

/* Deals with what the card has done, and tells those who wait for it. */
void gpud_rdma_look_around(struct rdma_channel *channel);

/* The next event makes the connection's descriptor readable, whoever of this side needs it. What
 * came before that has been dealt with; look once more. To receive: for who takes messages and
 * KICKs, and need not be told of them. */
void gpud_rdma_arm_to_sleep(struct rdma_channel *channel);
void gpud_rdma_arm_to_receive(struct rdma_channel *channel);

/* Asks for a KICK; whether there is one, which is taken. */
void gpud_rdma_want_kick(struct rdma_channel *channel);
bool gpud_rdma_take_kick(struct rdma_channel *channel);

/* --- record.c, carrier.c; see record.h ------------------------------------------------------ */

/* Writes what had no room. */
void gpud_rdma_catch_up(struct rdma_channel *channel);

/* Wakes those of its records that sleep. */
void gpud_rdma_wake_records(struct rdma_channel *channel);

/* Frees what was kept for the peer's sake: where it is proved that it does not write there any
 * more; or all, after the end. */
void gpud_rdma_collect_records(struct rdma_channel *channel, bool all);

extern const struct gpud_remote_ops gpud_rdma_remote_ops;

#endif
