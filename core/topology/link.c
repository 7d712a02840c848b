/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The link from one device into another's memory: hwloc names the bus, and the vendor's driver,
 * which alone knows its own links, says the rest. */
#include "topology/topology.h"

#include "base/sized.h"
#include "topology/kfd.h"

#include <string.h>
#include <strings.h>

const char *gpud_topology_distance_name(enum gpud_distance distance)
{
    static const char *const names[] = {
        [GPUD_DISTANCE_UNKNOWN] = "?", [GPUD_DISTANCE_SELF] = "X",  [GPUD_DISTANCE_PIX] = "PIX",
        [GPUD_DISTANCE_PXB] = "PXB",   [GPUD_DISTANCE_PHB] = "PHB", [GPUD_DISTANCE_NODE] = "NODE",
        [GPUD_DISTANCE_SYS] = "SYS",
    };
    return names[distance];
}

/* Two names of one GPU, as with OpenCL and CUDA on the same card. CUDA writes A to F as
 * capitals. */
static bool is_one_card(const struct gpud_device *from, const struct gpud_device *to)
{
    return from != to && from->info.pci[0] && strcasecmp(from->info.pci, to->info.pci) == 0;
}

/* On one card: whether the driver of `from` imports what the driver of `to` exports. */
static bool imports(const struct gpud_device *from, const struct gpud_device *to)
{
    static const uint8_t none[16];
    return gpud_caps_import(from->caps, to->caps) && memcmp(from->uuid, none, sizeof(none)) != 0 &&
           memcmp(from->uuid, to->uuid, sizeof(from->uuid)) == 0;
}

#define VENDOR_AMD 0x1002

static bool is_amd(const char *pci)
{
    hwloc_obj_t card = gpud_topology_find(pci);
    return gpud_kfd_find(gpud_kfd_get(), pci) ||
           (card && card->attr->pcidev.vendor_id == VENDOR_AMD);
}

bool gpud_link_add_kfd(const char *from, const char *to, struct gpud_device_link *link)
{
    struct gpud_kfd_reach reach;
    if (strcmp(from, to) == 0 || !is_amd(from) || !is_amd(to))
        return false;
    gpud_kfd_explain(gpud_kfd_get(), from, to, &reach);
    if (!reach.known)
        return false;
    if (reach.link && reach.hops > 1)
        gpud_print(link->name, "XGMI%u", reach.hops);
    else if (reach.link && reach.hops)
        gpud_print(link->name, "XGMI");
    link->hops = reach.hops;
    link->weight = reach.link ? reach.link->weight : 0;
    if (link->bandwidth <= 0)
        link->bandwidth = reach.bandwidth;
    if (!link->direct && !reach.direct)
        gpud_print(link->reason, "%s", reach.reason);
    return reach.direct;
}

void gpud_device_get_link(const struct gpud_device *from, const struct gpud_device *to,
                          struct gpud_device_link *link)
{
    struct gpud_device_link found = {.rank = -1,
                                     .distance = gpud_topology_device_distance(from, to)};
    gpud_print(found.name, "%s", gpud_topology_distance_name(found.distance));
    if (from == to)
        found.direct = true;
    else if (strcmp(gpud_device_kind(from), gpud_device_kind(to)) == 0)
        gpud_device_ask_link(from, to, &found);
    else if (is_one_card(from, to) && imports(from, to))
        found.direct = true;
    else if (is_one_card(from, to))
        gpud_print(
            found.reason,
            "they are one GPU under two drivers' names, and the driver of %s writes no memory "
            "that %s exports: use %s at both ends",
            from->info.name, to->info.name, from->info.name);
    else
        gpud_print(found.reason,
                   "%s and %s are driven by different drivers, which do not open their memory to "
                   "each other: use devices of one kind",
                   from->info.name, to->info.name);
    gpud_link_add_kfd(from->info.pci, to->info.pci, &found);
    gpud_sized_copy(link, link->size, &found, sizeof(found));
}
