/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The positions of devices on the machine's buses, from hwloc. Reading the machine takes 100 ms and
 * more, so it is done once, on first use: where two different cards are related to each other. */
#include "topology/topology.h"

#include "base/sized.h"
#include "device/backends.h"

static hwloc_topology_t topology; /* NULL: the machine cannot be read */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void leave_out(hwloc_topology_t made, const char *component)
{
    /* Fails where hwloc is built without it. */
    hwloc_topology_set_components(made, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
}

/* hwloc must not ask GPUs' drivers: they would be loaded, start threads of their own, and open
 * every GPU (or X display). */
static void leave_drivers_alone(hwloc_topology_t made)
{
    static const char *const others[] = {"levelzero", "gl"}; /* without a backend here */
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        leave_out(made, others[i]);
    for (const struct gpud_backend *each = gpud_backends; each->name; each++) {
        leave_out(made, each->name);
        const char *const *plugins = each->ops ? each->ops->hwloc_plugins : NULL;
        for (; plugins && *plugins; plugins++)
            leave_out(made, *plugins);
    }
}

hwloc_topology_t gpud_topology_load(bool names)
{
    hwloc_topology_t made;
    if (hwloc_topology_init(&made) < 0)
        return NULL;
    leave_drivers_alone(made);
    /* The component "pci" reads all of pci.ids for each vendor it meets. Without it "linux" finds
     * the same tree in sysfs. */
    if (!names)
        leave_out(made, "pci");
    if (hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_ALL) < 0 ||
        hwloc_topology_load(made) < 0) {
        hwloc_topology_destroy(made);
        return NULL;
    }
    return made;
}

static void load(void)
{
    topology = gpud_topology_load(false);
}

static bool is_host(const struct gpud_device *device)
{
    return device->caps & GPUD_CAP_HOST;
}

hwloc_obj_t gpud_topology_find(const char *pci)
{
    pthread_once(&once, load);
    return topology && pci[0] ? hwloc_get_pcidev_by_busidstring(topology, pci) : NULL;
}

static hwloc_obj_t find(const struct gpud_device *device)
{
    return gpud_topology_find(device->info.pci);
}

hwloc_topology_t gpud_topology_hwloc(void)
{
    pthread_once(&once, load);
    return topology;
}

int gpud_topology_numa_node(hwloc_obj_t object)
{
    hwloc_obj_t parent = object ? hwloc_get_non_io_ancestor_obj(topology, object) : NULL;
    if (!parent || !parent->nodeset || hwloc_bitmap_weight(parent->nodeset) != 1)
        return -1;
    return hwloc_bitmap_first(parent->nodeset);
}

bool gpud_topology_is_host_bridge(hwloc_obj_t object)
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

/* A switch is an upstream port with several downstream ports below it. Cards bring bridges of their
 * own, which have one. */
static bool is_switch(hwloc_obj_t object)
{
    int ports = 0;
    for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
        ports += child->type == HWLOC_OBJ_BRIDGE;
    return ports > 1;
}

static bool is_behind_switch(hwloc_obj_t object, hwloc_obj_t above)
{
    for (object = object->parent; object != above; object = object->parent)
        if (is_switch(object))
            return true;
    return false;
}

enum gpud_distance gpud_topology_distance(hwloc_obj_t a, hwloc_obj_t b)
{
    if (!a || !b)
        return GPUD_DISTANCE_UNKNOWN;
    if (a == b)
        return GPUD_DISTANCE_SELF;
    hwloc_obj_t above = common_ancestor(a, b);
    if (above && gpud_topology_is_host_bridge(above))
        return GPUD_DISTANCE_PHB;
    if (above && above->type == HWLOC_OBJ_BRIDGE)
        return is_behind_switch(a, above) || is_behind_switch(b, above) ? GPUD_DISTANCE_PXB
                                                                        : GPUD_DISTANCE_PIX;
    int node = gpud_topology_numa_node(a);
    return node >= 0 && node == gpud_topology_numa_node(b) ? GPUD_DISTANCE_NODE : GPUD_DISTANCE_SYS;
}

/* The host's memory is near if there is only one NUMA node, and otherwise everywhere. */
static enum gpud_distance distance_from_host(hwloc_obj_t object)
{
    if (!object)
        return GPUD_DISTANCE_UNKNOWN;
    bool one_node = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) == 1;
    return one_node ? GPUD_DISTANCE_NODE : GPUD_DISTANCE_SYS;
}

enum gpud_distance gpud_topology_device_distance(const struct gpud_device *a,
                                                 const struct gpud_device *b)
{
    if (a == b || (is_host(a) && is_host(b)))
        return GPUD_DISTANCE_SELF;
    if (is_host(a) || is_host(b))
        return distance_from_host(find(is_host(a) ? b : a));
    return gpud_topology_distance(find(a), find(b));
}

void gpud_topology_get_cpus(hwloc_obj_t object, char *list, size_t size)
{
    hwloc_obj_t parent = object ? hwloc_get_non_io_ancestor_obj(topology, object) : NULL;
    if (size > 0)
        list[0] = '\0';
    if (size > 0 && parent && parent->cpuset)
        hwloc_bitmap_list_snprintf(list, size, parent->cpuset);
}

void gpud_device_get_locality(const struct gpud_device *device,
                              struct gpud_device_locality *locality)
{
    hwloc_obj_t object = find(device);
    struct gpud_device_locality found = {.numa_node = gpud_topology_numa_node(object)};
    gpud_topology_get_cpus(object, found.cpus, sizeof(found.cpus));
    gpud_sized_copy(locality, locality->size, &found, sizeof(found));
}
