/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Links between hosts: the ends share no memory, and a network card writes into the other end's.
 *
 *     sender                                  receiver
 *     its slots, registered ── write() ─────▶ a ring of its own, registered (expose)
 *     a ring page of its own                  a ring page of its own
 *         its half ──────────── publish() ──▶     the sender's half, as last published
 *         the receiver's half ◀─ publish() ──     its half
 *
 * The other side sees writes and published ranges in order. Each link has one record per epoch;
 * registrations are not shared between them. */
#ifndef GPUD_WIRE_REMOTE_H
#define GPUD_WIRE_REMOTE_H

#include "frame/ring.h"
#include "wire/message.h"
#include "wire/page.h"

struct gpud_channel;
struct gpud_remote_ops;

struct gpud_remote {
    const struct gpud_remote_ops *ops;
    struct gpud_page *page; /* this side's, zeroed at first; freed with the record */
};

/* All are mandatory, and check what peers say: GPUD_PEER. Calls for one record come from one thread
 * at a time, except those through the page's carrier. */
struct gpud_remote_ops {
    /* For gpud_page_end.carrier, with gpud_page_end.remote; neither can_take_back nor can_elide. */
    const struct gpud_page_carrier *carrier;

    /* Fills endpoint->network: what this channel's card can do with memory of the device. */
    void (*describe)(const struct gpud_channel *channel, struct gpud_device *device,
                     struct gpud_network *network);

    /* Makes this side's page, and its handle for the other. The record keeps the channel. */
    enum gpud_status (*create)(struct gpud_channel *channel, struct gpud_remote **remote,
                               struct gpud_handle *page, struct gpud_error *error);

    /* Sets the other side's page: from now on the halves can be published. */
    enum gpud_status (*attach)(struct gpud_remote *remote, const struct gpud_handle *page,
                               struct gpud_error *error);

    /* Receiver: lets the sender write the slots of its ring, and describes where they are. */
    enum gpud_status (*expose)(struct gpud_remote *remote, const struct gpud_ring *ring,
                               struct gpud_ring_description *description, struct gpud_error *error);

    /* Sender: sets the receiver's slots, one for each entry, of at least frame_size bytes. */
    enum gpud_status (*attach_ring)(struct gpud_remote *remote,
                                    const struct gpud_ring_description *description,
                                    uint32_t entries, uint64_t frame_size,
                                    struct gpud_error *error);

    /* Makes memory for large metas, freed with the record. Receiver: for the sender's card to
     * write, and fills *handle. Sender: to write from, to where the handle says. */
    enum gpud_status (*share_metas)(struct gpud_remote *remote, uint64_t size,
                                    struct gpud_handle *handle, void **metas,
                                    struct gpud_error *error);

    /* Sender: registers memory to write frames from, and keeps it until the record is destroyed.
     * Idempotent. Takes milliseconds if pages are pinned; another thread may write frames from
     * other memories meanwhile. */
    enum gpud_status (*add_source)(struct gpud_remote *remote, struct gpud_memory *memory,
                                   struct gpud_error *error);

    /* Sender: whether one more frame can be written and published without waiting for the card. */
    bool (*has_room)(struct gpud_remote *remote);

    /* Sender: writes the bytes into the entry's slot, from its byte `at` on, ahead of everything
     * published later. They must not change until the entry is given back or the record is
     * destroyed. GPUD_AGAIN: there is no room for them now. */
    enum gpud_status (*write)(struct gpud_remote *remote, uint32_t entry, uint64_t at,
                              struct gpud_memory *memory, uint64_t offset, uint64_t size,
                              struct gpud_error *error);

    /* Sender: writes this range of the large metas, likewise. */
    enum gpud_status (*write_meta)(struct gpud_remote *remote, uint64_t offset, uint64_t size,
                                   struct gpud_error *error);

    /* Stops publishing, because the receiver has moved to another epoch; frames still held may be
     * given back. Any thread. */
    void (*detach)(struct gpud_remote *remote);

    /* Waits until the card no longer uses this side's memory; after one second it ends the
     * connection. Not under a lock. */
    void (*destroy)(struct gpud_remote *remote);
};

#endif
