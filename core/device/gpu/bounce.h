/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* CPU access to device memory: pinned pages beside it. What is read is copied down by one DMA
 * before the map returns; what was written goes up by one DMA, in the order of the queue, without
 * a wait. */
#ifndef GPUD_DEVICE_GPU_BOUNCE_H
#define GPUD_DEVICE_GPU_BOUNCE_H

#include "device/gpu/gpu.h"

void gpud_bounces_init(struct gpud_gpu *gpu);
void gpud_bounces_finish(struct gpud_gpu *gpu);

/* The ops of that name for a queue with this handle. */
enum gpud_status gpud_bounce_map(struct gpud_gpu *gpu, void *queue, struct gpud_memory *memory,
                                 uint64_t offset, uint64_t size, unsigned access, int64_t deadline,
                                 void **data, struct gpud_error *error);
enum gpud_status gpud_bounce_unmap(struct gpud_gpu *gpu, void *queue, struct gpud_memory *memory,
                                   void *data, struct gpud_error *error);

/* Copies from pageable memory: the bytes are taken at once, and go up in the order of the queue.
 * A driver would do the same, but wait for a queue that stands still. Between enter and leave. */
enum gpud_status gpud_bounce_copy(struct gpud_gpu *gpu, void *queue, const struct gpud_copy *copy,
                                  struct gpud_error *error);

#endif
