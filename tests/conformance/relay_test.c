/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A received frame is sent on as it is: relay <first> <between> <last> names the devices of a
 * sender, of a receiver and the sender behind it, and of the last receiver. What arrives is what
 * was sent, although nothing in between waits for it or reads it, and although the first ring is
 * so small that a slot given back too early is written again at once. */
#include "relay.h"

#include "support/copies.h"
#include "support/check.h"
#include "support/make.h"

#define FRAMES 40

enum how { CONSUMED, KEPT, SECOND };

static void release_first(void *user)
{
    struct gpud_frame *frame = user;
    gpud_frame_release(&frame);
}

static void send_on(struct relay *relay, enum how how, uint64_t number)
{
    struct gpud_frame *second;
    struct gpud_frame *frame = ACQUIRE_FRAME(relay->between, 20 * GPUD_SEC);
    struct gpud_frame_info info = INFO(frame, frame);
    CHECK_EQUAL(info.offset, number);
    switch (how) {
    case CONSUMED:
        WORKS(gpud_sender_submit(relay->next, &frame, 20 * GPUD_SEC, &e));
        CHECK(!frame, "a frame that was consumed is still there");
        break;
    case KEPT:
        WORKS(gpud_sender_submit_keep(relay->next, frame, 20 * GPUD_SEC, &e));
        gpud_frame_release(&frame);
        break;
    case SECOND:
        WORKS(gpud_frame_wrap_frame(frame, NULL, release_first, frame, &second, &e));
        info.offset = number;
        WORKS(gpud_frame_set_info(second, &info, &e));
        WORKS(gpud_sender_submit(relay->next, &second, 20 * GPUD_SEC, &e));
        break;
    }
}

/* Two frames are on their way at a time: while one is copied on, the next one comes. */
static void run(struct relay *relay, enum how how, uint64_t *number)
{
    uint64_t from = *number + 1, to = *number + FRAMES;
    for (uint64_t n = from; n <= to; n++) {
        relay_send(relay, n);
        send_on(relay, how, n);
        if (n > from)
            relay_check(relay, n - 1);
    }
    relay_check(relay, to);
    *number = to;
}

/* The relay's sender on a GPU never copies by the CPU. */
static void check_copies(struct relay *relay, const char *device)
{
    struct gpud_sender_info info = INFO(sender, relay->next);
    if (strcmp(device, "host") != 0)
        CHECK_EQUAL(info.copies_cpu, 0);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {
        [CONSUMED] = "consumed", [KEPT] = "kept", [SECOND] = "a second frame"};
    struct relay relay;
    uint64_t number = 0;
    copies_install_if_asked();
    CHECK(argc == 4, "usage: relay <first> <between> <last>");
    relay_open(&relay, argv + 1);
    for (enum how how = CONSUMED; how <= SECOND; how++) {
        SAY("%s → %s → %s: %s", argv[1], argv[2], argv[3], names[how]);
        run(&relay, how, &number);
    }
    check_copies(&relay, argv[2]);
    relay_close(&relay);
    return 0;
}
