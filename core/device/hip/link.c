/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The link from one GPU into the memory of another, as the runtime reports it. */
#include "device/hip/link.h"

#include "device/gpu/api.h"
#include "device/hip/api.h"

#define LINK_XGMI 4 /* hsa_amd_link_info_type_t */

void gpud_hip_link(const struct gpud_device *from, const struct gpud_device *to,
                   struct gpud_device_link *link)
{
    const struct hip_driver *hip = gpud_hip_driver();
    int a = (int)from->index, b = (int)to->index;
    uint32_t type = 0, hops = 0;
    if (!hip || !gpud_gpu_ask_link(&gpud_hip_gpu_driver, a, b, link)) {
        gpud_print(link->reason, "the HIP runtime does not answer for %s and %s", from->info.name,
                   to->info.name);
        return;
    }
    if (hip->get_link && hip->get_link(a, b, &type, &hops) == hipSuccess && type == LINK_XGMI)
        gpud_print(link->name, "XGMI");
    if (!link->direct)
        gpud_print(link->reason,
                   "the runtime lets %s not write to %s: there is no XGMI between them, and PCIe "
                   "peer-to-peer wants a large BAR (Resizable BAR in the BIOS) and a kernel with "
                   "CONFIG_HSA_AMD_P2P",
                   from->info.name, to->info.name);
}
