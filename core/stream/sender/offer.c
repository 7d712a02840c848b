/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which route a receiver is offered, and the room in the sender's ring that it gets with it. */
#include "base/stop.h"
#include "stream/sender/sender.h"

#include <inttypes.h>
#include <string.h>

#define AREA "sender"
#define OFFER_PAUSE (20 * GPUD_MSEC)

static const struct gpud_log *log_of(const struct gpud_link *link)
{
    return &link->sender->context->log;
}

bool gpud_link_is_same_process(const struct gpud_link *link)
{
    return link->peer.token == link->sender->context->token;
}

/* Whether the ring can go by pointer. Another driver has to import it, in one process too. */
static bool goes_by_pointer(const struct gpud_link *link, const struct gpud_route_ops *route)
{
    return gpud_link_is_same_process(link) &&
           (route->ring == GPUD_RING_SENDER_HOST ||
            strcmp(link->peer.kind, gpud_device_kind(link->sender->device)) == 0);
}

void gpud_link_describe(const struct gpud_link *link, struct gpud_endpoint *endpoint)
{
    const struct gpud_sender *sender = link->sender;
    const struct gpud_remote_ops *remote = link->channel->ops->remote;
    gpud_endpoint_describe(endpoint, sender->device, sender->name);
    if (remote)
        remote->describe(link->channel, sender->device, &endpoint->network);
    gpud_print(endpoint->route, "%s", sender->route);
    endpoint->slots = sender->slots;
    endpoint->slow_receiver = (uint8_t)sender->slow_receiver;
    endpoint->require_direct = sender->require_direct;
}

/* --- room in the ring ---------------------------------------------------------------------- */

/* Tells a receiver of the memories that it does not know yet. */
static enum gpud_status tell_growth(struct gpud_link *link, struct gpud_error *error)
{
    struct gpud_transport *transport = link->transport;
    struct gpud_pool *pool = transport->pool;
    struct gpud_message message = {.type = GPUD_MESSAGE_GROW};
    if (transport->known_memories == pool->ring.memories)
        return GPUD_OK;
    if (transport->route->network) /* it maps none of them; see register_sources() */
        return transport->remote && transport->page.page
                   ? gpud_fail(error, GPUD_AGAIN, "a memory of the ring is not registered yet")
                   : GPUD_OK;
    enum gpud_status status =
        gpud_pool_describe(pool, transport->known_memories, goes_by_pointer(link, transport->route),
                           &message.grow, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_link_try_send(link, &message, error);
    GPUD_STOP_POINT("sender: GROW sent");
    if (status == GPUD_OK)
        transport->known_memories = pool->ring.memories;
    return status;
}

static bool maps(const struct gpud_link *link, const struct gpud_pool *pool)
{
    return link->transport && link->transport->pool == pool;
}

/* Whether a link that streamed by a pool of the epoch before will map this one in its turn. */
static bool will_map(const struct gpud_link *link, const struct gpud_pool *pool)
{
    const struct gpud_sender *sender = link->sender;
    if (!gpud_link_takes_frames(link) || !link->transport || !link->transport->pool)
        return false;
    bool staged = link->transport->route->ring == GPUD_RING_SENDER_HOST;
    return pool ==
           (staged && sender->host != sender->device ? sender->host_pool : sender->device_pool);
}

/* Room for the sender's own slots and those of each receiver that maps the pool, the new one
 * included: a slow one can hold its share, and no more. */
static bool is_too_small(const struct gpud_link *newcomer, const struct gpud_pool *pool)
{
    const struct gpud_sender *sender = newcomer->sender;
    uint32_t shares = 2;
    for (uint32_t i = 0; i < sender->link_count; i++) {
        const struct gpud_link *link = sender->links[i];
        if (link != newcomer && (maps(link, pool) || will_map(link, pool)))
            shares++;
    }
    return gpud_ring_slots(&pool->ring) < shares * pool->share;
}

static bool is_current(const struct gpud_sender *sender, const struct gpud_pool *pool)
{
    return sender->device_pool == pool || sender->host_pool == pool;
}

/* The pool grows as far as this link needs it. Memory takes its time: the lock is dropped while
 * some is made, and others may make what is missing meanwhile. */
static enum gpud_status grow(struct gpud_link *link, struct gpud_pool *pool,
                             struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    enum gpud_status status = GPUD_OK;
    while (status == GPUD_OK && is_current(sender, pool) && is_too_small(link, pool)) {
        struct gpud_pool_part part;
        gpud_sender_unlock(sender);
        status = gpud_pool_make_part(pool, &part, error);
        gpud_sender_lock(sender);
        if (status == GPUD_OK && is_current(sender, pool) && is_too_small(link, pool))
            status = gpud_pool_add_part(pool, &part, error);
        else if (status == GPUD_OK)
            gpud_pool_discard_part(&part);
    }
    return status;
}

/* A card that writes from the pool's slots gets at those that are new. Pinning takes its time: the
 * lock is dropped meanwhile. */
static enum gpud_status register_sources(struct gpud_link *link, struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_transport *transport = link->transport;
    enum gpud_status status = GPUD_OK;
    if (!transport || !transport->remote || !transport->page.page)
        return GPUD_OK;
    transport->references++;
    while (status == GPUD_OK && transport->known_memories < transport->pool->ring.memories) {
        struct gpud_memory *memory = transport->pool->ring.memory[transport->known_memories];
        gpud_sender_unlock(sender);
        status = transport->remote->ops->add_source(transport->remote, memory, error);
        gpud_sender_lock(sender);
        if (status == GPUD_OK)
            transport->known_memories++;
    }
    gpud_transport_unref(&transport);
    return status;
}

enum gpud_status gpud_link_register_sources(struct gpud_link *link, struct gpud_error *error)
{
    link->references++;
    enum gpud_status status = register_sources(link, error);
    gpud_link_unref(link);
    return status;
}

/* The same for everybody who uses the pool. */
static enum gpud_status register_growth(struct gpud_sender *sender, const struct gpud_pool *pool,
                                        struct gpud_error *error)
{
    struct gpud_link *links[GPUD_RECEIVERS_MAX];
    uint32_t count = 0;
    enum gpud_status status = GPUD_OK;
    for (uint32_t i = 0; i < sender->link_count; i++)
        if (maps(sender->links[i], pool)) {
            links[count++] = sender->links[i];
            sender->links[i]->references++;
        }
    for (uint32_t i = 0; i < count; i++) {
        if (status == GPUD_OK && links[i]->state != GPUD_LINK_DEAD)
            status = register_sources(links[i], error);
        gpud_link_unref(links[i]);
    }
    return status == GPUD_OK ? GPUD_OK : GPUD_AGAIN; /* who joins waits for those who stream */
}

/* No slot is used before everybody knows of it; where somebody cannot be told now, the new one
 * waits: a link that streams is never the one that pays. */
static enum gpud_status open_room(struct gpud_sender *sender, struct gpud_pool *pool,
                                  struct gpud_error *error)
{
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        if (maps(link, pool) && link->state != GPUD_LINK_LEAVING &&
            tell_growth(link, error) != GPUD_OK)
            return GPUD_AGAIN;
    }
    gpud_pool_open(pool);
    return GPUD_OK;
}

/* A slot at a time, so that nobody misses more than one; and each taken under the lock, while the
 * pool is the sender's: once its epoch is over, slots come back that receivers still read. */
static enum gpud_status clear_pool(struct gpud_sender *sender, struct gpud_pool *pool,
                                   struct gpud_error *error)
{
    struct gpud_pool *kept = pool;
    struct gpud_slot *slot;
    enum gpud_status status = GPUD_OK;
    gpud_pool_ref(kept);
    uint64_t lent = kept->lent;
    while (status == GPUD_OK && is_current(sender, kept) &&
           (slot = gpud_pool_take_old(kept, lent))) {
        gpud_sender_unlock(sender);
        status = gpud_slot_clear(slot, error);
        gpud_slot_drop(slot);
        gpud_sender_lock(sender);
    }
    gpud_pool_unref(&kept);
    return status;
}

enum gpud_status gpud_link_clear_ring(struct gpud_link *link, struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    const struct gpud_route_ops *route = gpud_link_choose_route(link);
    enum gpud_status status = GPUD_OK;
    if (!route || gpud_ring_is_receivers(route->ring) || route->network)
        return GPUD_OK;
    if (sender->device_pool)
        status = clear_pool(sender, sender->device_pool, error);
    if (status == GPUD_OK && sender->host_pool)
        status = clear_pool(sender, sender->host_pool, error);
    return status;
}

/* --- the offer ----------------------------------------------------------------------------- */

/* The ring of a route that shares the sender's, with room for this link; a reference. The lock is
 * dropped meanwhile. */
static enum gpud_status prepare_pool(struct gpud_link *link, const struct gpud_route_ops *route,
                                     struct gpud_pool **pool, struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_pool *shared;
    enum gpud_status status = gpud_sender_get_pool(sender, route->ring, &shared, error);
    if (status != GPUD_OK)
        return status;
    gpud_pool_ref(shared);
    status = grow(link, shared, error);
    if (status == GPUD_OK)
        status = register_growth(sender, shared, error);
    if (status != GPUD_OK)
        gpud_pool_unref(&shared);
    else
        *pool = shared;
    return status;
}

/* What an offer needs that is made without the lock. */
struct preparation {
    struct gpud_pool *pool;     /* NULL where the ring is the receiver's */
    struct gpud_remote *remote; /* NULL where the ends share memory */
    struct gpud_handle page;    /* the remote's */
};

/* The lock is dropped meanwhile. */
static enum gpud_status prepare(struct gpud_link *link, const struct gpud_route_ops *route,
                                struct preparation *made, struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    enum gpud_status status = GPUD_OK;
    if (!gpud_ring_is_receivers(route->ring))
        status = prepare_pool(link, route, &made->pool, error);
    if (status != GPUD_OK || !route->network)
        return status;
    gpud_sender_unlock(sender);
    status = link->channel->ops->remote->create(link->channel, &made->remote, &made->page, error);
    gpud_sender_lock(sender);
    return status;
}

static void discard(struct gpud_sender *sender, struct preparation *unused)
{
    gpud_pool_unref(&unused->pool);
    if (!unused->remote)
        return;
    gpud_sender_unlock(sender);
    unused->remote->ops->destroy(unused->remote);
    gpud_sender_lock(sender);
}

/* Sends an OFFER for one route. The old epoch's transport, if there is one, ends with it: what was
 * published there stays the receiver's to read. GPUD_AGAIN: not now. */
static enum gpud_status send_offer(struct gpud_link *link, const struct gpud_route_ops *route,
                                   struct preparation *prepared, struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_transport *transport, *old = link->transport;
    struct gpud_pool *pool = prepared->pool;
    struct gpud_message message = {.type = GPUD_MESSAGE_OFFER};
    enum gpud_status status;
    message.offer.page = prepared->page;
    if (pool) {
        status = open_room(sender, pool, error);
        if (status != GPUD_OK)
            return status;
        if (!route->network && gpud_pool_describe(pool, 0, goes_by_pointer(link, route),
                                                  &message.offer.ring, error) != GPUD_OK)
            return GPUD_AGAIN;
    }
    struct gpud_endpoint self;
    gpud_link_describe(link, &self);
    message.offer.signal = gpud_route_signal(route, &self, &link->peer);
    status = gpud_transport_create(route, (enum gpud_signal_place)message.offer.signal, pool,
                                   &sender->retired, &transport, error);
    if (status != GPUD_OK)
        return status;
    message.offer.epoch = sender->epoch;
    message.offer.layout = sender->layout;
    message.offer.media_size = (uint32_t)sender->media_size;
    memcpy(message.offer.media, sender->media, sender->media_size);
    gpud_print(message.offer.route, "%s", route->name);
    gpud_print(message.offer.reason, "%s", link->fallback_reason);
    status = gpud_link_try_send(link, &message, error);
    GPUD_STOP_POINT(link->streamed ? "sender: new epoch's OFFER sent" : "sender: OFFER sent");
    if (status != GPUD_OK) {
        gpud_transport_unref(&transport);
        return status == GPUD_INVALID ? status : GPUD_AGAIN; /* what cannot be said never can */
    }
    transport->remote = prepared->remote;
    prepared->remote = NULL;
    link->transport = transport;
    gpud_transport_unref(&old);
    link->state = GPUD_LINK_OFFERED;
    link->epoch = sender->epoch;
    link->waiting.is_armed = false;
    link->offer_by = 0;
    /* A receiver that is paused in mid-stream answers when it goes on; a new one has no reason to
     * wait. */
    link->deadline = link->streamed ? INT64_MAX : gpud_deadline(GPUD_IMPORT_DEADLINE);
    gpud_waiting_advance(link); /* what is held for this epoch */
    return GPUD_OK;
}

/* GPUD_CLOSED: while the lock was dropped the link ended, or the next offer to it began, or is
 * about to because of a new epoch. */
static enum gpud_status offer_route(struct gpud_link *link, const struct gpud_route_ops *route,
                                    struct gpud_error *error)
{
    struct preparation prepared = {.page.fd = -1};
    uint32_t offer = ++link->offers, epoch = link->sender->epoch;
    enum gpud_status status = prepare(link, route, &prepared, error);
    if (link->offers != offer || link->sender->epoch != epoch || link->state >= GPUD_LINK_LEAVING)
        status = GPUD_CLOSED;
    if (status == GPUD_OK)
        status = send_offer(link, route, &prepared, error);
    discard(link->sender, &prepared);
    if (link->offers != offer || link->sender->epoch != epoch || link->state >= GPUD_LINK_LEAVING)
        status = GPUD_CLOSED;
    return status;
}

/* The device whose queues read what the link shares of the device's pool; NULL: it shares nothing.
 */
static const struct gpud_device *reader_of(const struct gpud_link *link)
{
    const struct gpud_transport *transport = link->transport;
    if (!transport || !transport->pool || transport->pool != link->sender->device_pool)
        return NULL;
    return transport->route->moves ? link->there : link->sender->device;
}

/* A slot goes to one device and home again. Who else would read it there, or on a third one, gets
 * its frames by another route. */
static void forbid_ping_pong(struct gpud_link *link)
{
    const struct gpud_sender *sender = link->sender;
    for (uint32_t i = 0; i < sender->link_count && sender->device->common; i++) {
        const struct gpud_device *reader = reader_of(sender->links[i]);
        char why[GPUD_REASON_MAX];
        if (sender->links[i] == link || sender->links[i]->state == GPUD_LINK_DEAD || !reader)
            continue;
        gpud_print(why,
                   "the slots go to %s for another receiver, and are not moved to and fro between "
                   "several devices: a sender of its own would serve this one",
                   reader->info.name);
        if (reader != sender->device)
            gpud_route_failed(&link->trials, &gpud_map_route, why);
        if (reader != link->there)
            gpud_route_failed(&link->trials, &gpud_migrate_route, why);
    }
}

const struct gpud_route_ops *gpud_link_choose_route(struct gpud_link *link)
{
    forbid_ping_pong(link);
    struct gpud_endpoint self;
    gpud_link_describe(link, &self);
    /* Host memory is shared for reading alone; a GPU's knows no such thing. */
    if (link->channel->peer.foreign && !(self.caps & GPUD_CAP_HOST))
        gpud_route_failed(&link->trials, &gpud_map_route,
                          "who maps a GPU's memory can write it, and the receiver belongs to "
                          "another user");
    return gpud_route_select(&self, &link->peer, &link->trials, link->fallback_reason);
}

static void offer_later(struct gpud_link *link, const char *reason)
{
    int64_t now = gpud_now();
    if (!link->offer_by) {
        gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 " has to wait: %s", link->id, reason);
        link->offer_by = now + GPUD_IMPORT_DEADLINE;
    }
    if (now >= link->offer_by) {
        gpud_link_refuse(link, GPUD_AGAIN, reason);
        return;
    }
    link->state = GPUD_LINK_IDLE;
    link->deadline = now + OFFER_PAUSE;
    gpud_sender_wake_listener(link->sender); /* it knows of no such deadline yet */
}

static void offer(struct gpud_link *link)
{
    for (;;) {
        const struct gpud_route_ops *route = gpud_link_choose_route(link);
        if (!route) {
            gpud_link_refuse(link, GPUD_UNSUPPORTED, link->fallback_reason);
            return;
        }
        struct gpud_error error = {0};
        enum gpud_status status = offer_route(link, route, &error);
        if (status == GPUD_AGAIN)
            offer_later(link, error.reason);
        if (status == GPUD_OK || status == GPUD_AGAIN || status == GPUD_CLOSED)
            return;
        gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 ": no %s: %s", link->id, route->name,
                      error.reason);
        gpud_route_failed(&link->trials, route, error.reason);
    }
}

void gpud_link_offer(struct gpud_link *link)
{
    link->references++;
    offer(link);
    gpud_link_unref(link);
}

void gpud_link_try_next(struct gpud_link *link, const char *reason)
{
    const struct gpud_route_ops *route = link->transport->route;
    gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 ": %s does not work: %s", link->id,
                  route->name, reason);
    gpud_route_failed(&link->trials, route, reason);
    gpud_link_offer(link);
}
