/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Of several GPUs of a kind the one is taken that is nearest to a card: the machine of
 * topology.xml, with cuda:0 on the second socket, cuda:1 beside a switch on the first, and cuda:2
 * and cuda:3 behind it, as is a network card. */
#include "topology/topology.h"

#include "base/base.h"
#include "capture/capture.h"
#include "support/check.h"
#include "support/host.h"
#include "support/make.h"
#include "support/peer.h"
#include "wire/wire.h"
#include <gpudirect/receiver.h>

#include <errno.h>

#define NETWORK "0000:03:00.1" /* behind the switch */
#define CAPTURE "0000:04:00.1" /* beside it */

/* Where the GPUs of the driver in host memory are. */
static const char *const places[][2] = {{"0000:82:00.0", "face:01:00.0"},
                                        {"0000:04:00.0", "face:02:00.0"},
                                        {"0000:03:00.0", "face:03:00.0"},
                                        {"0000:02:00.0", "face:04:00.0"},
                                        {NULL, NULL}};

static void check_near(struct gpud_context *context, const char *name, const char *pci,
                       const char *wanted, const char *says)
{
    AUTO(gpud_device_close) struct gpud_device *device = NULL;
    char reason[GPUD_REASON_MAX] = "untouched";
    WORKS(gpud_device_open_near(context, name, pci, "the card", &device, reason, &e));
    CHECK(strcmp(device->info.name, wanted) == 0, "%s near \"%s\" is %s, not %s",
          name ? name : "host", pci, device->info.name, wanted);
    CHECK(says[0] ? strstr(reason, says) != NULL : !reason[0], "it says \"%s\"", reason);
}

static void check_refused(struct gpud_context *context, const char *name)
{
    struct gpud_device *device = NULL;
    char reason[GPUD_REASON_MAX] = "untouched";
    struct gpud_error e = {.reason = ""};
    CHECK(gpud_device_open_near(context, name, NETWORK, "the card", &device, reason, &e) !=
                  GPUD_OK &&
              !device && strlen(e.reason) > 10 && strcmp(reason, "untouched") == 0,
          "%s is refused with \"%s\"", name, e.reason);
}

static void check_nearest(struct gpud_context *context, const char *kind, const char *address,
                          const char *wanted)
{
    struct gpud_device_info info = GPUD_INFO_INIT(info);
    char reason[GPUD_REASON_MAX] = "untouched";
    WORKS(gpud_device_get_nearest(context, kind, address, &info, reason, &e));
    CHECK(strcmp(info.name, wanted) == 0 && strstr(reason, wanted), "near %s is %s: \"%s\"",
          address, info.name, reason);
    CHECK(info.available && (info.pci[0] || strcmp(wanted, "host") == 0), "%s is at \"%s\"",
          info.name, info.pci);
}

/* The choice of a sender and of a receiver, and their reasons. */
static void check_opened(struct gpud_context *context, const char *device, const char *address,
                         const char *wanted, const char *says)
{
    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = address, .device = device);
    struct gpud_receiver_info got = INFO(receiver, receiver);
    CHECK(strcmp(got.device, wanted) == 0 && !got.device_reason[0] == !says[0] &&
              strstr(got.device_reason, says),
          "a receiver from %s has %s: \"%s\"", address, got.device, got.device_reason);
    gpud_receiver_destroy(&receiver);
    if (strstr(address, "://"))
        return;
    struct gpud_sender *sender = NEW_SENDER(context, .address = address, .device = device);
    struct gpud_sender_info sent = INFO(sender, sender);
    CHECK(strcmp(sent.device, wanted) == 0 && !sent.device_reason[0] == !says[0] &&
              strstr(sent.device_reason, says),
          "a sender on %s has %s: \"%s\"", address, sent.device, sent.device_reason);
    gpud_sender_destroy(&sender);
}

static void check_addresses(struct gpud_context *context)
{
    SAY("the nearest to what an address leads over");
    struct gpud_device_info info = GPUD_INFO_INIT(info);
    char reason[GPUD_REASON_MAX];
    check_nearest(context, "cuda", "v4l2:///dev/video7", "cuda:1");
    check_nearest(context, "cuda", "v4l2:///dev/video8", "cuda:0");
    check_nearest(context, "cuda", "cam1", "cuda:0");
    check_nearest(context, "auto", "v4l2:///dev/video7", "cuda:1");
    check_nearest(context, "auto", "v4l2:///dev/video8", "host");
    check_nearest(context, "auto", "cam1", "host");
    check_nearest(context, "auto", NETWORK, "cuda:2");
    check_nearest(context, "cuda", CAPTURE, "cuda:1");
    check_nearest(context, "auto", "0000:77:00.0", "host");
    check_opened(context, "auto", "cam1", "host", "host: cam1 leads over no card");
    check_opened(context, "cuda", "cam1", "cuda:0", "");
    check_opened(context, NULL, "cam1", "host", "");
    check_opened(context, "cuda:3", "cam1", "cuda:3", "");
#ifdef GPUD_WITH_RDMA
    check_nearest(context, "cuda", "rdma://127.0.0.1", "cuda:2");
    check_nearest(context, "auto", "rdma://127.0.0.1", "cuda:2");
    check_opened(context, "auto", "rdma://127.0.0.1", "cuda:2",
                 "cuda:2 is behind the same PCIe switch as rdma://127.0.0.1 (PIX); cuda:");
    check_opened(context, "cuda", "rdma://127.0.0.1", "cuda:2", "cuda:2 is behind");
    check_opened(context, NULL, "rdma://127.0.0.1", "host", "");
#endif
    EXPECT(GPUD_NO_DEVICE, "no device \"none:0\"",
           gpud_device_get_nearest(context, "none", "cam1", &info, reason, &e));
    EXPECT(GPUD_INVALID, "give a kind",
           gpud_device_get_nearest(context, "", "cam1", &info, reason, &e));
    EXPECT(GPUD_INVALID, "", gpud_device_get_nearest(context, "cuda", "a/b/c", &info, reason, &e));
}

static void check_cards(const char *folder)
{
    SAY("which card is behind a capture node, and behind an address");
    char pci[GPUD_SYSFS_PCI_MAX], node[64];
    set_file(folder, "sys/devices/pci0000:00/0000:00:01.0/" NETWORK "/vendor", "0x15b3");
    set_file(folder, "sys/devices/pci0000:00/" CAPTURE "/vendor", "0xbdbd");
    set_link(folder, "sys/class/video4linux/video7/device", "../../../devices/pci0000:00/" CAPTURE);
    gpud_capture_find_card("/dev/video7", pci, sizeof(pci));
    CHECK(strcmp(pci, CAPTURE) == 0, "/dev/video7 is \"%s\"", pci);
    gpud_capture_find_card("/dev/video8", pci, sizeof(pci));
    CHECK(!pci[0], "/dev/video8 is \"%s\"", pci);
    set_file(folder, "video7", "");
    set_link(folder, "by-id-of-the-card", "video7"); /* as udev's names are */
    gpud_print(node, "%s/by-id-of-the-card", folder);
    gpud_capture_find_card(node, pci, sizeof(pci));
    CHECK(strcmp(pci, CAPTURE) == 0, "%s is \"%s\"", node, pci);

    struct gpud_address address;
    WORKS(gpud_address_resolve("cam1", &address, &e));
    gpud_address_find_card(&address, pci, sizeof(pci));
    CHECK(!pci[0], "a name on this host leads over \"%s\"", pci);
#ifdef GPUD_WITH_RDMA
    set_link(folder, "sys/class/net/lo/device",
             "../../../devices/pci0000:00/0000:00:01.0/" NETWORK);
    static const struct {
        const char *text, *pci;
    } addresses[] = {{"rdma://127.0.0.1", NETWORK},
                     {"rdma://127.0.0.1:7175/cam1", NETWORK},
                     {"rdma://0.0.0.0", ""},
                     {"rdma://host.example", ""}};
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        WORKS(gpud_address_resolve(addresses[i].text, &address, &e));
        gpud_address_find_card(&address, pci, sizeof(pci));
        CHECK(strcmp(pci, addresses[i].pci) == 0, "%s leads over \"%s\"", addresses[i].text, pci);
    }
#endif
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/gpud-near-XXXXXX", machine[64], command[96];
    CHECK(argc >= 2, "give the machine's description");
    const char *trouble = argc > 2 ? argv[2] : "";
    CHECK(mkdtemp(folder), "mkdtemp: %s", strerror(errno));
    gpud_print(machine, "%s/machine.xml", folder);
    move_cards(argv[1], machine, places);
    setenv("HWLOC_XMLFILE", machine, 1);
    setenv("HWLOC_THISSYSTEM", "0", 1);
    setenv("GPUD_FAKE_CUDA_DEVICES", "4", 1);
    gpud_sysfs_root = folder;
    if (strcmp(trouble, "none") == 0)
        setenv("CUDA_VISIBLE_DEVICES", "", 1);
    if (strcmp(trouble, "refused") == 0)
        setenv("GPUD_FAKE_CUDA_FAIL", "cuDevicePrimaryCtxRetain:1+", 1);
    runtime_make();

    struct gpud_context *context = NEW_CONTEXT();
    if (trouble[0]) {
        SAY("where there is no GPU to be had, what is left to us is the host");
        check_near(context, "auto", NETWORK, "host",
                   strcmp(trouble, "none") == 0 ? "host: there is no GPU here"
                                                : "host: cuda:2 cannot be opened: ");
        check_refused(context, "cuda");
        gpud_context_destroy(&context);
        goto done;
    }
    SAY("behind the same switch before beside it before across sockets");
    check_near(context, "cuda", NETWORK, "cuda:2",
               "cuda:2 is behind the same PCIe switch as the card (PIX); cuda:");
    check_near(context, "cuda", CAPTURE, "cuda:1",
               "cuda:1 is below the same PCIe host bridge as the card (PHB); cuda:0 is in another "
               "NUMA node than it (SYS)");
    SAY("what is not known is no reason for another one than the first");
    check_near(context, "cuda", "", "cuda:0", "it is not known how near");
    check_near(context, "cuda", "0000:77:00.0", "cuda:0", "it is not known how near");
    SAY("a device that is named is taken");
    check_near(context, "cuda:1", NETWORK, "cuda:1", "");
    check_near(context, "host", NETWORK, "host", "");
    SAY("left to us, it is the nearest GPU, and the host where none is near");
    check_near(context, "auto", NETWORK, "cuda:2",
               "cuda:2 is behind the same PCIe switch as the card (PIX); cuda:");
    check_near(context, "auto", CAPTURE, "cuda:1", "cuda:1 is below the same PCIe host bridge as");
    check_near(context, "auto", "", "host", "host: the card leads over no card");
    check_near(context, "auto", "0000:77:00.0", "host", "host: it is not known how near a GPU is");
    check_near(context, NULL, NETWORK, "host", "");
    check_refused(context, "cuda:9");
    check_refused(context, "cud");
    check_refused(context, "");
    check_cards(folder);
    check_addresses(context);
    gpud_context_destroy(&context);
done:
    runtime_done();
    gpud_print(command, "rm -r %s", folder);
    CHECK(system(command) == 0, "%s", command);
    return 0;
}
