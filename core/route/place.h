/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the bus positions of the two ends' devices mean for the routes between them. */
#ifndef GPUD_ROUTE_PLACE_H
#define GPUD_ROUTE_PLACE_H

#include "topology/place.h"
#include "wire/message.h"

struct gpud_device;

/* How far apart their devices are on the buses; unknown between machines. */
enum gpud_distance gpud_endpoints_distance(const struct gpud_endpoint *a,
                                           const struct gpud_endpoint *b);

/* Adds both positions to a sentence if known, as in "; cuda:0 (0000:63:00.0) and the receiver's
 * cuda:0 (0000:e3:00.0) are in different NUMA nodes (SYS)". */
void gpud_endpoints_add_places(const struct gpud_endpoint *sender,
                               const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX]);

/* Why the device cannot write the receiver's by itself, and where both are. "" if it can, or if
 * only what the routes themselves say is known. Asks the device's driver. */
void gpud_route_explain_link(const struct gpud_device *from, const struct gpud_endpoint *to,
                             char why[GPUD_REASON_MAX]);

#endif
