/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "topology/near.h"

#include "topology/topology.h"

#include <limits.h>
#include <string.h>

#define DEVICES_MAX 64

/* For a choice: the less, the nearer; what is unknown is the farthest. */
static unsigned rank_of(enum gpud_distance distance)
{
    return distance == GPUD_DISTANCE_UNKNOWN ? UINT_MAX : distance;
}

static const char *describe(enum gpud_distance distance)
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

/* "cuda", not "cuda:1", "auto" or "host". */
static bool is_kind(const char *name, const char *device)
{
    size_t length = strlen(name);
    return strncmp(device, name, length) == 0 && device[length] == ':';
}

struct candidate {
    struct gpud_device_info info;
    enum gpud_distance distance;
};

/* How many there are of the kind; the nearest, and one that is farther away than that. */
static size_t choose(struct gpud_context *context, const char *kind, const char *pci,
                     struct candidate *nearest, struct candidate *farther)
{
    struct gpud_device_info infos[DEVICES_MAX] = {GPUD_INFO_INIT(infos[0])};
    size_t count = gpud_device_list(context, infos, DEVICES_MAX), found = 0;
    hwloc_obj_t card = gpud_topology_find(pci);
    for (size_t i = 0; i < count && i < DEVICES_MAX; i++) {
        if (!infos[i].available || !is_kind(kind, infos[i].name))
            continue;
        struct candidate one = {.info = infos[i],
                                .distance =
                                    gpud_topology_distance(gpud_topology_find(infos[i].pci), card)};
        bool nearer = found > 0 && rank_of(one.distance) < rank_of(nearest->distance);
        if (nearer)
            *farther = *nearest;
        else if (found > 0 && !farther->info.name[0] && one.distance != nearest->distance)
            *farther = one;
        if (nearer || found == 0)
            *nearest = one;
        found++;
    }
    return found;
}

static void explain(const struct candidate *nearest, const struct candidate *farther,
                    const char *what, char reason[GPUD_REASON_MAX])
{
    if (nearest->distance == GPUD_DISTANCE_UNKNOWN)
        gpud_print_n(reason, GPUD_REASON_MAX,
                     "%s is the first: it is not known how near each is to %s", nearest->info.name,
                     what);
    else if (!farther->info.name[0])
        gpud_print_n(reason, GPUD_REASON_MAX, "%s is %s %s, as near as the others",
                     nearest->info.name, describe(nearest->distance), what);
    else
        gpud_print_n(reason, GPUD_REASON_MAX, "%s is %s %s (%s); %s is %s it (%s)",
                     nearest->info.name, describe(nearest->distance), what,
                     gpud_topology_distance_name(nearest->distance), farther->info.name,
                     describe(farther->distance), gpud_topology_distance_name(farther->distance));
}

/* How many there are. */
static size_t find(struct gpud_context *context, const char *kind, const char *pci,
                   const char *what, struct gpud_device_info *info, char reason[GPUD_REASON_MAX])
{
    struct candidate nearest = {.distance = GPUD_DISTANCE_UNKNOWN}, farther = nearest;
    size_t found = choose(context, kind, pci, &nearest, &farther);
    reason[0] = '\0';
    if (found > 1)
        explain(&nearest, &farther, what, reason);
    *info = nearest.info;
    return found;
}

enum gpud_status gpud_topology_find_near(struct gpud_context *context, const char *kind,
                                         const char *pci, const char *what,
                                         struct gpud_device_info *found,
                                         char reason[GPUD_REASON_MAX], struct gpud_error *error)
{
    struct gpud_device_info info;
    char why[GPUD_REASON_MAX];
    if (find(context, kind, pci, what, &info, why) == 0)
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
    struct gpud_device_info info;
    char why[GPUD_REASON_MAX] = "";
    size_t found = name ? find(context, name, pci, what, &info, why) : 0;
    enum gpud_status status =
        gpud_device_open(context, found > 0 ? info.name : name, device, error);
    if (status != GPUD_OK)
        return status;
    gpud_print_n(reason, GPUD_REASON_MAX, "%s", why);
    if (why[0])
        gpud_log_info(&context->log, "device", "%s of %zu: %s", name, found, why);
    return GPUD_OK;
}
