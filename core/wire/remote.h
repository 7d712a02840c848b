/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Links whose ends share no memory: their channels' kinds have a network card that writes into the
 * other end's memory.
 *
 *     sender                                  receiver
 *     its slots, registered ── write() ─────▶ a ring of its own, registered (expose)
 *     a ring page of its own                  a ring page of its own
 *         its half ──────────── publish() ──▶     the sender's half, as last published
 *         the receiver's half ◀─ publish() ──     its half
 *
 * What one side writes and publishes is seen in that order. One record a link and epoch: nothing
 * that was registered for one is of any use to the next. */
#ifndef GPUD_WIRE_REMOTE_H
#define GPUD_WIRE_REMOTE_H

#include "frame/ring.h"
#include "wire/message.h"
#include "wire/page.h"

struct gpud_channel;
struct gpud_remote_ops;

struct gpud_remote {
    const struct gpud_remote_ops *ops;
    struct gpud_page *page; /* this side's, zeroed at first; gone with the record */
};

/* All are mandatory. What peers say is checked here: GPUD_PEER. Calls for one record come from one
 * thread at a time, but for what the page's carrier is called with. */
struct gpud_remote_ops {
    /* For gpud_page_end.carrier, with gpud_page_end.remote. It can neither take back nor elide. */
    const struct gpud_page_carrier *carrier;

    /* What this channel's card can do for memory of the device: fills endpoint->network. */
    void (*describe)(const struct gpud_channel *channel, struct gpud_device *device,
                     struct gpud_network *network);

    /* This side's page, and its handle for the other. The record keeps the channel. */
    enum gpud_status (*create)(struct gpud_channel *channel, struct gpud_remote **remote,
                               struct gpud_handle *page, struct gpud_error *error);

    /* The other side's page: from now on the halves can be published. */
    enum gpud_status (*attach)(struct gpud_remote *remote, const struct gpud_handle *page,
                               struct gpud_error *error);

    /* Receiver: the slots of its ring are there to be written. The handles say where. */
    enum gpud_status (*expose)(struct gpud_remote *remote, const struct gpud_ring *ring,
                               struct gpud_ring_description *description, struct gpud_error *error);

    /* Sender: where the receiver's slots are, one for each entry, of at least frame_size bytes. */
    enum gpud_status (*attach_ring)(struct gpud_remote *remote,
                                    const struct gpud_ring_description *description,
                                    uint32_t entries, uint64_t frame_size,
                                    struct gpud_error *error);

    /* Sender: slots in this memory will be written from. Takes milliseconds, where pages are
     * pinned. The memory is kept until the record is destroyed. Again does nothing. Others may be
     * written from meanwhile, in another thread. */
    enum gpud_status (*add_source)(struct gpud_remote *remote, struct gpud_memory *memory,
                                   struct gpud_error *error);

    /* Sender: whether one more frame can be written and published without waiting for the card. */
    bool (*has_room)(struct gpud_remote *remote);

    /* Sender: the bytes go into the entry's slot, before whatever is published from now on. They
     * must not change until the entry was given back, or the record is destroyed. */
    enum gpud_status (*write)(struct gpud_remote *remote, uint32_t entry,
                              struct gpud_memory *memory, uint64_t offset, uint64_t size,
                              struct gpud_error *error);

    /* The receiver has another epoch now: nothing is published any more, frames that are still held
     * may be given back. Any thread. */
    void (*detach)(struct gpud_remote *remote);

    /* Waits until the card is done with this side's memory, which ends the connection if it takes
     * more than a second. Not under a lock. */
    void (*destroy)(struct gpud_remote *remote);
};

#endif
