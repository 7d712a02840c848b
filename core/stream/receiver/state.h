/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of a receiver share. It has no thread: everything happens in the thread that
 * acquires, but for what is under the lock. Each file has a header of its own and uses those before
 * it alone:
 *
 *     state.h       the receiver
 *     session.c     one epoch of a link; frames.c its frames
 *     poll.c        waiting in a loop of the application's
 *     connect.c     from OFFLINE to a connection, and its end
 *     handshake.c   from there to a session that has proved itself: a state machine over messages
 *     info.c        what a receiver counts
 *     receiver.c    the public object, the loop, waiting */
#ifndef GPUD_STREAM_RECEIVER_STATE_H
#define GPUD_STREAM_RECEIVER_STATE_H

#include "base/lock.h"
#include "base/pace.h"
#include "stream/receiver/session.h"
#include "stream/shared/loop.h"
#include "wire/channel.h"
#include <gpudirect/receiver.h>

#define GPUD_CONNECT_DEADLINE (5 * GPUD_SEC)
#define GPUD_HELLO_DEADLINE (2 * GPUD_SEC)
#define GPUD_IMPORT_DEADLINE (5 * GPUD_SEC)
#define GPUD_CANARY_DEADLINE (2 * GPUD_SEC)
#define GPUD_LATENCIES 4096

/* Between two tries to connect: no sender was there; or one was, and the next try would end alike.
 */
#define GPUD_RETRY_SOON (20 * GPUD_MSEC)
#define GPUD_RETRY_LATER (500 * GPUD_MSEC)

enum gpud_receiver_state {
    GPUD_RECEIVER_OFFLINE,
    GPUD_RECEIVER_CONNECTING, /* there is a channel, and no sender at its other end yet */
    GPUD_RECEIVER_HELLO,      /* said HELLO, waits for the sender's */
    GPUD_RECEIVER_IDLE,       /* waits for an offer; the sender may have no format yet */
    GPUD_RECEIVER_CANARY,     /* accepted; waits for word of the test frame */
    GPUD_RECEIVER_TESTING,    /* and now for the test frame itself */
    GPUD_RECEIVER_STREAMING,
};

/* See poll.h. All the acquiring thread's, but for what says otherwise. */
struct gpud_receiver_poll {
    struct gpud_loop loop; /* its timer: a state's deadline, the next try to connect */
    /* The loop is made by any thread, under the receiver's lock, and does not change once this is
     * set: the acquiring thread asks here and takes no lock. */
    atomic_bool is_open;
    int watched; /* the channel's descriptor; -1: not now */
    bool is_armed;
};

struct gpud_receiver {
    struct gpud_context *context;
    struct gpud_device *device, *host;
    struct gpud_queue *queue;
    struct gpud_address address;
    struct gpud_access_rule access;
    char name[64], route[32];
    uint32_t slots;
    enum gpud_slow_receiver slow_receiver;
    bool require_direct;
    struct gpud_own_memory own;
    void (*on_event)(void *user, enum gpud_event event, const void *data);
    void *user;
    atomic_bool interrupted;

    enum gpud_receiver_state state;
    int64_t deadline;          /* of the state; INT64_MAX: none */
    int64_t retry;             /* not to be tried again before */
    struct gpud_error failure; /* of the last attempt to connect; GPUD_OK: no sender was there */
    struct gpud_channel *channel;
    struct gpud_peer_info peer; /* same_clock: the sender's submit times mean something here */
    struct gpud_session *session;
    uint32_t share; /* of a ring of the sender's: slots for each receiver */
    uint64_t nonce; /* of the test frame: TESTING */

    bool refused;              /* by the sender, which would not decide otherwise at once */
    bool has_refused;          /* an offer, of whose ring the sender may still speak */
    bool eof;                  /* the sender's end is closed: what it left behind is still read */
    char end[GPUD_REASON_MAX]; /* why, where a network knows more than that it is; or "" */
    bool unread;               /* there may be messages */
    uint32_t messages;         /* of the session's page, as last seen */
    bool pending;              /* `message` waits for its place among the frames */
    struct gpud_message message;
    bool discontinuity; /* for the next frame */
    bool counting;      /* a frame came since the connection was made */
    uint64_t last_sequence;
    char sender_device[32], sender_pci[16]; /* as in struct gpud_format_event */
    struct gpud_format_event *told;         /* on this connection; NULL: none yet */
    struct gpud_spin spin;
    struct gpud_pace pace;
    int64_t busy_poll; /* ns awake for a frame, at most; negative: never */
    struct gpud_receiver_poll poll;

    struct gpud_lock lock; /* of what get_info reads, but for what a frame changes */
    struct gpud_receiver_info info;
    atomic_uint_fast64_t frames, dropped, corrupted; /* by the thread that acquires, and below */
    _Atomic uint32_t latency[GPUD_LATENCIES];
    atomic_uint_fast64_t latency_count;
};

#endif
