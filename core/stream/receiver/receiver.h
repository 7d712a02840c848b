/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of a receiver. It has no thread: everything happens in the thread that acquires.
 *   receiver.c   the public object, the loop, waiting, statistics
 *   poll.c       waiting in a loop of the application's
 *   connect.c    from nobody to a connection
 *   handshake.c  from there to a session that has proved itself: a state machine over messages
 *   session.c    one epoch of a link; frames.c its frames */
#ifndef GPUD_STREAM_RECEIVER_RECEIVER_H
#define GPUD_STREAM_RECEIVER_RECEIVER_H

#include "base/lock.h"
#include "base/pace.h"
#include "route/route.h"
#include "stream/receiver/poll.h"
#include "stream/receiver/session.h"
#include "wire/channel.h"
#include <gpudirect/receiver.h>

#define GPUD_CONNECT_DEADLINE (5 * GPUD_SEC)
#define GPUD_HELLO_DEADLINE (2 * GPUD_SEC)
#define GPUD_IMPORT_DEADLINE (5 * GPUD_SEC)
#define GPUD_CANARY_DEADLINE (2 * GPUD_SEC)
#define GPUD_LATENCIES 4096

/* Between two tries to connect: nobody was there; somebody was, and the next try would end alike.
 */
#define GPUD_RETRY_SOON (20 * GPUD_MSEC)
#define GPUD_RETRY_LATER (500 * GPUD_MSEC)

enum gpud_receiver_state {
    GPUD_RECEIVER_OFFLINE,
    GPUD_RECEIVER_CONNECTING, /* there is a channel, and nobody at its other end yet */
    GPUD_RECEIVER_HELLO,      /* said HELLO, waits for the sender's */
    GPUD_RECEIVER_IDLE,       /* waits for an offer; the sender may have no format yet */
    GPUD_RECEIVER_CANARY,     /* accepted; waits for word of the test frame */
    GPUD_RECEIVER_TESTING,    /* and now for the test frame itself */
    GPUD_RECEIVER_STREAMING,
};

/* What the application was told with GPUD_EVENT_FORMAT. */
struct gpud_told {
    uint32_t epoch, media_size;
    struct gpud_layout layout;
    uint8_t media[GPUD_MEDIA_MAX];
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
    struct gpud_error failure; /* of the last attempt to connect; GPUD_OK: nobody was there */
    struct gpud_channel *channel;
    struct gpud_peer_info peer; /* same_clock: the sender's submit times mean something here */
    struct gpud_session *session;
    uint32_t share; /* of a ring of the sender's: slots for each receiver */
    uint64_t nonce; /* of the test frame: TESTING */

    bool refused;              /* by the sender, which will not think better of it at once */
    bool eof;                  /* the sender's end is closed: what it left behind is still read */
    char end[GPUD_REASON_MAX]; /* why, where a network knows more than that it is; or "" */
    bool unread;               /* there may be messages */
    uint32_t messages;         /* of the session's page, as last seen */
    bool pending;              /* `message` waits for its place among the frames */
    struct gpud_message message;
    bool discontinuity; /* for the next frame */
    bool counting;      /* a frame came since the connection was made */
    uint64_t last_sequence;
    struct gpud_told *told; /* of the format, on this connection; NULL: nothing yet */
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

/* --- receiver.c ---------------------------------------------------------------------------- */

/* Whether acquiring has something to do, or was interrupted. With a session. */
bool gpud_receiver_has_something(struct gpud_receiver *receiver);

/* --- connect.c ----------------------------------------------------------------------------- */

/* Steps from OFFLINE, and from CONNECTING, towards HELLO; as gpud_receiver_step(). */
enum gpud_status gpud_receiver_connect(struct gpud_receiver *receiver, struct gpud_error *error);
enum gpud_status gpud_receiver_await_channel(struct gpud_receiver *receiver,
                                             struct gpud_error *error);

/* GPUD_PEER: the sender is gone. GPUD_INVALID: this message cannot be said. */
enum gpud_status gpud_receiver_send(struct gpud_receiver *receiver, struct gpud_message *message,
                                    struct gpud_error *error);

/* --- handshake.c --------------------------------------------------------------------------- */

/* One step towards STREAMING: connects, or handles a message. GPUD_OK: go on. GPUD_AGAIN: nothing
 * to do until the connection has something to read (or, OFFLINE, until `retry`). Everything else
 * ends the call. error: not NULL. */
enum gpud_status gpud_receiver_step(struct gpud_receiver *receiver, struct gpud_error *error);

/* A message that came in its place. GPUD_CLOSED: EOS. */
enum gpud_status gpud_receiver_handle(struct gpud_receiver *receiver, struct gpud_message *message,
                                      struct gpud_error *error);

/* When to connect again after this connection failed with that status. */
int64_t gpud_receiver_retry_in(const struct gpud_receiver *receiver, enum gpud_status status);

/* Ends the connection, and tells the sender why. Frames that are held live on, and the connection
 * with them: its end tells the sender that the last one is back. */
void gpud_receiver_disconnect(struct gpud_receiver *receiver, int64_t retry_in, const char *why);

/* To the sender, with the release of the frame that was acquired last; 0: not known. */
void gpud_receiver_tell_latency(const struct gpud_receiver *receiver, uint64_t latency);

/* The session's counters into the receiver's. Under receiver->lock. */
void gpud_receiver_collect(struct gpud_receiver *receiver, struct gpud_receiver_info *info);

#endif
