/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* Frames that wait for a link which cannot take them yet, oldest first, in two cases:
 *
 *     a new epoch       its receiver has not answered the OFFER, or not confirmed the test. That is
 *                       no slowness: as many frames wait as its share of the ring has slots
 *     drop-oldest       for page carriers that cannot take back (wire/page.h): the newest frame
 *                       waits until the next one replaces it
 *
 *     submit            no credit: a target without an entry, `late` until its copies are done
 *     copies done       the frame joins the waiting ones, or is sent at once
 *     READY             the listener's thread sends them; epoch.c those that take work of a device
 *     entry comes back  a KICK wakes that thread, which sends the next waiting frame
 *
 * Messages after a waiting or late frame are held, because their position is unknown until that
 * frame is sent or dropped; those of a new epoch until its ring is ready. So is the OFFER of the
 * next epoch, for frames of a ring that is in use.
 *
 * A frame keeps its slot. Frames of a new epoch wait in the link's own share of the ring; another
 * one has no slot to spare, and is dropped when another user needs it, and on an interrupt before
 * EOS. All are dropped, after a second, at the end of the sender. EOS and OFFER wait for frames of
 * a ring in use for 5 s at most, because a receiver may give nothing back before it has seen them.
 * All under the lock.
 * Model: tests/model/waiting.pml, and epochs.pml and turns.pml for new epochs. */
/* clang-format on */
#include "stream/sender/waiting.h"

#include "base/probe.h"
#include "base/stop.h"
#include "frame/large_meta.h"
#include "stream/sender/poll.h"

#include <stdlib.h>
#include <string.h>

#define PATIENCE (5 * GPUD_SEC)
/* How often to look for room that nothing reports: in a card's queue, or a free slot in host pages.
 */
#define ROOM_LOOK (2 * GPUD_MSEC)
/* The limit of messages held for a link; beyond it frames are dropped. All are sent at once later,
 * and a card accepts 32 before the first has arrived; a local socket has room for many more. */
#define HELD_MAX 28
#define HELD_MAX_HERE 200

static uint32_t held_max(const struct gpud_link *link)
{
    return link->channel->ops->remote ? HELD_MAX : HELD_MAX_HERE;
}

/* --- where frames may go ------------------------------------------------------------------- */

static bool can_take_back(const struct gpud_transport *transport)
{
    return transport->page.end.carrier->can_take_back;
}

/* How many frames may wait: as many as the link's share has slots that its entries do not use; and
 * only the newest where it is just slow. */
static uint32_t limit_of(const struct gpud_link *link)
{
    uint32_t share = gpud_sender_slots(link->sender, false);
    if (!gpud_link_is_ready(link))
        return share;
    const struct gpud_page_tx *page = &link->transport->page;
    uint32_t used = page->entries - page->free_count;
    bool is_slow = page->free_count == 0 && !can_take_back(link->transport);
    return used < share && !is_slow ? share - used : 1;
}

/* Whether older frames have yet to be delivered by the listener's thread: one that needs no more
 * work of the device would overtake them. Model: turn.1 in turns.pml. */
static bool has_undelivered(const struct gpud_waiting *waiting)
{
    return waiting->is_delivering || waiting->late_kept ||
           (waiting->frames && !waiting->last_frame->is_prepared);
}

/* Whether frames of this link go into its FIFO because its ring is not ready, or was not until just
 * now and older frames have to go first. */
static bool is_kept(const struct gpud_link *link)
{
    return !gpud_link_is_ready(link) ||
           (gpud_link_is_behind(link) &&
            (can_take_back(link->transport) || has_undelivered(&link->waiting)));
}

enum gpud_waiting_kind gpud_waiting_kind(const struct gpud_link *link)
{
    const struct gpud_waiting *waiting = &link->waiting;
    enum gpud_slow_receiver policy = gpud_link_policy(link);
    if (policy == GPUD_SLOW_BLOCK)
        return GPUD_WAITING_NONE;
    if (is_kept(link))
        return policy == GPUD_SLOW_DROP_OLDEST || waiting->count + waiting->late < limit_of(link)
                   ? GPUD_WAITING_KEPT
                   : GPUD_WAITING_NONE;
    return policy == GPUD_SLOW_DROP_OLDEST && !can_take_back(link->transport) &&
                   link->transport->pool
               ? GPUD_WAITING_NEWEST
               : GPUD_WAITING_NONE;
}

/* Whether the slot's frame can go into the link's ring: not while a new epoch's is not ready. */
static bool is_open_for(const struct gpud_link *link, const struct gpud_slot *slot)
{
    return link->state == GPUD_LINK_STREAMING && link->epoch == slot->pool->epoch;
}

/* Whether sending it takes work of the device: a copy, a signal, or an operation of the route. A
 * frame that waited for a ring in use has had that work. */
static bool needs_device(const struct gpud_link *link, const struct gpud_waiting_frame *frame)
{
    const struct gpud_transport *transport = link->transport;
    if (transport->pool != frame->slot->pool)
        return true;
    return !frame->is_prepared && (transport->queues.own || transport->place != GPUD_SIGNAL_NONE);
}

static bool is_obsolete(const struct gpud_link *link, const struct gpud_slot *slot)
{
    return slot->pool->epoch != link->sender->epoch && !is_open_for(link, slot);
}

/* --- messages ------------------------------------------------------------------------------ */

static struct gpud_held_message *pop(struct gpud_waiting *waiting)
{
    struct gpud_held_message *first = waiting->first;
    waiting->first = first->next;
    waiting->held--;
    return first;
}

/* Whether its epoch's ring is in use, so that it has a position. */
static bool may_go(const struct gpud_link *link, const struct gpud_held_message *held)
{
    return link->state == GPUD_LINK_STREAMING && held->epoch <= link->epoch;
}

/* Sends the messages positioned before that frame. last: there will be no other occasion. Model:
 * send.1. */
static void send_held(struct gpud_link *link, uint64_t before, bool last)
{
    struct gpud_waiting *waiting = &link->waiting;
    while (waiting->first && waiting->first->after < before &&
           (last || may_go(link, waiting->first))) {
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
    if (waiting->held == held_max(link))
        gpud_waiting_drop(link);
    if (!gpud_link_takes_frames(link))
        return;
    if (!gpud_link_is_behind(link) && !waiting->first && gpud_link_is_ready(link)) {
        gpud_link_send(link, message);
        return;
    }
    bool is_event = message->type == GPUD_MESSAGE_EVENT;
    struct gpud_held_message *held = waiting->held < held_max(link)
                                         ? malloc(offsetof(struct gpud_held_message, event.data) +
                                                  (is_event ? message->event.size : 0))
                                         : NULL;
    if (!held) {
        gpud_link_kill(link, GPUD_LOG_WARNING,
                       waiting->held < held_max(link)
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

/* --- frames -------------------------------------------------------------------------------- */

static bool take_entry(struct gpud_link *link, uint32_t *entry)
{
    return gpud_transport_has_room(link->transport) &&
           gpud_page_take(&link->transport->page, entry);
}

static void write_out(struct gpud_link *link, uint32_t entry, const struct gpud_frame_info *info,
                      struct gpud_slot *slot, uint64_t sequence)
{
    struct gpud_transport *transport = link->transport;
    gpud_transport_describe(transport, entry, info, slot, sequence, link->dropped,
                            info->submitted_ns);
    if (gpud_transport_publish(transport, entry))
        atomic_fetch_add_explicit(&link->sender->kicks, 1, memory_order_relaxed);
    GPUD_PROBE(publish, link->sender, link->id, sequence);
    link->delivered++;
    link->sender->delivered++;
}

static bool reap(struct gpud_link *link)
{
    struct gpud_error error;
    if (gpud_transport_reap(link->transport, &error) == GPUD_OK)
        return true;
    gpud_link_kill(link, GPUD_LOG_WARNING, error.reason);
    return false;
}

/* Sends frames in order, each behind the messages before it, until one needs the device or there
 * is no entry for it. May end the link. Model: advance.1. */
static void write_waiting(struct gpud_link *link)
{
    struct gpud_waiting *waiting = &link->waiting;
    uint32_t entry;
    while (waiting->frames && is_obsolete(link, waiting->frames->slot))
        gpud_link_drop_waiting(link);
    if (!waiting->frames || !is_open_for(link, waiting->frames->slot) || !reap(link))
        return;
    while (waiting->frames && is_open_for(link, waiting->frames->slot) &&
           !needs_device(link, waiting->frames)) {
        send_held(link, waiting->frames->sequence, false);
        if (!gpud_link_takes_frames(link) || !take_entry(link, &entry))
            return;
        struct gpud_waiting_frame *frame = gpud_link_take_waiting(link);
        write_out(link, entry, &frame->info, frame->slot, frame->sequence);
        gpud_waiting_frame_free(frame);
        GPUD_STOP_POINT("sender: waiting frame published");
    }
}

/* Sends what was held for the last waiting frame. */
static void finish(struct gpud_link *link)
{
    struct gpud_waiting *waiting = &link->waiting;
    if (gpud_link_is_behind(link) || !gpud_link_takes_frames(link))
        return;
    if (link->state == GPUD_LINK_STREAMING)
        waiting->give_up = 0;
    send_held(link, UINT64_MAX, false);
    if (waiting->owes_offer && gpud_link_takes_frames(link)) {
        waiting->owes_offer = false;
        gpud_sender_wake_listener(link->sender);
    }
}

/* Whether the oldest frame waits for nothing but an entry of its ring, or room behind one. */
static bool wants_entry(const struct gpud_link *link)
{
    const struct gpud_waiting *waiting = &link->waiting;
    return waiting->frames && is_open_for(link, waiting->frames->slot);
}

/* Sets a timer if an entry is free, and something else is missing that nothing reports. */
static void look_for_room(struct gpud_link *link)
{
    struct gpud_waiting *waiting = &link->waiting;
    bool wants_room = wants_entry(link) && link->transport->page.free_count > 0;
    if (wants_room && !waiting->look)
        gpud_sender_wake_listener(link->sender); /* to take the new deadline into account */
    waiting->look = wants_room ? gpud_deadline(ROOM_LOOK) : 0;
}

void gpud_waiting_advance(struct gpud_link *link)
{
    struct gpud_waiting *waiting = &link->waiting;
    for (;;) {
        write_waiting(link);
        if (!wants_entry(link) || waiting->is_armed ||
            (link->transport->page.free_count && needs_device(link, waiting->frames)))
            break;
        /* Check once more after arming. Model: arm.1 to arm.3. */
        waiting->is_armed = true;
        gpud_sender_poll_ask(link);
    }
    if (link->transport)
        look_for_room(link);
    finish(link);
}

/* Adds a frame behind those that wait, and drops the oldest if they are too many. */
static void keep_frame(struct gpud_link *link, const struct gpud_frame_info *info,
                       struct gpud_slot *slot, uint64_t sequence, bool is_prepared)
{
    struct gpud_waiting *waiting = &link->waiting;
    struct gpud_waiting_frame *frame = malloc(sizeof(*frame));
    if (!frame) {
        gpud_link_count_drop(link, &link->dropped_failed);
        return;
    }
    frame->next = NULL;
    frame->info = *info;
    gpud_large_meta_ref(info->large_meta);
    frame->sequence = sequence;
    frame->is_prepared = is_prepared;
    frame->slot = slot;
    gpud_slot_hold(slot);
    *(waiting->frames ? &waiting->last_frame->next : &waiting->frames) = frame;
    waiting->last_frame = frame;
    waiting->count++;
    while (waiting->count > limit_of(link))
        gpud_link_drop_waiting(link);
    GPUD_STOP_POINT("sender: frame waits");
}

/* Model: put.1. */
void gpud_waiting_put(const struct gpud_delivery_target *target, const struct gpud_frame_info *info,
                      struct gpud_slot *slot, uint64_t sequence, bool lost)
{
    struct gpud_link *link = target->link;
    struct gpud_waiting *waiting = &link->waiting;
    waiting->late--;
    waiting->late_kept -= !target->transport;
    if (!lost)
        write_waiting(link); /* which may end the link */
    if (lost || !gpud_link_takes_frames(link))
        gpud_link_count_drop(link, &link->dropped_failed);
    else if (is_obsolete(link, slot))
        gpud_link_count_drop(link, &link->dropped_format);
    else
        keep_frame(link, info, slot, sequence, target->transport != NULL);
    gpud_waiting_advance(link);
}

void gpud_waiting_forget(const struct gpud_delivery_target *target)
{
    target->link->waiting.late--;
    target->link->waiting.late_kept -= !target->transport;
    gpud_waiting_advance(target->link);
}

/* --- frames that need the device ------------------------------------------------------------ */

bool gpud_waiting_needs_device(const struct gpud_link *link)
{
    const struct gpud_waiting_frame *frame = link->waiting.frames;
    return frame && is_open_for(link, frame->slot) && link->epoch == link->sender->epoch &&
           needs_device(link, frame);
}

bool gpud_waiting_take_entry(struct gpud_link *link, uint32_t *entry)
{
    if (!reap(link))
        return false;
    send_held(link, link->waiting.frames->sequence, false);
    return gpud_link_takes_frames(link) && take_entry(link, entry);
}

/* --- dropping ------------------------------------------------------------------------------ */

/* Model: give.1. */
void gpud_waiting_drop(struct gpud_link *link)
{
    gpud_waiting_advance(link);
    if (!link->waiting.frames)
        return;
    while (link->waiting.frames)
        gpud_link_drop_waiting(link);
    gpud_waiting_advance(link);
}

void gpud_waiting_end(struct gpud_link *link)
{
    gpud_waiting_drop(link);
    if (gpud_link_takes_frames(link))
        send_held(link, UINT64_MAX, true);
}

bool gpud_waiting_reclaim_slot(struct gpud_sender *sender, const struct gpud_pool *pool, bool last)
{
    bool some = false;
    for (uint32_t i = 0; i < sender->link_count && !some; i++) {
        struct gpud_link *link = sender->links[i];
        const struct gpud_waiting_frame *frame = link->waiting.frames;
        if (!frame || frame->slot->pool != pool || atomic_load(&frame->slot->users) > 1 ||
            !(last || link->epoch == sender->epoch))
            continue;
        gpud_link_drop_waiting(link);
        gpud_waiting_advance(link);
        some = true;
    }
    /* Several links may wait with one frame. */
    for (uint32_t i = 0, count = last && !some ? sender->link_count : 0; i < count; i++) {
        struct gpud_link *link = sender->links[i];
        if (!link->waiting.frames || link->waiting.frames->slot->pool != pool)
            continue;
        gpud_link_drop_waiting(link);
        gpud_waiting_advance(link);
        some = true;
    }
    return some;
}

/* --- epochs and the thread ----------------------------------------------------------------- */

bool gpud_waiting_is_preparing(const struct gpud_link *link)
{
    const struct gpud_waiting *waiting = &link->waiting;
    if (!gpud_link_takes_frames(link) || waiting->was_late)
        return false;
    return waiting->late_kept || (waiting->frames && (!is_open_for(link, waiting->frames->slot) ||
                                                      needs_device(link, waiting->frames)));
}

void gpud_waiting_ready(struct gpud_link *link)
{
    link->waiting.was_late = false;
    if (link->waiting.give_up) /* the receiver could give nothing back before */
        link->waiting.give_up = gpud_deadline(PATIENCE);
    gpud_waiting_advance(link);
}

bool gpud_waiting_delays_offer(struct gpud_link *link)
{
    struct gpud_waiting *waiting = &link->waiting;
    const struct gpud_sender *sender = link->sender;
    gpud_waiting_advance(link);
    while (waiting->frames && waiting->frames->slot->pool->epoch != sender->epoch &&
           needs_device(link, waiting->frames))
        gpud_link_drop_waiting(link); /* its copy would be made by the new format */
    bool old = waiting->frames && waiting->frames->slot->pool->epoch != sender->epoch;
    if (!gpud_link_takes_frames(link) || (!old && waiting->late == waiting->late_kept))
        return false;
    waiting->owes_offer = true;
    hurry(waiting);
    return true;
}

int64_t gpud_waiting_deadline(const struct gpud_link *link)
{
    const struct gpud_waiting *waiting = &link->waiting;
    int64_t deadline = waiting->look ? waiting->look : INT64_MAX;
    return wants_entry(link) && waiting->give_up && waiting->give_up < deadline ? waiting->give_up
                                                                                : deadline;
}

void gpud_waiting_turn(struct gpud_sender *sender, int64_t now)
{
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        const struct gpud_waiting *waiting = &link->waiting;
        if (wants_entry(link) && waiting->give_up && now >= waiting->give_up)
            gpud_waiting_drop(link);
        else if (waiting->frames)
            gpud_waiting_advance(link);
    }
}
