/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A snapshot of this machine's devices and the links between them. */
#include "topology/topology.h"

#include "base/base.h"
#include "device/device.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* === topology ================================================================================ */
/* The positions of devices on the machine's buses, from hwloc. Reading the machine takes 100 ms and
 * more, so it is done once, on first use: where two different cards are related to each other. */

_Static_assert(HWLOC_API_VERSION >> 16 == 2, "libhwloc.so.15, which base/libraries.c opens");

static hwloc_topology_t machine_topology; /* NULL: the machine cannot be read */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void leave_out(hwloc_topology_t made, const char *component)
{
    /* Fails where hwloc is built without it. */
    hwloc_topology_set_components(made, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
}

hwloc_topology_t gpud_topology_load(bool names)
{
    static const char *const others[] = {"levelzero", "gl"}; /* without a backend here */
    hwloc_topology_t made;
    if (gpud_library_need(&gpud_library_hwloc, NULL) != GPUD_OK || hwloc_topology_init(&made) < 0)
        return NULL;
    /* hwloc must not ask GPUs' drivers: they would be loaded, start threads of their own, and open
     * every GPU (or X display). */
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        leave_out(made, others[i]);
    for (const struct gpud_backend *each = gpud_backends; each->name; each++) {
        leave_out(made, each->name);
        const char *const *plugins = each->ops ? each->ops->hwloc_plugins : NULL;
        for (; plugins && *plugins; plugins++)
            leave_out(made, *plugins);
    }
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

static void topology_load(void)
{
    machine_topology = gpud_topology_load(false);
}

static bool is_host(const struct gpud_device *device)
{
    return device->caps & GPUD_CAP_HOST;
}

hwloc_obj_t gpud_topology_find(const char *pci)
{
    hwloc_topology_t machine = pci[0] ? gpud_topology_hwloc() : NULL;
    return machine ? hwloc_get_pcidev_by_busidstring(machine, pci) : NULL;
}

hwloc_topology_t gpud_topology_hwloc(void)
{
    pthread_once(&once, topology_load);
    return machine_topology;
}

/* The only NUMA node that an object is local to, or -1. */
static int topology_numa_node(hwloc_obj_t object)
{
    hwloc_obj_t parent = object ? hwloc_get_non_io_ancestor_obj(machine_topology, object) : NULL;
    if (!parent || !parent->nodeset || hwloc_bitmap_weight(parent->nodeset) != 1)
        return -1;
    return hwloc_bitmap_first(parent->nodeset);
}

static bool topology_is_host_bridge(hwloc_obj_t object)
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
static bool is_behind_switch(hwloc_obj_t object, hwloc_obj_t above)
{
    for (object = object->parent; object != above; object = object->parent) {
        int ports = 0;
        for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
            ports += child->type == HWLOC_OBJ_BRIDGE;
        if (ports > 1)
            return true;
    }
    return false;
}

enum gpud_distance gpud_topology_distance(hwloc_obj_t a, hwloc_obj_t b)
{
    if (!a || !b)
        return GPUD_DISTANCE_UNKNOWN;
    if (a == b)
        return GPUD_DISTANCE_SELF;
    hwloc_obj_t above = common_ancestor(a, b);
    if (above && topology_is_host_bridge(above))
        return GPUD_DISTANCE_PHB;
    if (above && above->type == HWLOC_OBJ_BRIDGE)
        return is_behind_switch(a, above) || is_behind_switch(b, above) ? GPUD_DISTANCE_PXB
                                                                        : GPUD_DISTANCE_PIX;
    int node = topology_numa_node(a);
    return node >= 0 && node == topology_numa_node(b) ? GPUD_DISTANCE_NODE : GPUD_DISTANCE_SYS;
}

enum gpud_distance gpud_topology_device_distance(const struct gpud_device *a,
                                                 const struct gpud_device *b)
{
    if (a == b || (is_host(a) && is_host(b)))
        return GPUD_DISTANCE_SELF;
    if (!is_host(a) && !is_host(b))
        return gpud_topology_distance(gpud_topology_find(a->info.pci),
                                      gpud_topology_find(b->info.pci));
    if (!gpud_topology_find((is_host(a) ? b : a)->info.pci))
        return GPUD_DISTANCE_UNKNOWN;
    /* The host's memory is near if there is only one NUMA node, and otherwise everywhere. */
    bool one_node = hwloc_get_nbobjs_by_type(machine_topology, HWLOC_OBJ_NUMANODE) == 1;
    return one_node ? GPUD_DISTANCE_NODE : GPUD_DISTANCE_SYS;
}

/* The processors next to it, as in "0-15"; "" if object is NULL. */
static void topology_get_cpus(hwloc_obj_t object, char *list, size_t size)
{
    hwloc_obj_t parent = object ? hwloc_get_non_io_ancestor_obj(machine_topology, object) : NULL;
    if (size > 0)
        list[0] = '\0';
    if (size > 0 && parent && parent->cpuset)
        hwloc_bitmap_list_snprintf(list, size, parent->cpuset);
}

void gpud_device_get_locality(const struct gpud_device *device,
                              struct gpud_device_locality *locality)
{
    hwloc_obj_t object = gpud_topology_find(device->info.pci);
    struct gpud_device_locality found = {.numa_node = topology_numa_node(object)};
    topology_get_cpus(object, found.cpus, sizeof(found.cpus));
    gpud_sized_copy(locality, locality->size, &found, sizeof(found));
}

/* === parts =================================================================================== */
/* The parts of this machine, without their links. */

struct gpud_parts {
    struct gpud_part_info *list;
    size_t count, room;
    bool cut;               /* out of memory for more */
    hwloc_topology_t named; /* with names of makers and models; NULL: unknown */
};

#define VENDOR_AMD 0x1002
#define VENDOR_NVIDIA 0x10de

/* PCI classes, with their subclass. */
#define CLASS_DISPLAY 0x03
#define CLASS_PROCESSING 0x12 /* accelerators without a display */
#define CLASS_VIDEO 0x0400
#define CLASS_MULTIMEDIA 0x0480

/* --- one part --------------------------------------------------------------------------------- */

/* The part at this PCI address, or NULL. */
static struct gpud_part_info *parts_at(const struct gpud_parts *parts, const char *pci)
{
    for (size_t i = 0; i < parts->count; i++)
        if (strcasecmp(parts->list[i].pci, pci) == 0)
            return &parts->list[i];
    return NULL;
}

static void find_bridges(hwloc_obj_t object, char *text, size_t size)
{
    hwloc_obj_t bridge = object->parent;
    if (!bridge || bridge->type != HWLOC_OBJ_BRIDGE)
        return;
    find_bridges(bridge, text, size);
    const struct hwloc_bridge_attr_s *attr = &bridge->attr->bridge;
    size_t used = strlen(text);
    if (topology_is_host_bridge(bridge))
        gpud_print_n(text + used, size - used, "%spci%04x:%02x", used ? " " : "",
                     attr->downstream.pci.domain, attr->downstream.pci.secondary_bus);
    else
        gpud_print_n(text + used, size - used, "%s%04x:%02x:%02x.%x", used ? " " : "",
                     attr->upstream.pci.domain, attr->upstream.pci.bus, attr->upstream.pci.dev,
                     attr->upstream.pci.func);
}

static void parts_describe(struct gpud_part_info *part, hwloc_obj_t object, hwloc_topology_t names)
{
    const struct hwloc_pcidev_attr_s *pci = &object->attr->pcidev;
    hwloc_obj_t named = names ? hwloc_get_pcidev_by_busidstring(names, part->pci) : NULL;
    const char *vendor = named ? hwloc_obj_get_info_by_name(named, "PCIVendor") : NULL;
    const char *model = named ? hwloc_obj_get_info_by_name(named, "PCIDevice") : NULL;
    part->numa_node = topology_numa_node(object);
    topology_get_cpus(object, part->cpus, sizeof(part->cpus));
    find_bridges(object, part->bridges, sizeof(part->bridges));
    if (part->description[0])
        return;
    if (model)
        gpud_print(part->description, "%s%s%s", vendor ? vendor : "", vendor ? " " : "", model);
    else if (pci->vendor_id)
        gpud_print(part->description, "%04x:%04x", pci->vendor_id, pci->device_id);
}

static struct gpud_part_info *parts_add(struct gpud_parts *parts, enum gpud_part_kind kind,
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
        parts_describe(part, object, parts->named);
    const struct gpud_kfd_node *node =
        kind == GPUD_PART_GPU ? gpud_kfd_find(gpud_kfd_get(), part->pci) : NULL;
    if (node) {
        part->hive = node->hive;
        part->visible = node->visible;
        if (__builtin_add_overflow(node->visible, node->hidden, &part->memory))
            part->memory = 0;
    }
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

/* --- what hwloc knows ------------------------------------------------------------------------- */

/* Names the card as the system does, RDMA first: "mlx5_0", "eth0". */
static void add_network(struct gpud_parts *parts, hwloc_obj_t card, const char *pci)
{
    static const hwloc_obj_osdev_type_t order[] = {HWLOC_OBJ_OSDEV_OPENFABRICS,
                                                   HWLOC_OBJ_OSDEV_NETWORK};
    struct gpud_part_info *part = NULL;
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        for (hwloc_obj_t own = card->io_first_child; own; own = own->next_sibling) {
            if (own->type != HWLOC_OBJ_OS_DEVICE || !own->name || own->attr->osdev.type != order[i])
                continue;
            if (!part)
                part = parts_add(parts, GPUD_PART_NETWORK, pci, "");
            if (part)
                add_name(part, own->name);
        }
    }
}

/* --- what the kernel knows -------------------------------------------------------------------- */

static void add_captures(struct gpud_parts *parts)
{
    size_t count;
    struct gpud_sysfs_name *names = gpud_sysfs_list(&count, "/sys/class/video4linux");
    for (size_t i = 0; i < count; i++) {
        char link[GPUD_SYSFS_PATH_MAX], path[GPUD_SYSFS_PATH_MAX], pci[GPUD_SYSFS_PCI_MAX];
        char description[128], node[80];
        if (strncmp(names[i].text, "video", 5) != 0)
            continue;
        gpud_print(link, "/sys/class/video4linux/%s/device", names[i].text);
        gpud_sysfs_find_pci(pci, sizeof(pci), link);
        gpud_sysfs_path(path, "%s", link);
        char *resolved = pci[0] ? realpath(path, NULL) : NULL;
        /* A USB camera is not part of the PCI bus, although the bridge to USB is. */
        bool on_usb = resolved && strstr(resolved, "/usb");
        free(resolved);
        if (!pci[0] || on_usb)
            continue;
        gpud_sysfs_read(description, sizeof(description), "/sys/class/video4linux/%s/name",
                        names[i].text);
        struct gpud_part_info *part = parts_at(parts, pci);
        if (!part)
            part = parts_add(parts, GPUD_PART_CAPTURE, pci, description);
        gpud_print(node, "/dev/%s", names[i].text);
        if (part && part->kind == GPUD_PART_CAPTURE)
            add_name(part, node);
    }
    free(names);
}

static int parts_compare(const void *a, const void *b)
{
    const struct gpud_part_info *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    bool driven = strcmp(x->name, x->pci) != 0, too = strcmp(y->name, y->pci) != 0;
    if (x->kind == GPUD_PART_GPU && driven && too)
        return strverscmp(x->name, y->name);
    return strcmp(x->pci, y->pci);
}

/* Adds what else hwloc, amdkfd and the kernel's list of capture cards know. */
static void parts_find(struct gpud_parts *parts)
{
    hwloc_topology_t topology = gpud_topology_hwloc();
    for (hwloc_obj_t card = NULL; topology && (card = hwloc_get_next_pcidev(topology, card));) {
        const struct hwloc_pcidev_attr_s *attr = &card->attr->pcidev;
        unsigned class = attr->class_id >> 8;
        char pci[GPUD_SYSFS_PCI_MAX];
        gpud_print(pci, "%04x:%02x:%02x.%x", attr->domain, attr->bus, attr->dev, attr->func);
        if (parts_at(parts, pci))
            continue;
        if ((class == CLASS_DISPLAY || class == CLASS_PROCESSING) &&
            (attr->vendor_id == VENDOR_AMD || attr->vendor_id == VENDOR_NVIDIA))
            parts_add(parts, GPUD_PART_GPU, pci, "");
        else if (attr->class_id == CLASS_VIDEO || attr->class_id == CLASS_MULTIMEDIA)
            parts_add(parts, GPUD_PART_CAPTURE, pci, "");
        else
            add_network(parts, card, pci);
    }
    const struct gpud_kfd *kfd = gpud_kfd_get();
    for (size_t i = 0; i < kfd->node_count; i++)
        if (kfd->nodes[i].gpu && !parts_at(parts, kfd->nodes[i].pci))
            parts_add(parts, GPUD_PART_GPU, kfd->nodes[i].pci, "");
    add_captures(parts);
    if (parts->count > 0)
        qsort(parts->list, parts->count, sizeof(*parts->list), parts_compare);
}

/* === link ==================================================================================== */
/* The link from one device into another's memory: hwloc names the bus, and the vendor's driver,
 * which alone knows its own links, says the rest. */

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

static bool is_amd(const char *pci)
{
    hwloc_obj_t card = gpud_topology_find(pci);
    return gpud_kfd_find(gpud_kfd_get(), pci) ||
           (card && card->attr->pcidev.vendor_id == VENDOR_AMD);
}

/* What amdkfd knows of the link between two PCI addresses of AMD GPUs. It adds the name, figures
 * that the link does not have yet and, if it is not direct, the cause. true: one can write the
 * other's memory, if a driver allows it. */
static bool link_add_kfd(const char *from, const char *to, struct gpud_device_link *link)
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
    link_add_kfd(from->info.pci, to->info.pci, &found);
    gpud_sized_copy(link, link->size, &found, sizeof(found));
}

/* === machine ================================================================================= */
/* A snapshot of the machine: its parts, and each link between two of them. */

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

/* Devices come first, so that their cards are not listed twice. If several drivers serve a card,
 * the first names it: see device/device.h. */
static void machine_open_device(const struct gpud_device *probed, void *arg)
{
    struct devices *devices = arg;
    struct gpud_parts *parts = &devices->topology->parts;
    const struct gpud_device_info *info = &probed->info;
    if (devices->count == DEVICES_MAX || !info->available || !info->pci[0] ||
        gpud_device_open(devices->context, info->name, &devices->open[devices->count], NULL) !=
            GPUD_OK)
        return;
    struct gpud_part_info *part = parts_at(parts, info->pci);
    if (!part)
        part = parts_add(parts, GPUD_PART_GPU, info->pci, info->description);
    if (part)
        add_name(part, info->name);
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
    if (ask_devices(devices, from, to, link))
        return;
    /* No driver here serves both: asks the kernel. */
    gpud_print(link->reason,
               "the two have no driver in common that lets one write the other's memory: frames go "
               "through the host's");
    if (link_add_kfd(from->pci, to->pci, link))
        gpud_print(link->reason,
                   "%s would carry it, but no HIP device was found on both: install ROCm's runtime "
                   "(libamdhip64), and see gpudirect-info",
                   link->hops ? "xGMI" : "PCIe peer-to-peer");
}

/* --- the object ------------------------------------------------------------------------------- */

static void note_gaps(struct gpud_topology *topology)
{
    const struct gpud_kfd *kfd = gpud_kfd_get();
    struct gpud_error why;
    if (gpud_library_need(&gpud_library_hwloc, &why) != GPUD_OK)
        gpud_print(topology->info.reason, "places are not known: %s", why.reason);
    else if (!gpud_topology_hwloc())
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

static bool machine_publish(struct gpud_topology *topology)
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
    gpud_device_each(context, machine_open_device, &devices);
    parts_find(&made->parts);
    if (made->parts.named)
        hwloc_topology_destroy(made->parts.named);
    size_t count = made->parts.count;
    made->links = calloc(count ? count : 1, (count ? count : 1) * sizeof(*made->links));
    bool enough = made->links && !made->parts.cut && find_nodes(made) && machine_publish(made);
    for (size_t i = 0; enough && i < count; i++)
        for (size_t j = 0; j < count; j++)
            find_link(&devices, &made->parts.list[i], &made->parts.list[j],
                      &made->links[i * count + j]);
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
