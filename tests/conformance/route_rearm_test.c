/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A signal must never wrap: long before, the sender begins a new epoch. This program is linked with
 * a core whose signals are good for ten frames only, in every process of the test. No frame may be
 * lost over it, and the application must not be told of a format that did not change more often
 * than epochs changed. */
#include "stream/sender/sender.h"
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"

_Static_assert(GPUD_SIGNAL_LIMIT == 10, "this test needs a core whose signals are soon used up");

#define FRAMES 200

int main(int argc, char **argv)
{
    peer_main(argc, argv);
    test_alarm(80);
    runtime_make();
    struct gpud_device *device;
    struct gpud_error error = {.reason = ""};
    struct gpud_context *context = NEW_CONTEXT();
    if (gpud_device_open(context, "opencl:0", &device, &error) == GPUD_NO_DEVICE) {
        runtime_done();
        SKIP("%s", error.reason);
    }
    gpud_device_close(&device);
    struct baseline before = baseline_take();
    struct gpud_sender *sender =
        NEW_SENDER(context, .address = "rearm", .device = "opencl:0", .route = "directgma");
    struct gpud_layout layout = LAYOUT("UYVY", 320, 181, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    struct peer peers[2];
    struct peer_orders orders = {.address = "rearm", .device = "opencl:0", .hold = 1};
    for (int i = 0; i < 2; i++)
        peer_start(&peers[i], &orders);
    WORKS(gpud_sender_wait(sender, 2, 30 * GPUD_SEC, &e));
    for (uint64_t number = 1; number <= FRAMES; number++)
        SEND_LENT(sender, &layout, number);
    WORKS(gpud_sender_send_eos(sender, &e));
    for (int i = 0; i < 2; i++) {
        PEER_UNTIL("the end", 20000, atomic_load(&peers[i].board->ends) == 1);
        PEER_FINISH(&peers[i]);
        const struct peer_board *board = peers[i].board;
        CHECK_EQUAL(board->frames, FRAMES);
        CHECK_EQUAL(board->gaps, 0);
        CHECK_EQUAL(board->info.dropped, 0);
        CHECK_EQUAL(board->lost, 0);
        unsigned epochs = 0;
        for (unsigned k = 0; k < board->notes; k++)
            epochs += board->note[k].event == GPUD_EVENT_FORMAT;
        CHECK(epochs >= FRAMES / 11 && epochs <= FRAMES / 5, "%u epochs for %d frames", epochs,
              FRAMES);
        SAY("receiver %d: %d frames over %u epochs, none lost", i, FRAMES, epochs);
        peer_forget(&peers[i]);
    }
    gpud_sender_destroy(&sender);
    BASELINE_CHECK(before);
    gpud_context_destroy(&context);
    runtime_done();
    return 0;
}
