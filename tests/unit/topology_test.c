/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The locations of devices, on a simulated machine: two NUMA nodes, each with a host bridge;
 * behind the first a switch with two cards and a card beside it, behind the second one more. */
#include "device/device.h"
#include "support/check.h"

#include <stdlib.h>

static struct gpud_device at(const char *pci)
{
    struct gpud_device device = {0};
    gpud_print(device.info.pci, "%s", pci);
    return device;
}

static void check_cpus(const struct gpud_device *device, const char *wanted)
{
    char list[64] = "untouched", small[2] = "?";
    gpud_device_get_cpus(device, list, sizeof(list));
    CHECK(strcmp(list, wanted) == 0, "the processors of %s are \"%s\"", device->info.pci, list);
    gpud_device_get_cpus(device, small, sizeof(small));
    CHECK(strncmp(small, wanted, 1) == 0 && small[1] == '\0', "cut: \"%s\"", small);
}

static void check_cards(const struct gpud_device *device, enum gpud_distance network,
                        enum gpud_distance capture)
{
    static const char *const names[][3] = {
        {"mlx5_0", "network", "0000:03:00.1"},
        {"eth0", "network", "0000:03:00.1"},
        {"bdbd:a138", "capture", "0000:04:00.1"},
    };
    struct gpud_card_info card[8] = {GPUD_INFO_INIT(card[0])};
    CHECK_EQUAL(gpud_device_list_cards(device, card, 8), 3);
    for (int i = 0; i < 3; i++) {
        CHECK(strcmp(card[i].name, names[i][0]) == 0 && strcmp(card[i].kind, names[i][1]) == 0 &&
                  strcmp(card[i].pci, names[i][2]) == 0,
              "card %d is %s (%s, %s)", i, card[i].name, card[i].kind, card[i].pci);
        CHECK_EQUAL(card[i].distance, i < 2 ? network : capture);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "give the machine's description");
    setenv("HWLOC_XMLFILE", argv[1], 1);
    setenv("HWLOC_THISSYSTEM", "0", 1);
    struct gpud_device host = {.caps = GPUD_CAP_HOST}, nowhere = at("");
    struct gpud_device one = at("0000:02:00.0"), two = at("0000:03:00.0");
    struct gpud_device beside = at("0000:04:00.0"), far = at("0000:82:00.0");

    SAY("a card knows its NUMA node");
    CHECK_EQUAL(gpud_device_get_numa_node(&one), 0);
    CHECK_EQUAL(gpud_device_get_numa_node(&far), 1);
    CHECK_EQUAL(gpud_device_get_numa_node(&host), -1);
    CHECK_EQUAL(gpud_device_get_numa_node(&nowhere), -1);

    SAY("and how far it is to another, in the terms of nvidia-smi topo -m");
    CHECK_EQUAL(gpud_device_get_distance(&host, &host), GPUD_DISTANCE_SELF);
    CHECK_EQUAL(gpud_device_get_distance(&one, &one), GPUD_DISTANCE_SELF);
    CHECK_EQUAL(gpud_device_get_distance(&one, &two), GPUD_DISTANCE_PIX);
    CHECK_EQUAL(gpud_device_get_distance(&one, &beside), GPUD_DISTANCE_PHB);
    CHECK_EQUAL(gpud_device_get_distance(&one, &far), GPUD_DISTANCE_SYS);
    CHECK_EQUAL(gpud_device_get_distance(&host, &one), GPUD_DISTANCE_SYS);
    CHECK_EQUAL(gpud_device_get_distance(&one, &nowhere), GPUD_DISTANCE_UNKNOWN);

    SAY("and to what is no device, by its address");
    CHECK_EQUAL(gpud_device_get_distance_to_pci(&one, "0000:03:00.1"), GPUD_DISTANCE_PIX);
    CHECK_EQUAL(gpud_device_get_distance_to_pci(&one, "0000:02:00.0"), GPUD_DISTANCE_SELF);
    CHECK_EQUAL(gpud_device_get_distance_to_pci(&beside, "0000:03:00.1"), GPUD_DISTANCE_PHB);
    CHECK_EQUAL(gpud_device_get_distance_to_pci(&far, "0000:03:00.1"), GPUD_DISTANCE_SYS);
    CHECK_EQUAL(gpud_device_get_distance_to_pci(&host, "0000:03:00.1"), GPUD_DISTANCE_SYS);
    static const char *const wrong[] = {NULL, "", "eth0", "0000:05:00.0"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        CHECK_EQUAL(gpud_device_get_distance_to_pci(&one, wrong[i]), GPUD_DISTANCE_UNKNOWN);
        CHECK_EQUAL(gpud_device_get_distance_to_pci(&host, wrong[i]), GPUD_DISTANCE_UNKNOWN);
    }

    SAY("the processors next to it");
    check_cpus(&one, "0-2");
    check_cpus(&far, "3");
    check_cpus(&host, "");
    check_cpus(&nowhere, "");

    SAY("and the cards");
    check_cards(&one, GPUD_DISTANCE_PIX, GPUD_DISTANCE_PHB);
    check_cards(&beside, GPUD_DISTANCE_PHB, GPUD_DISTANCE_PHB);
    check_cards(&far, GPUD_DISTANCE_SYS, GPUD_DISTANCE_SYS);
    check_cards(&nowhere, GPUD_DISTANCE_UNKNOWN, GPUD_DISTANCE_UNKNOWN);
    struct gpud_card_info card[2] = {GPUD_INFO_INIT(card[0]), {.name = "untouched"}};
    CHECK_EQUAL(gpud_device_list_cards(&one, card, 1), 3);
    CHECK(strcmp(card[1].name, "untouched") == 0, "more than there is room for");
    CHECK_EQUAL(gpud_device_list_cards(&one, NULL, 0), 3);
    return 0;
}
