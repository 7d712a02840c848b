/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Connections before their first message. A HELLO makes one a receiver, if there is a place; a
 * QUERY is answered and takes no place.
 *
 * A handshake costs a thousand times as much as requesting it, so the rate is limited: a newcomer
 * whose message has arrived waits for its turn, and the process with the fewest connections comes
 * first. When the table is full, further connections stay in the system's queue. */
#include "stream/sender/newcomer.h"

#include "base/stop.h"
#include "stream/sender/delivery.h"
#include "stream/sender/receivers.h"
#include "stream/sender/status.h"

#include <poll.h>

#define AREA "sender"

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
    gpud_log_at(&sender->context->log, level, AREA, "%s turned away: %s",
                gpud_peer_text(&newcomer->channel->peer, peer_text), why);
    atomic_fetch_add(&sender->refused, 1);
    gpud_channel_unref(&newcomer->channel);
}

/* The same, after sending it the reason. */
static void refuse(struct gpud_sender *sender, struct gpud_newcomer *newcomer,
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

/* The oldest newcomer of the process with the most newcomers. */
static struct gpud_newcomer *find_flooder(struct gpud_sender *sender)
{
    struct gpud_newcomer *chosen = &sender->newcomers[0];
    uint32_t most = 0;
    for (uint32_t i = 0; i < sender->newcomer_count; i++) {
        uint32_t count = waiting_of(sender, key_of(sender->newcomers[i].channel));
        if (count > most) {
            most = count;
            chosen = &sender->newcomers[i];
        }
    }
    return chosen;
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
    if (!gpud_admission_count(&sender->admission, key, gpud_now(), &already_logged)) {
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
        turn_away(sender, find_flooder(sender), GPUD_LOG_WARNING,
                  "it sent nothing, and others need its place");
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

/* Why another user cannot have one more receiver; NULL: it can. */
static const char *refuse_foreigner(const struct gpud_sender *sender, uid_t uid)
{
    uint32_t all = 0, own = 0;
    for (uint32_t i = 0; i < sender->link_count; i++) {
        const struct gpud_peer *peer = &sender->links[i]->channel->peer;
        if (!peer->foreign || sender->links[i]->state == GPUD_LINK_DEAD)
            continue;
        all++;
        own += peer->uid == uid;
    }
    if (own >= GPUD_PLACES_A_USER)
        return "its user has as many connections as one other user can have";
    return all >= GPUD_PLACES_FOREIGN ? "other users have as many connections as they can have"
                                      : NULL;
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

static bool find_place(struct gpud_sender *sender, int64_t newcomer)
{
    if (sender->link_count < GPUD_RECEIVERS_MAX)
        return true;
    struct gpud_link *link = choose_eviction(sender, newcomer);
    if (!link)
        return false;
    gpud_link_end(link, GPUD_LOG_WARNING, "has to make room for a new receiver");
    gpud_links_settle(sender);
    return sender->link_count < GPUD_RECEIVERS_MAX;
}

/* Finds a place for a receiver; returns NULL, or why there is no place. */
static const char *refuse_place(struct gpud_sender *sender, const struct gpud_peer *peer)
{
    int64_t key = gpud_peer_key(peer);
    uint32_t places = places_of(sender, key);
    const char *why = peer->foreign ? refuse_foreigner(sender, peer->uid) : NULL;
    if (why)
        return why;
    if (places >= most_of(key))
        return "it has as many connections as a process can have";
    if (places > 0 && sender->link_count >= GPUD_RECEIVERS_MAX - GPUD_PLACES_KEPT)
        return "the last places are kept for processes that have none";
    return find_place(sender, key) ? NULL : "all places for receivers are taken";
}

/* Makes a receiver of a newcomer whose HELLO was read. */
static void make_receiver(struct gpud_sender *sender, struct gpud_newcomer *newcomer,
                          const struct gpud_endpoint *hello)
{
    struct gpud_link *link;
    enum gpud_status status = GPUD_AGAIN;
    const char *why = refuse_place(sender, &newcomer->channel->peer);
    if (!why)
        status = gpud_link_create(sender, newcomer->channel, hello, &link, &why);
    if (status != GPUD_OK) {
        refuse(sender, newcomer, status, hello->name, why);
        return;
    }
    newcomer->channel = NULL; /* now owned by the link */
    gpud_sender_lock(sender);
    sender->links[sender->link_count++] = link;
    gpud_sender_unlock(sender);
}

/* --- their first message -------------------------------------------------------------------- */

static void handle(struct gpud_sender *sender, struct gpud_newcomer *newcomer,
                   struct gpud_message *message)
{
    char why[GPUD_REASON_MAX];
    switch (message->type) {
    case GPUD_MESSAGE_HELLO:
        make_receiver(sender, newcomer, &message->hello);
        return;
    case GPUD_MESSAGE_QUERY:
        gpud_sender_answer(sender, newcomer->channel);
        gpud_channel_unref(&newcomer->channel);
        return;
    case GPUD_MESSAGE_BYE: /* for example, it does not accept this user's senders */
        gpud_print(why, "said goodbye: %s", message->refuse.reason);
        turn_away(sender, newcomer, GPUD_LOG_WARNING, why);
        return;
    default:
        gpud_print(why, "broke the protocol: an unexpected %s", gpud_message_name(message->type));
        turn_away(sender, newcomer, GPUD_LOG_WARNING, why);
    }
}

static void read_message(struct gpud_sender *sender, struct gpud_newcomer *newcomer)
{
    struct gpud_message message;
    struct gpud_error error = {.reason = ""};
    switch (gpud_channel_receive(newcomer->channel, &message, &error)) {
    case GPUD_OK:
        handle(sender, newcomer, &message);
        gpud_message_close(&message);
        return;
    case GPUD_AGAIN:
        return;
    case GPUD_CLOSED:
        turn_away(sender, newcomer, GPUD_LOG_INFO,
                  gpud_peer_has_died(&newcomer->channel->peer) ? "was ended by a signal or killed"
                                                               : "vanished without a goodbye");
        return;
    case GPUD_NO_MEMORY:
        refuse(sender, newcomer, GPUD_AGAIN, "", error.reason); /* a failure of this side */
        return;
    case GPUD_UNSUPPORTED: /* another release understands at least a message's header */
        refuse(sender, newcomer, GPUD_UNSUPPORTED, "", error.reason);
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
        uint32_t connects = gpud_admission_connects(&sender->admission, key_of(newcomer->channel));
        if (connects < least) {
            next = newcomer;
            least = connects;
        }
    }
    return next;
}

bool gpud_newcomers_are_full(const struct gpud_sender *sender)
{
    for (uint32_t i = 0; i < sender->newcomer_count; i++)
        if (!sender->newcomers[i].has_spoken)
            return false;
    return sender->newcomer_count == GPUD_NEWCOMERS_MAX;
}

int gpud_newcomer_fd(const struct gpud_newcomer *newcomer)
{
    return newcomer->has_spoken ? -1 : newcomer->channel->fd;
}

int64_t gpud_newcomers_deadline(const struct gpud_sender *sender)
{
    int64_t deadline = INT64_MAX;
    for (uint32_t i = 0; i < sender->newcomer_count; i++) {
        int64_t own = sender->newcomers[i].has_spoken
                          ? gpud_admission_next_handshake(&sender->admission)
                          : sender->newcomers[i].deadline;
        if (own < deadline)
            deadline = own;
    }
    return deadline;
}

/* Reading may find only part of an authentication, or nothing: then it keeps waiting. */
static void have_turn(struct gpud_sender *sender, struct gpud_newcomer *newcomer)
{
    newcomer->has_spoken = false;
    read_message(sender, newcomer);
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
    while (now >= gpud_admission_next_handshake(&sender->admission) && (next = find_next(sender))) {
        gpud_admission_count_handshake(&sender->admission, now);
        have_turn(sender, next);
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

void gpud_newcomers_close(struct gpud_sender *sender)
{
    for (uint32_t i = 0; i < sender->newcomer_count; i++)
        gpud_channel_unref(&sender->newcomers[i].channel);
    sender->newcomer_count = 0;
}
