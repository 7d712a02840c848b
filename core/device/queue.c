/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Queues: the checks around a backend's queue ops. */
#include "device/device.h"

#include "base/clock.h"

#include <stdlib.h>

enum gpud_status gpud_queue_create(struct gpud_device *device, struct gpud_queue **queue,
                                   struct gpud_error *error)
{
    struct gpud_queue *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a queue");
    made->device = gpud_device_ref(device);
    atomic_init(&made->references, 1);
    enum gpud_status status = device->ops->queue->create(made, error);
    if (status != GPUD_OK) {
        gpud_device_close(&made->device);
        free(made);
        return status;
    }
    *queue = made;
    return GPUD_OK;
}

struct gpud_queue *gpud_queue_ref(struct gpud_queue *queue)
{
    atomic_fetch_add_explicit(&queue->references, 1, memory_order_relaxed);
    return queue;
}

void gpud_queue_unref(struct gpud_queue **queue)
{
    if (!queue || !*queue)
        return;
    struct gpud_queue *gone = *queue;
    *queue = NULL;
    if (atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) != 1)
        return;
    gone->device->ops->queue->destroy(gone);
    gpud_device_close(&gone->device);
    free(gone);
}

/* offset + stride·(rows−1) + row_bytes ≤ size, without overflow. */
static bool fits(uint64_t offset, uint64_t stride, uint64_t rows, uint64_t row_bytes, uint64_t size)
{
    uint64_t span, end;
    return !__builtin_mul_overflow(stride, rows - 1, &span) &&
           !__builtin_add_overflow(span, row_bytes, &span) &&
           !__builtin_add_overflow(offset, span, &end) && end <= size;
}

/* --- rest ---------------------------------------------------------------------------------- */

/* A queue is asked only when no work was enqueued for this long: a busy stream is not slowed down
 * by questions. */
#define REST GPUD_MSEC

/* After the driver's call, so that a queue which another thread finds idle meanwhile counts as used
 * again. */
static enum gpud_status used(struct gpud_queue *queue, enum gpud_status status)
{
    if (queue->backend)
        atomic_store(&queue->used, gpud_now());
    return status;
}

static bool is_idle(struct gpud_queue *queue)
{
    const struct gpud_fence_ops *ops = queue->device->ops->fence;
    return ops && ops->is_idle && ops->is_idle(queue);
}

bool gpud_queue_is_resting(struct gpud_queue *queue)
{
    int64_t last = atomic_load(&queue->used);
    if (!queue->backend)
        return false;
    if (last == 0)
        return queue->device->ops->fence && queue->device->ops->fence->is_idle;
    return gpud_now() - last > REST && is_idle(queue) &&
           atomic_compare_exchange_strong(&queue->used, &last, 0);
}

void gpud_queue_use(struct gpud_queue *queue)
{
    used(queue, GPUD_OK);
}

enum gpud_status gpud_queue_copy(struct gpud_queue *queue, const struct gpud_copy *copy,
                                 struct gpud_error *error)
{
    if (copy->rows == 0 || copy->row_bytes == 0)
        return GPUD_OK;
    if (copy->to->device != queue->device || copy->from->device != queue->device)
        return gpud_fail(error, GPUD_INVALID, "a copy on %s between memories of %s and %s",
                         queue->device->info.name, copy->from->device->info.name,
                         copy->to->device->info.name);
    if (copy->rows > 1 &&
        (copy->to_stride < copy->row_bytes || copy->from_stride < copy->row_bytes))
        return gpud_fail(error, GPUD_INVALID, "a copy whose rows overlap: stride < row");
    if (!fits(copy->to_offset, copy->to_stride, copy->rows, copy->row_bytes, copy->to->size) ||
        !fits(copy->from_offset, copy->from_stride, copy->rows, copy->row_bytes, copy->from->size))
        return gpud_fail(error, GPUD_INVALID, "a copy of %u rows of %llu bytes leaves its memory",
                         copy->rows, (unsigned long long)copy->row_bytes);
    if (copy->to->read_only)
        return gpud_fail(error, GPUD_INVALID, "a copy into read-only memory");
    return used(queue, queue->device->ops->queue->copy(queue, copy, error));
}

void gpud_queue_count_copy(const struct gpud_queue *queue, const struct gpud_memory *from,
                           atomic_uint_fast64_t *by_cpu, atomic_uint_fast64_t *by_gpu)
{
    bool synchronous = queue->device->caps & GPUD_CAP_SYNCHRONOUS;
    if (synchronous || from->unpinned)
        atomic_fetch_add_explicit(by_cpu, 1, memory_order_relaxed);
    if (!synchronous)
        atomic_fetch_add_explicit(by_gpu, 1, memory_order_relaxed);
}

enum gpud_status gpud_queue_flush(struct gpud_queue *queue, struct gpud_error *error)
{
    const struct gpud_queue_ops *ops = queue->device->ops->queue;
    return ops->flush ? ops->flush(queue, error) : GPUD_OK;
}

enum gpud_status gpud_queue_on_complete(struct gpud_queue *queue, gpud_complete_fn fn, void *arg,
                                        struct gpud_error *error)
{
    return queue->device->ops->queue->on_complete(queue, fn, arg, error);
}

enum gpud_status gpud_queue_finish(struct gpud_queue *queue, int64_t deadline,
                                   struct gpud_error *error)
{
    if (!(queue->device->caps & GPUD_CAP_SYNCHRONOUS))
        atomic_fetch_add_explicit(&queue->waits, 1, memory_order_relaxed);
    return queue->device->ops->queue->finish(queue, deadline, error);
}

enum gpud_status gpud_queue_wrap(struct gpud_device *device, void *native, struct gpud_queue *queue,
                                 struct gpud_error *error)
{
    if (!device->ops->fence || !device->ops->fence->wrap)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "%s has no queue of the application's that can be joined: map the frame",
                         device->info.name);
    *queue = (struct gpud_queue){.device = device};
    return device->ops->fence->wrap(queue, native, error);
}

enum gpud_status gpud_queue_migrate(struct gpud_queue *queue, struct gpud_memory *memory,
                                    struct gpud_queue *after, bool discard,
                                    struct gpud_error *error)
{
    const struct gpud_device *device = queue->device;
    if (!gpud_devices_have_common_memory(device, memory->device) ||
        (after && !gpud_devices_have_common_memory(device, after->device)))
        return gpud_fail(error, GPUD_INVALID, "memory of %s cannot move to %s",
                         memory->device->info.name, device->info.name);
    return used(queue, device->ops->migrate(queue, memory, after, discard, error));
}

bool gpud_device_has_fences(const struct gpud_device *device)
{
    return device->caps & GPUD_CAP_FENCES;
}

enum gpud_status gpud_queue_mark(struct gpud_queue *queue, struct gpud_fence *fence,
                                 struct gpud_error *error)
{
    if (!gpud_device_has_fences(queue->device))
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the queues of %s cannot wait for one another: wait for the queue itself",
                         queue->device->info.name);
    struct gpud_fence made = {.device = queue->device};
    enum gpud_status status = queue->device->ops->fence->mark(queue, &made.native, error);
    if (status == GPUD_OK)
        *fence = made;
    return status;
}

enum gpud_status gpud_queue_await(struct gpud_queue *queue, const struct gpud_fence *fence,
                                  struct gpud_error *error)
{
    return used(queue, queue->device->ops->fence->await(queue, fence->native, error));
}

bool gpud_fence_is_passed(const struct gpud_fence *fence)
{
    return fence->device->ops->fence->is_passed(fence->device, fence->native);
}

void gpud_fence_drop(struct gpud_fence *fence)
{
    if (fence->device)
        fence->device->ops->fence->drop(fence->device, fence->native);
    *fence = (struct gpud_fence){0};
}

enum gpud_status gpud_queue_join(struct gpud_queue *later, struct gpud_queue *earlier,
                                 struct gpud_error *error)
{
    struct gpud_fence fence;
    if (later == earlier)
        return GPUD_OK;
    if (!gpud_device_has_fences(earlier->device))
        return gpud_queue_finish(earlier, gpud_deadline(GPUD_SEC), error);
    if (gpud_queue_is_resting(earlier) || (gpud_queue_is_resting(later) && is_idle(earlier)))
        return GPUD_OK;
    enum gpud_status status = gpud_queue_mark(earlier, &fence, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_queue_await(later, &fence, error);
    gpud_fence_drop(&fence);
    return status;
}

/* --- CPU access ---------------------------------------------------------------------------- */

/* Several users of one memory may map the same range, as two receivers that share a slot by its
 * pointer. Not every driver supports that, so each range is mapped once, and unmapped by the last
 * user. */
static struct gpud_mapping **find_mapping(struct gpud_memory *memory, uint64_t offset,
                                          uint64_t size)
{
    struct gpud_mapping **link = &memory->mappings;
    while (*link && ((*link)->offset != offset || (*link)->size != size))
        link = &(*link)->next;
    return link;
}

/* Under the memory's map_lock: others wait as long as this caller's deadline. */
static enum gpud_status map_range(struct gpud_queue *queue, struct gpud_memory *memory,
                                  uint64_t offset, uint64_t size, unsigned access, int64_t deadline,
                                  void **data, struct gpud_error *error)
{
    struct gpud_mapping *mapping = *find_mapping(memory, offset, size);
    if (mapping && (mapping->access & access) != access)
        return gpud_fail(error, GPUD_NO_ACCESS, "another user has mapped the memory for reading");
    if (!mapping) {
        mapping = calloc(1, sizeof(*mapping));
        if (!mapping)
            return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a mapping's record");
        *mapping = (struct gpud_mapping){memory->mappings, offset, size, access, 0, NULL};
        if (access & GPUD_READ)
            atomic_fetch_add_explicit(&queue->waits, 1, memory_order_relaxed);
        enum gpud_status status =
            used(queue, queue->device->ops->queue->map(queue, memory, offset, size, access,
                                                       deadline, &mapping->data, error));
        if (status != GPUD_OK) {
            free(mapping);
            return status;
        }
        memory->mappings = mapping;
    }
    mapping->count++;
    *data = mapping->data;
    return GPUD_OK;
}

enum gpud_status gpud_queue_map(struct gpud_queue *queue, struct gpud_memory *memory,
                                uint64_t offset, uint64_t size, unsigned access, int64_t deadline,
                                void **data, struct gpud_error *error)
{
    if (offset > memory->size || size > memory->size - offset)
        return gpud_fail(error, GPUD_INVALID, "mapping %llu bytes at %llu of a memory of %llu",
                         (unsigned long long)size, (unsigned long long)offset,
                         (unsigned long long)memory->size);
    gpud_lock_take(&memory->map_lock);
    enum gpud_status status = map_range(queue, memory, offset, size, access, deadline, data, error);
    gpud_lock_release(&memory->map_lock);
    return status;
}

enum gpud_status gpud_queue_unmap(struct gpud_queue *queue, struct gpud_memory *memory, void *data,
                                  struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    gpud_lock_take(&memory->map_lock);
    struct gpud_mapping **link = &memory->mappings;
    while (*link && (*link)->data != data)
        link = &(*link)->next;
    struct gpud_mapping *mapping = *link;
    if (mapping && --mapping->count == 0) {
        *link = mapping->next;
        status = used(queue, queue->device->ops->queue->unmap(queue, memory, data, error));
        free(mapping);
    }
    gpud_lock_release(&memory->map_lock);
    return status;
}
