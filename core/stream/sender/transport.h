/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sender's end of a link in one epoch: the receiver's ring page, the ring by its route, and the
 * published entries. Everything here is under the sender's lock, except where noted. Copies under
 * way hold a reference. */
#ifndef GPUD_STREAM_SENDER_TRANSPORT_H
#define GPUD_STREAM_SENDER_TRANSPORT_H

#include "route/ops.h"
#include "stream/sender/pool.h"
#include "stream/sender/state.h"
#include "stream/shared/watchdog.h"

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
    uint32_t value;                                    /* of the last signal */
    uint32_t value_of[GPUD_PAGE_ENTRIES];              /* of the signal for each entry's frame */
    _Atomic uint32_t last_posted;                      /* the entry of the last signal */
    uint32_t pending;                                  /* entries whose copy is under way */
    uint64_t written[GPUD_PAGE_ENTRIES]; /* the frame that is still written in it; 0: none is */
    uint32_t sent[GPUD_PAGE_ENTRIES];    /* between hosts: its rows that were written to there */
    /* PAGE: returned entries that the receiver's device still reads, oldest first. */
    uint32_t releasing[GPUD_PAGE_ENTRIES], releasing_count;
};

/* For an OFFER: takes its own reference on the pool (NULL if the receiver owns the ring). */
enum gpud_status gpud_transport_create(const struct gpud_route_ops *route,
                                       enum gpud_signal_place place, struct gpud_pool *pool,
                                       struct gpud_retired *retired,
                                       struct gpud_transport **transport, struct gpud_error *error);

/* With the receiver's ACCEPT, which is untrusted: maps its page, imports its ring. channel: the
 * receiver's; remote: the offered transport's, which keeps it. Without the lock, because no other
 * thread knows the transport yet. */
enum gpud_status gpud_transport_connect(struct gpud_transport *transport, uint32_t credits,
                                        struct gpud_device *device, struct gpud_device *host,
                                        struct gpud_channel *channel, struct gpud_remote *remote,
                                        const struct gpud_accept *accept, bool local,
                                        uint64_t frame_size, uint32_t large_meta_max,
                                        struct gpud_error *error);

/* RECEIVER, RECEIVER_HOST: the entry's slot as the sender's device sees it; borrowed. */
struct gpud_memory *gpud_transport_slot(const struct gpud_transport *transport, uint32_t entry,
                                        uint64_t *offset);

/* Whether one more frame could be sent now, if there is a credit. */
bool gpud_transport_has_room(const struct gpud_transport *transport);

void gpud_transport_unref(struct gpud_transport **transport);

/* Takes the retired transports, under the lock; and frees them, without it. */
struct gpud_transport *gpud_retired_take(struct gpud_retired *retired);
void gpud_retired_destroy(struct gpud_transport *first);

/* Whether the receiver, or its device, still uses frames. */
bool gpud_transport_is_in_use(const struct gpud_transport *transport);

/* Invalidates the receiver's frames: a shared ring's slots will be overwritten. */
void gpud_transport_take_all_back(struct gpud_transport *transport);

/* Frees entries that the receiver gave back. GPUD_PEER: it violated the protocol. */
enum gpud_status gpud_transport_reap(struct gpud_transport *transport, struct gpud_error *error);

/* Makes the sender's queue (or the link's copies) wait for the oldest entry that the receiver's
 * device still reads. This frees the entry, because later writes into its slot come after the wait.
 * false: none, or the queue already waits for it. */
bool gpud_transport_await_release(struct gpud_transport *transport, struct gpud_queue *queue);

/* Whether all signals that were posted for the receiver are in their words, with the copies before
 * them. */
bool gpud_transport_is_drained(const struct gpud_transport *transport);

/* Posts the signal after the entry's frame on the queue. Without the lock. */
enum gpud_status gpud_transport_post(struct gpud_transport *transport, uint32_t entry,
                                     struct gpud_queue *queue, struct gpud_error *error);

/* Takes back the oldest frame that the receiver has not claimed. GPUD_AGAIN: it has claimed all. */
enum gpud_status gpud_transport_revoke(struct gpud_transport *transport, struct gpud_error *error);

/* Fills the descriptor of a taken entry. slot: held by the entry (NULL if the receiver owns the
 * ring). */
void gpud_transport_describe(struct gpud_transport *transport, uint32_t entry,
                             const struct gpud_frame_info *info, struct gpud_slot *slot,
                             uint64_t sequence, uint64_t dropped, uint64_t submitted);

/* Publishes a frame that is complete, or whose copy and signal are enqueued. Returns whether the
 * receiver had to be woken. */
bool gpud_transport_publish(struct gpud_transport *transport, uint32_t entry);

/* Publishes a described frame that is still being written, with no valid rows yet. */
bool gpud_transport_publish_early(struct gpud_transport *transport, uint32_t entry,
                                  uint64_t sequence);

/* Says how many of its rows are valid; between hosts writes them first, where they are enough for a
 * step. last: these are its last ones, all or GPUD_LINES_LOST. false: the frame is lost, now or
 * since before: a late step of it changes nothing, also of the entry's next frame. */
bool gpud_transport_set_lines(struct gpud_transport *transport, uint32_t entry, uint64_t sequence,
                              uint32_t lines, bool last);

/* Announces the described frames and `more` further ones: wakes the receiver early. */
bool gpud_transport_announce(struct gpud_transport *transport, uint32_t more);

/* Undoes a take without a description. */
void gpud_transport_untake(struct gpud_transport *transport, uint32_t entry);

/* Publishes a described entry as void, because its frame is lost but messages may follow it.
 * Returns whether the receiver had to be woken. */
bool gpud_transport_cancel(struct gpud_transport *transport, uint32_t entry);

/* The position of the next message among the frames. */
static inline uint32_t gpud_transport_position(const struct gpud_transport *transport)
{
    return transport->page.head + transport->pending;
}

/* Counts a sent message in the page. */
void gpud_transport_count_message(struct gpud_transport *transport);

/* Measures the rate of whole frames into the receiver's ring, which is connected and not yet in
 * use, in bytes per second; 0: unknown. Takes as long as a few frames. queue: the sender's. Without
 * the lock, with a reference. */
double gpud_transport_measure(struct gpud_transport *transport, struct gpud_queue *queue,
                              uint64_t size);

/* A wait for credits of a transport. */
struct gpud_credit_wait {
    struct gpud_page_tx *page;
    uint32_t returned; /* entries returned so far */
    uint32_t wanted;   /* entries that are worth a wake */
    bool by_device;    /* a device has yet to finish */
    const atomic_bool *interrupted;
};

/* Begins under the lock; sleeps without it, with a reference, until credits may have been returned,
 * the transport is woken, or the deadline passes. */
struct gpud_credit_wait gpud_transport_begin_wait(struct gpud_transport *transport,
                                                  const atomic_bool *interrupted);
void gpud_transport_sleep(struct gpud_credit_wait *wait, struct gpud_spin *spin, int64_t deadline);
void gpud_transport_wake_sender(struct gpud_transport *transport);

#endif
