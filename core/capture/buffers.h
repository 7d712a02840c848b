/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_BUFFERS_H
#define GPUD_CAPTURE_BUFFERS_H

#include "capture/ring_state.h"

/* ring->limit buffers and a few to spare, by ring->method. On failure there may be some. */
enum gpud_status gpud_capture_buffers_create(struct gpud_capture_ring *ring,
                                             struct gpud_error *error);
/* For frames that are copies: shows each buffer to the device that copies. */
enum gpud_status gpud_capture_buffers_show(struct gpud_capture_ring *ring,
                                           struct gpud_error *error);
/* Takes back buffers that were never streamed into. */
void gpud_capture_buffers_undo(struct gpud_capture_ring *ring);

/* The memory of one buffer. */
void gpud_capture_buffer_drop(struct gpud_capture_buffer *buffer);

/* From any thread. The last reference frees the ring; the driver is not called. */
void gpud_capture_ring_unref(struct gpud_capture_ring *ring);

#endif
