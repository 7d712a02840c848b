/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The contract of a route. A route says between which ends it is possible and where its ring lies;
 * what follows from that (which side allocates, imports, copies and posts) is the same for all
 * and stands in stream/. A new route is one file here and one line in the table of select.c. */
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

/* What a route does by itself with a slot of the sender's: gives it to the receiver's device when
 * its frame is submitted, and takes it back. Each link has a queue of its own for that, and a frame
 * is handed over when that queue is done. */
struct gpud_route_slot_ops {
    /* Whether slots on this device may be given away; each is a memory of its own then. */
    bool (*is_possible)(const struct gpud_device *from);
    /* Makes a link's queue. to: the receiver's device, which is open in the sender's context. */
    enum gpud_status (*open)(struct gpud_device *to, struct gpud_queue **queue,
                             struct gpud_error *error);
    /* On that queue, behind all that is on the queue `written`. */
    enum gpud_status (*give)(struct gpud_queue *queue, struct gpud_memory *slot,
                             struct gpud_queue *written, struct gpud_error *error);
    /* The slot will be written anew by `queue`: its bytes need not come back. */
    void (*take_back)(struct gpud_queue *queue, struct gpud_memory *slot);
};

struct gpud_route_ops {
    const char *name;
    enum gpud_ring_place ring;
    bool direct; /* no detour through the host: what require-direct asks for */
    /* Where the words lie that the devices hand frames over by. PAGE: where both can, see
     * gpud_route_signal(); without them the host publishes what the sender's queue is done with. */
    enum gpud_signal_place signal;
    bool by_link; /* the devices' own link decides whether it is possible, and knows best why not */
    bool memory_per_slot; /* RECEIVER: each slot is a memory of its own */
    /* SENDER_DEVICE: nothing but a receiver's own mapping holds the ring's memories on its side, so
     * that some of them can be taken back while it streams. */
    bool shrinks;
    /* Between hosts: the receiver has a ring of its own, on a device as `ring` says of the
     * sender's, and a network card writes what the sender's slots hold into it. */
    bool network;
    /* Does for some ends better what a later route does for all: where it is not possible, that is
     * no reason against what is taken. */
    bool substitute;
    /* SENDER_DEVICE: the receiver's device gets the slots; NULL: they stay. */
    const struct gpud_route_slot_ops *slots;
    /* By what both sides said, without side effects. On refusal *why is a sentence that a user can
     * act on. */
    bool (*can_connect)(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver,
                        char why[GPUD_REASON_MAX]);
    /* Why a receiver of another user must not have it; NULL: it may. NULL: all users may. */
    const char *(*refuse_foreign)(const struct gpud_endpoint *sender);
    /* How fast one frame gets across, all its copies in turn, in bytes per second by what the
     * vendors say; 0: they do not. NULL: nothing is known before it is measured. */
    double (*rate)(const struct gpud_endpoint *sender, const struct gpud_endpoint *receiver);
};

#endif
