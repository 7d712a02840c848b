/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One receiver, as a state machine over its messages (the sequence stands in wire/message.h).
 * Nothing here waits for a peer: one that says nothing runs into the deadline of its state, which
 * the listener's thread watches. The own device is waited for twice, without the lock and with a
 * deadline: for the test pattern, and where the link is measured. */
#include "base/stop.h"
#include "stream/shared/pattern.h"
#include "stream/sender/sender.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define AREA "sender"

static const struct gpud_log *log_of(const struct gpud_link *link)
{
    return &link->sender->context->log;
}

struct gpud_link *gpud_link_create(struct gpud_sender *sender, struct gpud_channel *channel)
{
    struct gpud_link *link = calloc(1, sizeof(*link));
    if (!link)
        return NULL;
    link->references = 1;
    link->sender = sender;
    link->id = ++sender->link_ids;
    link->channel = channel;
    link->state = GPUD_LINK_HELLO;
    link->deadline = gpud_deadline(GPUD_HELLO_DEADLINE);
    gpud_print(link->peer.name, "?");
    return link;
}

void gpud_link_unref(struct gpud_link *link)
{
    if (--link->references)
        return;
    gpud_transport_unref(&link->transport);
    gpud_device_close(&link->there);
    gpud_channel_unref(&link->channel);
    free(link);
}

void gpud_link_peer_info(const struct gpud_link *link, struct gpud_peer_info *info)
{
    *info = (struct gpud_peer_info){.id = link->id, .pid = link->channel->peer.pid};
    gpud_print(info->name, "%s", link->peer.name);
    gpud_print(info->path, "%s", link->transport ? link->transport->route->name : "none");
    gpud_print(info->fallback_reason, "%s", link->fallback_reason);
    gpud_print(info->host, "%s", link->channel->peer.host);
    info->same_clock = link->same_clock;
}

/* No more frames are for it, which is logged and counted once. */
static void end(struct gpud_link *link, enum gpud_log_level level, const char *why)
{
    struct gpud_sender *sender = link->sender;
    if (link->state == GPUD_LINK_LEAVING)
        return;
    char who[GPUD_PEER_TEXT_MAX];
    gpud_log_at(log_of(link), level, AREA, "receiver %" PRIu64 " (%s, %s): %s", link->id,
                link->peer.name, gpud_peer_text(&link->channel->peer, who), why);
    if (link->streamed)
        sender->disconnects++;
    else
        sender->refused++;
}

/* Whoever waits for it, or for what it held, looks again. */
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
    end(link, level, why);
    link->state = GPUD_LINK_DEAD;
    gpud_waiting_clear(link);
    /* A receiver that maps our ring can only read, and where the ring is the receiver's nothing of
     * ours is left there. It is told before the connection ends, and before a slot is written anew.
     * Model (tests/model): evict, end.1 in ring.pml. */
    if (link->transport && !sender->closing)
        gpud_transport_take_all_back(link->transport);
    wake_all(link);
    gpud_transport_unref(&link->transport);
    gpud_channel_hang_up(link->channel); /* now: copies under way may keep it for a while */
}

/* It takes no more frames. What it has not taken yet is ours again; what it holds comes back. Model
 * (tests/model): bye.2, bye.3 in ring.pml. */
static void leave(struct gpud_link *link, const char *why)
{
    struct gpud_transport *transport = link->transport;
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;
    while (transport && transport->page.page && status == GPUD_OK)
        status = gpud_transport_revoke(transport, &error);
    if (transport && status == GPUD_AGAIN)
        status = gpud_transport_reap(transport, &error);
    if (status != GPUD_OK || !transport || transport->remote ||
        !gpud_transport_is_in_use(transport)) {
        gpud_link_kill(link, GPUD_LOG_INFO, why);
        return;
    }
    end(link, GPUD_LOG_INFO, why);
    link->state = GPUD_LINK_LEAVING;
    link->deadline = INT64_MAX;
    gpud_waiting_clear(link);
    wake_all(link);
}

enum gpud_status gpud_link_try_send(struct gpud_link *link, struct gpud_message *message,
                                    struct gpud_error *error)
{
    bool placed = link->transport && link->transport->page.page;
    if (placed)
        message->position = gpud_transport_position(link->transport);
    enum gpud_status status = gpud_channel_send(link->channel, message, error);
    if (status == GPUD_PEER)
        return GPUD_OK;
    GPUD_STOP_POINT("sender: message sent, not counted");
    if (status == GPUD_OK && placed)
        gpud_transport_count_message(link->transport);
    return status;
}

void gpud_link_send(struct gpud_link *link, struct gpud_message *message)
{
    struct gpud_error error;
    if (gpud_link_try_send(link, message, &error) != GPUD_OK)
        gpud_link_kill(link, GPUD_LOG_WARNING, error.reason);
}

void gpud_link_refuse(struct gpud_link *link, enum gpud_status status, const char *reason)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_REFUSE};
    message.refuse.epoch = link->sender->epoch;
    message.refuse.status = status;
    gpud_print(message.refuse.reason, "%s", reason);
    gpud_link_send(link, &message);
    gpud_link_kill(link, GPUD_LOG_WARNING, reason);
}

/* --- the handshake ------------------------------------------------------------------------- */

static void handle_hello(struct gpud_link *link, const struct gpud_endpoint *hello)
{
    struct gpud_sender *sender = link->sender;
    link->peer = *hello;
    /* Every peer learns our token: only the channel's word says who is this process. */
    if (!link->channel->peer.same_process)
        link->peer.token = 0;
    if (gpud_link_is_same_process(link))
        link->there = gpud_context_find_device(sender->context, hello->device);
    if (link->there)
        link->peer.common = link->there->common;
    if (hello->slow_receiver > GPUD_SLOW_DROP_OLDEST || hello->slots < 1 ||
        hello->slots > GPUD_SLOTS_MAX) {
        gpud_link_refuse(link, GPUD_INVALID, "its HELLO asks for what does not exist");
        return;
    }
    GPUD_STOP_POINT("sender: HELLO read");
    gpud_route_explain_link(sender->device, hello, link->trials.link);
    link->requested_policy = (enum gpud_slow_receiver)hello->slow_receiver;
    struct gpud_message message = {.type = GPUD_MESSAGE_HELLO};
    gpud_link_describe(link, &message.hello);
    link->same_clock =
        gpud_endpoints_share_clock(hello, &message.hello, gpud_peer_is_here(&link->channel->peer));
    gpud_link_send(link, &message);
    if (link->state == GPUD_LINK_DEAD)
        return;
    struct gpud_error error;
    bool cleared = gpud_link_clear_ring(link, &error) == GPUD_OK;
    if (link->state == GPUD_LINK_DEAD)
        return; /* the lock was dropped meanwhile */
    if (!cleared) {
        gpud_link_refuse(link, GPUD_AGAIN, error.reason);
        return;
    }
    link->state = GPUD_LINK_IDLE;
    link->deadline = INT64_MAX;
    if (sender->configured)
        gpud_link_offer(link);
}

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

/* The test frame, where slots of the device are not what the route shares: the application may hold
 * all of them. */
static enum gpud_status make_canary(struct gpud_device *device, const struct gpud_layout *layout,
                                    struct gpud_frame **frame, struct gpud_error *error)
{
    struct gpud_memory *memory;
    enum gpud_status status = gpud_memory_alloc(device, layout->size, &memory, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_frame_wrap(memory, 0, layout, frame, error);
    gpud_memory_unref(&memory);
    return status;
}

/* The slot that the test frame needs: each link that shares a pool has brought room for its own. */
static enum gpud_status take_canary_slot(struct gpud_link *link, struct gpud_delivery *delivery,
                                         struct gpud_error *error)
{
    struct gpud_pool *pool = link->transport->pool;
    struct gpud_slot *slot = pool ? gpud_pool_take(pool) : NULL;
    if (pool && !slot && gpud_waiting_give_way(link->sender, pool))
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

/* Sends the test frame, by the same way as every frame, to this receiver alone. GPUD_AGAIN: the
 * link changed meanwhile (the lock is dropped), and the test is off. */
static enum gpud_status send_canary(struct gpud_link *link, uint64_t *nonce,
                                    struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_transport *transport = link->transport;
    struct gpud_delivery delivery = {.consume = true, .canary = true, .count = 1};
    enum gpud_status status = take_canary_slot(link, &delivery, error);
    if (status != GPUD_OK)
        return status;

    struct gpud_layout layout = sender->layout;
    transport->references++;
    gpud_sender_unlock(sender);
    if (!delivery.frame)
        status = make_canary(sender->device, &layout, &delivery.frame, error);
    if (status == GPUD_OK)
        status = write_pattern(delivery.frame, nonce, error);
    gpud_sender_lock(sender);
    struct gpud_target *target = &delivery.target[0];
    if (status == GPUD_OK && (link->state != GPUD_LINK_OFFERED || link->transport != transport))
        status = GPUD_AGAIN;
    if (status == GPUD_OK && !gpud_page_take(&transport->page, &target->entry))
        status = gpud_fail(error, GPUD_PEER, "the receiver's ring has no free entry");
    if (status != GPUD_OK) {
        gpud_transport_unref(&transport);
        if (delivery.device_slot)
            gpud_slot_drop(delivery.device_slot);
        if (delivery.host_slot)
            gpud_slot_drop(delivery.host_slot);
        gpud_frame_release(&delivery.frame);
        return status;
    }
    target->link = link;
    target->transport = transport;
    link->references++;
    delivery.sequence = sender->sequence;
    return gpud_deliver(sender, &delivery, error);
}

/* Measures the link where the choice of its route depends on that. The lock is dropped meanwhile.
 */
static void measure(struct gpud_link *link)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_transport *transport = link->transport;
    const struct gpud_route_ops *route = transport->route;
    uint64_t size = sender->layout.size;
    struct gpud_endpoint self;
    gpud_link_describe(link, &self);
    if (!gpud_route_wants_rate(route, &self, &link->peer, &link->trials))
        return;
    transport->references++;
    gpud_sender_unlock(sender);
    double rate = gpud_transport_measure(transport, sender->queue, size);
    gpud_sender_lock(sender);
    gpud_transport_unref(&transport);
    gpud_route_measured(&link->trials, route, rate);
}

/* The offer's transport, connected to what the receiver made. Mapping, pinning and importing take
 * their time, for which the lock is dropped: it is another transport, which takes the place of the
 * offer's when it is ready. */
static enum gpud_status connect_transport(struct gpud_link *link, const struct gpud_accept *accept,
                                          struct gpud_transport **transport,
                                          struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    const struct gpud_transport *offered = link->transport; /* the caller keeps it */
    uint64_t frame_size = sender->layout.size;
    enum gpud_status status = gpud_transport_create(offered->route, offered->place, offered->pool,
                                                    &sender->retired, transport, error);
    if (status != GPUD_OK)
        return status;
    gpud_sender_unlock(sender);
    if (offered->route->moves)
        status = gpud_queue_create(link->there, &(*transport)->queues.move, error);
    if (status == GPUD_OK)
        status = gpud_transport_connect(*transport, sender->device, sender->host, link->channel,
                                        offered->remote, accept, gpud_link_is_same_process(link),
                                        frame_size, error);
    gpud_sender_lock(sender);
    if (status != GPUD_OK)
        gpud_transport_unref(transport);
    return status;
}

static void handle_accept(struct gpud_link *link, const struct gpud_accept *accept)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_transport *offered = link->transport, *connected = NULL;
    struct gpud_error error;
    if (accept->epoch != sender->epoch)
        return; /* to an offer that was overtaken by the next one */
    offered->references++;
    enum gpud_status status = connect_transport(link, accept, &connected, &error);
    bool overtaken = link->state != GPUD_LINK_OFFERED || link->transport != offered ||
                     accept->epoch != sender->epoch;
    gpud_transport_unref(&offered);
    if (overtaken) { /* while the lock was dropped */
        gpud_transport_unref(&connected);
        return;
    }
    if (status != GPUD_OK) {
        if (error.status == GPUD_PEER)
            gpud_link_refuse(link, GPUD_PEER, error.reason);
        else
            gpud_link_try_next(link, error.reason);
        return;
    }
    connected->remote = link->transport->remote;
    link->transport->remote = NULL;
    if (!connected->remote)
        connected->known_memories = link->transport->known_memories;
    gpud_transport_unref(&link->transport);
    link->transport = connected;
    GPUD_STOP_POINT("sender: ACCEPT read");
    const struct gpud_route_ops *route = link->transport->route;
    status = gpud_link_register_sources(link, &error);
    if (status == GPUD_OK)
        measure(link);
    if (link->state != GPUD_LINK_OFFERED || accept->epoch != sender->epoch)
        return; /* the lock was dropped meanwhile */
    if (status != GPUD_OK) {
        gpud_link_try_next(link, error.reason);
        return;
    }
    if (gpud_link_choose_route(link) != route) {
        gpud_link_offer(link);
        return;
    }
    struct gpud_message message = {.type = GPUD_MESSAGE_CANARY};
    message.canary.epoch = sender->epoch;
    status = send_canary(link, &message.canary.nonce, &error);
    if (link->state != GPUD_LINK_OFFERED || message.canary.epoch != sender->epoch)
        return; /* the lock was dropped meanwhile */
    if (status != GPUD_OK) {
        gpud_link_try_next(link, error.reason);
        return;
    }
    link->state = GPUD_LINK_CANARY;
    if (!link->streamed)
        link->deadline = gpud_deadline(GPUD_IMPORT_DEADLINE);
    gpud_link_send(link, &message);
    GPUD_STOP_POINT("sender: CANARY sent");
}

static void handle_ready(struct gpud_link *link, uint32_t epoch)
{
    struct gpud_sender *sender = link->sender;
    if (epoch != sender->epoch)
        return;
    bool first = !link->streamed;
    link->state = GPUD_LINK_STREAMING;
    link->deadline = INT64_MAX;
    link->streamed = true;
    gpud_print(sender->path, "%s", link->transport->route->name);
    gpud_print(sender->fallback_reason, "%s", link->fallback_reason);
    gpud_page_start(&link->transport->page, link->started ? link->start : sender->sequence);
    GPUD_STOP_POINT("sender: READY read");
    if (first) {
        sender->connects++;
        char who[GPUD_PEER_TEXT_MAX];
        gpud_log_info(log_of(link), AREA, "receiver %" PRIu64 " (%s, %s) connected by %s%s%s",
                      link->id, link->peer.name, gpud_peer_text(&link->channel->peer, who),
                      sender->path, link->fallback_reason[0] ? ", because " : "",
                      link->fallback_reason);
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
    gpud_sender_changed(sender);
}

static bool is_answer(enum gpud_message_type type)
{
    return type == GPUD_MESSAGE_ACCEPT || type == GPUD_MESSAGE_READY || type == GPUD_MESSAGE_REFUSE;
}

/* A KICK is for who polls the connection, once. One may be late; more of them are a flood. */
#define STRAY_KICKS_MAX 64
static void handle_kick(struct gpud_link *link)
{
    link->waiting.is_armed = false; /* this turn of the thread sees what came back */
    if (!gpud_sender_poll_kick(link) && ++link->stray_kicks > STRAY_KICKS_MAX)
        gpud_link_kill(link, GPUD_LOG_WARNING, "broke the protocol: KICKs that nobody asked for");
}

void gpud_link_handle(struct gpud_link *link, struct gpud_message *message)
{
    if (message->type == GPUD_MESSAGE_KICK && link->state != GPUD_LINK_HELLO) {
        handle_kick(link);
    } else if (message->type == GPUD_MESSAGE_BYE && link->state != GPUD_LINK_LEAVING) {
        char why[GPUD_REASON_MAX];
        gpud_print(why, "said goodbye: %s", message->refuse.reason);
        leave(link, why);
    } else if (link->state == GPUD_LINK_HELLO && message->type == GPUD_MESSAGE_HELLO) {
        handle_hello(link, &message->hello);
    } else if (link->state == GPUD_LINK_OFFERED && message->type == GPUD_MESSAGE_ACCEPT) {
        handle_accept(link, &message->accept);
    } else if (link->state == GPUD_LINK_CANARY && message->type == GPUD_MESSAGE_READY) {
        handle_ready(link, message->epoch);
    } else if ((link->state == GPUD_LINK_OFFERED || link->state == GPUD_LINK_CANARY) &&
               message->type == GPUD_MESSAGE_REFUSE) {
        if (message->refuse.epoch == link->sender->epoch)
            gpud_link_try_next(link, message->refuse.reason);
    } else if ((link->state == GPUD_LINK_OFFERED && message->type == GPUD_MESSAGE_READY) ||
               (link->state == GPUD_LINK_IDLE && link->offers && is_answer(message->type))) {
        return; /* to an offer before this one, or before the one that has to wait */
    } else {
        char why[96];
        gpud_print(why, "broke the protocol: a %s that nobody expects",
                   gpud_message_name(message->type));
        gpud_link_kill(link, GPUD_LOG_WARNING, why);
    }
    /* What a message brought along and was used has been duplicated by its user. */
}
