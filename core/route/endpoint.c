/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "route/endpoint.h"

#include "base/host.h"
#include "device/device.h"
#include "topology/kfd.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

void gpud_endpoint_describe(struct gpud_endpoint *endpoint, const struct gpud_device *device,
                            const char *name)
{
    memset(endpoint, 0, sizeof(*endpoint));
    gpud_print(endpoint->name, "%s", name ? name : program_invocation_short_name);
    gpud_print(endpoint->device, "%s", device->info.name);
    gpud_print(endpoint->kind, "%s", gpud_device_kind(device));
    gpud_print(endpoint->no_direct, "%s", device->no_direct);
    endpoint->caps = device->caps & ~(uint32_t)GPUD_CAP_IMAGES;
    endpoint->aperture = device->aperture;
    endpoint->common = device->common;
    endpoint->token = device->context->token;
    memcpy(endpoint->uuid, device->uuid, sizeof(endpoint->uuid));
    for (size_t i = 0; i + 1 < sizeof(endpoint->pci) && device->info.pci[i]; i++)
        endpoint->pci[i] = (char)tolower((unsigned char)device->info.pci[i]); /* CUDA's capitals */
    endpoint->host_rate = device->host_rate;
    if (endpoint->host_rate == 0) /* the driver does not say; the kernel does for AMD's GPUs */
        endpoint->host_rate = gpud_kfd_host_rate(gpud_kfd_get(), device->info.pci);
    endpoint->reach_count = device->reach_count;
    memcpy(endpoint->reach, device->reach, sizeof(endpoint->reach));
    memcpy(endpoint->host, device->context->host, sizeof(endpoint->host));
    endpoint->time_namespace = gpud_host_time_namespace();
}

bool gpud_endpoints_share_device(const struct gpud_endpoint *a, const struct gpud_endpoint *b)
{
    static const uint8_t none[16];
    if (strcmp(a->kind, b->kind) != 0)
        return false;
    /* Indices are not compared: CUDA_VISIBLE_DEVICES renumbers in each process. */
    if (memcmp(a->uuid, none, sizeof(none)) != 0 || memcmp(b->uuid, none, sizeof(none)) != 0)
        return memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
    return strcmp(a->device, b->device) == 0;
}

bool gpud_endpoints_share_clock(const struct gpud_endpoint *a, const struct gpud_endpoint *b,
                                bool one_host)
{
    return one_host && memcmp(a->host, b->host, sizeof(a->host)) == 0 &&
           a->time_namespace == b->time_namespace;
}

/* --- two drivers of one GPU ------------------------------------------------------------------- */

static bool has_uuid(const struct gpud_endpoint *end)
{
    static const uint8_t none[16];
    return memcmp(end->uuid, none, sizeof(none)) != 0;
}

bool gpud_endpoints_are_of_two_drivers(const struct gpud_endpoint *a, const struct gpud_endpoint *b)
{
    return !((a->caps | b->caps) & GPUD_CAP_HOST) && strcmp(a->kind, b->kind) != 0;
}

bool gpud_endpoint_imports(const struct gpud_endpoint *importer,
                           const struct gpud_endpoint *exporter, char why[GPUD_REASON_MAX])
{
    const struct gpud_endpoint *ends[] = {importer, exporter};
    if (!(exporter->caps & GPUD_CAP_SHARE)) {
        gpud_print_n(why, GPUD_REASON_MAX, "the driver of %s exports no memory", exporter->device);
        return false;
    }
    if (!gpud_caps_import(importer->caps, exporter->caps)) {
        gpud_print_n(why, GPUD_REASON_MAX, "the driver of %s imports no memory of other drivers",
                     importer->device);
        return false;
    }
    for (int i = 0; i < 2; i++) {
        if (has_uuid(ends[i]))
            continue;
        gpud_print_n(why, GPUD_REASON_MAX,
                     "the driver of %s does not tell which GPU it is (cl_khr_device_uuid)",
                     ends[i]->device);
        return false;
    }
    if (memcmp(importer->uuid, exporter->uuid, sizeof(importer->uuid)) != 0) {
        gpud_print_n(why, GPUD_REASON_MAX, "by their UUIDs %s and %s are different GPUs",
                     exporter->device, importer->device);
        return false;
    }
    return true;
}
