/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of a frame. Whoever owns a ring makes its frames once, with the ring, so that none is
 * allocated while frames flow; a wrapped frame is the exception. */
#ifndef GPUD_FRAME_FRAME_H
#define GPUD_FRAME_FRAME_H

#include "base/clock.h"
#include "device/device.h"
#include <gpudirect/frame.h>

/* What the owner of a frame does when the holder is finished with it. */
struct gpud_frame_owner_ops {
    /* Takes the frame back; from any thread, possibly after the object that lent it was destroyed.
     */
    void (*release)(struct gpud_frame *frame);
    /* Waits until the frame's bytes are there, for reading by the CPU. NULL: they always are, or
     * the queue sees to it. GPUD_PEER: they never will; the frame was flagged CORRUPTED. */
    enum gpud_status (*settle)(struct gpud_frame *frame, int64_t deadline,
                               struct gpud_error *error);
    /* gpud_frame_wait() and _post() with the application's queue. NULL: there is nothing to wait
     * for, and nobody to tell. */
    enum gpud_status (*wait)(struct gpud_frame *frame, struct gpud_queue *queue,
                             struct gpud_error *error);
    enum gpud_status (*post)(struct gpud_frame *frame, struct gpud_queue *queue,
                             struct gpud_error *error);
    /* Whether it turned out that the bytes will never come. NULL: they always do. */
    bool (*is_poisoned)(const struct gpud_frame *frame);
};

/* wait and post for frames whose own queue (frame->queue) orders all work on them. */
enum gpud_status gpud_frame_join_wait(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error);
enum gpud_status gpud_frame_join_post(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error);

/* Whether the frame holds what was written into it. */
enum gpud_status gpud_frame_check(const struct gpud_frame *frame, struct gpud_error *error);

/* The flags that belong to the picture, and go where it goes; the others belong to one frame, or to
 * the library. */
#define GPUD_FRAME_TRAVELS \
    (GPUD_FRAME_CORRUPTED | GPUD_FRAME_DISCONTINUITY | ~(uint32_t)(GPUD_FRAME_USER - 1))

struct gpud_frame {
    const struct gpud_frame_owner_ops *ops;
    void *owner;
    struct gpud_memory *memory; /* borrowed from the owner's ring */
    uint64_t offset;            /* of the frame in memory */
    uint32_t slot;              /* in the owner's ring; UINT32_MAX: wrapped */
    struct gpud_queue *queue;   /* that orders work on the frame and maps it; NULL: host memory */
    bool posted;                /* wrapped: `queue` runs after the application's */
    void *mapped;               /* what the queue's map gave */
    unsigned maps;              /* nesting */
    unsigned access;            /* of the map, where there is one */
    struct gpud_error spoiled;  /* what was written last is lost, and why; GPUD_OK: it is not */
    struct gpud_frame_info info;
};

#endif
