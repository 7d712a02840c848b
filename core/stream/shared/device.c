/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/shared/device.h"

#include "base/sysfs.h"
#include "topology/near.h"

enum gpud_status gpud_address_open_device(struct gpud_context *context, const char *name,
                                          const struct gpud_address *address,
                                          struct gpud_device **device, struct gpud_error *error)
{
    char pci[GPUD_SYSFS_PCI_MAX], reason[GPUD_REASON_MAX] = "";
    gpud_address_find_card(address, pci, sizeof(pci));
    if (!pci[0])
        return gpud_device_open(context, name, device, error);
    return gpud_device_open_near(context, name, pci, address->text, device, reason, error);
}
