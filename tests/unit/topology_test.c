/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where devices are, on a machine that hwloc is told of: two NUMA nodes, each with a host bridge;
 * behind the first a switch with two cards and a card beside it, behind the second one more. */
#include "../check.h"
#include "device/device.h"

#include <stdlib.h>

static struct gpud_device at(const char *pci)
{
    struct gpud_device device = {0};
    gpud_print(device.info.pci, "%s", pci);
    return device;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "give the machine's description");
    setenv("HWLOC_XMLFILE", argv[1], 1);
    setenv("HWLOC_THISSYSTEM", "0", 1);
    struct gpud_device host = {.caps = GPUD_CAP_HOST_MEMORY}, nowhere = at("");
    struct gpud_device one = at("0000:02:00.0"), two = at("0000:03:00.0");
    struct gpud_device beside = at("0000:04:00.0"), far = at("0000:82:00.0");

    SAY("a card knows its NUMA node");
    CHECK_EQUAL(gpud_device_numa_node(&one), 0);
    CHECK_EQUAL(gpud_device_numa_node(&far), 1);
    CHECK_EQUAL(gpud_device_numa_node(&host), -1);
    CHECK_EQUAL(gpud_device_numa_node(&nowhere), -1);

    SAY("and how far it is to another, in the terms of nvidia-smi topo -m");
    CHECK_EQUAL(gpud_device_distance(&host, &host), GPUD_DISTANCE_SELF);
    CHECK_EQUAL(gpud_device_distance(&one, &one), GPUD_DISTANCE_SELF);
    CHECK_EQUAL(gpud_device_distance(&one, &two), GPUD_DISTANCE_PIX);
    CHECK_EQUAL(gpud_device_distance(&one, &beside), GPUD_DISTANCE_PHB);
    CHECK_EQUAL(gpud_device_distance(&one, &far), GPUD_DISTANCE_SYS);
    CHECK_EQUAL(gpud_device_distance(&host, &one), GPUD_DISTANCE_SYS);
    CHECK_EQUAL(gpud_device_distance(&one, &nowhere), GPUD_DISTANCE_UNKNOWN);
    return 0;
}
