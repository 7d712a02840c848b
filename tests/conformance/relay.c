/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "relay.h"

#include "support/make.h"
#include "support/peer.h"

#include "base/base.h"
#include "support/check.h"
#include "support/media.h"
#include "support/picture.h"

/* --- links -------------------------------------------------------------------------------- */

static struct gpud_sender *open_sender(struct relay *relay, const char *address, const char *device)
{
    struct gpud_sender *sender = NEW_SENDER(relay->context, .address = peer_address(address),
                                            .psk_file = peer_key(), .device = device, .slots = 2);
    WORKS(gpud_sender_configure(sender, PICTURE(&relay->layout), &e));
    return sender;
}

/* The receiver's part of a handshake is done where it waits for a frame. */
static struct gpud_receiver *open_receiver(struct relay *relay, const char *address,
                                           const char *device, struct gpud_sender *sender)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    struct gpud_receiver *receiver =
        NEW_RECEIVER(relay->context, .address = peer_address(address), .psk_file = peer_key(),
                     .device = device, .slots = 2);
    for (int64_t deadline = gpud_deadline(20 * GPUD_SEC); info.receivers == 0;) {
        struct gpud_frame *frame;
        EXPECT(GPUD_TIMEOUT, "", gpud_receiver_acquire(receiver, 20 * GPUD_MSEC, &frame, &e));
        gpud_sender_get_info(sender, &info);
        CHECK(gpud_now() < deadline, "the link to %s is not made within 20 s", device);
    }
    return receiver;
}

static void need_devices(char **devices)
{
    struct gpud_device *device;
    struct gpud_error error;
    struct gpud_context *context = NEW_CONTEXT();
    for (int i = 0; i < 3; i++) {
        if (gpud_device_open(context, devices[i], &device, &error) != GPUD_OK)
            SKIP("%s", error.reason);
        gpud_device_close(&device);
    }
    gpud_context_destroy(&context);
}

void relay_open(struct relay *relay, char **devices)
{
    need_devices(devices);
    snprintf(relay->directory, sizeof(relay->directory), "/tmp/gpudirect-relay-XXXXXX");
    CHECK(mkdtemp(relay->directory), "no directory for sockets");
    setenv("XDG_RUNTIME_DIR", relay->directory, 1);
    relay->context = NEW_CONTEXT();
    relay->layout = LAYOUT("UYVY", 1920, 1080, 0);
    relay->first = open_sender(relay, "relay-1", devices[0]);
    relay->between = open_receiver(relay, "relay-1", devices[1], relay->first);
    relay->next = open_sender(relay, "relay-2", devices[1]);
    relay->last = open_receiver(relay, "relay-2", devices[2], relay->next);
}

void relay_close(struct relay *relay)
{
    gpud_receiver_destroy(&relay->last);
    gpud_sender_destroy(&relay->next);
    gpud_receiver_destroy(&relay->between);
    gpud_sender_destroy(&relay->first);
    gpud_context_destroy(&relay->context);
    char inside[64];
    snprintf(inside, sizeof(inside), "%s/gpudirect", relay->directory);
    rmdir(inside);
    rmdir(relay->directory);
}

/* --- frames ------------------------------------------------------------------------------- */

void relay_send(struct relay *relay, uint64_t number)
{
    SEND_LENT(relay->first, &relay->layout, number);
}

void relay_check(struct relay *relay, uint64_t number)
{
    AUTO(gpud_frame_release) struct gpud_frame *frame = ACQUIRE_FRAME(relay->last, 20 * GPUD_SEC);
    struct gpud_frame_info info = INFO(frame, frame);
    CHECK(!(info.flags & GPUD_FRAME_CORRUPTED), "frame %llu is flagged",
          (unsigned long long)number);
    FRAME_CHECK(frame, &relay->layout, number);
}
