/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "device/vulkan/bounce.h"

#include "device/vulkan/block.h"

#include <stdlib.h>
#include <string.h>

#define IDLE_MAX 8

/* How long a copy into host memory that the driver cannot import may take. */
#define DOWN_TIMEOUT (5 * GPUD_SEC)

struct vulkan_bounce {
    struct vulkan_bounce *next;
    struct vulkan_block block;
    struct vulkan_event *busy; /* the end of a copy that still uses it; NULL: none */
    unsigned access;
    uint64_t offset, length; /* what is mapped */
};

void gpud_vulkan_bounces_init(struct vulkan_device *vulkan)
{
    vulkan->bounces.idle = vulkan->bounces.used = NULL;
    gpud_lock_init(&vulkan->bounces.lock, GPUD_RANK_BOUNCES);
}

static void drop_event(struct gpud_device *device, struct vulkan_bounce *bounce)
{
    if (bounce->busy)
        gpud_vulkan_async_ops.drop(device, bounce->busy);
    bounce->busy = NULL;
}

static void destroy(struct vulkan_device *vulkan, struct vulkan_bounce *bounce)
{
    drop_event(vulkan->async.device, bounce);
    gpud_vulkan_block_free(vulkan, &bounce->block);
    free(bounce);
}

static void destroy_all(struct vulkan_device *vulkan, struct vulkan_bounce *bounce)
{
    while (bounce) {
        struct vulkan_bounce *gone = bounce;
        bounce = bounce->next;
        destroy(vulkan, gone);
    }
}

void gpud_vulkan_bounces_finish(struct vulkan_device *vulkan)
{
    destroy_all(vulkan, vulkan->bounces.idle);
    destroy_all(vulkan, vulkan->bounces.used);
    gpud_lock_destroy(&vulkan->bounces.lock);
}

/* --- taking and putting back ----------------------------------------------------------------- */

static bool is_at_rest(const struct vulkan_device *vulkan, const struct vulkan_bounce *bounce)
{
    long result;
    return !bounce->busy || gpud_vulkan_async_ops.query(vulkan->async.device, bounce->busy,
                                                        &result) != GPUD_PROGRESS_BUSY;
}

static struct vulkan_bounce *find_idle(struct vulkan_device *vulkan, uint64_t size)
{
    struct vulkan_bounce *found = NULL;
    gpud_lock_take(&vulkan->bounces.lock);
    for (struct vulkan_bounce **link = &vulkan->bounces.idle; *link && !found;) {
        struct vulkan_bounce *bounce = *link;
        if (bounce->block.size >= size && bounce->block.size / 2 <= size &&
            is_at_rest(vulkan, bounce)) {
            found = bounce;
            *link = bounce->next;
        } else {
            link = &bounce->next;
        }
    }
    gpud_lock_release(&vulkan->bounces.lock);
    if (found)
        drop_event(vulkan->async.device, found);
    return found;
}

static enum gpud_status take(struct gpud_device *device, uint64_t size,
                             struct vulkan_bounce **bounce, struct gpud_error *error)
{
    struct vulkan_device *vulkan = gpud_vulkan_device(device);
    *bounce = find_idle(vulkan, size);
    if (*bounce)
        return GPUD_OK;
    struct vulkan_bounce *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a mapping's record");
    VkResult result = gpud_vulkan_block_stage(vulkan, size, &made->block);
    if (result != VK_SUCCESS) {
        free(made);
        return gpud_vulkan_fail(error, result, "no %llu bytes of host memory for %s",
                                (unsigned long long)size, device->info.name);
    }
    *bounce = made;
    return GPUD_OK;
}

/* Back among the idle ones; frees the oldest when there are too many. */
static void put(struct vulkan_device *vulkan, struct vulkan_bounce *bounce)
{
    struct vulkan_bounce *surplus = NULL;
    unsigned count = 0;
    gpud_lock_take(&vulkan->bounces.lock);
    bounce->next = vulkan->bounces.idle;
    vulkan->bounces.idle = bounce;
    for (struct vulkan_bounce **link = &vulkan->bounces.idle; *link; link = &(*link)->next) {
        if (++count > IDLE_MAX && !(*link)->next && is_at_rest(vulkan, *link)) {
            surplus = *link;
            *link = NULL;
            break;
        }
    }
    gpud_lock_release(&vulkan->bounces.lock);
    if (surplus)
        destroy(vulkan, surplus);
}

static void add_used(struct vulkan_device *vulkan, struct vulkan_bounce *bounce)
{
    gpud_lock_take(&vulkan->bounces.lock);
    bounce->next = vulkan->bounces.used;
    vulkan->bounces.used = bounce;
    gpud_lock_release(&vulkan->bounces.lock);
}

static struct vulkan_bounce *take_used(struct vulkan_device *vulkan, const void *pages)
{
    gpud_lock_take(&vulkan->bounces.lock);
    struct vulkan_bounce **link = &vulkan->bounces.used;
    while (*link && (*link)->block.mapped != pages)
        link = &(*link)->next;
    struct vulkan_bounce *bounce = *link;
    if (bounce)
        *link = bounce->next;
    gpud_lock_release(&vulkan->bounces.lock);
    return bounce;
}

/* For pages that a copy on the queue still uses; without an event they stay in use until the device
 * is closed. */
static void put_busy(struct vulkan_device *vulkan, struct vulkan_queue *queue,
                     struct vulkan_bounce *bounce)
{
    bounce->busy = gpud_vulkan_queue_mark(queue);
    if (bounce->busy)
        put(vulkan, bounce);
    else
        add_used(vulkan, bounce);
}

/* --- mapping --------------------------------------------------------------------------------- */

static enum gpud_status download(struct vulkan_queue *queue, const struct gpud_memory *memory,
                                 const struct vulkan_bounce *bounce, int64_t deadline,
                                 struct gpud_error *error)
{
    const struct vulkan_rows rows = {
        .to = &bounce->block,
        .from = &gpud_vulkan_record(memory)->block,
        .from_offset = bounce->offset,
        .row_bytes = bounce->length,
        .rows = 1,
    };
    enum gpud_status status = gpud_vulkan_queue_copy(memory->device, queue, &rows, error);
    return status == GPUD_OK ? gpud_vulkan_queue_wait(memory->device, queue, deadline, error)
                             : status;
}

enum gpud_status gpud_vulkan_bounce_map(struct vulkan_queue *queue, struct gpud_memory *memory,
                                        uint64_t offset, uint64_t size, unsigned access,
                                        int64_t deadline, void **data, struct gpud_error *error)
{
    struct vulkan_device *vulkan = gpud_vulkan_device(memory->device);
    struct vulkan_bounce *bounce;
    enum gpud_status status = take(memory->device, size, &bounce, error);
    if (status != GPUD_OK)
        return status;
    bounce->access = access;
    bounce->offset = offset;
    bounce->length = size;
    if (access & GPUD_READ)
        status = download(queue, memory, bounce, deadline, error);
    if (status != GPUD_OK) {
        put_busy(vulkan, queue, bounce);
        return status;
    }
    add_used(vulkan, bounce);
    *data = bounce->block.mapped;
    return GPUD_OK;
}

enum gpud_status gpud_vulkan_bounce_unmap(struct vulkan_queue *queue, struct gpud_memory *memory,
                                          void *data, struct gpud_error *error)
{
    struct vulkan_device *vulkan = gpud_vulkan_device(memory->device);
    struct vulkan_bounce *bounce = take_used(vulkan, data);
    enum gpud_status status = GPUD_OK;
    if (!bounce)
        return GPUD_OK;
    if (bounce->access & GPUD_WRITE) {
        const struct vulkan_rows rows = {
            .to = &gpud_vulkan_record(memory)->block,
            .from = &bounce->block,
            .to_offset = bounce->offset,
            .row_bytes = bounce->length,
            .rows = 1,
        };
        status = gpud_vulkan_queue_copy(memory->device, queue, &rows, error);
    }
    put_busy(vulkan, queue, bounce);
    return status;
}

/* --- copies ---------------------------------------------------------------------------------- */

/* A bounce with the copy's rows, one behind the other. */
static struct vulkan_rows packed(const struct gpud_copy *copy)
{
    return (struct vulkan_rows){
        .to_stride = copy->rows > 1 ? copy->to_stride : 0,
        .from_stride = copy->rows > 1 ? copy->from_stride : 0,
        .row_bytes = copy->row_bytes,
        .rows = copy->rows,
    };
}

enum gpud_status gpud_vulkan_bounce_up(struct vulkan_queue *queue, const struct gpud_copy *copy,
                                       struct gpud_error *error)
{
    struct gpud_device *device = copy->to->device;
    struct vulkan_bounce *bounce;
    enum gpud_status status = take(device, copy->row_bytes * copy->rows, &bounce, error);
    if (status != GPUD_OK)
        return status;
    const char *from = (const char *)copy->from->host + copy->from_offset;
    for (uint32_t row = 0; row < copy->rows; row++)
        memcpy((char *)bounce->block.mapped + row * copy->row_bytes,
               from + (size_t)row * copy->from_stride, copy->row_bytes);
    struct vulkan_rows rows = packed(copy);
    rows.to = &gpud_vulkan_record(copy->to)->block;
    rows.to_offset = copy->to_offset;
    rows.from = &bounce->block;
    rows.from_stride = (uint32_t)copy->row_bytes;
    status = gpud_vulkan_queue_copy(device, queue, &rows, error);
    put_busy(gpud_vulkan_device(device), queue, bounce);
    return status;
}

enum gpud_status gpud_vulkan_bounce_down(struct vulkan_queue *queue, const struct gpud_copy *copy,
                                         struct gpud_error *error)
{
    struct gpud_device *device = copy->to->device;
    struct vulkan_bounce *bounce;
    enum gpud_status status = take(device, copy->row_bytes * copy->rows, &bounce, error);
    if (status != GPUD_OK)
        return status;
    struct vulkan_rows rows = packed(copy);
    rows.to = &bounce->block;
    rows.to_stride = (uint32_t)copy->row_bytes;
    rows.from = &gpud_vulkan_record(copy->from)->block;
    rows.from_offset = copy->from_offset;
    status = gpud_vulkan_queue_copy(device, queue, &rows, error);
    if (status == GPUD_OK)
        status = gpud_vulkan_queue_wait(device, queue, gpud_deadline(DOWN_TIMEOUT), error);
    char *to = (char *)copy->to->host + copy->to_offset;
    for (uint32_t row = 0; status == GPUD_OK && row < copy->rows; row++)
        memcpy(to + (size_t)row * copy->to_stride,
               (const char *)bounce->block.mapped + row * copy->row_bytes, copy->row_bytes);
    put_busy(gpud_vulkan_device(device), queue, bounce);
    return status;
}
