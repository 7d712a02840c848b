/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The state that a sender's files share. Each has a header of its own and uses only those before
 * it:
 *
 *     state.h       the sender
 *     pool.c        its slots
 *     transport.c   a link's ring and page in one epoch
 *     link.c        one receiver, under the lock
 *     poll.c        waiting in an application's event loop
 *     waiting.c     frames that wait for a link: of a new format, or the newest for a slow one
 *     targets.h     the delivery of one frame
 *     source.c      where its bytes come from, and when they are complete
 *     copies.c      the devices' work for each receiver
 *     delivery.c    handing it over; and the lock
 *     lines.c       a frame that is handed over while it is written
 *     epoch.c       formats, and the rings made for them
 *     submit.c      the application's frames: a slot to write, and each receiver's credit
 *     receivers.c   adding and removing receivers
 *     status.c      answers to queries
 *     room.c        the receivers' room in the sender's ring
 *     offer.c       choosing and offering a receiver's route
 *     handshake.c   the state machine from a receiver's HELLO to its stream
 *     newcomer.c    connections before their first message; admission.c limits them
 *     listener.c    the thread that calls all of these
 *     sender.c      the public object
 *
 * Threads. The application's threads submit frames. Each sender has a listener's thread, which
 * accepts connections, runs every handshake and frees ended links; an application's call that needs
 * a handshake (a new format) bumps the epoch and wakes it.
 *
 * The lock guards the state that both change, and is held for a few microseconds: a thread that
 * submits a frame may run at a real-time priority, and must never wait for a handshake. So the
 * listener's thread reads sockets, opens devices, makes and registers memory, clears slots, logs
 * and calls the application back without it, and takes it for each step that others see. The mutex
 * inherits priorities, because even a few microseconds last long on a busy processor.
 * State of the listener's thread alone is marked so and needs no lock there.
 *
 * Links and transports are reference-counted under the lock. A driver's thread that reports a
 * completion never waits for the lock: the driver may need that thread for work that the lock's
 * holder waits for. It queues the completion, which the lock's holder handles when it unlocks
 * (gpud_sender_unlock). */
#ifndef GPUD_STREAM_SENDER_STATE_H
#define GPUD_STREAM_SENDER_STATE_H

#include "base/clock.h"
#include "base/fd.h"
#include "base/lock.h"
#include "frame/frame.h"
#include "frame/media/media.h"
#include "stream/sender/admission.h"
#include "stream/shared/loop.h"
#include "wire/channel.h"
#include <gpudirect/sender.h>
#include <pthread.h>

struct gpud_link;
struct gpud_pending_delivery;
struct gpud_pool;
struct gpud_transport;

/* Deadlines of a handshake, for peers that are slow, stuck or not receivers. */
#define GPUD_HELLO_DEADLINE (2 * GPUD_SEC)
#define GPUD_IMPORT_DEADLINE (5 * GPUD_SEC)
/* For our own, possibly busy, device to take the test pattern; the receiver waits longer. */
#define GPUD_PATTERN_DEADLINE (4 * GPUD_SEC)
#define GPUD_TEARDOWN_DEADLINE (5 * GPUD_SEC)

/* How many kinds of sticky events there can be; new receivers get the last event of each before
 * their first frame. */
#define GPUD_STICKY_MAX 16

/* Connections before their first message. */
#define GPUD_NEWCOMERS_MAX 64
struct gpud_newcomer {
    struct gpud_channel *channel; /* NULL: it has been handled */
    int64_t deadline;             /* of its message; INT64_MAX: not connected, or it has arrived */
    bool has_spoken;              /* its message waits for its turn, see newcomer.c */
};

/* The number and the time of the last frame before a sample; one sample a second. */
struct gpud_rate_sample {
    uint64_t sequence;
    int64_t time;
};
struct gpud_rate {
    int64_t sampled; /* when the last sample was taken */
    struct gpud_rate_sample before, last;
};

/* Transports without a user. Unmapping and unpinning take time, so a thread is woken to free them
 * without the lock. */
struct gpud_retired {
    struct gpud_transport *first;
    int wake; /* eventfd of that thread; -1: none, and they are freed at once */
};

struct gpud_sender {
    struct gpud_context *context;
    struct gpud_device *device, *host; /* host == device on the host */
    struct gpud_queue *queue;
    struct gpud_queue *host_queue; /* for frames in host memory that are copied through it */
    char name[64], route[32];
    char place[GPUD_ADDRESS_MAX]; /* its address, resolved */
    uint32_t slots;               /* 0: by the media */
    uint32_t picture_slots;
    _Atomic(enum gpud_slow_receiver) slow_receiver;
    bool require_direct;
    uint32_t large_meta_max; /* bytes that a frame may have */
    uint64_t modifiers[GPUD_MODIFIERS_MAX];
    uint32_t modifier_count; /* that the application can write */
    void (*on_connect)(void *user, const struct gpud_peer_info *peer);
    void (*on_disconnect)(void *user, const struct gpud_peer_info *peer);
    void *user;

    atomic_bool interrupted;
    struct gpud_lock lock;    /* inherits priorities */
    _Atomic uint32_t changes; /* of links; a futex for threads that wait for one */
    atomic_uint references;   /* the application's, and one for each delivery under way */
    struct gpud_pending_delivery *_Atomic completed; /* copies are done; latest first */
    struct gpud_pending_delivery *_Atomic spare;     /* free records */
    struct gpud_pending_delivery *writing; /* of the frame that is still written; NULL: none is */
    uint32_t lines;                        /* its valid rows */

    /* The epoch. */
    bool configured, ended;
    uint32_t epoch;
    uint64_t epoch_start;         /* the sequence before its first frame */
    int64_t epoch_began;          /* when */
    bool dmabufs_wanted, dmabufs; /* lent frames have one: from the next epoch on; in this one */
    struct gpud_media media;
    struct gpud_layout rows;       /* of the media */
    struct gpud_layout layout;     /* of the device's slots: the same, or that of images */
    atomic_bool has_images;        /* which of the two */
    struct gpud_pool *device_pool; /* on the device */
    struct gpud_pool *host_pool;   /* on the host; == device_pool there */
    struct gpud_user_message *sticky[GPUD_STICKY_MAX];
    uint64_t sequence;
    int64_t submitted; /* time of the last frame; 0: none yet */
    struct gpud_rate rate;
    bool is_at_rest; /* the listener's thread sleeps until it is woken: the next frame does that */
    uint32_t undelivered_run; /* frames in a row without a receiver */

    /* Only the listener's thread adds and removes links, under the lock; it reads the table without
     * it. */
    struct gpud_link *links[GPUD_RECEIVERS_MAX];
    uint32_t link_count;
    struct gpud_link *retired_links; /* without a reference; that thread frees them */
    struct gpud_retired retired;     /* transports that it frees */

    /* Only for the listener's thread. */
    uint64_t link_ids;
    struct gpud_newcomer newcomers[GPUD_NEWCOMERS_MAX]; /* in order of arrival */
    uint32_t newcomer_count;
    struct gpud_listener *listener;
    struct gpud_admission admission;
    int64_t accept_pause; /* until when to accept no connection, after a failure; 0: none */
    uint32_t epoch_logged;
    int64_t spare_since; /* since when the ring is larger than needed; 0: it is not */
    pthread_t thread;
    bool thread_runs;
    int wake;              /* eventfd: the thread takes another turn */
    struct gpud_loop loop; /* for an application's event loop; see poll.c */
    bool polls;            /* the loop is armed */
    bool lacks_slot;       /* the call that returned GPUD_TIMEOUT found no slot */
    atomic_bool stopping;
    bool closing; /* no slot will be written again */

    char path[32], fallback_reason[GPUD_REASON_MAX]; /* of the last link that connected */
    char device_reason[GPUD_REASON_MAX]; /* why the ring is on that device; never changes */
    uint64_t delivered, dropped, connects, disconnects, waits;
    atomic_uint_fast64_t kicks, copies_cpu, copies_gpu, refused;
};

/* Makes the listener's thread take a turn now. */
static inline void gpud_sender_wake_listener(const struct gpud_sender *sender)
{
    gpud_event_raise(sender->wake);
}

/* Each receiver's frames in flight. Where each slot is a memory of its own, blocks have no more
 * than pictures: a ring has 64 memories. */
static inline uint32_t gpud_sender_slots(const struct gpud_sender *sender, bool apart)
{
    if (sender->slots)
        return sender->slots;
    return sender->configured && !apart
               ? gpud_media_default_slots(&sender->media, sender->picture_slots)
               : sender->picture_slots;
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
