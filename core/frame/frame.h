/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of a frame. Whoever owns a ring makes its frames once, with the ring, so that none is
 * allocated while frames flow; a wrapped frame is the exception. */
#ifndef GPUD_FRAME_FRAME_H
#define GPUD_FRAME_FRAME_H

#include "base/clock.h"
#include "device/device.h"
#include <gpudirect/frame.h>

/* What the owner of a frame answers for. Every op is there: an owner that has nothing to wait for
 * says so by one of the functions below. */
struct gpud_frame_owner_ops {
    /* Takes the frame back; from any thread, possibly after the object that it came from was
     * destroyed. */
    void (*release)(struct gpud_frame *frame);
    /* What is put on the queue from now on sees the frame's bytes. queue: of the frame's device,
     * which has fences. */
    enum gpud_status (*wait)(struct gpud_frame *frame, struct gpud_queue *queue,
                             struct gpud_error *error);
    /* The same for the calling thread: the bytes are there, or there after what is on the frame's
     * own queue. GPUD_PEER: they never will be; the frame was flagged CORRUPTED. */
    enum gpud_status (*wait_host)(struct gpud_frame *frame, int64_t deadline,
                                  struct gpud_error *error);
    /* The frame goes on, back to its owner or to receivers, only after what is on the queue now. */
    enum gpud_status (*post)(struct gpud_frame *frame, struct gpud_queue *queue,
                             struct gpud_error *error);
    /* Whether it turned out that the bytes will never come. */
    bool (*is_poisoned)(const struct gpud_frame *frame);
};

/* For frames that are complete when they are handed out. */
enum gpud_status gpud_frame_wait_complete(struct gpud_frame *frame, struct gpud_queue *queue,
                                          struct gpud_error *error);
enum gpud_status gpud_frame_wait_host_complete(struct gpud_frame *frame, int64_t deadline,
                                               struct gpud_error *error);
bool gpud_frame_is_never_poisoned(const struct gpud_frame *frame);

/* wait and post for frames whose own queue orders all work on them; without one (host memory) all
 * work on them is done when the call that did it returns. */
enum gpud_status gpud_frame_join_wait(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error);
enum gpud_status gpud_frame_join_post(struct gpud_frame *frame, struct gpud_queue *queue,
                                      struct gpud_error *error);

/* What is put on the queue, of whatever device, from now on sees the frame's bytes. Where devices
 * have no way to wait for each other, or for their own queues, the calling thread waits.
 * GPUD_PEER: as wait_host says. */
enum gpud_status gpud_frame_order(struct gpud_frame *frame, struct gpud_queue *queue,
                                  int64_t deadline, struct gpud_error *error);

/* frame->queue of wrapped memory of a device, which is made when it is first needed: most is only
 * submitted. Where the frame's owner has a queue it is there already. */
enum gpud_status gpud_frame_need_queue(struct gpud_frame *frame, struct gpud_error *error);

/* Whether the frame holds what was written into it. */
enum gpud_status gpud_frame_check(const struct gpud_frame *frame, struct gpud_error *error);

/* The flags that belong to the picture, and go where it goes; the others belong to one frame, or to
 * the library. */
#define GPUD_FRAME_TRAVELS                                                     \
    (GPUD_FRAME_CORRUPTED | GPUD_FRAME_DISCONTINUITY | GPUD_FRAME_INTERLACED | \
     GPUD_FRAME_TOP_FIRST | GPUD_FRAME_TOP_FIELD | GPUD_FRAME_BOTTOM_FIELD |   \
     ~(uint32_t)(GPUD_FRAME_USER - 1))

struct gpud_frame {
    const struct gpud_frame_owner_ops *ops;
    void *owner;
    atomic_uint more; /* holders beside the first; 0 again when the last one releases it */
    struct gpud_memory *memory; /* borrowed from the owner's ring */
    uint64_t offset;            /* of the frame in memory */
    uint32_t slot;              /* in the owner's ring; UINT32_MAX: wrapped */
    struct gpud_queue *queue;   /* that orders work on the frame and maps it; NULL: host memory */
    struct gpud_fence written;  /* wrapped: what the application's queue has yet to do to it */
    void *mapped;               /* what the queue's map gave */
    unsigned maps;              /* nesting */
    unsigned access;            /* of the map, where there is one */
    struct gpud_error spoiled;  /* what was written last is lost, and why; GPUD_OK: it is not */
    struct gpud_frame_info info;
};

#endif
