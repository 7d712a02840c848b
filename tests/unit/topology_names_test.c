/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The names of vendors and models, for which all of pci.ids is read once per vendor, are read only
 * if they are shown. This uses the machine's own buses, and wraps the call by which libpciaccess
 * opens that file. */
#include "support/check.h"
#include "topology/topology.h"

#include <string.h>

static unsigned opened; /* how often pci.ids was asked for */

/* zlib's, as far as libpciaccess uses it: the file is not there. */
void *gzopen(const char *path, const char *mode);
void *gzopen(const char *path, const char *mode)
{
    (void)mode;
    opened += strstr(path, "pci.ids") != NULL;
    return NULL;
}

int main(void)
{
    SAY("places are found without names");
    CHECK(gpud_topology_hwloc(), "hwloc cannot read this machine");
    hwloc_obj_t card = hwloc_get_next_pcidev(gpud_topology_hwloc(), NULL);
    CHECK(opened == 0, "pci.ids was asked for %u times", opened);

    hwloc_topology_t named = gpud_topology_load(true);
    CHECK(named, "hwloc cannot read this machine with names");
    hwloc_topology_destroy(named);
    if (opened == 0)
        SKIP("hwloc reads no names here: there are no PCI devices, or no libhwloc-plugins");
    CHECK(card, "cards are found with names alone");
    return 0;
}
