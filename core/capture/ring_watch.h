/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What an event loop sees of a ring. */
#ifndef GPUD_CAPTURE_RING_WATCH_H
#define GPUD_CAPTURE_RING_WATCH_H

#include "capture/ring_state.h"

/* From now on the epoll watch_fd is readable when an acquire without a wait would have something to
 * report. unwatch ends that, comes before watch_fd is closed, and leaves nothing of the ring in
 * it. */
enum gpud_status gpud_capture_ring_watch(struct gpud_capture_ring *ring, int watch_fd,
                                         struct gpud_error *error);
void gpud_capture_ring_unwatch(struct gpud_capture_ring *ring);
/* The stream has ended, and acquire says why. */
void gpud_capture_ring_end(struct gpud_capture_ring *ring);

/* With driver_lock held: the epoll watches what it should now. False: it cannot (watch_error), and
 * is readable, so that an acquire comes that says so. */
bool gpud_capture_ring_update_watch(struct gpud_capture_ring *ring);
/* With lock held: wake_fd is made readable, or not readable. */
void gpud_capture_ring_set_woken(struct gpud_capture_ring *ring, bool woken);
/* With lock held: whether an event loop shall call acquire, whatever the node says. */
bool gpud_capture_ring_is_due(const struct gpud_capture_ring *ring);

#endif
