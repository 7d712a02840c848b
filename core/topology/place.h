/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two PCI devices of this machine, by their addresses ("0000:63:00.0", also in capitals). An
 * address may come from a peer: an invalid or unused one counts as unknown. */
#ifndef GPUD_TOPOLOGY_PLACE_H
#define GPUD_TOPOLOGY_PLACE_H

#include <gpudirect/device.h>

enum gpud_distance gpud_place_distance(const char *a, const char *b);

/* What both of them are to each other, as in "are behind the same PCIe switch (PIX)"; "" where it
 * is not known. */
const char *gpud_place_relation(enum gpud_distance distance);

/* And what the one is to the other, as in "behind the same PCIe switch as". */
const char *gpud_place_relation_to(enum gpud_distance distance);

/* MB/s between what is there and the processors, one way: the least that any PCIe link on the way
 * can do at its best, as the kernel has it (max_link_speed and max_link_width: an idle card lowers
 * the current ones). 0: the kernel does not know all of them. */
uint32_t gpud_place_bus_rate(const char *pci);

#endif
