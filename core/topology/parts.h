/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The parts of this machine, without their links. */
#ifndef GPUD_TOPOLOGY_PARTS_H
#define GPUD_TOPOLOGY_PARTS_H

#include "topology/topology.h"

struct gpud_parts {
    struct gpud_part_info *list;
    size_t count, room;
    bool cut;               /* out of memory for more */
    hwloc_topology_t named; /* with names of makers and models; NULL: unknown */
};

/* Devices come first, so that their cards are not listed twice. */
void gpud_parts_add_device(struct gpud_parts *parts, const struct gpud_device_info *info);

/* Adds what else hwloc, amdkfd and the kernel's list of capture cards know. */
void gpud_parts_find(struct gpud_parts *parts);

/* The part at this PCI address, or NULL. */
struct gpud_part_info *gpud_parts_at(const struct gpud_parts *parts, const char *pci);

#endif
