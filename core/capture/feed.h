/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Queuing buffers to the driver, and dequeuing them. */
#ifndef GPUD_CAPTURE_FEED_H
#define GPUD_CAPTURE_FEED_H

#include "capture/ring_state.h"

/* Whether gpud_capture_ring_requeue() has a buffer to queue, or an event loop's epoll to update. If
 * not, a thread need not wait for another that is in a call to the driver. */
bool gpud_capture_ring_has_back(struct gpud_capture_ring *ring);

/* Queues returned buffers. GPUD_IO: the driver accepts none and has none. */
enum gpud_status gpud_capture_ring_requeue(struct gpud_capture_ring *ring,
                                           struct gpud_error *error);

/* Records a dequeued buffer. False: the driver did not have it. *room: as has_room(). */
bool gpud_capture_ring_dequeued(struct gpud_capture_ring *ring, uint32_t index, bool *room);

/* Whether another frame can be acquired; the answer stays true until one is. */
bool gpud_capture_ring_has_room(struct gpud_capture_ring *ring);

/* Gives a dequeued buffer back unseen. */
void gpud_capture_ring_drop(struct gpud_capture_ring *ring, uint32_t index);

/* From begin, which may be called again, to end, a returned buffer makes wake_fd readable if only
 * this thread can queue it. */
struct gpud_capture_wait {
    bool fed;  /* the driver has a buffer, so its node is to be polled */
    bool back; /* a buffer was returned before, without wake_fd */
    bool out;  /* a buffer may be returned, so wake_fd is to be polled */
};
struct gpud_capture_wait gpud_capture_ring_wait_begin(struct gpud_capture_ring *ring);
void gpud_capture_ring_wait_end(struct gpud_capture_ring *ring);

/* Queues this buffer. -1: errno. */
int gpud_capture_ring_queue(struct gpud_capture_ring *ring, uint32_t index);

/* With lock held: a buffer was returned. by_device: only the waiting thread can queue it, which can
 * wait for the next frame while the driver has enough buffers, so that most waits for a frame are
 * not woken for every returned one. */
void gpud_capture_ring_wake(struct gpud_capture_ring *ring, bool by_device);

#endif
