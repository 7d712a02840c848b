/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The state that a receiver's files share. It has no thread: everything runs in the thread that
 * acquires, except what is under the lock. Each file has a header of its own and uses only those
 * before it:
 *
 *     state.h       the receiver
 *     session.c     one epoch of a link
 *     lines.c       a frame that is still written
 *     frames.c      all of its frames
 *     poll.c        waiting in a loop of the application's
 *     connect.c     from OFFLINE to a connection, and its end
 *     handshake.c   from there to a tested session: a state machine over messages
 *     info.c        a receiver's counters
 *     receiver.c    the public object, the loop, waiting */
#ifndef GPUD_STREAM_RECEIVER_STATE_H
#define GPUD_STREAM_RECEIVER_STATE_H

#include "base/lock.h"
#include "base/pace.h"
#include "stream/receiver/session.h"
#include "stream/shared/loop.h"
#include "wire/channel.h"
#include "wire/await.h"
#include <gpudirect/receiver.h>

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

/* See poll.h. Used by the acquiring thread, except where noted. */
struct gpud_receiver_poll {
    struct gpud_loop loop; /* its timer: a state's deadline, the next try to connect */
    /* Any thread opens the loop, under the receiver's lock. It does not change once this is set, so
     * that the acquiring thread needs no lock. */
    atomic_bool is_open;
    int watched, watched_peer; /* the channel's descriptors; -1: none */
    bool is_armed;
};

struct gpud_receiver {
    struct gpud_context *context;
    struct gpud_device *device, *host;
    struct gpud_queue *queue;
    struct gpud_address address;
    struct gpud_access_rule access;
    char name[64], route[32];
    uint32_t slots;         /* 0: as many as the sender gives */
    uint32_t picture_slots; /* in memory of its own, if that is 0 */
    enum gpud_slow_receiver slow_receiver;
    bool require_direct;
    bool by_lines;           /* frames are wanted while they are written */
    uint64_t max_frame_size; /* 0: what is reasonable */
    uint64_t modifiers[GPUD_MODIFIERS_MAX];
    uint32_t modifier_count; /* of images that the application can read */
    struct gpud_own_memory own;
    void (*on_event)(void *user, enum gpud_event event, const void *data);
    void *user;
    atomic_bool interrupted;
    /* Of the group that this is a member of, called when it is interrupted; NULL: none. Under the
     * lock. */
    void (*on_interrupt)(void *user);
    void *on_interrupt_user;

    enum gpud_receiver_state state;
    int64_t deadline;          /* of the state; INT64_MAX: none */
    int64_t retry;             /* no new try before */
    struct gpud_error failure; /* of the last try to connect; GPUD_OK: no sender was found */
    struct gpud_await waiting; /* for a sender */
    struct gpud_channel *channel;
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
    struct gpud_spin spin;
    struct gpud_pace pace;
    int64_t busy_poll; /* the longest spin for a frame, in ns; negative: never */
    struct gpud_receiver_poll poll;

    /* For what get_info reads, except per-frame counters, and for the wish. */
    struct gpud_lock lock;
    uint32_t slots_wished; /* by gpud_receiver_set_slots(); 0: `slots` are enough */
    struct gpud_receiver_info info;
    atomic_uint_fast64_t frames, dropped, corrupted; /* written only by the acquiring thread */
    _Atomic uint32_t latency[GPUD_LATENCIES];
    atomic_uint_fast64_t latency_count;
    struct gpud_link_stats stats; /* for the sender; the acquiring thread's */
};

#endif
