/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TARGET_MEMORY_H
#define GPUD_TARGET_MEMORY_H

#include "target/state.h"

/* A ring without frames: its words, its slots and how the writer reaches them. params are checked
 * and complete. */
enum gpud_status gpud_target_memory_create(struct gpud_context *context, struct gpud_device *device,
                                           struct gpud_device *host,
                                           const struct gpud_target_params *params,
                                           struct gpud_target_ring **ring,
                                           struct gpud_error *error);

/* The size of a slot of this layout. */
uint64_t gpud_target_slot_size(const struct gpud_layout *layout);

/* Whether the writer has announced that it writes no more. */
bool gpud_target_has_stopped(const struct gpud_target_ring *ring);

/* The last reference frees the memory, except memory that a writer on the bus may still write. From
 * any thread. */
void gpud_target_ring_unref(struct gpud_target_ring *ring);

#endif
