/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The device that is nearest to a card. */
#ifndef GPUD_TOPOLOGY_NEAR_H
#define GPUD_TOPOLOGY_NEAR_H

#include "device/device.h"

/* Opens a device like gpud_device_open(). If the name is only a kind ("cuda"), it opens the one
 * nearest to the card at pci ("": unknown) by the buses: behind the same switch, below the same
 * host bridge, in the same NUMA node, across nodes; the first of equals. "auto" is the nearest of
 * any kind that others can write directly; it is "host" if there is none, if pci is unknown or does
 * not tell how near they are, or if that device cannot be opened. what: the card's name, for the
 * reason. reason says which device was chosen and why; "": there was no choice, as with NULL, which
 * means "host". On failure it is untouched. */
enum gpud_status gpud_device_open_near(struct gpud_context *context, const char *name,
                                       const char *pci, const char *what,
                                       struct gpud_device **device, char reason[GPUD_REASON_MAX],
                                       struct gpud_error *error);

/* The same without opening it. kind: a kind, or "auto". GPUD_NO_DEVICE: no device of the kind. */
enum gpud_status gpud_topology_find_near(struct gpud_context *context, const char *kind,
                                         const char *pci, const char *what,
                                         struct gpud_device_info *found,
                                         char reason[GPUD_REASON_MAX], struct gpud_error *error);

#endif
