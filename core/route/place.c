/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "route/place.h"

#include "device/device.h"
#include "route/endpoint.h"

#include <string.h>
#include <strings.h>

enum gpud_distance gpud_endpoints_distance(const struct gpud_endpoint *a,
                                           const struct gpud_endpoint *b)
{
    if (memcmp(a->host, b->host, sizeof(a->host)) != 0)
        return GPUD_DISTANCE_UNKNOWN;
    /* Needs no reading of the machine, which takes 100 ms and more. */
    if (a->pci[0] && strcasecmp(a->pci, b->pci) == 0)
        return GPUD_DISTANCE_SELF;
    return gpud_place_distance(a->pci, b->pci);
}

void gpud_endpoints_add_places(const struct gpud_endpoint *sender,
                               const struct gpud_endpoint *receiver, char why[GPUD_REASON_MAX])
{
    size_t used = strlen(why);
    enum gpud_distance distance = gpud_endpoints_distance(sender, receiver);
    if (distance != GPUD_DISTANCE_UNKNOWN && distance != GPUD_DISTANCE_SELF)
        gpud_print_n(why + used, GPUD_REASON_MAX - used, "; %s (%s) and the receiver's %s (%s) %s",
                     sender->device, sender->pci, receiver->device, receiver->pci,
                     gpud_place_relation(distance));
}

static bool is_reached(const struct gpud_device *from, const struct gpud_endpoint *to)
{
    for (uint32_t i = 0; i < from->reach_count; i++)
        if (memcmp(from->reach[i], to->uuid, sizeof(to->uuid)) == 0)
            return true;
    return false;
}

/* Asks the driver of both devices, which sees the receiver's card here; else the kernel. */
static void ask_link(const struct gpud_device *from, const struct gpud_endpoint *to,
                     char why[GPUD_REASON_MAX])
{
    struct gpud_device there;
    struct gpud_device_link link = GPUD_INFO_INIT(link);
    if (gpud_device_probe_at(from->context, to->kind, to->pci, &there)) {
        gpud_device_get_link(from, &there, &link);
        if (!link.direct)
            gpud_print_n(why, GPUD_REASON_MAX, "%s", link.reason);
        return;
    }
    gpud_print_n(why, GPUD_REASON_MAX,
                 "the sender's driver does not see the receiver's GPU at %s: do not hide it from "
                 "the sender (CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, the container)",
                 to->pci);
}

void gpud_route_explain_link(const struct gpud_device *from, const struct gpud_endpoint *to,
                             char why[GPUD_REASON_MAX])
{
    struct gpud_endpoint self;
    why[0] = '\0';
    gpud_endpoint_describe(&self, from, NULL);
    if (!from->reach_count || memcmp(self.host, to->host, sizeof(self.host)) != 0 ||
        strcmp(self.kind, to->kind) != 0 || !self.pci[0] || !to->pci[0] ||
        strcmp(self.pci, to->pci) == 0 || is_reached(from, to))
        return;
    ask_link(from, to, why);
    if (why[0])
        gpud_endpoints_add_places(&self, to, why);
}
