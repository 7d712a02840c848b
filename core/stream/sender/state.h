/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of a sender share. Each has a header of its own and uses those before it alone:
 *
 *     state.h       the sender
 *     pool.c        its slots
 *     transport.c   a link's ring and page in one epoch
 *     link.c        one receiver, under the lock
 *     poll.c        waiting in a loop of the application's
 *     waiting.c     the newest frame of a receiver that is slow, where none can be taken back
 *     targets.h     one frame on its way
 *     source.c      where its bytes come from, and when they are there
 *     copies.c      what the devices do for each receiver
 *     delivery.c    when it is handed over; and the lock
 *     epoch.c       formats, and the rings that are made for them
 *     submit.c      the application's frames: a slot to write into, and each receiver's credit
 *     receivers.c   receivers come and go
 *     status.c      what is told to those who ask
 *     room.c        the room that receivers have in the sender's ring
 *     offer.c       which route a receiver is offered
 *     handshake.c   the state machine between a receiver's beginning and its stream
 *     newcomer.c    connections that have not said yet what for; admission.c limits them
 *     listener.c    the thread that calls all of these
 *     sender.c      the public object
 *
 * Threads. The application's threads submit frames. The listener's thread, one a sender, makes
 * connections, runs every handshake and takes apart what has ended; a call of the application's
 * that needs a handshake (a new format) bumps the epoch and wakes it.
 *
 * The lock guards what both sides change, and is held for a few microseconds: a thread that submits
 * a frame may run at a real-time priority, and must never wait for a handshake. So the listener's
 * thread reads sockets, opens devices, makes and registers memory, clears slots, logs and calls the
 * application back without it, and takes it for each step that others see. The mutex inherits
 * priorities, because even a few microseconds last long on a busy processor.
 * What is the listener's thread's alone is marked so and needs no lock in that thread.
 *
 * Links and transports are reference-counted under the lock. A driver's thread that reports a
 * completion never waits for the lock: the driver may need that thread for the very work that the
 * lock's holder waits for. It leaves the completion behind, and the lock's holder deals with it
 * when it unlocks (gpud_sender_unlock). */
#ifndef GPUD_STREAM_SENDER_STATE_H
#define GPUD_STREAM_SENDER_STATE_H

#include "base/clock.h"
#include "base/fd.h"
#include "base/lock.h"
#include "frame/frame.h"
#include "stream/sender/admission.h"
#include "stream/shared/loop.h"
#include "wire/channel.h"
#include <gpudirect/sender.h>
#include <pthread.h>

struct gpud_link;
struct gpud_pending_delivery;
struct gpud_pool;
struct gpud_transport;

/* Deadlines of a handshake; the peer is slow, stuck, or no peer at all. */
#define GPUD_HELLO_DEADLINE (2 * GPUD_SEC)
#define GPUD_IMPORT_DEADLINE (5 * GPUD_SEC)
/* Of our own device, which may be busy, to take the test pattern: the receiver waits for longer. */
#define GPUD_PATTERN_DEADLINE (4 * GPUD_SEC)
#define GPUD_TEARDOWN_DEADLINE (5 * GPUD_SEC)

/* The last application event of a kind marked sticky: new receivers get it before their first
 * frame. */
#define GPUD_STICKY_MAX 16

/* Connections that have not said yet what for. */
#define GPUD_NEWCOMERS_MAX 64
struct gpud_newcomer {
    struct gpud_channel *channel; /* NULL: it has been dealt with */
    int64_t deadline;             /* to say so; INT64_MAX: it is not connected, or has spoken */
    bool has_spoken;              /* its message waits for its turn, see newcomer.c */
};

/* How many frames there were at the last one submitted before the sample; a sample a second. */
struct gpud_rate_sample {
    uint64_t sequence;
    int64_t time;
};
struct gpud_rate {
    int64_t sampled; /* when the last was taken */
    struct gpud_rate_sample before, last;
};

/* Transports without a user. To unmap and to unpin takes its time: a thread that is
 * woken for it takes them apart, without the lock. */
struct gpud_retired {
    struct gpud_transport *first;
    int wake; /* eventfd of that thread; -1: there is none, and they are taken apart at once */
};

struct gpud_sender {
    struct gpud_context *context;
    struct gpud_device *device, *host; /* host == device on the host */
    struct gpud_queue *queue;
    struct gpud_queue *host_queue; /* for frames that lie in host memory and go through it */
    char name[64], route[32];
    uint32_t slots;
    _Atomic(enum gpud_slow_receiver) slow_receiver;
    bool require_direct;
    void (*on_connect)(void *user, const struct gpud_peer_info *peer);
    void (*on_disconnect)(void *user, const struct gpud_peer_info *peer);
    void *user;

    atomic_bool interrupted;
    struct gpud_lock lock;    /* inherits priorities */
    _Atomic uint32_t changes; /* of links: threads that wait for one sleep on it */
    atomic_uint references;   /* the application's, and one for each delivery under way */
    struct gpud_pending_delivery *_Atomic completed; /* whose copies are done, latest first */
    struct gpud_pending_delivery *_Atomic spare;     /* records that are free */

    /* The epoch. */
    bool configured, ended;
    uint32_t epoch;
    bool dmabufs_wanted, dmabufs; /* each lent frame has one: from the next epoch on; in this one */
    struct gpud_media media;
    struct gpud_layout layout;     /* of the media */
    struct gpud_pool *device_pool; /* on the device */
    struct gpud_pool *host_pool;   /* on the host; == device_pool there */
    struct gpud_user_message *sticky[GPUD_STICKY_MAX];
    uint64_t sequence;
    int64_t submitted; /* when the last frame was; 0: there was none */
    struct gpud_rate rate;
    uint32_t undelivered_run; /* frames without a receiver, lately */

    /* The listener's thread alone adds links and takes them out, under the lock, and reads the
     * table without it. */
    struct gpud_link *links[GPUD_RECEIVERS_MAX];
    uint32_t link_count;
    struct gpud_link *retired_links; /* without a reference: that thread frees them */
    struct gpud_retired retired;     /* transports that it takes apart */

    /* The listener's thread's. */
    uint64_t link_ids;
    struct gpud_newcomer newcomers[GPUD_NEWCOMERS_MAX]; /* in the order in which they came */
    uint32_t newcomer_count;
    struct gpud_listener *listener;
    struct gpud_admission admission;
    int64_t accept_pause; /* no connection is accepted until then; 0: all is well */
    uint32_t epoch_logged;
    int64_t spare_since; /* the ring is larger than its receivers need; 0: it is not */
    pthread_t thread;
    bool thread_runs;
    int wake;              /* eventfd: the thread looks at the world anew */
    struct gpud_loop loop; /* for an application with a loop of its own; see poll.c */
    bool polls;            /* it is armed */
    bool lacks_slot;       /* the call that gave GPUD_TIMEOUT found none */
    atomic_bool stopping;
    bool closing; /* no slot is written any more */

    char path[32], fallback_reason[GPUD_REASON_MAX]; /* of the last link that connected */
    char device_reason[GPUD_REASON_MAX]; /* why the ring is on that device; never changes */
    uint64_t delivered, dropped, connects, disconnects, waits;
    atomic_uint_fast64_t kicks, copies_cpu, copies_gpu, refused;
};

/* The listener's thread takes a turn now: something changed that it has to deal with. */
static inline void gpud_sender_wake_listener(const struct gpud_sender *sender)
{
    gpud_event_raise(sender->wake);
}

/* Refusals that several calls share. */
static inline enum gpud_status gpud_sender_interrupted(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_AGAIN, "interrupted");
}

static inline enum gpud_status gpud_sender_bad_timeout(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
}

#endif
