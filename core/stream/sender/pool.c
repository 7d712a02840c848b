/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/sender/pool.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/sleep.h"

#include <stdlib.h>
#include <string.h>

static void release_lent(struct gpud_frame *frame)
{
    struct gpud_slot *slot = (struct gpud_slot *)frame;
    void *arg = slot->on_release ? atomic_exchange(&slot->on_release_arg, NULL) : NULL;
    if (arg)
        slot->on_release(slot, arg);
    gpud_slot_drop(slot);
}

/* Lists a free slot; a slot of a closed memory stays unlisted. */
static void put_free(struct gpud_pool *pool, struct gpud_slot *slot)
{
    if (slot->frame.slot / pool->ring.slots_per_memory >= pool->opened)
        return;
    pool->free[(pool->free_first + pool->free_count++) % GPUD_RING_SLOTS_MAX] = slot;
}

/* The same for a slot that was never lent: it is taken last, so that the ring can shrink to the
 * slots really used. */
static void put_fresh(struct gpud_pool *pool, struct gpud_slot *slot)
{
    if (pool->queue) {
        put_free(pool, slot);
        return;
    }
    pool->free[--pool->free_first % GPUD_RING_SLOTS_MAX] = slot;
    pool->free_count++;
}

/* Lists the returned slots in the order of their return. */
static void collect(struct gpud_pool *pool)
{
    struct gpud_slot *oldest = NULL;
    if (!atomic_load(&pool->back))
        return;
    for (struct gpud_slot *latest = atomic_exchange(&pool->back, NULL); latest;) {
        struct gpud_slot *next = latest->next;
        latest->next = oldest;
        oldest = latest;
        latest = next;
    }
    for (; oldest; oldest = oldest->next)
        put_free(pool, oldest);
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
                                  enum gpud_usage usage, bool dmabufs, struct gpud_device *viewer,
                                  const struct gpud_layout *layout, uint32_t epoch, uint32_t slots,
                                  bool apart, struct gpud_pool **pool, struct gpud_error *error)
{
    struct gpud_pool *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a pool of slots");
    gpud_lock_init(&made->wake_lock, GPUD_RANK_POOL_WAKE);
    atomic_init(&made->references, 1);
    atomic_init(&made->wake, -1);
    made->epoch = epoch;
    made->dmabufs = dmabufs;
    made->layout = *layout;
    made->device = gpud_device_ref(device);
    made->viewer = viewer ? gpud_device_ref(viewer) : NULL;
    made->share = slots;
    gpud_ring_init(&made->ring, device, usage, layout->size, apart ? 1 : slots);
    made->queue = queue ? gpud_queue_ref(queue) : NULL;

    enum gpud_status status = GPUD_OK;
    while (status == GPUD_OK && gpud_ring_slots(&made->ring) < slots) {
        struct gpud_pool_part part;
        status = gpud_pool_make_part(made, &part, error);
        if (status == GPUD_OK)
            status = gpud_pool_add_part(made, &part, error);
    }
    if (status != GPUD_OK) {
        gpud_pool_unref(&made);
        return status;
    }
    gpud_pool_open(made);
    *pool = made;
    return GPUD_OK;
}

/* Must run before the memory is shared: afterwards the kernel may refuse to make dma-bufs. */
static void make_dmabufs(const struct gpud_pool *pool, struct gpud_memory *memory)
{
    const struct gpud_ring *ring = &pool->ring;
    uint64_t offset;
    int fd;
    for (uint32_t i = 0; i < ring->slots_per_memory; i++) {
        if (gpud_memory_export_dmabuf(memory, i * ring->slot_size, ring->slot_size, &fd, &offset,
                                      NULL) != GPUD_OK)
            return; /* the call that needs it reports why */
        gpud_fd_close(&fd);
    }
}

enum gpud_status gpud_pool_make_part(const struct gpud_pool *pool, struct gpud_pool_part *part,
                                     struct gpud_error *error)
{
    struct gpud_pool_part made = {.handle.fd = -1};
    made.slots = calloc(pool->ring.slots_per_memory, sizeof(*made.slots));
    if (!made.slots)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for slots");
    enum gpud_status status = gpud_ring_alloc(&pool->ring, &made.memory, error);
    if (status == GPUD_OK && pool->dmabufs)
        make_dmabufs(pool, made.memory);
    if (status == GPUD_OK && pool->viewer)
        status = gpud_memory_view(made.memory, pool->viewer, &made.view, error);
    if (status != GPUD_OK) {
        gpud_pool_discard_part(&made);
        return status;
    }
    /* If this fails, the call that needs the handle reports why. */
    made.exported = pool->ring.usage == GPUD_USAGE_SHARE &&
                    gpud_memory_export(made.memory, &made.handle, NULL) == GPUD_OK;
    *part = made;
    return GPUD_OK;
}

void gpud_pool_discard_part(struct gpud_pool_part *part)
{
    if (part->exported)
        gpud_fd_close(&part->handle.fd);
    gpud_memory_unref(&part->memory);
    free(part->slots);
}

enum gpud_status gpud_pool_add_part(struct gpud_pool *pool, struct gpud_pool_part *part,
                                    struct gpud_error *error)
{
    uint32_t index = pool->ring.memories, count = pool->ring.slots_per_memory;
    enum gpud_status status = GPUD_NO_MEMORY;
    if (gpud_ring_slots(&pool->ring) + count > GPUD_RING_SLOTS_MAX)
        gpud_fail(error, GPUD_NO_MEMORY, "the ring has its maximum size of %d slots",
                  GPUD_RING_SLOTS_MAX);
    else
        status = gpud_ring_add(&pool->ring, part->memory, error);
    if (status != GPUD_OK) {
        gpud_pool_discard_part(part);
        return status;
    }
    pool->views[index] = part->view;
    pool->handle[index] = part->handle;
    pool->exported[index] = part->exported;
    pool->slots[index] = part->slots;
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_slot *slot = &part->slots[i];
        slot->pool = pool;
        slot->view = part->view;
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

enum gpud_status gpud_pool_describe(struct gpud_pool *pool, uint32_t first, bool same_process,
                                    struct gpud_ring_description *description,
                                    struct gpud_error *error)
{
    const struct gpud_ring *ring = &pool->ring;
    description->slot_size = ring->slot_size;
    description->slots_per_memory = ring->slots_per_memory;
    description->memories = 0;
    for (uint32_t i = first; i < ring->memories; i++) {
        struct gpud_handle *handle = &description->handle[i - first];
        if (same_process) {
            gpud_memory_export_local(ring->memory[i], handle);
            continue;
        }
        if (!pool->exported[i]) {
            enum gpud_status status = gpud_memory_export(ring->memory[i], &pool->handle[i], error);
            if (status != GPUD_OK)
                return status;
            pool->exported[i] = true;
        }
        *handle = pool->handle[i];
    }
    description->memories = ring->memories - first;
    return GPUD_OK;
}

void gpud_pool_open(struct gpud_pool *pool)
{
    collect(pool); /* before opening: slots of closed memories stay unlisted */
    while (pool->opened < pool->ring.memories) {
        struct gpud_slot *slots = pool->slots[pool->opened++];
        for (uint32_t i = pool->ring.slots_per_memory; i > 0; i--)
            if (atomic_load(&slots[i - 1].users) == 0)
                put_fresh(pool, &slots[i - 1]);
    }
    gpud_pool_wake(pool);
}

void gpud_pool_close(struct gpud_pool *pool, uint32_t first)
{
    collect(pool);
    uint32_t count = pool->free_count;
    pool->free_count = 0;
    if (first < pool->opened)
        pool->opened = first;
    for (uint32_t i = 0; i < count; i++) /* in order, in place */
        put_free(pool, pool->free[(pool->free_first + i) % GPUD_RING_SLOTS_MAX]);
}

uint32_t gpud_pool_count_needed(struct gpud_pool *pool)
{
    uint32_t needed = pool->ring.memories;
    collect(pool);
    while (needed > pool->opened) {
        const struct gpud_slot *slots = pool->slots[needed - 1];
        for (uint32_t i = 0; i < pool->ring.slots_per_memory; i++)
            if (atomic_load(&slots[i].users) > 0 || slots[i].read_count > 0)
                return needed;
        needed--;
    }
    return needed;
}

void gpud_pool_remove_last(struct gpud_pool *pool, struct gpud_pool_part *part)
{
    uint32_t last = --pool->ring.memories;
    *part = (struct gpud_pool_part){
        .memory = pool->ring.memory[last],
        .handle = pool->handle[last],
        .exported = pool->exported[last],
        .slots = pool->slots[last],
    };
    pool->ring.memory[last] = pool->views[last] = NULL;
    pool->slots[last] = NULL;
    pool->exported[last] = false;
}

static void destroy(struct gpud_pool *pool)
{
    for (uint32_t i = 0; i < pool->ring.memories; i++) {
        for (uint32_t k = 0; k < pool->ring.slots_per_memory; k++)
            while (pool->slots[i][k].read_count)
                gpud_fence_drop(&pool->slots[i][k].reads[--pool->slots[i][k].read_count]);
        free(pool->slots[i]);
        if (pool->exported[i])
            gpud_fd_close(&pool->handle[i].fd);
    }
    gpud_queue_unref(&pool->queue);
    gpud_ring_finish(&pool->ring);
    gpud_device_close(&pool->viewer);
    gpud_device_close(&pool->device);
    gpud_lock_destroy(&pool->wake_lock);
    free(pool);
}

void gpud_pool_ref(struct gpud_pool *pool)
{
    atomic_fetch_add(&pool->references, 1);
}

void gpud_pool_unref(struct gpud_pool **pool)
{
    if (!*pool)
        return;
    struct gpud_pool *gone = *pool;
    *pool = NULL;
    if (atomic_fetch_sub(&gone->references, 1) == 1)
        destroy(gone);
}

/* Takes a slot that is about to be overwritten back from a receiver's device. */
static void take_back(struct gpud_slot *slot)
{
    const struct gpud_route_slot_ops *route = atomic_exchange(&slot->given_by, NULL);
    if (route)
        route->take_back(slot->pool->queue, slot->frame.memory);
}

/* Makes the pool's queue wait for all reads of the slot. If the device cannot, drops the reads that
 * have ended and keeps the others, with *error. */
static enum gpud_status await_reads(struct gpud_slot *slot, struct gpud_error *error)
{
    enum gpud_status status = slot->unknown_reads ? GPUD_IO : GPUD_OK;
    uint32_t kept = 0;
    if (slot->unknown_reads)
        gpud_fail(error, status, "a queue may read the slot for an unknown time");
    for (uint32_t i = 0; i < slot->read_count; i++) {
        struct gpud_fence *fence = &slot->reads[i];
        struct gpud_error why;
        if (gpud_queue_await(slot->pool->queue, fence, &why) == GPUD_OK ||
            gpud_fence_is_passed(fence)) {
            gpud_fence_drop(fence);
        } else {
            status = gpud_fail_native(error, GPUD_IO, why.origin, why.native, "%s", why.reason);
            slot->reads[kept++] = *fence;
        }
    }
    slot->read_count = kept;
    return status;
}

void gpud_slot_add_read(struct gpud_slot *slot, const struct gpud_fence *fence)
{
    struct gpud_fence unknown = *fence;
    if (slot->read_count == GPUD_SLOT_READS)
        await_reads(slot, NULL);
    if (slot->read_count < GPUD_SLOT_READS) {
        slot->reads[slot->read_count++] = *fence;
        return;
    }
    slot->unknown_reads = true;
    gpud_fence_drop(&unknown);
}

/* Skips slots that another queue reads and the pool's queue cannot wait for; they stay free for the
 * next try. */
static struct gpud_slot *take_unread(struct gpud_pool *pool)
{
    pool->refusal.status = GPUD_OK;
    for (uint32_t left = pool->free_count; left > 0; left--) {
        struct gpud_slot *slot = take_free(pool);
        if (await_reads(slot, &pool->refusal) == GPUD_OK)
            return slot;
        put_free(pool, slot);
    }
    return NULL;
}

enum gpud_status gpud_pool_explain(const struct gpud_pool *pool, struct gpud_error *error)
{
    const struct gpud_error *why = &pool->refusal;
    if (why->status != GPUD_OK)
        return gpud_fail_native(error, why->status, why->origin, why->native,
                                "no slot can be written, because receivers still read them: %s",
                                why->reason);
    return gpud_fail(error, GPUD_TIMEOUT,
                     "no slot is free: the application and the receivers hold all %u",
                     gpud_ring_slots(&pool->ring));
}

struct gpud_slot *gpud_pool_take(struct gpud_pool *pool)
{
    collect(pool);
    struct gpud_slot *slot = take_unread(pool);
    if (!slot)
        return NULL;
    atomic_store_explicit(&slot->users, 1, memory_order_relaxed);
    slot->written = ++pool->lent;
    gpud_pool_ref(pool);
    take_back(slot);
    struct gpud_frame_info *info = &slot->frame.info;
    info->pts_ns = info->dts_ns = info->duration_ns = GPUD_TIME_NONE;
    info->offset = UINT64_MAX;
    info->flags = info->meta_size = 0;
    info->bytes = 0;
    return slot;
}

/* Whether its picture was written before pool->lent had this value. */
static bool is_old(const struct gpud_slot *slot, uint64_t lent)
{
    return slot->written != 0 && slot->written <= lent;
}

struct gpud_slot *gpud_pool_take_old(struct gpud_pool *pool, uint64_t lent)
{
    struct gpud_slot *slot = NULL;
    collect(pool);
    pool->refusal.status = GPUD_OK;
    for (uint32_t i = 0; i < pool->free_count && !slot; i++) {
        struct gpud_slot **place = &pool->free[(pool->free_first + i) % GPUD_RING_SLOTS_MAX];
        struct gpud_slot **first = &pool->free[pool->free_first % GPUD_RING_SLOTS_MAX];
        if (!is_old(*place, lent) || await_reads(*place, &pool->refusal) != GPUD_OK)
            continue;
        slot = *place;
        *place = *first; /* the first one leaves the buffer instead */
    }
    if (slot) {
        pool->free_first++;
        pool->free_count--;
        atomic_store_explicit(&slot->users, 1, memory_order_relaxed);
        gpud_pool_ref(pool);
        take_back(slot);
    }
    return slot;
}

enum gpud_status gpud_slot_clear(struct gpud_slot *slot, struct gpud_error *error)
{
    void *data;
    slot->frame.info.flags = 0; /* it may have been read-only before */
    slot->frame.info.bytes = 0;
    enum gpud_status status = gpud_frame_map(&slot->frame, GPUD_WRITE, GPUD_SEC, &data, error);
    if (status != GPUD_OK)
        return status;
    memset(data, 0, slot->frame.info.layout.size);
    gpud_frame_unmap(&slot->frame);
    status = gpud_frame_check(&slot->frame, error);
    if (status == GPUD_OK)
        slot->written = 0;
    slot->frame.write_error.status = GPUD_OK;
    return status;
}

bool gpud_pool_has_old(struct gpud_pool *pool, uint64_t lent)
{
    collect(pool);
    for (uint32_t i = 0; i < pool->free_count; i++)
        if (is_old(pool->free[(pool->free_first + i) % GPUD_RING_SLOTS_MAX], lent))
            return true;
    return false;
}

uint32_t gpud_pool_count_free(struct gpud_pool *pool)
{
    collect(pool);
    return pool->free_count;
}

void gpud_pool_set_wake(struct gpud_pool *pool, int fd)
{
    gpud_lock_take(&pool->wake_lock);
    atomic_store(&pool->wake, fd);
    gpud_lock_release(&pool->wake_lock);
}

void gpud_pool_wait(struct gpud_pool *pool, int64_t deadline)
{
    atomic_fetch_add(&pool->waiters, 1); /* before the check, so that no wake is lost */
    uint32_t freed = atomic_load(&pool->freed);
    if (!atomic_load(&pool->back))
        gpud_futex_wait(&pool->freed, freed, deadline);
    atomic_fetch_sub(&pool->waiters, 1);
}

void gpud_pool_wake(struct gpud_pool *pool)
{
    atomic_fetch_add(&pool->freed, 1);
    gpud_futex_wake(&pool->freed);
}

void gpud_slot_hold(struct gpud_slot *slot)
{
    atomic_fetch_add_explicit(&slot->users, 1, memory_order_relaxed);
}

void gpud_slot_drop(struct gpud_slot *slot)
{
    struct gpud_pool *pool = slot->pool;
    if (atomic_fetch_sub_explicit(&slot->users, 1, memory_order_acq_rel) != 1)
        return;
    slot->next = atomic_load(&pool->back);
    while (!atomic_compare_exchange_weak(&pool->back, &slot->next, slot))
        ;
    /* Another thread may take the slot from here on; our reference keeps the pool. */
    if (atomic_load(&pool->waiters) > 0)
        gpud_pool_wake(pool);
    if (atomic_load(&pool->wake) >= 0) {
        gpud_lock_take(&pool->wake_lock);
        gpud_event_raise(atomic_load(&pool->wake));
        gpud_lock_release(&pool->wake_lock);
    }
    gpud_pool_unref(&pool);
}

bool gpud_pool_orders(const struct gpud_frame *frame, const struct gpud_queue *queue)
{
    return frame->ops == &lent_ops && (frame->queue == queue || !frame->queue);
}

struct gpud_slot *gpud_pool_slot_of(const struct gpud_pool *pool, struct gpud_frame *frame)
{
    return frame->ops == &lent_ops && frame->owner == pool ? (struct gpud_slot *)frame : NULL;
}

bool gpud_pool_was_lent_by(const struct gpud_frame *frame, const struct gpud_sender *sender)
{
    return frame->ops == &lent_ops && ((const struct gpud_pool *)frame->owner)->lender == sender;
}
