/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* left DEVICE: a sender is killed with frames published whose copies its device has not made. The
 * first of them that the receiver maps reveals that the sender is dead. It does not wait for the
 * others: each wait would delay the next sender's first picture. */
#include "base/base.h"
#include "hold.h"
#include "stream/sender/sender.h"
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"

#include <signal.h>
#include <sys/wait.h>

#define LEFT 4

static bool known_dead;
static unsigned waits; /* for the bytes of a frame, once the sender is known to be dead */

enum gpud_status __real_gpud_signal_wait_host(struct gpud_signal *signal, uint64_t value,
                                              int64_t deadline, struct gpud_error *error);
enum gpud_status __wrap_gpud_signal_wait_host(struct gpud_signal *signal, uint64_t value,
                                              int64_t deadline, struct gpud_error *error);
enum gpud_status __wrap_gpud_signal_wait_host(struct gpud_signal *signal, uint64_t value,
                                              int64_t deadline, struct gpud_error *error)
{
    waits += known_dead && deadline > gpud_now();
    return __real_gpud_signal_wait_host(signal, value, deadline, error);
}

static void submit(struct gpud_sender *sender)
{
    struct gpud_frame *frame = ACQUIRE_SLOT(sender, 10 * GPUD_SEC);
    WORKS(gpud_sender_submit(sender, &frame, 10 * GPUD_SEC, &e));
}

static _Noreturn void play_sender(const char *device, int tell)
{
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_sender *sender = NEW_SENDER(context, .address = "left", .device = device);
    struct gpud_layout layout = LAYOUT("UYVY", 64, 32, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    WORKS(gpud_sender_wait(sender, 1, 30 * GPUD_SEC, &e));
    submit(sender);
    conformance_hold_queue(sender->queue);
    for (int i = 0; i < LEFT; i++)
        submit(sender);
    CHECK(write(tell, "", 1) == 1, "the child is gone");
    for (;;)
        pause();
}

static struct gpud_frame *acquire(struct gpud_receiver *receiver)
{
    struct gpud_frame *frame = NULL;
    struct gpud_error error = {.reason = ""};
    enum gpud_status status = gpud_receiver_acquire(receiver, 30 * GPUD_SEC, &frame, &error);
    CHECK(status == GPUD_OK, "no frame: %s: %s", gpud_status_string(status), error.reason);
    return frame;
}

/* The dead sender's: the next one takes it over, and removes it when it leaves. */
static void clear_socket(struct gpud_context *context)
{
    struct gpud_sender *next = NEW_SENDER(context, .address = "left");
    gpud_sender_destroy(&next);
}

int main(int argc, char **argv)
{
    struct gpud_frame *frame;
    int ends[2];
    char ready;
    CHECK(argc == 2, "usage: left <device>");
    test_alarm(100);
    runtime_make();
    CHECK(pipe(ends) == 0, "no pipe");
    pid_t child = fork(); /* before there is a driver, which does not like it */
    CHECK(child >= 0, "no process");
    if (child == 0)
        play_sender(argv[1], ends[1]);
    struct gpud_context *context = NEW_CONTEXT();
    struct gpud_receiver *receiver =
        NEW_RECEIVER(context, .address = "left", .device = argv[1], .route = "directgma");
    frame = acquire(receiver);
    void *data = MAP_FRAME(frame, GPUD_READ, 30 * GPUD_SEC);
    gpud_frame_unmap(frame);
    gpud_frame_release(&frame);
    CHECK(read(ends[0], &ready, 1) == 1, "the sender does not get that far");
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child, "no child");
    for (int i = 0; i < LEFT; i++) {
        frame = acquire(receiver);
        EXPECT(GPUD_PEER, "the sender died",
               gpud_frame_map(frame, GPUD_READ, 30 * GPUD_SEC, &data, &e));
        known_dead = true;
        gpud_frame_release(&frame);
    }
    EXPECT(GPUD_PEER, "", gpud_receiver_acquire(receiver, 30 * GPUD_SEC, &frame, &e));
    SAY("%d frames were left behind, %u waits for their bytes", LEFT, waits);
    CHECK_EQUAL(waits, 0);
    gpud_receiver_destroy(&receiver);
    clear_socket(context);
    gpud_context_destroy(&context);
    runtime_done();
    return 0;
}
