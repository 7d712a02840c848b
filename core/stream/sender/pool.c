/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender's slots, and how many of them receivers may ask for. */
#include "stream/sender/sender.h"

#include "base/base.h"
#include "frame/frame.h"
#include "route/route.h"

#include <stdlib.h>
#include <string.h>

/* === pool ==================================================================================== */

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
    for (; oldest; oldest = oldest->next) {
        oldest->is_lent = false;
        put_free(pool, oldest);
    }
}

const struct gpud_frame_owner_ops gpud_lent_ops = {
    .release = release_lent,
    .wait = gpud_frame_join_wait,
    .wait_host = gpud_frame_wait_host_complete,
    .post = gpud_frame_join_post,
    .is_poisoned = gpud_frame_is_never_poisoned,
};

static void pool_discard_part(struct gpud_pool_part *part)
{
    if (part->exported)
        gpud_fd_close(&part->handle.fd);
    gpud_memory_unref(&part->memory);
    free(part->slots);
}

/* Makes one; needs a reference on the pool but no lock. */
static enum gpud_status pool_make_part(const struct gpud_pool *pool, struct gpud_pool_part *part,
                                       struct gpud_error *error)
{
    const struct gpud_ring *ring = &pool->ring;
    struct gpud_pool_part made = {.handle.fd = -1};
    made.slots = calloc(ring->slots_per_memory, sizeof(*made.slots));
    if (!made.slots)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for slots");
    enum gpud_status status = gpud_ring_alloc(ring, &made.memory, error);
    /* Before the memory is shared: afterwards the kernel may refuse to make dma-bufs. If it fails,
     * the call that needs one reports why; so does the one that needs the handle below. */
    for (uint32_t i = 0; status == GPUD_OK && pool->dmabufs && i < ring->slots_per_memory; i++) {
        uint64_t offset;
        int fd;
        if (gpud_memory_export_dmabuf(made.memory, i * ring->slot_size, ring->slot_size, &fd,
                                      &offset, NULL) != GPUD_OK)
            break;
        gpud_fd_close(&fd);
    }
    if (status == GPUD_OK && pool->viewer)
        status = gpud_memory_view(made.memory, pool->viewer, &made.view, error);
    if (status != GPUD_OK) {
        pool_discard_part(&made);
        return status;
    }
    made.exported = ring->usage == GPUD_USAGE_SHARE &&
                    gpud_memory_export(made.memory, &made.handle, NULL) == GPUD_OK;
    *part = made;
    return GPUD_OK;
}

/* Adds it; on failure it is discarded. Its slots are lent only after gpud_pool_open(), when every
 * receiver that maps the ring knows it. */
static enum gpud_status pool_add_part(struct gpud_pool *pool, struct gpud_pool_part *part,
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
        pool_discard_part(part);
        return status;
    }
    pool->parts[index] = *part;
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_slot *slot = &part->slots[i];
        slot->pool = pool;
        slot->view = part->view;
        slot->frame.ops = &gpud_lent_ops;
        slot->frame.owner = pool;
        slot->frame.slot = index * count + i;
        slot->frame.memory = gpud_ring_slot(&pool->ring, slot->frame.slot, &slot->frame.offset);
        slot->frame.queue = pool->queue;
        slot->frame.info.layout = pool->layout;
        slot->frame.info.epoch = pool->epoch;
    }
    return GPUD_OK;
}

/* Describes the memories from `first` on to a peer. The descriptors in it stay the pool's.
 * same_process: by pointer. */
static enum gpud_status pool_describe(struct gpud_pool *pool, uint32_t first, bool same_process,
                                      struct gpud_ring_description *description,
                                      struct gpud_error *error)
{
    const struct gpud_ring *ring = &pool->ring;
    description->slot_size = ring->slot_size;
    description->slots_per_memory = ring->slots_per_memory;
    description->memories = 0;
    for (uint32_t i = first; i < ring->memories; i++) {
        struct gpud_handle *handle = &description->handle[i - first];
        struct gpud_pool_part *part = &pool->parts[i];
        if (same_process) {
            gpud_memory_export_local(ring->memory[i], handle);
            continue;
        }
        if (!part->exported) {
            enum gpud_status status = gpud_memory_export(part->memory, &part->handle, error);
            if (status != GPUD_OK)
                return status;
            part->exported = true;
        }
        *handle = part->handle;
    }
    description->memories = ring->memories - first;
    return GPUD_OK;
}

void gpud_pool_open(struct gpud_pool *pool)
{
    collect(pool); /* before opening: slots of closed memories stay unlisted */
    while (pool->opened < pool->ring.memories) {
        struct gpud_slot *slots = pool->parts[pool->opened++].slots;
        for (uint32_t i = pool->ring.slots_per_memory; i > 0; i--) {
            struct gpud_slot *slot = &slots[i - 1];
            if (slot->is_lent)
                continue;
            if (pool->queue) {
                put_free(pool, slot);
                continue;
            }
            /* It was never lent: it is taken last, so that the ring can shrink to the slots really
             * used. */
            pool->free[--pool->free_first % GPUD_RING_SLOTS_MAX] = slot;
            pool->free_count++;
        }
    }
    gpud_pool_wake(pool);
}

uint32_t gpud_pool_close(struct gpud_pool *pool, uint32_t first)
{
    collect(pool);
    uint32_t free_count = pool->free_count, count = pool->ring.memories;
    pool->free_count = 0;
    if (first < pool->opened)
        pool->opened = first;
    for (uint32_t i = 0; i < free_count; i++) /* in order, in place */
        put_free(pool, pool->free[(pool->free_first + i) % GPUD_RING_SLOTS_MAX]);
    for (; count > pool->opened; count--) {
        const struct gpud_slot *slots = pool->parts[count - 1].slots;
        for (uint32_t i = 0; i < pool->ring.slots_per_memory; i++)
            if (slots[i].is_lent || slots[i].read_count > 0)
                return count;
    }
    return count;
}

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
        status = pool_make_part(made, &part, error);
        if (status == GPUD_OK)
            status = pool_add_part(made, &part, error);
    }
    if (status != GPUD_OK) {
        gpud_pool_unref(&made);
        return status;
    }
    gpud_pool_open(made);
    *pool = made;
    return GPUD_OK;
}

void gpud_pool_ref(struct gpud_pool *pool)
{
    atomic_fetch_add(&pool->references, 1);
}

void gpud_pool_unref(struct gpud_pool **pool)
{
    struct gpud_pool *gone = *pool;
    *pool = NULL;
    if (!gone || atomic_fetch_sub(&gone->references, 1) != 1)
        return;
    for (uint32_t i = 0; i < gone->ring.memories; i++) {
        struct gpud_pool_part *part = &gone->parts[i];
        for (uint32_t k = 0; k < gone->ring.slots_per_memory; k++)
            while (part->slots[k].read_count)
                gpud_fence_drop(&part->slots[k].reads[--part->slots[k].read_count]);
        free(part->slots);
        if (part->exported)
            gpud_fd_close(&part->handle.fd);
    }
    gpud_queue_unref(&gone->queue);
    gpud_ring_finish(&gone->ring);
    gpud_device_close(&gone->viewer);
    gpud_device_close(&gone->device);
    gpud_lock_destroy(&gone->wake_lock);
    free(gone);
}

/* Takes a slot that is about to be overwritten back from a receiver's device. */
static void pool_take_back(struct gpud_slot *slot)
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
    pool->refusal.status = GPUD_OK;
    for (uint32_t left = pool->free_count; left > 0; left--) {
        pool->free_count--;
        uint32_t place = pool->queue ? pool->free_first++ : pool->free_first + pool->free_count;
        struct gpud_slot *slot = pool->free[place % GPUD_RING_SLOTS_MAX];
        if (await_reads(slot, &pool->refusal) != GPUD_OK) {
            /* Another queue reads it, for which the pool's cannot wait: free for the next try. */
            put_free(pool, slot);
            continue;
        }
        atomic_store_explicit(&slot->users, 1, memory_order_relaxed);
        slot->is_lent = true;
        slot->written = ++pool->lent;
        gpud_pool_ref(pool);
        pool_take_back(slot);
        struct gpud_frame_info *info = &slot->frame.info;
        info->pts_ns = info->dts_ns = info->duration_ns = GPUD_TIME_NONE;
        info->offset = UINT64_MAX;
        info->flags = info->meta_size = 0;
        info->bytes = 0;
        return slot;
    }
    return NULL;
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
        slot->is_lent = true;
        gpud_pool_ref(pool);
        pool_take_back(slot);
    }
    return slot;
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

enum gpud_status gpud_sender_get_pool(struct gpud_sender *sender, enum gpud_ring_place place,
                                      struct gpud_pool **pool, struct gpud_error *error)
{
    bool staging = place == GPUD_RING_SENDER_HOST && sender->device != sender->host;
    struct gpud_pool **own = staging ? &sender->host_pool : &sender->device_pool;
    struct gpud_device *device = staging ? sender->host : sender->device;
    uint32_t epoch = sender->epoch;
    while (!*own && sender->epoch == epoch) {
        struct gpud_pool *made;
        struct gpud_layout layout = *gpud_sender_layout(sender, place);
        bool dmabufs = sender->dmabufs, apart = gpud_route_gives_slots(device);
        uint32_t slots = gpud_sender_slots(sender, apart);
        gpud_sender_unlock(sender);
        enum gpud_status status = gpud_pool_create(
            device, device->caps & GPUD_CAP_SYNCHRONOUS ? NULL : sender->queue,
            device->caps & GPUD_CAP_SHARE ? GPUD_USAGE_SHARE : GPUD_USAGE_LOCAL, dmabufs,
            staging ? sender->device : NULL, &layout, epoch, slots, apart, &made, error);
        gpud_sender_lock(sender);
        if (status != GPUD_OK)
            return status;
        made->lender = sender;
        if (!*own && sender->epoch == epoch) {
            *own = made;
            break;
        }
        gpud_sender_unlock(sender); /* another thread was faster */
        gpud_pool_unref(&made);
        gpud_sender_lock(sender);
    }
    if (sender->epoch != epoch)
        return gpud_fail(error, GPUD_INVALID, "the format changed meanwhile");
    *pool = *own;
    return GPUD_OK;
}

/* === room ==================================================================================== */
/* Room in the sender's ring: a share for the sender and one for each receiver that maps it. The
 * ring grows by a memory at a time when a receiver joins or asks for a larger share, is cleared for
 * a new one, and shrinks some seconds after receivers have left. In the listener's thread, without
 * the lock, which it takes for state that application threads use. */

/* How long the last free slot is left to the application: a slot that is being cleared cannot be
 * used. */
#define SPARE_SLOT_PATIENCE (200 * GPUD_MSEC)

/* Long enough for receivers that reconnect to find their room again. */
#define SHRINK_PATIENCE (5 * GPUD_SEC)

/* How long new receivers wait for one that does not read its messages. */
#define DEAF_PATIENCE GPUD_SEC

/* What receivers can have beyond the share that every one has: all of them together, and one alone,
 * so that it leaves some to others. Memories are counted, too, so that all receivers that can
 * connect find room for their shares. */
#define EXTRA_BYTES (UINT64_C(512) << 20)
#define EXTRA_BYTES_A_LINK (EXTRA_BYTES / 2)
#define EXTRA_MEMORIES (GPUD_RING_MEMORIES_MAX - 1 - GPUD_RECEIVERS_MAX)

/* After another receiver could not be told that the ring grew; by then it has read its messages. */
#define RAISE_PAUSE (200 * GPUD_MSEC)

/* Whether the link gets the pool's memory by pointer: even in one process, another driver has to
 * import a device's memory. */
static bool goes_by_pointer(const struct gpud_link *link, const struct gpud_pool *pool)
{
    return gpud_link_is_same_process(link) &&
           (pool->device == link->sender->host ||
            strcmp(link->peer.kind, gpud_device_kind(pool->device)) == 0);
}

static bool maps(const struct gpud_link *link, const struct gpud_pool *pool)
{
    return link->state != GPUD_LINK_DEAD && link->transport && link->transport->pool == pool;
}

static bool room_is_current(const struct gpud_sender *sender, const struct gpud_pool *pool)
{
    return sender->device_pool == pool || sender->host_pool == pool;
}

/* A link's slots of a pool. A receiver that asked for fewer leaves the rest to others. */
static uint32_t share_of(const struct gpud_link *link, const struct gpud_pool *pool)
{
    return link->slots > pool->share ? link->slots : pool->share;
}

/* The slots of all links that have a share of the pool, or will have one. Under the lock. */
static uint32_t count_shares(const struct gpud_sender *sender, const struct gpud_pool *pool,
                             const struct gpud_link *besides)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sender->link_count; i++) {
        const struct gpud_link *link = sender->links[i];
        const struct gpud_transport *transport = link->transport;
        if (link == besides)
            continue;
        if (maps(link, pool)) {
            count += share_of(link, pool);
        } else if (gpud_link_takes_frames(link) && transport &&
                   gpud_transport_shares_slots(transport)) {
            /* It used the previous epoch's pool. */
            bool staged = transport->on_host && sender->host != sender->device;
            count += pool == (staged ? sender->host_pool : sender->device_pool) ? pool->share : 0;
        }
    }
    return count;
}

/* Tells a link that the ring grows or shrinks. A peer that leaves no room for it in its connection
 * would keep new receivers out, and the ring large, so its link ends. */
static enum gpud_status room_tell(struct gpud_link *link, struct gpud_message *message,
                                  struct gpud_error *error)
{
    int64_t now = gpud_now();
    gpud_sender_lock(link->sender);
    enum gpud_status status = gpud_link_try_send(link, message, error);
    if (status != GPUD_AGAIN)
        link->resize_by = 0;
    else if (!link->resize_by ||
             now >= link->resize_by + DEAF_PATIENCE) /* of an earlier newcomer */
        link->resize_by = now + DEAF_PATIENCE;
    else if (now >= link->resize_by)
        gpud_link_kill(link, GPUD_LOG_WARNING,
                       "reads none of its messages, and would keep new receivers out: it could not "
                       "be told for 1 s that the ring changes its size");
    gpud_sender_unlock(link->sender);
    return status;
}

/* How many slots of the pool a link may have if it asks for so many. A ring of one slot a memory
 * has no memories to spare, and a ring between hosts is the receiver's. Under the lock. */
static uint32_t limit_share(const struct gpud_link *link, const struct gpud_pool *pool,
                            uint32_t asked)
{
    const struct gpud_sender *sender = link->sender;
    const uint32_t a_memory = pool->ring.slots_per_memory;
    uint64_t bytes = pool->ring.slot_size * a_memory;
    uint64_t most = EXTRA_MEMORIES, own = EXTRA_BYTES_A_LINK / bytes, all = EXTRA_BYTES / bytes;
    if (asked <= pool->share)
        return asked;
    if (a_memory < pool->share || link->channel->ops->remote)
        return pool->share;
    most = all < most ? all : most;
    for (uint32_t i = 0; i < sender->link_count; i++) {
        const struct gpud_link *other = sender->links[i];
        if (other == link || !maps(other, pool))
            continue;
        /* The memories that it has beyond its share. */
        uint32_t extra = (share_of(other, pool) - pool->share + a_memory - 1) / a_memory;
        most -= extra < most ? extra : most;
    }
    most = own < most ? own : most;
    uint64_t slots = pool->share + most * a_memory;
    return slots < asked ? (uint32_t)slots : asked;
}

/* Without a wish for more, both ends' settings count. */
static uint32_t choose_share(const struct gpud_link *link, const struct gpud_pool *pool)
{
    uint32_t wanted = link->peer.slots ? link->peer.slots : pool->share;
    uint32_t usual = wanted < pool->share ? wanted : pool->share;
    return link->slots_asked > usual ? limit_share(link, pool, link->slots_asked) : usual;
}

/* Grows the pool until it has the sender's own slots and a share for each receiver that maps it,
 * this one included, which a slow one can hold without hurting others. A past epoch's pool needs
 * nothing.
 */
static enum gpud_status grow(struct gpud_link *link, struct gpud_pool *pool,
                             struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    for (;;) {
        struct gpud_pool_part part;
        gpud_sender_lock(sender);
        uint32_t needed = pool->share + share_of(link, pool) + count_shares(sender, pool, link);
        bool grows = room_is_current(sender, pool) && gpud_ring_slots(&pool->ring) < needed;
        gpud_sender_unlock(sender);
        if (!grows)
            return GPUD_OK;
        enum gpud_status status = pool_make_part(pool, &part, error);
        if (status != GPUD_OK)
            return status;
        gpud_sender_lock(sender);
        status = pool_add_part(pool, &part, error);
        gpud_sender_unlock(sender);
        if (status != GPUD_OK)
            return status;
    }
}

/* Called for a card that writes from the pool's slots, after the pool grew. */
enum gpud_status gpud_link_register_sources(struct gpud_link *link, struct gpud_error *error)
{
    struct gpud_transport *transport = link->transport;
    enum gpud_status status = GPUD_OK;
    if (!transport || !transport->remote || !transport->page.page)
        return GPUD_OK;
    while (status == GPUD_OK && transport->known_memories < transport->pool->ring.memories) {
        status = transport->remote->ops->add_source(
            transport->remote, transport->pool->ring.memory[transport->known_memories], error);
        if (status == GPUD_OK)
            transport->known_memories++;
    }
    return status;
}

/* Opens the new slots once every link knows the new memories; between hosts a receiver maps none,
 * and they are registered with its card instead. If a link cannot be notified now, the new receiver
 * waits, so that a streaming link never suffers. */
static enum gpud_status open_room(struct gpud_sender *sender, struct gpud_pool *pool,
                                  struct gpud_error *error)
{
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        struct gpud_transport *transport = link->transport;
        struct gpud_message message = {.type = GPUD_MESSAGE_GROW};
        if (!maps(link, pool) || link->state == GPUD_LINK_LEAVING ||
            transport->known_memories == pool->ring.memories)
            continue;
        if (transport->remote) {
            if (gpud_link_register_sources(link, error) != GPUD_OK)
                return GPUD_AGAIN;
            continue;
        }
        if (pool_describe(pool, transport->known_memories, goes_by_pointer(link, pool),
                          &message.grow, error) != GPUD_OK)
            return GPUD_AGAIN;
        enum gpud_status status = room_tell(link, &message, error);
        GPUD_STOP_POINT("sender: GROW sent");
        if (status != GPUD_OK)
            return GPUD_AGAIN;
        transport->known_memories = pool->ring.memories;
    }
    gpud_sender_lock(sender);
    gpud_pool_open(pool);
    gpud_sender_unlock(sender);
    return GPUD_OK;
}

void gpud_room_raise(struct gpud_link *link, int64_t now)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_message message = {.type = GPUD_MESSAGE_SLOTS};
    struct gpud_error why = {0};
    if (now < link->raise_at)
        return;
    link->raise_at = INT64_MAX;
    gpud_sender_lock(sender);
    bool connected = (link->state == GPUD_LINK_CANARY || link->state == GPUD_LINK_STREAMING) &&
                     link->epoch == sender->epoch && gpud_transport_shares_slots(link->transport);
    struct gpud_pool *pool = connected ? link->transport->pool : NULL;
    uint32_t before = link->slots;
    bool raise = pool && room_is_current(sender, pool) &&
                 (message.slots = choose_share(link, pool)) > before;
    if (raise) {
        gpud_pool_ref(pool);
        link->slots = message.slots;
    }
    gpud_sender_unlock(sender);
    if (!raise)
        return; /* the next offer takes it into account */
    enum gpud_status status = grow(link, pool, &why);
    if (status == GPUD_OK)
        status = open_room(sender, pool, &why);
    gpud_sender_lock(sender);
    if (status == GPUD_OK && link->state < GPUD_LINK_LEAVING && link->transport->pool == pool &&
        link->transport->page.page) {
        gpud_page_raise(&link->transport->page, message.slots);
        gpud_link_send(link, &message);
        gpud_sender_changed(sender);
    } else {
        link->slots = before;
    }
    gpud_sender_unlock(sender);
    if (status == GPUD_OK)
        gpud_log_info(&sender->context->log, "sender", "receiver %llu may hold %u frames",
                      (unsigned long long)link->id, message.slots);
    else if (status == GPUD_AGAIN)
        link->raise_at = gpud_deadline(RAISE_PAUSE);
    else
        gpud_log_info(&sender->context->log, "sender",
                      "receiver %llu asked for %u slots, and keeps %u: %s",
                      (unsigned long long)link->id, message.slots, before, why.reason);
    gpud_pool_unref(&pool);
}

/* Clears pictures from before this link in free slots, which it is about to map: one slot at a
 * time, so that the application misses at most one and never its last. Slots of a past epoch's pool
 * are left alone: they come back while receivers still read them. GPUD_AGAIN: too many slots are in
 * use; try later. */
static enum gpud_status room_clear(struct gpud_link *link, struct gpud_pool *pool,
                                   struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    bool patient =
        !link->offer_by || gpud_now() < link->offer_by - GPUD_IMPORT_DEADLINE + SPARE_SLOT_PATIENCE;
    gpud_sender_lock(sender);
    uint64_t lent = pool->lent;
    gpud_sender_unlock(sender);
    for (;;) {
        struct gpud_slot *slot = NULL;
        enum gpud_status status = GPUD_OK;
        bool found = false;
        void *data;
        gpud_sender_lock(sender);
        collect(pool);
        for (uint32_t i = 0; i < pool->free_count && room_is_current(sender, pool); i++)
            found |= is_old(pool->free[(pool->free_first + i) % GPUD_RING_SLOTS_MAX], lent);
        if (found && pool->free_count > (patient ? 1 : 0))
            slot = gpud_pool_take_old(pool, lent);
        if (found && !slot && pool->refusal.status != GPUD_OK)
            status = gpud_pool_explain(pool, error);
        else if (found && !slot)
            status = gpud_fail(
                error, GPUD_AGAIN,
                "all slots but one are in use, and must be cleared before it may see them");
        gpud_sender_unlock(sender);
        if (!slot)
            return status;
        struct gpud_frame *frame = &slot->frame;
        frame->info.flags = 0; /* it may have been read-only before */
        frame->info.bytes = 0;
        status = gpud_frame_map(frame, GPUD_WRITE, GPUD_SEC, &data, error);
        if (status == GPUD_OK) {
            memset(data, 0, frame->info.layout.size);
            gpud_frame_unmap(frame);
            status = gpud_frame_check(frame, error);
            if (status == GPUD_OK)
                slot->written = 0;
            frame->write_error.status = GPUD_OK;
        }
        gpud_slot_drop(slot);
        if (status != GPUD_OK)
            return status == GPUD_TIMEOUT ? GPUD_AGAIN : status;
    }
}

enum gpud_status gpud_room_offer(struct gpud_link *link, const struct gpud_route_ops *route,
                                 struct gpud_pool **own, struct gpud_offer *offer,
                                 struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_pool *pool;
    gpud_sender_lock(sender);
    enum gpud_status status = gpud_sender_get_pool(sender, route->ring, &pool, error);
    if (status == GPUD_OK) {
        gpud_pool_ref(*own = pool);
        link->slots = choose_share(link, pool);
    }
    gpud_sender_unlock(sender);
    if (status != GPUD_OK)
        return status;
    status = grow(link, pool, error);
    if (status != GPUD_OK &&
        link->slots > pool->share) { /* the receiver does not get its larger share */
        gpud_sender_lock(sender);
        link->slots = pool->share;
        gpud_sender_unlock(sender);
        status = grow(link, pool, error);
    }
    if (status == GPUD_OK)
        status = open_room(sender, pool, error);
    if (status != GPUD_OK)
        return status;
    offer->slots = link->slots;
    gpud_sender_lock(sender);
    uint32_t most = limit_share(link, pool, GPUD_SLOTS_MAX);
    gpud_sender_unlock(sender);
    offer->slots_max = most > link->slots ? most : link->slots;
    if (route->network)
        return GPUD_OK;
    if (!link->streamed)
        status = room_clear(link, pool, error);
    if (status == GPUD_OK &&
        pool_describe(pool, 0, goes_by_pointer(link, pool), &offer->ring, error) != GPUD_OK)
        status = GPUD_AGAIN;
    return status;
}

/* --- shrinking ------------------------------------------------------------------------------ */

/* How many memories are not needed. Under the lock. */
static uint32_t count_spare(const struct gpud_sender *sender, const struct gpud_pool *pool)
{
    uint32_t slots = pool->share + count_shares(sender, pool, NULL);
    uint32_t needed = (slots + pool->ring.slots_per_memory - 1) / pool->ring.slots_per_memory;
    return pool->ring.memories > needed ? pool->ring.memories - needed : 0;
}

/* Drops a pool that no receiver maps; a smaller one is created when needed. Slots that the
 * application holds stay valid. */
static void drop_pool(struct gpud_sender *sender, struct gpud_pool **own)
{
    gpud_sender_lock(sender);
    struct gpud_pool *pool = *own;
    bool unused = pool && count_shares(sender, pool, NULL) == 0;
    if (unused) {
        gpud_sender_poll_disarm(sender); /* there will be another pool to watch */
        gpud_event_raise(sender->loop.event);
        *own = NULL;
        gpud_pool_wake(pool);
    }
    gpud_sender_unlock(sender);
    if (unused)
        gpud_pool_unref(&pool);
}

/* Whether each receiver that maps the pool can unmap memory at once. A device may read on after a
 * frame was given back, a network card has the memory registered, and a receiver in its handshake
 * may have refused the ring. */
static bool can_take_back(const struct gpud_sender *sender, const struct gpud_pool *pool)
{
    if (!(pool->device->caps & GPUD_CAP_SYNCHRONOUS) || pool->viewer || pool->dmabufs)
        return false;
    for (uint32_t i = 0; i < sender->link_count; i++) {
        const struct gpud_link *link = sender->links[i];
        if (maps(link, pool) && link->state != GPUD_LINK_LEAVING && !gpud_link_is_ready(link))
            return false;
        if (maps(link, pool) && (!link->transport->route->shrinks ||
                                 strcmp(link->peer.kind, gpud_device_kind(pool->device)) != 0))
            return false;
    }
    return true;
}

/* Stops lending slots of spare memories; when all of them are back, receivers unmap the memories
 * and the sender frees them. */
static void room_take_back(struct gpud_sender *sender, struct gpud_pool *pool)
{
    gpud_sender_lock(sender);
    uint32_t spare = room_is_current(sender, pool) ? count_spare(sender, pool) : 0;
    uint32_t count = pool->ring.memories;
    if (spare)
        count = gpud_pool_close(pool, count - spare);
    bool some = count < pool->ring.memories;
    gpud_sender_unlock(sender);
    if (!some)
        return;
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        struct gpud_message message = {.type = GPUD_MESSAGE_SHRINK, .shrink = count};
        struct gpud_error error;
        if (!maps(link, pool) || link->state == GPUD_LINK_LEAVING ||
            link->transport->known_memories <= count)
            continue;
        enum gpud_status status = room_tell(link, &message, &error);
        GPUD_STOP_POINT("sender: SHRINK sent");
        if (status != GPUD_OK)
            return; /* the next turn tries again */
        link->transport->known_memories = count;
    }
    while (pool->ring.memories > count) {
        gpud_sender_lock(sender);
        uint32_t last = --pool->ring.memories;
        struct gpud_pool_part part = pool->parts[last];
        pool->parts[last] = (struct gpud_pool_part){.memory = NULL};
        pool->ring.memory[last] = NULL;
        gpud_sender_unlock(sender);
        pool_discard_part(&part);
    }
}

/* One spare memory is kept for the next receiver, unless its slots are closed already because a
 * held frame has delayed a shrink. Under the lock. */
static bool has_spare(const struct gpud_sender *sender, const struct gpud_pool *pool)
{
    uint32_t spare = count_spare(sender, pool);
    return spare > 1 || (spare && pool->opened < pool->ring.memories);
}

void gpud_room_shrink(struct gpud_sender *sender, int64_t now)
{
    gpud_sender_lock(sender);
    struct gpud_pool *pool = sender->device_pool, *host = sender->host_pool;
    if (host == pool)
        host = NULL;
    bool spare = (pool && has_spare(sender, pool)) || (host && has_spare(sender, host));
    if (!spare)
        sender->spare_since = 0;
    else if (!sender->spare_since)
        sender->spare_since = now;
    bool due = spare && now - sender->spare_since >= SHRINK_PATIENCE;
    bool takes_back =
        due && pool && count_shares(sender, pool, NULL) && can_take_back(sender, pool);
    if (takes_back)
        gpud_pool_ref(pool);
    gpud_sender_unlock(sender);
    if (!due)
        return;
    drop_pool(sender, &sender->host_pool);
    if (takes_back) {
        room_take_back(sender, pool);
        gpud_pool_unref(&pool);
    } else {
        drop_pool(sender, &sender->device_pool);
    }
}
