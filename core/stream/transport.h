/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sender's end of a link in one epoch: the receiver's ring page, the ring by its route, and
 * what is out. Everything here is under the sender's lock, but for what says otherwise. Copies
 * under way hold a reference. */
#ifndef GPUD_STREAM_TRANSPORT_H
#define GPUD_STREAM_TRANSPORT_H

#include "route/ops.h"
#include "stream/pool.h"
#include "wire/page.h"

/* DirectGMA's markers must never wrap; a new epoch starts long before. Tests bring it within reach.
 */
#ifndef GPUD_SIGNAL_LIMIT
#define GPUD_SIGNAL_LIMIT (UINT32_C(1) << 30)
#endif

struct gpud_transport {
    uint32_t references;
    const struct gpud_route_ops *route;
    struct gpud_page_sender page;
    struct gpud_pool *pool; /* SENDER_DEVICE, SENDER_HOST: the ring that is shared */
    uint32_t announced;     /* of the pool's memories */
    struct gpud_slot *slot_of[GPUD_PAGE_ENTRIES];  /* that an entry holds */
    struct gpud_ring ring;                         /* RECEIVER: imported */
    struct gpud_signal *signal[GPUD_PAGE_ENTRIES]; /* signalled routes: imported */
    uint32_t value;                                /* of the last signal */
    uint32_t pending;                              /* entries whose copy is under way */
};

/* For an OFFER: takes a reference of the pool by itself (pool NULL where the ring is the
 * receiver's). */
enum gpud_status gpud_transport_create(const struct gpud_route_ops *route, struct gpud_pool *pool,
                                       struct gpud_transport **transport, struct gpud_error *error);

/* With the receiver's ACCEPT: maps its page, imports its ring. Everything in it is a peer's word.
 */
enum gpud_status gpud_transport_connect(struct gpud_transport *transport,
                                        struct gpud_device *device,
                                        const struct gpud_accept *accept, bool local,
                                        uint64_t frame_size, struct gpud_error *error);

void gpud_transport_unref(struct gpud_transport **transport);

/* Frees what the receiver gave back. GPUD_PEER: it lied. */
enum gpud_status gpud_transport_reap(struct gpud_transport *transport, struct gpud_error *error);

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

/* Undoes a take, and the description if there was one. */
void gpud_transport_untake(struct gpud_transport *transport, uint32_t entry);
void gpud_transport_cancel(struct gpud_transport *transport, uint32_t entry);

/* The place of the next message among the frames. */
static inline uint32_t gpud_transport_position(const struct gpud_transport *transport)
{
    return transport->page.head + transport->pending;
}

/* Tells the receiver that a message was sent. */
void gpud_transport_count_message(struct gpud_transport *transport);

/* Sleeps until credits may have come back, the transport is woken, or the deadline. Without the
 * lock, with a reference. */
void gpud_transport_sleep(struct gpud_transport *transport, struct gpud_spin *spin,
                          const atomic_bool *interrupted, int64_t deadline);
void gpud_transport_wake_sender(struct gpud_transport *transport);

#endif
