/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One receiver, from its first message to its end: its ring and page in one epoch, its route and
 * its handshake. */
#include "stream/sender/sender.h"

#include "base/base.h"
#include "frame/frame.h"
#include "route/route.h"
#include "stream/shared/shared.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* === transport =============================================================================== */

/* For an OFFER: takes its own reference on the pool (NULL if the receiver owns the ring). */
static enum gpud_status transport_create(const struct gpud_route_ops *route,
                                         enum gpud_signal_place place, struct gpud_pool *pool,
                                         struct gpud_retired *retired,
                                         struct gpud_transport **transport,
                                         struct gpud_error *error)
{
    struct gpud_transport *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a link");
    made->references = 1;
    made->route = route;
    made->on_host = gpud_ring_is_on_host(route->ring);
    made->place = place;
    made->retired = retired;
    if (pool) {
        made->pool = pool;
        made->known_memories = pool->ring.memories;
        gpud_pool_ref(pool);
    }
    *transport = made;
    return GPUD_OK;
}

/* Wakes a receiver that polls the channel. */
static void send_kick(void *arg)
{
    const struct gpud_transport *transport = arg;
    struct gpud_message kick = {.type = GPUD_MESSAGE_KICK};
    gpud_channel_send(transport->channel, &kick, NULL);
}

static enum gpud_status import_ring(const struct gpud_link *link, struct gpud_transport *transport,
                                    const struct gpud_accept *accept, uint64_t frame_size,
                                    struct gpud_error *error)
{
    struct gpud_device *device = link->sender->device;
    struct gpud_ring *ring = &transport->ring;
    struct gpud_queue **queues[] = {&transport->queues.copy, &transport->queues.post,
                                    &transport->queues.wait};
    for (int i = 0; i < 3 && transport->place == GPUD_SIGNAL_PAGE; i++) {
        enum gpud_status made = gpud_queue_create(device, queues[i], error);
        if (made != GPUD_OK)
            return made;
    }
    gpud_ring_init(ring, transport->on_host ? link->sender->host : device, GPUD_USAGE_TARGET,
                   frame_size, 1);
    /* Pinning allocates host pages, so no more are accepted than frames need. */
    if (transport->on_host &&
        (accept->ring.memories != 1 || accept->ring.slot_size != ring->slot_size ||
         accept->ring.slots_per_memory != accept->entries))
        return gpud_fail(error, GPUD_PEER,
                         "the receiver offers %u memories of %u slots of %llu bytes, where one of "
                         "%u slots of %llu bytes is needed",
                         accept->ring.memories, accept->ring.slots_per_memory,
                         (unsigned long long)accept->ring.slot_size, accept->entries,
                         (unsigned long long)ring->slot_size);
    enum gpud_status status =
        gpud_ring_import(ring, &accept->ring, gpud_link_is_same_process(link), frame_size, error);
    if (status != GPUD_OK)
        return status;
    if (gpud_ring_slots(ring) < accept->entries ||
        (transport->route->memory_per_slot && ring->slots_per_memory != 1))
        return gpud_fail(error, GPUD_PEER, "the receiver offers %u entries and %u slots",
                         accept->entries, gpud_ring_slots(ring));
    status = gpud_ring_view(ring, device, 0, transport->views, error);
    if (status != GPUD_OK)
        return status;
    for (uint32_t i = 0; transport->place == GPUD_SIGNAL_MEMORY && i < accept->entries; i++) {
        status = gpud_signal_import(ring->memory[i], 0, &transport->signal[i], error);
        if (status != GPUD_OK)
            return status;
    }
    return GPUD_OK;
}

/* Opens the receiver's page. */
static enum gpud_status open_page(struct gpud_transport *transport, uint32_t credits,
                                  struct gpud_remote *remote, const struct gpud_accept *accept,
                                  struct gpud_error *error)
{
    void *mapped = NULL;
    enum gpud_status status;
    if (remote) {
        status = remote->ops->attach(remote, &accept->page, error);
    } else if (accept->page.type != GPUD_HANDLE_MEMFD) {
        return gpud_fail(error, GPUD_PEER, "the receiver's ring page is not shared memory");
    } else {
        status = gpud_memfd_map(accept->page.fd, sizeof(struct gpud_page), true, &mapped, error);
        if (status != GPUD_OK && gpud_page_check_version(accept->page.fd, error) == GPUD_PEER)
            status = GPUD_PEER;
    }
    if (status != GPUD_OK)
        return status;
    /* A pool has a share for each receiver: more credits would use others' slots. */
    status = gpud_page_tx_init(
        &transport->page, remote ? remote->page : mapped, remote, accept->entries,
        gpud_transport_shares_slots(transport) ? credits : accept->entries, error);
    if (status != GPUD_OK)
        gpud_memory_unmap_pages(mapped, sizeof(struct gpud_page));
    return status;
}

/* Maps the receiver's memory for large metas, or makes memory to write them from. */
static enum gpud_status open_metas(struct gpud_transport *transport, struct gpud_remote *remote,
                                   const struct gpud_accept *accept, uint32_t large_meta_max,
                                   struct gpud_error *error)
{
    struct gpud_handle handle = accept->large_metas;
    if (handle.type == GPUD_HANDLE_NONE)
        return GPUD_OK;
    transport->meta_room = gpud_large_meta_room(large_meta_max);
    transport->metas_size = transport->page.offered * transport->meta_room;
    if (remote)
        return remote->ops->share_metas(remote, transport->metas_size, &handle, &transport->metas,
                                        error);
    if (handle.type != GPUD_HANDLE_MEMFD)
        return gpud_fail(error, GPUD_PEER,
                         "the receiver's memory for large metas is not shared memory");
    return gpud_memfd_map(handle.fd, transport->metas_size, true, &transport->metas, error);
}

static void transport_destroy(struct gpud_transport *gone)
{
    if (gone->remote) /* first, because its card reads the slots */
        gone->remote->ops->destroy(gone->remote);
    for (uint32_t i = 0; i < GPUD_PAGE_ENTRIES; i++) {
        gpud_signal_destroy(&gone->signal[i]);
        if (gone->slot_of[i])
            gpud_slot_drop(gone->slot_of[i]);
    }
    if (!gone->page.end.remote)
        gpud_memory_unmap_pages(gone->metas, gone->metas_size);
    gpud_ring_finish(&gone->ring);
    gpud_queue_unref(&gone->queues.copy);
    gpud_queue_unref(&gone->queues.post);
    gpud_queue_unref(&gone->queues.wait);
    gpud_queue_unref(&gone->queues.own);
    if (gone->watchdog)
        gpud_watchdog_end(&gone->watchdog, NULL, NULL);
    else if (!gone->page.end.remote)
        gpud_memory_unmap_pages(gone->page.page, sizeof(struct gpud_page));
    gpud_pool_unref(&gone->pool);
    free(gone);
}

void gpud_transport_unref(struct gpud_transport **transport)
{
    struct gpud_transport *gone = *transport;
    *transport = NULL;
    if (!gone || --gone->references)
        return;
    if (gone->retired->wake < 0) {
        transport_destroy(gone);
        return;
    }
    gone->next_retired = gone->retired->first;
    gone->retired->first = gone;
    gpud_event_raise(gone->retired->wake);
}

void gpud_retired_destroy(struct gpud_transport *first)
{
    while (first) {
        struct gpud_transport *gone = first;
        first = gone->next_retired;
        transport_destroy(gone);
    }
}

/* Whether the receiver, or its device, still uses frames. */
static bool transport_is_in_use(const struct gpud_transport *transport)
{
    return transport->page.page &&
           (gpud_page_count_out(&transport->page) || transport->releasing_count);
}

/* === link ==================================================================================== */
/* One receiver: sending to it, and its end. Any thread may end a link, under the lock; the
 * listener's thread then logs it, notifies the application and frees the link. */

void gpud_link_unref(struct gpud_link *link)
{
    struct gpud_sender *sender = link->sender;
    if (--link->references)
        return;
    link->next_retired = sender->retired_links;
    sender->retired_links = link;
    gpud_sender_wake_listener(sender);
}

void gpud_links_free(struct gpud_link *first)
{
    while (first) {
        struct gpud_link *gone = first;
        first = gone->next_retired;
        gpud_device_close(&gone->peer_device);
        gpud_channel_unref(&gone->channel);
        gpud_route_trials_destroy(&gone->trials);
        free(gone);
    }
}

enum gpud_status gpud_link_try_send(struct gpud_link *link, struct gpud_message *message,
                                    struct gpud_error *error)
{
    struct gpud_transport *transport = link->transport;
    bool placed = transport && transport->page.page;
    if (placed) /* among the frames */
        message->position = transport->page.head + transport->pending;
    enum gpud_status status = gpud_channel_send(link->channel, message, error);
    if (status == GPUD_PEER)
        return GPUD_OK;
    GPUD_STOP_POINT("sender: message sent, not counted");
    if (status == GPUD_OK && placed) {
        gpud_page_count_message(&transport->page);
        gpud_page_notify(&transport->page.end);
    }
    return status;
}

void gpud_link_send(struct gpud_link *link, struct gpud_message *message)
{
    struct gpud_error error;
    if (gpud_link_try_send(link, message, &error) != GPUD_OK)
        gpud_link_kill(link, GPUD_LOG_WARNING, error.reason);
}

/* --- the end ------------------------------------------------------------------------------- */

void gpud_sender_changed(struct gpud_sender *sender)
{
    atomic_fetch_add(&sender->changes, 1);
    gpud_futex_wake(&sender->changes);
    gpud_event_raise(sender->loop.event);
}

/* Records why the link gets no more frames. */
static void note_end(struct gpud_link *link, enum gpud_log_level level, const char *why)
{
    struct gpud_sender *sender = link->sender;
    if (link->end.is_set)
        return;
    link->end.is_set = true;
    link->end.level = level;
    gpud_print(link->end.why, "%s", why);
    if (link->streamed)
        sender->info.disconnects++;
    else
        atomic_fetch_add(&sender->refused, 1);
}

/* Wakes threads that wait for the link, or for slots that it held. */
static void wake_all(struct gpud_link *link)
{
    struct gpud_sender *sender = link->sender;
    if (link->transport)
        gpud_transport_wake_sender(link->transport);
    gpud_sender_changed(sender);
    if (sender->device_pool)
        gpud_pool_wake(sender->device_pool);
    gpud_sender_wake_listener(sender);
}

void gpud_link_kill(struct gpud_link *link, enum gpud_log_level level, const char *why)
{
    struct gpud_sender *sender = link->sender;
    if (link->state == GPUD_LINK_DEAD)
        return;
    note_end(link, level, why);
    gpud_link_uncount(link, gpud_link_count_untaken(link));
    link->state = GPUD_LINK_DEAD;
    gpud_waiting_clear(link);
    /* A receiver can only read our ring, so taking slots back is safe; it is marked in the page
     * before the connection ends and before a slot is overwritten. Model (tests/model): evict,
     * end.1 in ring.pml. */
    struct gpud_transport *transport = link->transport;
    if (transport && !sender->closing && gpud_transport_shares_slots(transport) &&
        transport_is_in_use(transport))
        gpud_page_take_all_back(&transport->page);
    wake_all(link);
}

/* Handles the receiver's BYE: it gets no more frames. Takes back unclaimed frames; the receiver
 * gives back those that it holds. Model (tests/model): bye.2, bye.3 in ring.pml. */
static void link_leave(struct gpud_link *link, const char *why)
{
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;
    struct gpud_transport *transport = link->transport;
    while (transport && transport->page.page &&
           (status = gpud_transport_revoke(transport, &error)) == GPUD_OK)
        gpud_link_uncount(link, 1);
    if (transport && status == GPUD_AGAIN)
        status = gpud_transport_reap(transport, &error);
    if (status != GPUD_OK || !transport || transport->remote || !transport_is_in_use(transport)) {
        gpud_link_kill(link, GPUD_LOG_INFO, why);
    } else if (link->state != GPUD_LINK_DEAD) {
        note_end(link, GPUD_LOG_INFO, why);
        link->state = GPUD_LINK_LEAVING;
        link->deadline = INT64_MAX;
        gpud_waiting_clear(link);
        wake_all(link);
    }
}

/* === receivers =============================================================================== */
/* Adding and removing receivers. Links that other threads have ended, under the lock, are logged,
 * reported and freed here. */

#define AREA "sender"

static const struct gpud_log *log_of(const struct gpud_link *link)
{
    return &link->sender->context->log;
}

/* --- beginning ----------------------------------------------------------------------------- */

/* Describes this side to the receiver. */
static void link_describe(const struct gpud_link *link, struct gpud_endpoint *endpoint)
{
    const struct gpud_sender *sender = link->sender;
    const struct gpud_remote_ops *remote = link->channel->ops->remote;
    gpud_endpoint_describe(endpoint, sender->device, sender->name);
    if (atomic_load(&sender->has_images))
        endpoint->caps |= GPUD_CAP_IMAGES;
    if (remote)
        remote->describe(link->channel, sender->device, &endpoint->network);
    gpud_print(endpoint->route, "%s", sender->route);
    endpoint->slots = sender->slots;
    endpoint->slow_receiver = (uint8_t)sender->slow_receiver;
    endpoint->require_direct = sender->require_direct;
}

enum gpud_status gpud_link_create(struct gpud_sender *sender, struct gpud_channel *channel,
                                  const struct gpud_endpoint *hello, struct gpud_link **link,
                                  const char **why)
{
    *why = "its HELLO requests something that does not exist";
    if (hello->slow_receiver > GPUD_SLOW_DROP_OLDEST || hello->slots > GPUD_SLOTS_MAX)
        return GPUD_INVALID;
    struct gpud_link *made = calloc(1, sizeof(*made));
    if (made)
        made->trials = gpud_route_trials_create();
    if (!made || !made->trials) {
        *why = "out of memory for a link";
        free(made);
        return GPUD_AGAIN;
    }
    GPUD_STOP_POINT("sender: HELLO read");
    made->references = 1;
    made->sender = sender;
    made->id = ++sender->link_ids;
    made->channel = channel;
    made->state = GPUD_LINK_IDLE;
    made->deadline = made->raise_at = INT64_MAX;
    /* Without the lock: this may query drivers and the machine. */
    made->peer = *hello;
    made->requested_policy = (enum gpud_slow_receiver)hello->slow_receiver;
    /* Every peer knows our token, so only the channel can tell which peer is this process. */
    if (!channel->peer.same_process)
        made->peer.token = 0;
    if (gpud_link_is_same_process(made))
        made->peer_device = gpud_context_find_device(sender->context, hello->device);
    if (made->peer_device)
        made->peer.common = made->peer_device->common;
    char reason[GPUD_REASON_MAX];
    enum gpud_degraded kind = gpud_route_explain_link(sender->device, hello, reason);
    gpud_route_note_link(made->trials, kind, reason);
    gpud_channel_watch_peer(channel);
    struct gpud_message message = {.type = GPUD_MESSAGE_HELLO};
    link_describe(made, &message.hello);
    gpud_endpoints_distance(&message.hello, hello); /* known now; later uses are under the lock */
    made->same_clock =
        gpud_endpoints_share_clock(hello, &message.hello, gpud_peer_is_here(&channel->peer));
    struct gpud_error error;
    enum gpud_status status = gpud_channel_send(channel, &message, &error);
    /* A peer that has closed the connection may have sent BYE before. */
    if (status != GPUD_OK && status != GPUD_PEER) {
        made->channel = NULL; /* stays the caller's */
        gpud_links_free(made);
        *why = "its HELLO cannot be answered";
        return GPUD_AGAIN;
    }
    *link = made;
    return GPUD_OK;
}

/* --- the end ------------------------------------------------------------------------------- */

void gpud_link_end(struct gpud_link *link, enum gpud_log_level level, const char *why)
{
    gpud_sender_lock(link->sender);
    gpud_link_kill(link, level, why);
    gpud_sender_unlock(link->sender);
}

void gpud_link_refuse(struct gpud_link *link, enum gpud_status status, const char *reason)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_REFUSE};
    gpud_sender_lock(link->sender);
    message.refuse.epoch = link->sender->epoch;
    message.refuse.status = status;
    gpud_print(message.refuse.reason, "%s", reason);
    if (link->state != GPUD_LINK_DEAD)
        gpud_link_send(link, &message);
    gpud_link_kill(link, GPUD_LOG_WARNING, reason);
    link->end.refused = true;
    gpud_sender_unlock(link->sender);
}

/* Tells the application. */
static void link_report(const struct gpud_link *link,
                        void (*callback)(void *user, const struct gpud_peer_info *peer))
{
    struct gpud_peer_info info = {.id = link->id, .pid = link->channel->peer.pid};
    if (!callback)
        return;
    gpud_print(info.name, "%s", link->peer.name);
    gpud_print(info.path, "%s", link->transport ? link->transport->route->name : "none");
    gpud_print(info.fallback_reason, "%s", link->fallback_reason);
    gpud_print(info.host, "%s", link->channel->peer.host);
    info.same_clock = link->same_clock;
    info.degraded = link->degraded;
    callback(link->sender->user, &info);
}

enum gpud_log_level gpud_refusal_level(struct gpud_admission *admission,
                                       const struct gpud_channel *channel,
                                       enum gpud_log_level level, const char *why)
{
    int64_t key = gpud_peer_key(&channel->peer), now = gpud_now();
    uint32_t hash = gpud_hash(why);
    struct gpud_refused *oldest = &admission->refusals[0];
    for (uint32_t i = 0; i < GPUD_REFUSALS; i++) {
        struct gpud_refused *refusal = &admission->refusals[i];
        if (refusal->logged && refusal->key == key && refusal->hash == hash &&
            now - refusal->logged < GPUD_REFUSAL_PAUSE)
            return GPUD_LOG_DEBUG;
        if (refusal->logged < oldest->logged)
            oldest = refusal;
    }
    *oldest = (struct gpud_refused){.key = key, .hash = hash, .logged = now};
    return level;
}

void gpud_links_settle(struct gpud_sender *sender)
{
    bool ended[GPUD_RECEIVERS_MAX], dead[GPUD_RECEIVERS_MAX];
    uint32_t count = sender->link_count, kept = 0;
    gpud_sender_lock(sender);
    for (uint32_t i = 0; i < count; i++) {
        ended[i] = sender->links[i]->end.is_set;
        dead[i] = sender->links[i]->state == GPUD_LINK_DEAD;
    }
    gpud_sender_unlock(sender);
    for (uint32_t i = 0; i < count; i++)
        if (dead[i])
            gpud_channel_hang_up(sender->links[i]->channel); /* before the application is called */
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_link *link = sender->links[i];
        if (link->streamed && !link->connect_reported) {
            link->connect_reported = true;
            link_report(link, sender->on_connect);
        }
        if (ended[i] && !link->end_logged) {
            char peer_text[GPUD_PEER_TEXT_MAX];
            link->end_logged = true;
            enum gpud_log_level level = link->end.level;
            if (link->end.refused)
                level = gpud_refusal_level(&sender->admission, link->channel, level, link->end.why);
            gpud_log_at(log_of(link), level, AREA, "receiver %" PRIu64 " (%s, %s): %s", link->id,
                        link->peer.name, gpud_peer_text(&link->channel->peer, peer_text),
                        link->end.why);
        }
        if (ended[i] && link->connect_reported && !link->end_reported) {
            link->end_reported = true;
            link_report(link, sender->on_disconnect);
        }
    }
    gpud_sender_lock(sender);
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_link *link = sender->links[i];
        if (dead[i]) {
            gpud_transport_unref(&link->transport);
            gpud_link_unref(link);
        } else {
            sender->links[kept++] = link;
        }
    }
    sender->link_count = kept;
    struct gpud_transport *transports = sender->retired.first;
    struct gpud_link *links = sender->retired_links;
    sender->retired.first = NULL;
    sender->retired_links = NULL;
    gpud_sender_unlock(sender);
    gpud_retired_destroy(transports);
    gpud_links_free(links);
}

/* === offer =================================================================================== */
#define OFFER_PAUSE (20 * GPUD_MSEC)

/* Sends an OFFER, which ends the old epoch's transport, if any; the receiver may still read frames
 * published there. GPUD_AGAIN: try later. GPUD_CLOSED: it is obsolete, and so is a failure. */
static enum gpud_status offer_route(struct gpud_link *link, const struct gpud_route_ops *route,
                                    struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_message message = {.type = GPUD_MESSAGE_OFFER, .offer.page.fd = -1};
    struct gpud_offer *offer = &message.offer;
    struct gpud_pool *pool = NULL;     /* none if the receiver owns the ring */
    struct gpud_remote *remote = NULL; /* none if the ends share memory */
    struct gpud_transport *transport = NULL;
    struct gpud_endpoint self;
    enum gpud_status status = GPUD_OK;
    link_describe(link, &self);
    offer->signal = gpud_route_signal(route, &self, &link->peer);
    if (!gpud_ring_is_receivers(route->ring))
        status = gpud_room_offer(link, route, &pool, offer, error);
    if (status == GPUD_OK && route->network)
        status = link->channel->ops->remote->create(link->channel, &remote, &offer->page, error);
    if (status == GPUD_OK)
        status = transport_create(route, (enum gpud_signal_place)offer->signal, pool,
                                  &sender->retired, &transport, error);
    gpud_sender_lock(sender);
    if (link->epoch_tried != sender->epoch || link->state >= GPUD_LINK_LEAVING)
        status = GPUD_CLOSED;
    if (status == GPUD_OK) {
        offer->epoch = sender->epoch;
        offer->media = sender->media;
        if (atomic_load(&sender->has_images) && route->ring == GPUD_RING_SENDER_DEVICE)
            offer->media.picture.layout = sender->layout;
        offer->large_meta_max = sender->large_meta_max;
        gpud_print(offer->route, "%s", route->name);
        gpud_print(offer->reason, "%s", link->fallback_reason);
        offer->degraded = (uint8_t)link->degraded;
        status = gpud_link_try_send(link, &message, error);
        GPUD_STOP_POINT(link->streamed ? "sender: new epoch's OFFER sent" : "sender: OFFER sent");
        if (status != GPUD_OK && status != GPUD_INVALID) /* else encoding it would fail again */
            status = GPUD_AGAIN;
    }
    if (status == GPUD_OK) {
        struct gpud_transport *old = link->transport;
        if (old && old->page.page)
            gpud_page_get_stats(&old->page, &link->info.stats);
        link->transport = transport;
        transport->remote = remote;
        transport = old;
        remote = NULL;
        link->state = GPUD_LINK_OFFERED;
        link->epoch = sender->epoch;
        link->waiting.is_armed = false;
        link->offer_by = 0;
        /* A receiver that is paused in mid-stream answers when it resumes; a new one must answer
         * soon. */
        link->deadline = link->streamed ? INT64_MAX : gpud_deadline(GPUD_IMPORT_DEADLINE);
    }
    gpud_transport_unref(&transport);
    if (status == GPUD_OK)
        gpud_waiting_advance(link); /* sends messages held for this epoch */
    gpud_sender_unlock(sender);
    if (remote)
        remote->ops->destroy(remote);
    gpud_pool_unref(&pool);
    return status;
}

/* The best route that has not failed; NULL: none, and link->fallback_reason says why. */
static const struct gpud_route_ops *link_choose_route(struct gpud_link *link)
{
    struct gpud_sender *sender = link->sender;
    char reason[GPUD_REASON_MAX];
    enum gpud_degraded degraded;
    struct gpud_endpoint self;
    gpud_sender_lock(sender);
    /* Only one device may read slots that routes give away; a link that would read them on another
     * device gets another route. */
    uint32_t others = gpud_route_gives_slots(sender->device) ? sender->link_count : 0;
    for (uint32_t i = 0; i < others; i++) {
        const struct gpud_link *other = sender->links[i];
        const struct gpud_transport *transport = other->transport;
        if (other == link || other->state == GPUD_LINK_DEAD || !transport ||
            !gpud_transport_shares_slots(transport) || transport->pool != sender->device_pool)
            continue;
        /* The device whose queues read the device's pool for that link. */
        const struct gpud_device *reader =
            gpud_route_reader(transport->route, sender->device, other->peer_device);
        if (reader)
            gpud_route_exclude_readers(link->trials, sender->device, link->peer_device, reader);
    }
    gpud_sender_unlock(sender);
    link_describe(link, &self);
    if (link->channel->peer.foreign)
        gpud_route_exclude_foreign(link->trials, &self);
    const struct gpud_route_ops *route =
        gpud_route_select(&self, &link->peer, link->trials, reason, &degraded);
    gpud_sender_lock(sender);
    gpud_print(link->fallback_reason, "%s", reason);
    link->degraded = degraded;
    gpud_sender_unlock(sender);
    return route;
}

/* Offers a route, unless another epoch has begun, whose offer follows, or the link has ended. On a
 * temporary shortage (of descriptors, for example) the link waits IDLE, some seconds at most. */
static void link_offer(struct gpud_link *link)
{
    struct gpud_sender *sender = link->sender;
    enum gpud_status status;
    struct gpud_error error;
    for (;;) {
        gpud_sender_lock(sender);
        bool over = link->epoch_tried != sender->epoch || link->state >= GPUD_LINK_LEAVING;
        gpud_sender_unlock(sender);
        if (over)
            return;
        const struct gpud_route_ops *route = link_choose_route(link);
        if (!route) {
            gpud_link_refuse(link, GPUD_UNSUPPORTED, link->fallback_reason);
            return;
        }
        error = (struct gpud_error){0};
        status = offer_route(link, route, &error);
        if (status == GPUD_OK || status == GPUD_AGAIN || status == GPUD_CLOSED)
            break;
        gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 ": no %s: %s", link->id, route->name,
                      error.reason);
        /* What this side does not support is not lost: its device has no such memory. */
        gpud_route_failed(link->trials, route,
                          status == GPUD_UNSUPPORTED ? GPUD_DEGRADED_NO : GPUD_DEGRADED_FAILED,
                          error.reason);
    }
    if (status != GPUD_AGAIN)
        return;
    int64_t now = gpud_now();
    if (!link->offer_by) {
        gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 " has to wait: %s", link->id,
                      error.reason);
        link->offer_by = now + GPUD_IMPORT_DEADLINE;
    }
    if (now >= link->offer_by) {
        gpud_link_refuse(link, GPUD_AGAIN, error.reason);
        return;
    }
    gpud_sender_lock(sender);
    if (link->state < GPUD_LINK_LEAVING)
        link->state = GPUD_LINK_IDLE;
    gpud_sender_unlock(sender);
    link->deadline = now + OFFER_PAUSE;
}

void gpud_link_offer_if_due(struct gpud_link *link, int64_t now)
{
    struct gpud_sender *sender = link->sender;
    bool due = false;
    gpud_sender_lock(sender);
    uint32_t epoch = sender->epoch; /* 0: there is no format yet */
    if (link->state >= GPUD_LINK_LEAVING || !epoch) {
        due = false;
    } else if (link->epoch_tried == epoch) {
        due = link->state == GPUD_LINK_IDLE && now >= link->deadline;
    } else if (!gpud_waiting_delays_offer(link) && link->state != GPUD_LINK_DEAD) {
        link->state = GPUD_LINK_IDLE;
        link->deadline = INT64_MAX;
        link->offer_by = 0;
        link->epoch_tried = epoch;
        gpud_route_forget_failures(link->trials); /* keeps measured rates */
        due = true;
    }
    gpud_sender_unlock(sender);
    if (due)
        link_offer(link);
}

/* Records that the offered route does not work, and offers the next one. */
static void link_try_next(struct gpud_link *link, const char *reason)
{
    const struct gpud_route_ops *route = link->transport->route;
    gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 ": %s does not work: %s", link->id,
                  route->name, reason);
    gpud_route_failed(link->trials, route, GPUD_DEGRADED_FAILED, reason);
    link_offer(link);
}

/* === handshake =============================================================================== */
/* The handshake with one receiver, a state machine over its messages (wire/wire.h shows the
 * sequence). Nothing here waits for a peer: a silent one exceeds its state's deadline, which the
 * listener's thread checks. Only our own device is waited for, with a deadline: for the test
 * pattern, and to measure the link.
 *
 * Handlers run in the listener's thread without the lock, and take it for each change of state.
 * Another thread may end the link or begin a new epoch meanwhile, so each change first checks that
 * the link is still in the expected state. */

/* --- the test of the link -------------------------------------------------------------------- */

static enum gpud_status write_pattern(struct gpud_frame *frame, uint64_t *nonce,
                                      struct gpud_error *error)
{
    if (getrandom(nonce, sizeof(*nonce), 0) != sizeof(*nonce))
        *nonce = (uint64_t)gpud_now();
    frame->info.flags = GPUD_FRAME_CANARY;
    return gpud_pattern_send(frame, *nonce, GPUD_PATTERN_DEADLINE, error);
}

/* Whether this epoch's offer is still the link's current one. Under the lock. */
static bool is_offered(const struct gpud_link *link, uint32_t epoch)
{
    return link->state == GPUD_LINK_OFFERED && epoch == link->sender->epoch;
}

/* Sends the CANARY and delivers the test frame to this receiver alone, like any frame. GPUD_CLOSED:
 * the link changed meanwhile, so there is no test. */
static enum gpud_status deliver_canary(struct gpud_link *link, struct gpud_delivery *delivery,
                                       struct gpud_message *message, struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_delivery_target *target = &delivery->target[0];
    uint32_t entry;
    enum gpud_status status = is_offered(link, message->canary.epoch) ? GPUD_OK : GPUD_CLOSED;
    if (status == GPUD_OK && !gpud_page_take(&link->transport->page, &entry))
        status = gpud_fail(error, GPUD_PEER, "the receiver's ring has no free entry");
    if (status != GPUD_OK) {
        gpud_delivery_release(delivery);
        return status;
    }
    gpud_target_take(target, link, entry);
    /* Frames of this epoch may wait for the link, and have their numbers. */
    delivery->sequence = link->streamed ? sender->epoch_start : sender->sequence;
    delivery->info = &delivery->frame->info;
    status = gpud_deliver(sender, delivery, error);
    if (!is_offered(link, message->canary.epoch))
        return GPUD_CLOSED;
    if (status != GPUD_OK)
        return status;
    link->state = GPUD_LINK_CANARY;
    if (!link->streamed)
        link->deadline = gpud_deadline(GPUD_IMPORT_DEADLINE);
    gpud_link_send(link, message);
    return GPUD_OK;
}

static enum gpud_status send_canary(struct gpud_link *link, uint32_t epoch,
                                    struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_delivery delivery = {.consume = true, .canary = true, .count = 1};
    struct gpud_message message = {.type = GPUD_MESSAGE_CANARY, .canary.epoch = epoch};
    struct gpud_memory *memory;
    enum gpud_status status = GPUD_CLOSED;
    gpud_sender_lock(sender);
    if (is_offered(link, epoch)) {
        /* A slot for the test frame: the pool has grown by this link's share. */
        struct gpud_pool *pool = link->transport->pool;
        struct gpud_slot *slot = pool ? gpud_pool_take(pool) : NULL;
        if (pool && !slot && gpud_waiting_reclaim_slot(sender, pool, true))
            slot = gpud_pool_take(pool);
        if (pool && !slot) {
            status = gpud_fail(error, GPUD_NO_MEMORY, "no slot is free for the test of the link");
        } else if (slot && pool == sender->device_pool) {
            status = GPUD_OK;
            gpud_slot_hold(slot);
            delivery.device_slot = slot;
            delivery.frame = &slot->frame;
        } else {
            status = GPUD_OK;
            delivery.host_slot = slot;
        }
    }
    struct gpud_layout layout = sender->rows;
    gpud_sender_unlock(sender);
    if (status != GPUD_OK)
        return status;
    if (!delivery.frame) {
        /* Of its own, because the application may hold all of the device's slots. */
        status = gpud_memory_alloc(sender->device, layout.size, GPUD_MEMORY_PLAIN, &memory, error);
        if (status == GPUD_OK) {
            status = gpud_frame_wrap(memory, 0, &layout, &delivery.frame, error);
            gpud_memory_unref(&memory);
        }
    }
    if (status == GPUD_OK)
        status = write_pattern(delivery.frame, &message.canary.nonce, error);
    if (status != GPUD_OK) {
        gpud_delivery_release(&delivery);
        return status;
    }
    gpud_sender_lock(sender);
    status = deliver_canary(link, &delivery, &message, error);
    gpud_sender_unlock(sender);
    return status;
}

/* Vendors' figures do not cover the bridges and sockets between two cards, so the rate is measured
 * before the first frame. Copies of smaller frames are too short to measure. */
#define SIZE_MIN (UINT64_C(1) << 20)
#define COPIES 4
#define PATIENCE GPUD_SEC

/* How many nanoseconds the copies take; 0: they failed or took too long. */
static int64_t time_copies(struct gpud_queue *queue, const struct gpud_copy *copy, unsigned count)
{
    int64_t start = gpud_now();
    for (unsigned i = 0; i < count; i++)
        if (gpud_queue_copy(queue, copy, NULL) != GPUD_OK)
            return 0;
    if (gpud_queue_flush(queue, NULL) != GPUD_OK ||
        gpud_queue_finish(queue, gpud_deadline(PATIENCE), NULL) != GPUD_OK)
        return 0;
    return gpud_now() - start;
}

/* Measures the rate of whole frames into the receiver's ring, which is connected and not yet in
 * use, if the choice of the route depends on it. Takes as long as a few frames. */
static void link_measure(struct gpud_link *link)
{
    struct gpud_sender *sender = link->sender;
    const struct gpud_transport *transport = link->transport;
    const struct gpud_route_ops *route = transport->route;
    struct gpud_queue *queue = transport->queues.copy ? transport->queues.copy : sender->queue;
    struct gpud_copy copy = {.rows = 1};
    struct gpud_endpoint self;
    int64_t time = 0;
    link_describe(link, &self);
    if (!gpud_route_wants_rate(route, &self, &link->peer, link->trials))
        return;
    gpud_sender_lock(sender);
    copy.row_bytes = gpud_sender_layout(sender, route->ring)->size;
    gpud_sender_unlock(sender);
    if (copy.row_bytes >= SIZE_MIN &&
        gpud_memory_alloc(sender->device, copy.row_bytes, GPUD_MEMORY_PLAIN, &copy.from, NULL) ==
            GPUD_OK) {
        copy.to = gpud_transport_slot(transport, 0, &copy.to_offset);
        if (time_copies(queue, &copy, 1) > 0) /* the first copy warms up */
            time = time_copies(queue, &copy, COPIES);
        gpud_memory_unref(&copy.from);
    }
    gpud_route_measured(link->trials, route,
                        time > 0 ? (double)copy.row_bytes * COPIES * 1e9 / (double)time : 0);
}

/* With the receiver's ACCEPT, which is untrusted: makes a transport that is connected to its ring
 * or page; it replaces the offer's, which keeps the remote. Without the lock, because no other
 * thread knows the transport yet. */
static enum gpud_status connect_transport(struct gpud_link *link, const struct gpud_accept *accept,
                                          uint64_t frame_size, struct gpud_transport **transport,
                                          struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    const struct gpud_transport *offered = link->transport;
    struct gpud_remote *remote = offered->remote;
    enum gpud_status status = transport_create(offered->route, offered->place, offered->pool,
                                               &sender->retired, transport, error);
    if (status != GPUD_OK)
        return status;
    struct gpud_transport *made = *transport;
    if (made->route->slots)
        status = made->route->slots->open(link->peer_device, &made->queues.own, error);
    if (status == GPUD_OK)
        status = open_page(made, link->slots, remote, accept, error);
    if (status == GPUD_OK) {
        made->channel = link->channel;
        made->page.end.send_kick = send_kick;
        made->page.end.send_kick_arg = made;
        if (made->place == GPUD_SIGNAL_PAGE)
            status = gpud_watchdog_create(sender->device, made->page.page, accept->entries,
                                          link->channel, GPUD_SIDE_SENDER, &made->watchdog, error);
        if (status != GPUD_OK)
            made->page.page = NULL; /* freed with the watchdog */
    }
    if (status == GPUD_OK)
        status = open_metas(made, remote, accept, sender->large_meta_max, error);
    if (status == GPUD_OK && remote) {
        /* Attaches the receiver's ring, and registers our own with the card. */
        status =
            remote->ops->attach_ring(remote, &accept->ring, accept->entries, frame_size, error);
        for (uint32_t i = 0; i < made->known_memories && status == GPUD_OK; i++)
            status = remote->ops->add_source(remote, made->pool->ring.memory[i], error);
    } else if (status == GPUD_OK && !gpud_transport_shares_slots(made)) {
        status = import_ring(link, made, accept, frame_size, error);
    } else if (status == GPUD_OK && accept->ring.memories) {
        status = gpud_fail(error, GPUD_PEER, "the receiver sent a ring although ours is used");
    }
    if (status != GPUD_OK) {
        gpud_sender_lock(sender);
        gpud_transport_unref(transport);
        gpud_sender_unlock(sender);
    }
    return status;
}

static void handle_accept(struct gpud_link *link, const struct gpud_accept *accept)
{
    struct gpud_sender *sender = link->sender;
    const struct gpud_route_ops *route = link->transport->route;
    struct gpud_transport *connected = NULL;
    struct gpud_error error;
    gpud_sender_lock(sender);
    bool expected = is_offered(link, accept->epoch);
    uint64_t frame_size = gpud_sender_layout(sender, route->ring)->size;
    gpud_sender_unlock(sender);
    if (!expected)
        return; /* answers an offer that a later one has replaced */
    enum gpud_status status = connect_transport(link, accept, frame_size, &connected, &error);
    gpud_sender_lock(sender);
    expected = is_offered(link, accept->epoch);
    if (expected && status == GPUD_OK) {
        struct gpud_transport *offered = link->transport;
        connected->remote = offered->remote;
        offered->remote = NULL;
        if (!connected->remote)
            connected->known_memories = offered->known_memories;
        link->transport = connected;
        connected = offered;
    }
    gpud_transport_unref(&connected);
    gpud_sender_unlock(sender);
    if (!expected)
        return;
    if (status == GPUD_PEER) {
        gpud_link_refuse(link, GPUD_PEER, error.reason);
        return;
    }
    if (status == GPUD_OK) {
        GPUD_STOP_POINT("sender: ACCEPT read");
        status = gpud_link_register_sources(link, &error);
    }
    if (status == GPUD_OK) {
        link_measure(link);
        if (link_choose_route(link) != route) {
            link_offer(link);
            return;
        }
        status = send_canary(link, accept->epoch, &error);
    }
    if (status == GPUD_OK)
        GPUD_STOP_POINT("sender: CANARY sent");
    else if (status != GPUD_CLOSED)
        link_try_next(link, error.reason);
}

static void handle_ready(struct gpud_link *link, uint32_t epoch)
{
    struct gpud_sender *sender = link->sender;
    gpud_sender_lock(sender);
    bool expected = link->state == GPUD_LINK_CANARY && epoch == sender->epoch;
    bool first = expected && !link->streamed;
    if (expected) {
        link->state = GPUD_LINK_STREAMING;
        link->deadline = INT64_MAX;
        link->streamed = true;
        gpud_print(sender->info.path, "%s", link->transport->route->name);
        gpud_print(sender->info.fallback_reason, "%s", link->fallback_reason);
        gpud_page_start(&link->transport->page, link->started ? link->start : sender->sequence);
        GPUD_STOP_POINT("sender: READY read");
    }
    if (first) {
        /* A new receiver needs the sticky events before its first frame. */
        sender->info.connects++;
        for (int i = 0; i < GPUD_STICKY_MAX; i++) {
            if (!sender->sticky[i])
                continue;
            struct gpud_message message = {.type = GPUD_MESSAGE_EVENT, .event = *sender->sticky[i]};
            gpud_link_send(link, &message);
        }
        struct gpud_message eos = {.type = GPUD_MESSAGE_EOS, .epoch = sender->epoch};
        if (sender->ended)
            gpud_link_send(link, &eos);
    }
    if (expected) {
        gpud_waiting_ready(link);
        gpud_sender_changed(sender);
    }
    gpud_sender_unlock(sender);
    if (!first)
        return;
    char peer_text[GPUD_PEER_TEXT_MAX];
    gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 " (%s, %s) connected by %s%s%s", link->id,
                  link->peer.name, gpud_peer_text(&link->channel->peer, peer_text),
                  link->transport->route->name, link->fallback_reason[0] ? ", because " : "",
                  link->fallback_reason);
    gpud_warn_unencrypted(log_of(link), AREA, link->channel, &sender->warned_unencrypted);
}

/* A KICK answers a request of a polling sender. Some may be late; more of them are a flood. */
#define STRAY_KICKS_MAX 64

/* The caller closes the attachments; handlers have duplicated those they keep. */
void gpud_link_handle(struct gpud_link *link, struct gpud_message *message)
{
    struct gpud_sender *sender = link->sender;
    const enum gpud_message_type type = message->type;
    const enum gpud_link_state state = link->state;
    char why[GPUD_REASON_MAX];
    bool is_answer =
        type == GPUD_MESSAGE_ACCEPT || type == GPUD_MESSAGE_READY || type == GPUD_MESSAGE_REFUSE;
    if (state == GPUD_LINK_DEAD)
        return;
    if (type == GPUD_MESSAGE_KICK) {
        gpud_sender_lock(sender);
        link->waiting.is_armed = false; /* this turn of the thread handles the returned entries */
        if (link->kicks_due == 0) {
            if (++link->stray_kicks > STRAY_KICKS_MAX)
                gpud_link_kill(link, GPUD_LOG_WARNING, "broke the protocol: unrequested KICKs");
        } else {
            link->kicks_due--;
            if (sender->polls)
                gpud_event_raise(sender->loop.event);
        }
        gpud_sender_unlock(sender);
    } else if (type == GPUD_MESSAGE_SLOTS && link->epoch) {
        /* It takes effect at once in a shared ring, and else with the next offer. */
        if (message->slots <= link->slots_asked)
            return; /* frames may be held, so that slots cannot be taken back */
        link->slots_asked = message->slots;
        link->raise_at = 0;
        gpud_room_raise(link, gpud_now());
    } else if (type == GPUD_MESSAGE_BYE && state != GPUD_LINK_LEAVING) {
        gpud_print(why, "said goodbye: %s", message->refuse.reason);
        gpud_sender_lock(sender);
        link_leave(link, why);
        gpud_sender_unlock(sender);
    } else if (state == GPUD_LINK_OFFERED && type == GPUD_MESSAGE_ACCEPT) {
        handle_accept(link, &message->accept);
    } else if (state == GPUD_LINK_CANARY && type == GPUD_MESSAGE_READY) {
        handle_ready(link, message->epoch);
    } else if ((state == GPUD_LINK_OFFERED || state == GPUD_LINK_CANARY) &&
               type == GPUD_MESSAGE_REFUSE) {
        gpud_sender_lock(sender);
        bool expected = message->refuse.epoch == sender->epoch && link->state < GPUD_LINK_STREAMING;
        gpud_sender_unlock(sender);
        if (expected)
            link_try_next(link, message->refuse.reason);
    } else if ((state == GPUD_LINK_OFFERED && type == GPUD_MESSAGE_READY) ||
               (state == GPUD_LINK_IDLE && link->epoch && is_answer)) {
        return; /* answers an earlier offer */
    } else {
        gpud_print(why, "broke the protocol: an unexpected %s", gpud_message_name(type));
        gpud_link_end(link, GPUD_LOG_WARNING, why);
    }
}
