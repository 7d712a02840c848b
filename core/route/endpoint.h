/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The two ends of a link as routes compare them, from what each says of itself in its HELLO. */
#ifndef GPUD_ROUTE_ENDPOINT_H
#define GPUD_ROUTE_ENDPOINT_H

#include "wire/message.h"

struct gpud_device;

/* Describes this process for its HELLO. What an application asks for (route, slots, images…) stays
 * zero.
 * name: NULL for the program's. */
void gpud_endpoint_describe(struct gpud_endpoint *endpoint, const struct gpud_device *device,
                            const char *name);

/* Whether both ends use the same hardware, whatever each calls it. */
bool gpud_endpoints_share_device(const struct gpud_endpoint *a, const struct gpud_endpoint *b);

/* Whether CLOCK_MONOTONIC shows both ends the same time. one_host: the system says that both are on
 * this machine; their own words about boot and time namespace can only disprove it. */
bool gpud_endpoints_share_clock(const struct gpud_endpoint *a, const struct gpud_endpoint *b,
                                bool one_host);

/* Whether both ends are driver's devices, of different kinds. */
bool gpud_endpoints_are_of_two_drivers(const struct gpud_endpoint *a,
                                       const struct gpud_endpoint *b);

/* Whether one end's driver can import memory that the other's, of another kind, exports. Names and
 * numbers do not prove that both mean the same GPU: their UUIDs have to be equal, and the canary
 * has to arrive. On refusal *why is a clause. */
bool gpud_endpoint_imports(const struct gpud_endpoint *importer,
                           const struct gpud_endpoint *exporter, char why[GPUD_REASON_MAX]);

#endif
