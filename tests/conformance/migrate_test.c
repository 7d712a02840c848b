/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The route `migrate`, as an OpenCL driver sees it: each frame's slot begins to move when the frame
 * is submitted, goes to one device and home again, and is never moved by the driver itself. What
 * frames and streams must do by every route stands in route_test.c. */
#include "migrate_layer.h"
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"
#include "support/picture.h"

struct rig {
    struct gpud_context *context;
    struct gpud_device *host;
    struct gpud_sender *sender;
    struct gpud_layout layout;
    uint64_t number; /* of the last picture */
};

struct end {
    struct gpud_receiver *receiver;
    uint64_t seen; /* the last picture */
};

static void rig_open(struct rig *rig)
{
    *rig = (struct rig){0};
    layer_set_fault(LAYER_WORKS);
    rig->context = NEW_CONTEXT();
    rig->host = OPEN_DEVICE(rig->context, "host");
    rig->sender = NEW_SENDER(rig->context, .address = "migrate", .device = "opencl:0",
                             .slow_receiver = GPUD_SLOW_BLOCK);
    rig->layout = LAYOUT("UYVY", 640, 360, 0);
    WORKS(gpud_sender_configure(rig->sender, PICTURE(&rig->layout), &e));
}

static void rig_close(struct rig *rig)
{
    gpud_sender_destroy(&rig->sender);
    gpud_device_close(&rig->host);
    gpud_context_destroy(&rig->context);
}

/* Connects a receiver; the link's test is over then. */
static void end_open(struct rig *rig, const char *device, unsigned count, struct end *end)
{
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    *end = (struct end){0};
    end->receiver = NEW_RECEIVER(rig->context, .address = "migrate", .device = device);
    for (int64_t until = gpud_test_now() + 30 * GPUD_SEC; info.receivers < count;) {
        struct gpud_frame *frame;
        struct gpud_error error = {.reason = ""};
        enum gpud_status status = gpud_receiver_acquire(end->receiver, GPUD_MSEC, &frame, &error);
        CHECK(status == GPUD_TIMEOUT, "%s: %s", device, error.reason);
        CHECK(gpud_test_now() < until, "%s does not connect", device);
        gpud_sender_get_info(rig->sender, &info);
    }
}

static void check_path(const struct end *end, const char *path, const char *says)
{
    struct gpud_receiver_info info = INFO(receiver, end->receiver);
    CHECK(strcmp(info.path, path) == 0, "the route is %s (%s)", info.path, info.fallback_reason);
    CHECK(strstr(info.fallback_reason, says), "\"%s\" does not say \"%s\"", info.fallback_reason,
          says);
}

/* The next frame, whose every byte is right. */
static void take(struct rig *rig, struct end *end)
{
    struct gpud_frame *frame = ACQUIRE_FRAME(end->receiver, 20 * GPUD_SEC);
    FRAME_CHECK(frame, &rig->layout, ++end->seen);
    gpud_frame_release(&frame);
}

/* Submits a frame in host memory that is laid out as a slot is: the device writes it into one. */
static void send_written(struct rig *rig)
{
    struct gpud_frame *frame;
    struct gpud_memory *memory = NEW_MEMORY(rig->host, rig->layout.size);
    WORKS(gpud_frame_wrap(memory, 0, &rig->layout, &frame, &e));
    gpud_memory_unref(&memory);
    frame_write(frame, &rig->layout, ++rig->number);
    WORKS(gpud_sender_submit(rig->sender, &frame, 20 * GPUD_SEC, &e));
}

static void send_lent(struct rig *rig)
{
    SEND_LENT(rig->sender, &rig->layout, ++rig->number);
}

/* --- what is shown -----------------------------------------------------------------------------
 */

/* The frame's own buffer moves: one way with its content, back without, and no other way. */
static void test_moves(void)
{
    enum { FRAMES = 50, SLOTS = 4 };
    struct rig rig;
    struct end end;
    rig_open(&rig);
    end_open(&rig, "opencl:1", 1, &end);
    check_path(&end, "migrate", "map: the frames are on opencl:0 and are wanted on opencl:1");
    layer_reset();
    struct gpud_sender_info before = GPUD_INFO_INIT(before), after = GPUD_INFO_INIT(after);
    gpud_sender_get_info(rig.sender, &before);
    for (int i = 0; i < FRAMES; i++) {
        send_lent(&rig);
        take(&rig, &end);
    }
    gpud_sender_get_info(rig.sender, &after);
    struct layer_counts counts = layer_count();
    SAY("  %d frames: %u moves away, %u home, %u home with content, %u idle, %u implicit", FRAMES,
        counts.away, counts.home, counts.home_filled, counts.idle, counts.implicit);
    CHECK_EQUAL(counts.away, FRAMES);
    CHECK_EQUAL(counts.home_filled, 0);
    CHECK_EQUAL(counts.idle, 0);
    CHECK_EQUAL(counts.implicit, 0);
    /* Every slot that was used again, and the canary's. */
    CHECK(counts.home >= FRAMES - 2 * SLOTS && counts.home <= FRAMES + 1, "%u moves home",
          counts.home);
    CHECK_EQUAL(after.copies_gpu + after.copies_cpu, before.copies_gpu + before.copies_cpu);
    gpud_receiver_destroy(&end.receiver);
    rig_close(&rig);
}

/* While the sender's device is still busy with the frame, the move is enqueued already, behind that
 * very work; there is no wait, and the frame is handed over when it has moved. */
static void test_begins_at_submit(void)
{
    struct rig rig;
    struct end end;
    struct gpud_frame *early;
    rig_open(&rig);
    end_open(&rig, "opencl:1", 1, &end);
    layer_reset();
    for (unsigned turn = 1; turn <= 5; turn++) {
        layer_hold_writes();
        send_written(&rig);
        CHECK_EQUAL(layer_held(), 1);
        CHECK_EQUAL(layer_moved_behind_held(), 1);
        CHECK_EQUAL(layer_count().away, turn);
        EXPECT(GPUD_TIMEOUT, "", gpud_receiver_acquire(end.receiver, 20 * GPUD_MSEC, &early, &e));
        layer_let_go();
        take(&rig, &end);
    }
    CHECK_EQUAL(layer_count().implicit, 0);
    gpud_receiver_destroy(&end.receiver);
    rig_close(&rig);
}

/* Several receivers on the device that the slots go to share them; one on another device, or on the
 * sender's own, gets its frames by another route, in any order of connecting. */
static void test_one_destination(void)
{
    enum { FRAMES = 20 };
    struct rig rig;
    struct end ends[4];
    static const char *const devices[] = {"opencl:1", "opencl:1", "opencl:2", "opencl:0"};
    rig_open(&rig);
    for (unsigned i = 0; i < 4; i++)
        end_open(&rig, devices[i], i + 1, &ends[i]);
    check_path(&ends[0], "migrate", "");
    check_path(&ends[1], "migrate", "");
    check_path(&ends[2], "staged", "migrate: the slots go to opencl:1 for another receiver");
    check_path(&ends[3], "staged", "map: the slots go to opencl:1 for another receiver");
    layer_reset();
    for (int i = 0; i < FRAMES; i++) {
        send_lent(&rig);
        for (int k = 0; k < 4; k++)
            take(&rig, &ends[k]);
    }
    CHECK_EQUAL(layer_count().implicit, 0);
    CHECK_EQUAL(layer_count().home_filled, 0);
    CHECK_EQUAL(layer_count().away, FRAMES);
    for (int k = 0; k < 4; k++)
        gpud_receiver_destroy(&ends[k].receiver);
    rig_close(&rig);

    rig_open(&rig);
    end_open(&rig, "opencl:0", 1, &ends[0]);
    end_open(&rig, "opencl:1", 2, &ends[1]);
    check_path(&ends[0], "map", "");
    check_path(&ends[1], "staged", "migrate: the slots go to opencl:0 for another receiver");
    send_lent(&rig);
    take(&rig, &ends[0]);
    take(&rig, &ends[1]);
    gpud_receiver_destroy(&ends[0].receiver);
    gpud_receiver_destroy(&ends[1].receiver);
    rig_close(&rig);
}

/* A driver that does not do it, or does it wrong, is found out before a frame is sent. */
static void test_faults(void)
{
    static const struct {
        enum layer_fault fault;
        const char *says;
    } faults[] = {
        {LAYER_REFUSES, "migrate: opencl:1 refused to take a memory of opencl:0: CL_OUT_OF"},
        {LAYER_SPOILS, "migrate: what was sent did not arrive: the test pattern is not in"},
    };
    for (int i = 0; i < 2; i++) {
        struct rig rig;
        struct end end;
        rig_open(&rig);
        layer_set_fault(faults[i].fault);
        end_open(&rig, "opencl:1", 1, &end);
        check_path(&end, "staged", faults[i].says);
        send_lent(&rig);
        take(&rig, &end);
        gpud_receiver_destroy(&end.receiver);
        rig_close(&rig);
    }
    layer_set_fault(LAYER_WORKS);
}

/* A device that takes no frames any more costs its own receiver the connection, which is made anew
 * by another route, and no other receiver a frame. */
static void test_failure(void)
{
    struct rig rig;
    struct end moved, staged;
    rig_open(&rig);
    end_open(&rig, "opencl:1", 1, &moved);
    end_open(&rig, "opencl:2", 2, &staged);
    check_path(&moved, "migrate", "");
    check_path(&staged, "staged", "");
    send_lent(&rig);
    take(&rig, &moved);
    take(&rig, &staged);
    layer_set_fault(LAYER_REFUSES);
    send_lent(&rig);
    take(&rig, &staged);
    struct gpud_frame *frame;
    EXPECT(GPUD_PEER, "", gpud_receiver_acquire(moved.receiver, 20 * GPUD_SEC, &frame, &e));
    struct gpud_sender_info info = GPUD_INFO_INIT(info);
    for (int64_t until = gpud_test_now() + 30 * GPUD_SEC; info.connects < 3;) {
        EXPECT(GPUD_TIMEOUT, "", gpud_receiver_acquire(moved.receiver, GPUD_MSEC, &frame, &e));
        CHECK(gpud_test_now() < until, "the receiver does not come back");
        gpud_sender_get_info(rig.sender, &info);
    }
    check_path(&moved, "staged", "migrate: opencl:1 refused to take a memory of opencl:0");
    moved.seen = rig.number;
    send_lent(&rig);
    take(&rig, &moved);
    take(&rig, &staged);
    gpud_receiver_destroy(&moved.receiver);
    gpud_receiver_destroy(&staged.receiver);
    rig_close(&rig);
}

/* Two contexts in one process are as foreign to each other as two processes. */
static void test_other_context(void)
{
    struct rig rig;
    struct end end;
    rig_open(&rig);
    struct gpud_context *own = NEW_CONTEXT();
    struct gpud_context *context = rig.context;
    rig.context = own;
    end_open(&rig, "opencl:1", 1, &end);
    rig.context = context;
    check_path(&end, "staged", "migrate: not the same process: only inside one, with one");
    send_lent(&rig);
    take(&rig, &end);
    gpud_receiver_destroy(&end.receiver);
    gpud_context_destroy(&own);
    rig_close(&rig);
}

int main(void)
{
    static const struct {
        const char *says;
        void (*test)(void);
    } tests[] = {
        {"a slot goes away with its frame, and home empty", test_moves},
        {"it begins to move when its frame is submitted", test_begins_at_submit},
        {"it goes to one device alone", test_one_destination},
        {"a driver that does not move it, or not whole", test_faults},
        {"a device that fails in mid-stream", test_failure},
        {"two contexts in one process", test_other_context},
    };
    test_alarm(80);
    runtime_make();
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        SAY("%s", tests[i].says);
        tests[i].test();
    }
    runtime_done();
    return 0;
}
