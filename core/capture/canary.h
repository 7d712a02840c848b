/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_CAPTURE_CANARY_H
#define GPUD_CAPTURE_CANARY_H

#include "capture/ring_state.h"

/* Writes the patterns, before the buffers are queued. */
enum gpud_status gpud_capture_ring_set_canaries(struct gpud_capture_ring *ring,
                                                struct gpud_error *error);

/* Checks that a complete frame really arrived in its buffer, if that is not proven yet. */
enum gpud_status gpud_capture_ring_prove(struct gpud_capture_ring *ring, uint32_t index,
                                         struct gpud_error *error);

#endif
