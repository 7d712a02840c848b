/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One receiver as its sender sees it. */
#ifndef GPUD_STREAM_SENDER_LINK_H
#define GPUD_STREAM_SENDER_LINK_H

#include "base/log.h"
#include "base/probe.h"
#include "base/sleep.h"
#include "route/route.h"
#include "stream/sender/state.h"
#include "stream/sender/transport.h"

enum gpud_link_state {
    GPUD_LINK_IDLE,    /* there is no format to offer, or the next offer has to wait */
    GPUD_LINK_OFFERED, /* a route was offered */
    GPUD_LINK_CANARY,  /* the ring is set up, the test frame is under way */
    GPUD_LINK_STREAMING,
    GPUD_LINK_LEAVING, /* sent BYE but still holds frames, whose slots are kept */
    GPUD_LINK_DEAD,    /* gets no frame or message; the listener's thread frees it */
};

/* A frame that waits for a link, with a reference on its large meta. */
struct gpud_waiting_frame {
    struct gpud_waiting_frame *next;
    struct gpud_slot *slot; /* as one of its users; complete */
    bool is_prepared;       /* it waited for a ring that was in use */
    uint64_t sequence;
    struct gpud_frame_info info;
};

/* A message whose position is after a waiting frame. */
struct gpud_held_message {
    struct gpud_held_message *next;
    uint64_t after; /* the sequence of the last frame before it */
    uint32_t epoch; /* in which it was sent */
    enum gpud_message_type type;
    uint32_t eos_epoch;
    struct gpud_user_message event; /* allocated with only as much data as it has */
};

/* The frames and the messages that wait for a link: see waiting.c. */
struct gpud_waiting {
    struct gpud_waiting_frame *frames, *last_frame; /* oldest first */
    uint32_t count;                                 /* of them */
    uint32_t late;      /* frames without a credit whose copies are still under way */
    uint32_t late_kept; /* of these: for a link whose ring was not ready */
    bool is_delivering; /* the listener's thread delivers the oldest one, and counts it in `late` */
    struct gpud_held_message *first, *last; /* messages positioned after those frames */
    uint32_t held;
    bool was_late;   /* its last handshake was not over when the next format came */
    bool is_armed;   /* the receiver sends a KICK for the next returned entry */
    bool owes_offer; /* the new epoch's OFFER follows: wakes the listener's thread */
    int64_t give_up; /* when to drop the frames; 0: never */
    int64_t look;    /* when to look for room that nothing reports; 0: not needed */
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
    struct gpud_device *peer_device; /* the receiver's, if open in the sender's own context; else
                                        NULL */
    bool same_clock;                 /* as in struct gpud_peer_info */
    enum gpud_slow_receiver requested_policy; /* DEFAULT: the sender's */

    /* Only for the listener's thread. */
    struct gpud_route_trials *trials;
    _Atomic int64_t deadline; /* of the state; INT64_MAX: none. IDLE: when to make an offer */
    int64_t offer_by;         /* IDLE: the latest time for an offer; 0: no offer failed yet */
    uint32_t epoch_tried;     /* the last one for which an offer was begun */
    int64_t resize_by;        /* the latest time for a GROW or SHRINK that found no room; 0: none */
    uint32_t slots_asked;     /* by SLOTS: the frames that it wishes to hold; 0: not asked */
    int64_t raise_at;         /* when to try once more to let it; INT64_MAX: not to be tried */
    bool connect_reported;    /* to the application */
    bool end_reported;        /* likewise */
    bool end_logged;

    /* Under the lock; only the listener's thread changes `transport`, `streamed` and `epoch`, and
     * reads them without it. */
    uint32_t references;
    struct gpud_link *next_retired;
    _Atomic(enum gpud_link_state) state; /* any thread may make it DEAD */
    uint32_t epoch;                      /* of the last offer that was sent; 0: none */
    bool streamed; /* has been STREAMING: its frames count as delivered or dropped */
    struct gpud_link_end end;
    bool started; /* has had a first frame; `start` is the sequence before it */
    uint64_t start;
    char fallback_reason[GPUD_REASON_MAX]; /* why not a better route */
    struct gpud_transport *transport;      /* from OFFERED on */
    uint32_t slots; /* of a pool, which the receiver may hold; from the offer on */
    struct gpud_waiting waiting;
    struct gpud_spin spin;
    uint64_t delivered; /* frames that it has taken, or can still take from its ring */
    uint64_t dropped;
    /* Parts of `dropped`. */
    uint64_t dropped_newest, dropped_oldest, dropped_failed, dropped_format;
    struct gpud_link_stats stats; /* the receiver's, as of its transport before this one */

    uint32_t kicks_due;   /* requested; see poll.c */
    uint32_t stray_kicks; /* received without a request */
};

/* What to do with a frame without a credit. A receiver cannot request BLOCK: only the sender's user
 * may let a receiver delay the sender. */
static inline enum gpud_slow_receiver gpud_link_policy(const struct gpud_link *link)
{
    return link->requested_policy > GPUD_SLOW_BLOCK ? link->requested_policy
                                                    : link->sender->slow_receiver;
}

/* Whether it gets frames and events. */
static inline bool gpud_link_takes_frames(const struct gpud_link *link)
{
    return link->streamed && link->state != GPUD_LINK_LEAVING && link->state != GPUD_LINK_DEAD;
}

/* Whether it streams over the current epoch's ring. */
static inline bool gpud_link_is_ready(const struct gpud_link *link)
{
    return link->state == GPUD_LINK_STREAMING && link->epoch == link->sender->epoch;
}

/* Whether a frame waits for the link, or will wait. */
static inline bool gpud_link_is_behind(const struct gpud_link *link)
{
    return link->waiting.frames || link->waiting.late;
}

/* Whether the receiver is in this process and context, so that it can get memory by pointer. */
bool gpud_link_is_same_process(const struct gpud_link *link);

/* Whether it gets the pool's memory by pointer. */
bool gpud_link_goes_by_pointer(const struct gpud_link *link, const struct gpud_pool *pool);

/* The listener's thread calls it without the lock, others under it. */
void gpud_link_peer_info(const struct gpud_link *link, struct gpud_peer_info *info);

/* --- under the lock ------------------------------------------------------------------------ */

void gpud_link_unref(struct gpud_link *link);

/* Call after changing a link's state: wakes threads that wait for a change. */
void gpud_sender_changed(struct gpud_sender *sender);

/* Sends a message with a position among the frames. A connection that the peer has closed is not a
 * failure: it may have sent BYE before, which reading its messages shows. */
enum gpud_status gpud_link_try_send(struct gpud_link *link, struct gpud_message *message,
                                    struct gpud_error *error);

/* The same, but ends the link on failure. */
void gpud_link_send(struct gpud_link *link, struct gpud_message *message);

/* How many frames of its ring the receiver has not taken. */
static inline uint32_t gpud_link_count_untaken(const struct gpud_link *link)
{
    if (link->state != GPUD_LINK_STREAMING)
        return 0;
    uint32_t count = gpud_page_count_unclaimed(&link->transport->page);
    return count < link->delivered ? count : (uint32_t)link->delivered; /* there may be void ones */
}

/* The newest `count` frames were not delivered after all. */
static inline void gpud_link_uncount(struct gpud_link *link, uint32_t count)
{
    link->delivered -= count;
    link->sender->delivered -= count;
}

/* A frame is lost for this receiver; cause: one of the parts of `dropped`. What a receiver drops by
 * its own policy does not count as a loss of the sender. */
static inline void gpud_link_count_drop(struct gpud_link *link, uint64_t *cause)
{
    (*cause)++;
    link->dropped++;
    link->sender->dropped += link->requested_policy <= GPUD_SLOW_BLOCK;
    GPUD_PROBE(drop, link->sender, link->id, link->dropped);
}

/* Takes out the oldest waiting frame, of which there is one. */
struct gpud_waiting_frame *gpud_link_take_waiting(struct gpud_link *link);

/* Ends a frame that was taken out. */
void gpud_waiting_frame_free(struct gpud_waiting_frame *frame);

/* Drops the oldest waiting frame, of which there is one. */
void gpud_link_drop_waiting(struct gpud_link *link);

/* Makes the link DEAD after the end of its connection or a violation. Takes back the frames that
 * the receiver still holds, and marks that in the page. The listener's thread does the rest. */
void gpud_link_kill(struct gpud_link *link, enum gpud_log_level level, const char *why);

/* Handles the receiver's BYE: it gets no more frames. */
void gpud_link_leave(struct gpud_link *link, const char *why);

/* --- without the lock ---------------------------------------------------------------------- */

/* Frees a list of links, by `next_retired`, that have no reference any more. */
void gpud_links_free(struct gpud_link *first);

#endif
