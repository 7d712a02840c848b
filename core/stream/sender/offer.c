/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Chooses a route for a receiver and offers it. In the listener's thread, without the lock, which
 * it takes for state that application threads use. */
#include "stream/sender/offer.h"

#include "base/stop.h"
#include "stream/sender/delivery.h"
#include "stream/sender/epoch.h"
#include "stream/sender/receivers.h"
#include "stream/sender/room.h"
#include "stream/sender/waiting.h"

#include <inttypes.h>
#include <string.h>

#define AREA "sender"
#define OFFER_PAUSE (20 * GPUD_MSEC)

static const struct gpud_log *log_of(const struct gpud_link *link)
{
    return &link->sender->context->log;
}

/* --- the offer ----------------------------------------------------------------------------- */

/* The parts of an offer. */
struct offer {
    const struct gpud_route_ops *route;
    struct gpud_pool *pool;     /* a reference; NULL if the receiver owns the ring */
    struct gpud_remote *remote; /* NULL if the ends share memory */
    struct gpud_transport *transport;
    struct gpud_message message;
};

/* Gets the pool for a route that shares the sender's ring, with room for this link. */
static enum gpud_status prepare_pool(struct gpud_link *link, struct offer *offer,
                                     struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_pool *pool;
    gpud_sender_lock(sender);
    enum gpud_status status = gpud_sender_get_pool(sender, offer->route->ring, &pool, error);
    if (status == GPUD_OK)
        gpud_pool_ref(offer->pool = pool);
    gpud_sender_unlock(sender);
    if (status == GPUD_OK)
        status = gpud_room_make(link, pool, error);
    if (status == GPUD_OK) {
        offer->message.offer.slots = link->slots;
        offer->message.offer.slots_max = gpud_room_most(link, pool);
    }
    if (status != GPUD_OK || offer->route->network)
        return status;
    if (!link->streamed)
        status = gpud_room_clear(link, pool, error);
    if (status == GPUD_OK && gpud_pool_describe(pool, 0, gpud_link_goes_by_pointer(link, pool),
                                                &offer->message.offer.ring, error) != GPUD_OK)
        status = GPUD_AGAIN;
    return status;
}

static enum gpud_status prepare(struct gpud_link *link, struct offer *offer,
                                struct gpud_error *error)
{
    struct gpud_endpoint self;
    enum gpud_status status = GPUD_OK;
    gpud_link_describe(link, &self);
    offer->message.offer.signal = gpud_route_signal(offer->route, &self, &link->peer);
    if (!gpud_ring_is_receivers(offer->route->ring))
        status = prepare_pool(link, offer, error);
    if (status == GPUD_OK && offer->route->network)
        status = link->channel->ops->remote->create(link->channel, &offer->remote,
                                                    &offer->message.offer.page, error);
    if (status == GPUD_OK)
        status =
            gpud_transport_create(offer->route, (enum gpud_signal_place)offer->message.offer.signal,
                                  offer->pool, &link->sender->retired, &offer->transport, error);
    return status;
}

/* Sends the OFFER, which ends the old epoch's transport, if any; the receiver may still read frames
 * published there. GPUD_AGAIN: try later. GPUD_CLOSED: it is obsolete. Under the lock. */
static enum gpud_status send_offer(struct gpud_link *link, struct offer *offer,
                                   struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_message *message = &offer->message;
    if (link->epoch_tried != sender->epoch || link->state >= GPUD_LINK_LEAVING)
        return GPUD_CLOSED;
    message->offer.epoch = sender->epoch;
    message->offer.media = sender->media;
    if (atomic_load(&sender->has_images) && offer->route->ring == GPUD_RING_SENDER_DEVICE)
        message->offer.media.picture.layout = sender->layout;
    message->offer.large_meta_max = sender->large_meta_max;
    gpud_print(message->offer.route, "%s", offer->route->name);
    gpud_print(message->offer.reason, "%s", link->fallback_reason);
    enum gpud_status status = gpud_link_try_send(link, message, error);
    GPUD_STOP_POINT(link->streamed ? "sender: new epoch's OFFER sent" : "sender: OFFER sent");
    if (status != GPUD_OK)
        return status == GPUD_INVALID ? status : GPUD_AGAIN; /* encoding it would fail again */
    struct gpud_transport *old = link->transport;
    if (old && old->page.page)
        gpud_page_get_stats(&old->page, &link->stats);
    link->transport = offer->transport;
    link->transport->remote = offer->remote;
    offer->transport = NULL;
    offer->remote = NULL;
    gpud_transport_unref(&old);
    link->state = GPUD_LINK_OFFERED;
    link->epoch = sender->epoch;
    link->waiting.is_armed = false;
    link->offer_by = 0;
    /* A receiver that is paused in mid-stream answers when it resumes; a new one must answer
     * soon. */
    link->deadline = link->streamed ? INT64_MAX : gpud_deadline(GPUD_IMPORT_DEADLINE);
    gpud_waiting_advance(link); /* sends messages held for this epoch */
    return GPUD_OK;
}

static enum gpud_status offer_route(struct gpud_link *link, const struct gpud_route_ops *route,
                                    struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct offer offer = {
        .route = route,
        .message = {.type = GPUD_MESSAGE_OFFER, .offer.page.fd = -1},
    };
    enum gpud_status status = prepare(link, &offer, error);
    gpud_sender_lock(sender);
    if (status == GPUD_OK)
        status = send_offer(link, &offer, error);
    else if (link->epoch_tried != sender->epoch || link->state >= GPUD_LINK_LEAVING)
        status = GPUD_CLOSED; /* the failure does not concern the next epoch */
    gpud_transport_unref(&offer.transport);
    gpud_sender_unlock(sender);
    if (offer.remote)
        offer.remote->ops->destroy(offer.remote);
    gpud_pool_unref(&offer.pool);
    return status;
}

/* The device whose queues read the device's pool for this link; NULL: the link does not use it. */
static const struct gpud_device *reader_of(const struct gpud_link *link)
{
    const struct gpud_transport *transport = link->transport;
    if (!transport || !transport->pool || transport->pool != link->sender->device_pool)
        return NULL;
    return gpud_route_reader(transport->route, link->sender->device, link->peer_device);
}

/* Only one device may read slots that routes give away; a link that would read them on another
 * device gets another route. */
static void exclude_multi_reader(struct gpud_link *link)
{
    struct gpud_sender *sender = link->sender;
    if (!gpud_route_gives_slots(sender->device))
        return;
    gpud_sender_lock(sender);
    for (uint32_t i = 0; i < sender->link_count; i++) {
        const struct gpud_device *reader = reader_of(sender->links[i]);
        if (sender->links[i] != link && sender->links[i]->state != GPUD_LINK_DEAD && reader)
            gpud_route_exclude_readers(link->trials, sender->device, link->peer_device, reader);
    }
    gpud_sender_unlock(sender);
}

const struct gpud_route_ops *gpud_link_choose_route(struct gpud_link *link)
{
    char reason[GPUD_REASON_MAX];
    struct gpud_endpoint self;
    exclude_multi_reader(link);
    gpud_link_describe(link, &self);
    if (link->channel->peer.foreign)
        gpud_route_exclude_foreign(link->trials, &self);
    const struct gpud_route_ops *route =
        gpud_route_select(&self, &link->peer, link->trials, reason);
    gpud_sender_lock(link->sender);
    gpud_print(link->fallback_reason, "%s", reason);
    gpud_sender_unlock(link->sender);
    return route;
}

static void offer_later(struct gpud_link *link, const char *reason)
{
    struct gpud_sender *sender = link->sender;
    int64_t now = gpud_now();
    if (!link->offer_by) {
        gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 " has to wait: %s", link->id, reason);
        link->offer_by = now + GPUD_IMPORT_DEADLINE;
    }
    if (now >= link->offer_by) {
        gpud_link_refuse(link, GPUD_AGAIN, reason);
        return;
    }
    gpud_sender_lock(sender);
    if (link->state < GPUD_LINK_LEAVING)
        link->state = GPUD_LINK_IDLE;
    gpud_sender_unlock(sender);
    link->deadline = now + OFFER_PAUSE;
}

/* Whether an offer for this epoch was begun and is to be repeated later. */
static bool is_due_later(const struct gpud_link *link)
{
    struct gpud_sender *sender = link->sender;
    gpud_sender_lock(sender);
    bool later = link->epoch_tried != sender->epoch || link->state >= GPUD_LINK_LEAVING;
    gpud_sender_unlock(sender);
    return later;
}

void gpud_link_offer(struct gpud_link *link)
{
    while (!is_due_later(link)) {
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
        gpud_route_failed(link->trials, route, error.reason);
    }
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
        gpud_link_offer(link);
}

void gpud_link_try_next(struct gpud_link *link, const char *reason)
{
    const struct gpud_route_ops *route = link->transport->route;
    gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 ": %s does not work: %s", link->id,
                  route->name, reason);
    gpud_route_failed(link->trials, route, reason);
    gpud_link_offer(link);
}
