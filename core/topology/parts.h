/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The parts of this machine, without what links them. */
#ifndef GPUD_TOPOLOGY_PARTS_H
#define GPUD_TOPOLOGY_PARTS_H

#include "topology/topology.h"

struct gpud_parts {
    struct gpud_part_info *list;
    size_t count, room;
    bool cut;               /* there was no memory for more */
    hwloc_topology_t named; /* what makers and models are called; NULL: not known */
};

/* Devices first: a card that is one of them is not found twice. */
void gpud_parts_add_device(struct gpud_parts *parts, const struct gpud_device_info *info);

/* What hwloc, amdkfd and the kernel's list of capture cards have beside them. */
void gpud_parts_find(struct gpud_parts *parts);

/* The part at this place, or NULL. */
struct gpud_part_info *gpud_parts_at(const struct gpud_parts *parts, const char *pci);

#endif
