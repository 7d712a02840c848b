/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One receiver from its HELLO to its end. Any thread may end a link, under the lock; the listener's
 * thread then logs that, tells the application and takes the link apart. The handshake stands in
 * handshake.c. */
#include "base/stop.h"
#include "route/place.h"
#include "stream/sender/sender.h"

#include <inttypes.h>
#include <stdlib.h>

#define AREA "sender"

static const struct gpud_log *log_of(const struct gpud_link *link)
{
    return &link->sender->context->log;
}

/* --- beginning ------------------------------------------------------------------------------ */

/* Free of the lock: this may look at drivers and at the machine. */
static void learn_peer(struct gpud_link *link, const struct gpud_endpoint *hello)
{
    const struct gpud_sender *sender = link->sender;
    link->peer = *hello;
    /* Every peer learns our token: only the channel's word says who is this process. */
    if (!link->channel->peer.same_process)
        link->peer.token = 0;
    if (gpud_link_is_same_process(link))
        link->peer_device = gpud_context_find_device(sender->context, hello->device);
    if (link->peer_device)
        link->peer.common = link->peer_device->common;
    char why[GPUD_REASON_MAX];
    gpud_route_explain_link(sender->device, hello, why);
    gpud_route_note_link(link->trials, why);
    link->requested_policy = (enum gpud_slow_receiver)hello->slow_receiver;
}

static void free_link(struct gpud_link *link)
{
    gpud_device_close(&link->peer_device);
    gpud_channel_unref(&link->channel);
    gpud_route_trials_destroy(&link->trials);
    free(link);
}

enum gpud_status gpud_link_create(struct gpud_sender *sender, struct gpud_channel *channel,
                                  const struct gpud_endpoint *hello, struct gpud_link **link,
                                  const char **why)
{
    *why = "its HELLO asks for what does not exist";
    if (hello->slow_receiver > GPUD_SLOW_DROP_OLDEST || hello->slots < 1 ||
        hello->slots > GPUD_SLOTS_MAX)
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
    made->deadline = INT64_MAX;
    learn_peer(made, hello);
    struct gpud_message message = {.type = GPUD_MESSAGE_HELLO};
    gpud_link_describe(made, &message.hello);
    made->same_clock =
        gpud_endpoints_share_clock(hello, &message.hello, gpud_peer_is_here(&channel->peer));
    struct gpud_error error;
    enum gpud_status status = gpud_channel_send(channel, &message, &error);
    /* A peer that has closed the connection may have said goodbye before. */
    if (status != GPUD_OK && status != GPUD_PEER) {
        made->channel = NULL;
        free_link(made);
        *why = "its HELLO cannot be answered";
        return GPUD_AGAIN;
    }
    *link = made;
    return GPUD_OK;
}

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
        free_link(gone);
    }
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

/* --- the end --------------------------------------------------------------------------------- */

/* No more frames are for it. */
static void note_end(struct gpud_link *link, enum gpud_log_level level, const char *why)
{
    struct gpud_sender *sender = link->sender;
    if (link->end.is_set)
        return;
    link->end.is_set = true;
    link->end.level = level;
    gpud_print(link->end.why, "%s", why);
    if (link->streamed)
        sender->disconnects++;
    else
        atomic_fetch_add(&sender->refused, 1);
}

/* Whatever waits for the link, or for what it held, looks again. */
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
    link->state = GPUD_LINK_DEAD;
    gpud_waiting_clear(link);
    /* A receiver that maps our ring can only read, and where the ring is the receiver's nothing of
     * ours is left there. It is told before the connection ends, and before a slot is written anew.
     * Model (tests/model): evict, end.1 in ring.pml. */
    if (link->transport && !sender->closing)
        gpud_transport_take_all_back(link->transport);
    wake_all(link);
}

void gpud_link_end(struct gpud_link *link, enum gpud_log_level level, const char *why)
{
    gpud_sender_lock(link->sender);
    gpud_link_kill(link, level, why);
    gpud_sender_unlock(link->sender);
}

/* What it has not taken yet is ours again; what it holds comes back. Model (tests/model): bye.2,
 * bye.3 in ring.pml. */
void gpud_link_leave(struct gpud_link *link, const char *why)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;
    gpud_sender_lock(sender);
    struct gpud_transport *transport = link->transport;
    while (transport && transport->page.page && status == GPUD_OK)
        status = gpud_transport_revoke(transport, &error);
    if (transport && status == GPUD_AGAIN)
        status = gpud_transport_reap(transport, &error);
    if (status != GPUD_OK || !transport || transport->remote ||
        !gpud_transport_is_in_use(transport)) {
        gpud_link_kill(link, GPUD_LOG_INFO, why);
    } else if (link->state != GPUD_LINK_DEAD) {
        note_end(link, GPUD_LOG_INFO, why);
        link->state = GPUD_LINK_LEAVING;
        link->deadline = INT64_MAX;
        gpud_waiting_clear(link);
        wake_all(link);
    }
    gpud_sender_unlock(sender);
}

static void log_end(struct gpud_link *link)
{
    char who[GPUD_PEER_TEXT_MAX];
    link->end_logged = true;
    gpud_log_at(log_of(link), link->end.level, AREA, "receiver %" PRIu64 " (%s, %s): %s", link->id,
                link->peer.name, gpud_peer_text(&link->channel->peer, who), link->end.why);
}

static void report(const struct gpud_link *link,
                   void (*callback)(void *user, const struct gpud_peer_info *peer))
{
    struct gpud_peer_info info;
    if (!callback)
        return;
    gpud_link_peer_info(link, &info);
    callback(link->sender->user, &info);
}

/* The application hears of each link that streamed, and of its end. */
static void report_changes(struct gpud_link *link, bool ended)
{
    const struct gpud_sender *sender = link->sender;
    if (link->streamed && !link->connect_reported) {
        link->connect_reported = true;
        report(link, sender->on_connect);
    }
    if (ended && !link->end_logged)
        log_end(link);
    if (ended && link->connect_reported && !link->end_reported) {
        link->end_reported = true;
        report(link, sender->on_disconnect);
    }
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
    for (uint32_t i = 0; i < count; i++)
        report_changes(sender->links[i], ended[i]);
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
    struct gpud_transport *transports = gpud_retired_take(&sender->retired);
    struct gpud_link *links = sender->retired_links;
    sender->retired_links = NULL;
    gpud_sender_unlock(sender);
    gpud_retired_destroy(transports);
    gpud_links_free(links);
}

/* --- messages -------------------------------------------------------------------------------- */

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
    gpud_sender_lock(link->sender);
    message.refuse.epoch = link->sender->epoch;
    message.refuse.status = status;
    gpud_print(message.refuse.reason, "%s", reason);
    if (link->state != GPUD_LINK_DEAD)
        gpud_link_send(link, &message);
    gpud_link_kill(link, GPUD_LOG_WARNING, reason);
    gpud_sender_unlock(link->sender);
}
