/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The public sender, and its thread: connections, and which of them become receivers; what it
 * reports. Frames, formats and events are in submit.c. */
#include "stream/sender/sender.h"

#include "base/base.h"
#include "route/route.h"
#include "stream/shared/shared.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define AREA "sender"
#define LARGE_META_DEFAULT 65536

/* How long the end of a sender waits for receivers that still prepare their rings. */
#define END_PATIENCE GPUD_SEC

/* === status ================================================================================== */
/* A sender's report of itself, from existing counters and from state read on request, so that it
 * costs frames nothing. */

/* What receivers gave back is seen with the next frame otherwise, which may never come. A link may
 * end by it. Under the lock. */
static void reap_links(struct gpud_sender *sender)
{
    for (uint32_t i = 0; i < sender->link_count; i++)
        if (gpud_link_is_ready(sender->links[i]))
            gpud_link_reap(sender->links[i]);
}

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
    info->degraded = link->degraded;
    gpud_print(info->host, "%s", link->channel->peer.host);
    gpud_print(info->encrypted, "%s", link->channel->encryption);
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

size_t gpud_sender_list_links(struct gpud_sender *sender, struct gpud_link_info *links, size_t max)
{
    size_t count = 0;
    gpud_sender_lock(sender);
    reap_links(sender);
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link_info info;
        if (sender->links[i]->state == GPUD_LINK_DEAD)
            continue;
        status_describe_link(sender->links[i], &info);
        gpud_sized_entry(links, max, count++, &info, sizeof(info));
    }
    gpud_sender_unlock(sender);
    return count;
}

/* Answers a QUERY. The messages fit into a channel's default buffer; a peer that made it smaller
 * gets fewer. */
static void sender_answer(struct gpud_sender *sender, struct gpud_channel *channel)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_STATUS};
    struct gpud_report *report = &message.report;
    gpud_sender_lock(sender);
    reap_links(sender);
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
        struct gpud_links *links = &message.links;
        links->count = 0;
        gpud_sender_lock(sender);
        for (; at < sender->link_count && links->count < GPUD_LINKS_A_MESSAGE; at++)
            if (sender->links[at]->state != GPUD_LINK_DEAD)
                status_describe_link(sender->links[at], &links->link[links->count++]);
        gpud_sender_unlock(sender);
        if (links->count == 0)
            return;
        status = gpud_channel_send(channel, &message, NULL);
    }
}

/* === admission =============================================================================== */

#define GPUD_PLACES_UNNAMED (GPUD_RECEIVERS_MAX * 3 / 4)
#define GPUD_CONNECTS 1000

/* Handshakes and queries in a second, of all processes together, and in a burst as many as a
 * restarted sender has receivers. Further ones wait for their turn. */
#define GPUD_HANDSHAKES 200
#define GPUD_HANDSHAKES_AT_ONCE (2 * GPUD_RECEIVERS_MAX)

/* Whether one more is within the limit. */
static bool count_connect(struct gpud_connects *connects, uint32_t limit, int64_t now)
{
    if (now - connects->since >= GPUD_SEC) {
        connects->since = now;
        connects->count = 0;
    }
    if (connects->count <= limit)
        connects->count++;
    return connects->count <= limit;
}

/* The process's entry; NULL: it has none. */
static struct gpud_connects *admission_find(struct gpud_admission *admission, int64_t key)
{
    for (int i = 0; i < GPUD_RECEIVERS_MAX; i++)
        if (admission->process[i].since && admission->process[i].key == key)
            return &admission->process[i];
    return NULL;
}

/* Counts a connection of the peer with this key. false: it exceeds the rate; *already_logged:
 * whether this was logged in the same second. */
static bool admission_count(struct gpud_admission *admission, int64_t key, int64_t now,
                            bool *already_logged)
{
    struct gpud_connects *process = admission_find(admission, key);
    if (!process) { /* in the place of the oldest one */
        process = &admission->process[0];
        for (int i = 1; i < GPUD_RECEIVERS_MAX; i++)
            if (admission->process[i].since < process->since)
                process = &admission->process[i];
        *process = (struct gpud_connects){.key = key};
    }
    *already_logged = process->since && now - process->since < GPUD_SEC &&
                      process->count > GPUD_CONNECTS_A_PROCESS;
    /* In this order, so that a process over its own limit does not use up the common one. */
    return count_connect(process, key ? GPUD_CONNECTS_A_PROCESS : GPUD_CONNECTS, now) &&
           count_connect(&admission->all, GPUD_CONNECTS, now);
}

/* Each handshake uses up a share of a second; a burst may run ahead of time. */
#define SHARE (GPUD_SEC / GPUD_HANDSHAKES)

/* When the next handshake may run. */
static int64_t admission_next_handshake(const struct gpud_admission *admission)
{
    return admission->handshakes_until - (GPUD_HANDSHAKES_AT_ONCE - 1) * SHARE;
}

/* === newcomer ================================================================================ */
/* Connections before their first message. A HELLO makes one a receiver, if there is a place; a
 * QUERY is answered and takes no place.
 *
 * A handshake costs a thousand times as much as requesting it, so the rate is limited: a newcomer
 * whose message has arrived waits for its turn, and the process with the fewest connections comes
 * first. When the table is full, further connections stay in the system's queue. */

/* --- the table ------------------------------------------------------------------------------ */

static int64_t key_of(const struct gpud_channel *channel)
{
    return gpud_peer_key(&channel->peer);
}

static uint32_t waiting_of(const struct gpud_sender *sender, int64_t key)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sender->newcomer_count; i++)
        count += sender->newcomers[i].channel && key_of(sender->newcomers[i].channel) == key;
    return count;
}

/* The limit for one process, of receivers or of newcomers. */
static uint32_t most_of(int64_t key)
{
    return key > 0 ? GPUD_PLACES_A_PROCESS : GPUD_PLACES_UNNAMED;
}

static void remove_gone(struct gpud_sender *sender)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < sender->newcomer_count; i++)
        if (sender->newcomers[i].channel)
            sender->newcomers[kept++] = sender->newcomers[i];
    sender->newcomer_count = kept;
}

/* Closes and logs a connection that was not a query. */
static void turn_away(struct gpud_sender *sender, struct gpud_newcomer *newcomer,
                      enum gpud_log_level level, const char *why)
{
    char peer_text[GPUD_PEER_TEXT_MAX];
    level = gpud_refusal_level(&sender->admission, newcomer->channel, level, why);
    gpud_log_at(&sender->context->log, level, AREA, "%s turned away: %s",
                gpud_peer_text(&newcomer->channel->peer, peer_text), why);
    atomic_fetch_add(&sender->refused, 1);
    gpud_channel_unref(&newcomer->channel);
}

/* The same, after sending it the reason. */
static void newcomer_refuse(struct gpud_sender *sender, struct gpud_newcomer *newcomer,
                            enum gpud_status status, const char *name, const char *why)
{
    char text[GPUD_REASON_MAX];
    struct gpud_message message = {.type = GPUD_MESSAGE_REFUSE};
    gpud_sender_lock(sender);
    message.refuse.epoch = sender->epoch;
    gpud_sender_unlock(sender);
    message.refuse.status = status;
    gpud_print(message.refuse.reason, "%s", why);
    gpud_channel_send(newcomer->channel, &message, NULL); /* best effort: the peer may be gone */
    gpud_print(text, "%s%s%.400s", name, name[0] ? ": " : "", why);
    turn_away(sender, newcomer, GPUD_LOG_WARNING, text);
}

/* The channel itself enforces the deadline before it is connected (authentication, over a
 * network). */
static void start_waiting(struct gpud_newcomer *newcomer, int64_t now)
{
    if (newcomer->deadline == INT64_MAX && !newcomer->has_spoken &&
        atomic_load(&newcomer->channel->connected))
        newcomer->deadline = gpud_deadline_from(now, GPUD_HELLO_DEADLINE);
}

void gpud_newcomer_add(struct gpud_sender *sender, struct gpud_channel *channel)
{
    int64_t key = key_of(channel);
    struct gpud_newcomer newcomer = {.channel = channel, .deadline = INT64_MAX};
    bool already_logged = false;
    if (!admission_count(&sender->admission, key, gpud_now(), &already_logged)) {
        atomic_fetch_add(&sender->refused, 1);
        char peer_text[GPUD_PEER_TEXT_MAX];
        if (!already_logged)
            gpud_log_warning(&sender->context->log, AREA, "%s turned away: it connects too often",
                             gpud_peer_text(&channel->peer, peer_text));
        gpud_channel_unref(&channel);
        return;
    }
    if (waiting_of(sender, key) >= most_of(key)) {
        turn_away(sender, &newcomer, GPUD_LOG_WARNING,
                  "it has as many connections as a process can have");
        return;
    }
    if (sender->newcomer_count == GPUD_NEWCOMERS_MAX) {
        /* The oldest newcomer of the process with the most newcomers. */
        struct gpud_newcomer *flooder = &sender->newcomers[0];
        for (uint32_t i = 0, most = 0; i < sender->newcomer_count; i++) {
            uint32_t count = waiting_of(sender, key_of(sender->newcomers[i].channel));
            if (count > most) {
                most = count;
                flooder = &sender->newcomers[i];
            }
        }
        turn_away(sender, flooder, GPUD_LOG_WARNING, "it sent nothing, and others need its place");
        remove_gone(sender);
    }
    start_waiting(&newcomer, gpud_now());
    sender->newcomers[sender->newcomer_count++] = newcomer;
    GPUD_STOP_POINT("sender: connection accepted");
}

/* --- places for receivers ------------------------------------------------------------------- */

static uint32_t places_of(const struct gpud_sender *sender, int64_t key)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sender->link_count; i++)
        count +=
            key_of(sender->links[i]->channel) == key && sender->links[i]->state != GPUD_LINK_DEAD;
    return count;
}

/* The link to evict for a newcomer: one that has left and at most holds frames, or one that does
 * not stream and whose process has more places than the newcomer's would have. */
static struct gpud_link *choose_eviction(struct gpud_sender *sender, int64_t newcomer)
{
    struct gpud_link *chosen = NULL;
    uint32_t most = places_of(sender, newcomer) + 1;
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        if (link->state >= GPUD_LINK_LEAVING)
            return link;
        uint32_t places = places_of(sender, key_of(link->channel));
        if (!link->streamed && places > most) {
            chosen = link;
            most = places;
        }
    }
    return chosen;
}

/* Finds a place for a receiver; returns NULL, or why there is no place. */
static const char *refuse_place(struct gpud_sender *sender, const struct gpud_peer *peer)
{
    int64_t key = gpud_peer_key(peer);
    uint32_t places = places_of(sender, key);
    if (peer->foreign) { /* another user's */
        uint32_t all = 0, own = 0;
        for (uint32_t i = 0; i < sender->link_count; i++) {
            const struct gpud_peer *other = &sender->links[i]->channel->peer;
            if (!other->foreign || sender->links[i]->state == GPUD_LINK_DEAD)
                continue;
            all++;
            own += other->uid == peer->uid;
        }
        if (own >= GPUD_PLACES_A_USER)
            return "its user has as many connections as one other user can have";
        if (all >= GPUD_PLACES_FOREIGN)
            return "other users have as many connections as they can have";
    }
    if (places >= most_of(key))
        return "it has as many connections as a process can have";
    if (places > 0 && sender->link_count >= GPUD_RECEIVERS_MAX - GPUD_PLACES_KEPT)
        return "the last places are kept for processes that have none";
    if (sender->link_count < GPUD_RECEIVERS_MAX)
        return NULL;
    struct gpud_link *link = choose_eviction(sender, key);
    if (link) {
        gpud_link_end(link, GPUD_LOG_WARNING, "has to make room for a new receiver");
        gpud_links_settle(sender);
    }
    return sender->link_count < GPUD_RECEIVERS_MAX ? NULL : "all places for receivers are taken";
}

/* --- their first message -------------------------------------------------------------------- */

static void newcomer_handle(struct gpud_sender *sender, struct gpud_newcomer *newcomer,
                            struct gpud_message *message)
{
    char text[GPUD_REASON_MAX];
    enum gpud_status status = GPUD_AGAIN;
    const char *why;
    struct gpud_link *link;
    switch (message->type) {
    case GPUD_MESSAGE_HELLO:
        why = refuse_place(sender, &newcomer->channel->peer);
        if (!why)
            status = gpud_link_create(sender, newcomer->channel, &message->hello, &link, &why);
        if (status != GPUD_OK) {
            newcomer_refuse(sender, newcomer, status, message->hello.name, why);
            return;
        }
        newcomer->channel = NULL; /* now owned by the link */
        gpud_sender_lock(sender);
        sender->links[sender->link_count++] = link;
        gpud_sender_unlock(sender);
        return;
    case GPUD_MESSAGE_QUERY:
        sender_answer(sender, newcomer->channel);
        gpud_channel_unref(&newcomer->channel);
        return;
    case GPUD_MESSAGE_BYE: /* for example, it does not accept this user's senders */
        gpud_print(text, "said goodbye: %s", message->refuse.reason);
        break;
    default:
        gpud_print(text, "broke the protocol: an unexpected %s", gpud_message_name(message->type));
    }
    turn_away(sender, newcomer, GPUD_LOG_WARNING, text);
}

/* May find only part of an authentication, or nothing: then the newcomer keeps waiting. */
static void read_message(struct gpud_sender *sender, struct gpud_newcomer *newcomer)
{
    struct gpud_message message;
    struct gpud_error error = {.reason = ""};
    char reason[GPUD_REASON_MAX];
    switch (gpud_channel_receive(newcomer->channel, &message, &error)) {
    case GPUD_OK:
        newcomer_handle(sender, newcomer, &message);
        gpud_message_close(&message);
        return;
    case GPUD_AGAIN:
        return;
    case GPUD_CLOSED:
        if (gpud_peer_has_died(&newcomer->channel->peer))
            gpud_print(reason, "was ended by a signal or killed");
        else /* with the network's reason, if there is one */
            gpud_print(reason, "vanished without a goodbye%s%.400s",
                       newcomer->channel->ops->remote ? ": " : "",
                       newcomer->channel->ops->remote ? error.reason : "");
        turn_away(sender, newcomer, GPUD_LOG_INFO, reason);
        return;
    case GPUD_NO_MEMORY:
        newcomer_refuse(sender, newcomer, GPUD_AGAIN, "",
                        error.reason); /* a failure of this side */
        return;
    case GPUD_UNSUPPORTED: /* another release understands at least a message's header */
        newcomer_refuse(sender, newcomer, GPUD_UNSUPPORTED, "", error.reason);
        return;
    default:
        turn_away(sender, newcomer, GPUD_LOG_WARNING, error.reason);
    }
}

/* Of the newcomers whose message has arrived, the oldest of the process with the fewest recent
 * connections. NULL: no message has arrived. */
static struct gpud_newcomer *find_next(struct gpud_sender *sender)
{
    struct gpud_newcomer *next = NULL;
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < sender->newcomer_count; i++) {
        struct gpud_newcomer *newcomer = &sender->newcomers[i];
        if (!newcomer->channel || !newcomer->has_spoken)
            continue;
        const struct gpud_connects *process =
            admission_find(&sender->admission, key_of(newcomer->channel));
        uint32_t connects = process ? process->count : 0; /* in its current second */
        if (connects < least) {
            next = newcomer;
            least = connects;
        }
    }
    return next;
}

/* Whether further connections must stay in the system's queue: the table is full of newcomers that
 * wait for their turn. */
static bool newcomers_are_full(const struct gpud_sender *sender)
{
    for (uint32_t i = 0; i < sender->newcomer_count; i++)
        if (!sender->newcomers[i].has_spoken)
            return false;
    return sender->newcomer_count == GPUD_NEWCOMERS_MAX;
}

void gpud_newcomers_read(struct gpud_sender *sender, const struct pollfd *fds, uint32_t count)
{
    int64_t now = gpud_now();
    for (uint32_t i = 0; i < sender->newcomer_count; i++) {
        struct gpud_newcomer *newcomer = &sender->newcomers[i];
        if (i < count && fds[i].revents && newcomer->channel && !newcomer->has_spoken) {
            newcomer->has_spoken = true;
            newcomer->deadline = INT64_MAX;
        }
    }
    struct gpud_newcomer *next;
    while (now >= admission_next_handshake(&sender->admission) && (next = find_next(sender))) {
        int64_t *until = &sender->admission.handshakes_until;
        *until = (*until > now ? *until : now) + SHARE;
        next->has_spoken = false;
        read_message(sender, next);
    }
    for (uint32_t i = 0; i < sender->newcomer_count; i++) {
        struct gpud_newcomer *newcomer = &sender->newcomers[i];
        if (newcomer->channel)
            start_waiting(newcomer, now);
        if (newcomer->channel && now >= newcomer->deadline)
            turn_away(sender, newcomer, GPUD_LOG_WARNING,
                      "sent nothing for 2 s after it connected");
    }
    remove_gone(sender);
}

/* === listener ================================================================================ */
/* The sender's thread: it accepts connections, reads their messages, offers receivers the rings of
 * each new epoch, and detects silent and dead ones. It handles no frames except waiting ones
 * (submit.c). It takes the lock only for state that application threads use, see sender.h. */

#define TURN_MAX GPUD_SEC

/* Of the number of frames, for the rate. */
#define SAMPLE_PERIOD GPUD_SEC

/* Messages of one receiver in one turn, so that a flood does not starve the others. */
#define MESSAGES_A_TURN 16
#define ACCEPTS_A_TURN 16

/* How long to wait after accepting failed, as without a free descriptor. */
#define ACCEPT_PAUSE (100 * GPUD_MSEC)

/* Call again later, after a failure that may pass. */
static void pause_accepting(struct gpud_sender *sender, const char *why)
{
    if (!sender->accept_pause)
        gpud_log_error(&sender->context->log, AREA, "%s", why); /* once for a series of failures */
    sender->accept_pause = gpud_deadline(ACCEPT_PAUSE);
}

/* Tries to get the address that another sender had. */
static void listener_take_over(struct gpud_sender *sender)
{
    struct gpud_error error = {0};
    enum gpud_status status = gpud_listener_take_over(sender->listener, &error);
    if (status != GPUD_OK && status != GPUD_AGAIN) {
        pause_accepting(sender, error.reason);
        return;
    }
    sender->accept_pause = 0; /* also where there is nothing to take over: that is no failure */
    if (status == GPUD_OK)
        gpud_log_info(&sender->context->log, AREA, "the address is free: this sender has it now");
}

static void accept_newcomers(struct gpud_sender *sender)
{
    const struct gpud_log *log = &sender->context->log;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        struct gpud_error error = {0};
        struct gpud_channel *channel;
        struct gpud_peer peer;
        enum gpud_status status = gpud_listener_accept(sender->listener, &channel, &peer, &error);
        if (status == GPUD_AGAIN) {
            sender->accept_pause = 0;
            return;
        }
        if (status == GPUD_NO_ACCESS) {
            char peer_text[GPUD_PEER_TEXT_MAX];
            gpud_log_warning(log, AREA, "%s turned away: %s", gpud_peer_text(&peer, peer_text),
                             error.reason);
            atomic_fetch_add(&sender->refused, 1);
            continue;
        }
        if (status != GPUD_OK) {
            pause_accepting(sender, error.reason);
            return;
        }
        sender->accept_pause = 0;
        gpud_newcomer_add(sender, channel);
    }
}

static void read_messages(struct gpud_link *link)
{
    static const struct gpud_error no_error;
    bool remote = link->channel->ops->remote;
    char reason[GPUD_REASON_MAX];
    for (int i = 0; i < MESSAGES_A_TURN && link->state != GPUD_LINK_DEAD; i++) {
        struct gpud_message message;
        struct gpud_error error = no_error;
        enum gpud_status status = gpud_channel_receive(link->channel, &message, &error);
        if (status == GPUD_AGAIN)
            return;
        if (status == GPUD_OK) {
            gpud_link_handle(link, &message);
            gpud_message_close(&message);
        } else if (status == GPUD_CLOSED) {
            if (gpud_peer_has_died(&link->channel->peer))
                gpud_print(reason, "was ended by a signal or killed");
            else /* with the network's reason, if there is one */
                gpud_print(reason, "vanished without a goodbye%s%.400s", remote ? ": " : "",
                           remote ? error.reason : "");
            gpud_link_end(link, link->streamed ? GPUD_LOG_WARNING : GPUD_LOG_INFO, reason);
        } else if (status == GPUD_NO_MEMORY) {
            gpud_link_refuse(link, GPUD_AGAIN, error.reason); /* a failure of this side */
        } else {
            gpud_link_end(link, GPUD_LOG_WARNING, error.reason);
        }
    }
}

/* --- the thread ---------------------------------------------------------------------------- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t next_deadline(struct gpud_sender *sender)
{
    int64_t next = INT64_MAX;
    for (uint32_t i = 0; i < sender->newcomer_count; i++)
        next = earlier(next, sender->newcomers[i].has_spoken
                                 ? admission_next_handshake(&sender->admission)
                                 : sender->newcomers[i].deadline);
    if (sender->accept_pause && !newcomers_are_full(sender))
        next = earlier(next, sender->accept_pause);
    gpud_sender_lock(sender);
    /* Whether there is something to look at once a second: frames flow, the ring is larger than it
     * has to be, a receiver is leaving, or is on another host, or another sender has the address.
     * Many channels of a machine are idle, and cost no wake-ups. */
    bool needs_turns = sender->spare_since || sender->rate.before.sequence != sender->sequence ||
                       atomic_load(&sender->listener->stands_by);
    for (uint32_t i = 0; i < sender->link_count; i++) {
        const struct gpud_link *link = sender->links[i];
        needs_turns |= link->channel->ops->remote || link->state >= GPUD_LINK_LEAVING;
        if (link->state < GPUD_LINK_LEAVING)
            next = earlier(next, earlier(link->deadline, link->raise_at));
        next = earlier(next, gpud_waiting_deadline(link));
    }
    sender->is_at_rest = !needs_turns;
    if (needs_turns)
        next = earlier(next, gpud_now() + TURN_MAX);
    gpud_sender_unlock(sender);
    return next;
}

void gpud_listener_turn(struct gpud_sender *sender)
{
    int64_t now = gpud_now();
    struct gpud_rate *rate = &sender->rate;
    gpud_sender_lock(sender);
    gpud_waiting_turn(sender, now);
    if (now - rate->sampled >= SAMPLE_PERIOD) {
        rate->sampled = now;
        rate->before = rate->last;
        rate->last.sequence = sender->sequence;
        rate->last.time = sender->submitted;
    }
    uint32_t epoch = sender->epoch;
    struct gpud_layout layout = sender->layout;
    gpud_sender_unlock(sender);
    if (epoch != sender->epoch_logged) { /* a format that the application has set since */
        sender->epoch_logged = epoch;
        gpud_log_info(&sender->context->log, AREA, "epoch %u: %ux%u %s, %" PRIu64 " bytes a frame",
                      epoch, layout.width, layout.height, layout.format, layout.size);
    }
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        enum gpud_link_state state = link->state;
        gpud_link_offer_if_due(link, now);
        gpud_room_raise(link, now);
        if ((state == GPUD_LINK_OFFERED || state == GPUD_LINK_CANARY) && link->state == state &&
            now >= link->deadline)
            gpud_link_end(link, GPUD_LOG_WARNING,
                          state == GPUD_LINK_CANARY
                              ? "did not confirm the test of the link for 5 s"
                              : "did not answer the offer of a route for 5 s");
    }
    /* Links to other hosts each turn, because no descriptor reports a host that lost power. */
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        if (link->channel->ops->remote && link->state != GPUD_LINK_DEAD &&
            gpud_channel_is_dead(link->channel))
            read_messages(link);
    }
    gpud_links_settle(sender);
    gpud_room_shrink(sender, now);
}

static void *listener_run(void *arg)
{
    struct gpud_sender *sender = arg;
    struct pollfd fds[2 + 2 * GPUD_RECEIVERS_MAX + GPUD_NEWCOMERS_MAX];
    struct gpud_link *links[GPUD_RECEIVERS_MAX];

    while (!atomic_load(&sender->stopping)) {
        uint32_t count = sender->link_count, newcomers = sender->newcomer_count;
        bool pause = sender->accept_pause > gpud_now() || newcomers_are_full(sender);
        fds[0] = (struct pollfd){.fd = sender->wake, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = pause ? -1 : sender->listener->fd, .events = POLLIN};
        struct pollfd *at_link = fds + 2, *at_newcomer = fds + 2 + 2 * count;
        for (uint32_t i = 0; i < count; i++) {
            links[i] = sender->links[i];
            at_link[2 * i] = (struct pollfd){.fd = links[i]->channel->fd, .events = POLLIN};
            at_link[2 * i + 1] =
                (struct pollfd){.fd = links[i]->channel->peer_fd, .events = POLLIN};
        }
        for (uint32_t i = 0; i < newcomers; i++) {
            const struct gpud_newcomer *newcomer = &sender->newcomers[i];
            at_newcomer[i] = (struct pollfd){
                .fd = newcomer->has_spoken ? -1 : newcomer->channel->fd, .events = POLLIN};
        }
        struct timespec wait = gpud_time_left(next_deadline(sender));
        ppoll(fds, 2 + 2 * count + newcomers, &wait, NULL);

        if (fds[0].revents) {
            uint64_t ignored;
            ssize_t got = read(sender->wake, &ignored, sizeof(ignored));
            (void)got; /* non-blocking; the count does not matter */
        }
        for (uint32_t i = 0; i < count; i++) {
            bool has_ended = at_link[2 * i + 1].revents && gpud_channel_is_dead(links[i]->channel);
            if (at_link[2 * i].revents || has_ended)
                read_messages(links[i]);
        }
        gpud_newcomers_read(sender, at_newcomer, newcomers);
        /* Each turn, because an event may come just before the other sender lets go. */
        if (!pause && atomic_load(&sender->listener->stands_by))
            listener_take_over(sender);
        else if (fds[1].revents || (!pause && sender->accept_pause))
            accept_newcomers(sender);
        gpud_listener_turn(sender);
    }
    return NULL;
}

/* Listens, unless it has another sender's listener, and starts the thread. Call
 * gpud_sender_stop_listening() after a failure, too. */
static enum gpud_status sender_listen(struct gpud_sender *sender,
                                      const struct gpud_address *address,
                                      const struct gpud_access_rule *access, bool standby,
                                      struct gpud_error *error)
{
    if (!sender->listener) {
        enum gpud_status status =
            standby ? gpud_listener_stand_by(address, access, &sender->listener, error)
                    : gpud_listener_open(address, access, &sender->listener, error);
        if (status != GPUD_OK)
            return status;
        if (sender->listener->note[0])
            gpud_log_info(&sender->context->log, AREA, "%s", sender->listener->note);
    }
    sender->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (sender->wake < 0)
        return gpud_fail_errno(error, "cannot create an eventfd");
    sender->retired.wake = sender->wake;
    int failed = pthread_create(&sender->thread, NULL, listener_run, sender);
    if (failed)
        return gpud_fail_native(error, GPUD_NO_MEMORY, "errno", failed,
                                "cannot start the sender's thread: raise the limits of this "
                                "process's memory (ulimit -v) or threads (ulimit -u)");
    sender->thread_runs = true;
    return GPUD_OK;
}

static void stop_thread(struct gpud_sender *sender)
{
    if (!sender->thread_runs)
        return;
    atomic_store(&sender->stopping, true);
    gpud_sender_wake_listener(sender);
    pthread_join(sender->thread, NULL);
    sender->thread_runs = false;
}

void gpud_sender_stop_listening(struct gpud_sender *sender)
{
    stop_thread(sender);
    gpud_sender_lock(sender);
    sender->retired.wake = -1; /* from here on transports are freed at once */
    struct gpud_transport *retired = sender->retired.first;
    sender->retired.first = NULL;
    gpud_sender_unlock(sender);
    gpud_retired_destroy(retired);
    for (uint32_t i = 0; i < sender->newcomer_count; i++)
        gpud_channel_unref(&sender->newcomers[i].channel);
    sender->newcomer_count = 0;
    gpud_listener_close(&sender->listener);
    gpud_fd_close(&sender->wake);
}

/* === the public object ======================================================================= */

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
    if (listener) { /* in which connections may be pending */
        stop_thread(gone);
        *listener = gone->listener;
        gone->listener = NULL;
    }
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
    if (status == GPUD_OK)
        status = gpud_access_set_certificates(&access, params->tls_certificate, params->tls_key,
                                              params->tls_ca, error);
    if (status == GPUD_OK) {
        access.allow_unauthenticated = params->allow_unauthenticated;
        access.announce = !params->no_announce;
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
        status = sender_listen(made, &address, &access, params->standby, error);
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
