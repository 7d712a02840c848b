/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One receiver: sending to it, and its end. Any thread may end a link, under the lock; the
 * listener's thread then logs it, notifies the application and frees the link (receivers.c). */
#include "stream/sender/link.h"

#include "base/stop.h"
#include "frame/large_meta.h"

#include <stdlib.h>
#include <string.h>

bool gpud_link_is_same_process(const struct gpud_link *link)
{
    return link->peer.token == link->sender->context->token;
}

/* Even in one process, another driver has to import a device's memory. */
bool gpud_link_goes_by_pointer(const struct gpud_link *link, const struct gpud_pool *pool)
{
    return gpud_link_is_same_process(link) &&
           (pool->device == link->sender->host ||
            strcmp(link->peer.kind, gpud_device_kind(pool->device)) == 0);
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

/* --- references ---------------------------------------------------------------------------- */

static void free_link(struct gpud_link *link)
{
    gpud_device_close(&link->peer_device);
    gpud_channel_unref(&link->channel);
    gpud_route_trials_destroy(&link->trials);
    free(link);
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

/* --- messages ------------------------------------------------------------------------------ */

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

/* --- the end ------------------------------------------------------------------------------- */

void gpud_sender_changed(struct gpud_sender *sender)
{
    atomic_fetch_add(&sender->changes, 1);
    gpud_futex_wake(&sender->changes);
    gpud_event_raise(sender->loop.event);
}

struct gpud_waiting_frame *gpud_link_take_waiting(struct gpud_link *link)
{
    struct gpud_waiting_frame *frame = link->waiting.frames;
    link->waiting.frames = frame->next;
    link->waiting.count--;
    return frame;
}

void gpud_waiting_frame_free(struct gpud_waiting_frame *frame)
{
    gpud_large_meta_clear(&frame->info);
    gpud_slot_drop(frame->slot);
    free(frame);
}

void gpud_link_drop_waiting(struct gpud_link *link)
{
    struct gpud_waiting_frame *frame = gpud_link_take_waiting(link);
    bool had_ring = link->state >= GPUD_LINK_STREAMING && link->epoch == frame->slot->pool->epoch;
    gpud_link_count_drop(link, had_ring ? &link->dropped_oldest : &link->dropped_format);
    gpud_waiting_frame_free(frame);
}

/* Drops the waiting frames and messages. */
static void clear_waiting(struct gpud_link *link)
{
    struct gpud_waiting *waiting = &link->waiting;
    while (waiting->first) {
        struct gpud_held_message *gone = waiting->first;
        waiting->first = gone->next;
        free(gone);
    }
    waiting->held = 0;
    while (waiting->frames)
        gpud_link_drop_waiting(link);
    waiting->owes_offer = false;
    waiting->give_up = waiting->look = 0;
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
        sender->disconnects++;
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
    clear_waiting(link);
    /* A receiver can only read our ring, so taking slots back is safe; it is marked in the page
     * before the connection ends and before a slot is overwritten. Model (tests/model): evict,
     * end.1 in ring.pml. */
    if (link->transport && !sender->closing)
        gpud_transport_take_all_back(link->transport);
    wake_all(link);
}

/* Takes back unclaimed frames; the receiver gives back those that it holds. Model (tests/model):
 * bye.2, bye.3 in ring.pml. */
void gpud_link_leave(struct gpud_link *link, const char *why)
{
    struct gpud_error error;
    enum gpud_status status = GPUD_OK;
    struct gpud_transport *transport = link->transport;
    while (transport && transport->page.page &&
           (status = gpud_transport_revoke(transport, &error)) == GPUD_OK)
        gpud_link_uncount(link, 1);
    if (transport && status == GPUD_AGAIN)
        status = gpud_transport_reap(transport, &error);
    if (status != GPUD_OK || !transport || transport->remote ||
        !gpud_transport_is_in_use(transport)) {
        gpud_link_kill(link, GPUD_LOG_INFO, why);
    } else if (link->state != GPUD_LINK_DEAD) {
        note_end(link, GPUD_LOG_INFO, why);
        link->state = GPUD_LINK_LEAVING;
        link->deadline = INT64_MAX;
        clear_waiting(link);
        wake_all(link);
    }
}
