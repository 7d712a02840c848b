/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which route a receiver is offered, and the room in the sender's ring that it gets with it. */
#include "base/stop.h"
#include "stream/sender.h"

#include <inttypes.h>
#include <string.h>

#define AREA "sender"

static const struct gpud_log *log_of(const struct gpud_link *link)
{
    return &link->sender->context->log;
}

bool gpud_link_is_local(const struct gpud_link *link)
{
    return link->peer.token == link->sender->context->token;
}

void gpud_sender_describe(const struct gpud_sender *sender, struct gpud_endpoint *endpoint)
{
    gpud_endpoint_describe(endpoint, sender->device, sender->name);
    gpud_print(endpoint->route, "%s", sender->route);
    endpoint->slots = sender->slots;
    endpoint->slow_receiver = (uint8_t)sender->slow_receiver;
    endpoint->require_direct = sender->require_direct;
}

/* Tells every receiver that maps this pool of the memories that it does not know yet. */
static void announce_growth(struct gpud_sender *sender, struct gpud_pool *pool)
{
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        struct gpud_transport *transport = link->transport;
        if (!transport || transport->pool != pool || transport->announced == pool->ring.memories)
            continue;
        struct gpud_message message = {.type = GPUD_MESSAGE_GROW};
        struct gpud_error error;
        bool local = gpud_link_is_local(link);
        if (gpud_ring_describe(&pool->ring, transport->announced, local, &message.grow, &error) !=
            GPUD_OK) {
            gpud_link_kill(link, GPUD_LOG_WARNING, error.reason);
            continue;
        }
        transport->announced = pool->ring.memories;
        gpud_link_send(link, &message);
        gpud_message_close(&message);
        GPUD_STOP_POINT("sender: GROW sent");
    }
}

/* Room for the sender's own slots and those of each receiver that maps the pool, the new one
 * included: a slow one can hold its share, and no more. */
static enum gpud_status make_room(struct gpud_sender *sender, struct gpud_pool *pool,
                                  struct gpud_error *error)
{
    uint32_t shares = 2;
    for (uint32_t i = 0; i < sender->link_count; i++)
        if (sender->links[i]->transport && sender->links[i]->transport->pool == pool)
            shares++;
    enum gpud_status status = GPUD_OK;
    while (pool->ring.memories < shares && status == GPUD_OK)
        status = gpud_pool_grow(pool, error);
    announce_growth(sender, pool);
    return status;
}

/* Sends an OFFER for one route. The old epoch's transport, if there is one, ends with it: what was
 * published there stays the receiver's to read. */
static enum gpud_status offer_route(struct gpud_link *link, const struct gpud_route_ops *route,
                                    struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_transport *transport, *old = link->transport;
    struct gpud_pool *pool = NULL;
    enum gpud_status status;
    struct gpud_message message = {.type = GPUD_MESSAGE_OFFER};

    if (route->ring != GPUD_RING_RECEIVER) {
        pool = gpud_sender_pool(sender, route->ring, error);
        if (!pool)
            return error->status;
        status = make_room(sender, pool, error);
        if (status != GPUD_OK)
            return status;
        bool local = gpud_link_is_local(link);
        status = gpud_ring_describe(&pool->ring, 0, local, &message.offer.ring, error);
        if (status != GPUD_OK)
            return status;
    }
    struct gpud_endpoint self;
    gpud_sender_describe(sender, &self);
    message.offer.signal = gpud_route_signal(route, &self, &link->peer);
    status = gpud_transport_create(route, (enum gpud_signal_place)message.offer.signal, pool,
                                   &transport, error);
    if (status != GPUD_OK) {
        gpud_message_close(&message);
        return status;
    }
    message.offer.epoch = sender->epoch;
    message.offer.layout = sender->layout;
    message.offer.media_size = (uint32_t)sender->media_size;
    memcpy(message.offer.media, sender->media, sender->media_size);
    gpud_print(message.offer.route, "%s", route->name);
    gpud_print(message.offer.reason, "%s", link->against);
    gpud_link_send(link, &message);
    GPUD_STOP_POINT(link->streamed ? "sender: new epoch's OFFER sent" : "sender: OFFER sent");
    gpud_message_close(&message);
    if (link->state == GPUD_LINK_DEAD) {
        gpud_transport_unref(&transport);
        return GPUD_OK;
    }
    link->transport = transport;
    gpud_transport_unref(&old);
    link->state = GPUD_LINK_OFFERED;
    /* A receiver that is paused in mid-stream answers when it goes on; a new one has no reason to
     * wait. */
    link->deadline = link->streamed ? INT64_MAX : gpud_deadline(GPUD_IMPORT_DEADLINE);
    return GPUD_OK;
}

const struct gpud_route_ops *gpud_link_choose_route(struct gpud_link *link)
{
    struct gpud_endpoint self;
    gpud_sender_describe(link->sender, &self);
    return gpud_route_select(&self, &link->peer, &link->trials, link->against);
}

void gpud_link_offer(struct gpud_link *link)
{
    for (;;) {
        const struct gpud_route_ops *route = gpud_link_choose_route(link);
        if (!route) {
            gpud_link_refuse(link, GPUD_UNSUPPORTED, link->against);
            return;
        }
        struct gpud_error error = {0};
        if (offer_route(link, route, &error) == GPUD_OK)
            return;
        gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 ": no %s: %s", link->id, route->name,
                      error.reason);
        gpud_route_failed(&link->trials, route, error.reason);
    }
}

void gpud_link_try_next(struct gpud_link *link, const char *reason)
{
    const struct gpud_route_ops *route = link->transport->route;
    gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 ": %s does not work: %s", link->id,
                  route->name, reason);
    gpud_route_failed(&link->trials, route, reason);
    gpud_link_offer(link);
}
