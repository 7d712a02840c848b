/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A received frame is sent on as it is: relay <first> <between> <last> names the devices of a
 * sender, of a receiver and the sender behind it, and of the last receiver. What arrives is what
 * was sent, although nobody in between waits for it or looks at it, and although the first ring is
 * so small that a slot given back too early is written again at once. */
#include "base/clock.h"
#include "support/check.h"
#include "support/picture.h"
#include <gpudirect/gpudirect.h>

#define FRAMES 40

enum how { CONSUMED, KEPT, SECOND };

struct relay {
    struct gpud_context *context;
    struct gpud_layout layout;
    struct gpud_sender *first, *next;
    struct gpud_receiver *between, *last;
};

/* --- links -------------------------------------------------------------------------------- */

static struct gpud_sender *open_sender(struct relay *relay, const char *address, const char *device)
{
    struct gpud_sender_params params = GPUD_PARAMS_INIT(params);
    struct gpud_sender *sender;
    params.address = address;
    params.device = device;
    params.slots = 2;
    WORKS(gpud_sender_create(relay->context, &params, &sender, &e));
    WORKS(gpud_sender_configure(sender, &relay->layout, NULL, 0, &e));
    return sender;
}

/* The receiver's part of a handshake is done where it waits for a frame. */
static struct gpud_receiver *open_receiver(struct relay *relay, const char *address,
                                           const char *device, struct gpud_sender *sender)
{
    struct gpud_receiver_params params = GPUD_PARAMS_INIT(params);
    struct gpud_sender_info info = {0};
    struct gpud_receiver *receiver;
    params.address = address;
    params.device = device;
    params.slots = 2;
    WORKS(gpud_receiver_create(relay->context, &params, &receiver, &e));
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
    struct gpud_context *context;
    struct gpud_device *device;
    struct gpud_error error;
    WORKS(gpud_context_create(NULL, &context, &e));
    for (int i = 0; i < 3; i++) {
        if (gpud_device_open(context, devices[i], &device, &error) != GPUD_OK)
            SKIP("%s", error.reason);
        gpud_device_close(&device);
    }
    gpud_context_destroy(&context);
}

static void open_relay(struct relay *relay, char **devices)
{
    WORKS(gpud_context_create(NULL, &relay->context, &e));
    WORKS(gpud_layout_init(&relay->layout, "UYVY", 1920, 1080, 0, &e));
    relay->first = open_sender(relay, "relay-1", devices[0]);
    relay->between = open_receiver(relay, "relay-1", devices[1], relay->first);
    relay->next = open_sender(relay, "relay-2", devices[1]);
    relay->last = open_receiver(relay, "relay-2", devices[2], relay->next);
}

static void close_relay(struct relay *relay)
{
    gpud_receiver_destroy(&relay->last);
    gpud_sender_destroy(&relay->next);
    gpud_receiver_destroy(&relay->between);
    gpud_sender_destroy(&relay->first);
    gpud_context_destroy(&relay->context);
}

/* --- frames ------------------------------------------------------------------------------- */

static void send_picture(struct relay *relay, uint64_t number)
{
    struct gpud_frame *frame;
    struct gpud_frame_info info;
    void *data;
    WORKS(gpud_sender_acquire(relay->first, 20 * GPUD_SEC, &frame, &e));
    WORKS(gpud_frame_map(frame, GPUD_WRITE, 20 * GPUD_SEC, &data, &e));
    picture_write(&relay->layout, data, number);
    gpud_frame_unmap(frame);
    gpud_frame_get_info(frame, &info);
    info.offset = number;
    WORKS(gpud_frame_set_info(frame, &info, &e));
    WORKS(gpud_sender_submit(relay->first, &frame, false, 20 * GPUD_SEC, &e));
}

static void release_first(void *user)
{
    struct gpud_frame *frame = user;
    gpud_frame_release(&frame);
}

static void send_on(struct relay *relay, enum how how, uint64_t number)
{
    struct gpud_frame *frame, *second;
    struct gpud_frame_info info;
    WORKS(gpud_receiver_acquire(relay->between, 20 * GPUD_SEC, &frame, &e));
    gpud_frame_get_info(frame, &info);
    CHECK_EQUAL(info.offset, number);
    switch (how) {
    case CONSUMED:
        WORKS(gpud_sender_submit(relay->next, &frame, false, 20 * GPUD_SEC, &e));
        CHECK(!frame, "a frame that was consumed is still there");
        break;
    case KEPT:
        WORKS(gpud_sender_submit(relay->next, &frame, true, 20 * GPUD_SEC, &e));
        gpud_frame_release(&frame);
        break;
    case SECOND:
        WORKS(gpud_frame_wrap_frame(frame, NULL, release_first, frame, &second, &e));
        info.offset = number;
        WORKS(gpud_frame_set_info(second, &info, &e));
        WORKS(gpud_sender_submit(relay->next, &second, false, 20 * GPUD_SEC, &e));
        break;
    }
}

static void check_last(struct relay *relay, uint64_t number)
{
    struct gpud_frame *frame;
    struct gpud_frame_info info;
    uint32_t plane, row, byte;
    void *data;
    WORKS(gpud_receiver_acquire(relay->last, 20 * GPUD_SEC, &frame, &e));
    gpud_frame_get_info(frame, &info);
    CHECK_EQUAL(info.offset, number);
    CHECK(!(info.flags & GPUD_FRAME_CORRUPTED), "frame %llu is flagged",
          (unsigned long long)number);
    WORKS(gpud_frame_map(frame, GPUD_READ, 20 * GPUD_SEC, &data, &e));
    CHECK(picture_check(&relay->layout, data, number, &plane, &row, &byte),
          "frame %llu: byte %u of row %u of plane %u is wrong", (unsigned long long)number, byte,
          row, plane);
    gpud_frame_unmap(frame);
    gpud_frame_release(&frame);
}

/* Two frames are on their way at a time: while one is copied on, the next one comes. */
static void run(struct relay *relay, enum how how, uint64_t *number)
{
    uint64_t from = *number + 1, to = *number + FRAMES;
    for (uint64_t n = from; n <= to; n++) {
        send_picture(relay, n);
        send_on(relay, how, n);
        if (n > from)
            check_last(relay, n - 1);
    }
    check_last(relay, to);
    *number = to;
}

/* The relay's sender on a GPU never copies by the CPU. */
static void check_copies(struct relay *relay, const char *device)
{
    struct gpud_sender_info info;
    gpud_sender_get_info(relay->next, &info);
    if (strcmp(device, "host") != 0)
        CHECK_EQUAL(info.copies_cpu, 0);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {
        [CONSUMED] = "consumed", [KEPT] = "kept", [SECOND] = "a second frame"};
    struct relay relay;
    uint64_t number = 0;
    char directory[] = "/tmp/gpudirect-relay-XXXXXX";
    CHECK(argc == 4, "usage: relay <first> <between> <last>");
    need_devices(argv + 1);
    CHECK(mkdtemp(directory), "no directory for sockets");
    setenv("XDG_RUNTIME_DIR", directory, 1);
    open_relay(&relay, argv + 1);
    for (enum how how = CONSUMED; how <= SECOND; how++) {
        SAY("%s → %s → %s: %s", argv[1], argv[2], argv[3], names[how]);
        run(&relay, how, &number);
    }
    check_copies(&relay, argv[2]);
    close_relay(&relay);
    char inside[64];
    snprintf(inside, sizeof(inside), "%s/gpudirect", directory);
    rmdir(inside);
    rmdir(directory);
    return 0;
}
