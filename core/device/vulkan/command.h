/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A queue as the backend uses it: commands in order, each of which raises the queue's timeline. */
#ifndef GPUD_VULKAN_COMMAND_H
#define GPUD_VULKAN_COMMAND_H

#include "device/vulkan/vulkan.h"

extern const struct gpud_async_ops gpud_vulkan_async_ops;

/* Not in the device's list yet. thread: calls its completions; NULL: it gets none. */
enum gpud_status gpud_vulkan_queue_new(struct gpud_device *device,
                                       struct gpud_completion_thread *thread,
                                       struct vulkan_queue **queue, struct gpud_error *error);
/* For one that is idle and in no list. */
void gpud_vulkan_queue_free(struct vulkan_device *vulkan, struct vulkan_queue *queue);

/* Rows between two blocks. */
struct vulkan_rows {
    const struct vulkan_block *to, *from;
    uint64_t to_offset, from_offset;
    uint32_t to_stride, from_stride;
    uint64_t row_bytes;
    uint32_t rows;
};

/* Records commands between the acquire of blocks and their release. */
typedef void (*vulkan_record_fn)(const struct vulkan_device *vulkan, VkCommandBuffer buffer,
                                 const void *what);

/* Puts what fn records on the queue. blocks: the buffers that it uses; NULL: none. */
VkResult gpud_vulkan_queue_record(struct gpud_device *device, struct vulkan_queue *queue,
                                  const struct vulkan_block *const blocks[2], vulkan_record_fn fn,
                                  const void *what);

enum gpud_status gpud_vulkan_queue_copy(struct gpud_device *device, struct vulkan_queue *queue,
                                        const struct vulkan_rows *rows, struct gpud_error *error);

/* Clears all of a block. */
enum gpud_status gpud_vulkan_queue_clear(struct gpud_device *device, struct vulkan_queue *queue,
                                         const struct vulkan_block *block,
                                         struct gpud_error *error);

/* GPUD_TIMEOUT: the queue is still busy. */
enum gpud_status gpud_vulkan_queue_wait(struct gpud_device *device, struct vulkan_queue *queue,
                                        int64_t deadline, struct gpud_error *error);

/* A point on a timeline. As an event of gpud_async_ops, it is one of these on the heap. */
struct vulkan_event {
    struct vulkan_timeline *timeline;
    uint64_t value;
};

/* The end of the queue's current work. NULL: out of memory. */
struct vulkan_event *gpud_vulkan_queue_mark(struct vulkan_queue *queue);

/* Makes later work of the queue wait for the event. */
enum gpud_status gpud_vulkan_queue_await(struct gpud_device *device, struct vulkan_queue *queue,
                                         const struct vulkan_event *event,
                                         struct gpud_error *error);

enum gpud_status gpud_vulkan_timeline_create(struct gpud_device *device,
                                             struct vulkan_timeline **timeline,
                                             struct gpud_error *error);
void gpud_vulkan_timeline_unref(struct vulkan_device *vulkan, struct vulkan_timeline *timeline);

#endif
