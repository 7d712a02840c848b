/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The two ends of a link as routes compare them, by what each says of itself in its HELLO. */
#ifndef GPUD_ROUTE_ENDPOINT_H
#define GPUD_ROUTE_ENDPOINT_H

#include "wire/message.h"

struct gpud_device;

/* What this process says about itself on the wire. What an application asks for (route, slots…)
 * stays zero. name: NULL for the program's. */
void gpud_endpoint_describe(struct gpud_endpoint *endpoint, const struct gpud_device *device,
                            const char *name);

/* Whether both ends work on one piece of hardware, whatever each calls it. */
bool gpud_endpoints_share_device(const struct gpud_endpoint *a, const struct gpud_endpoint *b);

/* Whether CLOCK_MONOTONIC shows both ends the same time. one_host: the system says that both are on
 * this machine; their words, of boot and time namespace, only speak against it. */
bool gpud_endpoints_share_clock(const struct gpud_endpoint *a, const struct gpud_endpoint *b,
                                bool one_host);

/* Whether both ends are devices of drivers, and of different kinds. */
bool gpud_endpoints_are_of_two_drivers(const struct gpud_endpoint *a,
                                       const struct gpud_endpoint *b);

/* Whether one end's driver can take memory that the other's, of another kind, exports. That both
 * mean the same GPU is never guessed from names or numbers: their UUIDs have to be equal, and the
 * canary has to arrive. On refusal *why is a clause. */
bool gpud_endpoint_imports(const struct gpud_endpoint *importer,
                           const struct gpud_endpoint *exporter, char why[GPUD_REASON_MAX]);

#endif
