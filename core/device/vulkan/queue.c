/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ops of queues: copies, completions, fences and CPU access. */
#include "device/vulkan/bounce.h"

static enum gpud_status create(struct gpud_queue *queue, struct gpud_error *error)
{
    struct vulkan_queue *made = NULL;
    struct vulkan_device *vulkan = gpud_vulkan_device(queue->device);
    enum gpud_status status =
        gpud_vulkan_queue_new(queue->device, &vulkan->completions, &made, error);
    if (status != GPUD_OK)
        return status;
    gpud_async_add(&vulkan->async, &made->async);
    queue->backend = made;
    return GPUD_OK;
}

static void destroy(struct gpud_queue *queue)
{
    gpud_async_retire(queue->backend, true);
}

static bool is_pageable(const struct gpud_memory *memory)
{
    return !gpud_vulkan_record(memory)->block.buffer;
}

static enum gpud_status copy(struct gpud_queue *queue, const struct gpud_copy *copy,
                             struct gpud_error *error)
{
    if (is_pageable(copy->to) && is_pageable(copy->from))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s does not copy between two host memories that its driver cannot "
                         "import: use the host's queue",
                         queue->device->info.name);
    if (is_pageable(copy->to))
        return gpud_vulkan_bounce_down(queue->backend, copy, error);
    if (is_pageable(copy->from))
        return gpud_vulkan_bounce_up(queue->backend, copy, error);
    const struct vulkan_rows rows = {
        .to = &gpud_vulkan_record(copy->to)->block,
        .from = &gpud_vulkan_record(copy->from)->block,
        .to_offset = copy->to_offset,
        .from_offset = copy->from_offset,
        .to_stride = copy->to_stride,
        .from_stride = copy->from_stride,
        .row_bytes = copy->row_bytes,
        .rows = copy->rows,
    };
    return gpud_vulkan_queue_copy(queue->device, queue->backend, &rows, error);
}

static enum gpud_status on_complete(struct gpud_queue *queue, gpud_complete_fn fn, void *arg,
                                    struct gpud_error *error)
{
    struct vulkan_queue *vulkan = queue->backend;
    struct gpud_completions *completions = vulkan->async.completions;
    long result;
    if (gpud_vulkan_async_ops.state(queue->device, vulkan, &result) == GPUD_PROGRESS_DONE &&
        gpud_completions_are_called(completions)) {
        fn(arg, gpud_completions_failure(completions) ? GPUD_IO : GPUD_OK);
        return GPUD_OK;
    }
    struct vulkan_event *event = gpud_vulkan_queue_mark(vulkan);
    if (!event)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to be told when a queue is done");
    enum gpud_status status = gpud_completions_add(completions, event, fn, arg, NULL, error);
    if (status != GPUD_OK)
        gpud_vulkan_async_ops.drop(queue->device, event);
    return status;
}

static enum gpud_status finish(struct gpud_queue *queue, int64_t deadline, struct gpud_error *error)
{
    const struct vulkan_queue *vulkan = queue->backend;
    enum gpud_status status =
        gpud_vulkan_queue_wait(queue->device, queue->backend, deadline, error);
    long failure = gpud_completions_failure(vulkan->async.completions);
    if (status == GPUD_OK && failure)
        return gpud_vulkan_fail(error, (VkResult)failure, "work on %s failed",
                                queue->device->info.name);
    return status;
}

/* --- fences ---------------------------------------------------------------------------------- */

static enum gpud_status mark(struct gpud_queue *queue, void **fence, struct gpud_error *error)
{
    struct vulkan_event *event = gpud_vulkan_queue_mark(queue->backend);
    if (!event)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a fence");
    *fence = event;
    return GPUD_OK;
}

static enum gpud_status await(struct gpud_queue *queue, void *fence, struct gpud_error *error)
{
    return gpud_vulkan_queue_await(queue->device, queue->backend, fence, error);
}

/* A failure counts as passed: a lost device does no more work. */
static bool is_passed(struct gpud_device *device, void *fence)
{
    long result;
    return gpud_vulkan_async_ops.query(device, fence, &result) != GPUD_PROGRESS_BUSY;
}

static void drop(struct gpud_device *device, void *fence)
{
    gpud_vulkan_async_ops.drop(device, fence);
}

/* --- CPU access ------------------------------------------------------------------------------ */

/* The CPU's own address of the memory, or NULL. */
static char *address_of(const struct gpud_memory *memory)
{
    return memory->host ? memory->host : gpud_vulkan_record(memory)->block.mapped;
}

static enum gpud_status map(struct gpud_queue *queue, struct gpud_memory *memory, uint64_t offset,
                            uint64_t size, unsigned access, int64_t deadline, void **data,
                            struct gpud_error *error)
{
    char *address = address_of(memory);
    if (!address)
        return gpud_vulkan_bounce_map(queue->backend, memory, offset, size, access, deadline, data,
                                      error);
    enum gpud_status status =
        gpud_vulkan_queue_wait(queue->device, queue->backend, deadline, error);
    if (status == GPUD_OK)
        *data = address + offset;
    return status;
}

static enum gpud_status unmap(struct gpud_queue *queue, struct gpud_memory *memory, void *data,
                              struct gpud_error *error)
{
    return address_of(memory) ? GPUD_OK
                              : gpud_vulkan_bounce_unmap(queue->backend, memory, data, error);
}

const struct gpud_queue_ops gpud_vulkan_queue_ops = {
    .create = create,
    .destroy = destroy,
    .copy = copy,
    .on_complete = on_complete,
    .finish = finish,
    .map = map,
    .unmap = unmap,
};

const struct gpud_fence_ops gpud_vulkan_fence_ops = {
    .mark = mark,
    .await = await,
    .is_passed = is_passed,
    .drop = drop,
};
