/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver leaves while its application's stream still reads frames that were handed back. The
 * sender lives: it unblocks its own queue, which waits for those frames, by writing the words that
 * were to return them. The receiver must not mistake that for its own stream's work, and unmap what
 * the stream reads: the driver of tests/fakes ends a process that does.
 *
 * posts_test [device of the sender] [device of the receiver] */
#include "actor.h"
#include "support/gpu.h"

#define ADDRESS "posts"
#define SLOTS 2
#define ROUNDS 3

static struct gpud_layout layout;

static void send_one(struct gpud_sender *sender)
{
    struct gpud_frame *frame = ACQUIRE_SLOT(sender, 10 * GPUD_SEC);
    WORKS(gpud_sender_submit(sender, &frame, 10 * GPUD_SEC, &e));
}

static void read_by_stream(struct gpud_receiver *receiver, struct gpu *gpu, unsigned place)
{
    AUTO(gpud_frame_release) struct gpud_frame *frame = ACQUIRE_FRAME(receiver, 10 * GPUD_SEC);
    WORKS(gpud_frame_wait(frame, gpu->stream, &e));
    gpu_take(gpu, frame, place);
    WORKS(gpud_frame_post(frame, gpu->stream, &e));
}

static void round_trip(struct gpud_sender *sender, struct gpud_context *context,
                       const char *receiver_device, struct gpu *gpu)
{
    struct gpud_receiver *receiver =
        NEW_RECEIVER(context, .address = ADDRESS, .device = receiver_device, .slots = SLOTS);
    struct gpud_frame *frame;
    struct gpud_error error;
    CHECK(gpud_receiver_acquire(receiver, 0, &frame, &error) == GPUD_TIMEOUT, "a frame");
    while (gpud_sender_wait(sender, 1, 0, &error) != GPUD_OK)
        CHECK(gpud_receiver_acquire(receiver, GPUD_MSEC, &frame, &error) == GPUD_TIMEOUT, "%s",
              error.reason);
    gpu_hold(gpu);
    for (unsigned i = 0; i < SLOTS; i++) {
        send_one(sender);
        read_by_stream(receiver, gpu, i);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        send_one(sender); /* its queue waits for those that the stream reads */
    gpud_receiver_destroy(&receiver);

    PEER_UNTIL("the sender sees that its receiver is gone", 10000,
               INFO(sender, sender).receivers == 0);
    gpud_test_nap(200); /* in which both ends see to what is left of the link */
    CHECK(!gpu_is_idle(gpu), "the stream is not held up");
    gpu_let_go(gpu);
    CHECK(gpu_ends(gpu, 10000) && gpu_works(gpu), "the stream does not come to its end");
}

int main(int argc, char **argv)
{
    const char *from = argc > 1 ? argv[1] : "cuda:0", *to = argc > 2 ? argv[2] : "cuda:0";
    struct gpu gpu;
    test_begin(55);
    layout = LAYOUT("UYVY", 320, 180, 0);
    struct gpud_context *sending = NEW_CONTEXT();
    struct gpud_context *receiving = NEW_CONTEXT();
    struct gpud_device *device = OPEN_DEVICE(receiving, to);
    gpu_open(&gpu, to, layout.size);

    struct gpud_sender *sender =
        NEW_SENDER(sending, .address = ADDRESS, .device = from, .slots = SLOTS);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    for (unsigned i = 0; i < ROUNDS; i++)
        round_trip(sender, receiving, to, &gpu);
    gpud_sender_destroy(&sender);
    gpu_close(&gpu);
    gpud_device_close(&device);
    gpud_context_destroy(&receiving);
    gpud_context_destroy(&sending);
    return runtime_done();
}
