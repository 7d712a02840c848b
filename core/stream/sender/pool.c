/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/sender/pool.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

static void release_lent(struct gpud_frame *frame)
{
    gpud_slot_drop((struct gpud_slot *)frame);
}

static void put_free(struct gpud_pool *pool, struct gpud_slot *slot)
{
    pool->free[(pool->free_first + pool->free_count++) % GPUD_RING_SLOTS_MAX] = slot;
}

static struct gpud_slot *take_free(struct gpud_pool *pool)
{
    pool->free_count--;
    if (!pool->queue)
        return pool->free[(pool->free_first + pool->free_count) % GPUD_RING_SLOTS_MAX];
    return pool->free[pool->free_first++ % GPUD_RING_SLOTS_MAX];
}

static const struct gpud_frame_owner_ops lent_ops = {
    .release = release_lent,
    .wait = gpud_frame_join_wait,
    .wait_host = gpud_frame_wait_host_complete,
    .post = gpud_frame_join_post,
    .is_poisoned = gpud_frame_is_never_poisoned,
};

enum gpud_status gpud_pool_create(struct gpud_device *device, struct gpud_queue *queue,
                                  enum gpud_usage usage, struct gpud_device *viewer,
                                  const struct gpud_layout *layout, uint32_t epoch, uint32_t slots,
                                  struct gpud_pool **pool, struct gpud_error *error)
{
    struct gpud_pool *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a pool of slots");
    pthread_mutex_init(&made->lock, NULL);
    gpud_cond_init(&made->freed);
    made->references = 1;
    made->epoch = epoch;
    made->layout = *layout;
    made->device = gpud_device_ref(device);
    made->viewer = viewer ? gpud_device_ref(viewer) : NULL;
    gpud_ring_init(&made->ring, device, usage, layout->size, slots);

    made->queue = queue ? gpud_queue_ref(queue) : NULL;

    enum gpud_status status = gpud_pool_grow(made, error);
    if (status != GPUD_OK) {
        gpud_pool_unref(&made);
        return status;
    }
    gpud_pool_open(made);
    *pool = made;
    return GPUD_OK;
}

enum gpud_status gpud_pool_grow(struct gpud_pool *pool, struct gpud_error *error)
{
    uint32_t index = pool->ring.memories;
    uint32_t count = pool->ring.slots_per_memory;
    if (gpud_ring_slots(&pool->ring) + count > GPUD_RING_SLOTS_MAX)
        return gpud_fail(error, GPUD_NO_MEMORY, "the ring has its greatest size of %d slots",
                         GPUD_RING_SLOTS_MAX);
    struct gpud_slot *slots = calloc(count, sizeof(*slots));
    if (!slots)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for slots");
    enum gpud_status status = gpud_ring_grow(&pool->ring, error);
    if (status != GPUD_OK) {
        free(slots);
        return status;
    }
    struct gpud_memory *memory = pool->ring.memory[index];
    if (pool->viewer) {
        status = gpud_memory_view(memory, pool->viewer, &pool->views[index], error);
        if (status != GPUD_OK) {
            gpud_memory_unref(&pool->ring.memory[--pool->ring.memories]);
            free(slots);
            return status;
        }
    }
    pool->slots[index] = slots;
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_slot *slot = &slots[i];
        slot->pool = pool;
        slot->view = pool->views[index];
        slot->frame.ops = &lent_ops;
        slot->frame.owner = pool;
        slot->frame.slot = index * count + i;
        slot->frame.memory = gpud_ring_slot(&pool->ring, slot->frame.slot, &slot->frame.offset);
        slot->frame.queue = pool->queue;
        slot->frame.info.layout = pool->layout;
        slot->frame.info.epoch = pool->epoch;
    }
    return GPUD_OK;
}

void gpud_pool_open(struct gpud_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    for (; pool->opened < pool->ring.memories; pool->opened++)
        for (uint32_t i = pool->ring.slots_per_memory; i > 0; i--)
            put_free(pool, &pool->slots[pool->opened][i - 1]);
    pthread_cond_broadcast(&pool->freed);
    pthread_mutex_unlock(&pool->lock);
}

static void destroy(struct gpud_pool *pool)
{
    for (uint32_t i = 0; i < pool->ring.memories; i++) {
        for (uint32_t k = 0; k < pool->ring.slots_per_memory; k++)
            while (pool->slots[i][k].read_count)
                gpud_fence_drop(&pool->slots[i][k].reads[--pool->slots[i][k].read_count]);
        free(pool->slots[i]);
    }
    gpud_queue_unref(&pool->queue);
    gpud_ring_finish(&pool->ring);
    gpud_device_close(&pool->viewer);
    gpud_device_close(&pool->device);
    pthread_cond_destroy(&pool->freed);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void gpud_pool_ref(struct gpud_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->references++;
    pthread_mutex_unlock(&pool->lock);
}

void gpud_pool_unref(struct gpud_pool **pool)
{
    if (!*pool)
        return;
    struct gpud_pool *gone = *pool;
    *pool = NULL;
    pthread_mutex_lock(&gone->lock);
    bool last = --gone->references == 0;
    pthread_mutex_unlock(&gone->lock);
    if (last)
        destroy(gone);
}

/* The pool's queue runs after everybody who reads the slot. */
static void await_reads(struct gpud_slot *slot)
{
    while (slot->read_count) {
        struct gpud_fence *fence = &slot->reads[--slot->read_count];
        gpud_queue_await(slot->pool->queue, fence, NULL);
        gpud_fence_drop(fence);
    }
}

void gpud_slot_add_read(struct gpud_slot *slot, const struct gpud_fence *fence)
{
    if (slot->read_count == GPUD_SLOT_READS)
        await_reads(slot);
    slot->reads[slot->read_count++] = *fence;
}

struct gpud_slot *gpud_pool_take(struct gpud_pool *pool)
{
    struct gpud_slot *slot = NULL;
    pthread_mutex_lock(&pool->lock);
    if (pool->free_count) {
        slot = take_free(pool);
        slot->users = 1;
        slot->written = ++pool->lent;
        pool->references++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!slot)
        return NULL;
    await_reads(slot);
    struct gpud_frame_info *info = &slot->frame.info;
    info->pts = info->dts = info->duration = GPUD_TIME_NONE;
    info->offset = UINT64_MAX;
    info->flags = info->meta_size = 0;
    return slot;
}

struct gpud_slot *gpud_pool_take_old(struct gpud_pool *pool, uint64_t lent)
{
    struct gpud_slot *slot = NULL;
    pthread_mutex_lock(&pool->lock);
    for (uint32_t i = 0; i < pool->free_count && !slot; i++) {
        struct gpud_slot **place = &pool->free[(pool->free_first + i) % GPUD_RING_SLOTS_MAX];
        struct gpud_slot **first = &pool->free[pool->free_first % GPUD_RING_SLOTS_MAX];
        if ((*place)->written == 0 || (*place)->written > lent)
            continue;
        slot = *place;
        *place = *first; /* which leaves the circle instead */
    }
    if (slot) {
        pool->free_first++;
        pool->free_count--;
        slot->users = 1;
        pool->references++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (slot)
        await_reads(slot);
    return slot;
}

enum gpud_status gpud_slot_clear(struct gpud_slot *slot, struct gpud_error *error)
{
    void *data;
    slot->frame.info.flags = 0; /* it may have been read-only for who had it before */
    enum gpud_status status = gpud_frame_map(&slot->frame, GPUD_WRITE, GPUD_SEC, &data, error);
    if (status != GPUD_OK)
        return status;
    memset(data, 0, slot->frame.info.layout.size);
    gpud_frame_unmap(&slot->frame);
    status = gpud_frame_check(&slot->frame, error);
    if (status == GPUD_OK)
        slot->written = 0;
    slot->frame.spoiled.status = GPUD_OK;
    return status;
}

void gpud_pool_wait(struct gpud_pool *pool, int64_t deadline)
{
    struct timespec until = gpud_timespec(deadline);
    pthread_mutex_lock(&pool->lock);
    if (pool->free_count == 0)
        pthread_cond_timedwait(&pool->freed, &pool->lock, &until);
    pthread_mutex_unlock(&pool->lock);
}

void gpud_pool_wake(struct gpud_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->freed);
    pthread_mutex_unlock(&pool->lock);
}

void gpud_slot_hold(struct gpud_slot *slot)
{
    pthread_mutex_lock(&slot->pool->lock);
    slot->users++;
    pthread_mutex_unlock(&slot->pool->lock);
}

void gpud_slot_drop(struct gpud_slot *slot)
{
    struct gpud_pool *pool = slot->pool;
    bool last = false;
    pthread_mutex_lock(&pool->lock);
    if (--slot->users == 0) {
        put_free(pool, slot);
        last = --pool->references == 0;
        pthread_cond_signal(&pool->freed);
    }
    pthread_mutex_unlock(&pool->lock);
    if (last)
        destroy(pool);
}

bool gpud_pool_orders(const struct gpud_frame *frame, const struct gpud_queue *queue)
{
    return frame->ops == &lent_ops && (frame->queue == queue || !frame->queue);
}

struct gpud_slot *gpud_pool_slot_of(const struct gpud_pool *pool, struct gpud_frame *frame)
{
    return frame->ops == &lent_ops && frame->owner == pool ? (struct gpud_slot *)frame : NULL;
}
