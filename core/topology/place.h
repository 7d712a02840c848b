/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two PCI devices of this machine, by their addresses ("0000:63:00.0", also in capitals). An
 * address may come from a peer: an invalid or unused one counts as unknown. */
#ifndef GPUD_TOPOLOGY_PLACE_H
#define GPUD_TOPOLOGY_PLACE_H

#include <gpudirect/device.h>

enum gpud_distance gpud_place_distance(const char *a, const char *b);

/* How the two are related, as in "are behind the same PCIe switch (PIX)"; "" if unknown. */
const char *gpud_place_relation(enum gpud_distance distance);

/* How one is related to the other, as in "behind the same PCIe switch as". */
const char *gpud_place_relation_to(enum gpud_distance distance);

/* MB/s between the device and the processors, one way: the lowest maximum of any PCIe link between
 * them, from max_link_speed and max_link_width (an idle card lowers the current ones). 0: the
 * kernel does not know all of them. */
uint32_t gpud_place_bus_rate(const char *pci);

#endif
