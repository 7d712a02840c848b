/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Room in the sender's ring: a share for the sender and one for each receiver that maps it. The
 * ring grows by a memory at a time when a receiver joins or asks for a larger share, is cleared for
 * a new one, and shrinks some seconds after receivers have left. In the listener's thread, without
 * the lock, which it takes for state that application threads use. */
#include "stream/sender/room.h"

#include "base/stop.h"
#include "stream/sender/delivery.h"
#include "stream/sender/poll.h"

#include <string.h>

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

static bool maps(const struct gpud_link *link, const struct gpud_pool *pool)
{
    return link->state != GPUD_LINK_DEAD && link->transport && link->transport->pool == pool;
}

/* Whether a link that used the previous epoch's pool will map this one. Under the lock. */
static bool will_map(const struct gpud_link *link, const struct gpud_pool *pool)
{
    const struct gpud_sender *sender = link->sender;
    if (!gpud_link_takes_frames(link) || !link->transport || !link->transport->pool)
        return false;
    bool staged = link->transport->on_host && sender->host != sender->device;
    return pool == (staged ? sender->host_pool : sender->device_pool);
}

static bool is_current(const struct gpud_sender *sender, const struct gpud_pool *pool)
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
        if (link != besides && maps(link, pool))
            count += share_of(link, pool);
        else if (link != besides && will_map(link, pool))
            count += pool->share;
    }
    return count;
}

/* Tells a link that the ring grows or shrinks. A peer that leaves no room for it in its connection
 * would keep new receivers out, and the ring large, so its link ends. */
static enum gpud_status tell(struct gpud_link *link, struct gpud_message *message,
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

/* --- shares --------------------------------------------------------------------------------- */

/* The memories that a link has beyond its share of a pool. */
static uint32_t count_extra(const struct gpud_link *link, const struct gpud_pool *pool)
{
    uint32_t a_memory = pool->ring.slots_per_memory;
    return (share_of(link, pool) - pool->share + a_memory - 1) / a_memory;
}

/* How many slots of the pool a link may have if it asks for so many. A ring of one slot a memory
 * has no memories to spare, and a ring between hosts is the receiver's. Under the lock. */
static uint32_t limit_share(const struct gpud_link *link, const struct gpud_pool *pool,
                            uint32_t asked)
{
    const struct gpud_sender *sender = link->sender;
    uint64_t bytes = pool->ring.slot_size * pool->ring.slots_per_memory;
    uint64_t most = EXTRA_MEMORIES, own = EXTRA_BYTES_A_LINK / bytes, all = EXTRA_BYTES / bytes;
    if (asked <= pool->share)
        return asked;
    if (pool->ring.slots_per_memory < pool->share || link->channel->ops->remote)
        return pool->share;
    most = all < most ? all : most;
    for (uint32_t i = 0; i < sender->link_count; i++) {
        const struct gpud_link *other = sender->links[i];
        uint32_t extra = other != link && maps(other, pool) ? count_extra(other, pool) : 0;
        most -= extra < most ? extra : most;
    }
    most = own < most ? own : most;
    uint64_t slots = pool->share + most * pool->ring.slots_per_memory;
    return slots < asked ? (uint32_t)slots : asked;
}

/* Without a wish for more, both ends' settings count. */
static uint32_t choose_share(const struct gpud_link *link, const struct gpud_pool *pool)
{
    uint32_t wanted = link->peer.slots ? link->peer.slots : pool->share;
    uint32_t usual = wanted < pool->share ? wanted : pool->share;
    return link->slots_asked > usual ? limit_share(link, pool, link->slots_asked) : usual;
}

uint32_t gpud_room_most(const struct gpud_link *link, const struct gpud_pool *pool)
{
    gpud_sender_lock(link->sender);
    uint32_t most = limit_share(link, pool, GPUD_SLOTS_MAX);
    gpud_sender_unlock(link->sender);
    return most > link->slots ? most : link->slots;
}

/* --- growing -------------------------------------------------------------------------------- */

/* The pool needs the sender's own slots and a share for each receiver that maps it, this one
 * included, which a slow one can hold without hurting others. A past epoch's pool needs nothing.
 * Under the lock. */
static bool is_too_small(const struct gpud_link *link, const struct gpud_pool *pool)
{
    const struct gpud_sender *sender = link->sender;
    uint32_t needed = pool->share + share_of(link, pool) + count_shares(sender, pool, link);
    return is_current(sender, pool) && gpud_ring_slots(&pool->ring) < needed;
}

/* Grows the pool until it has room for this link. */
static enum gpud_status grow(struct gpud_link *link, struct gpud_pool *pool,
                             struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    for (;;) {
        struct gpud_pool_part part;
        gpud_sender_lock(sender);
        bool grows = is_too_small(link, pool);
        gpud_sender_unlock(sender);
        if (!grows)
            return GPUD_OK;
        enum gpud_status status = gpud_pool_make_part(pool, &part, error);
        if (status != GPUD_OK)
            return status;
        gpud_sender_lock(sender);
        status = gpud_pool_add_part(pool, &part, error);
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

/* Sends a receiver the memories that it does not know yet. Between hosts it maps none, and the
 * memories are registered with its card instead. */
static enum gpud_status tell_growth(struct gpud_link *link, struct gpud_error *error)
{
    struct gpud_transport *transport = link->transport;
    struct gpud_pool *pool = transport->pool;
    struct gpud_message message = {.type = GPUD_MESSAGE_GROW};
    if (transport->known_memories == pool->ring.memories)
        return GPUD_OK;
    if (transport->remote)
        return gpud_link_register_sources(link, error);
    enum gpud_status status =
        gpud_pool_describe(pool, transport->known_memories, gpud_link_goes_by_pointer(link, pool),
                           &message.grow, error);
    if (status != GPUD_OK)
        return status;
    status = tell(link, &message, error);
    GPUD_STOP_POINT("sender: GROW sent");
    if (status == GPUD_OK)
        transport->known_memories = pool->ring.memories;
    return status;
}

/* Opens the new slots once every link knows them. If one cannot be notified now, the new receiver
 * waits, so that a streaming link never suffers. */
static enum gpud_status open_room(struct gpud_sender *sender, struct gpud_pool *pool,
                                  struct gpud_error *error)
{
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        if (maps(link, pool) && link->state != GPUD_LINK_LEAVING &&
            tell_growth(link, error) != GPUD_OK)
            return GPUD_AGAIN;
    }
    gpud_sender_lock(sender);
    gpud_pool_open(pool);
    gpud_sender_unlock(sender);
    return GPUD_OK;
}

static void set_share(struct gpud_link *link, uint32_t slots)
{
    gpud_sender_lock(link->sender);
    link->slots = slots;
    gpud_sender_unlock(link->sender);
}

enum gpud_status gpud_room_make(struct gpud_link *link, struct gpud_pool *pool,
                                struct gpud_error *error)
{
    gpud_sender_lock(link->sender);
    link->slots = choose_share(link, pool);
    gpud_sender_unlock(link->sender);
    enum gpud_status status = grow(link, pool, error);
    if (status != GPUD_OK && link->slots > pool->share) { /* it does without more */
        set_share(link, pool->share);
        status = grow(link, pool, error);
    }
    return status == GPUD_OK ? open_room(link->sender, pool, error) : status;
}

/* Whether the link's share is still to be raised. Under the lock. */
static bool is_raised(const struct gpud_link *link, const struct gpud_pool *pool, uint32_t *slots)
{
    *slots = choose_share(link, pool);
    return *slots > link->slots && is_current(link->sender, pool);
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
                     link->epoch == sender->epoch && link->transport->pool;
    struct gpud_pool *pool = connected ? link->transport->pool : NULL;
    uint32_t before = link->slots;
    bool raise = pool && is_raised(link, pool, &message.slots);
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

/* --- clearing ------------------------------------------------------------------------------- */

/* Clears one slot at a time, so that the application misses at most one and never its last. Slots
 * of a past epoch's pool are left alone: they come back while receivers still read them. */
enum gpud_status gpud_room_clear(struct gpud_link *link, struct gpud_pool *pool,
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
        gpud_sender_lock(sender);
        bool found = is_current(sender, pool) && gpud_pool_has_old(pool, lent);
        if (found && gpud_pool_count_free(pool) > (patient ? 1 : 0))
            slot = gpud_pool_take_old(pool, lent);
        enum gpud_status status = GPUD_OK;
        if (found && !slot && pool->refusal.status != GPUD_OK)
            status = gpud_pool_explain(pool, error);
        else if (found && !slot)
            status = gpud_fail(
                error, GPUD_AGAIN,
                "all slots but one are in use, and must be cleared before it may see them");
        gpud_sender_unlock(sender);
        if (!slot)
            return status;
        status = gpud_slot_clear(slot, error);
        gpud_slot_drop(slot);
        if (status != GPUD_OK)
            return status == GPUD_TIMEOUT ? GPUD_AGAIN : status;
    }
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

/* Makes a receiver unmap all but the first `count` memories. */
static bool tell_shrink(struct gpud_link *link, uint32_t count)
{
    struct gpud_error error;
    struct gpud_message message = {.type = GPUD_MESSAGE_SHRINK, .shrink = count};
    if (link->transport->known_memories <= count)
        return true;
    bool sent = tell(link, &message, &error) == GPUD_OK;
    GPUD_STOP_POINT("sender: SHRINK sent");
    if (sent)
        link->transport->known_memories = count;
    return sent;
}

/* Stops lending slots of spare memories; when all of them are back, receivers unmap the memories
 * and the sender frees them. */
static void take_back(struct gpud_sender *sender, struct gpud_pool *pool)
{
    gpud_sender_lock(sender);
    uint32_t spare = is_current(sender, pool) ? count_spare(sender, pool) : 0;
    if (spare)
        gpud_pool_close(pool, pool->ring.memories - spare);
    uint32_t count = gpud_pool_count_needed(pool);
    gpud_sender_unlock(sender);
    if (!spare || count == pool->ring.memories)
        return;
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        if (maps(link, pool) && link->state != GPUD_LINK_LEAVING && !tell_shrink(link, count))
            return; /* the next turn tries again */
    }
    while (pool->ring.memories > count) {
        struct gpud_pool_part part;
        gpud_sender_lock(sender);
        gpud_pool_remove_last(pool, &part);
        gpud_sender_unlock(sender);
        gpud_pool_discard_part(&part);
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
        take_back(sender, pool);
        gpud_pool_unref(&pool);
    } else {
        drop_pool(sender, &sender->device_pool);
    }
}
