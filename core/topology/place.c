/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "topology/place.h"

#include "base/sysfs.h"
#include "topology/topology.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

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

const char *gpud_place_relation_to(enum gpud_distance distance)
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

/* MB/s of a lane, from the kernel's text for its speed: "8.0 GT/s PCIe" or, before Linux 5.7, "8
 * GT/s". */
static uint32_t lane_rate(const char *text)
{
    static const struct {
        double transfers; /* GT/s */
        uint32_t rate;
    } generations[] = {{2.5, 250}, {5, 500}, {8, 985}, {16, 1969}, {32, 3938}, {64, 7563}};
    char *end;
    double transfers = strtod(text, &end);
    if (strncmp(end, " GT/s", 5) != 0)
        return 0;
    for (size_t i = 0; i < sizeof(generations) / sizeof(generations[0]); i++)
        if (transfers > generations[i].transfers - 0.1 &&
            transfers < generations[i].transfers + 0.1)
            return generations[i].rate;
    return 0;
}

/* MB/s of the link that ends at a function; 0: unknown. */
static uint32_t link_rate(const char *function)
{
    char speed[32], width[16];
    if (!gpud_sysfs_read(speed, sizeof(speed), "/sys/bus/pci/devices/%s/max_link_speed",
                         function) ||
        !gpud_sysfs_read(width, sizeof(width), "/sys/bus/pci/devices/%s/max_link_width", function))
        return 0;
    long lanes = strtol(width, NULL, 10);
    return lanes > 0 && lanes <= 32 ? lane_rate(speed) * (uint32_t)lanes : 0;
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
