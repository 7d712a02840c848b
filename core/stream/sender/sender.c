/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The public sender: creating, destroying, events, information. Frames are in submit.c, formats in
 * submit.c. */
#include "base/base.h"
#include "route/route.h"
#include "stream/sender/sender.h"
#include "stream/shared/shared.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define AREA "sender"
#define LARGE_META_DEFAULT 65536

/* How long the end of a sender waits for receivers that still prepare their rings. */
#define END_PATIENCE GPUD_SEC

/* --- creating and destroying --------------------------------------------------------------- */

static enum gpud_status sender_read_params(struct gpud_sender_params *own,
                                           const struct gpud_sender_params *params,
                                           struct gpud_error *error)
{
    enum gpud_status status =
        gpud_sized_read(own, sizeof(*own), params, GPUD_END_OF(struct gpud_sender_params, address),
                        "gpud_sender_params", error);
    if (status == GPUD_OK)
        status = gpud_route_check_params(own->slots, own->slow_receiver, own->route, error);
    if (status == GPUD_OK)
        status = gpud_route_check_params(own->picture_slots, own->slow_receiver, NULL, error);
    if (status == GPUD_OK && own->large_meta_max > GPUD_LARGE_META_MAX)
        status = gpud_fail(error, GPUD_INVALID, "large_meta_max is %u: at most %d are possible",
                           own->large_meta_max, GPUD_LARGE_META_MAX);
    if (status == GPUD_OK)
        status = gpud_modifiers_check(own->modifiers, own->modifier_count, error);
    return status;
}

/* Ends a sender, and takes its listener out before, if that is wanted. */
static void sender_end(struct gpud_sender *gone, struct gpud_listener **listener)
{
    struct gpud_context *context = gone->context;
    /* Waits for deliveries under way, so that BYE comes after the last frame, and for signals that
     * devices have yet to post: after the end, receivers take a missing signal for a crash. */
    gpud_sender_lock(gone);
    gpud_lines_give_up(gone);
    gpud_sender_settle(gone, gpud_deadline(END_PATIENCE));
    for (uint32_t i = 0; i < gone->link_count; i++)
        if (gone->links[i]->state != GPUD_LINK_DEAD && gone->links[i]->transport &&
            gone->links[i]->transport->queues.post)
            gpud_queue_join(gone->queue, gone->links[i]->transport->queues.post, NULL);
    gpud_sender_unlock(gone);
    if (!(gone->device->caps & GPUD_CAP_SYNCHRONOUS))
        gpud_queue_finish(gone->queue, gpud_deadline(GPUD_SEC / 2), NULL);
    int64_t deadline = gpud_deadline(GPUD_TEARDOWN_DEADLINE);
    const struct timespec nap = {.tv_nsec = GPUD_MSEC / 2};
    while (atomic_load(&gone->references) > 1 && gpud_now() < deadline)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    unsigned left = atomic_load(&gone->references) - 1;
    if (left)
        gpud_log_error(&context->log, AREA, "%u copies do not finish: their memory is not freed",
                       left);
    if (listener)
        *listener = gpud_sender_take_listener(gone);
    gpud_sender_stop_listening(gone);

    gpud_sender_lock(gone);
    gone->closing = true;
    gpud_sender_poll_disarm(gone);
    for (uint32_t i = 0; i < gone->link_count; i++) {
        struct gpud_link *link = gone->links[i];
        struct gpud_message message = {.type = GPUD_MESSAGE_BYE};
        gpud_print(message.refuse.reason, "the sender stopped");
        gpud_waiting_end(link);
        if (link->state != GPUD_LINK_DEAD)
            gpud_link_send(link, &message);
        GPUD_STOP_POINT("sender: BYE sent");
        gpud_link_kill(link, GPUD_LOG_DEBUG, "the sender stopped");
    }
    if (!listener) /* the application itself ends it, and its receivers have no other one */
        gone->on_connect = gone->on_disconnect = NULL;
    gpud_sender_unlock(gone);
    gpud_links_settle(gone);
    gpud_sender_unref(gone);
    gpud_context_drain(context);
}

static enum gpud_status take_address(struct gpud_sender *made, struct gpud_sender **replaces,
                                     struct gpud_error *error)
{
    struct gpud_sender *before = *replaces;
    if (strcmp(before->place, made->place) != 0)
        return gpud_fail(error, GPUD_INVALID,
                         "the sender to be replaced is on %s, and this one shall be on %s: give "
                         "both one address",
                         before->place, made->place);
    *replaces = NULL;
    sender_end(before, &made->listener);
    return GPUD_OK;
}

enum gpud_status gpud_sender_create(struct gpud_context *context,
                                    const struct gpud_sender_params *params,
                                    struct gpud_sender **sender, struct gpud_error *error)
{
    struct gpud_address address;
    struct gpud_access_rule access = {.kind = GPUD_ACCESS_USER};
    struct gpud_sender_params own;
    enum gpud_status status = sender_read_params(&own, params, error);
    params = &own;
    if (status == GPUD_OK)
        status = gpud_address_resolve(params->address, &address, error);
    if (status == GPUD_OK)
        status = gpud_access_parse(params->access, &access, error);
    if (status == GPUD_OK)
        status = gpud_access_set_key(&access, params->psk_file, error);
    if (status == GPUD_OK) {
        access.allow_unauthenticated = params->allow_unauthenticated;
        status = gpud_access_check(&access, gpud_address_is_network(&address), error);
    }
    if (status != GPUD_OK)
        return status;
    struct gpud_sender *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a sender");

    gpud_lock_init_inheriting(&made->lock, GPUD_RANK_SENDER);
    made->context = context;
    atomic_init(&made->references, 1);
    made->wake = made->retired.wake = -1;
    made->loop = GPUD_LOOP_NONE;
    made->slots = params->slots;
    made->picture_slots = params->picture_slots ? params->picture_slots : GPUD_SLOTS_DEFAULT;
    made->slow_receiver = params->slow_receiver ? params->slow_receiver : GPUD_SLOW_BLOCK;
    made->require_direct = params->require_direct;
    made->large_meta_max = params->large_meta_max ? params->large_meta_max : LARGE_META_DEFAULT;
    made->modifier_count = params->modifier_count;
    memcpy(made->modifiers, params->modifiers ? params->modifiers : made->modifiers,
           params->modifier_count * sizeof(made->modifiers[0]));
    made->on_connect = params->on_connect;
    made->on_disconnect = params->on_disconnect;
    made->user = params->user;
    gpud_print(made->info.path, "none");
    gpud_print(made->route, "%s", params->route ? params->route : "");
    struct gpud_endpoint self;

    status = gpud_address_open_device(context, params->device, &address, &made->device,
                                      made->info.device_reason, error);
    if (status == GPUD_OK) {
        gpud_endpoint_describe(&self, made->device, params->name);
        memcpy(made->name, self.name, sizeof(made->name));
        gpud_print(made->info.device, "%s", made->device->info.name);
        status = gpud_device_open(context, "host", &made->host, error);
    }
    if (status == GPUD_OK)
        status = gpud_queue_create(made->device, &made->queue, error);
    if (status == GPUD_OK)
        status = gpud_queue_create(made->host, &made->host_queue, error);
    gpud_print(made->place, "%s", address.place);
    if (status == GPUD_OK && params->replaces && *params->replaces)
        status = take_address(made, params->replaces, error);
    if (status == GPUD_OK)
        status = gpud_sender_listen(made, &address, &access, params->standby, error);
    if (status != GPUD_OK) {
        gpud_sender_stop_listening(made);
        gpud_sender_unref(made);
        return status;
    }
    gpud_log_info(&context->log, AREA, "%s %s, from %s",
                  atomic_load(&made->listener->stands_by) ? "waiting for" : "sending on",
                  address.place, made->device->info.name);
    *sender = made;
    return GPUD_OK;
}

void gpud_sender_destroy(struct gpud_sender **sender)
{
    if (!sender || !*sender)
        return;
    struct gpud_sender *gone = *sender;
    *sender = NULL;
    sender_end(gone, NULL);
}

/* --- waiting for receivers ----------------------------------------------------------------- */

static uint32_t streaming(const struct gpud_sender *sender)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sender->link_count; i++)
        count += gpud_link_is_ready(sender->links[i]);
    return count;
}

enum gpud_status gpud_sender_wait(struct gpud_sender *sender, uint32_t count, int64_t timeout_ns,
                                  struct gpud_error *error)
{
    if (timeout_ns < 0)
        return gpud_sender_bad_timeout(error);
    int64_t deadline = gpud_deadline(timeout_ns);
    enum gpud_status status = GPUD_OK;
    gpud_sender_lock(sender);
    while (status == GPUD_OK && streaming(sender) < count) {
        if (atomic_load(&sender->interrupted))
            status = gpud_sender_interrupted(error);
        else if (gpud_now() >= deadline)
            status = gpud_fail(error, GPUD_TIMEOUT, "%u of %u receivers have connected",
                               streaming(sender), count);
        else
            gpud_sender_wait_for_change(sender, deadline);
    }
    gpud_sender_unlock(sender);
    return status;
}

enum gpud_status gpud_sender_get_fd(struct gpud_sender *sender, int *fd, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    gpud_sender_lock(sender);
    if (sender->loop.fd < 0)
        status = gpud_loop_open(&sender->loop, error);
    if (status == GPUD_OK)
        *fd = sender->loop.fd;
    gpud_sender_unlock(sender);
    return status;
}

/* === status ================================================================================== */
/* A sender's report of itself, from existing counters and from state read on request, so that it
 * costs frames nothing. */

static void status_describe_link(const struct gpud_link *link, struct gpud_link_info *info)
{
    const struct gpud_transport *transport = link->transport;
    *info = link->info;
    info->size = sizeof(*info);
    info->id = link->id;
    info->pid = link->channel->peer.pid;
    gpud_print(info->name, "%s", link->peer.name);
    gpud_print(info->device, "%s", link->peer.device);
    gpud_print(info->path, "%s", transport ? transport->route->name : "none");
    gpud_print(info->fallback_reason, "%s", link->fallback_reason);
    gpud_print(info->host, "%s", link->channel->peer.host);
    info->phase = link->state == GPUD_LINK_LEAVING ? GPUD_PHASE_LEAVING
                  : link->streamed                 ? GPUD_PHASE_STREAMING
                                                   : GPUD_PHASE_CONNECTING;
    info->slow_receiver = gpud_link_policy(link);
    uint64_t offered = link->started ? link->sender->sequence - link->start : 0;
    info->delivered -= gpud_link_count_untaken(link);
    if (offered > info->delivered + info->dropped)
        info->waiting = offered - info->delivered - info->dropped;
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

/* The frames that receivers have taken. Under the lock. */
static uint64_t count_delivered(const struct gpud_sender *sender)
{
    uint64_t count = sender->info.delivered;
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
            status_describe_link(sender->links[*at], &infos[count++]);
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

/* The messages fit into a channel's default buffer; a peer that made it smaller gets fewer. */
void gpud_sender_answer(struct gpud_sender *sender, struct gpud_channel *channel)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_STATUS};
    struct gpud_report *report = &message.report;
    gpud_sender_lock(sender);
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
    for (uint32_t i = 0; i < sender->link_count; i++)
        report->links += sender->links[i]->state != GPUD_LINK_DEAD;
    report->frames = sender->sequence;
    report->delivered = count_delivered(sender);
    report->dropped = sender->info.dropped;
    report->connects = sender->info.connects;
    /* Frames in 1000 s, from the last but one sample to the last frame. 0: none since, or unknown.
     */
    const struct gpud_rate_sample *since = &sender->rate.before;
    int64_t time = sender->submitted - since->time;
    if (since->sequence && time > 0)
        report->rate =
            (uint64_t)((double)(sender->sequence - since->sequence) * 1e12 / (double)time);
    report->disconnects = sender->info.disconnects;
    report->refused = atomic_load(&sender->refused);
    report->copies_cpu = atomic_load(&sender->copies_cpu);
    report->copies_gpu = atomic_load(&sender->copies_gpu);
    report->waits_cpu = sender->info.waits_cpu;
    report->waits_device = atomic_load(&sender->queue->waits);
    report->age = sender->submitted ? (uint64_t)(gpud_now() - sender->submitted) : GPUD_TIME_NONE;
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

void gpud_sender_get_info(struct gpud_sender *sender, struct gpud_sender_info *info)
{
    gpud_sender_lock(sender);
    struct gpud_sender_info now = sender->info;
    now.receivers = streaming(sender);
    now.frames = sender->sequence;
    now.delivered = count_delivered(sender);
    now.waits_device = atomic_load(&sender->queue->waits);
    gpud_sender_unlock(sender);
    now.kicks = atomic_load(&sender->kicks);
    now.refused = atomic_load(&sender->refused);
    now.copies_cpu = atomic_load(&sender->copies_cpu);
    now.copies_gpu = atomic_load(&sender->copies_gpu);
    now.stands_by = sender->listener && atomic_load(&sender->listener->stands_by);
    gpud_sized_copy(info, info->size, &now, sizeof(now));
}
