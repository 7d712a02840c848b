/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connections between hosts: rdma_cm and messages. */
#ifndef GPUD_WIRE_RDMA_RDMA_H
#define GPUD_WIRE_RDMA_RDMA_H

#include "base/base.h"
#include "device/rdma/rdma.h"
#include "wire/rdma/kind.h"
#include "wire/unix/unix.h"
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <time.h>

/* === state =================================================================================== */
/* clang-format off */
/* The state of a channel that the files of this folder share. Functions that end with _locked are
 * called with channel->lock held:
 *
 *   carrier.c    the ring page between hosts, which thread is woken, links and transfers
 *   channel.c    a connection, from looking up the name to its end; which channels a port has
 *   hub.c        listening on a port that several channels and processes share */
/* clang-format on */

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
    struct gpud_place place;
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
    struct gpud_lookup *lookup;
    struct sockaddr_storage addresses[GPUD_LOOKUP_MAX];
    size_t address_count, address_next;
    struct rdma_event_channel *events;
    struct rdma_cm_id *id;
    uint32_t peer_receives, peer_queue_pair; /* from the request or the reply */
    bool asks_names;                         /* the request is only for the names at the port */
    bool asks_by_pair;                       /* and needs a queue pair for it */
    bool has_moved;                          /* once, to the port that the answer named */
    struct gpud_refusal refusal;             /* the answer to it; reason 0: none yet */
    struct rdma_waiting waiting[RDMA_WAITING_MAX];
    uint32_t waiting_count;
    bool has_key;
    struct gpud_auth_key key;
    struct gpud_auth auth;
    struct rdma_channel *next_closing; /* see channel.c */
    struct gpud_received received;     /* a receiver's, while it is open */
    uint64_t last_posted;
    int64_t linger;

    /* Set under the lock. Constant from RDMA_PROVING on, then used without the lock. */
    struct gpud_rdma *rdma;

    /* See carrier.c. */
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

/* === connect ================================================================================= */

/* Accepts a request. The channel owns the id from now on; its events go to channel->events.
 * GPUD_AGAIN: the receiver has given up. */
enum gpud_status gpud_rdma_channel_accept(struct rdma_channel *channel, struct rdma_cm_id *id,
                                          struct gpud_error *error);

/* Handles rdma_cm's pending events and the timer. */
void gpud_rdma_drive_locked(struct rdma_channel *channel);

/* === ending ================================================================================== */

/* Disconnects, if there is a connection. */
void gpud_rdma_disconnect_locked(struct rdma_channel *channel, const char *why);

/* === events ================================================================================== */
/* Events of rdma_cm: read without waiting, and acknowledged at once, because an id with an
 * unacknowledged event cannot be destroyed. */

struct gpud_rdma_event {
    enum rdma_cm_event_type type;
    int status; /* a negative errno, or a reason of rdma_cm's own */
    struct rdma_cm_id *id;
    uint32_t queue_pair; /* the peer's number */
    uint8_t data[256];   /* the peer's private data */
    size_t size;
};

/* Non-blocking; its descriptor is closed on exec, and in forked children. GPUD_NO_DEVICE,
 * GPUD_NO_ACCESS: what this host lacks, and which command helps. */
enum gpud_status gpud_rdma_open_events(struct rdma_event_channel **events,
                                       struct gpud_error *error);
/* NULL: nothing. */
void gpud_rdma_close_events(struct rdma_event_channel **events);

/* false: none. */
bool gpud_rdma_next_event(struct rdma_event_channel *events, struct gpud_rdma_event *event);

/* Reports an rdma_cm call that failed with this errno: "cannot ACTION WHERE: …". where: the
 * address. */
enum gpud_status gpud_rdma_fail_call(struct gpud_error *error, int number, const char *action,
                                     const char *where);

/* === lifetime ================================================================================ */

/* Makes a channel with one reference and no id yet. */
enum gpud_status gpud_rdma_channel_create(bool is_sender, const struct gpud_place *place,
                                          struct rdma_channel **channel, struct gpud_error *error);

/* Frees a channel without other users, with everything that it owns. */
void gpud_rdma_channel_destroy(struct rdma_channel *channel);

/* === listen ================================================================================== */
/* The operations of gpud_channel_ops for listeners: hub.c. */

/* GPUD_UNSUPPORTED: the rule has certificates, for which this kind has no TLS. access: may be NULL.
 */
enum gpud_status gpud_rdma_check_access(const struct gpud_access_rule *access,
                                        struct gpud_error *error);

enum gpud_status gpud_rdma_listen(const struct gpud_address *address,
                                  const struct gpud_access_rule *access,
                                  struct gpud_listener **listener, struct gpud_error *error);
void gpud_rdma_unlisten(struct gpud_listener *listener);
enum gpud_status gpud_rdma_accept(struct gpud_listener *listener, struct gpud_channel **channel,
                                  struct gpud_peer *peer, struct gpud_error *error);

/* === remote ================================================================================== */
/* A link's record: this side's ring page, the location of the other side's page and ring, and the
 * regions registered for them. */

struct rdma_source {
    struct gpud_memory *memory; /* the region keeps it */
    struct gpud_rdma_region *region;
};

struct rdma_remote {
    struct gpud_remote base; /* first */
    struct rdma_channel *channel;
    struct gpud_rdma *rdma;
    bool is_sender;
    uint64_t number; /* of the channel's records */

    /* Under the channel's records_lock; a record is in one of the channel's lists. */
    struct rdma_remote *next;
    bool was_attached; /* the other side's page is known */

    /* The page, followed by the published copy of our half. */
    char *pages;
    struct gpud_rdma_region *theirs;    /* the page's half that the other side writes */
    struct gpud_rdma_region *published; /* the copy */

    /* Large metas: this side's memory and, at the sender, where they are written to. */
    void *metas;
    uint64_t metas_size, metas_address;
    uint32_t metas_key;
    struct gpud_rdma_region *metas_region;

    struct gpud_lock lock; /* for publishing */
    bool attached, detached;
    uint64_t remote_address; /* of our half in the other side's page */
    uint32_t remote_key;
    bool is_behind; /* parts from `next_part` on are still to be written */
    uint32_t next_part;
    bool owes_notice;

    atomic_bool asleep;
    int event; /* wakes it */

    /* The receiver's ring; `exposed`: the receiver's registrations of it. */
    uint32_t entries, slots_per_memory, memories;
    uint64_t slot_size, frame_size;
    struct gpud_handle ring[GPUD_RING_MEMORIES_MAX];
    struct gpud_rdma_region *exposed[GPUD_RING_MEMORIES_MAX];

    /* The sender's own memories. */
    struct rdma_source *sources;
    uint32_t source_count;
};

extern const struct gpud_page_carrier gpud_rdma_carrier;

extern const struct gpud_remote_ops gpud_rdma_remote_ops;

static inline size_t rdma_own_size(const struct rdma_remote *remote)
{
    return remote->is_sender ? sizeof(struct gpud_sender_half) : sizeof(struct gpud_receiver_half);
}

static inline char *rdma_own_half(const struct rdma_remote *remote)
{
    struct gpud_page *page = remote->base.page;
    return remote->is_sender ? (char *)&page->sender : (char *)&page->receiver;
}

static inline char *rdma_published_half(const struct rdma_remote *remote)
{
    return remote->pages + sizeof(struct gpud_page);
}

/* === publish ================================================================================= */

/* Writes the ranges for which the queue had no room. True: nothing is left. */
bool gpud_rdma_catch_up_record(struct rdma_remote *remote);

/* Detaches the record: nothing is published any more. */
void gpud_rdma_stop_publishing(struct rdma_remote *remote);

/* === records ================================================================================= */
/* All records of a channel. */

/* Frees destroyed records that the peer is known not to write any more; or all, after the end. */
void gpud_rdma_collect_records(struct rdma_channel *channel, bool all);

/* === verbs =================================================================================== */

extern const struct gpud_verbs_ops gpud_rdma_verbs;

/* === wake ==================================================================================== */

/* Takes the card's completions and wakes the threads that wait for them. */
void gpud_rdma_look_around(struct rdma_channel *channel);
void gpud_rdma_arm_to_receive(struct rdma_channel *channel);
bool gpud_rdma_take_kick(struct rdma_channel *channel);

#endif
