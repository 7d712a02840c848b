/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One receiver as its sender sees it: link.c, handshake.c, offer.c, room.c and waiting.c. */
#ifndef GPUD_STREAM_SENDER_LINK_H
#define GPUD_STREAM_SENDER_LINK_H

#include "base/log.h"
#include "base/sleep.h"
#include "route/route.h"
#include "stream/sender/transport.h"
#include "wire/channel.h"

struct gpud_sender;
struct gpud_target;

enum gpud_link_state {
    GPUD_LINK_IDLE,    /* known; there is no format to offer, or the next offer has to wait */
    GPUD_LINK_OFFERED, /* a route was offered */
    GPUD_LINK_CANARY,  /* the ring is there, the test frame is under way */
    GPUD_LINK_STREAMING,
    GPUD_LINK_LEAVING, /* said goodbye, and holds frames: their slots are kept until they are back
                        */
    GPUD_LINK_DEAD,    /* no frame or message is for it; the listener's thread clears it away */
};

/* See waiting.c. */
struct gpud_held_message;
struct gpud_waiting {
    struct gpud_slot *slot; /* of the frame that waits, one of its users; NULL: none does */
    uint64_t sequence;
    struct gpud_frame_info info;
    uint32_t late; /* frames that found no credit, and whose copies are under way */
    struct gpud_held_message *first, *last; /* messages that have their place behind these */
    uint32_t held;
    bool is_armed;   /* a KICK comes for the next entry */
    bool owes_offer; /* the new epoch's follows: wakes the listener's thread */
    int64_t give_up; /* the frame is dropped then; 0: it has time */
    int64_t look;    /* whether the card has room; 0: it is not what is missing */
};

/* Why a link ended. Set under the lock; the listener's thread logs it. */
struct gpud_link_end {
    bool is_set;
    enum gpud_log_level level;
    char why[GPUD_REASON_MAX];
};

struct gpud_link {
    /* Fixed before the link is in the table. */
    struct gpud_sender *sender;
    uint64_t id;
    struct gpud_channel *channel;
    struct gpud_endpoint peer;
    struct gpud_device *peer_device; /* the receiver's, if it is open in the sender's own context;
                                        else NULL */
    bool same_clock;                 /* as in struct gpud_peer_info */
    enum gpud_slow_receiver requested_policy; /* DEFAULT: as the sender says */

    /* The listener's thread's. */
    struct gpud_route_trials *trials;
    _Atomic int64_t deadline; /* of the state; INT64_MAX: none. IDLE: when it is to be offered */
    int64_t offer_by;         /* IDLE: no later than that; 0: nothing stood in the way yet */
    uint32_t epoch_tried;     /* the last for which an offer was begun */
    bool connect_reported;    /* to the application */
    bool end_reported;        /* likewise */
    bool end_logged;

    /* Under the lock; only the listener's thread changes `transport`, `streamed` and `epoch`, and
     * reads them without it. */
    uint32_t references;
    struct gpud_link *next_retired;
    _Atomic(enum gpud_link_state) state; /* any thread may make it DEAD */
    uint32_t epoch;                      /* of the last offer that was sent; 0: none */
    bool streamed; /* has been STREAMING: its frames are promised, and counted */
    struct gpud_link_end end;
    bool started; /* a frame was meant for it; `start` is the sequence before that frame */
    uint64_t start;
    char fallback_reason[GPUD_REASON_MAX]; /* the better routes */
    struct gpud_transport *transport;      /* from OFFERED on */
    struct gpud_waiting waiting;
    struct gpud_spin spin;
    uint64_t delivered, dropped;
    uint32_t kicks_due;   /* that were asked for; see poll.c */
    uint32_t stray_kicks; /* that nobody asked for */
};

/* --- link.c -------------------------------------------------------------------------------- */

/* A receiver of this HELLO, which is answered. Takes the channel on success; on failure status and
 * *why say what it is to be refused with. In the listener's thread, without the lock. */
enum gpud_status gpud_link_create(struct gpud_sender *sender, struct gpud_channel *channel,
                                  const struct gpud_endpoint *hello, struct gpud_link **link,
                                  const char **why);

/* Under the lock. */
void gpud_link_unref(struct gpud_link *link);

/* Frees links without a reference; without the lock. */
void gpud_links_free(struct gpud_link *first);

/* A message came; see handshake.c. In the listener's thread, without the lock. */
void gpud_link_handle(struct gpud_link *link, struct gpud_message *message);

/* The connection ended, or the peer lied: DEAD from now on. Frames that the receiver still holds
 * are taken back, and it is told so in the page. The listener's thread does the rest. Under the
 * lock. */
void gpud_link_kill(struct gpud_link *link, enum gpud_log_level level, const char *why);

/* The same, without the lock. */
void gpud_link_end(struct gpud_link *link, enum gpud_log_level level, const char *why);

/* The receiver said goodbye: it takes no more frames. In the listener's thread, without the lock.
 */
void gpud_link_leave(struct gpud_link *link, const char *why);

/* The end of a handshake that cannot succeed; the peer is told why. Without the lock. */
void gpud_link_refuse(struct gpud_link *link, enum gpud_status status, const char *reason);

/* Sends a message that has its place among the frames. A peer that has closed the connection may
 * have said goodbye before: that is no failure, reading its messages shows it. Under the lock. */
enum gpud_status gpud_link_try_send(struct gpud_link *link, struct gpud_message *message,
                                    struct gpud_error *error);

/* The same; the link ends if it cannot be sent. */
void gpud_link_send(struct gpud_link *link, struct gpud_message *message);

/* Logs and reports what began and ended since the last call, hangs up and removes what is dead. In
 * the listener's thread, or after it, without the lock. */
void gpud_links_settle(struct gpud_sender *sender);

/* By the listener's thread without the lock, by others under it. */
void gpud_link_peer_info(const struct gpud_link *link, struct gpud_peer_info *info);

/* --- offer.c; in the listener's thread, without the lock ------------------------------------ */

/* What this side says of itself. */
void gpud_link_describe(const struct gpud_link *link, struct gpud_endpoint *endpoint);

/* The receiver lives in this process and context: it gets memory by pointer. */
bool gpud_link_is_same_process(const struct gpud_link *link);

/* The best route that was not tried in vain; NULL: none, link->fallback_reason says why. */
const struct gpud_route_ops *gpud_link_choose_route(struct gpud_link *link);

/* Whether the pool's memory can go by pointer. */
bool gpud_link_goes_by_pointer(const struct gpud_link *link, const struct gpud_pool *pool);

/* Offers a route. What the system has none of at the moment (descriptors, say) it may have in a
 * while: the link waits IDLE for that, some seconds at most. */
void gpud_link_offer(struct gpud_link *link);

/* The same, where it has not been offered the ring of this epoch yet, or waited long enough. */
void gpud_link_offer_if_due(struct gpud_link *link, int64_t now);

/* The route that was offered does not work: the next one. */
void gpud_link_try_next(struct gpud_link *link, const char *reason);

/* --- room.c; in the listener's thread, without the lock ------------------------------------- */

/* Room in the pool for this link; every receiver that maps the pool knows of it then. GPUD_AGAIN:
 * one cannot be told now. */
enum gpud_status gpud_room_make(struct gpud_link *link, struct gpud_pool *pool,
                                struct gpud_error *error);

/* Clears what free slots show of pictures from before this link, which is about to map them.
 * GPUD_AGAIN: later, too many slots are in use. */
enum gpud_status gpud_room_clear(struct gpud_link *link, struct gpud_pool *pool,
                                 struct gpud_error *error);

/* The link's card gets at memories of the pool that are new since it was connected. */
enum gpud_status gpud_link_register_sources(struct gpud_link *link, struct gpud_error *error);

/* Frees memories that have been spare for some seconds. */
void gpud_room_shrink(struct gpud_sender *sender, int64_t now);

/* --- waiting.c; all under the lock ----------------------------------------------------------- */

/* Whether a frame can wait for the link, which has a transport. */
bool gpud_waiting_is_possible(const struct gpud_link *link);

/* Writes what waits, if there is an entry, and what follows it. May end the link. */
void gpud_waiting_advance(struct gpud_link *link);

/* A target without an entry, which submit counted in `late`: its frame is complete, or lost; or it
 * is not delivered after all. Its references stay the caller's. */
void gpud_waiting_put(const struct gpud_target *target, const struct gpud_frame_info *info,
                      struct gpud_slot *slot, uint64_t sequence, bool lost);
void gpud_waiting_forget(const struct gpud_target *target);

/* gpud_link_send() for an EVENT or EOS of the application's: now, or in its turn. */
void gpud_waiting_send(struct gpud_link *link, struct gpud_message *message);

/* The frame that waits is dropped, if it cannot be written; what waited for it is sent. */
void gpud_waiting_drop(struct gpud_link *link);

/* Drops a frame of which nobody else uses the slot. false: there is none in this pool. */
bool gpud_waiting_give_way(struct gpud_sender *sender, const struct gpud_pool *pool);

/* The link ends. */
void gpud_waiting_clear(struct gpud_link *link);

/* Whether the OFFER of a new epoch has to wait, too: then the listener's thread is woken when it
 * may be sent. */
bool gpud_waiting_delays_offer(struct gpud_link *link);

/* In the thread: when it looks at the link at the latest, and its look at all of them. */
int64_t gpud_waiting_deadline(const struct gpud_link *link);
void gpud_waiting_turn(struct gpud_sender *sender, int64_t now);

#endif
