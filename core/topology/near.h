/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The device that is nearest to a card. */
#ifndef GPUD_TOPOLOGY_NEAR_H
#define GPUD_TOPOLOGY_NEAR_H

#include "device/device.h"

/* gpud_device_open(), where the name may be a kind alone, "cuda": then it is that one of them which
 * is nearest to what is at pci ("": unknown), by the buses: behind the same switch, below the same
 * host bridge, in the same NUMA node, across them; of equals the first. "auto": the nearest of all
 * that others write directly, whatever their kind; "host" where there is none, where pci is not
 * known or says nothing of how near they are, and where the one cannot be opened. what: that card's
 * name, for the sentence. reason says which it is and why; "": there was nothing to choose, as with
 * NULL, which is "host". On failure it is untouched. */
enum gpud_status gpud_device_open_near(struct gpud_context *context, const char *name,
                                       const char *pci, const char *what,
                                       struct gpud_device **device, char reason[GPUD_REASON_MAX],
                                       struct gpud_error *error);

/* The same without opening it. kind: one, or "auto". GPUD_NO_DEVICE: there is none of the kind. */
enum gpud_status gpud_topology_find_near(struct gpud_context *context, const char *kind,
                                         const char *pci, const char *what,
                                         struct gpud_device_info *found,
                                         char reason[GPUD_REASON_MAX], struct gpud_error *error);

#endif
