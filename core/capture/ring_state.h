/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* The ring of one configuration: the driver's buffers, and the frames that they become. What the
 * ring's files share. Each calls only those before it: buffers.c, ring_watch.c, feed.c, frames.c,
 * canary.c, ring.c.
 *
 *   in place  driver ──dequeued──▶ buffer = frame ──▶ application ──released──▶ driver
 *                                                        └──a queue is done with it──▶ driver
 *   copied    driver ──dequeued──▶ buffer ──copy──▶ slot = frame ──▶ application ──▶ free slot
 *                                    └──the copy is done──▶ driver
 *
 * The frame is the buffer itself, in place, where the driver writes into memory of the device that
 * the frames are wanted on. Frames may outlive the capture, and so does the ring; the driver is not
 * called any more once it was stopped. */
/* clang-format on */
#ifndef GPUD_CAPTURE_RING_STATE_H
#define GPUD_CAPTURE_RING_STATE_H

#include "base/lock.h"
#include "capture/formats.h"
#include "capture/v4l2.h"
#include "frame/frame.h"

/* One bit a buffer in a word; V4L2's own limit was 32 for long. */
#define GPUD_CAPTURE_BUFFERS_MAX 64
/* What the driver has beyond the frames that may be acquired at once: one that it fills, one to go
 * on with. */
#define GPUD_CAPTURE_SPARE 2
/* Work of a device on a buffer that takes longer than this is stuck: the memory stays, for a GPU
 * may still touch it. */
#define GPUD_CAPTURE_STOP_TIMEOUT (5 * GPUD_SEC)

struct gpud_capture_buffer {
    struct gpud_capture_ring *ring;
    bool posted; /* in place: the frame's queue comes after one of the application's */
    struct gpud_v4l2_buffer raw; /* as it is queued */
    struct gpud_memory *memory;  /* that the driver writes */
    int dmabuf[GPUD_PLANES_MAX]; /* of each area of memory, as the driver was given it; -1: none */
    struct gpud_memory
        *bounce; /* pages that the device can read where it cannot read the driver's; else NULL */
    struct gpud_memory
        *source; /* what the device copies from: bounce or memory as it sees them; NULL: in place */
};

struct gpud_capture_ring {
    const struct gpud_log *log;
    struct gpud_v4l2 *node;     /* the capture's: not touched after the stop */
    struct gpud_device *device; /* where the frames shall arrive */
    struct gpud_device *host;
    struct gpud_placement placement;
    const struct gpud_capture_method *method;
    char fallback_reason[GPUD_REASON_MAX];

    uint32_t buffer_count;
    struct gpud_capture_buffer *buffers;
    uint64_t unproven; /* a bit a buffer: the canary was not yet seen gone from it */
    bool proven;       /* it was, from one at least, or the method needs none */
    bool in_place;
    uint32_t frame_count; /* in place: one a buffer; copied: one a slot */
    /* Each slot has a queue of its own, for a queue is one thread's at a time: the application
     * may map one frame while the next one is being copied. */
    struct gpud_frame *frames;
    uint32_t limit;         /* frames that may be acquired at once */
    int wake_fd;            /* readable: a buffer came back while a thread waited */
    atomic_uint references; /* the capture, and each acquired frame */

    /* Around calls that give the driver buffers or stop it, so that none comes after the stop. */
    struct gpud_lock driver_lock;
    bool streaming;

    /* Never held while calling a driver or the application. */
    struct gpud_lock lock;
    pthread_cond_t complete; /* a device is done with a buffer */
    uint64_t queued;         /* a bit a buffer: the driver has it */
    uint64_t to_queue;       /* a bit a buffer: ours, to be queued */
    uint64_t acquired;       /* a bit a frame: the application has it */
    uint32_t pending;        /* buffers given back that a device still works on */
    bool failed;             /* a device did not do what was enqueued */
    bool stopped;            /* for good: what becomes pending is not waited for */
    bool waiting, woken;     /* a thread waits for a frame; wake_fd was written */
    bool blind;              /* and not for the node, for the driver had no buffer then */
    bool returned; /* a device was done with a buffer since buffers were last queued, or the driver
                      took none and has none: an acquire shall come */
    bool ended;    /* acquire gives nothing but an error */

    /* For event loops. Both are written with both locks held, and read with either. */
    int watch_fd;    /* the capture's epoll; -1: none */
    int watch_error; /* errno of why it does not watch the node as it should, or 0 */
    /* With driver_lock held. */
    bool node_watched;
    uint32_t watched_events;
};

/* The bit of a buffer, or of a frame, in one of the words above. */
static inline uint64_t gpud_capture_bit(uint32_t index)
{
    return UINT64_C(1) << index;
}

#endif
