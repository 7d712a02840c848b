/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The inside of a frame. A ring's owner makes its frames with the ring, so that none is allocated
 * while frames flow; only wrapped frames are allocated one by one. */
#ifndef GPUD_FRAME_FRAME_H
#define GPUD_FRAME_FRAME_H

#include "base/clock.h"
#include "device/device.h"
#include <gpudirect/frame.h>

/* The operations of a frame's owner. All but the last are mandatory: an owner with nothing to wait
 * for uses the functions below. */
struct gpud_frame_owner_ops {
    /* Takes the frame back; from any thread, possibly after its sender, receiver or capture was
     * destroyed. */
    void (*release)(struct gpud_frame *frame);
    /* Orders later work on the queue after the frame's bytes. queue: of the frame's device, which
     * has fences. */
    enum gpud_status (*wait)(struct gpud_frame *frame, struct gpud_queue *queue,
                             struct gpud_error *error);
    /* The same for the calling thread: the bytes are complete, or will be after the current work on
     * the frame's own queue. GPUD_PEER: they never will be; the frame was flagged CORRUPTED. */
    enum gpud_status (*wait_host)(struct gpud_frame *frame, int64_t deadline,
                                  struct gpud_error *error);
    /* Hands the frame on, to its owner or to receivers, only after the queue's current work. */
    enum gpud_status (*post)(struct gpud_frame *frame, struct gpud_queue *queue,
                             struct gpud_error *error);
    /* Whether the bytes are known never to come. */
    bool (*is_poisoned)(const struct gpud_frame *frame);
    /* As wait_host, for the first rows alone, of a frame that may still be written. GPUD_PEER:
     * every time. NULL: there are no such frames. */
    enum gpud_status (*wait_lines)(struct gpud_frame *frame, uint32_t lines, int64_t deadline,
                                   struct gpud_error *error);
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

/* Orders later work on a queue of any device after the frame's bytes. If the devices cannot wait
 * for each other, or for their own queues, the calling thread waits. GPUD_PEER: as for wait_host.
 */
enum gpud_status gpud_frame_order(struct gpud_frame *frame, struct gpud_queue *queue,
                                  int64_t deadline, struct gpud_error *error);

/* Makes sure that a frame in device memory has a queue. That of wrapped memory is created on first
 * use, because most such frames are only submitted. */
enum gpud_status gpud_frame_need_queue(struct gpud_frame *frame, struct gpud_error *error);

/* The bytes in use. */
uint64_t gpud_frame_bytes(const struct gpud_frame *frame);

/* Fails if bytes that the CPU wrote into the frame were lost. */
enum gpud_status gpud_frame_check(const struct gpud_frame *frame, struct gpud_error *error);

/* The flags that belong to the picture, and travel with it; the others belong to one frame, or to
 * the library. */
#define GPUD_FRAME_TRAVELS                                                     \
    (GPUD_FRAME_CORRUPTED | GPUD_FRAME_DISCONTINUITY | GPUD_FRAME_INTERLACED | \
     GPUD_FRAME_TOP_FIRST | GPUD_FRAME_TOP_FIELD | GPUD_FRAME_BOTTOM_FIELD |   \
     ~(uint32_t)(GPUD_FRAME_USER - 1))

struct gpud_frame {
    const struct gpud_frame_owner_ops *ops;
    void *owner;
    atomic_uint extra_refs;     /* holders besides the first */
    struct gpud_memory *memory; /* borrowed from the owner's ring */
    uint64_t offset;            /* of the frame, in memory */
    uint32_t slot;              /* in the owner's ring; UINT32_MAX: wrapped */
    struct gpud_queue *queue;   /* orders work on the frame, and maps it; NULL: host memory */
    struct gpud_fence written;  /* wrapped: work on it that is pending on the application's queue */
    void *mapped;               /* the address that the queue's map returned */
    unsigned maps;              /* nesting */
    unsigned access;            /* of the current map */
    struct gpud_error write_error; /* why the last bytes written by a map are lost; or GPUD_OK */
    struct gpud_frame_info info;   /* info.bytes 0: all */
};

#endif
