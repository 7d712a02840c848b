/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Who has connected and not said yet what for. A HELLO makes a receiver of it, if there is a place
 * for one; a QUERY is answered, and that is all: it takes no place, and no receiver notices. */
#include "base/stop.h"
#include "stream/sender/sender.h"

#include <poll.h>

#define AREA "sender"

/* --- those that wait ------------------------------------------------------------------------ */

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

/* As many places as one process can have, of receivers or among those that wait. */
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

/* Turned away: logged and counted, as it is no query. */
static void turn_away(struct gpud_sender *sender, struct gpud_newcomer *newcomer,
                      enum gpud_log_level level, const char *why)
{
    char who[GPUD_PEER_TEXT_MAX];
    gpud_log_at(&sender->context->log, level, AREA, "%s turned away: %s",
                gpud_peer_text(&newcomer->channel->peer, who), why);
    sender->refused++;
    gpud_channel_unref(&newcomer->channel);
}

/* The same, and it is told why. */
static void refuse(struct gpud_sender *sender, struct gpud_newcomer *newcomer,
                   enum gpud_status status, const char *why)
{
    gpud_newcomer_refuse(sender, newcomer->channel, status, why);
    turn_away(sender, newcomer, GPUD_LOG_WARNING, why);
}

void gpud_newcomer_refuse(const struct gpud_sender *sender, struct gpud_channel *channel,
                          enum gpud_status status, const char *why)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_REFUSE};
    message.refuse.epoch = sender->epoch;
    message.refuse.status = status;
    gpud_print(message.refuse.reason, "%s", why);
    gpud_channel_send(channel, &message, NULL); /* whoever is gone already need not know */
}

/* Of the process that has most of them, the one that came first. */
static struct gpud_newcomer *who_waits_most(struct gpud_sender *sender)
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

/* What comes before it is connected (the proof of a key, over a network) has a deadline of its own,
 * which the channel keeps. */
static void start_waiting(struct gpud_newcomer *newcomer, int64_t now)
{
    if (newcomer->deadline == INT64_MAX && atomic_load(&newcomer->channel->connected))
        newcomer->deadline = gpud_deadline_from(now, GPUD_HELLO_DEADLINE);
}

void gpud_newcomer_add(struct gpud_sender *sender, struct gpud_channel *channel)
{
    int64_t key = key_of(channel);
    struct gpud_newcomer newcomer = {.channel = channel, .deadline = INT64_MAX};
    bool told = false;
    if (!gpud_admission_count(&sender->admission, key, gpud_now(), &told)) {
        sender->refused++;
        char who[GPUD_PEER_TEXT_MAX];
        if (!told)
            gpud_log_warning(&sender->context->log, AREA, "%s turned away: it connects too often",
                             gpud_peer_text(&channel->peer, who));
        gpud_channel_unref(&channel);
        return;
    }
    if (waiting_of(sender, key) >= most_of(key)) {
        turn_away(sender, &newcomer, GPUD_LOG_WARNING,
                  "it has as many connections as a process can have");
        return;
    }
    if (sender->newcomer_count == GPUD_NEWCOMERS_MAX) {
        turn_away(sender, who_waits_most(sender), GPUD_LOG_WARNING,
                  "it said nothing, and others come");
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

/* Other users together never have all places. */
static bool are_foreigners_full(const struct gpud_sender *sender)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sender->link_count; i++)
        count +=
            sender->links[i]->channel->peer.foreign && sender->links[i]->state != GPUD_LINK_DEAD;
    return count >= GPUD_PLACES_UNNAMED;
}

/* Whose place is given to a newcomer: of one that is gone, but perhaps for frames that it holds, or
 * of one that does not stream and whose process has more places than the newcomer's would have. */
static struct gpud_link **who_makes_room(struct gpud_sender *sender, int64_t newcomer)
{
    struct gpud_link **chosen = NULL;
    uint32_t most = places_of(sender, newcomer) + 1;
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        bool gone = link->state == GPUD_LINK_LEAVING || link->state == GPUD_LINK_DEAD;
        if (gone && link->told == link->told_end)
            return &sender->links[i];
        uint32_t places = places_of(sender, key_of(link->channel));
        if (!gone && !link->streamed && places > most) {
            chosen = &sender->links[i];
            most = places;
        }
    }
    return chosen;
}

static struct gpud_link **find_place(struct gpud_sender *sender, int64_t newcomer)
{
    if (sender->link_count < GPUD_RECEIVERS_MAX)
        return &sender->links[sender->link_count];
    struct gpud_link **place = who_makes_room(sender, newcomer);
    if (place)
        gpud_link_kill(*place, GPUD_LOG_WARNING, "has to make room for a new receiver");
    return place;
}

/* Its HELLO was read. */
static void make_receiver(struct gpud_sender *sender, struct gpud_newcomer *newcomer,
                          struct gpud_message *hello)
{
    struct gpud_link **place = NULL, *link = NULL;
    const char *why = NULL;
    const struct gpud_peer *peer = &newcomer->channel->peer;
    int64_t key = gpud_peer_key(peer);
    if (places_of(sender, key) >= most_of(key))
        why = "it has as many connections as a process can have";
    else if (peer->foreign && are_foreigners_full(sender))
        why = "other users have as many connections as they can have";
    else if (!(place = find_place(sender, key)))
        why = "all places for receivers are taken";
    else if (!(link = gpud_link_create(sender, newcomer->channel)))
        why = "out of memory for a link";
    if (why) {
        refuse(sender, newcomer, GPUD_AGAIN, why);
        return;
    }
    newcomer->channel = NULL; /* the link's */
    if (place == &sender->links[sender->link_count])
        sender->link_count++;
    else
        gpud_link_unref(*place);
    *place = link;
    gpud_link_handle(link, hello);
}

/* --- their first message -------------------------------------------------------------------- */

static void handle(struct gpud_sender *sender, struct gpud_newcomer *newcomer,
                   struct gpud_message *message)
{
    char why[GPUD_REASON_MAX];
    switch (message->type) {
    case GPUD_MESSAGE_HELLO:
        make_receiver(sender, newcomer, message);
        return;
    case GPUD_MESSAGE_QUERY:
        gpud_sender_answer(sender, newcomer->channel);
        gpud_channel_unref(&newcomer->channel);
        return;
    case GPUD_MESSAGE_BYE: /* it does not take anything from this user's senders, say */
        gpud_print(why, "said goodbye: %s", message->refuse.reason);
        turn_away(sender, newcomer, GPUD_LOG_WARNING, why);
        return;
    default:
        gpud_print(why, "broke the protocol: a %s that nobody expects",
                   gpud_message_name(message->type));
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
        turn_away(sender, newcomer, GPUD_LOG_INFO, "vanished without a goodbye");
        return;
    case GPUD_NO_MEMORY:
        refuse(sender, newcomer, GPUD_AGAIN, error.reason); /* not the peer's fault */
        return;
    case GPUD_UNSUPPORTED: /* another release: the header of a message, at least, it understands */
        refuse(sender, newcomer, GPUD_UNSUPPORTED, error.reason);
        return;
    default:
        turn_away(sender, newcomer, GPUD_LOG_WARNING, error.reason);
    }
}

void gpud_newcomers_read(struct gpud_sender *sender, const struct pollfd *fds, uint32_t count)
{
    int64_t now = gpud_now();
    for (uint32_t i = 0; i < sender->newcomer_count; i++) {
        struct gpud_newcomer *newcomer = &sender->newcomers[i];
        if (i < count && fds[i].revents)
            read_message(sender, newcomer);
        if (newcomer->channel)
            start_waiting(newcomer, now);
        if (newcomer->channel && now >= newcomer->deadline)
            turn_away(sender, newcomer, GPUD_LOG_WARNING,
                      "said nothing for 2 s after it connected");
    }
    remove_gone(sender);
}

void gpud_newcomers_close(struct gpud_sender *sender)
{
    for (uint32_t i = 0; i < sender->newcomer_count; i++)
        gpud_channel_unref(&sender->newcomers[i].channel);
    sender->newcomer_count = 0;
}
