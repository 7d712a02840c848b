/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sender's end of a link in one epoch: the receiver's ring page, the ring by its route, and
 * what is out. Everything here is under the sender's lock, but for what says otherwise. Copies
 * under way hold a reference. */
#ifndef GPUD_STREAM_SENDER_TRANSPORT_H
#define GPUD_STREAM_SENDER_TRANSPORT_H

#include "route/ops.h"
#include "stream/sender/pool.h"
#include "stream/sender/state.h"
#include "stream/shared/watchdog.h"

/* A link's own queues for copies into the receiver's memory. Nothing but copies is on `copy`, so
 * that one begins where another ends: a word costs its queue a pause, for its fence and because
 * copies are another engine's. All NULL where the sender's queue does everything. */
struct gpud_link_queues {
    struct gpud_queue *copy; /* after `wait`, and after the sender's queue */
    struct gpud_queue *post; /* the words, after each copy */
    struct gpud_queue *wait; /* waits for the receiver's words */
    struct gpud_queue *own;  /* the route's, for what it does with slots by itself */
};

struct gpud_transport {
    uint32_t references;
    struct gpud_channel *channel; /* borrowed: a thread that publishes holds the link, too */
    struct gpud_retired *retired; /* where it goes in the end */
    struct gpud_transport *next_retired;
    const struct gpud_route_ops *route;
    bool on_host; /* the ring: in host pages, which both devices read and write */
    struct gpud_page_tx page;
    struct gpud_pool
        *pool; /* SENDER_DEVICE, SENDER_HOST: the ring that is shared, or written from */
    struct gpud_remote *remote; /* between hosts: what the frames and the page go by */
    uint32_t known_memories;    /* of the pool's memories */
    struct gpud_slot *slot_of[GPUD_PAGE_ENTRIES];      /* that an entry holds */
    struct gpud_ring ring;                             /* RECEIVER, RECEIVER_HOST: imported */
    struct gpud_memory *views[GPUD_RING_MEMORIES_MAX]; /* its memories for our device; borrowed */
    enum gpud_signal_place place;                      /* of the signals */
    struct gpud_signal *signal[GPUD_PAGE_ENTRIES];     /* MEMORY: imported */
    struct gpud_watchdog *watchdog;                    /* PAGE */
    struct gpud_link_queues queues;                    /* RECEIVER and PAGE */
    uint32_t value;                                    /* of the last signal */
    uint32_t value_of[GPUD_PAGE_ENTRIES];              /* that an entry's frame was posted with */
    uint32_t pending;                                  /* entries whose copy is under way */
    /* PAGE: entries that the receiver gave back and its device still reads, oldest first. */
    uint32_t releasing[GPUD_PAGE_ENTRIES], releasing_count;
};

/* For an OFFER: takes a reference of the pool by itself (pool NULL where the ring is the
 * receiver's). */
enum gpud_status gpud_transport_create(const struct gpud_route_ops *route,
                                       enum gpud_signal_place place, struct gpud_pool *pool,
                                       struct gpud_retired *retired,
                                       struct gpud_transport **transport, struct gpud_error *error);

/* With the receiver's ACCEPT: maps its page, imports its ring. Everything in it is a peer's word.
 * channel: what it came over; remote: the offered transport's, which keeps it. Without the lock:
 * no other thread knows the transport yet. */
enum gpud_status gpud_transport_connect(struct gpud_transport *transport,
                                        struct gpud_device *device, struct gpud_device *host,
                                        struct gpud_channel *channel, struct gpud_remote *remote,
                                        const struct gpud_accept *accept, bool local,
                                        uint64_t frame_size, struct gpud_error *error);

/* RECEIVER, RECEIVER_HOST: where an entry's frame goes, as the sender's device sees it; borrowed.
 */
struct gpud_memory *gpud_transport_slot(const struct gpud_transport *transport, uint32_t entry,
                                        uint64_t *offset);

/* Whether one more frame could be put on its way to the receiver now, if there is a credit. */
bool gpud_transport_has_room(const struct gpud_transport *transport);

void gpud_transport_unref(struct gpud_transport **transport);

/* Those that are retired, under the lock; and their end, without it. */
struct gpud_transport *gpud_retired_take(struct gpud_retired *retired);
void gpud_retired_destroy(struct gpud_transport *first);

/* Whether the receiver, or its device, still has frames. */
bool gpud_transport_is_in_use(const struct gpud_transport *transport);

/* The slots of a shared ring will be written anew, even if the receiver still reads them. */
void gpud_transport_take_all_back(struct gpud_transport *transport);

/* Frees what the receiver gave back. GPUD_PEER: it lied. */
enum gpud_status gpud_transport_reap(struct gpud_transport *transport, struct gpud_error *error);

/* Makes the sender's queue (or the link's copies) wait for the oldest entry that the receiver's
 * device still reads, which is thereby free: whatever is written into its slot is written later.
 * false: there is none, or the queue waits for that entry already. */
bool gpud_transport_await_release(struct gpud_transport *transport, struct gpud_queue *queue);

/* The entry's frame is on the queue: the receiver's device may read it then. Without the lock. */
enum gpud_status gpud_transport_post(struct gpud_transport *transport, uint32_t entry,
                                     struct gpud_queue *queue, struct gpud_error *error);

/* Takes the oldest frame back that the receiver has not claimed. GPUD_AGAIN: it has claimed all. */
enum gpud_status gpud_transport_revoke(struct gpud_transport *transport, struct gpud_error *error);

/* Fills the descriptor of an entry that was taken. slot: what the entry is to hold (NULL where the
 * ring is the receiver's). */
void gpud_transport_describe(struct gpud_transport *transport, uint32_t entry,
                             const struct gpud_frame_info *info, struct gpud_slot *slot,
                             uint64_t sequence, uint64_t dropped);

/* The frame is there, or its copy and its signal are enqueued. Returns whether the receiver had to
 * be woken. */
bool gpud_transport_publish(struct gpud_transport *transport, uint32_t entry);

/* The frames that were described, and so many more, are about to be published: wakes the receiver
 * already. */
bool gpud_transport_announce(struct gpud_transport *transport, uint32_t more);

/* Undoes a take that was not described. */
void gpud_transport_untake(struct gpud_transport *transport, uint32_t entry);

/* The frame that was described will not come: publishes the entry as void, for the messages behind
 * it. Returns whether the receiver had to be woken. */
bool gpud_transport_cancel(struct gpud_transport *transport, uint32_t entry);

/* The place of the next message among the frames. */
static inline uint32_t gpud_transport_position(const struct gpud_transport *transport)
{
    return transport->page.head + transport->pending;
}

/* Tells the receiver that a message was sent. */
void gpud_transport_count_message(struct gpud_transport *transport);

/* Bytes per second of whole frames into the receiver's ring, which is connected and not yet in use;
 * 0: unknown. Takes a few frames' time. queue: the sender's. Without the lock, with a reference. */
double gpud_transport_measure(struct gpud_transport *transport, struct gpud_queue *queue,
                              uint64_t size);

/* What a wait for credits needs to know of a transport. */
struct gpud_credit_wait {
    struct gpud_page_tx *page;
    uint32_t returned; /* entries that came back so far */
    uint32_t wanted;   /* before it is worth to be woken */
    bool by_device;    /* a device is what is waited for */
    const atomic_bool *interrupted;
};

/* Begins under the lock, sleeps without it and with a reference: until credits may have come back,
 * the transport is woken, or the deadline. */
struct gpud_credit_wait gpud_transport_begin_wait(struct gpud_transport *transport,
                                                  const atomic_bool *interrupted);
void gpud_transport_sleep(struct gpud_credit_wait *wait, struct gpud_spin *spin, int64_t deadline);
void gpud_transport_wake_sender(struct gpud_transport *transport);

#endif
