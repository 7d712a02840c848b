/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The contract of a route. A route says between which ends it is possible and where its ring lies.
 * What follows from that (which side allocates, imports, copies and posts) is the same for all, and
 * is in stream/. A new route is one file here and one line in the table of select.c. */
#ifndef GPUD_ROUTE_OPS_H
#define GPUD_ROUTE_OPS_H

#include "wire/message.h"

struct gpud_device;
struct gpud_memory;
struct gpud_queue;

enum gpud_ring_place {
    GPUD_RING_SENDER_DEVICE, /* the sender's memory, which the receivers map: no copy */
    GPUD_RING_SENDER_HOST,   /* host pages of the sender, which both devices read and write */
    GPUD_RING_RECEIVER,      /* the receiver's device's memory, which the sender's device writes */
    GPUD_RING_RECEIVER_HOST, /* host pages of the receiver, which both devices read and write */
};

static inline bool gpud_ring_is_receivers(enum gpud_ring_place place)
{
    return place == GPUD_RING_RECEIVER || place == GPUD_RING_RECEIVER_HOST;
}

static inline bool gpud_ring_is_on_host(enum gpud_ring_place place)
{
    return place == GPUD_RING_SENDER_HOST || place == GPUD_RING_RECEIVER_HOST;
}

/* What a route does by itself with the sender's slots: gives a slot to the receiver's device when
 * its frame is submitted, and takes it back. Each link has a queue of its own for that; a frame is
 * handed over when that queue is done. */
struct gpud_route_slot_ops {
    /* Whether slots on this device may be given away; each is a memory of its own then. */
    bool (*is_possible)(const struct gpud_device *from);
    /* Makes a link's queue. to: the receiver's device, which is open in the sender's context. */
    enum gpud_status (*open)(struct gpud_device *to, struct gpud_queue **queue,
                             struct gpud_error *error);
    /* On that queue, behind everything on the queue `written`. */
    enum gpud_status (*give)(struct gpud_queue *queue, struct gpud_memory *slot,
                             struct gpud_queue *written, struct gpud_error *error);
    /* The slot will be written again by `queue`: its bytes need not come back. */
    void (*take_back)(struct gpud_queue *queue, struct gpud_memory *slot);
};

struct gpud_route_ops {
    const char *name;
    enum gpud_ring_place ring;
    bool direct; /* no detour through the host, as require-direct demands */
    /* Where the words lie by which the devices hand over frames. PAGE: if both devices can, see
     * gpud_route_signal(); else the host publishes what the sender's queue has finished. */
    enum gpud_signal_place signal;
    bool by_link;         /* the devices' own link decides, and best explains a refusal */
    bool memory_per_slot; /* RECEIVER: each slot is a memory of its own */
    /* SENDER_DEVICE: a receiver's own mapping is all that keeps the ring's memories on its side, so
     * some can be taken back while it streams. */
    bool shrinks;
    /* Between hosts: the receiver has a ring of its own, on a device that `ring` describes as it
     * does the sender's, and a network card writes the sender's slots into it. */
    bool network;
    /* Does better for some ends what a later route does for all. If it is not possible, that is not
     * a reason against the chosen route. */
    bool substitute;
    /* SENDER_DEVICE: gives the slots to the receiver's device; NULL: they stay. */
    const struct gpud_route_slot_ops *slots;
    /* From what both sides said, without side effects. On refusal *why is a sentence that a user
     * can act on. */
    bool (*can_connect)(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver,
                        char why[GPUD_REASON_MAX]);
    /* Why another user's receiver must not use it; NULL: it may. A NULL function: all users may. */
    const char *(*refuse_foreign)(const struct gpud_endpoint *sender);
    /* How fast one frame gets across, with all its copies in turn, in bytes per second by the
     * vendors' figures; 0: no figures. A NULL function: unknown until measured. */
    double (*rate)(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver);
};

#endif
