/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TARGET_RING_H
#define GPUD_TARGET_RING_H

#include "target/state.h"

/* A new ring, or one that an earlier target left behind. params are checked and complete. */
enum gpud_status gpud_target_ring_create(struct gpud_context *context, struct gpud_device *device,
                                         struct gpud_device *host,
                                         const struct gpud_target_params *params,
                                         struct gpud_target_ring **ring, struct gpud_error *error);

/* Ends the target's use: frees the ring, or leaves it where the writer may still write. */
void gpud_target_ring_leave(struct gpud_target_ring *ring);

#endif
