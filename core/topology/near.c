/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which memory and processors are nearest to a device. */
#include "topology/topology.h"

#include "base/base.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* === place =================================================================================== */

/* Writes the address as sysfs does; false: not an address. */
static bool read_place(const char *pci, char place[GPUD_SYSFS_PCI_MAX])
{
    size_t length = 0;
    for (; length + 1 < GPUD_SYSFS_PCI_MAX && pci[length]; length++)
        place[length] = (char)tolower((unsigned char)pci[length]);
    place[length] = '\0';
    return !pci[length] && gpud_sysfs_is_pci(place);
}

enum gpud_distance gpud_place_distance(const char *a, const char *b)
{
    char one[GPUD_SYSFS_PCI_MAX], other[GPUD_SYSFS_PCI_MAX];
    if (!read_place(a, one) || !read_place(b, other))
        return GPUD_DISTANCE_UNKNOWN;
    return gpud_topology_distance(gpud_topology_find(one), gpud_topology_find(other));
}

const char *gpud_place_relation(enum gpud_distance distance)
{
    static const char *const texts[] = {
        [GPUD_DISTANCE_UNKNOWN] = "",
        [GPUD_DISTANCE_SELF] = "are one card",
        [GPUD_DISTANCE_PIX] = "are behind the same PCIe switch (PIX)",
        [GPUD_DISTANCE_PXB] = "are below the same PCIe port (PXB)",
        [GPUD_DISTANCE_PHB] = "are below the same PCIe host bridge (PHB)",
        [GPUD_DISTANCE_NODE] = "are in the same NUMA node, below two PCIe host bridges (NODE)",
        [GPUD_DISTANCE_SYS] = "are in different NUMA nodes (SYS)",
    };
    return texts[distance];
}

/* How one is related to the other, as in "behind the same PCIe switch as". */
static const char *place_relation_to(enum gpud_distance distance)
{
    static const char *const texts[] = {
        [GPUD_DISTANCE_UNKNOWN] = "an unknown way from",
        [GPUD_DISTANCE_SELF] = "in one piece with",
        [GPUD_DISTANCE_PIX] = "behind the same PCIe switch as",
        [GPUD_DISTANCE_PXB] = "below the same PCIe port as",
        [GPUD_DISTANCE_PHB] = "below the same PCIe host bridge as",
        [GPUD_DISTANCE_NODE] = "in the same NUMA node as",
        [GPUD_DISTANCE_SYS] = "in another NUMA node than",
    };
    return texts[distance];
}

/* --- links ------------------------------------------------------------------------------------ */

/* MB/s of the link that ends at a function; 0: unknown. */
static uint32_t link_rate(const char *function)
{
    static const struct {
        double transfers; /* GT/s */
        uint32_t rate;    /* MB/s of a lane */
    } generations[] = {{2.5, 250}, {5, 500}, {8, 985}, {16, 1969}, {32, 3938}, {64, 7563}};
    char speed[32], width[16], *end;
    if (!gpud_sysfs_read(speed, sizeof(speed), "/sys/bus/pci/devices/%s/max_link_speed",
                         function) ||
        !gpud_sysfs_read(width, sizeof(width), "/sys/bus/pci/devices/%s/max_link_width", function))
        return 0;
    long lanes = strtol(width, NULL, 10);
    /* The kernel's text is "8.0 GT/s PCIe" or, before Linux 5.7, "8 GT/s". */
    double transfers = strtod(speed, &end);
    if (lanes <= 0 || lanes > 32 || strncmp(end, " GT/s", 5) != 0)
        return 0;
    for (size_t i = 0; i < sizeof(generations) / sizeof(generations[0]); i++)
        if (transfers > generations[i].transfers - 0.1 &&
            transfers < generations[i].transfers + 0.1)
            return generations[i].rate * (uint32_t)lanes;
    return 0;
}

uint32_t gpud_place_bus_rate(const char *pci)
{
    char place[GPUD_SYSFS_PCI_MAX], path[GPUD_SYSFS_PATH_MAX];
    if (!read_place(pci, place))
        return 0;
    gpud_sysfs_path(path, "/sys/bus/pci/devices/%s", place);
    char *resolved = realpath(path, NULL);
    uint32_t rate = 0;
    /* …/pci0000:00/0000:00:01.0/0000:03:00.0: from the card up to the processor's port. */
    for (char *slash; resolved && (slash = strrchr(resolved, '/')) && gpud_sysfs_is_pci(slash + 1);
         *slash = '\0') {
        uint32_t own = link_rate(slash + 1);
        if (rate == 0 || own < rate)
            rate = own;
        if (own == 0)
            break;
    }
    free(resolved);
    return rate;
}

/* === near ==================================================================================== */

/* For comparing: lower is nearer; unknown is the farthest. */
static unsigned near_rank_of(enum gpud_distance distance)
{
    return distance == GPUD_DISTANCE_UNKNOWN ? UINT_MAX : distance;
}

static bool is_auto(const char *kind)
{
    return kind && strcmp(kind, "auto") == 0;
}

/* "auto" means any card that others can write by themselves. If two drivers name one card, the
 * first in the list is the one that shares memory. A kind is "cuda", not "cuda:1" or "host". */
static bool suits(const struct gpud_device_info *info, const char *kind)
{
    size_t length = strlen(kind);
    if (!info->available)
        return false;
    return is_auto(kind) ? info->pci[0] && info->direct_writes
                         : strncmp(info->name, kind, length) == 0 && info->name[length] == ':';
}

struct candidate {
    struct gpud_device_info info;
    enum gpud_distance distance;
};

/* Of the devices of a kind: how many there are, the nearest, and one that is farther away. */
struct choice {
    const char *kind, *pci;
    struct gpud_device_info host; /* the first in the library's list */
    struct candidate nearest, farther;
    size_t count;
};

static void consider(const struct gpud_device *device, void *arg)
{
    struct choice *choice = arg;
    struct candidate *nearest = &choice->nearest, *farther = &choice->farther;
    if (!choice->host.name[0])
        choice->host = device->info;
    if (!suits(&device->info, choice->kind))
        return;
    struct candidate one = {.info = device->info,
                            .distance = gpud_place_distance(device->info.pci, choice->pci)};
    bool nearer = choice->count > 0 && near_rank_of(one.distance) < near_rank_of(nearest->distance);
    if (nearer)
        *farther = *nearest;
    else if (choice->count > 0 && !farther->info.name[0] && one.distance != nearest->distance)
        *farther = one;
    if (nearer || choice->count == 0)
        *nearest = one;
    choice->count++;
}

/* Why one of several was chosen, or the only one instead of the host. */
static void near_explain(const struct choice *choice, const char *what,
                         char reason[GPUD_REASON_MAX])
{
    const struct candidate *nearest = &choice->nearest, *farther = &choice->farther;
    if (nearest->distance == GPUD_DISTANCE_UNKNOWN)
        gpud_print_n(reason, GPUD_REASON_MAX,
                     "%s is the first: it is not known how near each is to %s", nearest->info.name,
                     what);
    else if (!farther->info.name[0])
        gpud_print_n(reason, GPUD_REASON_MAX, "%s is %s %s (%s)%s", nearest->info.name,
                     place_relation_to(nearest->distance), what,
                     gpud_topology_distance_name(nearest->distance),
                     choice->count > 1 ? ", as near as the others" : "");
    else
        gpud_print_n(reason, GPUD_REASON_MAX, "%s is %s %s (%s); %s is %s it (%s)",
                     nearest->info.name, place_relation_to(nearest->distance), what,
                     gpud_topology_distance_name(nearest->distance), farther->info.name,
                     place_relation_to(farther->distance),
                     gpud_topology_distance_name(farther->distance));
}

/* Why "auto" means the host; "": it does not. */
static void explain_host(const struct choice *choice, const char *pci, const char *what,
                         char reason[GPUD_REASON_MAX])
{
    reason[0] = '\0';
    if (!pci[0])
        gpud_print_n(reason, GPUD_REASON_MAX,
                     "host: %s leads over no card that a GPU could be near to", what);
    else if (choice->count == 0)
        gpud_print_n(reason, GPUD_REASON_MAX,
                     "host: there is no GPU here that cards write into by themselves; "
                     "gpudirect-info says what there is");
    else if (choice->nearest.distance == GPUD_DISTANCE_UNKNOWN)
        gpud_print_n(reason, GPUD_REASON_MAX, "host: it is not known how near a GPU is to %s",
                     what);
}

/* Counts the devices; for "auto" at least one. */
static size_t near_find(struct gpud_context *context, const char *kind, const char *pci,
                        const char *what, struct gpud_device_info *info,
                        char reason[GPUD_REASON_MAX])
{
    struct choice choice = {.kind = kind, .pci = pci};
    gpud_device_each(context, consider, &choice);
    reason[0] = '\0';
    if (is_auto(kind))
        explain_host(&choice, pci, what, reason);
    *info = reason[0] ? choice.host : choice.nearest.info;
    if (!reason[0] && (choice.count > 1 || is_auto(kind)))
        near_explain(&choice, what, reason);
    return is_auto(kind) && choice.count == 0 ? 1 : choice.count;
}

enum gpud_status gpud_topology_find_near(struct gpud_context *context, const char *kind,
                                         const char *pci, const char *what,
                                         struct gpud_device_info *found,
                                         char reason[GPUD_REASON_MAX], struct gpud_error *error)
{
    struct gpud_device_info info;
    char why[GPUD_REASON_MAX];
    if (near_find(context, kind, pci, what, &info, why) == 0)
        return gpud_fail(error, GPUD_NO_DEVICE,
                         "this machine has no device \"%s:0\": gpudirect-info says what there is",
                         kind);
    *found = info;
    gpud_print_n(reason, GPUD_REASON_MAX, "%s", why);
    return GPUD_OK;
}

enum gpud_status gpud_device_open_near(struct gpud_context *context, const char *name,
                                       const char *pci, const char *what,
                                       struct gpud_device **device, char reason[GPUD_REASON_MAX],
                                       struct gpud_error *error)
{
    struct gpud_device_info info = {.name = "host"};
    struct gpud_error failed;
    char why[GPUD_REASON_MAX] = "";
    /* For a named device no other driver is loaded, which would cost time and memory (an OpenCL
     * driver brings a compiler). */
    bool choose =
        name && (is_auto(name) ? pci[0] : !strchr(name, ':') && strcmp(name, "host") != 0);
    size_t found = choose ? near_find(context, name, pci, what, &info, why) : 0;
    if (is_auto(name) && !pci[0])
        explain_host(&(struct choice){.count = 0}, pci, what, why);
    enum gpud_status status =
        gpud_device_open(context, found > 0 ? info.name : name, device, &failed);
    if (status != GPUD_OK && is_auto(name)) { /* for "auto" any working device will do */
        gpud_print(why, "host: %s cannot be opened: %s", info.name, failed.reason);
        status = gpud_device_open(context, "host", device, &failed);
    }
    if (status != GPUD_OK)
        return gpud_fail_native(error, status, failed.origin, failed.native, "%s", failed.reason);
    gpud_print_n(reason, GPUD_REASON_MAX, "%s", why);
    if (why[0])
        gpud_log_info(&context->log, "device", "%s: %s", name, why);
    return GPUD_OK;
}
