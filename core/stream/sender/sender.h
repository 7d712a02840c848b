/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender: what its files share. */
#ifndef GPUD_STREAM_SENDER_SENDER_H
#define GPUD_STREAM_SENDER_SENDER_H

#include "base/base.h"
#include "frame/frame.h"
#include "frame/media/media.h"
#include "route/route.h"
#include "stream/shared/shared.h"
#include "wire/wire.h"
#include <gpudirect/sender.h>
#include <pthread.h>
#include <sys/types.h>

/* === admission =============================================================================== */
/* Limits connections to a sender, so that no process can keep others out by holding all places or
 * by connecting endlessly. */

/* Places for one process. All peers without a known process (in another PID namespace) count as
 * one, with more places, and so does each other host. */
#define GPUD_PLACES_A_PROCESS (GPUD_RECEIVERS_MAX / 2)

/* Places reserved for processes, or other hosts, that have none yet. */
#define GPUD_PLACES_KEPT (GPUD_RECEIVERS_MAX / 4)

/* Places for all processes of one other user, and for all other users together, so that neither
 * keeps another user out. Only the limits above apply to other hosts. */
#define GPUD_PLACES_A_USER (GPUD_RECEIVERS_MAX * 3 / 8)
#define GPUD_PLACES_FOREIGN (GPUD_RECEIVERS_MAX * 3 / 4)

/* Connections in a second. An honest receiver whose handshakes fail tries 50 times. */
#define GPUD_CONNECTS_A_PROCESS 300

/* Connections of the second that began at `since`. */
struct gpud_connects {
    int64_t key; /* gpud_peer_key() */
    uint32_t count;
    int64_t since;
};

/* A refused receiver that waits connects again twice a second; the same reason is a warning only
 * once in this time. */
#define GPUD_REFUSAL_PAUSE (60 * GPUD_SEC)
#define GPUD_REFUSALS 8

struct gpud_refused {
    int64_t key;   /* gpud_peer_key() */
    uint32_t hash; /* of the reason */
    int64_t logged;
};

/* Starts zeroed. */
struct gpud_admission {
    struct gpud_connects all, process[GPUD_RECEIVERS_MAX];
    int64_t handshakes_until; /* the time that the handshakes so far have used up */
    struct gpud_refused refusals[GPUD_REFUSALS]; /* the last different ones */
};

/* === state =================================================================================== */
/* The state that a sender's files share. Each file uses those above it:
 *
 *     pool.c      its slots, and how many of them receivers may ask for
 *     hand.c      hands a frame on: the entries, the devices' work, completions; and the lock
 *     submit.c    the application's frames, formats and messages, and what of them waits
 *     link.c      one receiver, from its first message to its end: its route, its handshake
 *     sender.c    the public object; its thread, which accepts connections, and limits those before
 *                 their first message; and answers to queries
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
#define GPUD_STICKY_MAX 24

/* Connections before their first message. */
#define GPUD_NEWCOMERS_MAX 64

struct gpud_newcomer {
    struct gpud_channel *channel; /* NULL: it has been handled */
    int64_t deadline;             /* of its message; INT64_MAX: not connected, or it has arrived */
    bool has_spoken;              /* its message waits for its turn, see sender.c */
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
    struct gpud_key_request key_request; /* not taken yet; size 0: no request */
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
    bool warned_unencrypted; /* about a connection */
    int64_t spare_since;     /* since when the ring is larger than needed; 0: it is not */
    pthread_t thread;
    bool thread_runs;
    int wake;              /* eventfd: the thread takes another turn */
    struct gpud_loop loop; /* for an application's event loop; see submit.c */
    bool polls;            /* the loop is armed */
    bool lacks_slot;       /* the call that returned GPUD_TIMEOUT found no slot */
    atomic_bool stopping;
    bool closing; /* no slot will be written again */

    /* `delivered` counts frames that receivers can still take, too; what is not counted or fixed is
     * filled in by gpud_sender_get_info(). */
    struct gpud_sender_info info;
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

/* === pool ==================================================================================== */
/* A sender's own slots in one epoch: lent to the application to write, and shared with receivers
 * that map them. A slot is free again when the application and every receiver have released it.
 *
 * The lock of the pool's owner guards the ring and taking slots. Any thread may return slots,
 * without the lock, even after the end of the sender and the epoch: the pool lives until its last
 * slot is back. */

struct gpud_pool;
struct gpud_sender;

#define GPUD_SLOT_READS GPUD_RECEIVERS_MAX

struct gpud_slot {
    struct gpud_frame frame; /* first: a lent frame is its slot */
    struct gpud_pool *pool;
    struct gpud_memory *view; /* the memory as pool->viewer sees it; NULL without a viewer */
    _Atomic(const struct gpud_route_slot_ops *)
        given_by;           /* gave it to a receiver's device, or NULL */
    atomic_uint users;      /* writers and readers; 0: its last user puts it back, or has done so */
    bool is_lent;           /* taken from the pool, and not listed again since */
    uint64_t written;       /* pool->lent when it was lent last; 0: it is clear */
    struct gpud_slot *next; /* in the list of returned slots */
    /* Pending reads of other queues than the pool's; the slot's next user comes after them. */
    struct gpud_fence reads[GPUD_SLOT_READS];
    uint32_t read_count;
    bool unknown_reads; /* more reads than fit here: the slot is never lent again */
    /* Called once, when the application releases the frame, unless the argument is NULL then. */
    void (*on_release)(struct gpud_slot *slot, void *arg);
    _Atomic(void *) on_release_arg;
};

/* A memory of a pool, with its slots. Making it is slow; adding it is fast. */
struct gpud_pool_part {
    struct gpud_memory *memory, *view; /* the ring's, once it is added; as the viewer sees it */
    struct gpud_handle handle;         /* for importers; created on first use */
    bool exported;
    struct gpud_slot *slots;
};

struct gpud_pool {
    atomic_uint references;         /* the owner's, and one for each slot in use */
    struct gpud_slot *_Atomic back; /* returned slots, latest first: free, too */
    _Atomic uint32_t freed;         /* incremented when one returns and a thread waits */
    atomic_uint waiters;
    uint32_t epoch;
    struct gpud_layout layout;
    struct gpud_device *device;
    struct gpud_queue
        *queue;   /* maps the slots if the device's memory has no host address; else NULL */
    bool dmabufs; /* each slot has one, if the device supports it */
    struct gpud_device *viewer; /* another device that copies into the slots; NULL: none */
    struct gpud_ring ring;
    uint32_t share;                   /* slots that each user of the pool has room for, at least */
    const struct gpud_sender *lender; /* only to be compared: it may be gone */
    struct gpud_pool_part parts[GPUD_RING_MEMORIES_MAX];
    uint32_t opened; /* memories whose slots may be lent */
    /* A circular buffer. On the host the latest slot is taken first, because it is in the caches;
     * on a device the oldest, from which no queue copies any more. */
    struct gpud_slot *free[GPUD_RING_SLOTS_MAX];
    uint32_t free_first, free_count;
    struct gpud_error refusal;  /* why the last take could not use free slots; OK: it could */
    uint64_t lent;              /* slots so far */
    struct gpud_lock wake_lock; /* keeps the descriptor `wake` open while it is raised */
    atomic_int wake;            /* eventfd of a loop that polls for a free slot; -1: none */
};

/* How frames lie in a ring: only the device's own slots may be images. Under the lock. */
static inline const struct gpud_layout *gpud_sender_layout(const struct gpud_sender *sender,
                                                           enum gpud_ring_place place)
{
    return place == GPUD_RING_SENDER_DEVICE ? &sender->layout : &sender->rows;
}

/* The pool that a route shares, created on first use. Under the lock, which is dropped while
 * creating one. GPUD_INVALID: the format changed meanwhile. */
enum gpud_status gpud_sender_get_pool(struct gpud_sender *sender, enum gpud_ring_place place,
                                      struct gpud_pool **pool, struct gpud_error *error);

/* A pool with `slots` open slots in one memory or, with apart, in one memory each; it grows by a
 * memory at a time. queue: of the device, or NULL on the host. dmabufs: each slot gets one. */
enum gpud_status gpud_pool_create(struct gpud_device *device, struct gpud_queue *queue,
                                  enum gpud_usage usage, bool dmabufs, struct gpud_device *viewer,
                                  const struct gpud_layout *layout, uint32_t epoch, uint32_t slots,
                                  bool apart, struct gpud_pool **pool, struct gpud_error *error);

/* Adds an owner. */
void gpud_pool_ref(struct gpud_pool *pool);

/* Drops an owner; slots may still be in use. */
void gpud_pool_unref(struct gpud_pool **pool);

/* Takes a free slot, with one user; NULL: gpud_pool_explain() says why. */
struct gpud_slot *gpud_pool_take(struct gpud_pool *pool);

/* Why the last take failed. GPUD_TIMEOUT: the slots are in use; else the device's error: its queue
 * cannot wait for the queues that still read free slots. */
enum gpud_status gpud_pool_explain(const struct gpud_pool *pool, struct gpud_error *error);

/* Takes a free slot, with one user, whose picture was written before pool->lent had this value.
 * NULL: none. */
struct gpud_slot *gpud_pool_take_old(struct gpud_pool *pool, uint64_t lent);

/* Lends the slots of all memories. */
void gpud_pool_open(struct gpud_pool *pool);

/* Lends no slot of the memories from this one on, until gpud_pool_open(). Returns how many memories
 * have to stay: those behind the last one that is open, or has a slot in use, can be removed. */
uint32_t gpud_pool_close(struct gpud_pool *pool, uint32_t first);
uint32_t gpud_pool_count_free(struct gpud_pool *pool);

/* Sets an eventfd to raise whenever a slot is returned; -1: none. */
void gpud_pool_set_wake(struct gpud_pool *pool, int fd);

/* Waits until a slot may be free; without the owner's lock, and with a reference. */
void gpud_pool_wait(struct gpud_pool *pool, int64_t deadline);
void gpud_pool_wake(struct gpud_pool *pool);
void gpud_slot_hold(struct gpud_slot *slot);
void gpud_slot_drop(struct gpud_slot *slot);

/* Records that work before the fence, which the slot takes over, reads it. The slot is in use. */
void gpud_slot_add_read(struct gpud_slot *slot, const struct gpud_fence *fence);

/* Of frames that a pool lent. */
extern const struct gpud_frame_owner_ops gpud_lent_ops;

/* Whether the frame was lent by a pool whose slots are written in the order of this queue. */
static inline bool gpud_pool_orders(const struct gpud_frame *frame, const struct gpud_queue *queue)
{
    return frame->ops == &gpud_lent_ops && (frame->queue == queue || !frame->queue);
}

/* The frame's slot, or NULL if this pool did not lend it. */
static inline struct gpud_slot *gpud_pool_slot_of(const struct gpud_pool *pool,
                                                  struct gpud_frame *frame)
{
    return frame->ops == &gpud_lent_ops && frame->owner == pool ? (struct gpud_slot *)frame : NULL;
}

/* === transport =============================================================================== */
/* The sender's end of a link in one epoch: the receiver's ring page, the ring by its route, and the
 * published entries. Everything here is under the sender's lock, except where noted. Copies under
 * way hold a reference. */

/* A link's own queues for copies into the receiver's memory. `copy` has only copies, so that they
 * follow each other without a pause: a signal would cost a fence and a switch of engines. Only a
 * frame that follows none posts there, too. All NULL if the sender's queue does everything. */
struct gpud_link_queues {
    struct gpud_queue *copy; /* after `wait`, and after the sender's queue */
    struct gpud_queue *post; /* posts the signals, after each copy */
    struct gpud_queue *wait; /* waits for the receiver's signals */
    struct gpud_queue *own;  /* for the route's own operations on slots */
};

struct gpud_transport {
    uint32_t references;
    struct gpud_channel *channel; /* borrowed: a thread that publishes also holds the link */
    struct gpud_retired *retired; /* the list for its end */
    struct gpud_transport *next_retired;
    const struct gpud_route_ops *route;
    bool on_host; /* the ring is in host pages, which both devices read and write */
    struct gpud_page_tx page;
    uint32_t key_serial; /* of the receiver's last request that was taken */
    struct gpud_pool
        *pool; /* SENDER_DEVICE, SENDER_HOST: the ring that is shared, or written from */
    struct gpud_remote *remote;   /* between hosts: carries the frames and the page */
    uint32_t known_memories;      /* how many of the pool's memories the receiver knows */
    void *metas;                  /* the entries' large metas; between hosts the record's */
    size_t meta_room, metas_size; /* for each; of all */
    struct gpud_slot *slot_of[GPUD_PAGE_ENTRIES];      /* held by each entry */
    struct gpud_ring ring;                             /* RECEIVER, RECEIVER_HOST: imported */
    struct gpud_memory *views[GPUD_RING_MEMORIES_MAX]; /* its memories for our device; borrowed */
    enum gpud_signal_place place;                      /* of the signals */
    struct gpud_signal *signal[GPUD_PAGE_ENTRIES];     /* MEMORY: imported */
    struct gpud_watchdog *watchdog;                    /* PAGE */
    struct gpud_link_queues queues;                    /* RECEIVER and PAGE */
    uint32_t value;                                    /* that was posted last */
    uint32_t value_of[GPUD_PAGE_ENTRIES];              /* that was posted for each entry */
    _Atomic uint32_t last_posted;                      /* the entry whose signal was posted last */
    uint32_t pending;                                  /* entries whose copy is under way */
    uint64_t written[GPUD_PAGE_ENTRIES]; /* the frame that is still written in it; 0: none is */
    uint32_t sent[GPUD_PAGE_ENTRIES];    /* between hosts: its rows that were written to there */
    /* PAGE: returned entries that the receiver's device still reads, oldest first. */
    uint32_t releasing[GPUD_PAGE_ENTRIES], releasing_count;
};

/* RECEIVER, RECEIVER_HOST: the entry's slot as the sender's device sees it; borrowed. */
static inline struct gpud_memory *gpud_transport_slot(const struct gpud_transport *transport,
                                                      uint32_t entry, uint64_t *offset)
{
    gpud_ring_slot(&transport->ring, entry, offset);
    return transport->views[entry / transport->ring.slots_per_memory];
}

/* Whether the link's frames lie in slots of the sender's, which the receiver maps or a network card
 * reads; else they are copied into a ring of the receiver's. */
static inline bool gpud_transport_shares_slots(const struct gpud_transport *transport)
{
    return transport->pool != NULL;
}

/* Whether the route gives each slot to the receiver's device, by a queue of its own. */
static inline bool gpud_transport_gives_slots(const struct gpud_transport *transport)
{
    return transport->queues.own != NULL;
}

void gpud_transport_unref(struct gpud_transport **transport);

/* Frees the retired transports, without the lock, under which they were taken from the list. */
void gpud_retired_destroy(struct gpud_transport *first);

/* Frees entries that the receiver gave back. GPUD_PEER: it violated the protocol. */
enum gpud_status gpud_transport_reap(struct gpud_transport *transport, struct gpud_error *error);

/* Likewise, of the link's transport. false: it violated the protocol, and ends. Under the lock. */
bool gpud_link_reap(struct gpud_link *link);

/* Makes the sender's queue (or a link's copies) wait for the oldest entry of each link that its
 * receiver's device still reads. This frees the entry, because later writes into its slot come
 * after the wait. false: none, or the queue already waits for all of them. */
bool gpud_transports_await_release(struct gpud_transport *const *transports, uint32_t count,
                                   struct gpud_queue *queue);

/* Takes back the oldest frame that the receiver has not claimed. GPUD_AGAIN: it has claimed all. */
enum gpud_status gpud_transport_revoke(struct gpud_transport *transport, struct gpud_error *error);

/* Fills the descriptor of a taken entry. slot: held by the entry (NULL if the receiver owns the
 * ring). */
void gpud_transport_describe(struct gpud_transport *transport, uint32_t entry,
                             const struct gpud_frame_info *info, struct gpud_slot *slot,
                             uint64_t sequence, uint64_t dropped, uint64_t submitted);

/* Publishes a frame that is complete, or whose copy and signal are enqueued; then
 * gpud_transports_wake(). */
void gpud_transport_publish(struct gpud_sender *sender, struct gpud_transport *transport,
                            uint32_t entry);

/* Wakes the receivers that sleep, after frames were published to all of them. */
void gpud_transports_wake(struct gpud_sender *sender, struct gpud_transport *const *transports,
                          uint32_t count);

/* Announces the described frames and `more` further ones: wakes the receivers early. */
void gpud_transports_announce(struct gpud_sender *sender, struct gpud_transport *const *transports,
                              uint32_t count, uint32_t more);

/* Wakes threads that wait for its credits. */
static inline void gpud_transport_wake_sender(struct gpud_transport *transport)
{
    if (transport->page.page)
        gpud_page_rouse(&transport->page.end);
}

/* === link ==================================================================================== */
/* One receiver as its sender sees it. */

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

/* The frames and the messages that wait for a link: see submit.c. */
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
    bool refused; /* with a REFUSE; the log has the reason once in GPUD_REFUSAL_PAUSE */
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
    /* Frames with GPUD_FRAME_DELTA are lost until one comes without: a frame before them was. */
    bool awaits_key;
    bool key_asked;                        /* for that one, or for the first frame */
    char fallback_reason[GPUD_REASON_MAX]; /* why not a better route */
    enum gpud_degraded degraded;           /* the kind of that reason */
    struct gpud_transport *transport;      /* from OFFERED on */
    uint32_t slots; /* of a pool, which the receiver may hold; from the offer on */
    struct gpud_waiting waiting;
    struct gpud_spin spin;
    /* What is counted of it; the rest is filled in when it is reported. `delivered` counts frames
     * that it can still take from its ring, too; `stats` are as of its transport before this one.
     */
    struct gpud_link_info info;
    uint32_t kicks_due;   /* requested; see submit.c */
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
static inline bool gpud_link_is_same_process(const struct gpud_link *link)
{
    return link->peer.token == link->sender->context->token;
}

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
    return count < link->info.delivered
               ? count
               : (uint32_t)link->info.delivered; /* there may be void ones */
}

/* The newest `count` frames were not delivered after all. */
static inline void gpud_link_uncount(struct gpud_link *link, uint32_t count)
{
    link->info.delivered -= count;
    link->sender->info.delivered -= count;
}

/* A frame is lost for this receiver; cause: one of the parts of `dropped`. What a receiver drops by
 * its own policy does not count as a loss of the sender. */
static inline void gpud_link_count_drop(struct gpud_link *link, uint64_t *cause)
{
    (*cause)++;
    link->awaits_key = true;
    link->info.dropped++;
    link->sender->info.dropped += link->requested_policy <= GPUD_SLOW_BLOCK;
    GPUD_PROBE(drop, link->sender, link->id, link->info.dropped);
}

/* Makes the link DEAD after the end of its connection or a violation. Takes back the frames that
 * the receiver still holds, and marks that in the page. The listener's thread does the rest. */
void gpud_link_kill(struct gpud_link *link, enum gpud_log_level level, const char *why);

/* --- without the lock ---------------------------------------------------------------------- */

/* Frees a list of links, by `next_retired`, that have no reference any more. */
void gpud_links_free(struct gpud_link *first);

/* === targets ================================================================================= */
/* The delivery of one frame to several receivers, as submit.c fills it in. It belongs to the thread
 * that delivers it, then to the completion of its copies, so it needs no lock. */

#define GPUD_NO_ENTRY UINT32_MAX

struct gpud_delivery_target {
    struct gpud_link *link;
    struct gpud_transport *transport; /* a reference; NULL: of no ring yet, see submit.c */
    uint32_t entry;                   /* taken, or GPUD_NO_ENTRY if none was free, see submit.c */
    bool failed;                      /* its device did not accept the frame */
    bool early;                       /* published while the frame is still written */
    bool stepwise;                    /* early, and the frame is copied for it in steps */
};

struct gpud_delivery {
    struct gpud_frame
        *frame; /* the caller's until the delivery is done, then released if `consume` */
    const struct gpud_frame_info *info; /* of the frame, as it is sent; until gpud_deliver() ends */
    uint64_t submitted;                 /* likewise; 0: now */
    bool consume;
    bool canary;                   /* a link's test frame: not counted */
    bool by_lines;                 /* the frame is still being written */
    bool corrupted;                /* its bytes never came, or were lost */
    struct gpud_slot *device_slot; /* the slot that the shared routes publish: the frame's own, or
                                      one to copy into */
    struct gpud_slot *host_slot;   /* likewise for host pages, if the device is not the host */
    /* Filled by gpud_deliver() for the copies, which are made without the lock: the application may
     * configure the sender anew during a link's test. */
    struct gpud_layout layout; /* of the device's slots */
    struct gpud_layout rows;   /* of all other rings */
    struct gpud_slot *ordered; /* by copies_are_stream_ordered() */
    bool copies, is_late;      /* some target needs one; some has no entry */
    /* Of a frame that is still being written: the rows that earlier steps copy for its stepwise
     * targets. lines: this is one of these steps, which copies the rows before this one; 0: it is
     * the frame, and copies the rest. */
    uint32_t copied, lines;
    uint64_t sequence;
    uint32_t count;
    struct gpud_delivery_target target[GPUD_RECEIVERS_MAX];
};

/* Another reference for each. */
static inline void gpud_target_take(struct gpud_delivery_target *target, struct gpud_link *link,
                                    uint32_t entry)
{
    target->link = link;
    target->transport = link->transport;
    target->entry = entry;
    target->failed = target->early = target->stepwise = false;
    link->references++;
    link->transport->references++;
}

/* Drops its slots, and with `consume` the frame. */
static inline void gpud_delivery_release(struct gpud_delivery *delivery)
{
    if (delivery->host_slot)
        gpud_slot_drop(delivery->host_slot);
    if (delivery->device_slot)
        gpud_slot_drop(delivery->device_slot);
    if (delivery->consume)
        gpud_frame_release(&delivery->frame);
}

/* Whether a target is published only when a queue is done; a frame that is copied in steps has no
 * signal for each. */
static inline bool gpud_target_waits(const struct gpud_delivery_target *target)
{
    return !target->transport || target->transport->place == GPUD_SIGNAL_NONE || target->stepwise;
}

/* === hand.c ================================================================================== */

/* The sender's lock, whose holder publishes frames whose copies have completed meanwhile. */
void gpud_sender_lock(struct gpud_sender *sender);
void gpud_sender_unlock(struct gpud_sender *sender);

/* Sleeps until a link changes, at most until the deadline or for a slice; drops the lock
 * meanwhile. */
void gpud_sender_wait_for_change(struct gpud_sender *sender, int64_t deadline);

/* Drops one of `references`; the last one frees the sender. */
void gpud_sender_unref(struct gpud_sender *sender);

/* Copies if needed, posts and publishes. Called with the lock held, which is dropped meanwhile.
 * Takes over the targets, the slots (one user each, which the delivery drops) and, with consume,
 * the frame.
 *
 * With delivery->by_lines: publishes the frame only for those receivers that take it while the
 * application writes it, and keeps it as sender->writing until its last line, its release, or a new
 * format. There is one at a time, so that frames stay in order. */
enum gpud_status gpud_deliver(struct gpud_sender *sender, const struct gpud_delivery *delivery,
                              struct gpud_error *error);
const struct gpud_frame *gpud_deliver_writing(const struct gpud_sender *sender);

/* So many rows of that frame are valid; all: it is whole. Without the lock. */
enum gpud_status gpud_lines_advance(struct gpud_sender *sender, struct gpud_frame *frame,
                                    uint32_t lines, struct gpud_error *error);

/* That frame, if there is one, is lost; under the lock. */
void gpud_lines_give_up(struct gpud_sender *sender);

/* === submit.c: what waits ==================================================================== */
/* All under the lock. */

/* Stops notifying an application's event loop; call it when a call begins. */
void gpud_sender_poll_disarm(struct gpud_sender *sender);

/* Before the next format, and before the end of the sender: waits, until the deadline, until frames
 * have gone out whose receivers still prepare their rings. Drops the lock meanwhile. */
void gpud_sender_settle(struct gpud_sender *sender, int64_t deadline);

/* Sends the waiting frames for which there are entries, and the messages after them. May end the
 * link. */
void gpud_waiting_advance(struct gpud_link *link);

/* Drops the waiting frames and messages. */
void gpud_waiting_clear(struct gpud_link *link);

/* Handles a target without an entry, which submit counted in `late` (and, without a transport, in
 * `late_kept`), when its frame is complete, lost, or not delivered after all. Its references stay
 * the caller's. */
void gpud_waiting_put(const struct gpud_delivery_target *target, const struct gpud_frame_info *info,
                      struct gpud_slot *slot, uint64_t sequence, bool lost);

/* The sender ends: drops what cannot be sent; messages go out although the link's ring is not
 * ready. */
void gpud_waiting_end(struct gpud_link *link);

/* Drops a waiting frame whose slot has no other user; last: also one for which the pool has yet to
 * grow. false: this pool has none. */
bool gpud_waiting_reclaim_slot(struct gpud_sender *sender, const struct gpud_pool *pool, bool last);

/* The link's ring is ready: sends what waits for it. The listener's thread does the rest in its
 * next turn. */
void gpud_waiting_ready(struct gpud_link *link);

/* Whether the OFFER of a new epoch has to wait, too; then the listener's thread is woken when it
 * can be sent. */
bool gpud_waiting_delays_offer(struct gpud_link *link);

/* For the listener's thread: a link's next deadline; handles all that are due, and delivers frames
 * that waited for a ring and take work of the device. Drops the lock meanwhile. */
int64_t gpud_waiting_deadline(const struct gpud_link *link);
void gpud_waiting_turn(struct gpud_sender *sender, int64_t now);

/* === the listener's thread =================================================================== */
/* In that thread, or after it ended; without the lock. */

/* Gets the pool for a route that shares the sender's ring, with a reference, and the offer's part
 * about it: chooses the link's share, makes room for it, notifies every receiver that maps the
 * pool, and clears old pictures before a new one maps them. GPUD_AGAIN: a receiver cannot be
 * notified now, or too many slots are in use; try later. */
enum gpud_status gpud_room_offer(struct gpud_link *link, const struct gpud_route_ops *route,
                                 struct gpud_pool **pool, struct gpud_offer *offer,
                                 struct gpud_error *error);

/* Lets the link's receiver hold as many frames as it asked for, if that is due, within what
 * receivers may have: the ring grows, and the receiver is told. */
void gpud_room_raise(struct gpud_link *link, int64_t now);

/* Registers the pool's new memories with the link's network card. */
enum gpud_status gpud_link_register_sources(struct gpud_link *link, struct gpud_error *error);

/* Frees memories that have been unneeded for some seconds. */
void gpud_room_shrink(struct gpud_sender *sender, int64_t now);

/* Makes a receiver for this HELLO, and answers it. Takes the channel on success; on failure the
 * status and *why are for the refusal. */
enum gpud_status gpud_link_create(struct gpud_sender *sender, struct gpud_channel *channel,
                                  const struct gpud_endpoint *hello, struct gpud_link **link,
                                  const char **why);

/* Handles a message. The caller closes its attachments; what is kept of them is duplicated. */
void gpud_link_handle(struct gpud_link *link, struct gpud_message *message);

/* Offers a route, if the ring of this epoch was not offered yet, or the wait is over. */
void gpud_link_offer_if_due(struct gpud_link *link, int64_t now);

/* gpud_link_kill(); takes the lock. */
void gpud_link_end(struct gpud_link *link, enum gpud_log_level level, const char *why);

/* Ends a handshake that cannot succeed, and sends the peer the reason. */
void gpud_link_refuse(struct gpud_link *link, enum gpud_status status, const char *reason);

/* Logs and reports links that began and ended since the last call, and removes dead ones. */
void gpud_links_settle(struct gpud_sender *sender);

/* The level for a line about a refused peer: GPUD_LOG_DEBUG if the same one was logged less than
 * GPUD_REFUSAL_PAUSE ago. For the listener's thread. */
enum gpud_log_level gpud_refusal_level(struct gpud_admission *admission,
                                       const struct gpud_channel *channel,
                                       enum gpud_log_level level, const char *why);

/* Takes ownership of a channel whose first message, HELLO or QUERY, has not come yet. */
void gpud_newcomer_add(struct gpud_sender *sender, struct gpud_channel *channel);

/* Reads such messages, by ppoll()'s results for the first `count`, and drops those that are late. A
 * limited number a second have their turn, those of processes with the fewest connections first. */
struct pollfd;
void gpud_newcomers_read(struct gpud_sender *sender, const struct pollfd *fds, uint32_t count);

/* The part of each turn that follows reading messages: offers, deadlines, the ends of links. */
void gpud_listener_turn(struct gpud_sender *sender);

/* Ends the thread; no more connections are accepted. */
void gpud_sender_stop_listening(struct gpud_sender *sender);

#endif
