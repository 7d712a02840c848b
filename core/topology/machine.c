/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A snapshot of the machine: its parts, and each link between two of them. */
#include "base/list.h"
#include "base/sized.h"
#include "topology/kfd.h"
#include "topology/parts.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct gpud_topology {
    struct gpud_parts parts;
    struct gpud_device_link *links; /* from part × to part */
    struct gpud_node_info *nodes;
    void *part, *node, *link; /* pointers to each of them, for info */
    struct gpud_topology_info info;
};

#define DEVICES_MAX 64

struct devices {
    struct gpud_context *context;
    struct gpud_topology *topology;
    struct gpud_device *open[DEVICES_MAX];
    size_t count;
};

static void open_device(const struct gpud_device *probed, void *arg)
{
    struct devices *devices = arg;
    const struct gpud_device_info *info = &probed->info;
    if (devices->count == DEVICES_MAX || !info->available || !info->pci[0] ||
        gpud_device_open(devices->context, info->name, &devices->open[devices->count], NULL) !=
            GPUD_OK)
        return;
    gpud_parts_add_device(&devices->topology->parts, info);
    devices->count++;
}

/* --- links ------------------------------------------------------------------------------------ */

/* Of several pairs of devices of one driver, the most informative answer. */
static bool ask_devices(const struct devices *devices, const struct gpud_part_info *from,
                        const struct gpud_part_info *to, struct gpud_device_link *link)
{
    bool asked = false;
    for (size_t i = 0; i < devices->count; i++) {
        for (size_t j = 0; j < devices->count; j++) {
            const struct gpud_device *a = devices->open[i], *b = devices->open[j];
            struct gpud_device_link found = GPUD_INFO_INIT(found);
            if (strcasecmp(a->info.pci, from->pci) != 0 || strcasecmp(b->info.pci, to->pci) != 0 ||
                strcmp(gpud_device_kind(a), gpud_device_kind(b)) != 0)
                continue;
            gpud_device_get_link(a, b, &found);
            if (!asked || (found.direct && !link->direct))
                *link = found;
            asked = true;
        }
    }
    return asked;
}

/* No driver here serves both: asks the kernel. */
static void ask_kernel(const struct gpud_part_info *from, const struct gpud_part_info *to,
                       struct gpud_device_link *link)
{
    gpud_print(link->reason,
               "the two have no driver in common that lets one write the other's memory: frames go "
               "through the host's");
    if (gpud_link_add_kfd(from->pci, to->pci, link))
        gpud_print(link->reason,
                   "%s would carry it, but no HIP device was found on both: install ROCm's runtime "
                   "(libamdhip64), and see gpudirect-info",
                   link->hops ? "xGMI" : "PCIe peer-to-peer");
}

static void find_link(const struct devices *devices, const struct gpud_part_info *from,
                      const struct gpud_part_info *to, struct gpud_device_link *link)
{
    *link = (struct gpud_device_link){.size = sizeof(*link), .rank = -1};
    hwloc_obj_t a = gpud_topology_find(from->pci), b = gpud_topology_find(to->pci);
    link->distance = gpud_topology_distance(a, b);
    gpud_print(link->name, "%s", gpud_topology_distance_name(link->distance));
    if (from == to) {
        gpud_print(link->name, "X");
        link->direct = true;
        return;
    }
    if (from->kind != GPUD_PART_GPU || to->kind != GPUD_PART_GPU)
        return;
    if (!ask_devices(devices, from, to, link))
        ask_kernel(from, to, link);
}

static void find_links(struct gpud_topology *topology, const struct devices *devices)
{
    size_t count = topology->parts.count;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            find_link(devices, &topology->parts.list[i], &topology->parts.list[j],
                      &topology->links[i * count + j]);
}

/* --- the object ------------------------------------------------------------------------------- */

static void note_gaps(struct gpud_topology *topology)
{
    const struct gpud_kfd *kfd = gpud_kfd_get();
    if (!gpud_topology_hwloc())
        gpud_print(
            topology->info.reason,
            "hwloc cannot read this machine, so that places are not known: is /sys mounted?");
    else if (kfd->denied)
        gpud_print(topology->info.reason,
                   "the kernel shows this process nothing of %zu of amdkfd's nodes: give the "
                   "container or service its devices (docker --device /dev/kfd --device /dev/dri, "
                   "DeviceAllow=)",
                   kfd->denied);
    else
        gpud_print(topology->info.reason, "%s", kfd->ignored);
}

static bool find_nodes(struct gpud_topology *topology)
{
    hwloc_topology_t machine = gpud_topology_hwloc();
    int count = machine ? hwloc_get_nbobjs_by_type(machine, HWLOC_OBJ_NUMANODE) : 0;
    topology->info.nodes = count > 0 ? (uint32_t)count : 0;
    topology->nodes = calloc(topology->info.nodes + 1, sizeof(*topology->nodes));
    for (uint32_t i = 0; topology->nodes && i < topology->info.nodes; i++) {
        hwloc_obj_t node = hwloc_get_obj_by_type(machine, HWLOC_OBJ_NUMANODE, i);
        struct gpud_node_info *info = &topology->nodes[i];
        info->size = sizeof(*info);
        info->number = (int)node->os_index;
        info->memory = node->attr->numanode.local_memory;
        if (node->cpuset)
            hwloc_bitmap_list_snprintf(info->cpus, sizeof(info->cpus), node->cpuset);
    }
    return topology->nodes;
}

static bool publish(struct gpud_topology *topology)
{
    struct gpud_topology_info *info = &topology->info;
    size_t count = topology->parts.count;
    for (size_t i = 0; i < count; i++)
        topology->parts.list[i].size = sizeof(topology->parts.list[i]);
    topology->part = gpud_list_point(topology->parts.list, count, sizeof(*topology->parts.list));
    topology->node = gpud_list_point(topology->nodes, info->nodes, sizeof(*topology->nodes));
    topology->link = gpud_list_point(topology->links, count * count, sizeof(*topology->links));
    info->parts = (uint32_t)count;
    info->part = topology->part;
    info->node = topology->node;
    info->link = topology->link;
    return info->part && info->node && info->link;
}

enum gpud_status gpud_topology_create(struct gpud_context *context, struct gpud_topology **topology,
                                      struct gpud_error *error)
{
    struct devices devices = {.context = context, .count = 0};
    struct gpud_topology *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a picture of the machine");
    made->parts.named = gpud_topology_load(true);
    devices.topology = made;
    gpud_device_each(context, open_device, &devices);
    gpud_parts_find(&made->parts);
    if (made->parts.named)
        hwloc_topology_destroy(made->parts.named);
    size_t count = made->parts.count;
    made->links = calloc(count ? count : 1, (count ? count : 1) * sizeof(*made->links));
    bool enough = made->links && !made->parts.cut && find_nodes(made) && publish(made);
    if (enough)
        find_links(made, &devices);
    for (size_t i = 0; i < devices.count; i++)
        gpud_device_close(&devices.open[i]);
    if (!enough) {
        gpud_topology_destroy(&made);
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for the links of %zu cards", count);
    }
    note_gaps(made);
    *topology = made;
    return GPUD_OK;
}

void gpud_topology_destroy(struct gpud_topology **topology)
{
    if (!topology || !*topology)
        return;
    free((*topology)->parts.list);
    free((*topology)->links);
    free((*topology)->nodes);
    free((*topology)->part);
    free((*topology)->node);
    free((*topology)->link);
    free(*topology);
    *topology = NULL;
}

void gpud_topology_get_info(const struct gpud_topology *topology, struct gpud_topology_info *info)
{
    gpud_sized_copy(info, info->size, &topology->info, sizeof(topology->info));
}
