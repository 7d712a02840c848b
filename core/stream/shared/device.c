/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/shared/device.h"

#include "base/sized.h"
#include "base/sysfs.h"
#include "capture/cards.h"
#include "topology/near.h"

#include <string.h>

enum gpud_status gpud_address_open_device(struct gpud_context *context, const char *name,
                                          const struct gpud_address *address,
                                          struct gpud_device **device, char reason[GPUD_REASON_MAX],
                                          struct gpud_error *error)
{
    char pci[GPUD_SYSFS_PCI_MAX];
    gpud_address_find_card(address, pci, sizeof(pci));
    reason[0] = '\0';
    if (!name || (!pci[0] && strcmp(name, "auto") != 0)) /* a bare kind means its first device */
        return gpud_device_open(context, name, device, error);
    return gpud_device_open_near(context, name, pci, address->text, device, reason, error);
}

#define CAPTURE "v4l2://"

enum gpud_status gpud_device_get_nearest(struct gpud_context *context, const char *kind,
                                         const char *address, struct gpud_device_info *found,
                                         char reason[GPUD_REASON_MAX], struct gpud_error *error)
{
    char pci[GPUD_SYSFS_PCI_MAX] = "", why[GPUD_REASON_MAX] = "";
    struct gpud_address resolved;
    struct gpud_device_info info;
    enum gpud_status status = GPUD_OK;
    if (!kind || !kind[0] || !address)
        return gpud_fail(error, GPUD_INVALID, "give a kind of devices, \"cuda\", and an address");
    if (gpud_sysfs_is_pci(address))
        gpud_print(pci, "%s", address);
    else if (strncmp(address, CAPTURE "/", sizeof(CAPTURE)) == 0)
        gpud_capture_find_card(address + strlen(CAPTURE), pci, sizeof(pci));
    else if ((status = gpud_address_resolve(address, &resolved, error)) == GPUD_OK)
        gpud_address_find_card(&resolved, pci, sizeof(pci));
    if (status == GPUD_OK)
        status = gpud_topology_find_near(context, kind, pci, address, &info, why, error);
    if (status != GPUD_OK)
        return status;
    gpud_sized_copy(found, found->size, &info, sizeof(info));
    gpud_print_n(reason, GPUD_REASON_MAX, "%s", why);
    return GPUD_OK;
}
