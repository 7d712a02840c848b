/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* distance <machine> <switch|bridge|sockets> <slow|shut> <cuda|hip>: a link from one GPU to another
 * whose places are behind one switch, below one host bridge or in different NUMA nodes. The driver
 * in host memory is slow from GPU to GPU, and no NVML says how fast the detour is; or it lets no
 * GPU write another one. The route, and what is said of it at both ends, follow from the places. */
#include "base/base.h"
#include "device/device.h"
#include "route/route.h"
#include "support/check.h"
#include "support/host.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"

#include <gpudirect/gpudirect.h>

#include <errno.h>
#include <hwloc.h>

static atomic_uint loads;

__typeof__(hwloc_topology_load) __real_hwloc_topology_load, __wrap_hwloc_topology_load;

int __wrap_hwloc_topology_load(hwloc_topology_t topology)
{
    loads++;
    return __real_hwloc_topology_load(topology);
}

struct place {
    const char *name;
    const char *second; /* card's address in the machine */
    bool far;
    const char *says;
};
static const struct place places[] = {
    {"switch", "0000:03:00.0", false, "are behind the same PCIe switch (PIX)"},
    {"bridge", "0000:04:00.0", false, "are below the same PCIe host bridge (PHB)"},
    {"sockets", "0000:82:00.0", true, "are in different NUMA nodes (SYS)"},
};

/* Large frames are measured, and a link is made again for each format. */
static void link_two(struct gpud_context *context, const char *kind, unsigned to_index,
                     const char *wanted, enum gpud_degraded degraded, const char *const says[2])
{
    char from[16], to[16];
    gpud_print(from, "%s:0", kind);
    gpud_print(to, "%s:%u", kind, to_index);
    AUTO(gpud_sender_destroy)
    struct gpud_sender *sender = NEW_SENDER(context, .address = "distance", .device = from);
    struct gpud_layout layout = LAYOUT("UYVY", 1920, 1080, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    AUTO(gpud_receiver_destroy)
    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = "distance", .device = to);
    PEER_LINK(sender, receiver, 1);
    struct gpud_sender_info sent = INFO(sender, sender);
    struct gpud_receiver_info got = INFO(receiver, receiver);
    const char *paths[] = {sent.path, got.path};
    const char *reasons[] = {sent.fallback_reason, got.fallback_reason};
    for (int i = 0; i < 4; i++) {
        CHECK(strcmp(paths[i % 2], wanted) == 0, "%s instead of %s (%s)", paths[i % 2], wanted,
              reasons[i % 2]);
        CHECK(strstr(reasons[i % 2], says[i / 2]), "the %s's reason, \"%s\", does not say \"%s\"",
              i % 2 ? "receiver" : "sender", reasons[i % 2], says[i / 2]);
    }
    struct gpud_link_info link = {.size = sizeof(link)};
    gpud_sender_list_links(sender, &link, 1);
    CHECK(link.degraded == degraded && got.degraded == degraded,
          "%s is degraded: %d to the sender, %d to the receiver, and %d is right", wanted,
          link.degraded, got.degraded, degraded);
    SEND_LENT(sender, &layout, 1);
    AUTO(gpud_frame_release) struct gpud_frame *frame = ACQUIRE_FRAME(receiver, 20 * GPUD_SEC);
}

/* What is said of GPUs that the sender's driver does not see, and of words that name no GPU: a peer
 * may write anything there. */
static void check_strangers(struct gpud_context *context, const char *kind)
{
    static const struct {
        const char *pci, *says;
    } strangers[] = {
        {"face:09:00.0", "the sender's driver does not see the receiver's GPU at face:09:00.0: do "
                         "not hide it"},
        {"../../../%n", "does not see the receiver's GPU at ../../../%n: "},
        {"face:01:00.0", ""}, /* the sender's own */
        {"", ""},
    };
    struct gpud_endpoint end;
    char name[16], why[GPUD_REASON_MAX];
    gpud_print(name, "%s:0", kind);
    AUTO(gpud_device_close) struct gpud_device *device = OPEN_DEVICE(context, name);
    for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
        gpud_endpoint_describe(&end, device, NULL);
        gpud_print(end.pci, "%s", strangers[i].pci);
        end.uuid[0] ^= 1;
        CHECK(gpud_route_explain_link(device, &end, why) ==
                  (strangers[i].says[0] ? GPUD_DEGRADED_HIDDEN : GPUD_DEGRADED_NO),
              "a GPU at \"%s\" is not hidden", end.pci);
        CHECK(!why[0] == !strangers[i].says[0] && strstr(why, strangers[i].says),
              "of a GPU at \"%s\" it says \"%s\"", end.pci, why);
        end.host[0] ^= 1;
        gpud_route_explain_link(device, &end, why);
        CHECK(!why[0], "of another machine's it says \"%s\"", why);
    }
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/gpud-distance-XXXXXX", machine[64], command[96], both[256];
    char driver[64];
    const struct place *place = NULL;
    for (size_t i = 0; argc == 5 && i < sizeof(places) / sizeof(places[0]); i++)
        if (strcmp(places[i].name, argv[2]) == 0)
            place = &places[i];
    CHECK(place, "give the machine's description, where the GPUs are, slow or shut, and a kind");
    const char *kind = argv[4];
    bool shut = strcmp(argv[3], "shut") == 0;
    CHECK(mkdtemp(folder), "mkdtemp: %s", strerror(errno));
    gpud_print(machine, "%s/machine.xml", folder);
    move_cards(argv[1], machine,
               (const char *const[][2]){{"0000:02:00.0", "face:01:00.0"},
                                        {place->second, "face:02:00.0"},
                                        {NULL, NULL}});
    for (int card = 1; card <= 2; card++) { /* PCIe 4.0 with 16 lanes: 15.8 GB/s by the detour */
        char path[128], target[128];
        gpud_print(path, "sys/devices/pciface:0%d/face:0%d:00.0/max_link_speed", card, card);
        set_file(folder, path, "16.0 GT/s PCIe");
        gpud_print(path, "sys/devices/pciface:0%d/face:0%d:00.0/max_link_width", card, card);
        set_file(folder, path, "16");
        gpud_print(path, "sys/bus/pci/devices/face:0%d:00.0", card);
        gpud_print(target, "../../../devices/pciface:0%d/face:0%d:00.0", card, card);
        set_link(folder, path, target);
    }
    setenv("HWLOC_XMLFILE", machine, 1);
    setenv("HWLOC_THISSYSTEM", "0", 1);
    setenv(shut ? "GPUD_FAKE_CUDA_PEERS" : "GPUD_FAKE_CUDA_PEER_MBPS", shut ? "0" : "500", 1);
    gpud_sysfs_root = folder;
    runtime_make();

    struct gpud_context *context = NEW_CONTEXT();
    gpud_print(both, "; %s:0 (face:01:00.0) and the receiver's %s:1 (face:02:00.0) %s", kind, kind,
               place->says);
    gpud_print(driver, " lets %s:0 not write to %s:1", kind, kind);
    SAY("a link on one GPU does not wait for the machine to be read");
    link_two(context, kind, 0, "map", GPUD_DEGRADED_NO, (const char *[]){"", ""});
    CHECK(loads == 0, "the machine is read for a link on one GPU");
    check_strangers(context, kind);
    SAY("GPUs that %s", place->says);
    const char *says[] = {driver, both};
    if (!shut && place->far)
        says[0] = "measured, where staged should reach 15.8";
    if (shut || place->far)
        link_two(context, kind, 1, "staged", shut ? GPUD_DEGRADED_PEER_ACCESS : GPUD_DEGRADED_NO,
                 says);
    else
        link_two(context, kind, 1, "peer", GPUD_DEGRADED_NO, (const char *[]){"map: ", ""});
    CHECK(loads == 1, "the machine is read %u times for two GPUs", loads);
    gpud_context_destroy(&context);
    runtime_done();
    gpud_print(command, "rm -r %s", folder);
    CHECK(system(command) == 0, "%s", command);
    return 0;
}
