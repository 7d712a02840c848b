/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of a sender. Fifteen files:
 *   sender.c    the public object: lending, events, looking
 *   epoch.c     formats, and the rings that are made for them
 *   submit.c    a frame gets its credits, by each receiver's policy
 *   delivery.c  one frame on its way to several receivers, and when it is handed over
 *   copies.c    what the devices do for each of them
 *   source.c    where a frame's bytes come from, and when they are there
 *   waiting.c   the newest frame of a receiver that is slow, where none can be taken back
 *   link.c      one receiver: the handshake as a state machine, its policy, its end
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
#include "stream/sender/transport.h"
#include "stream/shared/loop.h"
#include "wire/channel.h"

/* Deadlines of a handshake; the peer is slow, stuck, or no peer at all. */
#define GPUD_HELLO_DEADLINE (2 * GPUD_SEC)
#define GPUD_IMPORT_DEADLINE (5 * GPUD_SEC)
/* Of our own device, which may be busy, to take the test pattern: the receiver waits for longer. */
#define GPUD_PATTERN_DEADLINE (4 * GPUD_SEC)
#define GPUD_TEARDOWN_DEADLINE (5 * GPUD_SEC)

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
    struct gpud_device *there; /* the receiver's device, where it is open in the sender's own
                                  context; else NULL */
    bool same_clock;           /* as in struct gpud_peer_info */
    enum gpud_slow_receiver requested_policy; /* DEFAULT: as the sender says */

    /* The listener's thread's. */
    struct gpud_route_trials trials;
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

/* A message came. In the listener's thread, without the lock. */
void gpud_link_handle(struct gpud_link *link, struct gpud_message *message);

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

/* The connection ended, or the peer lied: DEAD from now on. Frames that the receiver still holds
 * are taken back, and it is told so in the page. The listener's thread does the rest. Under the
 * lock. */
void gpud_link_kill(struct gpud_link *link, enum gpud_log_level level, const char *why);

/* The same, without the lock. */
void gpud_link_end(struct gpud_link *link, enum gpud_log_level level, const char *why);

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

/* Whether the ring can go by pointer. */
bool gpud_link_goes_by_pointer(const struct gpud_link *link, const struct gpud_route_ops *route);

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
