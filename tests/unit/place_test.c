/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The effect of two GPUs' locations on the route between them: behind one switch, below one host
 * bridge, and in different NUMA nodes of the machine of topology.xml. */
#include "topology/topology.h"

#include "base/base.h"
#include "device/device.h"
#include "route/route.h"
#include "support/check.h"
#include "support/host.h"

#include <errno.h>

#define ONE "0000:02:00.0"    /* behind a switch */
#define TWO "0000:03:00.0"    /* behind the same */
#define BESIDE "0000:04:00.0" /* below the same host bridge */
#define FAR "0000:82:00.0"    /* in the other node */

static const char *folder;

static void set_link_rate(const char *place, const char *speed, const char *width)
{
    char path[128];
    gpud_print(path, "sys/devices/%s/max_link_speed", place);
    set_file(folder, path, speed);
    gpud_print(path, "sys/devices/%s/max_link_width", place);
    set_file(folder, path, width);
}

static struct gpud_endpoint gpu_at(const char *kind, const char *pci)
{
    struct gpud_endpoint end = {.name = "a gpu", .caps = GPUD_CAP_BUS_ADDRESSABLE};
    gpud_print(end.kind, "%s", kind);
    gpud_print(end.device, "%s:0", kind);
    gpud_print(end.pci, "%s", pci);
    memset(end.uuid, pci[5] * 16 + pci[6], sizeof(end.uuid));
    memset(end.host, 1, sizeof(end.host));
    end.reach_count = strcmp(kind, "cuda") == 0;
    memcpy(end.reach[0], end.uuid, sizeof(end.uuid));
    return end;
}

static void check_choice(const struct gpud_endpoint *a, const struct gpud_endpoint *b,
                         const struct gpud_route_trials *trials, const char *wanted,
                         const char *says)
{
    char against[GPUD_REASON_MAX];
    enum gpud_degraded degraded;
    const struct gpud_route_ops *route = gpud_route_select(a, b, trials, against, &degraded);
    CHECK(route && strcmp(route->name, wanted) == 0, "%s to %s goes by %s, not by %s (%s)", a->pci,
          b->pci, route ? route->name : "none", wanted, against);
    CHECK(strstr(against, says), "\"%s\" does not say \"%s\"", against, says);
}

/* Without a figure of any driver's. direct: the route from memory to memory. */
static void test_order(const char *kind, const char *direct)
{
    struct gpud_endpoint one = gpu_at(kind, ONE), far = gpu_at(kind, FAR);
    const char *const near[] = {TWO, BESIDE, "", "0000:77:00.0"};
    const struct gpud_route_ops *route = gpud_route_find(direct);
    struct gpud_route_trials *trials = gpud_route_trials_create();
    SAY("%s: what is near is taken as it is", direct);
    for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
        struct gpud_endpoint other = gpu_at(kind, near[i][0] ? near[i] : ONE);
        gpud_print(other.pci, "%s", near[i]);
        other.token = 7;
        memcpy(one.reach[1], other.uuid, sizeof(other.uuid));
        one.reach_count += strcmp(kind, "cuda") == 0;
        CHECK(!gpud_route_wants_rate(route, &one, &other, trials), "%s is to be measured", near[i]);
        one.reach_count = strcmp(kind, "cuda") == 0;
    }

    SAY("%s: what is far is measured, and is taken where it is fast", direct);
    memcpy(one.reach[1], far.uuid, sizeof(far.uuid));
    one.reach_count *= 2;
    CHECK(gpud_route_wants_rate(route, &one, &far, trials), "a way across nodes is not measured");
    check_choice(&one, &far, trials, direct, "");
    /* Down at 31.5 GB/s and up at 15.8: 10.5. */
    gpud_route_measured(trials, route, 7.1e9);
    check_choice(&one, &far, trials, direct, "");
    gpud_route_measured(trials, route, 6.9e9);
    char says[GPUD_REASON_MAX];
    gpud_print(says,
               "%s: only 6.9 GB/s were measured, where staged should reach 10.5; %s:0 (" ONE
               ") and the receiver's %s:0 (" FAR ") are in different NUMA nodes (SYS)",
               direct, kind, kind);
    check_choice(&one, &far, trials, "staged", says);

    SAY("%s: a distance alone, and another machine's addresses, change nothing", direct);
    struct gpud_endpoint silent = far;
    gpud_print(silent.pci, "0000:82:00.1"); /* no such device */
    check_choice(&one, &silent, trials, direct, "");
    gpud_route_trials_destroy(&trials);
    trials = gpud_route_trials_create();
    set_file(folder, "sys/devices/pci0000:80/" FAR "/max_link_speed", "Unknown");
    CHECK(!gpud_route_wants_rate(route, &one, &far, trials), "there is nothing to compare with");
    set_file(folder, "sys/devices/pci0000:80/" FAR "/max_link_speed", "16.0 GT/s PCIe");
    struct gpud_endpoint direct_only = one;
    direct_only.require_direct = 1;
    gpud_route_measured(trials, route, 1e9);
    check_choice(&direct_only, &far, trials, direct, "");
    gpud_route_trials_destroy(&trials);
}

/* Where there is no way, both places are in the sentence. */
static void test_sentences(void)
{
    SAY("a reason says where both are");
    struct gpud_endpoint one = gpu_at("cuda", ONE), two = gpu_at("cuda", TWO),
                         beside = gpu_at("cuda", BESIDE), far = gpu_at("cuda", FAR);
    struct gpud_route_trials *trials = gpud_route_trials_create();
    check_choice(
        &one, &two, trials, "staged",
        "peer: the sender's driver cannot write the receiver's GPU (cuda:0): is it visible");
    check_choice(&one, &two, trials, "staged",
                 "; cuda:0 (" ONE ") and the receiver's cuda:0 (" TWO
                 ") are behind the same PCIe switch (PIX)");
    check_choice(&two, &beside, trials, "staged", "are below the same PCIe host bridge (PHB)");
    check_choice(&beside, &far, trials, "staged", "are in different NUMA nodes (SYS)");
    gpud_route_note_link(trials, GPUD_DEGRADED_HIDDEN, "the driver has something better to say");
    check_choice(&one, &two, trials, "staged", "peer: the driver has something better to say");
    gpud_print(one.route, "staged");
    check_choice(&one, &two, trials, "staged", "peer: only the route \"staged\" was asked for");

    /* What a peer writes there is no more than a place that is unknown. */
    static const char *const lies[] = {"../../../../", "%s%s%n%n", "0000:2:0.0:::::", "ffffffff:f"};
    one = gpu_at("cuda", ONE);
    gpud_route_trials_destroy(&trials);
    trials = gpud_route_trials_create();
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        gpud_print(two.pci, "%s", lies[i]);
        CHECK_EQUAL(gpud_endpoints_distance(&one, &two), GPUD_DISTANCE_UNKNOWN);
        check_choice(&one, &two, trials, "staged", "is it visible");
    }
    gpud_print(two.pci, FAR);
    memset(two.host, 2, sizeof(two.host));
    CHECK_EQUAL(gpud_endpoints_distance(&one, &two), GPUD_DISTANCE_UNKNOWN);
    gpud_route_trials_destroy(&trials);
}

int main(int argc, char **argv)
{
    char made[] = "/tmp/gpud-place-XXXXXX", command[64];
    CHECK(argc == 2, "give the machine's description");
    CHECK(mkdtemp(made), "mkdtemp: %s", strerror(errno));
    setenv("HWLOC_XMLFILE", argv[1], 1);
    setenv("HWLOC_THISSYSTEM", "0", 1);
    folder = gpud_sysfs_root = made;
    set_link_rate("pci0000:00/0000:00:01.0", "16.0 GT/s PCIe", "16");
    set_link_rate("pci0000:00/0000:00:01.0/" ONE, "16.0 GT/s PCIe", "16");
    set_link_rate("pci0000:00/0000:00:01.0/" TWO, "8 GT/s", "16"); /* as before Linux 5.7 */
    set_link_rate("pci0000:00/" BESIDE, "16.0 GT/s PCIe", "16");
    set_link_rate("pci0000:80/" FAR, "16.0 GT/s PCIe", "8");
    set_link(folder, "sys/bus/pci/devices/0000:00:01.0",
             "../../../devices/pci0000:00/0000:00:01.0");
    set_link(folder, "sys/bus/pci/devices/" ONE, "../../../devices/pci0000:00/0000:00:01.0/" ONE);
    set_link(folder, "sys/bus/pci/devices/" TWO, "../../../devices/pci0000:00/0000:00:01.0/" TWO);
    set_link(folder, "sys/bus/pci/devices/" BESIDE, "../../../devices/pci0000:00/" BESIDE);
    set_link(folder, "sys/bus/pci/devices/" FAR, "../../../devices/pci0000:80/" FAR);
    SAY("the least of the links up to the processor is what a card has");
    CHECK_EQUAL(gpud_place_bus_rate(ONE), 31504);
    CHECK_EQUAL(gpud_place_bus_rate(TWO), 15760);
    CHECK_EQUAL(gpud_place_bus_rate(FAR), 15752);
    set_link_rate("pci0000:00/0000:00:01.0", "2.5 GT/s PCIe", "4");
    CHECK_EQUAL(gpud_place_bus_rate(ONE), 1000);
    static const char *const unknown[][2] = {
        {"Unknown", "16"},       {"16.0 GT/s PCIe", "0"}, {"16.0 GT/s PCIe", "255"},
        {"7.7 GT/s PCIe", "16"}, {"16.0", "16"},          {NULL, "16"},
        {"16.0 GT/s PCIe", NULL}};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        set_link_rate("pci0000:00/0000:00:01.0", unknown[i][0], unknown[i][1]);
        CHECK_EQUAL(gpud_place_bus_rate(ONE), 0);
    }
    set_link_rate("pci0000:00/0000:00:01.0", "16.0 GT/s PCIe", "16");
    static const char *const nowhere[] = {"", "0000:77:00.0", "../../../etc", "0000:02:00.0/..",
                                          "0000:02:00.0.0.0"};
    for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++)
        CHECK_EQUAL(gpud_place_bus_rate(nowhere[i]), 0);
    test_order("cuda", "peer");
    test_order("opencl", "directgma");
    test_sentences();
    gpud_print(command, "rm -r %s", folder);
    CHECK(system(command) == 0, "%s", command);
    return 0;
}
