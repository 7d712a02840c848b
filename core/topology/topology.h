/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* hwloc's tree of this machine, for others that ask about positions in it. */
#ifndef GPUD_TOPOLOGY_TOPOLOGY_H
#define GPUD_TOPOLOGY_TOPOLOGY_H

#include "device/device.h"
#include <gpudirect/topology.h>
#include <hwloc.h>

/* Read once for the process, without the names of makers and models. NULL: the machine cannot be
 * read. */
hwloc_topology_t gpud_topology_hwloc(void);

/* Reads it again; with names, for display, in half as much time again. The caller destroys it.
 * NULL: the machine cannot be read. */
hwloc_topology_t gpud_topology_load(bool names);

/* A PCI function's object in the tree, or NULL. */
hwloc_obj_t gpud_topology_find(const char *pci);

bool gpud_topology_is_host_bridge(hwloc_obj_t object);

/* The only NUMA node that an object is local to, or -1. */
int gpud_topology_numa_node(hwloc_obj_t object);

/* The processors next to it, as in "0-15"; "" if object is NULL. */
void gpud_topology_get_cpus(hwloc_obj_t object, char *list, size_t size);

/* Either may be NULL: unknown. */
enum gpud_distance gpud_topology_distance(hwloc_obj_t a, hwloc_obj_t b);

enum gpud_distance gpud_topology_device_distance(const struct gpud_device *a,
                                                 const struct gpud_device *b);

/* "PIX", "?" */
const char *gpud_topology_distance_name(enum gpud_distance distance);

/* --- link.c ------------------------------------------------------------------------------------
 */

/* What amdkfd knows of the link between two PCI addresses of AMD GPUs. It adds the name, figures
 * that the link does not have yet and, if it is not direct, the cause. true: one can write the
 * other's memory, if a driver allows it. */
bool gpud_link_add_kfd(const char *from, const char *to, struct gpud_device_link *link);

#endif
