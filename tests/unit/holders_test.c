/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Several holders of a sender's lent frame, and of a frame that was received: its slot, or its
 * credit, comes back with the last of them. */
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include <gpudirect/gpudirect.h>

#include <pthread.h>
#include <stdatomic.h>

static struct gpud_sender *sender;
static struct gpud_receiver *receiver;
static atomic_bool connected;

/* A receiver connects inside acquire. */
static void *connect_receiver(void *arg)
{
    struct gpud_frame *frame;
    while (!atomic_load(&connected))
        CHECK(gpud_receiver_acquire(receiver, 10 * GPUD_MSEC, &frame, NULL) != GPUD_OK, "a frame");
    return NULL;
}

static struct gpud_frame *lend(unsigned char byte)
{
    struct gpud_frame *frame = ACQUIRE_SLOT(sender, 5 * GPUD_SEC);
    void *data = MAP_FRAME(frame, GPUD_WRITE, 0);
    memset(data, byte, (size_t)64 * 48);
    gpud_frame_unmap(frame);
    return frame;
}

static void check(struct gpud_frame *frame, unsigned char byte)
{
    void *data = MAP_FRAME(frame, GPUD_READ, GPUD_SEC);
    CHECK(*(unsigned char *)data == byte, "%u, not %u", *(unsigned char *)data, byte);
    gpud_frame_unmap(frame);
}

/* How many frames the sender lends at once, now. */
static uint32_t count_free(void)
{
    struct gpud_frame *frames[16];
    uint32_t count = 0;
    while (count < 16 && gpud_sender_acquire(sender, 0, &frames[count], NULL) == GPUD_OK)
        count++;
    for (uint32_t i = 0; i < count; i++)
        gpud_frame_release(&frames[i]);
    return count;
}

int main(void)
{
    char address[64];
    snprintf(address, sizeof(address), "unix:/tmp/gpudirect-holders-%d", (int)getpid());
    struct gpud_context *context = NEW_CONTEXT();
    sender = NEW_SENDER(context, .address = address, .slots = 1);
    receiver = NEW_RECEIVER(context, .address = address, .slots = 1);
    struct gpud_layout layout = LAYOUT("GRAY8", 64, 48, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    pthread_t thread = NEW_THREAD(connect_receiver, NULL);
    WORKS(gpud_sender_wait(sender, 1, 10 * GPUD_SEC, &e));
    atomic_store(&connected, true);
    pthread_join(thread, NULL);
    uint32_t all = count_free();
    CHECK(all >= 1 && all < 16, "%u slots", all);
    struct gpud_frame *frame = lend(1), *second = gpud_frame_ref(frame);
    CHECK_EQUAL(count_free(), all - 1);
    gpud_frame_release(&frame);
    CHECK_EQUAL(count_free(), all - 1);
    gpud_frame_release(&second);
    CHECK_EQUAL(count_free(), all);
    /* Submitted by one holder, the picture stays for the other. */
    struct gpud_frame *got, *next;
    void *data;
    frame = lend(7);
    second = gpud_frame_ref(frame);
    WORKS(gpud_sender_submit(sender, &frame, GPUD_SEC, &e));
    CHECK(!frame, "not consumed");
    got = ACQUIRE_FRAME(receiver, 5 * GPUD_SEC);
    check(got, 7);
    gpud_frame_release(&got);
    EXPECT(GPUD_NO_ACCESS, "shared", gpud_frame_map(second, GPUD_WRITE, 0, &data, &e));
    frame = lend(8);
    CHECK(INFO(frame, frame).slot != INFO(frame, second).slot, "lent to two");
    check(second, 7);
    gpud_frame_release(&frame);
    CHECK_EQUAL(count_free(), all - 1);
    gpud_frame_release(&second);
    CHECK_EQUAL(count_free(), all);

    /* So it is with the credit of one that was received. */
    frame = lend(1);
    WORKS(gpud_sender_submit(sender, &frame, GPUD_SEC, &e));
    got = ACQUIRE_FRAME(receiver, 5 * GPUD_SEC);
    second = gpud_frame_ref(got);
    gpud_frame_release(&got);
    frame = lend(2);
    EXPECT(GPUD_TIMEOUT, "takes no frame", gpud_sender_submit(sender, &frame, 0, &e));
    check(second, 1);
    gpud_frame_release(&second);
    WORKS(gpud_sender_submit(sender, &frame, 5 * GPUD_SEC, &e));
    next = ACQUIRE_FRAME(receiver, 5 * GPUD_SEC);
    check(next, 2);
    gpud_frame_release(&next);
    gpud_receiver_destroy(&receiver);
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    return 0;
}
