/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_BUFFERS_H
#define GPUD_CAPTURE_BUFFERS_H

#include "capture/ring_state.h"

/* Creates ring->limit buffers and a few spare ones, by ring->method. On failure some may exist. */
enum gpud_status gpud_capture_buffers_create(struct gpud_capture_ring *ring,
                                             struct gpud_error *error);
/* For copied frames: makes each buffer accessible to the device that copies. */
enum gpud_status gpud_capture_buffers_show(struct gpud_capture_ring *ring,
                                           struct gpud_error *error);
/* Frees buffers that were never streamed into. */
void gpud_capture_buffers_undo(struct gpud_capture_ring *ring);

/* Frees the memory of one buffer. */
void gpud_capture_buffer_drop(struct gpud_capture_buffer *buffer);

/* From any thread. The last reference frees the ring; the driver is not called. */
void gpud_capture_ring_unref(struct gpud_capture_ring *ring);

#endif
