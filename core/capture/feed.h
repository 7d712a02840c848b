/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the driver is given, and what it gives. */
#ifndef GPUD_CAPTURE_FEED_H
#define GPUD_CAPTURE_FEED_H

#include "capture/ring_state.h"

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

/* Gives a dequeued buffer back unseen. */
void gpud_capture_ring_drop(struct gpud_capture_ring *ring, uint32_t index);

/* From begin, which may be called again, to end, a buffer that comes back makes wake_fd readable if
 * the driver gets it only when this thread gives it on. */
struct gpud_capture_wait {
    bool fed;  /* the driver has a buffer, so its node is worth a poll */
    bool back; /* a buffer had come back before: wake_fd does not tell */
    bool out;  /* a buffer can come back, so wake_fd is worth one */
};
struct gpud_capture_wait gpud_capture_ring_wait_begin(struct gpud_capture_ring *ring);
void gpud_capture_ring_wait_end(struct gpud_capture_ring *ring);

/* Gives the driver this buffer. -1: errno. */
int gpud_capture_ring_queue(struct gpud_capture_ring *ring, uint32_t index);

/* With lock held: something came back. by_device: only the waiting thread can give the driver the
 * buffer. That can wait for the next frame while the driver has enough of them: most waits for a
 * frame are for the node alone, and are not woken for every frame that is done with. */
void gpud_capture_ring_wake(struct gpud_capture_ring *ring, bool by_device);

#endif
