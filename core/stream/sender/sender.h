/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of a sender. Sixteen files:
 *   sender.c    the public object: lending, events, looking
 *   epoch.c     formats, and the rings that are made for them
 *   submit.c    a frame gets its credits, by each receiver's policy
 *   delivery.c  one frame on its way to several receivers, and when it is handed over
 *   copies.c    what the devices do for each of them
 *   source.c    where a frame's bytes come from, and when they are there
 *   waiting.c   the newest frame of a receiver that is slow, where none can be taken back
 *   link.c      one receiver: its beginning and its end (link.h)
 *   handshake.c the state machine between them
 *   offer.c     which route a receiver is offered
 *   room.c      the room that receivers have in the sender's ring
 *   rate.c      how fast a link's copies are, where the choice of its route depends on that
 *   listener.c  the thread that accepts newcomers, feeds the state machines and notices deaths
 *   newcomer.c  who has connected and not said yet what for
 *   status.c    what is told to who asks
 *   poll.c      waiting in a loop of the application's
 *
 * Threads. The application's threads submit frames. The listener's thread, one a sender, makes
 * connections, runs every handshake and takes apart what has ended; a call of the application's
 * that needs a handshake (a new format) bumps the epoch and wakes it.
 *
 * The lock guards what both sides change, and is held for a few microseconds: whoever submits a
 * frame may run at a real-time priority, and must never wait for a handshake. So the listener's
 * thread reads sockets, opens devices, makes and registers memory, clears slots, logs and calls the
 * application back without it, and takes it for each step that others see. The mutex inherits
 * priorities, because even a few microseconds last long on a busy processor.
 * What is the listener's thread's alone is marked so and needs no lock in that thread.
 *
 * Links and transports are reference-counted under the lock. A driver's thread that reports a
 * completion never waits for the lock: the driver may need that thread for the very work that the
 * lock's holder waits for. It leaves the completion behind, and the lock's holder deals with it
 * when it unlocks (gpud_sender_unlock). */
#ifndef GPUD_STREAM_SENDER_SENDER_H
#define GPUD_STREAM_SENDER_SENDER_H

#include "base/lock.h"
#include "base/sleep.h"
#include "route/route.h"
#include "stream/sender/admission.h"
#include "stream/sender/link.h"
#include "stream/shared/loop.h"
#include "wire/channel.h"

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
    struct gpud_channel *channel; /* NULL: it is none any more */
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
    _Atomic uint32_t changes; /* of links: whoever waits for one sleeps on it */
    atomic_uint references;   /* the application's, and one for each delivery under way */
    struct gpud_pending_delivery *_Atomic completed; /* whose copies are done, latest first */
    struct gpud_pending_delivery *_Atomic spare;     /* records that are free */

    /* The epoch. */
    bool configured, ended;
    uint32_t epoch;
    bool dmabufs_wanted, dmabufs; /* each lent frame has one: from the next epoch on; in this one */
    struct gpud_layout layout;
    uint8_t media[GPUD_MEDIA_MAX];
    size_t media_size;
    struct gpud_pool *device_pool; /* on the device */
    struct gpud_pool *host_pool;   /* on the host; == device_pool there */
    struct gpud_user_message *sticky[GPUD_STICKY_MAX];
    uint64_t sequence;
    int64_t submitted; /* when the last frame was; 0: there was none */
    struct gpud_rate rate;
    uint32_t unpaced; /* frames that nobody got, lately */

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
    int64_t accept_pause; /* nobody is accepted until then; 0: all is well */
    uint32_t epoch_logged;
    int64_t spare_since; /* the ring is larger than its receivers need; 0: it is not */
    pthread_t thread;
    bool thread_runs;
    int wake;              /* eventfd: the thread looks at the world anew */
    struct gpud_loop loop; /* for who waits in a loop of their own; see poll.c */
    bool polls;            /* it is armed */
    bool lacks_slot;       /* the call that gave GPUD_TIMEOUT found none */
    atomic_bool stopping;
    bool closing; /* no slot is written any more */

    char path[32], fallback_reason[GPUD_REASON_MAX]; /* of the last link that connected */
    char device_reason[GPUD_REASON_MAX]; /* why the ring is on that device; never changes */
    uint64_t delivered, dropped, connects, disconnects, waits;
    atomic_uint_fast64_t kicks, copies_cpu, copies_gpu, refused;
};

/* --- delivery.c: the lock ------------------------------------------------------------------ */

void gpud_sender_lock(struct gpud_sender *sender);
void gpud_sender_unlock(struct gpud_sender *sender);

/* --- sender.c ------------------------------------------------------------------------------ */

/* A free slot of a pool, waiting for one (the lock is dropped meanwhile). */
enum gpud_status gpud_sender_take_slot(struct gpud_sender *sender, struct gpud_pool *pool,
                                       int64_t deadline, struct gpud_slot **slot,
                                       struct gpud_error *error);

void gpud_sender_unref(struct gpud_sender *sender);

/* A link's state is another: whoever waits looks again. */
void gpud_sender_changed(struct gpud_sender *sender);

/* Sleeps until then, at most a slice; the lock is dropped meanwhile. */
void gpud_sender_wait_for_change(struct gpud_sender *sender, int64_t deadline);

/* Refusals that several calls share. */
enum gpud_status gpud_sender_not_configured(struct gpud_error *error);
enum gpud_status gpud_sender_new_format(struct gpud_error *error);
enum gpud_status gpud_sender_interrupted(struct gpud_error *error);
enum gpud_status gpud_sender_bad_timeout(struct gpud_error *error);

/* --- epoch.c ------------------------------------------------------------------------------- */

/* The pool that a route shares, made when it is first needed. Under the lock, which is dropped
 * while one is made. GPUD_INVALID: the format changed meanwhile. */
enum gpud_status gpud_sender_get_pool(struct gpud_sender *sender, enum gpud_ring_place place,
                                      struct gpud_pool **pool, struct gpud_error *error);

/* The pools of an epoch that is over; released without the lock, since that may free memory. */
struct gpud_old_pools {
    struct gpud_pool *device, *host;
};

/* A new ring for everybody, with the layout that is set: the listener's thread offers it. Under the
 * lock. */
struct gpud_old_pools gpud_sender_start_epoch(struct gpud_sender *sender);
void gpud_old_pools_release(struct gpud_old_pools *pools);

/* --- delivery.c ---------------------------------------------------------------------------- */

#define GPUD_NO_ENTRY UINT32_MAX
struct gpud_target {
    struct gpud_link *link;
    struct gpud_transport *transport; /* a reference */
    uint32_t entry;                   /* taken, or GPUD_NO_ENTRY: there was none, see waiting.c */
    bool failed;                      /* its device did not take the frame */
};

struct gpud_delivery {
    struct gpud_frame
        *frame; /* the caller's until the delivery is done; then released if `consume` */
    bool consume;
    bool canary;                   /* the test of a link: not counted */
    bool corrupted;                /* it turned out that the bytes never came, or got lost */
    struct gpud_slot *device_slot; /* the slot that the shared routes publish: the frame's own, or
                                      one to copy into */
    struct gpud_slot *host_slot;   /* likewise for host pages, where the device is not the host */
    /* What the copies go by, which are made without the lock: gpud_deliver() fills both. The test
     * of a link goes on while the application configures the sender anew. */
    struct gpud_layout layout; /* of the rings */
    struct gpud_slot *ordered; /* by gpud_copies_order_themselves() */
    uint64_t sequence;
    uint32_t count;
    struct gpud_target target[GPUD_RECEIVERS_MAX];
};

/* Copies where needed, posts, publishes. Called with the lock held, which is dropped meanwhile.
 * Takes over the targets and slots (one user each, which the delivery drops) and, with consume, the
 * frame. */
enum gpud_status gpud_deliver(struct gpud_sender *sender, const struct gpud_delivery *delivery,
                              struct gpud_error *error);

/* The last thing of a sender. */
void gpud_delivery_free_records(struct gpud_sender *sender);

/* --- copies.c; without the lock ------------------------------------------------------------ */

/* Puts all that the delivery's targets need on the queues. */
enum gpud_status gpud_copies_enqueue(struct gpud_sender *sender, struct gpud_delivery *delivery,
                                     struct gpud_error *error);

/* The frame's slot, if what is delivered can be forgotten as soon as it is on the queues: the
 * receivers' devices wait for signals, and whoever writes the slot next does so in the order of the
 * same queue. Else NULL. Under the lock. */
struct gpud_slot *gpud_copies_order_themselves(const struct gpud_sender *sender,
                                               const struct gpud_delivery *delivery);

/* Whether a target must wait until a queue is done. */
static inline bool gpud_target_waits(const struct gpud_target *target)
{
    return target->transport->place == GPUD_SIGNAL_NONE;
}

/* --- source.c; without the lock ------------------------------------------------------------ */

/* Enqueues a copy between the frame's layout and the sender's: plane by plane, or in one go where
 * both sides place every byte alike. */
enum gpud_status gpud_source_copy(struct gpud_sender *sender, struct gpud_queue *queue,
                                  const struct gpud_layout *to_layout,
                                  const struct gpud_layout *from_layout, struct gpud_memory *from,
                                  uint64_t from_offset, struct gpud_memory *to, uint64_t to_offset,
                                  struct gpud_error *error);

/* The frame's memory as the sender's device sees it. */
enum gpud_status gpud_source_find(struct gpud_sender *sender, const struct gpud_frame *frame,
                                  struct gpud_memory **source, struct gpud_error *error);

/* What is put on the queue from now on comes after the frame's bytes. */
enum gpud_status gpud_source_order(struct gpud_sender *sender, struct gpud_queue *queue,
                                   struct gpud_delivery *delivery, struct gpud_error *error);

/* Whether the sender is on the host and the frame is not, and what is done then: the frame's device
 * has copied it into the delivery's slot. */
bool gpud_source_is_elsewhere(const struct gpud_sender *sender, const struct gpud_frame *frame);
enum gpud_status gpud_source_fetch(struct gpud_sender *sender, struct gpud_delivery *delivery,
                                   struct gpud_error *error);

/* After the copies were enqueued: a kept frame of somebody else's may be given back as soon as the
 * call returns, so that they have to be done. */
enum gpud_status gpud_source_finish(struct gpud_sender *sender,
                                    const struct gpud_delivery *delivery, struct gpud_error *error);

/* --- poll.c -------------------------------------------------------------------------------- */

/* A call found no slot or no credit; the next one begins. */
void gpud_sender_poll_arm(struct gpud_sender *sender);
void gpud_sender_poll_disarm(struct gpud_sender *sender);

/* The next entry that comes back is told by a KICK. Look once more after the call. */
void gpud_sender_poll_ask(struct gpud_link *link);

/* A receiver says that it gave something back. false: nobody had asked. */
bool gpud_sender_poll_kick(struct gpud_link *link);

/* --- links: see link.h ---------------------------------------------------------------------- */

/* What happens to a frame that it has no room for. Nobody but the sender's user decides that a
 * receiver may hold the sender up. */
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

/* --- rate.c -------------------------------------------------------------------------------- */

/* Bytes per second of whole frames into the receiver's ring, which is connected and not yet in use;
 * 0: unknown. Takes a few frames' time. queue: the sender's. Without the lock, with a reference. */
double gpud_transport_measure(struct gpud_transport *transport, struct gpud_queue *queue,
                              uint64_t size);

/* --- listener.c ---------------------------------------------------------------------------- */

enum gpud_status gpud_sender_listen(struct gpud_sender *sender, const struct gpud_address *address,
                                    const struct gpud_access_rule *access,
                                    struct gpud_error *error);
/* What the thread does in each turn after it has read what was said: offers, deadlines, the ends of
 * links. */
void gpud_listener_turn(struct gpud_sender *sender);
/* The thread takes a turn now: something changed that it has to deal with. */
void gpud_sender_wake_listener(const struct gpud_sender *sender);
void gpud_sender_stop_listening(struct gpud_sender *sender);

/* --- newcomer.c; in the listener's thread, without the lock ----------------------------------- */

/* Takes the channel. */
void gpud_newcomer_add(struct gpud_sender *sender, struct gpud_channel *channel);

/* Whether connections have to wait in the system's queue: every newcomer here has spoken, and waits
 * for its turn. */
bool gpud_newcomers_are_full(const struct gpud_sender *sender);

/* Where the newcomer's next words are polled for; -1: it has spoken. */
int gpud_newcomer_fd(const struct gpud_newcomer *newcomer);

/* When the first of them is late, or has its turn. */
int64_t gpud_newcomers_deadline(const struct gpud_sender *sender);

/* Reads what they say, by what ppoll() said of the first `count`, and ends those that are late. So
 * many of them a second have their turn, one of the process that connected least first. */
struct pollfd;
void gpud_newcomers_read(struct gpud_sender *sender, const struct pollfd *fds, uint32_t count);
void gpud_newcomers_close(struct gpud_sender *sender);

/* --- status.c ------------------------------------------------------------------------------- */

/* Tells who asks; without the lock. */
void gpud_sender_answer(struct gpud_sender *sender, struct gpud_channel *channel);

/* Under the lock. */
/* Notes how many frames there were, where it is time to. */
void gpud_sender_sample(struct gpud_sender *sender, int64_t now);

#endif
