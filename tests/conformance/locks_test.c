/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How many mutexes a frame takes, on either side, while frames flow by map: each call in this one
 * thread, so that what the others do is not counted. Argument: a device, else the host. */
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"

#include <pthread.h>

#define FRAMES 1000

static _Thread_local unsigned locks;

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    locks++;
    return __real_pthread_mutex_lock(mutex);
}

/* Steps on either side until frames flow. */
static void connect_ends(struct gpud_sender *sender, struct gpud_receiver *receiver)
{
    struct gpud_frame *frame;
    PEER_UNTIL("the connection", 30000,
               gpud_receiver_acquire(receiver, GPUD_MSEC, &frame, NULL) == GPUD_TIMEOUT &&
                   gpud_sender_wait(sender, 1, 0, NULL) == GPUD_OK);
}

int main(int argc, char **argv)
{
    struct gpud_sender *sender;
    struct gpud_receiver *receiver;
    struct gpud_frame *frame;
    unsigned acquires = 0, submits = 0, receives = 0, releases = 0;
    test_alarm(100);
    runtime_make();
    struct gpud_sender_params sends = GPUD_PARAMS_INIT(sends);
    struct gpud_receiver_params receiver_params = GPUD_PARAMS_INIT(receiver_params);
    sends.address = receiver_params.address = "locks";
    sends.device = receiver_params.device = argc > 1 ? argv[1] : "host";
    struct gpud_context *context = NEW_CONTEXT();
    WORKS(gpud_sender_create(context, &sends, &sender, &e));
    struct gpud_layout layout = LAYOUT("UYVY", 64, 32, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    WORKS(gpud_receiver_create(context, &receiver_params, &receiver, &e));
    connect_ends(sender, receiver);
    for (unsigned i = 0; i < FRAMES; i++) {
        locks = 0;
        frame = ACQUIRE_SLOT(sender, GPUD_SEC);
        acquires += locks;
        locks = 0;
        WORKS(gpud_sender_submit(sender, &frame, GPUD_SEC, &e));
        submits += locks;
        locks = 0;
        frame = ACQUIRE_FRAME(receiver, 10 * GPUD_SEC);
        receives += locks;
        locks = 0;
        gpud_frame_release(&frame);
        releases += locks;
    }
    SAY("%d frames: acquire %u, submit %u; receive %u, release %u", FRAMES, acquires, submits,
        receives, releases);
    CHECK_EQUAL(acquires, FRAMES);
    /* One more enqueues the device's signal. */
    CHECK_EQUAL(submits, (argc > 1 ? 2 : 1) * FRAMES);
    CHECK_EQUAL(receives, 0);
    CHECK_EQUAL(releases, FRAMES);
    gpud_receiver_destroy(&receiver);
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    runtime_done();
    return 0;
}
