/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where devices are on the machine's buses: hwloc knows. Reading the machine costs some
 * milliseconds, so it is done when somebody asks for the first time, and once. */
#include "device/device.h"

#include <hwloc.h>

static hwloc_topology_t topology; /* NULL: the machine cannot be read */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    if (hwloc_topology_init(&topology) < 0) {
        topology = NULL;
        return;
    }
    if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) < 0 ||
        hwloc_topology_load(topology) < 0) {
        hwloc_topology_destroy(topology);
        topology = NULL;
    }
}

static bool is_host(const struct gpud_device *device)
{
    return device->caps & GPUD_CAP_HOST_MEMORY;
}

/* The device's place in the tree, or NULL. */
static hwloc_obj_t find(const struct gpud_device *device)
{
    pthread_once(&once, load);
    return topology && device->info.pci[0]
               ? hwloc_get_pcidev_by_busidstring(topology, device->info.pci)
               : NULL;
}

/* The only NUMA node that an object is local to, or -1. */
static int numa_node_of(hwloc_obj_t object)
{
    hwloc_obj_t parent = object ? hwloc_get_non_io_ancestor_obj(topology, object) : NULL;
    if (!parent || !parent->nodeset || hwloc_bitmap_weight(parent->nodeset) != 1)
        return -1;
    return hwloc_bitmap_first(parent->nodeset);
}

int gpud_device_numa_node(const struct gpud_device *device)
{
    return numa_node_of(find(device));
}

static bool is_host_bridge(hwloc_obj_t object)
{
    return object->type == HWLOC_OBJ_BRIDGE &&
           object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
}

/* The nearest object above both, I/O objects included. */
static hwloc_obj_t common_ancestor(hwloc_obj_t a, hwloc_obj_t b)
{
    for (hwloc_obj_t up = a; up; up = up->parent)
        for (hwloc_obj_t other = b; other; other = other->parent)
            if (up == other)
                return up;
    return NULL;
}

enum gpud_distance gpud_device_distance(const struct gpud_device *a, const struct gpud_device *b)
{
    if (a == b || (is_host(a) && is_host(b)))
        return GPUD_DISTANCE_SELF;
    hwloc_obj_t at = find(a), bt = find(b);
    if (at && at == bt)
        return GPUD_DISTANCE_SELF;
    if (is_host(a) || is_host(b)) {
        hwloc_obj_t device = is_host(a) ? bt : at;
        if (!device)
            return GPUD_DISTANCE_UNKNOWN;
        /* The host's memory is everywhere: near, if there is one node only. */
        bool one_node = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) == 1;
        return one_node ? GPUD_DISTANCE_NODE : GPUD_DISTANCE_SYS;
    }
    if (!at || !bt)
        return GPUD_DISTANCE_UNKNOWN;
    hwloc_obj_t above = common_ancestor(at, bt);
    if (above && above->type == HWLOC_OBJ_BRIDGE)
        return is_host_bridge(above) ? GPUD_DISTANCE_PHB : GPUD_DISTANCE_PIX;
    int node = numa_node_of(at);
    return node >= 0 && node == numa_node_of(bt) ? GPUD_DISTANCE_NODE : GPUD_DISTANCE_SYS;
}
