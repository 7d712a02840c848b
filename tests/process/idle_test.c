/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A receiver between frames: over a network card it writes and sends nothing, and does not wake up
 * to check whether the sender lives, as the connection would report that. */
#include "actor.h"
#include "support/copies.h"

#define ADDRESS "idle"
#define FRAMES 10
#define IDLE (500 * GPUD_MSEC)
/* A receiver that checks every 50 ms sleeps ten times in that. */
#define SLEEPS_MAX 3

static struct gpud_context *contexts[2];
static struct gpud_sender *sender;
static struct gpud_receiver *receiver;

static void expect_nothing(int64_t timeout)
{
    struct gpud_frame *frame;
    EXPECT(GPUD_TIMEOUT, "no frame came", gpud_receiver_acquire(receiver, timeout, &frame, &e));
}

static void send_frames(void)
{
    for (int i = 0; i < FRAMES; i++) {
        struct gpud_frame *frame = ACQUIRE_SLOT(sender, 30 * GPUD_SEC);
        WORKS(gpud_sender_submit(sender, &frame, 30 * GPUD_SEC, &e));
        frame = ACQUIRE_FRAME(receiver, 30 * GPUD_SEC);
        gpud_frame_release(&frame);
    }
}

/* What the receiver has told the sender since: of the frames, but of nothing else. */
static void check_silent(unsigned published, unsigned notices)
{
    CHECK_EQUAL(atomic_load(&copies_of_receivers.published), published);
    CHECK_EQUAL(atomic_load(&copies_of_receivers.notices), notices);
}

/* In calls that wait, then by the descriptor. */
static void test_silence(void)
{
    send_frames();
    unsigned published = atomic_load(&copies_of_receivers.published);
    unsigned notices = atomic_load(&copies_of_receivers.notices);
    CHECK(published >= FRAMES && notices >= FRAMES, "%u notices for %d frames", notices, FRAMES);
    expect_nothing(IDLE);
    expect_nothing(GPUD_MSEC);
    check_silent(published, notices);
    SAY("  in calls that wait");

    int fd;
    WORKS(gpud_receiver_get_fd(receiver, &fd, &e));
    published += 3; /* that it polls now is what this stand-in's receivers write */
    for (int i = 0; i < 3; i++)
        expect_nothing(0);
    check_silent(published, notices);
    SAY("  in a loop of the application's");
}

static void test_sleeps(void)
{
    send_frames();
    copies_set_ask_after(100 * GPUD_SEC);
    uint64_t before = INFO(receiver, receiver).waits_cpu;
    expect_nothing(IDLE);
    uint64_t sleeps = INFO(receiver, receiver).waits_cpu - before;
    copies_set_ask_after(0);
    CHECK(sleeps >= 1 && sleeps <= SLEEPS_MAX, "it slept %llu times", (unsigned long long)sleeps);
    send_frames();
}

int main(void)
{
    test_alarm(110);
    runtime_make();
    copies_install();
    struct gpud_frame *frame;
    for (int i = 0; i < 2; i++)
        contexts[i] = NEW_CONTEXT();
    sender = NEW_SENDER(contexts[0], .address = ADDRESS);
    CONFIGURE(sender, "UYVY", 64, 32);
    receiver = NEW_RECEIVER(contexts[1], .address = ADDRESS);
    PEER_UNTIL("a connection", 30000,
               (gpud_receiver_acquire(receiver, GPUD_MSEC, &frame, NULL),
                INFO(receiver, receiver).connected));
    WORKS(gpud_sender_wait(sender, 1, 30 * GPUD_SEC, &e));
    CHECK(strcmp(INFO(receiver, receiver).path, "rdma-host") == 0, "the path is %s",
          INFO(receiver, receiver).path);
    CASE("a receiver that waits says nothing", test_silence());
    SAY("and sleeps through");
    test_sleeps();
    gpud_receiver_destroy(&receiver);
    gpud_sender_destroy(&sender);
    for (int i = 0; i < 2; i++)
        gpud_context_destroy(&contexts[i]);
    return runtime_done();
}
