/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A sender's report of itself, from existing counters and from state read on request, so that it
 * costs frames nothing. */
#include "stream/sender/status.h"

#include "base/sized.h"
#include "route/route.h"
#include "stream/sender/delivery.h"
#include "stream/sender/epoch.h"

#include <string.h>

#define SAMPLE_PERIOD GPUD_SEC

/* --- the rate ------------------------------------------------------------------------------ */

void gpud_sender_sample(struct gpud_sender *sender, int64_t now)
{
    struct gpud_rate *rate = &sender->rate;
    if (now - rate->sampled < SAMPLE_PERIOD)
        return;
    rate->sampled = now;
    rate->before = rate->last;
    rate->last.sequence = sender->sequence;
    rate->last.time = sender->submitted;
}

/* Frames in 1000 s, from the last but one sample to the last frame. 0: none since, or unknown. */
static uint64_t rate_of(const struct gpud_sender *sender)
{
    const struct gpud_rate_sample *since = &sender->rate.before;
    int64_t time = sender->submitted - since->time;
    if (since->sequence == 0 || time <= 0)
        return 0;
    return (uint64_t)((double)(sender->sequence - since->sequence) * 1e12 / (double)time);
}

/* --- one link ------------------------------------------------------------------------------ */

static enum gpud_link_phase phase_of(const struct gpud_link *link)
{
    if (link->state == GPUD_LINK_LEAVING)
        return GPUD_PHASE_LEAVING;
    return link->streamed ? GPUD_PHASE_STREAMING : GPUD_PHASE_CONNECTING;
}

static void describe_link(const struct gpud_link *link, struct gpud_link_info *info)
{
    const struct gpud_transport *transport = link->transport;
    struct gpud_peer_info peer;
    gpud_link_peer_info(link, &peer);
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
    info->id = peer.id;
    info->pid = peer.pid;
    gpud_print(info->name, "%s", peer.name);
    gpud_print(info->device, "%s", link->peer.device);
    gpud_print(info->path, "%s", peer.path);
    gpud_print(info->fallback_reason, "%s", peer.fallback_reason);
    gpud_print(info->host, "%s", peer.host);
    info->phase = phase_of(link);
    info->slow_receiver = gpud_link_policy(link);
    uint64_t offered = link->started ? link->sender->sequence - link->start : 0;
    info->delivered = link->delivered - gpud_link_count_untaken(link);
    info->dropped = link->dropped;
    if (offered > info->delivered + info->dropped)
        info->waiting = offered - info->delivered - info->dropped;
    info->dropped_newest = link->dropped_newest;
    info->dropped_oldest = link->dropped_oldest;
    info->dropped_failed = link->dropped_failed;
    info->dropped_format = link->dropped_format;
    info->stats = link->stats;
    if (!transport || !transport->page.page)
        return;
    info->held = gpud_page_count_out(&transport->page);
    info->latency_ns = gpud_page_latency(&transport->page);
    /* A new format's page has none before its first frame. */
    struct gpud_link_stats stats;
    gpud_page_get_stats(&transport->page, &stats);
    if (stats.frames >= info->stats.frames)
        info->stats = stats;
}

uint64_t gpud_sender_count_delivered(const struct gpud_sender *sender)
{
    uint64_t count = sender->delivered;
    for (uint32_t i = 0; i < sender->link_count; i++)
        count -= gpud_link_count_untaken(sender->links[i]);
    return count;
}

/* Describes the next links, from index *at on, which it advances. */
static uint32_t describe_links(const struct gpud_sender *sender, uint32_t *at,
                               struct gpud_link_info *infos, uint32_t max)
{
    uint32_t count = 0;
    for (; *at < sender->link_count && count < max; (*at)++)
        if (sender->links[*at]->state != GPUD_LINK_DEAD)
            describe_link(sender->links[*at], &infos[count++]);
    return count;
}

size_t gpud_sender_list_links(struct gpud_sender *sender, struct gpud_link_info *links, size_t max)
{
    size_t count = 0;
    gpud_sender_lock(sender);
    for (uint32_t at = 0, found = 1; found > 0; count += found) {
        struct gpud_link_info info;
        found = describe_links(sender, &at, &info, 1);
        if (found > 0)
            gpud_sized_entry(links, max, count, &info, sizeof(info));
    }
    gpud_sender_unlock(sender);
    return count;
}

/* --- the answer ---------------------------------------------------------------------------- */

static void describe(const struct gpud_sender *sender, struct gpud_report *report)
{
    memset(report, 0, sizeof(*report));
    gpud_print(report->name, "%s", sender->name);
    gpud_print(report->device, "%s", sender->device->info.name);
    if (sender->configured) {
        report->epoch = sender->epoch;
        report->media = sender->media;
    }
    report->ended = sender->ended;
    report->slow_receiver = (uint8_t)sender->slow_receiver;
    report->slots = gpud_sender_slots(sender, gpud_route_gives_slots(sender->device));
    report->links = 0;
    for (uint32_t i = 0; i < sender->link_count; i++)
        report->links += sender->links[i]->state != GPUD_LINK_DEAD;
    report->frames = sender->sequence;
    report->delivered = gpud_sender_count_delivered(sender);
    report->dropped = sender->dropped;
    report->connects = sender->connects;
    report->rate = rate_of(sender);
    report->disconnects = sender->disconnects;
    report->refused = atomic_load(&sender->refused);
    report->copies_cpu = atomic_load(&sender->copies_cpu);
    report->copies_gpu = atomic_load(&sender->copies_gpu);
    report->waits_cpu = sender->waits;
    report->waits_device = atomic_load(&sender->queue->waits);
    report->age = sender->submitted ? (uint64_t)(gpud_now() - sender->submitted) : GPUD_TIME_NONE;
}

/* The messages fit into a channel's default buffer; a peer that made it smaller gets fewer. */
void gpud_sender_answer(struct gpud_sender *sender, struct gpud_channel *channel)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_STATUS};
    gpud_sender_lock(sender);
    describe(sender, &message.report);
    gpud_sender_unlock(sender);
    enum gpud_status status = gpud_channel_send(channel, &message, NULL);
    message.type = GPUD_MESSAGE_LINKS;
    for (uint32_t at = 0; status == GPUD_OK;) {
        gpud_sender_lock(sender);
        message.links.count = describe_links(sender, &at, message.links.link, GPUD_LINKS_A_MESSAGE);
        gpud_sender_unlock(sender);
        if (message.links.count == 0)
            return;
        status = gpud_channel_send(channel, &message, NULL);
    }
}
