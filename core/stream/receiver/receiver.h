/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver: what its files share. */
#ifndef GPUD_STREAM_RECEIVER_RECEIVER_H
#define GPUD_STREAM_RECEIVER_RECEIVER_H

#include "base/base.h"
#include "frame/frame.h"
#include "frame/media/media.h"
#include "route/route.h"
#include "stream/shared/shared.h"
#include "wire/wire.h"
#include <gpudirect/receiver.h>

/* === session ================================================================================= */
/* The receiver's end of a link in one epoch: the ring page, the ring by its route, and their
 * frames. Held frames keep it alive even after the connection and the receiver have ended. */

struct gpud_session;

/* The application's own memory for its frames; alloc NULL: the library allocates. */
struct gpud_own_memory {
    enum gpud_status (*alloc)(void *user, const struct gpud_layout *layout, uint32_t slot,
                              struct gpud_memory **memory, struct gpud_error *error);
    void *user;
    bool failed; /* alloc gave none, or an unsuitable one */
};

/* A frame as the application gets it. */
struct gpud_rx_frame {
    struct gpud_frame frame; /* first */
    struct gpud_session *session;
    uint32_t entry;         /* of the page; uploads: already given back */
    _Atomic uint32_t value; /* of the ready signal once the bytes are complete; 0: no signal */
    atomic_bool poisoned;
    bool by_lines;          /* handed over while it is written */
    _Atomic uint32_t lines; /* by_lines: the most valid rows that were seen */
    uint32_t slot;          /* by_lines, uploads: in the ring, from which it is copied */
    uint32_t uploaded;      /* likewise: the rows whose copy is enqueued */
    bool posted;            /* PAGE: the application's queue posts the release; uploads: our own */
    bool joined;            /* PAGE: our queue does, after those of several holders */
};

struct gpud_session {
    atomic_uint references;
    const struct gpud_route_ops *route;
    bool owns_ring; /* the sender writes into this session's own ring, instead of sharing its own */
    bool on_host;   /* the ring is in host pages, which both devices read and write */
    struct gpud_channel *channel; /* shows held frames whether their writer lives */
    struct gpud_device *device, *host;
    struct gpud_queue *queue;
    uint32_t epoch;  /* the sender's number */
    uint32_t number; /* the application's, once its frames are handed out */
    uint32_t entries;
    uint32_t slots_max;   /* of the sender's ring, if the receiver asks; 0: the ring is its own */
    uint32_t slots_asked; /* under the receiver's lock */
    struct gpud_layout layout;
    struct gpud_media_units units; /* of the frames' media */
    bool by_lines;                 /* frames may come while they are written */
    bool uploads;                  /* frames are copied from `ring` into `upload` */
    enum gpud_signal_place place;  /* of the signals */

    int page_fd;
    struct gpud_page *page;
    struct gpud_remote *remote;     /* between hosts: carries the frames and the page */
    struct gpud_handle remote_page; /* for the sender to write */
    /* Memory for the entries' large metas, which the sender writes; between hosts the record's. */
    void *metas;
    size_t meta_room; /* for each */
    struct gpud_handle metas_handle;
    /* For giving back, upload_free and frame_of; never held while putting work on a queue. */
    struct gpud_lock lock;
    struct gpud_page_rx view;
    _Atomic int wake;     /* eventfd of a polling loop, for events of this side; -1: none */
    atomic_bool poisoned; /* its writer died: see gpud_session_poison() */
    atomic_bool broken;   /* the sender said nonsense about a frame's lines */
    atomic_bool idle;     /* the acquiring thread sleeps, and will not wake the sender */

    struct gpud_ring ring; /* imported, or our own that the sender writes */
    struct gpud_memory
        *views[GPUD_RING_MEMORIES_MAX]; /* the ring's memories as our device sees them; borrowed */
    struct gpud_signal *signal[GPUD_PAGE_ENTRIES]; /* MEMORY */
    struct gpud_watchdog *watchdog;                /* PAGE */
    uint32_t last_value;
    struct gpud_ring upload; /* ours, or memories of the application's own */
    uint8_t upload_free[GPUD_PAGE_ENTRIES];
    uint32_t upload_free_count;
    struct gpud_rx_frame frames[GPUD_PAGE_ENTRIES];    /* by entry; uploads: by slot of `upload` */
    struct gpud_rx_frame *frame_of[GPUD_PAGE_ENTRIES]; /* for which the entry was claimed */

    atomic_uint_fast64_t kicks, copies_cpu, copies_gpu, waits_device;
};

/* === state =================================================================================== */
/* The state that a receiver's files share. It has no thread: everything runs in the thread that
 * acquires, except what is under the lock. Each file uses those above it, and frames.c the end of a
 * session:
 *
 *     frames.c    all frames of a session
 *     join.c      from OFFLINE to a tested session, which it makes: a state machine over messages;
 *                 and its end
 *     switch.c    from one sender to another, by a second receiver beside the first
 *     receiver.c  the public object, its counters, waiting */

#define GPUD_CONNECT_DEADLINE (5 * GPUD_SEC)
#define GPUD_HELLO_DEADLINE (2 * GPUD_SEC)
#define GPUD_IMPORT_DEADLINE (5 * GPUD_SEC)
#define GPUD_CANARY_DEADLINE (2 * GPUD_SEC)
#define GPUD_LATENCIES 4096

/* Between two tries to connect: SOON if no sender was found, else the failure may repeat. */
#define GPUD_RETRY_SOON (20 * GPUD_MSEC)
#define GPUD_RETRY_LATER (500 * GPUD_MSEC)

enum gpud_receiver_state {
    GPUD_RECEIVER_OFFLINE,
    GPUD_RECEIVER_CONNECTING, /* the channel is not established yet */
    GPUD_RECEIVER_HELLO,      /* sent HELLO, waits for the sender's */
    GPUD_RECEIVER_IDLE,       /* waits for an offer; the sender may have no format yet */
    GPUD_RECEIVER_CANARY,     /* accepted; waits for the CANARY message */
    GPUD_RECEIVER_TESTING,    /* waits for the test frame itself */
    GPUD_RECEIVER_STREAMING,
};

/* The session of the next epoch, which is made and tested while frames of the one before are left:
 * a receiver that takes them at its own pace is ready for the next ones in time. */
struct gpud_next_session {
    /* The handshake's state. OFFLINE: not begun; IDLE: the offer was refused, and another follows;
     * CANARY, TESTING; STREAMING: it is tested. */
    enum gpud_receiver_state state;
    struct gpud_session *session; /* CANARY, TESTING, STREAMING */
    uint32_t position;            /* it takes over behind these frames of the one before */
    int64_t deadline;             /* TESTING */
    uint64_t nonce;               /* likewise */
    bool failed;                  /* to be made: tried again when it is its turn */
    struct gpud_offer offer;      /* without descriptors */
};

/* A descriptor for an application's event loop: readable when acquiring has something to do. An
 * acquire that finds nothing arms it; it costs nothing before its first use. All in the acquiring
 * thread, except where noted. */
struct gpud_receiver_poll {
    struct gpud_loop loop; /* its timer: a state's deadline, the next try to connect */
    /* Any thread opens the loop, under the receiver's lock. It does not change once this is set, so
     * that the acquiring thread needs no lock. */
    atomic_bool is_open;
    int watched, watched_peer; /* the channel's descriptors; -1: none */
    bool is_armed;
    bool was_readable; /* once armed: the event says nothing about what else woke the loop */
};

struct gpud_receiver {
    /* How it was made: a receiver that is made like this one has the same. */
    struct gpud_context *context;
    struct gpud_device *device, *host;
    char name[64], route[32];
    uint32_t slots;         /* 0: as many as the sender gives */
    uint32_t picture_slots; /* in memory of its own, if that is 0 */
    enum gpud_slow_receiver slow_receiver;
    bool require_direct;
    bool by_lines;           /* frames are wanted while they are written */
    uint64_t max_frame_size; /* 0: a default */
    uint64_t modifiers[GPUD_MODIFIERS_MAX];
    uint32_t modifier_count; /* of images that the application can read */
    int64_t busy_poll;       /* the longest spin for a frame, in ns; negative: never */
    uint32_t *last_epoch;    /* `epochs`, or that of the receiver which switches to this one */
    struct gpud_own_memory own;
    void (*on_event)(void *user, enum gpud_event event, const void *data);
    void *user;
    atomic_bool interrupted;
    /* Of the group that this is a member of, called when it is interrupted; NULL: none. Under the
     * lock. */
    void (*on_interrupt)(void *user);
    void *on_interrupt_user;

    /* The link, from `address` to `stats`: a switch exchanges it as a whole. */
    struct gpud_address address;
    struct gpud_access_rule access;
    struct gpud_queue *queue; /* under the lock, like `session` */
    enum gpud_receiver_state state;
    int64_t deadline;          /* of the state; INT64_MAX: none */
    int64_t retry;             /* no new try before */
    struct gpud_error failure; /* of the last try to connect; GPUD_OK: no sender was found */
    struct gpud_await waiting; /* for a sender */
    struct gpud_channel *channel;
    bool warned_unencrypted;    /* about a connection */
    struct gpud_peer_info peer; /* same_clock: the sender's submit times are comparable */
    struct gpud_session *session;
    struct gpud_next_session next;
    uint64_t nonce; /* of the test frame: TESTING */

    bool refused;              /* by the sender; trying again soon would not help */
    bool has_refused;          /* an offer; messages about its ring may still arrive */
    bool eof;                  /* the sender's end is closed; earlier frames are still read */
    char end[GPUD_REASON_MAX]; /* why, if the network reports a reason; or "" */
    bool unread;               /* there may be messages */
    uint32_t messages;         /* counted in the session's page, as last seen */
    bool pending;              /* `message` waits for its position among the frames */
    struct gpud_message message;
    bool discontinuity; /* for the next frame */
    bool counting;      /* a frame came since the connection was made */
    uint64_t last_sequence;
    char sender_device[32], sender_pci[16];    /* as in struct gpud_format_event */
    struct gpud_format_event *reported_format; /* on this connection; NULL: none yet */
    uint32_t offered_epoch;                    /* the sender's number of that format */
    struct gpud_spin spin;
    struct gpud_pace pace;
    struct gpud_link_stats stats; /* for the sender; the acquiring thread's */

    /* The application's numbers of epochs: none comes twice, whereas every sender counts from 1. */
    uint32_t epochs;
    int kind;                           /* enum gpud_media_kind, as last reported; -1: none yet */
    struct gpud_switch *switching;      /* NULL: it stays with its sender */
    _Atomic(struct gpud_switch *) wish; /* a switch that is to begin; any thread sets it */
    struct gpud_receiver_poll poll;

    /* For what get_info reads, except per-frame counters, and for the wishes. */
    struct gpud_lock lock;
    struct gpud_access_rule rule; /* for any address; see gpud_receiver_switch() */
    uint32_t slots_wished;        /* by gpud_receiver_set_slots(); 0: `slots` are enough */
    struct gpud_receiver_info info;
    atomic_uint_fast64_t frames, dropped, corrupted; /* written only by the acquiring thread */
    _Atomic uint32_t latency[GPUD_LATENCIES];
    atomic_uint_fast64_t latency_count;
};

/* === frames.c ================================================================================ */
/* In the acquiring thread, except where noted. */

/* Prepares the frames of a new session, so that none is allocated while frames flow. */
void gpud_session_make_frames(struct gpud_session *session);

/* Claims the next frame before the position: GPUD_OK and *rx with its sequence and times in
 * frame.info; GPUD_AGAIN: none, or no room for it; else a violation or a failed device. */
enum gpud_status gpud_session_next_frame(struct gpud_session *session, uint32_t limit,
                                         struct gpud_rx_frame **rx, struct gpud_error *error);

/* Whether gpud_session_next_frame() has something to do. */
bool gpud_session_has_work(struct gpud_session *session);

/* After the writer's death: releases queues that wait for its signals; their frames count as
 * corrupted. Any thread. */
void gpud_session_poison(struct gpud_session *session);

/* === join.c ================================================================================== */
/* From OFFLINE to a tested session, and the end. In the acquiring thread, except where noted. */

/* Any thread. */
void gpud_session_unref(struct gpud_session **session);

/* Takes one step towards STREAMING: connects, or handles a message. GPUD_OK: go on. GPUD_AGAIN:
 * nothing to do until the connection is readable (or, OFFLINE, until `retry`). Every other status
 * ends the call. error: not NULL. */
enum gpud_status gpud_receiver_step(struct gpud_receiver *receiver, struct gpud_error *error);

/* Handles a message whose position has been reached. GPUD_CLOSED: EOS. */
enum gpud_status gpud_receiver_handle(struct gpud_receiver *receiver, struct gpud_message *message,
                                      struct gpud_error *error);

/* Makes the session of the pending OFFER ahead of its turn. If that fails, the OFFER stays pending,
 * and is handled in its turn. */
void gpud_receiver_prepare(struct gpud_receiver *receiver);

/* Continues to prepare the next session beside the frames of this one, and changes to it after the
 * last of them. GPUD_AGAIN: frames are left, or their copies are under way. */
enum gpud_status gpud_receiver_look_ahead(struct gpud_receiver *receiver, struct gpud_error *error);

/* Sends the wish for more slots, unless the sender has heard it. Under receiver->lock. */
void gpud_receiver_ask_for_slots(struct gpud_receiver *receiver);

/* Adds the session's counters to the receiver's. Under receiver->lock. */
void gpud_receiver_collect(struct gpud_receiver *receiver, struct gpud_receiver_info *info);

/* When to connect again after this connection failed with that status. */
int64_t gpud_receiver_retry_in(const struct gpud_receiver *receiver, enum gpud_status status);

/* Ends the connection and sends the reason. Frames still held stay valid and keep the connection
 * open: its end tells the sender that the last one is back. */
void gpud_receiver_disconnect(struct gpud_receiver *receiver, int64_t retry_in, const char *why);

/* === receiver.c ============================================================================== */

/* Another receiver, made like this one and for no address yet. NULL: out of memory. Any thread. */
struct gpud_receiver *gpud_receiver_make_like(struct gpud_receiver *receiver);

/* Ends it without waiting for what its devices still do. */
void gpud_receiver_end(struct gpud_receiver *receiver);

/* Adds to a word that only the acquiring thread writes; returns the new value. */
uint64_t gpud_receiver_add(atomic_uint_fast64_t *word, uint64_t more);

/* Wakes the acquiring thread, and a loop that polls. Under receiver->lock. */
void gpud_receiver_rouse(struct gpud_receiver *receiver);

/* Call when the next acquire begins. true: it was armed, and the channel, or the link that it is
 * switching to, may have woken the loop: if there is nothing to receive, the sender may have
 * ended. */
bool gpud_receiver_poll_disarm(struct gpud_receiver *receiver);

/* Call before releasing the channel; held frames may keep its descriptor open. */
void gpud_receiver_poll_unwatch(struct gpud_receiver *receiver);

/* === switch.c ================================================================================ */
/* In the acquiring thread. */

static inline bool gpud_receiver_is_switching(const struct gpud_receiver *receiver)
{
    return receiver->switching || atomic_load_explicit(&receiver->wish, memory_order_relaxed);
}

/* Goes on with the switch, without waiting. GPUD_OK: the new sender's first frame, which is the
 * caller's, and the old link is over. GPUD_AGAIN: the old link's frames are next. Every other
 * status: the switch has failed, and the old link has ended so meanwhile. */
enum gpud_status gpud_switch_step(struct gpud_receiver *receiver, struct gpud_frame **frame,
                                  struct gpud_error *error);

/* While it is switching: the old link gave a frame (GPUD_OK), has none now (GPUD_AGAIN), or has
 * ended. true: the acquire goes on, because the new sender is on its way. */
bool gpud_switch_note_old(struct gpud_receiver *receiver, enum gpud_status status,
                          const struct gpud_error *why);

/* When to look again, at the latest. */
int64_t gpud_switch_look(const struct gpud_receiver *receiver, int64_t deadline);

/* Ends the switch that is under way, and cancels one that was requested. */
void gpud_switch_end(struct gpud_receiver *receiver);

#endif
