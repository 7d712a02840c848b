/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TARGET_FRAMES_H
#define GPUD_TARGET_FRAMES_H

#include "target/state.h"

/* Makes the frames of a new ring. */
enum gpud_status gpud_target_frames_create(struct gpud_target_ring *ring, struct gpud_error *error);

/* The next detected frame; *frame is NULL if there is none. Fills in the layout, the offset and the
 * flags of its info. *dropped: how many frames before it were lost. */
enum gpud_status gpud_target_take(struct gpud_target_ring *ring, struct gpud_frame **frame,
                                  uint64_t *dropped, struct gpud_error *error);

#endif
