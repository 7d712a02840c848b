/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver whose driver refuses the sender's memory, at the first format or at a later one, gets
 * its frames through the host, beside one that maps them. The first frame of the format is
 * submitted while the two still agree on that. Linked with --wrap=gpud_vulkan_import. */
#include "device/vulkan/vulkan.h"

#include "support/check.h"
#include "support/make.h"
#include "support/peer.h"

#define FRAMES 8
/* How many imports a driver accepts: Vulkan's here, the fake one of CUDA by a fault of its own. */
#define IMPORTS "GPUD_TEST_IMPORTS"
#define FAULT "GPUD_FAKE_CUDA_FAIL"

static const char *device;
static char name[32]; /* of the address: each device's test has its own */

enum gpud_status __real_gpud_vulkan_import(struct gpud_memory *memory,
                                           const struct gpud_handle *handle,
                                           struct gpud_error *error);
enum gpud_status __wrap_gpud_vulkan_import(struct gpud_memory *memory,
                                           const struct gpud_handle *handle,
                                           struct gpud_error *error);

enum gpud_status __wrap_gpud_vulkan_import(struct gpud_memory *memory,
                                           const struct gpud_handle *handle,
                                           struct gpud_error *error)
{
    static atomic_int count;
    const char *limit = getenv(IMPORTS);
    if (limit && atomic_fetch_add(&count, 1) >= atoi(limit))
        return gpud_fail(error, GPUD_PEER, "the driver of this test imports no more");
    return __real_gpud_vulkan_import(memory, handle, error);
}

#define UNLIMITED 1000

static void set_limit(int imports)
{
    char limit[64];
    snprintf(limit, sizeof(limit), "%d", imports);
    setenv(IMPORTS, limit, 1);
    snprintf(limit, sizeof(limit), "cuMemImportFromShareableHandle:%d+=2", imports + 1);
    setenv(FAULT, limit, 1);
}

static void start(struct peer *peer, int imports)
{
    struct peer_orders orders = {0};
    snprintf(orders.device, sizeof(orders.device), "%s", device);
    snprintf(orders.address, sizeof(orders.address), "%s", peer_address(name));
    set_limit(imports);
    peer_start(peer, &orders);
    set_limit(UNLIMITED);
}

static void send(struct gpud_sender *sender, uint32_t width, uint64_t *number)
{
    struct gpud_layout layout = LAYOUT("UYVY", width, 90, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    for (int i = 0; i < FRAMES; i++)
        SEND_LENT(sender, &layout, ++*number);
}

static uint64_t count_copies(struct gpud_sender *sender)
{
    struct gpud_sender_info info = INFO(sender, sender);
    return info.copies_cpu + info.copies_gpu;
}

/* Returns how many of the three formats went through the host. */
static int run(int imports)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    AUTO(gpud_sender_destroy)
    struct gpud_sender *sender = NEW_SENDER(context, .address = peer_address(name),
                                            .device = device, .slow_receiver = GPUD_SLOW_BLOCK);
    struct gpud_layout layout = LAYOUT("UYVY", 160, 90, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    /* The ring has its full size before the driver refuses: growing ends a link. */
    struct peer peer[2];
    start(&peer[0], UNLIMITED);
    WORKS(gpud_sender_wait(sender, 1, 30 * GPUD_SEC, &e));
    start(&peer[1], imports);
    WORKS(gpud_sender_wait(sender, 2, 30 * GPUD_SEC, &e));

    uint64_t number = 0;
    int staged = 0;
    for (uint32_t width = 160; width <= 320; width += 80) {
        uint64_t copies = count_copies(sender);
        send(sender, width, &number);
        staged += count_copies(sender) > copies;
    }
    for (int i = 0; i < 2; i++) {
        PEER_UNTIL("the last frame", 30000, atomic_load(&peer[i].board->last) == number);
        PEER_FINISH(&peer[i]);
        CHECK_EQUAL(peer[i].board->frames, number);
        CHECK_EQUAL(peer[i].board->gaps, 0);
        peer_forget(&peer[i]);
    }
    return staged;
}

static void skip_without_device(void)
{
    AUTO(gpud_context_destroy) struct gpud_context *context = NEW_CONTEXT();
    AUTO(gpud_device_close) struct gpud_device *opened = NULL;
    struct gpud_error error;
    enum gpud_status status = gpud_device_open(context, device, &opened, &error);
    if (status == GPUD_NO_DEVICE)
        SKIP("%s", error.reason);
    CHECK(status == GPUD_OK, "%s", error.reason);
}

int main(int argc, char **argv)
{
    peer_main(argc, argv);
    test_alarm(240);
    CHECK(argc == 2, "name a device");
    device = argv[1];
    snprintf(name, sizeof(name), "fallback-%.4s", device);
    set_limit(0); /* of this process, the sender's */
    skip_without_device();
    int seen = 0;
    for (int imports = 0;; imports++) {
        int staged = run(imports);
        SAY("%d imports: %d of three formats go through the host", imports, staged);
        seen |= 1 << staged;
        if (staged == 0)
            break;
    }
    CHECK(seen == 15, "the driver refused at %x formats, not at each of them", seen);
    return 0;
}
