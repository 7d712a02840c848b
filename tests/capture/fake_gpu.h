/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A device whose memory the CPU cannot see, and whose queues stand still until the test lets them
 * go on. Of several queues the one goes on whose next command was enqueued last, as long as it
 * waits for no other: code that relies on the order between two queues without a fence always
 * gets the wrong picture. */
#ifndef GPUD_TESTS_FAKE_GPU_H
#define GPUD_TESTS_FAKE_GPU_H

#include "device/device.h"

struct fake_gpu {
    struct gpud_device *device; /* closed by fake_gpu_close() */
    bool manual;                /* commands wait for fake_gpu_run(); else they run at once */
    uint32_t refused_wraps;     /* that many wrap_host calls fail */
    int fail_copies;            /* that many copies are refused */
    int fail_completes;         /* that many on_complete calls are refused */
    bool no_pins;               /* host pages are seen, but none can be pinned */
    bool no_dmabufs, no_flush;  /* what it cannot do */
    uint64_t dmabuf_offset;     /* where it says that memory begins in its dma-bufs */
    uint32_t dmabuf_missing;    /* bytes that are not in them */

    uint32_t flushes; /* of what others wrote */

    pthread_mutex_t lock;
    struct fake_command {
        const void *queue; /* which one */
        enum { FAKE_COPY, FAKE_CALL, FAKE_FENCE, FAKE_AWAIT } kind;
        struct gpud_copy copy;
        gpud_complete_fn fn;
        void *arg;
        uintptr_t fence;
    } commands[64];
    uint32_t count;
    bool passed[64];   /* by a fence's number */
    uintptr_t last;    /* fence made */
    uint32_t fences;   /* not dropped */
    uint32_t memories; /* alive */
};

void fake_gpu_open(struct fake_gpu *gpu, struct gpud_context *context);
void fake_gpu_close(struct fake_gpu *gpu);

/* Its queues can wait for each other, and an application's can be joined: any pointer is one. */
void fake_gpu_give_fences(struct fake_gpu *gpu);

/* Runs what is enqueued, in order; with another status than GPUD_OK the copies do not happen. */
void fake_gpu_run(struct fake_gpu *gpu, enum gpud_status status);

/* The bytes of a memory of the device. */
const unsigned char *fake_gpu_bytes(const struct gpud_memory *memory);

#endif
