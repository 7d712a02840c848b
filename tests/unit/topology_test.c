/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The locations of devices, on a simulated machine: two NUMA nodes, each with a host bridge;
 * behind the first a switch with two cards and a card beside it, behind the second one more.
 *
 * Without a description of it, on the machine's own buses: the names of vendors and models, for
 * which all of pci.ids is read once per vendor, are read only if they are shown. The test wraps the
 * call by which libpciaccess opens that file. */
#include "device/device.h"
#include "support/check.h"
#include "topology/topology.h"

static unsigned opened; /* how often pci.ids was asked for */

/* zlib's, as far as libpciaccess uses it: the file is not there. */
void *gzopen(const char *path, const char *mode);
void *gzopen(const char *path, const char *mode)
{
    (void)mode;
    opened += strstr(path, "pci.ids") != NULL;
    return NULL;
}

static struct gpud_device at(const char *pci)
{
    struct gpud_device device = {0};
    gpud_print(device.info.pci, "%s", pci);
    return device;
}

static void check_locality(const struct gpud_device *device, int node, const char *cpus)
{
    struct gpud_device_locality locality = GPUD_INFO_INIT(locality);
    gpud_device_get_locality(device, &locality);
    CHECK_EQUAL(locality.numa_node, node);
    CHECK_TEXT(locality.cpus, cpus);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
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
    setenv("HWLOC_XMLFILE", argv[1], 1);
    setenv("HWLOC_THISSYSTEM", "0", 1);
    struct gpud_device host = {.caps = GPUD_CAP_HOST}, nowhere = at("");
    struct gpud_device one = at("0000:02:00.0"), two = at("0000:03:00.0");
    struct gpud_device beside = at("0000:04:00.0"), far = at("0000:82:00.0");

    SAY("a card knows its NUMA node, and the processors next to it");
    check_locality(&one, 0, "0-2");
    check_locality(&far, 1, "3");
    check_locality(&host, -1, "");
    check_locality(&nowhere, -1, "");

    SAY("and how far it is to another, in the terms of nvidia-smi topo -m");
    CHECK_EQUAL(gpud_topology_device_distance(&host, &host), GPUD_DISTANCE_SELF);
    CHECK_EQUAL(gpud_topology_device_distance(&one, &one), GPUD_DISTANCE_SELF);
    CHECK_EQUAL(gpud_topology_device_distance(&one, &two), GPUD_DISTANCE_PIX);
    CHECK_EQUAL(gpud_topology_device_distance(&one, &beside), GPUD_DISTANCE_PHB);
    CHECK_EQUAL(gpud_topology_device_distance(&one, &far), GPUD_DISTANCE_SYS);
    CHECK_EQUAL(gpud_topology_device_distance(&host, &one), GPUD_DISTANCE_SYS);
    CHECK_EQUAL(gpud_topology_device_distance(&one, &nowhere), GPUD_DISTANCE_UNKNOWN);
    return 0;
}
