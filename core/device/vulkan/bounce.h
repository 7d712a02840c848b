/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* CPU access by copies, to memory that the CPU does not see or should not read over the bus, and
 * copies of host memory that the driver cannot import. */
#ifndef GPUD_VULKAN_BOUNCE_H
#define GPUD_VULKAN_BOUNCE_H

#include "device/vulkan/command.h"

void gpud_vulkan_bounces_init(struct vulkan_device *vulkan);
void gpud_vulkan_bounces_finish(struct vulkan_device *vulkan);

/* The ops of that name, for memory that is not mapped. */
enum gpud_status gpud_vulkan_bounce_map(struct vulkan_queue *queue, struct gpud_memory *memory,
                                        uint64_t offset, uint64_t size, unsigned access,
                                        int64_t deadline, void **data, struct gpud_error *error);
enum gpud_status gpud_vulkan_bounce_unmap(struct vulkan_queue *queue, struct gpud_memory *memory,
                                          void *data, struct gpud_error *error);

/* From host memory that the driver cannot import: its bytes are taken at once. */
enum gpud_status gpud_vulkan_bounce_up(struct vulkan_queue *queue, const struct gpud_copy *copy,
                                       struct gpud_error *error);
/* Into such memory: this thread waits for the bytes. */
enum gpud_status gpud_vulkan_bounce_down(struct vulkan_queue *queue, const struct gpud_copy *copy,
                                         struct gpud_error *error);

#endif
