/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Queues and signals. */
#include "device/device.h"

#include "base/base.h"

#include <stdlib.h>

/* === queue =================================================================================== */
/* Queues: the checks around a backend's queue ops. */

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
static bool queue_fits(uint64_t offset, uint64_t stride, uint64_t rows, uint64_t row_bytes,
                       uint64_t size)
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

static bool queue_is_idle(struct gpud_queue *queue)
{
    const struct gpud_fence_ops *ops = queue->device->ops->fence;
    return ops && ops->is_idle && ops->is_idle(queue);
}

/* Whether one of our own queues has nothing to do: all its work has ended, and none was enqueued of
 * late. The first call of a driver after a pause costs many times what the next one costs, so for a
 * frame that comes alone one question replaces a mark, a wait and a post: there is nothing to wait
 * for, and the CPU writes the word. */
static bool is_resting(struct gpud_queue *queue)
{
    int64_t last = atomic_load(&queue->used);
    if (!queue->backend)
        return false;
    if (last == 0)
        return queue->device->ops->fence && queue->device->ops->fence->is_idle;
    return gpud_now() - last > REST && queue_is_idle(queue) &&
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
    if (!queue_fits(copy->to_offset, copy->to_stride, copy->rows, copy->row_bytes,
                    copy->to->size) ||
        !queue_fits(copy->from_offset, copy->from_stride, copy->rows, copy->row_bytes,
                    copy->from->size))
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
    struct gpud_fence fence = {0};
    if (later == earlier)
        return GPUD_OK;
    if (!gpud_device_has_fences(earlier->device))
        return gpud_queue_finish(earlier, gpud_deadline(GPUD_SEC), error);
    if (is_resting(earlier) || (is_resting(later) && queue_is_idle(earlier)))
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
 * user. Others wait for the lock as long as this caller's deadline. */
enum gpud_status gpud_queue_map(struct gpud_queue *queue, struct gpud_memory *memory,
                                uint64_t offset, uint64_t size, unsigned access, int64_t deadline,
                                void **data, struct gpud_error *error)
{
    if (offset > memory->size || size > memory->size - offset)
        return gpud_fail(error, GPUD_INVALID, "mapping %llu bytes at %llu of a memory of %llu",
                         (unsigned long long)size, (unsigned long long)offset,
                         (unsigned long long)memory->size);
    enum gpud_status status = GPUD_OK;
    gpud_lock_take(&memory->map_lock);
    struct gpud_mapping *mapping = memory->mappings;
    while (mapping && (mapping->offset != offset || mapping->size != size))
        mapping = mapping->next;
    if (mapping && (mapping->access & access) != access) {
        status = gpud_fail(error, GPUD_NO_ACCESS, "another user has mapped the memory for reading");
    } else if (!mapping) {
        mapping = calloc(1, sizeof(*mapping));
        if (mapping) {
            *mapping = (struct gpud_mapping){memory->mappings, offset, size, access, 0, NULL};
            if (access & GPUD_READ)
                atomic_fetch_add_explicit(&queue->waits, 1, memory_order_relaxed);
            status = used(queue, queue->device->ops->queue->map(queue, memory, offset, size, access,
                                                                deadline, &mapping->data, error));
        } else {
            status = gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a mapping's record");
        }
        if (status == GPUD_OK)
            memory->mappings = mapping;
        else
            free(mapping);
    }
    if (status == GPUD_OK) {
        mapping->count++;
        *data = mapping->data;
    }
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

/* === signal ================================================================================== */
/* Signals: the checks around a backend's signal ops. */

/* create and import differ only in the op. */
static enum gpud_status new_signal(struct gpud_memory *memory, uint64_t offset, bool import,
                                   struct gpud_signal **signal, struct gpud_error *error)
{
    const struct gpud_device *device = memory->device;
    if (!(device->caps & GPUD_CAP_SIGNALS))
        return gpud_fail(error, GPUD_UNSUPPORTED, "the queues of %s wait for no signals%s%s",
                         device->info.name, device->no_direct[0] ? ": " : "", device->no_direct);
    struct gpud_signal *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a signal");
    made->device = memory->device;
    made->memory = gpud_memory_ref(memory);
    made->offset = offset;
    const struct gpud_signal_ops *ops = device->ops->signal;
    enum gpud_status status = import ? ops->import(made, error) : ops->create(made, error);
    if (status != GPUD_OK) {
        gpud_memory_unref(&made->memory);
        free(made);
        return status;
    }
    *signal = made;
    return GPUD_OK;
}

enum gpud_status gpud_signal_create(struct gpud_memory *memory, uint64_t offset,
                                    struct gpud_signal **signal, struct gpud_error *error)
{
    return new_signal(memory, offset, false, signal, error);
}

enum gpud_status gpud_signal_import(struct gpud_memory *memory, uint64_t offset,
                                    struct gpud_signal **signal, struct gpud_error *error)
{
    return new_signal(memory, offset, true, signal, error);
}

void gpud_signal_destroy(struct gpud_signal **signal)
{
    if (!signal || !*signal)
        return;
    struct gpud_signal *gone = *signal;
    *signal = NULL;
    gone->device->ops->signal->destroy(gone);
    gpud_memory_unref(&gone->memory);
    free(gone);
}

static enum gpud_status check_value(uint64_t value, struct gpud_error *error)
{
    if (value > GPUD_SIGNAL_WORD_MAX)
        return gpud_fail(error, GPUD_INVALID, "a signal cannot reach %llu: its word ends at %u",
                         (unsigned long long)value, GPUD_SIGNAL_WORD_MAX);
    return GPUD_OK;
}

/* Spares the driver's call where the queue has nothing to do before it. */
static bool raise_at_rest(const struct gpud_signal_value *values, uint32_t count,
                          struct gpud_queue *queue)
{
    if (!(values[0].signal->device->caps & GPUD_CAP_PAGE_SIGNALS) || !is_resting(queue))
        return false;
    for (uint32_t i = 0; i < count; i++)
        gpud_signal_raise_word(values[i].signal, (uint32_t)values[i].value);
    return true;
}

enum gpud_status gpud_signal_post(struct gpud_signal *signal, uint64_t value,
                                  struct gpud_queue *queue, struct gpud_error *error)
{
    const struct gpud_signal_value post = {signal, value};
    enum gpud_status status = check_value(value, error);
    if (status != GPUD_OK)
        return status;
    if (raise_at_rest(&post, 1, queue))
        return GPUD_OK;
    status = signal->device->ops->signal->post(signal, (uint32_t)value, queue, error);
    gpud_queue_use(queue);
    return status;
}

/* Recorded before the driver is called: a call that failed may have enqueued the wait all the same,
 * and releasing a wait that is not there does no harm. */
static void record_wait(struct gpud_signal *signal, uint64_t value)
{
    uint32_t waited = atomic_load_explicit(&signal->waited, memory_order_relaxed);
    while (waited < value &&
           !atomic_compare_exchange_weak(&signal->waited, &waited, (uint32_t)value))
        ;
}

enum gpud_status gpud_signal_wait_queue(struct gpud_signal *signal, uint64_t value,
                                        struct gpud_queue *queue, struct gpud_error *error)
{
    enum gpud_status status = check_value(value, error);
    if (status != GPUD_OK)
        return status;
    record_wait(signal, value);
    status = signal->device->ops->signal->wait_queue(signal, (uint32_t)value, queue, error);
    gpud_queue_use(queue);
    return status;
}

static enum gpud_status call_batch(const struct gpud_signal_value *values, uint32_t count,
                                   bool wait, struct gpud_queue *queue, struct gpud_error *error)
{
    const struct gpud_device *device = values[0].signal->device;
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < count && status == GPUD_OK; i++)
        status = check_value(values[i].value, error);
    if (status != GPUD_OK || (!wait && raise_at_rest(values, count, queue)))
        return status;
    if (!device->ops->signal->batch)
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s takes one signal at a time",
                         device->info.name);
    for (uint32_t i = 0; i < count && wait; i++)
        record_wait(values[i].signal, values[i].value);
    status = device->ops->signal->batch(values, count, wait, queue, error);
    gpud_queue_use(queue);
    return status;
}

enum gpud_status gpud_signal_post_all(const struct gpud_signal_value *values, uint32_t count,
                                      struct gpud_queue *queue, struct gpud_error *error)
{
    return call_batch(values, count, false, queue, error);
}

enum gpud_status gpud_signal_wait_all(const struct gpud_signal_value *values, uint32_t count,
                                      struct gpud_queue *queue, struct gpud_error *error)
{
    return call_batch(values, count, true, queue, error);
}

enum gpud_status gpud_signal_wait_host(struct gpud_signal *signal, uint64_t value, int64_t deadline,
                                       struct gpud_error *error)
{
    enum gpud_status status = check_value(value, error);
    return status == GPUD_OK
               ? signal->device->ops->signal->wait_host(signal, (uint32_t)value, deadline, error)
               : status;
}

enum gpud_status gpud_signal_look(struct gpud_signal *signal, uint64_t value, bool *reached,
                                  struct gpud_error *error)
{
    const struct gpud_signal_ops *ops = signal->device->ops->signal;
    enum gpud_status status = check_value(value, error);
    if (status != GPUD_OK)
        return status;
    if (ops->look)
        return ops->look(signal, (uint32_t)value, reached, error);
    status = ops->wait_host(signal, (uint32_t)value, 0, error);
    if (status != GPUD_OK && status != GPUD_TIMEOUT)
        return status;
    *reached = status == GPUD_OK;
    return GPUD_OK;
}

enum gpud_status gpud_signal_poison(struct gpud_signal *signal, uint64_t value,
                                    struct gpud_error *error)
{
    enum gpud_status status = check_value(value, error);
    return status == GPUD_OK ? signal->device->ops->signal->poison(signal, (uint32_t)value, error)
                             : status;
}

/* --- words with a host address --------------------------------------------------------------- */

_Atomic uint32_t *gpud_signal_word(const struct gpud_signal *signal)
{
    return (_Atomic uint32_t *)(void *)((char *)signal->memory->host + signal->offset);
}

static enum gpud_status signal_check_word(const struct gpud_signal *signal,
                                          struct gpud_error *error)
{
    uint64_t size = signal->memory->size;
    if (signal->offset % sizeof(uint32_t) || size < sizeof(uint32_t) ||
        signal->offset > size - sizeof(uint32_t))
        return gpud_fail(error, GPUD_INVALID, "a signal's word at %llu of a memory of %llu bytes",
                         (unsigned long long)signal->offset, (unsigned long long)size);
    return GPUD_OK;
}

enum gpud_status gpud_signal_create_word(struct gpud_signal *signal, struct gpud_error *error)
{
    enum gpud_status status = signal_check_word(signal, error);
    if (status == GPUD_OK)
        atomic_store_explicit(gpud_signal_word(signal), 0, memory_order_release);
    return status;
}

enum gpud_status gpud_signal_import_word(struct gpud_signal *signal, struct gpud_error *error)
{
    if (signal_check_word(signal, NULL) != GPUD_OK || signal->memory->read_only)
        return gpud_fail(error, GPUD_PEER,
                         "the peer's signal does not lie in the memory that it shared");
    return GPUD_OK;
}

void gpud_signal_raise_word(struct gpud_signal *signal, uint32_t value)
{
    _Atomic uint32_t *word = gpud_signal_word(signal);
    uint32_t seen = atomic_load(word);
    while (seen < value && !atomic_compare_exchange_weak(word, &seen, value))
        ;
}
