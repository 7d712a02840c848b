/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_FRAMES_H
#define GPUD_CAPTURE_FRAMES_H

#include "capture/ring_state.h"

/* The frame of a dequeued buffer, the caller's; info is not filled. data_offset: where the
 * driver says that each area's picture begins. On failure the buffer comes back by itself. */
enum gpud_status gpud_capture_ring_acquire(struct gpud_capture_ring *ring,
                                           const struct gpud_v4l2_buffer *dequeued,
                                           struct gpud_frame **frame, struct gpud_error *error);

extern const struct gpud_frame_owner_ops gpud_capture_in_place_ops, gpud_capture_copied_ops;

#endif
