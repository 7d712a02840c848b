/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The choice of a route. */
#ifndef GPUD_ROUTE_ROUTE_H
#define GPUD_ROUTE_ROUTE_H

#include "route/ops.h"
#include <gpudirect/route.h>

/* What this process says about itself on the wire, but for what is asked for (route, slots…), which
 * stay zero. */
void gpud_endpoint_describe(struct gpud_endpoint *endpoint, const struct gpud_device *device,
                            const char *name);

/* Whether both ends work on one piece of hardware, whatever each calls it. */
bool gpud_endpoints_share_device(const struct gpud_endpoint *a, const struct gpud_endpoint *b);

/* Whether both ends are devices of drivers, and of different kinds. */
bool gpud_endpoints_are_of_two_drivers(const struct gpud_endpoint *a,
                                       const struct gpud_endpoint *b);

/* Whether one end's driver can take memory that the other's, of another kind, exports: they are of
 * the same GPU, proved by its UUID. On refusal *why is a clause. */
bool gpud_endpoint_imports(const struct gpud_endpoint *importer,
                           const struct gpud_endpoint *exporter, char why[GPUD_REASON_MAX]);

/* Whether CLOCK_MONOTONIC shows both ends the same time. one_host: the system says that both are on
 * this machine; their words, of boot and time namespace, only speak against it. */
bool gpud_endpoints_share_clock(const struct gpud_endpoint *a, const struct gpud_endpoint *b,
                                bool one_host);

/* --- place.c ---------------------------------------------------------------------------------- */

/* How far apart their devices are on the buses; unknown between machines. */
enum gpud_distance gpud_endpoints_distance(const struct gpud_endpoint *a,
                                           const struct gpud_endpoint *b);

/* Adds where both are to a sentence, as in "; cuda:0 (0000:63:00.0) and the receiver's cuda:0
 * (0000:e3:00.0) are in different NUMA nodes (SYS)", if that is known. */
void gpud_endpoints_add_places(const struct gpud_endpoint *sender,
                               const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX]);

/* For gpud_route_trials.link: why the device cannot write the receiver's by itself, and where both
 * are; "" where it can, or where nothing more than the routes themselves say is known. Asks the
 * device's driver. */
void gpud_route_explain_link(const struct gpud_device *from, const struct gpud_endpoint *to,
                             char why[GPUD_REASON_MAX]);

/* --- select.c --------------------------------------------------------------------------------- */

/* Where the signals of a link by this route lie. */
enum gpud_signal_place gpud_route_signal(const struct gpud_route_ops *route,
                                         const struct gpud_endpoint *sender,
                                         const struct gpud_endpoint *receiver);

/* The first route in the table's order that both ends can take, unless a later one is known to get
 * a frame across much faster. `failed` has a bit for each route (by its place) that was tried and
 * did not work, with the reason in reasons[place]; rate[place] is what was measured, in bytes per
 * second. On success *fallback_reason holds the reasons against every better route, on failure
 * against all
 * ("" where there is none). NULL: none. */
#define GPUD_ROUTES_MAX 9
struct gpud_route_trials {
    unsigned failed;
    char reason[GPUD_ROUTES_MAX][GPUD_REASON_MAX];
    double rate[GPUD_ROUTES_MAX];
    char link[GPUD_REASON_MAX]; /* by gpud_route_explain_link(); "": nothing */
};
const struct gpud_route_ops *gpud_route_select(const struct gpud_endpoint *sender,
                                               const struct gpud_endpoint *receiver,
                                               const struct gpud_route_trials *trials,
                                               char fallback_reason[GPUD_REASON_MAX]);

/* Notes that a route was tried in vain. */
void gpud_route_failed(struct gpud_route_trials *trials, const struct gpud_route_ops *route,
                       const char *reason);

/* Whether the choice of this route, which copies from device to device, depends on how fast it is,
 * which nobody has measured yet. */
bool gpud_route_wants_rate(const struct gpud_route_ops *route, const struct gpud_endpoint *sender,
                           const struct gpud_endpoint *receiver,
                           const struct gpud_route_trials *trials);

void gpud_route_measured(struct gpud_route_trials *trials, const struct gpud_route_ops *route,
                         double rate);

const struct gpud_route_ops *gpud_route_find(const char *name);

/* What the application at either end may ask for. route may be NULL. */
enum gpud_status gpud_route_check_params(uint32_t slots, enum gpud_slow_receiver slow_receiver,
                                         const char *route, struct gpud_error *error);

#endif
