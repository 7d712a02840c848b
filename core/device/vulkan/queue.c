/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Queues of Vulkan and their commands. */
#include "device/vulkan/vulkan.h"

#include <stdlib.h>
#include <string.h>

/* === command ================================================================================= */

/* A command buffer, used again once its work is done. */
struct vulkan_command {
    struct vulkan_command *next;
    VkCommandBuffer buffer;
    uint64_t value;                 /* that its end gives the queue's timeline */
    struct vulkan_timeline *waited; /* which it waits for, or NULL */
};

/* Rows between two blocks. */
struct vulkan_rows {
    const struct vulkan_block *to, *from;
    uint64_t to_offset, from_offset;
    uint32_t to_stride, from_stride;
    uint64_t row_bytes;
    uint32_t rows;
};

/* --- timelines ------------------------------------------------------------------------------- */

enum gpud_status gpud_vulkan_timeline_create(struct gpud_device *device,
                                             struct vulkan_timeline **timeline,
                                             struct gpud_error *error)
{
    const struct vulkan_device *vulkan = gpud_vulkan_device(device);
    const VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
    };
    const VkSemaphoreCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
        .pNext = &type,
    };
    struct vulkan_timeline *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a timeline");
    VkResult result = vulkan->calls.CreateSemaphore(vulkan->device, &info, NULL, &made->semaphore);
    if (result != VK_SUCCESS) {
        free(made);
        return gpud_vulkan_fail(error, result, "no timeline semaphore on %s", device->info.name);
    }
    atomic_init(&made->references, 1);
    *timeline = made;
    return GPUD_OK;
}

static struct vulkan_timeline *ref(struct vulkan_timeline *timeline)
{
    atomic_fetch_add(&timeline->references, 1);
    return timeline;
}

void gpud_vulkan_timeline_unref(struct vulkan_device *vulkan, struct vulkan_timeline *timeline)
{
    if (!timeline || atomic_fetch_sub(&timeline->references, 1) != 1)
        return;
    vulkan->calls.DestroySemaphore(vulkan->device, timeline->semaphore, NULL);
    free(timeline);
}

static enum gpud_progress progress(const struct vulkan_device *vulkan,
                                   const struct vulkan_timeline *timeline, uint64_t value,
                                   long *result)
{
    uint64_t reached = 0;
    VkResult got =
        vulkan->calls.GetSemaphoreCounterValueKHR(vulkan->device, timeline->semaphore, &reached);
    *result = got;
    return got != VK_SUCCESS  ? GPUD_PROGRESS_FAILED
           : reached >= value ? GPUD_PROGRESS_DONE
                              : GPUD_PROGRESS_BUSY;
}

/* --- queues ---------------------------------------------------------------------------------- */

enum gpud_status gpud_vulkan_queue_new(struct gpud_device *device,
                                       struct gpud_completion_thread *thread,
                                       struct vulkan_queue **queue, struct gpud_error *error)
{
    struct vulkan_device *vulkan = gpud_vulkan_device(device);
    const VkCommandPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = vulkan->facts.family,
    };
    struct vulkan_queue *made = calloc(1, sizeof(*made));
    if (made)
        made->async.completions = gpud_completions_create(&gpud_vulkan_async_ops, device, thread);
    if (!made || !made->async.completions) {
        free(made);
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a queue");
    }
    made->async.handle = made;
    made->newest = &made->oldest;
    made->lane = &vulkan->lanes[atomic_fetch_add(&vulkan->next_lane, 1) % vulkan->facts.lanes];
    enum gpud_status status = gpud_vulkan_timeline_create(device, &made->timeline, error);
    if (status == GPUD_OK) {
        VkResult result = vulkan->calls.CreateCommandPool(vulkan->device, &info, NULL, &made->pool);
        if (result != VK_SUCCESS)
            status = gpud_vulkan_fail(error, result, "no command pool on %s", device->info.name);
    }
    if (status != GPUD_OK) {
        gpud_vulkan_queue_free(vulkan, made);
        return status;
    }
    *queue = made;
    return GPUD_OK;
}

static void release_queue(struct vulkan_device *vulkan, struct vulkan_queue *queue)
{
    while (queue->oldest) {
        struct vulkan_command *command = queue->oldest;
        queue->oldest = command->next;
        gpud_vulkan_timeline_unref(vulkan, command->waited);
        free(command);
    }
    if (queue->pool)
        vulkan->calls.DestroyCommandPool(vulkan->device, queue->pool, NULL);
    gpud_vulkan_timeline_unref(vulkan, queue->timeline);
    free(queue);
}

void gpud_vulkan_queue_free(struct vulkan_device *vulkan, struct vulkan_queue *queue)
{
    gpud_completions_unref(queue->async.completions);
    release_queue(vulkan, queue);
}

/* --- queries of the shared parts ------------------------------------------------------------- */

static void nothing_to_enter(struct gpud_device *device)
{
}

static enum gpud_progress query_queue(struct gpud_device *device, void *handle, long *result)
{
    struct vulkan_queue *queue = handle;
    return progress(gpud_vulkan_device(device), queue->timeline, atomic_load(&queue->submitted),
                    result);
}

/* The end of the queue's current work. NULL: out of memory. */
static struct vulkan_event *new_event(struct vulkan_queue *queue)
{
    struct vulkan_event *event = malloc(sizeof(*event));
    if (event)
        *event = (struct vulkan_event){ref(queue->timeline), atomic_load(&queue->submitted)};
    return event;
}

static enum gpud_progress mark_queue(struct gpud_device *device, void *handle, void **event)
{
    long result;
    if (query_queue(device, handle, &result) != GPUD_PROGRESS_BUSY)
        return GPUD_PROGRESS_DONE; /* a lost device does no more work */
    *event = new_event(handle);
    return *event ? GPUD_PROGRESS_BUSY : GPUD_PROGRESS_FAILED;
}

static enum gpud_progress vulkan_queue_query_event(struct gpud_device *device, void *event,
                                                   long *result)
{
    const struct vulkan_event *asked = event;
    return progress(gpud_vulkan_device(device), asked->timeline, asked->value, result);
}

static void vulkan_queue_drop_event(struct gpud_device *device, void *event)
{
    gpud_vulkan_timeline_unref(gpud_vulkan_device(device),
                               ((struct vulkan_event *)event)->timeline);
    free(event);
}

static void vulkan_queue_release(struct gpud_async_queue *async)
{
    release_queue(gpud_vulkan_device(async->async->device), (struct vulkan_queue *)async);
}

const struct gpud_async_ops gpud_vulkan_async_ops = {
    .enter = nothing_to_enter,
    .leave = nothing_to_enter,
    .mark = mark_queue,
    .query = vulkan_queue_query_event,
    .drop = vulkan_queue_drop_event,
    .state = query_queue,
    .release = vulkan_queue_release,
};

enum gpud_status gpud_vulkan_queue_wait(struct gpud_device *device, struct vulkan_queue *queue,
                                        int64_t deadline, struct gpud_error *error)
{
    long result = 0;
    switch (gpud_async_wait(&gpud_vulkan_device(device)->async, queue, deadline, &result)) {
    case GPUD_PROGRESS_BUSY:
        return gpud_fail(error, GPUD_TIMEOUT, "%s is still busy with what was enqueued",
                         device->info.name);
    case GPUD_PROGRESS_FAILED:
        return gpud_vulkan_fail(error, (VkResult)result, "work on %s failed", device->info.name);
    default:
        return GPUD_OK;
    }
}

/* --- commands: under the lane's lock --------------------------------------------------------- */

/* The oldest if its work is done, as all is on a device that was lost; else a new one. */
static VkResult vulkan_queue_take(struct vulkan_device *vulkan, struct vulkan_queue *queue,
                                  struct vulkan_command **command)
{
    struct vulkan_command *oldest = queue->oldest;
    long result;
    if (oldest && progress(vulkan, queue->timeline, oldest->value, &result) != GPUD_PROGRESS_BUSY) {
        queue->oldest = oldest->next;
        if (!queue->oldest)
            queue->newest = &queue->oldest;
        gpud_vulkan_timeline_unref(vulkan, oldest->waited);
        oldest->waited = NULL;
        *command = oldest;
        return VK_SUCCESS;
    }
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = queue->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    struct vulkan_command *made = calloc(1, sizeof(*made));
    if (!made)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    VkResult allocated = vulkan->calls.AllocateCommandBuffers(vulkan->device, &info, &made->buffer);
    if (allocated != VK_SUCCESS)
        free(made);
    else
        *command = made;
    return allocated;
}

/* Last in the list, so that what it is part of has ended when its value is reached. */
static void vulkan_queue_keep(struct vulkan_queue *queue, struct vulkan_command *command)
{
    command->value = atomic_load(&queue->submitted);
    command->next = NULL;
    *queue->newest = command;
    queue->newest = &command->next;
}

static VkResult vulkan_queue_submit(const struct vulkan_device *vulkan, struct vulkan_queue *queue,
                                    const VkCommandBuffer *buffer, const struct vulkan_event *after)
{
    const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const uint64_t value = atomic_load(&queue->submitted) + 1;
    const VkTimelineSemaphoreSubmitInfo values = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = after != NULL,
        .pWaitSemaphoreValues = after ? &after->value : NULL,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value,
    };
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &values,
        .waitSemaphoreCount = after != NULL,
        .pWaitSemaphores = after ? &after->timeline->semaphore : NULL,
        .pWaitDstStageMask = &all,
        .commandBufferCount = buffer != NULL,
        .pCommandBuffers = buffer,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &queue->timeline->semaphore,
    };
    VkResult result = vulkan->calls.QueueSubmit(queue->lane->queue, 1, &info, VK_NULL_HANDLE);
    if (result == VK_SUCCESS)
        atomic_store(&queue->submitted, value);
    return result;
}

enum gpud_status gpud_vulkan_queue_await(struct gpud_device *device, struct vulkan_queue *queue,
                                         const struct vulkan_event *event, struct gpud_error *error)
{
    struct vulkan_device *vulkan = gpud_vulkan_device(device);
    struct vulkan_command *command = NULL;
    gpud_lock_take(&queue->lane->lock);
    VkResult result = vulkan_queue_take(vulkan, queue, &command);
    if (result == VK_SUCCESS) {
        result = vulkan_queue_submit(vulkan, queue, NULL, event);
        if (result == VK_SUCCESS)
            command->waited = ref(event->timeline);
        vulkan_queue_keep(queue, command);
    }
    gpud_lock_release(&queue->lane->lock);
    return result == VK_SUCCESS
               ? GPUD_OK
               : gpud_vulkan_fail(error, result, "%s cannot wait for another queue",
                                  device->info.name);
}

/* --- recording ------------------------------------------------------------------------------- */

/* Between two uses by Vulkan's instances, or other drivers, a buffer belongs to none of them: the
 * acquire makes visible what others have written, the release what this queue has. */
static void vulkan_queue_hand_over(const struct vulkan_device *vulkan, VkCommandBuffer buffer,
                                   const struct vulkan_block *const blocks[2], bool acquire)
{
    const uint32_t own = vulkan->facts.family;
    const VkAccessFlags transfer = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    VkBufferMemoryBarrier barriers[2];
    uint32_t count = 0;
    for (int i = 0; i < 2; i++)
        if (blocks[i] && blocks[i]->handles && (i == 0 || blocks[i] != blocks[0]))
            barriers[count++] = (VkBufferMemoryBarrier){
                .sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER,
                .srcAccessMask = acquire ? 0 : transfer,
                .dstAccessMask = acquire ? transfer : 0,
                .srcQueueFamilyIndex = acquire ? blocks[i]->others : own,
                .dstQueueFamilyIndex = acquire ? own : blocks[i]->others,
                .buffer = blocks[i]->buffer,
                .size = VK_WHOLE_SIZE,
            };
    /* The queue's own order, and the host's reads after its end. */
    const VkMemoryBarrier order = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = acquire ? transfer : VK_ACCESS_HOST_READ_BIT,
    };
    vulkan->calls.CmdPipelineBarrier(
        buffer, VK_PIPELINE_STAGE_TRANSFER_BIT,
        VK_PIPELINE_STAGE_TRANSFER_BIT |
            (acquire ? 0 : VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT),
        0, 1, &order, count, barriers, 0, NULL);
}

#define REGIONS_MAX 64

static void vulkan_queue_copy_rows(const struct vulkan_device *vulkan, VkCommandBuffer buffer,
                                   const void *what)
{
    const struct vulkan_rows *rows = what;
    VkBufferCopy regions[REGIONS_MAX];
    uint32_t count = 0;
    bool linear = rows->rows == 1 ||
                  (rows->to_stride == rows->row_bytes && rows->from_stride == rows->row_bytes);
    uint32_t pieces = linear ? 1 : rows->rows;
    for (uint32_t row = 0; row < pieces; row++) {
        regions[count++] = (VkBufferCopy){
            .srcOffset = rows->from_offset + (uint64_t)row * rows->from_stride,
            .dstOffset = rows->to_offset + (uint64_t)row * rows->to_stride,
            .size = linear ? rows->row_bytes * rows->rows : rows->row_bytes,
        };
        if (count == REGIONS_MAX || row == pieces - 1) {
            vulkan->calls.CmdCopyBuffer(buffer, rows->from->buffer, rows->to->buffer, count,
                                        regions);
            count = 0;
        }
    }
}

static void vulkan_queue_clear(const struct vulkan_device *vulkan, VkCommandBuffer buffer,
                               const void *what)
{
    const struct vulkan_block *block = what;
    vulkan->calls.CmdFillBuffer(buffer, block->buffer, 0, VK_WHOLE_SIZE, 0);
}

VkResult gpud_vulkan_queue_record(struct gpud_device *device, struct vulkan_queue *queue,
                                  const struct vulkan_block *const blocks[2], vulkan_record_fn fn,
                                  const void *what)
{
    const VkCommandBufferBeginInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    struct vulkan_device *vulkan = gpud_vulkan_device(device);
    struct vulkan_command *command = NULL;
    gpud_lock_take(&queue->lane->lock);
    VkResult result = vulkan_queue_take(vulkan, queue, &command);
    if (result == VK_SUCCESS) {
        VkCommandBuffer buffer = command->buffer;
        result = vulkan->calls.BeginCommandBuffer(buffer, &info);
        if (result == VK_SUCCESS) {
            vulkan_queue_hand_over(vulkan, buffer, blocks, true);
            fn(vulkan, buffer, what);
            vulkan_queue_hand_over(vulkan, buffer, blocks, false);
            result = vulkan->calls.EndCommandBuffer(buffer);
        }
        if (result == VK_SUCCESS)
            result = vulkan_queue_submit(vulkan, queue, &command->buffer, NULL);
        vulkan_queue_keep(queue, command);
    }
    gpud_lock_release(&queue->lane->lock);
    return result;
}

static enum gpud_status copy_blocks(struct gpud_device *device, struct vulkan_queue *queue,
                                    const struct vulkan_rows *rows, struct gpud_error *error)
{
    const struct vulkan_block *const blocks[2] = {rows->to, rows->from};
    VkResult result = gpud_vulkan_queue_record(device, queue, blocks, vulkan_queue_copy_rows, rows);
    return result == VK_SUCCESS
               ? GPUD_OK
               : gpud_vulkan_fail(error, result, "%s refused a copy of %u rows of %llu bytes",
                                  device->info.name, rows->rows,
                                  (unsigned long long)rows->row_bytes);
}

enum gpud_status gpud_vulkan_queue_clear(struct gpud_device *device, struct vulkan_queue *queue,
                                         const struct vulkan_block *block, struct gpud_error *error)
{
    const struct vulkan_block *const blocks[2] = {block, NULL};
    VkResult result = gpud_vulkan_queue_record(device, queue, blocks, vulkan_queue_clear, block);
    return result == VK_SUCCESS
               ? GPUD_OK
               : gpud_vulkan_fail(error, result, "%s refused to clear %llu bytes",
                                  device->info.name, (unsigned long long)block->size);
}

/* === bounce ================================================================================== */
/* Copies of memory that the CPU does not see or should not read over the bus, and of host memory
 * that the driver cannot import. */

/* How long a copy into host memory that the driver cannot import may take. */
#define DOWN_TIMEOUT (5 * GPUD_SEC)

struct vulkan_bounce {
    struct gpud_bounce bounce;
    struct vulkan_block block;
};

static struct vulkan_block *block_of(struct gpud_bounce *bounce)
{
    return &((struct vulkan_bounce *)bounce)->block;
}

static enum gpud_status vulkan_bounce_make(struct gpud_device *device, uint64_t size,
                                           struct gpud_bounce **bounce, struct gpud_error *error)
{
    struct vulkan_bounce *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a mapping's record");
    VkResult result = gpud_vulkan_block_stage(gpud_vulkan_device(device), size, &made->block);
    if (result != VK_SUCCESS) {
        free(made);
        return gpud_vulkan_fail(error, result, "no %llu bytes of host memory for %s",
                                (unsigned long long)size, device->info.name);
    }
    made->bounce.pages = made->block.mapped;
    made->bounce.size = made->block.size;
    *bounce = &made->bounce;
    return GPUD_OK;
}

static void vulkan_bounce_free(struct gpud_device *device, struct gpud_bounce *bounce)
{
    gpud_vulkan_block_free(gpud_vulkan_device(device), block_of(bounce));
    free(bounce);
}

static void *vulkan_bounce_mark(struct gpud_device *device, void *queue)
{
    return new_event(queue);
}

static enum gpud_status vulkan_bounce_download(const struct gpud_memory *memory, void *queue,
                                               struct gpud_bounce *bounce, int64_t deadline,
                                               struct gpud_error *error)
{
    const struct vulkan_rows rows = {
        .to = block_of(bounce),
        .from = &gpud_vulkan_record(memory)->block,
        .from_offset = bounce->offset,
        .row_bytes = bounce->length,
        .rows = 1,
    };
    enum gpud_status status = copy_blocks(memory->device, queue, &rows, error);
    return status == GPUD_OK ? gpud_vulkan_queue_wait(memory->device, queue, deadline, error)
                             : status;
}

static enum gpud_status vulkan_bounce_upload(const struct gpud_memory *memory, void *queue,
                                             struct gpud_bounce *bounce, struct gpud_error *error)
{
    const struct vulkan_rows rows = {
        .to = &gpud_vulkan_record(memory)->block,
        .from = block_of(bounce),
        .to_offset = bounce->offset,
        .row_bytes = bounce->length,
        .rows = 1,
    };
    return copy_blocks(memory->device, queue, &rows, error);
}

const struct gpud_bounce_ops gpud_vulkan_bounce_ops = {
    .make = vulkan_bounce_make,
    .free = vulkan_bounce_free,
    .mark = vulkan_bounce_mark,
    .download = vulkan_bounce_download,
    .upload = vulkan_bounce_upload,
};

/* Between a block and host memory (to or from it) that the driver cannot import: by way of a bounce
 * with the copy's rows, one behind the other. Down, this thread waits for the copy. */
static enum gpud_status vulkan_copy_pageable(struct vulkan_queue *queue,
                                             const struct gpud_copy *copy, bool down,
                                             struct gpud_error *error)
{
    struct gpud_device *device = copy->to->device;
    struct gpud_bounces *bounces = &gpud_vulkan_device(device)->bounces;
    struct gpud_bounce *bounce;
    enum gpud_status status =
        gpud_bounce_take(bounces, copy->row_bytes * copy->rows, &bounce, error);
    if (status != GPUD_OK)
        return status;
    if (!down)
        gpud_bounce_pack(bounce, copy);
    uint32_t packed = (uint32_t)copy->row_bytes;
    const struct vulkan_rows rows = {
        .to = down ? block_of(bounce) : &gpud_vulkan_record(copy->to)->block,
        .from = down ? &gpud_vulkan_record(copy->from)->block : block_of(bounce),
        .to_offset = down ? 0 : copy->to_offset,
        .from_offset = down ? copy->from_offset : 0,
        .to_stride = down             ? packed
                     : copy->rows > 1 ? copy->to_stride
                                      : 0,
        .from_stride = !down            ? packed
                       : copy->rows > 1 ? copy->from_stride
                                        : 0,
        .row_bytes = copy->row_bytes,
        .rows = copy->rows,
    };
    status = copy_blocks(device, queue, &rows, error);
    if (down && status == GPUD_OK)
        status = gpud_vulkan_queue_wait(device, queue, gpud_deadline(DOWN_TIMEOUT), error);
    for (uint32_t row = 0; down && status == GPUD_OK && row < copy->rows; row++)
        memcpy((char *)copy->to->host + copy->to_offset + (size_t)row * copy->to_stride,
               (const char *)bounce->pages + row * copy->row_bytes, copy->row_bytes);
    gpud_bounce_put_busy(bounces, queue, bounce);
    return status;
}

/* === queue =================================================================================== */
/* The ops of queues: copies, completions, fences and CPU access. */

static enum gpud_status vulkan_queue_create(struct gpud_queue *queue, struct gpud_error *error)
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

static void vulkan_queue_destroy(struct gpud_queue *queue)
{
    gpud_async_retire(queue->backend, true);
}

static bool is_pageable(const struct gpud_memory *memory)
{
    return !gpud_vulkan_record(memory)->block.buffer;
}

static enum gpud_status vulkan_queue_copy(struct gpud_queue *queue, const struct gpud_copy *copy,
                                          struct gpud_error *error)
{
    if (is_pageable(copy->to) && is_pageable(copy->from))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s does not copy between two host memories that its driver cannot "
                         "import: use the host's queue",
                         queue->device->info.name);
    if (is_pageable(copy->to) || is_pageable(copy->from))
        return vulkan_copy_pageable(queue->backend, copy, is_pageable(copy->to), error);
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
    return copy_blocks(queue->device, queue->backend, &rows, error);
}

static enum gpud_status vulkan_queue_on_complete(struct gpud_queue *queue, gpud_complete_fn fn,
                                                 void *arg, struct gpud_error *error)
{
    struct vulkan_queue *vulkan = queue->backend;
    struct gpud_completions *completions = vulkan->async.completions;
    long result;
    if (gpud_vulkan_async_ops.state(queue->device, vulkan, &result) == GPUD_PROGRESS_DONE &&
        gpud_completions_are_called(completions)) {
        fn(arg, gpud_completions_failure(completions) ? GPUD_IO : GPUD_OK);
        return GPUD_OK;
    }
    struct vulkan_event *event = new_event(vulkan);
    if (!event)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory to be told when a queue is done");
    enum gpud_status status = gpud_completions_add(completions, event, fn, arg, NULL, error);
    if (status != GPUD_OK)
        gpud_vulkan_async_ops.drop(queue->device, event);
    return status;
}

static enum gpud_status vulkan_queue_finish(struct gpud_queue *queue, int64_t deadline,
                                            struct gpud_error *error)
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

static enum gpud_status vulkan_queue_mark(struct gpud_queue *queue, void **fence,
                                          struct gpud_error *error)
{
    struct vulkan_event *event = new_event(queue->backend);
    if (!event)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a fence");
    *fence = event;
    return GPUD_OK;
}

static enum gpud_status vulkan_queue_await(struct gpud_queue *queue, void *fence,
                                           struct gpud_error *error)
{
    return gpud_vulkan_queue_await(queue->device, queue->backend, fence, error);
}

/* A failure counts as passed: a lost device does no more work. */
static bool vulkan_queue_is_passed(struct gpud_device *device, void *fence)
{
    long result;
    return gpud_vulkan_async_ops.query(device, fence, &result) != GPUD_PROGRESS_BUSY;
}

/* --- CPU access ------------------------------------------------------------------------------ */

/* The CPU's own address of the memory, or NULL. */
static char *vulkan_queue_address_of(const struct gpud_memory *memory)
{
    return memory->host ? memory->host : gpud_vulkan_record(memory)->block.mapped;
}

static enum gpud_status vulkan_queue_map(struct gpud_queue *queue, struct gpud_memory *memory,
                                         uint64_t offset, uint64_t size, unsigned access,
                                         int64_t deadline, void **data, struct gpud_error *error)
{
    char *address = vulkan_queue_address_of(memory);
    if (!address)
        return gpud_bounce_map(&gpud_vulkan_device(queue->device)->bounces, queue->backend, memory,
                               offset, size, access, deadline, data, error);
    enum gpud_status status =
        gpud_vulkan_queue_wait(queue->device, queue->backend, deadline, error);
    if (status == GPUD_OK)
        *data = address + offset;
    return status;
}

static enum gpud_status vulkan_queue_unmap(struct gpud_queue *queue, struct gpud_memory *memory,
                                           void *data, struct gpud_error *error)
{
    return vulkan_queue_address_of(memory)
               ? GPUD_OK
               : gpud_bounce_unmap(&gpud_vulkan_device(queue->device)->bounces, queue->backend,
                                   memory, data, error);
}

const struct gpud_queue_ops gpud_vulkan_queue_ops = {
    .create = vulkan_queue_create,
    .destroy = vulkan_queue_destroy,
    .copy = vulkan_queue_copy,
    .on_complete = vulkan_queue_on_complete,
    .finish = vulkan_queue_finish,
    .map = vulkan_queue_map,
    .unmap = vulkan_queue_unmap,
};

const struct gpud_fence_ops gpud_vulkan_fence_ops = {
    .mark = vulkan_queue_mark,
    .await = vulkan_queue_await,
    .is_passed = vulkan_queue_is_passed,
    .drop = vulkan_queue_drop_event,
};
