/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* The ring of one configuration: the driver's buffers, and the frames that they become.
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
#ifndef GPUD_CAPTURE_RING_H
#define GPUD_CAPTURE_RING_H

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
    int wake_fd;            /* readable: something came back while somebody waited */
    atomic_uint references; /* the capture, and each acquired frame */

    /* Around calls that give the driver buffers or stop it, so that none comes after the stop. */
    struct gpud_lock driver_lock;
    bool streaming;

    /* Never held across a call of anybody else's. */
    struct gpud_lock lock;
    pthread_cond_t complete; /* a device is done with a buffer */
    uint64_t queued;         /* a bit a buffer: the driver has it */
    uint64_t to_queue;       /* a bit a buffer: ours, to be queued */
    uint64_t acquired;       /* a bit a frame: the application has it */
    uint32_t pending;        /* buffers that nobody has, and a device still works on */
    bool failed;             /* a device did not do what was enqueued */
    bool stopped;            /* for good; nobody waits for what becomes pending */
    bool waiting, woken;     /* somebody waits for a frame; wake_fd was written */
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

/* Which methods may be taken. */
struct gpud_capture_choice {
    const char *method;                      /* the only one; NULL: any */
    bool direct;                             /* only those that need no copy */
    const struct gpud_capture_method *below; /* only those after this one, which was found not to
                                                work; NULL: all */
    const char *reason;                      /* why that one does not */
};

/* The buffers in the first way that works, all of them queued. fallback_reason says what speaks
 * against the better ways. */
enum gpud_status gpud_capture_ring_create(struct gpud_v4l2 *node, struct gpud_device *device,
                                          struct gpud_device *host,
                                          const struct gpud_placement *placement, uint32_t slots,
                                          const struct gpud_capture_choice *choice,
                                          struct gpud_capture_ring **ring,
                                          struct gpud_error *error);
enum gpud_status gpud_capture_ring_start(struct gpud_capture_ring *ring, struct gpud_error *error);

/* Stops the driver, waits for what devices still do with its buffers, and takes the driver's
 * buffers away. GPUD_IO: it keeps them, for acquired frames lie in them; stop again when they are
 * released. */
enum gpud_status gpud_capture_ring_stop(struct gpud_capture_ring *ring, struct gpud_error *error);
void gpud_capture_ring_unref(struct gpud_capture_ring *ring);

/* Whether there is something for gpud_capture_ring_requeue() to give, or an event loop's epoll for
 * it to keep right. Else a thread need not wait for one that is in a call to the driver. */
bool gpud_capture_ring_has_back(struct gpud_capture_ring *ring);

/* Gives the driver what came back. GPUD_IO: it takes none and has none. */
enum gpud_status gpud_capture_ring_requeue(struct gpud_capture_ring *ring,
                                           struct gpud_error *error);

/* The driver gave this buffer. False: it never had it. *room: what has_room() says. */
bool gpud_capture_ring_dequeued(struct gpud_capture_ring *ring, uint32_t index, bool *room);

/* Whether another frame can be acquired; the answer stays true until one is. */
bool gpud_capture_ring_has_room(struct gpud_capture_ring *ring);

/* The frame of a dequeued buffer, the caller's; info is not filled. data_offset: where the
 * driver says that each area's picture begins. On failure the buffer comes back by itself. */
enum gpud_status gpud_capture_ring_acquire(struct gpud_capture_ring *ring,
                                           const struct gpud_v4l2_buffer *dequeued,
                                           struct gpud_frame **frame, struct gpud_error *error);
/* Gives a dequeued buffer back unseen. */
void gpud_capture_ring_drop(struct gpud_capture_ring *ring, uint32_t index);

/* From begin, which may be called again, to end, what comes back makes wake_fd readable if somebody
 * must come for the driver to have buffers. */
struct gpud_capture_wait {
    bool fed;  /* the driver has a buffer, so its node is worth a poll */
    bool back; /* something had come back before, which wakes nobody */
    bool out;  /* something can come back, so wake_fd is worth one */
};
struct gpud_capture_wait gpud_capture_ring_wait_begin(struct gpud_capture_ring *ring);
void gpud_capture_ring_wait_end(struct gpud_capture_ring *ring);

/* From now on the epoll watch_fd is readable when an acquire without a wait would have something to
 * tell; until unwatch, which comes before watch_fd is closed and leaves nothing of the ring in it.
 */
enum gpud_status gpud_capture_ring_watch(struct gpud_capture_ring *ring, int watch_fd,
                                         struct gpud_error *error);
void gpud_capture_ring_unwatch(struct gpud_capture_ring *ring);
/* The stream has ended, and acquire says why. */
void gpud_capture_ring_end(struct gpud_capture_ring *ring);

/* A frame in place, whole by the driver's word, whose buffer is unproven: is it there? */
enum gpud_status gpud_capture_ring_prove(struct gpud_capture_ring *ring, uint32_t index,
                                         struct gpud_error *error);

/* --- between ring.c, canary.c, frames.c and watch.c ---------------------------------------- */

/* Before the buffers are queued. */
enum gpud_status gpud_capture_ring_set_canaries(struct gpud_capture_ring *ring,
                                                struct gpud_error *error);

/* With driver_lock held: the epoll watches what it should now. False: it cannot (watch_error), and
 * is readable, so that an acquire comes that says so. */
bool gpud_capture_ring_update_watch(struct gpud_capture_ring *ring);
/* With lock held: wake_fd is made readable, or not readable. */
void gpud_capture_ring_set_woken(struct gpud_capture_ring *ring, bool woken);
/* With lock held: whether an event loop shall call acquire, whatever the node says. */
bool gpud_capture_ring_is_due(const struct gpud_capture_ring *ring);

extern const struct gpud_frame_owner_ops gpud_capture_in_place_ops, gpud_capture_copied_ops;

#endif
