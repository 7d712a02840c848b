/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* Drop-oldest for page carriers that cannot take back (wire/page.h). A frame without a credit waits
 * here, one for each link, until the next such frame replaces it.
 *
 *     submit            no credit: a target without an entry, `late` until its copies are done
 *     copies done       the frame replaces the waiting one, or is sent at once
 *     entry comes back  a KICK wakes the sender's thread, which sends the waiting frame
 *
 * Messages after a waiting or late frame are held, because their position is unknown until that
 * frame is sent or dropped. So is the OFFER of the next epoch.
 *
 * The frame keeps its slot, for which the pool has no extra one: it is dropped when another user
 * needs a slot, on an interrupt, and at the end of the sender. EOS and OFFER wait for it for 5 s at
 * most, because a receiver may give nothing back before it has seen them. All under the lock.
 * Model: tests/model/waiting.pml. */
/* clang-format on */
#include "stream/sender/waiting.h"

#include "base/stop.h"
#include "frame/large_meta.h"
#include "stream/sender/poll.h"

#include <stdlib.h>
#include <string.h>

#define PATIENCE (5 * GPUD_SEC)
/* How often to check a card's queue for room, which it does not report. */
#define ROOM_LOOK (2 * GPUD_MSEC)
/* The limit of messages held for one frame; beyond it the frame is dropped. All are sent at once
 * later, and a card accepts 32 before the first has arrived. */
#define HELD_MAX 28

bool gpud_waiting_is_possible(const struct gpud_link *link)
{
    const struct gpud_transport *transport = link->transport;
    return !transport->page.end.carrier->can_take_back && transport->pool;
}

/* --- messages ------------------------------------------------------------------------------ */

static struct gpud_held_message *pop(struct gpud_waiting *waiting)
{
    struct gpud_held_message *first = waiting->first;
    waiting->first = first->next;
    waiting->held--;
    return first;
}

/* A message of this epoch must follow its OFFER. */
static bool may_go(const struct gpud_link *link, const struct gpud_held_message *held)
{
    uint32_t epoch = link->sender->epoch;
    return held->epoch != epoch || link->epoch == epoch;
}

/* Sends the messages positioned before that frame. Model: send.1. */
static void send_held(struct gpud_link *link, uint64_t before)
{
    struct gpud_waiting *waiting = &link->waiting;
    while (waiting->first && waiting->first->after < before && may_go(link, waiting->first)) {
        struct gpud_held_message *held = pop(waiting);
        struct gpud_message message = {.type = held->type};
        if (held->type == GPUD_MESSAGE_EVENT) {
            message.event.kind = held->event.kind;
            message.event.size = held->event.size;
            memcpy(message.event.data, held->event.data, held->event.size);
        } else {
            message.epoch = held->eos_epoch;
        }
        free(held);
        gpud_link_send(link, &message); /* may end the link, which frees the others */
    }
}

static void keep(struct gpud_waiting *waiting, struct gpud_held_message *held)
{
    held->next = NULL;
    *(waiting->first ? &waiting->last->next : &waiting->first) = held;
    waiting->last = held;
    waiting->held++;
}

static void hurry(struct gpud_waiting *waiting)
{
    if (!waiting->give_up)
        waiting->give_up = gpud_deadline(PATIENCE);
}

/* Model: hold.1. */
void gpud_waiting_send(struct gpud_link *link, struct gpud_message *message)
{
    struct gpud_waiting *waiting = &link->waiting;
    const struct gpud_sender *sender = link->sender;
    if (waiting->held == HELD_MAX)
        gpud_waiting_drop(link);
    if (!gpud_link_takes_frames(link))
        return;
    if (!gpud_link_is_behind(link) && !waiting->first && link->epoch == sender->epoch) {
        gpud_link_send(link, message);
        return;
    }
    bool is_event = message->type == GPUD_MESSAGE_EVENT;
    struct gpud_held_message *held = waiting->held < HELD_MAX
                                         ? malloc(offsetof(struct gpud_held_message, event.data) +
                                                  (is_event ? message->event.size : 0))
                                         : NULL;
    if (!held) {
        gpud_link_kill(link, GPUD_LOG_WARNING,
                       waiting->held < HELD_MAX
                           ? "out of memory for a message to it"
                           : "it reads nothing, and too many messages wait for it");
        return;
    }
    held->after = sender->sequence;
    held->epoch = sender->epoch;
    held->type = message->type;
    held->event.size = 0;
    if (is_event) {
        held->event.kind = message->event.kind;
        held->event.size = message->event.size;
        memcpy(held->event.data, message->event.data, message->event.size);
    } else {
        held->eos_epoch = message->epoch;
        hurry(waiting);
    }
    keep(waiting, held);
}

/* --- the frame ----------------------------------------------------------------------------- */

static void count_drop(struct gpud_link *link)
{
    link->dropped++;
    link->sender->dropped++;
}

static bool take_entry(struct gpud_link *link, uint32_t *entry)
{
    return gpud_transport_has_room(link->transport) &&
           gpud_page_take(&link->transport->page, entry);
}

static void write_out(struct gpud_link *link, uint32_t entry, const struct gpud_frame_info *info,
                      struct gpud_slot *slot, uint64_t sequence)
{
    struct gpud_transport *transport = link->transport;
    gpud_transport_describe(transport, entry, info, slot, sequence, link->dropped);
    gpud_page_descriptor(&transport->page, entry)->submit_time = info->submitted_ns;
    if (gpud_transport_publish(transport, entry))
        atomic_fetch_add_explicit(&link->sender->kicks, 1, memory_order_relaxed);
    link->delivered++;
    link->sender->delivered++;
}

/* Model: advance.1. false: the link ended. */
static bool write_waiting(struct gpud_link *link)
{
    struct gpud_waiting *waiting = &link->waiting;
    struct gpud_error error;
    uint32_t entry;
    if (gpud_transport_reap(link->transport, &error) != GPUD_OK) {
        gpud_link_kill(link, GPUD_LOG_WARNING, error.reason);
        return false;
    }
    if (waiting->slot && take_entry(link, &entry)) {
        struct gpud_slot *slot = waiting->slot;
        waiting->slot = NULL;
        write_out(link, entry, &waiting->info, slot, waiting->sequence);
        gpud_large_meta_clear(&waiting->info);
        gpud_slot_drop(slot);
        GPUD_STOP_POINT("sender: waiting frame published");
    }
    return true;
}

/* Sends what was held for the last waiting frame. */
static void finish(struct gpud_link *link)
{
    struct gpud_waiting *waiting = &link->waiting;
    if (gpud_link_is_behind(link) || !gpud_link_takes_frames(link))
        return;
    waiting->give_up = 0;
    send_held(link, UINT64_MAX);
    if (waiting->owes_offer && gpud_link_takes_frames(link)) {
        waiting->owes_offer = false;
        gpud_sender_wake_listener(link->sender);
    }
}

/* Sets a timer if only the card's queue lacks room. */
static void look_for_room(struct gpud_link *link)
{
    struct gpud_waiting *waiting = &link->waiting;
    bool wants_room = waiting->slot && link->transport->page.free_count > 0;
    if (wants_room && !waiting->look)
        gpud_sender_wake_listener(link->sender); /* to take the new deadline into account */
    waiting->look = wants_room ? gpud_deadline(ROOM_LOOK) : 0;
}

void gpud_waiting_advance(struct gpud_link *link)
{
    struct gpud_waiting *waiting = &link->waiting;
    while (waiting->slot) {
        if (!write_waiting(link))
            return;
        if (!waiting->slot || waiting->is_armed)
            break;
        /* Check once more after arming. Model: arm.1 to arm.3. */
        waiting->is_armed = true;
        gpud_sender_poll_ask(link);
    }
    if (link->transport)
        look_for_room(link);
    finish(link);
}

/* Model: put.1. */
void gpud_waiting_put(const struct gpud_delivery_target *target, const struct gpud_frame_info *info,
                      struct gpud_slot *slot, uint64_t sequence, bool lost)
{
    struct gpud_link *link = target->link;
    struct gpud_waiting *waiting = &link->waiting;
    uint32_t entry;
    waiting->late--;
    lost |= link->state == GPUD_LINK_DEAD;
    if (!lost && link->transport == target->transport && write_waiting(link)) {
        if (waiting->slot)
            gpud_link_drop_waiting(link);
        send_held(link, sequence);
    }
    if (lost || link->transport != target->transport) {
        count_drop(link);
    } else if (take_entry(link, &entry)) {
        write_out(link, entry, info, slot, sequence);
    } else {
        waiting->info = *info;
        gpud_large_meta_ref(info->large_meta);
        waiting->sequence = sequence;
        waiting->slot = slot;
        gpud_slot_hold(slot);
        GPUD_STOP_POINT("sender: frame waits");
    }
    gpud_waiting_advance(link);
}

void gpud_waiting_forget(const struct gpud_delivery_target *target)
{
    target->link->waiting.late--;
    gpud_waiting_advance(target->link);
}

/* --- dropping ------------------------------------------------------------------------------ */

/* Model: give.1. */
void gpud_waiting_drop(struct gpud_link *link)
{
    gpud_waiting_advance(link);
    if (!link->waiting.slot)
        return;
    gpud_link_drop_waiting(link);
    gpud_waiting_advance(link);
}

bool gpud_waiting_reclaim_slot(struct gpud_sender *sender, const struct gpud_pool *pool)
{
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        const struct gpud_slot *slot = link->waiting.slot;
        if (!slot || slot->pool != pool || atomic_load(&slot->users) > 1)
            continue;
        gpud_waiting_drop(link);
        return true;
    }
    return false;
}

/* --- epochs and the thread ----------------------------------------------------------------- */

bool gpud_waiting_delays_offer(struct gpud_link *link)
{
    gpud_waiting_advance(link);
    if (!gpud_link_is_behind(link) || !gpud_link_takes_frames(link))
        return false;
    link->waiting.owes_offer = true;
    hurry(&link->waiting);
    return true;
}

int64_t gpud_waiting_deadline(const struct gpud_link *link)
{
    const struct gpud_waiting *waiting = &link->waiting;
    int64_t deadline = waiting->look ? waiting->look : INT64_MAX;
    return waiting->slot && waiting->give_up && waiting->give_up < deadline ? waiting->give_up
                                                                            : deadline;
}

void gpud_waiting_turn(struct gpud_sender *sender, int64_t now)
{
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        const struct gpud_waiting *waiting = &link->waiting;
        if (waiting->slot && waiting->give_up && now >= waiting->give_up)
            gpud_waiting_drop(link);
        else if (waiting->slot)
            gpud_waiting_advance(link);
    }
}
