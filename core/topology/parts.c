/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "topology/parts.h"

#include "base/sysfs.h"
#include "topology/kfd.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define VENDOR_AMD 0x1002
#define VENDOR_NVIDIA 0x10de

/* PCI classes, with their subclass. */
#define CLASS_DISPLAY 0x03
#define CLASS_PROCESSING 0x12 /* accelerators without a display */
#define CLASS_VIDEO 0x0400
#define CLASS_MULTIMEDIA 0x0480

/* --- one part --------------------------------------------------------------------------------- */

struct gpud_part_info *gpud_parts_at(const struct gpud_parts *parts, const char *pci)
{
    for (size_t i = 0; i < parts->count; i++)
        if (strcasecmp(parts->list[i].pci, pci) == 0)
            return &parts->list[i];
    return NULL;
}

static void print_bridge(hwloc_obj_t bridge, char *text, size_t size)
{
    const struct hwloc_bridge_attr_s *attr = &bridge->attr->bridge;
    if (gpud_topology_is_host_bridge(bridge))
        gpud_print_n(text, size, "pci%04x:%02x", attr->downstream.pci.domain,
                     attr->downstream.pci.secondary_bus);
    else
        gpud_print_n(text, size, "%04x:%02x:%02x.%x", attr->upstream.pci.domain,
                     attr->upstream.pci.bus, attr->upstream.pci.dev, attr->upstream.pci.func);
}

static void find_bridges(hwloc_obj_t object, char *text, size_t size)
{
    hwloc_obj_t bridge = object->parent;
    if (!bridge || bridge->type != HWLOC_OBJ_BRIDGE)
        return;
    char own[32];
    find_bridges(bridge, text, size);
    print_bridge(bridge, own, sizeof(own));
    size_t used = strlen(text);
    gpud_print_n(text + used, size - used, "%s%s", used ? " " : "", own);
}

static void describe(struct gpud_part_info *part, hwloc_obj_t object, hwloc_topology_t names)
{
    const struct hwloc_pcidev_attr_s *pci = &object->attr->pcidev;
    hwloc_obj_t named = names ? hwloc_get_pcidev_by_busidstring(names, part->pci) : NULL;
    const char *vendor = named ? hwloc_obj_get_info_by_name(named, "PCIVendor") : NULL;
    const char *model = named ? hwloc_obj_get_info_by_name(named, "PCIDevice") : NULL;
    part->numa_node = gpud_topology_numa_node(object);
    gpud_topology_get_cpus(object, part->cpus, sizeof(part->cpus));
    find_bridges(object, part->bridges, sizeof(part->bridges));
    if (part->description[0])
        return;
    if (model)
        gpud_print(part->description, "%s%s%s", vendor ? vendor : "", vendor ? " " : "", model);
    else if (pci->vendor_id)
        gpud_print(part->description, "%04x:%04x", pci->vendor_id, pci->device_id);
}

static void add_memory(struct gpud_part_info *part)
{
    const struct gpud_kfd_node *node = gpud_kfd_find(gpud_kfd_get(), part->pci);
    if (!node)
        return;
    part->hive = node->hive;
    part->visible = node->visible;
    if (__builtin_add_overflow(node->visible, node->hidden, &part->memory))
        part->memory = 0;
}

static struct gpud_part_info *add(struct gpud_parts *parts, enum gpud_part_kind kind,
                                  const char *pci, const char *description)
{
    if (parts->count == parts->room) {
        size_t room = parts->room ? parts->room * 2 : 16;
        struct gpud_part_info *more = reallocarray(parts->list, room, sizeof(*more));
        if (!more) {
            parts->cut = true;
            return NULL;
        }
        parts->list = more;
        parts->room = room;
    }
    struct gpud_part_info *part = &parts->list[parts->count++];
    *part = (struct gpud_part_info){.size = sizeof(*part), .kind = kind, .numa_node = -1};
    gpud_print(part->pci, "%s", pci);
    for (char *c = part->pci; *c; c++)
        *c = (char)tolower((unsigned char)*c); /* CUDA writes capitals */
    gpud_print(part->name, "%s", part->pci);
    gpud_print(part->description, "%s", description);
    hwloc_obj_t object = gpud_topology_find(pci);
    if (object)
        describe(part, object, parts->named);
    if (kind == GPUD_PART_GPU)
        add_memory(part);
    return part;
}

/* The first name replaces the bus's. */
static void add_name(struct gpud_part_info *part, const char *name)
{
    size_t used = strlen(part->others);
    if (strcmp(part->name, part->pci) == 0)
        gpud_print(part->name, "%s", name);
    else
        gpud_print_n(part->others + used, sizeof(part->others) - used, "%s%s", used ? " " : "",
                     name);
}

/* --- devices ---------------------------------------------------------------------------------- */

/* If several drivers serve a card, the first names it: see device/backends.h. */
void gpud_parts_add_device(struct gpud_parts *parts, const struct gpud_device_info *info)
{
    struct gpud_part_info *part = gpud_parts_at(parts, info->pci);
    if (!info->available || !info->pci[0])
        return;
    if (!part)
        part = add(parts, GPUD_PART_GPU, info->pci, info->description);
    if (part)
        add_name(part, info->name);
}

/* --- what hwloc knows ------------------------------------------------------------------------- */

static bool is_gpu(const struct hwloc_pcidev_attr_s *pci)
{
    unsigned class = pci->class_id >> 8;
    return (class == CLASS_DISPLAY || class == CLASS_PROCESSING) &&
           (pci->vendor_id == VENDOR_AMD || pci->vendor_id == VENDOR_NVIDIA);
}

static bool is_network(hwloc_obj_t part)
{
    return part->type == HWLOC_OBJ_OS_DEVICE && part->name &&
           (part->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK ||
            part->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS);
}

/* Names the card as the system does, RDMA first: "mlx5_0", "eth0". */
static void add_network(struct gpud_parts *parts, hwloc_obj_t card, const char *pci)
{
    static const hwloc_obj_osdev_type_t order[] = {HWLOC_OBJ_OSDEV_OPENFABRICS,
                                                   HWLOC_OBJ_OSDEV_NETWORK};
    struct gpud_part_info *part = NULL;
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        for (hwloc_obj_t own = card->io_first_child; own; own = own->next_sibling) {
            if (!is_network(own) || own->attr->osdev.type != order[i])
                continue;
            if (!part)
                part = add(parts, GPUD_PART_NETWORK, pci, "");
            if (part)
                add_name(part, own->name);
        }
    }
}

static void add_card(struct gpud_parts *parts, hwloc_obj_t card)
{
    const struct hwloc_pcidev_attr_s *attr = &card->attr->pcidev;
    char pci[GPUD_SYSFS_PCI_MAX];
    gpud_print(pci, "%04x:%02x:%02x.%x", attr->domain, attr->bus, attr->dev, attr->func);
    if (gpud_parts_at(parts, pci))
        return;
    if (is_gpu(attr))
        add(parts, GPUD_PART_GPU, pci, "");
    else if (attr->class_id == CLASS_VIDEO || attr->class_id == CLASS_MULTIMEDIA)
        add(parts, GPUD_PART_CAPTURE, pci, "");
    else
        add_network(parts, card, pci);
}

/* --- what the kernel knows -------------------------------------------------------------------- */

/* A USB camera is not part of the PCI bus, although the bridge to USB is. */
static bool is_on_usb(const char *link)
{
    char path[GPUD_SYSFS_PATH_MAX];
    gpud_sysfs_path(path, "%s", link);
    char *resolved = realpath(path, NULL);
    bool found = resolved && strstr(resolved, "/usb");
    free(resolved);
    return found;
}

static void add_captures(struct gpud_parts *parts)
{
    size_t count;
    struct gpud_sysfs_name *names = gpud_sysfs_list(&count, "/sys/class/video4linux");
    for (size_t i = 0; i < count; i++) {
        char link[GPUD_SYSFS_PATH_MAX], pci[GPUD_SYSFS_PCI_MAX], node[80];
        char description[128];
        if (strncmp(names[i].text, "video", 5) != 0)
            continue;
        gpud_print(link, "/sys/class/video4linux/%s/device", names[i].text);
        gpud_sysfs_find_pci(pci, sizeof(pci), link);
        if (!pci[0] || is_on_usb(link))
            continue;
        gpud_sysfs_read(description, sizeof(description), "/sys/class/video4linux/%s/name",
                        names[i].text);
        struct gpud_part_info *part = gpud_parts_at(parts, pci);
        if (!part)
            part = add(parts, GPUD_PART_CAPTURE, pci, description);
        gpud_print(node, "/dev/%s", names[i].text);
        if (part && part->kind == GPUD_PART_CAPTURE)
            add_name(part, node);
    }
    free(names);
}

static void add_kfd(struct gpud_parts *parts)
{
    const struct gpud_kfd *kfd = gpud_kfd_get();
    for (size_t i = 0; i < kfd->node_count; i++)
        if (kfd->nodes[i].gpu && !gpud_parts_at(parts, kfd->nodes[i].pci))
            add(parts, GPUD_PART_GPU, kfd->nodes[i].pci, "");
}

static int compare(const void *a, const void *b)
{
    const struct gpud_part_info *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    bool driven = strcmp(x->name, x->pci) != 0, too = strcmp(y->name, y->pci) != 0;
    if (x->kind == GPUD_PART_GPU && driven && too)
        return strverscmp(x->name, y->name);
    return strcmp(x->pci, y->pci);
}

void gpud_parts_find(struct gpud_parts *parts)
{
    hwloc_topology_t topology = gpud_topology_hwloc();
    for (hwloc_obj_t card = NULL; topology && (card = hwloc_get_next_pcidev(topology, card));)
        add_card(parts, card);
    add_kfd(parts);
    add_captures(parts);
    if (parts->count > 0)
        qsort(parts->list, parts->count, sizeof(*parts->list), compare);
}
