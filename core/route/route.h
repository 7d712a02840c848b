/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The choice of a route, and what follows from a route's description. Functions that take trials
 * are called by one thread at a time; the others by any. */
#ifndef GPUD_ROUTE_ROUTE_H
#define GPUD_ROUTE_ROUTE_H

#include "route/endpoint.h"
#include "route/ops.h"
#include <gpudirect/route.h>

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
void gpud_route_note_link(struct gpud_route_trials *trials, const char *why);

/* Notes that a route failed; and, for a new attempt, forgets all failures. Measurements stay. */
void gpud_route_failed(struct gpud_route_trials *trials, const struct gpud_route_ops *route,
                       const char *reason);
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
 * every better route, on failure those against all; "" if there are none. */
const struct gpud_route_ops *gpud_route_select(const struct gpud_endpoint *sender,
                                               const struct gpud_endpoint *receiver,
                                               const struct gpud_route_trials *trials,
                                               char fallback_reason[GPUD_REASON_MAX]);

#endif
