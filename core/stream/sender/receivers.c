/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Adding and removing receivers. Links that other threads have ended, under the lock, are logged,
 * reported and freed here. */
#include "stream/sender/receivers.h"

#include "base/stop.h"
#include "route/place.h"
#include "stream/sender/delivery.h"

#include <inttypes.h>
#include <stdlib.h>

#define AREA "sender"

static const struct gpud_log *log_of(const struct gpud_link *link)
{
    return &link->sender->context->log;
}

/* --- beginning ----------------------------------------------------------------------------- */

void gpud_link_describe(const struct gpud_link *link, struct gpud_endpoint *endpoint)
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

/* Without the lock: this may query drivers and the machine. */
static void learn_peer(struct gpud_link *link, const struct gpud_endpoint *hello)
{
    const struct gpud_sender *sender = link->sender;
    link->peer = *hello;
    /* Every peer knows our token, so only the channel can tell which peer is this process. */
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
    learn_peer(made, hello);
    gpud_channel_watch_peer(channel);
    struct gpud_message message = {.type = GPUD_MESSAGE_HELLO};
    gpud_link_describe(made, &message.hello);
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
    gpud_sender_unlock(link->sender);
}

static void log_end(struct gpud_link *link)
{
    char peer_text[GPUD_PEER_TEXT_MAX];
    link->end_logged = true;
    gpud_log_at(log_of(link), link->end.level, AREA, "receiver %" PRIu64 " (%s, %s): %s", link->id,
                link->peer.name, gpud_peer_text(&link->channel->peer, peer_text), link->end.why);
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

/* Reports each link that streamed, and its end, to the application. */
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
