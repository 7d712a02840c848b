/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The handshake with one receiver, a state machine over its messages (wire/message.h shows the
 * sequence). Nothing here waits for a peer: a silent one exceeds its state's deadline, which the
 * listener's thread checks. Only our own device is waited for, with a deadline: for the test
 * pattern, and to measure the link.
 *
 * Handlers run in the listener's thread without the lock, and take it for each change of state.
 * Another thread may end the link or begin a new epoch meanwhile, so each change first checks that
 * the link is still in the expected state. */
#include "stream/sender/handshake.h"

#include "base/stop.h"
#include "stream/sender/delivery.h"
#include "stream/sender/epoch.h"
#include "stream/sender/offer.h"
#include "stream/sender/poll.h"
#include "stream/sender/receivers.h"
#include "stream/sender/room.h"
#include "stream/sender/waiting.h"
#include "stream/shared/pattern.h"

#include <inttypes.h>
#include <sys/random.h>

#define AREA "sender"

static const struct gpud_log *log_of(const struct gpud_link *link)
{
    return &link->sender->context->log;
}

/* --- the test of the link -------------------------------------------------------------------- */

static enum gpud_status write_pattern(struct gpud_frame *frame, uint64_t *nonce,
                                      struct gpud_error *error)
{
    void *data;
    enum gpud_status status =
        gpud_frame_map(frame, GPUD_READ | GPUD_WRITE, GPUD_PATTERN_DEADLINE, &data, error);
    if (status != GPUD_OK)
        return status;
    if (getrandom(nonce, sizeof(*nonce), 0) != sizeof(*nonce))
        *nonce = (uint64_t)gpud_now();
    gpud_pattern_write(data, frame->info.layout.size, *nonce);
    gpud_frame_unmap(frame);
    frame->info.flags = GPUD_FRAME_CANARY;
    return gpud_frame_check(frame, error);
}

/* Makes a test frame for routes that do not share the device's slots, all of which the application
 * may hold. */
static enum gpud_status make_canary(struct gpud_device *device, const struct gpud_layout *layout,
                                    struct gpud_frame **frame, struct gpud_error *error)
{
    struct gpud_memory *memory;
    enum gpud_status status =
        gpud_memory_alloc(device, layout->size, GPUD_MEMORY_PLAIN, &memory, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_frame_wrap(memory, 0, layout, frame, error);
    gpud_memory_unref(&memory);
    return status;
}

/* Whether this epoch's offer is still the link's current one. Under the lock. */
static bool is_offered(const struct gpud_link *link, uint32_t epoch)
{
    return link->state == GPUD_LINK_OFFERED && epoch == link->sender->epoch;
}

/* Takes a slot for the test frame: the pool has grown by this link's share. */
static enum gpud_status take_canary_slot(struct gpud_link *link, struct gpud_delivery *delivery,
                                         struct gpud_error *error)
{
    struct gpud_pool *pool = link->transport->pool;
    struct gpud_slot *slot = pool ? gpud_pool_take(pool) : NULL;
    if (pool && !slot && gpud_waiting_reclaim_slot(link->sender, pool, true))
        slot = gpud_pool_take(pool);
    if (pool && !slot)
        return gpud_fail(error, GPUD_NO_MEMORY, "no slot is free for the test of the link");
    if (slot && pool == link->sender->device_pool) {
        gpud_slot_hold(slot);
        delivery->device_slot = slot;
        delivery->frame = &slot->frame;
    } else {
        delivery->host_slot = slot;
    }
    return GPUD_OK;
}

static void drop_canary(struct gpud_delivery *delivery)
{
    if (delivery->device_slot)
        gpud_slot_drop(delivery->device_slot);
    if (delivery->host_slot)
        gpud_slot_drop(delivery->host_slot);
    gpud_frame_release(&delivery->frame);
}

/* Sends the CANARY and delivers the test frame to this receiver alone, like any frame. GPUD_CLOSED:
 * the link changed meanwhile, so there is no test. */
static enum gpud_status deliver_canary(struct gpud_link *link, struct gpud_delivery *delivery,
                                       struct gpud_message *message, struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_delivery_target *target = &delivery->target[0];
    enum gpud_status status = is_offered(link, message->canary.epoch) ? GPUD_OK : GPUD_CLOSED;
    if (status == GPUD_OK && !gpud_page_take(&link->transport->page, &target->entry))
        status = gpud_fail(error, GPUD_PEER, "the receiver's ring has no free entry");
    if (status != GPUD_OK) {
        drop_canary(delivery);
        return status;
    }
    target->link = link;
    target->transport = link->transport;
    link->references++;
    link->transport->references++;
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
    gpud_sender_lock(sender);
    enum gpud_status status =
        is_offered(link, epoch) ? take_canary_slot(link, &delivery, error) : GPUD_CLOSED;
    struct gpud_layout layout = sender->rows;
    gpud_sender_unlock(sender);
    if (status != GPUD_OK)
        return status;
    if (!delivery.frame)
        status = make_canary(sender->device, &layout, &delivery.frame, error);
    if (status == GPUD_OK)
        status = write_pattern(delivery.frame, &message.canary.nonce, error);
    if (status != GPUD_OK) {
        drop_canary(&delivery);
        return status;
    }
    gpud_sender_lock(sender);
    status = deliver_canary(link, &delivery, &message, error);
    gpud_sender_unlock(sender);
    return status;
}

/* --- messages -------------------------------------------------------------------------------- */

/* Measures the link if the choice of its route depends on it. */
static void measure(struct gpud_link *link)
{
    struct gpud_sender *sender = link->sender;
    const struct gpud_route_ops *route = link->transport->route;
    struct gpud_endpoint self;
    gpud_link_describe(link, &self);
    if (!gpud_route_wants_rate(route, &self, &link->peer, link->trials))
        return;
    gpud_sender_lock(sender);
    uint64_t size = gpud_sender_layout(sender, route->ring)->size;
    gpud_sender_unlock(sender);
    gpud_route_measured(link->trials, route,
                        gpud_transport_measure(link->transport, sender->queue, size));
}

/* Makes a transport that is connected to the receiver's ring or page; it replaces the offer's when
 * ready. */
static enum gpud_status connect_transport(struct gpud_link *link, const struct gpud_accept *accept,
                                          uint64_t frame_size, struct gpud_transport **transport,
                                          struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    const struct gpud_transport *offered = link->transport;
    enum gpud_status status = gpud_transport_create(offered->route, offered->place, offered->pool,
                                                    &sender->retired, transport, error);
    if (status != GPUD_OK)
        return status;
    if (offered->route->slots)
        status = offered->route->slots->open(link->peer_device, &(*transport)->queues.own, error);
    if (status == GPUD_OK)
        status = gpud_transport_connect(
            *transport, link->slots, sender->device, sender->host, link->channel, offered->remote,
            accept, gpud_link_is_same_process(link), frame_size, sender->large_meta_max, error);
    if (status != GPUD_OK) {
        gpud_sender_lock(sender);
        gpud_transport_unref(transport);
        gpud_sender_unlock(sender);
    }
    return status;
}

/* Replaces the offered transport by the connected one. */
static void use_transport(struct gpud_link *link, struct gpud_transport *connected)
{
    struct gpud_transport *offered = link->transport;
    connected->remote = offered->remote;
    offered->remote = NULL;
    if (!connected->remote)
        connected->known_memories = offered->known_memories;
    link->transport = connected;
    gpud_transport_unref(&offered);
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
    if (expected && status == GPUD_OK)
        use_transport(link, connected);
    else
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
        measure(link);
        if (gpud_link_choose_route(link) != route) {
            gpud_link_offer(link);
            return;
        }
        status = send_canary(link, accept->epoch, &error);
    }
    if (status == GPUD_OK)
        GPUD_STOP_POINT("sender: CANARY sent");
    else if (status != GPUD_CLOSED)
        gpud_link_try_next(link, error.reason);
}

/* Sends the sticky events, which a new receiver needs before its first frame. */
static void send_sticky(struct gpud_link *link)
{
    const struct gpud_sender *sender = link->sender;
    for (int i = 0; i < GPUD_STICKY_MAX; i++) {
        if (!sender->sticky[i])
            continue;
        struct gpud_message message = {.type = GPUD_MESSAGE_EVENT, .event = *sender->sticky[i]};
        gpud_link_send(link, &message);
    }
    if (sender->ended) {
        struct gpud_message message = {.type = GPUD_MESSAGE_EOS, .epoch = sender->epoch};
        gpud_link_send(link, &message);
    }
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
        gpud_print(sender->path, "%s", link->transport->route->name);
        gpud_print(sender->fallback_reason, "%s", link->fallback_reason);
        gpud_page_start(&link->transport->page, link->started ? link->start : sender->sequence);
        GPUD_STOP_POINT("sender: READY read");
    }
    if (first) {
        sender->connects++;
        send_sticky(link);
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
}

static bool is_answer(enum gpud_message_type type)
{
    return type == GPUD_MESSAGE_ACCEPT || type == GPUD_MESSAGE_READY || type == GPUD_MESSAGE_REFUSE;
}

/* A KICK answers a request of a polling sender. Some may be late; more of them are a flood. */
#define STRAY_KICKS_MAX 64
static void handle_kick(struct gpud_link *link)
{
    gpud_sender_lock(link->sender);
    link->waiting.is_armed = false; /* this turn of the thread handles the returned entries */
    if (!gpud_sender_poll_kick(link) && ++link->stray_kicks > STRAY_KICKS_MAX)
        gpud_link_kill(link, GPUD_LOG_WARNING, "broke the protocol: unrequested KICKs");
    gpud_sender_unlock(link->sender);
}

static void handle_refuse(struct gpud_link *link, const struct gpud_refuse *refuse)
{
    gpud_sender_lock(link->sender);
    bool expected = refuse->epoch == link->sender->epoch && link->state < GPUD_LINK_STREAMING;
    gpud_sender_unlock(link->sender);
    if (expected)
        gpud_link_try_next(link, refuse->reason);
}

/* It takes effect at once in a shared ring, and else with the next offer. */
static void handle_slots(struct gpud_link *link, uint32_t asked)
{
    if (asked <= link->slots_asked)
        return; /* frames may be held, so that slots cannot be taken back */
    link->slots_asked = asked;
    link->raise_at = 0;
    gpud_room_raise(link, gpud_now());
}

void gpud_link_handle(struct gpud_link *link, struct gpud_message *message)
{
    enum gpud_link_state state = link->state;
    if (state == GPUD_LINK_DEAD)
        return;
    if (message->type == GPUD_MESSAGE_KICK) {
        handle_kick(link);
    } else if (message->type == GPUD_MESSAGE_SLOTS && link->epoch) {
        handle_slots(link, message->slots);
    } else if (message->type == GPUD_MESSAGE_BYE && state != GPUD_LINK_LEAVING) {
        char why[GPUD_REASON_MAX];
        gpud_print(why, "said goodbye: %s", message->refuse.reason);
        gpud_sender_lock(link->sender);
        gpud_link_leave(link, why);
        gpud_sender_unlock(link->sender);
    } else if (state == GPUD_LINK_OFFERED && message->type == GPUD_MESSAGE_ACCEPT) {
        handle_accept(link, &message->accept);
    } else if (state == GPUD_LINK_CANARY && message->type == GPUD_MESSAGE_READY) {
        handle_ready(link, message->epoch);
    } else if ((state == GPUD_LINK_OFFERED || state == GPUD_LINK_CANARY) &&
               message->type == GPUD_MESSAGE_REFUSE) {
        handle_refuse(link, &message->refuse);
    } else if ((state == GPUD_LINK_OFFERED && message->type == GPUD_MESSAGE_READY) ||
               (state == GPUD_LINK_IDLE && link->epoch && is_answer(message->type))) {
        return; /* answers an earlier offer */
    } else {
        char why[96];
        gpud_print(why, "broke the protocol: an unexpected %s", gpud_message_name(message->type));
        gpud_link_end(link, GPUD_LOG_WARNING, why);
    }
    /* The caller closes the attachments; handlers have duplicated those they keep. */
}
