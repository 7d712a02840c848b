/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "topology/near.h"

#include "topology/place.h"
#include "topology/topology.h"

#include <limits.h>
#include <string.h>

/* For comparing: lower is nearer; unknown is the farthest. */
static unsigned rank_of(enum gpud_distance distance)
{
    return distance == GPUD_DISTANCE_UNKNOWN ? UINT_MAX : distance;
}

/* "cuda", not "cuda:1", "auto" or "host". */
static bool is_kind(const char *name, const char *device)
{
    size_t length = strlen(name);
    return strncmp(device, name, length) == 0 && device[length] == ':';
}

static bool is_auto(const char *kind)
{
    return kind && strcmp(kind, "auto") == 0;
}

/* "auto" means any card that others can write by themselves. If two drivers name one card, the
 * first in the list is the one that shares memory. */
static bool suits(const struct gpud_device_info *info, const char *kind)
{
    if (!info->available)
        return false;
    return is_auto(kind) ? info->pci[0] && info->direct_writes : is_kind(kind, info->name);
}

struct candidate {
    struct gpud_device_info info;
    enum gpud_distance distance;
};

struct choice {
    struct gpud_device_info host; /* the first in the library's list */
    struct candidate nearest, farther;
    size_t count;
};

struct search {
    const char *kind, *pci;
    struct choice *choice;
};

static void consider(const struct gpud_device *device, void *arg)
{
    const struct search *search = arg;
    struct choice *choice = search->choice;
    struct candidate *nearest = &choice->nearest, *farther = &choice->farther;
    if (!choice->host.name[0])
        choice->host = device->info;
    if (!suits(&device->info, search->kind))
        return;
    struct candidate one = {.info = device->info,
                            .distance = gpud_place_distance(device->info.pci, search->pci)};
    bool nearer = choice->count > 0 && rank_of(one.distance) < rank_of(nearest->distance);
    if (nearer)
        *farther = *nearest;
    else if (choice->count > 0 && !farther->info.name[0] && one.distance != nearest->distance)
        *farther = one;
    if (nearer || choice->count == 0)
        *nearest = one;
    choice->count++;
}

/* Counts the devices of the kind, and finds the nearest, and one that is farther away. */
static void choose(struct gpud_context *context, const char *kind, const char *pci,
                   struct choice *choice)
{
    *choice = (struct choice){.count = 0};
    gpud_device_each(context, consider,
                     &(struct search){.kind = kind, .pci = pci, .choice = choice});
}

/* Why one of several was chosen, or the only one instead of the host. */
static void explain(const struct choice *choice, const char *what, char reason[GPUD_REASON_MAX])
{
    const struct candidate *nearest = &choice->nearest, *farther = &choice->farther;
    if (nearest->distance == GPUD_DISTANCE_UNKNOWN)
        gpud_print_n(reason, GPUD_REASON_MAX,
                     "%s is the first: it is not known how near each is to %s", nearest->info.name,
                     what);
    else if (!farther->info.name[0])
        gpud_print_n(reason, GPUD_REASON_MAX, "%s is %s %s (%s)%s", nearest->info.name,
                     gpud_place_relation_to(nearest->distance), what,
                     gpud_topology_distance_name(nearest->distance),
                     choice->count > 1 ? ", as near as the others" : "");
    else
        gpud_print_n(reason, GPUD_REASON_MAX, "%s is %s %s (%s); %s is %s it (%s)",
                     nearest->info.name, gpud_place_relation_to(nearest->distance), what,
                     gpud_topology_distance_name(nearest->distance), farther->info.name,
                     gpud_place_relation_to(farther->distance),
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
static size_t find(struct gpud_context *context, const char *kind, const char *pci,
                   const char *what, struct gpud_device_info *info, char reason[GPUD_REASON_MAX])
{
    struct choice choice;
    choose(context, kind, pci, &choice);
    reason[0] = '\0';
    if (is_auto(kind))
        explain_host(&choice, pci, what, reason);
    *info = reason[0] ? choice.host : choice.nearest.info;
    if (!reason[0] && (choice.count > 1 || is_auto(kind)))
        explain(&choice, what, reason);
    return is_auto(kind) && choice.count == 0 ? 1 : choice.count;
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

/* Only these are compared: for a named device no other driver is loaded, which would cost time and
 * memory (an OpenCL driver brings a compiler). */
static bool is_choice(const char *name, const char *pci)
{
    return name && (is_auto(name) ? pci[0] : !strchr(name, ':') && strcmp(name, "host") != 0);
}

enum gpud_status gpud_device_open_near(struct gpud_context *context, const char *name,
                                       const char *pci, const char *what,
                                       struct gpud_device **device, char reason[GPUD_REASON_MAX],
                                       struct gpud_error *error)
{
    struct gpud_device_info info = {.name = "host"};
    struct gpud_error failed;
    char why[GPUD_REASON_MAX] = "";
    size_t found = is_choice(name, pci) ? find(context, name, pci, what, &info, why) : 0;
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
