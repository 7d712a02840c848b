/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* graph DEVICE, of CUDA or on it: an application that captures a graph, as PyTorch does, beside a
 * sender and a receiver in the same process. In CUDA's default mode a capture forbids other threads
 * many calls, and such a call makes it invalid. Frames flow meanwhile, memory is allocated, and the
 * capture is valid at its end. */
#include "support/check.h"
#include "support/make.h"
#include "support/media.h"
#include "support/peer.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define FRAMES 50

static struct {
    int (*get)(int *device, int ordinal);
    int (*retain)(void **context, int device);
    int (*set)(void *context);
    int (*create)(void **stream, unsigned flags);
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
} cuda;

static bool resolve(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof(found));
    return found != NULL;
}

static atomic_bool captures, done;

/* The application's thread. */
static void *capture(void *arg)
{
    void *context, *stream, *graph = NULL;
    int device;
    CHECK_EQUAL(cuda.get(&device, 0), 0);
    CHECK_EQUAL(cuda.retain(&context, device), 0);
    CHECK_EQUAL(cuda.set(context), 0);
    CHECK_EQUAL(cuda.create(&stream, 1), 0);
    CHECK_EQUAL(cuda.begin(stream, 0), 0);
    atomic_store(&captures, true);
    while (!atomic_load(&done))
        gpud_test_nap(1);
    CHECK_EQUAL(cuda.end(stream, &graph), 0);
    CHECK(graph, "no graph was captured");
    return NULL;
}

int main(int argc, char **argv)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    struct gpud_sender *sender;
    struct gpud_receiver *receiver;
    struct gpud_frame *frame;
    pthread_t thread;
    CHECK(argc == 2, "usage: graph <device>");
    test_alarm(100);
    if (!library || !resolve(library, "cuDeviceGet", &cuda.get) ||
        !resolve(library, "cuDevicePrimaryCtxRetain", &cuda.retain) ||
        !resolve(library, "cuCtxSetCurrent", &cuda.set) ||
        !resolve(library, "cuStreamCreate", &cuda.create) ||
        !resolve(library, "cuStreamBeginCapture_v2", &cuda.begin) ||
        !resolve(library, "cuStreamEndCapture", &cuda.end)) {
        SAY("no CUDA driver that captures graphs");
        return 77;
    }
    runtime_make();
    struct gpud_sender_params sends = GPUD_PARAMS_INIT(sends);
    struct gpud_receiver_params receives = GPUD_PARAMS_INIT(receives);
    sends.address = receives.address = "graph";
    sends.device = receives.device = argv[1];
    struct gpud_context *context = NEW_CONTEXT();
    WORKS(gpud_sender_create(context, &sends, &sender, &e));
    CHECK_EQUAL(pthread_create(&thread, NULL, capture, NULL), 0);
    PEER_UNTIL("the capture", 30000, atomic_load(&captures));

    struct gpud_layout layout = LAYOUT("UYVY", 64, 32, 0);
    WORKS(gpud_sender_configure(sender, PICTURE(&layout), &e));
    WORKS(gpud_receiver_create(context, &receives, &receiver, &e));
    PEER_UNTIL("the connection", 30000,
               gpud_receiver_acquire(receiver, GPUD_MSEC, &frame, NULL) == GPUD_TIMEOUT &&
                   gpud_sender_wait(sender, 1, 0, NULL) == GPUD_OK);
    for (unsigned i = 0; i < FRAMES; i++) {
        char *bytes;
        frame = ACQUIRE_SLOT(sender, GPUD_SEC);
        bytes = MAP_FRAME(frame, GPUD_WRITE, GPUD_SEC);
        memset(bytes, (int)i, 64 * 32 * 2);
        gpud_frame_unmap(frame);
        WORKS(gpud_sender_submit(sender, &frame, GPUD_SEC, &e));
        frame = ACQUIRE_FRAME(receiver, 10 * GPUD_SEC);
        bytes = MAP_FRAME(frame, GPUD_READ, GPUD_SEC);
        for (size_t at = 0; at < 64 * 32 * 2; at++)
            CHECK(bytes[at] == (char)i, "byte %zu of frame %u is %d", at, i, bytes[at]);
        gpud_frame_unmap(frame);
        gpud_frame_release(&frame);
    }
    atomic_store(&done, true);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
    SAY("%d frames beside a capture, which is valid", FRAMES);
    gpud_receiver_destroy(&receiver);
    gpud_sender_destroy(&sender);
    gpud_context_destroy(&context);
    runtime_done();
    return 0;
}
