/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A driver that takes long to open: meanwhile devices that are open are found, others are opened,
 * memory is shared by pointer, a link is made and frames go over it. Two threads that open one
 * device get the same one, which is opened once. */
#include "base/base.h"
#include "device/device.h"
#include "support/check.h"
#include "support/media.h"
#include "support/peer.h"
#include "toy.h"

#include <pthread.h>
#include <semaphore.h>

static struct gpud_context *context;
static sem_t entered, go;
static atomic_uint opens;

/* Bounded, so that a thread that waits for it fails the test with a message. */
static void take_long(void)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 60;
    atomic_fetch_add(&opens, 1);
    sem_post(&entered);
    CHECK(sem_timedwait(&go, &limit) == 0, "something waits for a driver that is being opened");
}

static void *open_toy(void *device)
{
    WORKS(gpud_device_open(context, "toy", device, &e));
    return NULL;
}

static void share_memory(void)
{
    struct gpud_device *host, *found = gpud_context_find_device(context, "host");
    struct gpud_memory *memory, *same;
    struct gpud_handle handle;
    CHECK(!found, "the host is not open yet");
    WORKS(gpud_device_open(context, "host", &host, &e));
    found = gpud_context_find_device(context, "host");
    CHECK(found == host, "the host is open");
    WORKS(gpud_memory_alloc_for(host, 4096, GPUD_USAGE_SHARE, &memory, &e));
    gpud_memory_export_local(memory, &handle);
    WORKS(gpud_memory_import(host, &handle, 4096, GPUD_USAGE_SHARE, &same, &e));
    CHECK(same == memory, "it is the same memory");
    gpud_memory_unref(&same);
    gpud_memory_unref(&memory);
    gpud_device_close(&found);
    gpud_device_close(&host);
}

static void stream(void)
{
    struct gpud_sender *sender;
    struct gpud_receiver *receiver;
    struct gpud_layout layout;
    struct gpud_frame *frame;
    struct gpud_sender_params sends = GPUD_PARAMS_INIT(sends);
    struct gpud_receiver_params receives = GPUD_PARAMS_INIT(receives);
    sends.address = receives.address = "opening";
    WORKS(gpud_sender_create(context, &sends, &sender, &e));
    WORKS(gpud_layout_init(&layout, "UYVY", 64, 32, 0, &e));
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    WORKS(gpud_receiver_create(context, &receives, &receiver, &e));
    PEER_UNTIL("the connection", 30000,
               gpud_receiver_acquire(receiver, GPUD_MSEC, &frame, NULL) == GPUD_TIMEOUT &&
                   gpud_sender_wait(sender, 1, 0, NULL) == GPUD_OK);
    for (int i = 0; i < 10; i++) {
        WORKS(gpud_sender_acquire(sender, GPUD_SEC, &frame, &e));
        WORKS(gpud_sender_submit(sender, &frame, GPUD_SEC, &e));
        WORKS(gpud_receiver_acquire(receiver, 10 * GPUD_SEC, &frame, &e));
        gpud_frame_release(&frame);
    }
    gpud_receiver_destroy(&receiver);
    gpud_sender_destroy(&sender);
}

int main(void)
{
    struct gpud_device *device[2];
    pthread_t thread[2];
    test_alarm(100);
    runtime_make();
    sem_init(&entered, 0, 0);
    sem_init(&go, 0, 0);
    toy_on_open = take_long;
    WORKS(gpud_context_create(NULL, &context, &e));
    CHECK(pthread_create(&thread[0], NULL, open_toy, &device[0]) == 0, "no thread");
    sem_wait(&entered);
    CHECK(pthread_create(&thread[1], NULL, open_toy, &device[1]) == 0, "no thread");
    share_memory();
    stream();
    sem_post(&go);
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    CHECK(device[0] == device[1], "two records of one device");
    CHECK_EQUAL(atomic_load(&opens), 1);
    gpud_device_close(&device[0]);
    gpud_device_close(&device[1]);
    gpud_context_destroy(&context);
    runtime_done();
    return 0;
}
