/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Both ends in loops of the application's: nothing is called with a timeout, and what there is to
 * do is shown by a descriptor alone. Nothing is lost, no side misses an event, and none wakes
 * repeatedly without one. epoll_test [device of the sender] [device of the receiver] */
#include "actor.h"

#include <poll.h>

#define ADDRESS "looped"
#define FRAMES 400
#define PATIENCE_MS 10000

static const char *sender_device = "host", *receiver_device = "host";
static struct gpud_layout layout;

static struct loop {
    struct gpud_context *context;
    struct gpud_receiver *receiver;
    pthread_t thread;
    atomic_bool stop, rests; /* rests: an interrupt is left in effect */
    atomic_ullong frames, turns;
    atomic_uint losses, ends, interrupts;
} loop;

static void *receive(void *arg)
{
    struct pollfd fd = {.events = POLLIN};
    WORKS(gpud_receiver_get_fd(loop.receiver, &fd.fd, &e));
    while (!atomic_load(&loop.stop)) {
        poll(&fd, 1, 100); /* to look whether it is over; what comes is not waited for here */
        if (!fd.revents)
            continue;
        atomic_fetch_add(&loop.turns, 1);
        for (enum gpud_status status = GPUD_OK; status != GPUD_TIMEOUT;) {
            struct gpud_frame *frame = NULL;
            struct gpud_error error;
            status = gpud_receiver_acquire(loop.receiver, 0, &frame, &error);
            if (status == GPUD_OK) {
                struct gpud_frame_info info = INFO(frame, frame);
                FRAME_CHECK(frame, &layout, info.offset);
                peer_order();
                gpud_frame_release(&frame);
                atomic_fetch_add(&loop.frames, 1);
            }
            if (status == GPUD_AGAIN) {
                atomic_fetch_add(&loop.interrupts, 1);
                if (atomic_load(&loop.rests))
                    break;
                gpud_receiver_interrupt(loop.receiver, false);
            }
            atomic_fetch_add(&loop.losses, status == GPUD_PEER);
            atomic_fetch_add(&loop.ends, status == GPUD_CLOSED);
        }
    }
    return NULL;
}

static struct gpud_sender *open_sender(struct pollfd *fd)
{
    struct gpud_sender *sender =
        NEW_SENDER(loop.context, .address = ADDRESS, .device = sender_device);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    WORKS(gpud_sender_wait(sender, 1, 10 * GPUD_SEC, &e));
    WORKS(gpud_sender_get_fd(sender, &fd->fd, &e));
    return sender;
}

/* Repeats the call, woken by the descriptor, until it no longer returns GPUD_TIMEOUT. */
#define LOOPED(fd, turns, call)                                                             \
    do {                                                                                    \
        struct gpud_error e;                                                                \
        enum gpud_status status_;                                                           \
        while ((status_ = (call)) == GPUD_TIMEOUT) {                                        \
            CHECK(poll(fd, 1, PATIENCE_MS) == 1, "%s: the descriptor is not ready", #call); \
            (turns)++;                                                                      \
        }                                                                                   \
        CHECK(status_ == GPUD_OK, "%s: %s", #call, e.reason);                               \
    } while (0)

static void send_frames(struct gpud_sender *sender, struct pollfd *fd, uint64_t from, uint64_t to)
{
    unsigned long long turns = 0;
    for (uint64_t number = from; number <= to; number++) {
        struct gpud_frame *frame;
        LOOPED(fd, turns, gpud_sender_acquire(sender, 0, &frame, &e));
        peer_order();
        frame_write(frame, &layout, number);
        peer_order();
        LOOPED(fd, turns, gpud_sender_submit(sender, &frame, 0, &e));
    }
    SAY("  %llu frames, the sender waited %llu times", (unsigned long long)(to - from + 1), turns);
}

static void expect_frames(unsigned long long count)
{
    PEER_UNTIL("all frames", PATIENCE_MS, atomic_load(&loop.frames) == count);
}

/* Without events the descriptor is not ready. */
static void stay_idle(void)
{
    unsigned long long before = atomic_load(&loop.turns);
    gpud_test_nap(300);
    unsigned long long turns = atomic_load(&loop.turns) - before;
    CHECK(turns < 30, "in 300 ms without a frame the receiver was woken %llu times", turns);
}

int main(int argc, char **argv)
{
    struct pollfd fd = {.events = POLLIN};
    test_alarm(110);
    if (argc > 2) {
        sender_device = argv[1];
        receiver_device = argv[2];
    }
    runtime_make();
    loop.context = NEW_CONTEXT();
    layout = LAYOUT("UYVY", 160, 90, 0);
    struct baseline before = baseline_take();

    SAY("a receiver before its sender");
    loop.receiver = NEW_RECEIVER(loop.context, .address = ADDRESS, .device = receiver_device);
    CHECK(pthread_create(&loop.thread, NULL, receive, NULL) == 0, "no thread");
    gpud_test_nap(50);
    struct gpud_sender *sender = open_sender(&fd);
    send_frames(sender, &fd, 1, FRAMES);
    expect_frames(FRAMES);
    stay_idle();

    SAY("one frame after the other");
    for (uint64_t number = FRAMES + 1; number <= FRAMES + 20; number++) {
        send_frames(sender, &fd, number, number);
        expect_frames(number);
    }

    SAY("interrupted, and going on");
    gpud_receiver_interrupt(loop.receiver, true);
    PEER_UNTIL("the interruption", PATIENCE_MS, atomic_load(&loop.interrupts) == 1);
    send_frames(sender, &fd, FRAMES + 21, FRAMES + 30);
    expect_frames(FRAMES + 30);

    SAY("interrupted for longer");
    atomic_store(&loop.rests, true);
    gpud_receiver_interrupt(loop.receiver, true);
    PEER_UNTIL("the interruption", PATIENCE_MS, atomic_load(&loop.interrupts) == 2);
    stay_idle();
    send_frames(sender, &fd, FRAMES + 31, FRAMES + 32);
    WORKS(gpud_sender_send_event(sender, 1, "rest", 4, &e));
    stay_idle();
    gpud_receiver_interrupt(loop.receiver, false);
    expect_frames(FRAMES + 32);

    SAY("another format, the end of the stream, and another sender");
    WORKS(gpud_sender_configure(sender, PICTURE_AT(&layout, 25), &e));
    send_frames(sender, &fd, FRAMES + 33, FRAMES + 60);
    expect_frames(FRAMES + 60);
    WORKS(gpud_sender_send_eos(sender, &e));
    PEER_UNTIL("the end of the stream", PATIENCE_MS, atomic_load(&loop.ends) == 1);
    gpud_sender_destroy(&sender);
    PEER_UNTIL("the loss of the sender", PATIENCE_MS, atomic_load(&loop.losses) == 1);
    sender = open_sender(&fd);
    send_frames(sender, &fd, 1, 50);
    expect_frames(FRAMES + 110);
    stay_idle();

    atomic_store(&loop.stop, true);
    pthread_join(loop.thread, NULL);
    gpud_receiver_destroy(&loop.receiver);
    gpud_sender_destroy(&sender);
    if (strcmp(sender_device, "host") == 0 && strcmp(receiver_device, "host") == 0)
        BASELINE_CHECK(before); /* a driver has threads of its own */
    gpud_context_destroy(&loop.context);
    return runtime_done();
}
