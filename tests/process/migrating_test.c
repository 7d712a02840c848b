/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A group of a main and a backup sender whose slots move to the receiver's device and back (the
 * route migrate): the main one ends, comes back and changes its format while its slots are away,
 * and no instant is lost or repeated.
 *     migrating_test SENDERS RECEIVER */
#include "actor.h"

#define INSTANT (20 * GPUD_MSEC)
#define HELD 2 /* frames that stay with the application: their slots are away */

static struct {
    struct gpud_context *context;
    const char *devices[2];
    struct gpud_sender *senders[2];
    struct gpud_receiver *receivers[2];
    struct gpud_group *group;
    struct gpud_layout layouts[2];
    struct gpud_frame *held[HELD];
    uint64_t number;
    unsigned from[2];
} scene;

static void open_sender(int which)
{
    scene.senders[which] =
        NEW_SENDER(scene.context, .address = which ? "migrating-backup" : "migrating-main",
                   .device = scene.devices[0], .slots = 6);
    WORKS(gpud_sender_configure(scene.senders[which], PICTURE(&scene.layouts[which]), &e));
}

static void take(void)
{
    struct gpud_group_instant got = GPUD_INFO_INIT(got);
    WORKS(gpud_group_acquire(scene.group, NULL, 60 * GPUD_SEC, &got, &e));
    struct gpud_frame *frame = got.frames[got.member];
    struct gpud_frame_info info = INFO(frame, frame);
    CHECK_EQUAL(info.offset, scene.number);
    CHECK(scene.number == 1 || !got.discontinuity, "instant %llu is a discontinuity",
          (unsigned long long)scene.number);
    CHECK(!(info.flags & GPUD_FRAME_CORRUPTED), "a broken picture");
    FRAME_CHECK(frame, &info.layout, scene.number);
    scene.from[got.member]++;
    struct gpud_frame **place = &scene.held[scene.number % HELD];
    gpud_frame_release(place);
    *place = frame;
}

/* Instants of those that are there. */
static void exchange(unsigned count)
{
    while (count-- > 0) {
        scene.number++;
        for (int i = 0; i < 2; i++)
            if (scene.senders[i]) {
                struct gpud_frame *frame = ACQUIRE_SLOT(scene.senders[i], 60 * GPUD_SEC);
                frame_write(frame, &scene.layouts[i], scene.number);
                struct gpud_frame_info info = INFO(frame, frame);
                info.pts_ns = scene.number * INSTANT;
                info.duration_ns = INSTANT;
                WORKS(gpud_frame_set_info(frame, &info, &e));
                WORKS(gpud_sender_submit(scene.senders[i], &frame, 60 * GPUD_SEC, &e));
            }
        take();
    }
}

static void await(int which)
{
    WORKS(gpud_sender_wait(scene.senders[which], 1, 20 * GPUD_SEC, &e));
    CHECK(strcmp(INFO(receiver, scene.receivers[which]).path, "migrate") == 0,
          "the route is %s: %s", INFO(receiver, scene.receivers[which]).path,
          INFO(receiver, scene.receivers[which]).fallback_reason);
}

/* It ends while frames of it are held, with or without an end of the stream. */
static void come_back(int which, bool in_order)
{
    if (in_order)
        WORKS(gpud_sender_send_eos(scene.senders[which], &e));
    gpud_sender_destroy(&scene.senders[which]);
    exchange(5);
    open_sender(which);
    PEER_UNTIL("the group comes back", 20000,
               gpud_sender_wait(scene.senders[which], 1, 0, NULL) == GPUD_OK);
    exchange(5);
    await(which);
}

int main(int argc, char **argv)
{
    static const char *const addresses[] = {"migrating-main", "migrating-backup"};
    struct gpud_error why;
    struct gpud_device *opened;
    test_alarm(110);
    runtime_make();
    scene.devices[0] = argc > 2 ? argv[1] : "opencl:0";
    scene.devices[1] = argc > 2 ? argv[2] : "opencl:1";
    scene.context = NEW_CONTEXT();
    for (int i = 0; i < 2; i++) {
        if (gpud_device_open(scene.context, scene.devices[i], &opened, &why) != GPUD_OK)
            SKIP("%s", why.reason);
        gpud_device_close(&opened);
        scene.layouts[i] = LAYOUT("UYVY", 64, 36, 0);
    }
    for (int i = 0; i < 2; i++) {
        open_sender(i);
        scene.receivers[i] = NEW_RECEIVER(scene.context, .address = addresses[i],
                                          .device = scene.devices[1], .slots = 6);
    }
    scene.group = NEW_GROUP(scene.context, scene.receivers, 2, .mode = GPUD_GROUP_ANY);
    for (int i = 0; i < 2; i++)
        await(i);
    exchange(10);
    for (int round = 0; round < 8; round++) {
        come_back(round % 2, round & 2);
        scene.layouts[round % 2] = LAYOUT("UYVY", round % 4 < 2 ? 128 : 64, 36, 0);
        WORKS(gpud_sender_configure(scene.senders[round % 2], PICTURE(&scene.layouts[round % 2]),
                                    &e));
        exchange(5);
    }
    CHECK(scene.from[0] > 10 && scene.from[1] > 10, "%u of the main, %u of the backup",
          scene.from[0], scene.from[1]);
    for (int i = 0; i < HELD; i++)
        gpud_frame_release(&scene.held[i]);
    gpud_group_destroy(&scene.group);
    for (int i = 0; i < 2; i++) {
        gpud_receiver_destroy(&scene.receivers[i]);
        gpud_sender_destroy(&scene.senders[i]);
    }
    gpud_context_destroy(&scene.context);
    return runtime_done();
}
