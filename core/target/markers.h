/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TARGET_MARKERS_H
#define GPUD_TARGET_MARKERS_H

#include "target/state.h"

/* Brings ring->posted up to date. GPUD_PEER: the writer broke the rules. */
enum gpud_status gpud_target_look(struct gpud_target_ring *ring, struct gpud_error *error);

/* Sleeps until the next marker is written, until the deadline, or for a short while. */
void gpud_target_wait(struct gpud_target_ring *ring, int64_t began, int64_t deadline);

/* How many rows of frame `number`, the next one, are announced. GPUD_PEER: more than it has. */
enum gpud_status gpud_target_look_at_lines(struct gpud_target_ring *ring, uint32_t number,
                                           uint32_t *lines, struct gpud_error *error);

/* Waits until so many rows of a held frame are announced, or until its marker is written. lines
 * GPUD_TARGET_WHOLE: for the marker alone. GPUD_PEER: the rows never come. From any thread. */
#define GPUD_TARGET_WHOLE UINT32_MAX
enum gpud_status gpud_target_wait_lines(struct gpud_target_ring *ring, uint32_t number,
                                        uint32_t lines, int64_t deadline, struct gpud_error *error);

/* Whether the writer has overwritten frame `number`, or may be doing so. From any thread. */
bool gpud_target_is_lapped(const struct gpud_target_ring *ring, uint32_t number);

#endif
