/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* opening: a driver that takes long to open: meanwhile devices that are open are found, others are
 * opened, memory is shared by pointer, a link is made and frames go over it. Two threads that open
 * one device get the same one, which is opened once.
 *
 * media: the toy's kind of media as text, and its limits. Its frames go through the routes by the
 * toy's run of the suite of the routes. */
#include "base/base.h"
#include "device/device.h"
#include "frame/media/media.h"
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"

#include <pthread.h>
#include <semaphore.h>

/* In toy.c: called while a toy is opened, as a driver that takes its time. */
extern void (*toy_on_open)(void);

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

/* Memory is shared by pointer, and frames go over a link. */
static void use_others(void)
{
    struct gpud_handle handle;
    CHECK(!gpud_context_find_device(context, "host"), "the host is not open yet");
    AUTO(gpud_device_close) struct gpud_device *host = OPEN_DEVICE(context, "host");
    AUTO(gpud_device_close) struct gpud_device *found = gpud_context_find_device(context, "host");
    CHECK(found == host, "the host is open");
    AUTO(gpud_memory_unref)
    struct gpud_memory *memory = NEW_MEMORY_FOR(host, 4096, GPUD_USAGE_SHARE), *same = NULL;
    gpud_memory_export_local(memory, &handle);
    WORKS(gpud_memory_import(host, &handle, 4096, GPUD_USAGE_SHARE, &same, &e));
    CHECK(same == memory, "it is the same memory");

    AUTO(gpud_sender_destroy)
    struct gpud_sender *sender = NEW_SENDER(context, .address = "opening");
    struct gpud_layout layout = LAYOUT("UYVY", 64, 32, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    AUTO(gpud_receiver_destroy)
    struct gpud_receiver *receiver = NEW_RECEIVER(context, .address = "opening");
    PEER_LINK(sender, receiver, 1);
    for (int i = 0; i < 10; i++) {
        struct gpud_frame *frame = ACQUIRE_SLOT(sender, GPUD_SEC);
        WORKS(gpud_sender_submit(sender, &frame, GPUD_SEC, &e));
        frame = ACQUIRE_FRAME(receiver, 10 * GPUD_SEC);
        gpud_frame_release(&frame);
    }
}

static void test_opening(void)
{
    struct gpud_device *device[2];
    pthread_t thread[2];
    runtime_make();
    sem_init(&entered, 0, 0);
    sem_init(&go, 0, 0);
    toy_on_open = take_long;
    context = NEW_CONTEXT();
    thread[0] = NEW_THREAD(open_toy, &device[0]);
    sem_wait(&entered);
    thread[1] = NEW_THREAD(open_toy, &device[1]);
    use_others();
    sem_post(&go);
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    CHECK(device[0] == device[1], "two records of one device");
    CHECK_EQUAL(atomic_load(&opens), 1);
    gpud_device_close(&device[0]);
    gpud_device_close(&device[1]);
    gpud_context_destroy(&context);
    runtime_done();
}

static void test_media(void)
{
    struct gpud_media media, again;
    struct gpud_layout layout;
    char text[GPUD_MEDIA_TEXT_MAX];
    WORKS(gpud_media_from_string(&media, "toy/x-points, points=(int)100", &e));
    CHECK_EQUAL(media.kind, GPUD_MEDIA_TENSOR + 1);
    CHECK_EQUAL(media_size(&media), 1600);
    WORKS(gpud_media_get_layout(&media, &layout, &e));
    CHECK(strcmp(layout.format, "points") == 0 && layout.planes == 1, "the layout");
    WORKS(gpud_media_to_string(&media, text, sizeof(text), &e));
    CHECK(strcmp(text, "toy/x-points, points=(guint64)100") == 0, "\"%s\"", text);
    WORKS(gpud_media_from_string(&again, text, &e));
    CHECK(gpud_media_equal(&media, &again), "\"%s\" is read as another media", text);

    media.data.max_size = 0;
    EXPECT(GPUD_INVALID, "a cloud without points", gpud_media_check(&media, &e));
    media.data.max_size = (1 << 20) + 1;
    EXPECT(GPUD_INVALID, "in a field that cannot have it", gpud_media_check(&media, &e));
    media.kind = GPUD_MEDIA_TENSOR + 2;
    EXPECT(GPUD_INVALID, "not a kind of media", gpud_media_check(&media, &e));
    WORKS(gpud_media_from_string(&media, "meta/x-klv, max-size=(int)10", &e));
    CHECK_EQUAL(media.kind, GPUD_MEDIA_DATA);
}

int main(int argc, char **argv)
{
    test_alarm(100);
    if (argc > 1 && strcmp(argv[1], "media") == 0)
        test_media();
    else
        test_opening();
    return 0;
}
