/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Routes: how bytes get from a sender's frame into a slot of a ring. */
#ifndef GPUD_ROUTE_ROUTE_H
#define GPUD_ROUTE_ROUTE_H

#include "topology/topology.h"
#include "wire/wire.h"
#include <gpudirect/route.h>

/* === endpoint ================================================================================ */
/* The two ends of a link as routes compare them, from what each says of itself in its HELLO. */

struct gpud_device;

/* Describes this process for its HELLO. What an application asks for (route, slots, images…) stays
 * zero.
 * name: NULL for the program's. */
void gpud_endpoint_describe(struct gpud_endpoint *endpoint, const struct gpud_device *device,
                            const char *name);

/* Whether CLOCK_MONOTONIC shows both ends the same time. one_host: the system says that both are on
 * this machine; their own words about boot and time namespace can only disprove it. */
bool gpud_endpoints_share_clock(const struct gpud_endpoint *a, const struct gpud_endpoint *b,
                                bool one_host);

/* === ops ===================================================================================== */
/* The contract of a route. A route says between which ends it is possible and where its ring lies.
 * What follows from that (which side allocates, imports, copies and posts) is the same for all, and
 * is in stream/. A new route is its ops and one line in the table, both in select.c. */

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
    bool by_link;         /* needs a direct link of the devices, which explains a refusal */
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

/* === place =================================================================================== */
/* What the bus positions of the two ends' devices mean for the routes between them. */

struct gpud_device;

/* How far apart their devices are on the buses; unknown between machines. */
enum gpud_distance gpud_endpoints_distance(const struct gpud_endpoint *a,
                                           const struct gpud_endpoint *b);

/* Why the device cannot write the receiver's by itself, and where both are. "" if it can, or if
 * only what the routes themselves say is known. Asks the device's driver. Returns the kind of that
 * cause. */
enum gpud_degraded gpud_route_explain_link(const struct gpud_device *from,
                                           const struct gpud_endpoint *to,
                                           char why[GPUD_REASON_MAX]);

/* === route =================================================================================== */
/* The choice of a route, and what follows from a route's description. Functions that take trials
 * are called by one thread at a time; the others by any. */

/* NULL: no route has this name. */
const struct gpud_route_ops *gpud_route_find(const char *name);

/* Checks what the application at either end may ask for. route may be NULL. */
enum gpud_status gpud_route_check_params(uint32_t slots, enum gpud_slow_receiver slow_receiver,
                                         const char *route, struct gpud_error *error);

/* --- what follows from a route's description ----------------------------------------------- */

/* Where the signals of a link by this route lie. */
enum gpud_signal_place gpud_route_signal(const struct gpud_route_ops *route,
                                         const struct gpud_endpoint *sender,
                                         const struct gpud_endpoint *receiver);

/* Whether a receiver with these capabilities can take signals in that place. */
bool gpud_route_has_signal(const struct gpud_route_ops *route, enum gpud_signal_place signal,
                           uint32_t receiver_caps);

/* Whether it goes through the host, which require-direct forbids. caps: those that both ends have.
 * Between hosts nothing is a detour if both ends are the host. */
bool gpud_route_is_detour(const struct gpud_route_ops *route, uint32_t caps);

/* Whether a route may give away slots on this device: each has to be a memory of its own then. */
bool gpud_route_gives_slots(const struct gpud_device *device);

/* The device whose queues read a ring that the sender shares by this route. */
static inline const struct gpud_device *gpud_route_reader(const struct gpud_route_ops *route,
                                                          const struct gpud_device *from,
                                                          const struct gpud_device *to)
{
    return route->slots ? to : from;
}

/* --- one link's trials --------------------------------------------------------------------- */

/* What was tried and measured, and what rules out a route from the start. */
struct gpud_route_trials;

/* NULL: out of memory. */
struct gpud_route_trials *gpud_route_trials_create(void);
void gpud_route_trials_destroy(struct gpud_route_trials **trials);

/* Notes why the devices' own link is not possible, from gpud_route_explain_link(). */
void gpud_route_note_link(struct gpud_route_trials *trials, enum gpud_degraded kind,
                          const char *why);

/* Notes that a route failed; and, for a new attempt, forgets all failures. Measurements stay.
 * kind: GPUD_DEGRADED_NO: the device or its driver does not have what the route needs. */
void gpud_route_failed(struct gpud_route_trials *trials, const struct gpud_route_ops *route,
                       enum gpud_degraded kind, const char *reason);
void gpud_route_forget_failures(struct gpud_route_trials *trials);

/* The receiver belongs to another user: excludes the routes that it must not use. */
void gpud_route_exclude_foreign(struct gpud_route_trials *trials,
                                const struct gpud_endpoint *sender);

/* Another receiver shares the sender's ring and reads it on `reader`: excludes the routes by which
 * the slots would be read elsewhere. to: the receiver's device if it is open in the sender's
 * context, else NULL. */
void gpud_route_exclude_readers(struct gpud_route_trials *trials, const struct gpud_device *from,
                                const struct gpud_device *to, const struct gpud_device *reader);

/* Whether the choice of this route, which copies from device to device, depends on its speed, which
 * is not measured yet. rate: in bytes per second. */
bool gpud_route_wants_rate(const struct gpud_route_ops *route, const struct gpud_endpoint *sender,
                           const struct gpud_endpoint *receiver,
                           const struct gpud_route_trials *trials);
void gpud_route_measured(struct gpud_route_trials *trials, const struct gpud_route_ops *route,
                         double rate);

/* The first route in the table's order that both ends can take, unless a later one is known to get
 * a frame across much faster. NULL: none. On success *fallback_reason holds the reasons against
 * every better route, on failure those against all; "" if there are none. *degraded is the kind of
 * the first of them that can be mended. */
const struct gpud_route_ops *gpud_route_select(const struct gpud_endpoint *sender,
                                               const struct gpud_endpoint *receiver,
                                               const struct gpud_route_trials *trials,
                                               char fallback_reason[GPUD_REASON_MAX],
                                               enum gpud_degraded *degraded);

#endif
