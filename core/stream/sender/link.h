/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One receiver as its sender sees it. */
#ifndef GPUD_STREAM_SENDER_LINK_H
#define GPUD_STREAM_SENDER_LINK_H

#include "base/log.h"
#include "base/sleep.h"
#include "route/route.h"
#include "stream/sender/state.h"
#include "stream/sender/transport.h"

enum gpud_link_state {
    GPUD_LINK_IDLE,    /* known; there is no format to offer, or the next offer has to wait */
    GPUD_LINK_OFFERED, /* a route was offered */
    GPUD_LINK_CANARY,  /* the ring is there, the test frame is under way */
    GPUD_LINK_STREAMING,
    GPUD_LINK_LEAVING, /* said goodbye, and holds frames: their slots are kept until they are back
                        */
    GPUD_LINK_DEAD,    /* no frame or message is for it; the listener's thread clears it away */
};

/* A message that has its place behind a frame that waits. */
struct gpud_held_message {
    struct gpud_held_message *next;
    uint64_t after; /* the sequence of the last frame before it */
    uint32_t epoch; /* in which it was sent */
    enum gpud_message_type type;
    uint32_t eos_epoch;
    struct gpud_user_message event; /* of its data as much as there is */
};

/* What waits for a link: see waiting.c. */
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
    uint32_t stray_kicks; /* that were not asked for */
};

/* What happens to a frame that it has no room for. Only the sender's user decides that a receiver
 * may hold the sender up. */
static inline enum gpud_slow_receiver gpud_link_policy(const struct gpud_link *link)
{
    return link->requested_policy > GPUD_SLOW_BLOCK ? link->requested_policy
                                                    : link->sender->slow_receiver;
}

/* Whether frames and events are for it. */
static inline bool gpud_link_takes_frames(const struct gpud_link *link)
{
    return link->streamed && link->state != GPUD_LINK_LEAVING && link->state != GPUD_LINK_DEAD;
}

/* Whether frames go by its transport now: it streams, and by the ring of this epoch. */
static inline bool gpud_link_is_ready(const struct gpud_link *link)
{
    return link->state == GPUD_LINK_STREAMING && link->epoch == link->sender->epoch;
}

/* Whether a frame waits for an entry, or will. */
static inline bool gpud_link_is_behind(const struct gpud_link *link)
{
    return link->waiting.slot || link->waiting.late;
}

/* The receiver lives in this process and context: it gets memory by pointer. */
bool gpud_link_is_same_process(const struct gpud_link *link);

/* Whether the pool's memory can go by pointer. */
bool gpud_link_goes_by_pointer(const struct gpud_link *link, const struct gpud_pool *pool);

/* By the listener's thread without the lock, by others under it. */
void gpud_link_peer_info(const struct gpud_link *link, struct gpud_peer_info *info);

/* --- under the lock ------------------------------------------------------------------------ */

void gpud_link_unref(struct gpud_link *link);

/* A link's state is another: threads that wait for one look again. */
void gpud_sender_changed(struct gpud_sender *sender);

/* Sends a message that has its place among the frames. A peer that has closed the connection may
 * have said goodbye before: that is no failure, reading its messages shows it. */
enum gpud_status gpud_link_try_send(struct gpud_link *link, struct gpud_message *message,
                                    struct gpud_error *error);

/* The same; the link ends if it cannot be sent. */
void gpud_link_send(struct gpud_link *link, struct gpud_message *message);

/* Drops the frame that waits; there is one. */
void gpud_link_drop_waiting(struct gpud_link *link);

/* The connection ended, or the peer lied: DEAD from now on. Frames that the receiver still holds
 * are taken back, and it is told so in the page. The listener's thread does the rest. */
void gpud_link_kill(struct gpud_link *link, enum gpud_log_level level, const char *why);

/* The receiver said goodbye: it takes no more frames. */
void gpud_link_leave(struct gpud_link *link, const char *why);

/* --- without the lock ---------------------------------------------------------------------- */

/* Frees links that have no reference any more, as they are listed in `next_retired`. */
void gpud_links_free(struct gpud_link *first);

#endif
