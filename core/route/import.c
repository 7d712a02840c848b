/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two drivers of one GPU: what one exports by descriptor, the other may import. That both mean the
 * same GPU is never guessed from names or numbers: their UUIDs have to be equal, and the canary has
 * to arrive. */
#include "device/ops.h"
#include "route/route.h"

#include <string.h>

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
    if (!(importer->caps & GPUD_CAP_IMPORT)) {
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
