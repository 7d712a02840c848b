/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The application's frames, formats and messages, and what of them waits for a receiver. */
#include "stream/sender/sender.h"

#include "base/base.h"
#include "frame/frame.h"
#include "frame/media/media.h"
#include "route/route.h"
#include "stream/shared/shared.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define AREA "sender"

/* === poll ==================================================================================== */
/* A descriptor for applications that submit from an event loop, armed when a call finds no slot or
 * no credit. Receivers then send a KICK over their channels when they give an entry back, and the
 * listener's thread reads it. */

/* How often to check a device: no descriptor reports that it has read a frame. */
#define DEVICE_LOOK (100 * GPUD_USEC)

static void watch_pools(struct gpud_sender *sender, int fd)
{
    if (sender->device_pool)
        gpud_pool_set_wake(sender->device_pool, fd);
    if (sender->host_pool)
        gpud_pool_set_wake(sender->host_pool, fd);
}

/* Requests a KICK for the next returned entry. Check once more after the call. */
static void poll_ask(struct gpud_link *link)
{
    struct gpud_page_tx *page = &link->transport->page;
    link->kicks_due++;
    atomic_store_explicit(&page->page->sender.wanted, 1, memory_order_relaxed);
    gpud_page_poll_begin(&page->end);
}

static void poll_arm(struct gpud_sender *sender)
{
    bool ready = atomic_load(&sender->interrupted), device_reads = false;
    if (sender->loop.fd < 0)
        return;
    gpud_loop_drain(&sender->loop);
    sender->polls = true;
    watch_pools(sender, sender->loop.event);
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_transport *transport = sender->links[i]->transport;
        if (!transport || !transport->page.page)
            continue;
        device_reads |= transport->releasing_count > 0;
        poll_ask(sender->links[i]);
        ready |= gpud_page_has_returns(&transport->page); /* it came back before */
    }
    if (sender->lacks_slot)
        ready |= (sender->device_pool && gpud_pool_count_free(sender->device_pool)) ||
                 (sender->host_pool && gpud_pool_count_free(sender->host_pool));
    if (ready)
        gpud_event_raise(sender->loop.event);
    gpud_loop_set_timer(&sender->loop, device_reads ? gpud_now() + DEVICE_LOOK : INT64_MAX);
}

void gpud_sender_poll_disarm(struct gpud_sender *sender)
{
    sender->lacks_slot = false;
    if (!sender->polls)
        return;
    sender->polls = false;
    watch_pools(sender, -1);
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        if (!link->transport || !link->transport->page.page || link->waiting.frames)
            continue;
        gpud_page_poll_end(&link->transport->page.end);
        link->waiting.is_armed = false;
    }
}

/* === waiting ================================================================================= */
/* clang-format off */
/* Frames that wait for a link which cannot take them yet, oldest first, in two cases:
 *
 *     a new epoch       its receiver has not answered the OFFER, or not confirmed the test. That is
 *                       not slowness: as many frames wait as its share of the ring has slots
 *     drop-oldest       for page carriers that cannot take back (wire/wire.h): the newest frame
 *                       waits until the next one replaces it
 *
 *     submit            no credit: a target without an entry, `late` until its copies are done
 *     copies done       the frame joins the waiting ones, or is sent at once
 *     READY             the listener's thread sends them, by deliver_one() if they need a device
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

#define PATIENCE (5 * GPUD_SEC)

/* How often to look for room that nothing reports: in a card's queue, or a free slot in host pages.
 */
#define ROOM_LOOK (2 * GPUD_MSEC)

/* The limit of messages held for a link; beyond it frames are dropped. All are sent at once later,
 * and a card accepts 32 before the first has arrived; a local socket has room for many more. */
#define HELD_MAX 28
#define HELD_MAX_HERE 200

/* --- the list ------------------------------------------------------------------------------- */

static struct gpud_waiting_frame *take_waiting(struct gpud_link *link)
{
    struct gpud_waiting_frame *frame = link->waiting.frames;
    link->waiting.frames = frame->next;
    link->waiting.count--;
    return frame;
}

static void waiting_frame_free(struct gpud_waiting_frame *frame)
{
    gpud_large_meta_clear(&frame->info);
    gpud_slot_drop(frame->slot);
    free(frame);
}

static bool is_delta(const struct gpud_frame_info *info)
{
    return info->flags & GPUD_FRAME_DELTA;
}

/* Drops the oldest frame, and those behind it that are of no use without it. */
static void drop_waiting(struct gpud_link *link)
{
    bool awaits_key = link->awaits_key;
    do {
        struct gpud_waiting_frame *frame = take_waiting(link);
        bool had_ring =
            link->state >= GPUD_LINK_STREAMING && link->epoch == frame->slot->pool->epoch;
        gpud_link_count_drop(link,
                             had_ring ? &link->info.dropped_oldest : &link->info.dropped_format);
        waiting_frame_free(frame);
    } while (link->waiting.frames && is_delta(&link->waiting.frames->info));
    /* What follows the newest frame depends on those that are left, if there are any. */
    if (link->waiting.frames)
        link->awaits_key = awaits_key;
}

void gpud_waiting_clear(struct gpud_link *link)
{
    struct gpud_waiting *waiting = &link->waiting;
    while (waiting->first) {
        struct gpud_held_message *gone = waiting->first;
        waiting->first = gone->next;
        free(gone);
    }
    waiting->held = 0;
    while (waiting->frames)
        drop_waiting(link);
    waiting->owes_offer = false;
    waiting->give_up = waiting->look = 0;
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

enum gpud_waiting_kind {
    GPUD_WAITING_NONE,   /* a frame without a credit is dropped, or the call waits */
    GPUD_WAITING_NEWEST, /* it can wait, in a slot of the link's ring */
    GPUD_WAITING_KEPT,   /* likewise, in a slot of the sender's device */
};

/* Whether a frame can wait for a link that cannot take it now, by its policy. */
static enum gpud_waiting_kind waiting_kind(const struct gpud_link *link)
{
    const struct gpud_waiting *waiting = &link->waiting;
    enum gpud_slow_receiver policy = gpud_link_policy(link);
    bool oldest = policy == GPUD_SLOW_DROP_OLDEST;
    if (policy == GPUD_SLOW_BLOCK)
        return GPUD_WAITING_NONE;
    /* Frames go into the link's FIFO while its ring is not ready, and until older frames have gone:
     * one that needs no more work of the device would overtake those that the listener's thread has
     * yet to deliver. Model: turn.1 in turns.pml. */
    bool is_kept = !gpud_link_is_ready(link);
    if (!is_kept && gpud_link_is_behind(link))
        is_kept = can_take_back(link->transport) || waiting->is_delivering || waiting->late_kept ||
                  (waiting->frames && !waiting->last_frame->is_prepared);
    if (is_kept)
        return oldest || waiting->count + waiting->late < limit_of(link) ? GPUD_WAITING_KEPT
                                                                         : GPUD_WAITING_NONE;
    return oldest && !can_take_back(link->transport) && gpud_transport_shares_slots(link->transport)
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
    return !frame->is_prepared &&
           (gpud_transport_gives_slots(transport) || transport->place != GPUD_SIGNAL_NONE);
}

static bool is_obsolete(const struct gpud_link *link, const struct gpud_slot *slot)
{
    return slot->pool->epoch != link->sender->epoch && !is_open_for(link, slot);
}

/* --- messages ------------------------------------------------------------------------------ */

/* Sends the messages positioned before that frame, whose epoch's ring is in use, so that they have
 * a position. last: there will be no other occasion. Model: send.1. */
static void send_held(struct gpud_link *link, uint64_t before, bool last)
{
    struct gpud_waiting *waiting = &link->waiting;
    struct gpud_held_message *held;
    while ((held = waiting->first) && held->after < before &&
           (last || (link->state == GPUD_LINK_STREAMING && held->epoch <= link->epoch))) {
        struct gpud_message message = {.type = held->type};
        waiting->first = held->next;
        waiting->held--;
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

static void waiting_drop(struct gpud_link *link);

/* gpud_link_send() for the application's EVENT or EOS: at once, or after the waiting frames.
 * Model: hold.1. */
static void waiting_send(struct gpud_link *link, struct gpud_message *message)
{
    struct gpud_waiting *waiting = &link->waiting;
    const struct gpud_sender *sender = link->sender;
    const uint32_t held_max = link->channel->ops->remote ? HELD_MAX : HELD_MAX_HERE;
    if (waiting->held == held_max)
        waiting_drop(link);
    if (!gpud_link_takes_frames(link))
        return;
    if (!gpud_link_is_behind(link) && !waiting->first && gpud_link_is_ready(link)) {
        gpud_link_send(link, message);
        return;
    }
    if (waiting->held >= held_max) {
        gpud_link_kill(link, GPUD_LOG_WARNING,
                       "it reads nothing, and too many messages wait for it");
        return;
    }
    bool is_event = message->type == GPUD_MESSAGE_EVENT;
    struct gpud_held_message *held = malloc(offsetof(struct gpud_held_message, event.data) +
                                            (is_event ? message->event.size : 0));
    if (!held) {
        gpud_link_kill(link, GPUD_LOG_WARNING, "out of memory for a message to it");
        return;
    }
    held->next = NULL;
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
        if (!waiting->give_up)
            waiting->give_up = gpud_deadline(PATIENCE);
    }
    *(waiting->first ? &waiting->last->next : &waiting->first) = held;
    waiting->last = held;
    waiting->held++;
}

/* --- frames -------------------------------------------------------------------------------- */

/* Whether one more frame could be sent now, if there is a credit. */
static bool has_room(const struct gpud_transport *transport)
{
    return !transport->remote || transport->remote->ops->has_room(transport->remote);
}

static bool take_entry(struct gpud_link *link, uint32_t *entry)
{
    return has_room(link->transport) && gpud_page_take(&link->transport->page, entry);
}

bool gpud_link_reap(struct gpud_link *link)
{
    struct gpud_error error;
    if (gpud_transport_reap(link->transport, &error) == GPUD_OK)
        return true;
    gpud_link_kill(link, GPUD_LOG_WARNING, error.reason);
    return false;
}

/* Whether the oldest frame waits for nothing but an entry of its ring, or room behind one. */
static bool wants_entry(const struct gpud_link *link)
{
    const struct gpud_waiting *waiting = &link->waiting;
    return waiting->frames && is_open_for(link, waiting->frames->slot);
}

/* Sends frames in order, each behind the messages before it, until one needs the device or there
 * is no entry for it. May end the link. Model: advance.1. */
static void write_waiting(struct gpud_link *link)
{
    struct gpud_waiting *waiting = &link->waiting;
    struct gpud_sender *sender = link->sender;
    uint32_t entry;
    while (waiting->frames && is_obsolete(link, waiting->frames->slot))
        drop_waiting(link);
    if (!wants_entry(link) || !gpud_link_reap(link))
        return;
    while (wants_entry(link) && !needs_device(link, waiting->frames)) {
        send_held(link, waiting->frames->sequence, false);
        if (!gpud_link_takes_frames(link) || !take_entry(link, &entry))
            return;
        struct gpud_waiting_frame *frame = take_waiting(link);
        gpud_transport_describe(link->transport, entry, &frame->info, frame->slot, frame->sequence,
                                link->info.dropped, frame->info.submitted_ns);
        gpud_transport_publish(sender, link->transport, entry);
        gpud_transports_wake(sender, &link->transport, 1);
        GPUD_PROBE(publish, sender, link->id, frame->sequence);
        link->info.delivered++;
        sender->info.delivered++;
        waiting_frame_free(frame);
        GPUD_STOP_POINT("sender: waiting frame published");
    }
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
        poll_ask(link);
    }
    if (link->transport) {
        /* An entry is free, and something else is missing that nothing reports: looks again soon.
         */
        bool wants_room = wants_entry(link) && link->transport->page.free_count > 0;
        if (wants_room && !waiting->look)
            gpud_sender_wake_listener(link->sender); /* to take the new deadline into account */
        waiting->look = wants_room ? gpud_deadline(ROOM_LOOK) : 0;
    }
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

/* Model: put.1. */
void gpud_waiting_put(const struct gpud_delivery_target *target, const struct gpud_frame_info *info,
                      struct gpud_slot *slot, uint64_t sequence, bool lost)
{
    struct gpud_link *link = target->link;
    struct gpud_waiting *waiting = &link->waiting;
    struct gpud_waiting_frame *frame = NULL;
    waiting->late--;
    waiting->late_kept -= !target->transport;
    if (!lost)
        write_waiting(link); /* which may end the link */
    lost |= !gpud_link_takes_frames(link);
    if (!lost && is_obsolete(link, slot)) {
        gpud_link_count_drop(link, &link->info.dropped_format);
    } else if (lost || !(frame = malloc(sizeof(*frame)))) {
        gpud_link_count_drop(link, &link->info.dropped_failed);
    } else {
        frame->next = NULL;
        frame->info = *info;
        gpud_large_meta_ref(info->large_meta);
        frame->sequence = sequence;
        frame->is_prepared = target->transport != NULL;
        frame->slot = slot;
        gpud_slot_hold(slot);
        *(waiting->frames ? &waiting->last_frame->next : &waiting->frames) = frame;
        waiting->last_frame = frame;
        waiting->count++;
        while (waiting->count > limit_of(link))
            drop_waiting(link);
        GPUD_STOP_POINT("sender: frame waits");
    }
    gpud_waiting_advance(link);
}

/* --- dropping ------------------------------------------------------------------------------ */

/* Drops the waiting frames that cannot be sent; sends the messages after them. Model: give.1. */
static void waiting_drop(struct gpud_link *link)
{
    gpud_waiting_advance(link);
    if (!link->waiting.frames)
        return;
    while (link->waiting.frames)
        drop_waiting(link);
    gpud_waiting_advance(link);
}

void gpud_waiting_end(struct gpud_link *link)
{
    waiting_drop(link);
    if (gpud_link_takes_frames(link))
        send_held(link, UINT64_MAX, true);
}

bool gpud_waiting_reclaim_slot(struct gpud_sender *sender, const struct gpud_pool *pool, bool last)
{
    bool some = false;
    /* Several links may wait with one frame, so that at last it is dropped for each of them. */
    for (int all = 0; all <= last && !some; all++)
        for (uint32_t i = 0; i < sender->link_count && (all || !some); i++) {
            struct gpud_link *link = sender->links[i];
            const struct gpud_waiting_frame *frame = link->waiting.frames;
            if (!frame || frame->slot->pool != pool ||
                (!all &&
                 (atomic_load(&frame->slot->users) > 1 || !(last || link->epoch == sender->epoch))))
                continue;
            drop_waiting(link);
            gpud_waiting_advance(link);
            some = true;
        }
    return some;
}

/* --- epochs and the thread ----------------------------------------------------------------- */

/* Whether frames wait that the next format, or the end, would lose, because their receiver's ring
 * is not ready or takes work of the device. Not of a receiver that was waited for in vain, until it
 * has caught up. */
static bool waiting_is_preparing(const struct gpud_link *link)
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
        drop_waiting(link); /* its copy would be made by the new format */
    bool old = waiting->frames && waiting->frames->slot->pool->epoch != sender->epoch;
    if (!gpud_link_takes_frames(link) || (!old && waiting->late == waiting->late_kept))
        return false;
    waiting->owes_offer = true;
    if (!waiting->give_up)
        waiting->give_up = gpud_deadline(PATIENCE);
    return true;
}

int64_t gpud_waiting_deadline(const struct gpud_link *link)
{
    const struct gpud_waiting *waiting = &link->waiting;
    int64_t deadline = waiting->look ? waiting->look : INT64_MAX;
    return wants_entry(link) && waiting->give_up && waiting->give_up < deadline ? waiting->give_up
                                                                                : deadline;
}

/* === epoch =================================================================================== */
/* Epochs: a format and the rings made for it. */

/* How long a change of format, counted from the one before, waits for receivers that still prepare
 * their rings. */
#define CHANGE_PATIENCE (100 * GPUD_MSEC)

/* Starts a new epoch with the current layout; the listener's thread offers its ring to every
 * receiver. Under the lock. Release the previous epoch's pools without it, because that may free
 * memory. */
static void sender_start_epoch(struct gpud_sender *sender, struct gpud_pool *old[2])
{
    old[0] = sender->host_pool;
    old[1] = sender->device_pool;
    gpud_sender_poll_disarm(sender); /* the new epoch has other pools to watch */
    gpud_event_raise(sender->loop.event);
    /* Not reused: receivers may still read slots of the previous epoch. */
    sender->device_pool = sender->host_pool = NULL;
    sender->epoch++;
    sender->epoch_start = sender->sequence;
    sender->epoch_began = gpud_now();
    gpud_sender_wake_listener(sender);
}

/* --- frames that wait for a new ring --------------------------------------------------------- */

void gpud_sender_settle(struct gpud_sender *sender, int64_t deadline)
{
    for (;;) {
        bool some = false;
        for (uint32_t i = 0; i < sender->link_count; i++)
            some |= waiting_is_preparing(sender->links[i]);
        if (!some || (atomic_load(&sender->interrupted) && !sender->ended) ||
            gpud_now() >= deadline)
            break;
        gpud_sender_wait_for_change(sender, deadline);
    }
    for (uint32_t i = 0; i < sender->link_count; i++)
        sender->links[i]->waiting.was_late |= waiting_is_preparing(sender->links[i]);
}

/* Model: turn.1 in turns.pml.
 *
 * Delivers the link's oldest frame, if it waits only for work of the device, to it
 * alone, like any frame and behind the messages before it; later ones join those that wait. false:
 * not now. May end the link. */
static bool deliver_one(struct gpud_link *link)
{
    struct gpud_waiting_frame *frame = link->waiting.frames;
    struct gpud_transport *transport = link->transport;
    uint32_t entry;
    if (!wants_entry(link) || link->epoch != link->sender->epoch || !needs_device(link, frame) ||
        !gpud_link_reap(link))
        return false;
    send_held(link, frame->sequence, false);
    if (!gpud_link_takes_frames(link) || !take_entry(link, &entry))
        return false;
    struct gpud_delivery delivery = {
        .frame = &frame->slot->frame,
        .info = &frame->info,
        .submitted = frame->info.submitted_ns,
        .device_slot = frame->slot,
        .corrupted = frame->info.flags & GPUD_FRAME_CORRUPTED,
        .sequence = frame->sequence,
        .count = 1,
    };
    if (gpud_transport_shares_slots(transport) && transport->pool != frame->slot->pool &&
        !(delivery.host_slot = gpud_pool_take(transport->pool))) {
        gpud_page_untake(&transport->page, entry);
        return false;
    }
    take_waiting(link);
    gpud_target_take(&delivery.target[0], link, entry);
    gpud_slot_hold(frame->slot);
    link->waiting.late++;
    link->waiting.is_delivering = true;
    gpud_deliver(link->sender, &delivery, NULL);
    link->waiting.is_delivering = false;
    link->waiting.late--;
    waiting_frame_free(frame);
    GPUD_STOP_POINT("sender: waiting frame published");
    return true;
}

void gpud_waiting_turn(struct gpud_sender *sender, int64_t now)
{
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        const struct gpud_waiting *waiting = &link->waiting;
        if (wants_entry(link) && waiting->give_up && now >= waiting->give_up)
            waiting_drop(link);
        else if (waiting->frames)
            gpud_waiting_advance(link);
    }
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        bool some = false;
        while (deliver_one(link))
            some = true;
        if (!some)
            continue;
        gpud_waiting_advance(link);
        gpud_sender_changed(sender);
    }
}

void gpud_sender_set_dmabufs(struct gpud_sender *sender, bool wanted)
{
    gpud_sender_lock(sender);
    sender->dmabufs_wanted = wanted;
    gpud_sender_unlock(sender);
}

enum gpud_status gpud_sender_configure(struct gpud_sender *sender, const struct gpud_media *media,
                                       struct gpud_error *error)
{
    struct gpud_layout layout, image;
    struct gpud_pool *old[2];
    struct gpud_error why;
    enum gpud_status status = gpud_media_get_layout(media, &layout, error);
    if (status != GPUD_OK)
        return status;
    /* The media's layout, or that of images if the application asked for them and the driver has
     * some that work. */
    struct gpud_layout slots = layout;
    if (sender->modifier_count && media->kind == GPUD_MEDIA_PICTURE && !layout.modifier) {
        if (gpud_image_find(sender->device, &layout, sender->modifiers, sender->modifier_count,
                            &image, &why) == GPUD_OK &&
            (gpud_layout_equal(&image, &sender->layout) || /* as before, and proved then */
             gpud_image_prove(sender->queue, sender->host, &layout, &image, &why) == GPUD_OK))
            slots = image;
        else
            gpud_log_info(&sender->context->log, AREA, "frames are lent as rows: %s", why.reason);
    }
    gpud_sender_lock(sender);
    gpud_lines_give_up(sender);
    gpud_sender_settle(sender, sender->epoch_began + CHANGE_PATIENCE);
    sender->media = *media;
    sender->rows = layout;
    sender->layout = slots;
    atomic_store(&sender->has_images, slots.modifier != layout.modifier);
    sender->configured = true;
    sender->ended = false;
    sender->dmabufs = sender->dmabufs_wanted;
    sender_start_epoch(sender, old);
    gpud_sender_unlock(sender);
    gpud_pool_unref(&old[0]);
    gpud_pool_unref(&old[1]);
    gpud_listener_tell(sender->listener, media);
    return GPUD_OK;
}

/* === submit ================================================================================== */
/* The application's frames. Lending one takes a slot; submitting it takes a credit of every
 * receiver, by its policy, and the slots that routes need, and then delivers it. */

/* --- lending ------------------------------------------------------------------------------- */

static enum gpud_status not_configured(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_INVALID,
                     "the sender has no format yet: call gpud_sender_configure() first");
}

/* How long after a change of format frames that wait for receivers keep slots that the application
 * needs: the ring soon grows by the receivers' shares. */
#define GROWTH_PATIENCE (50 * GPUD_MSEC)

/* Takes a free slot of a pool, and waits for one if needed (dropping the lock meanwhile). */
static enum gpud_status take_slot(struct gpud_sender *sender, struct gpud_pool *pool,
                                  int64_t deadline, struct gpud_slot **slot,
                                  struct gpud_error *error)
{
    uint32_t epoch = sender->epoch;
    enum gpud_ring_place place =
        pool == sender->device_pool ? GPUD_RING_SENDER_DEVICE : GPUD_RING_SENDER_HOST;
    for (;;) {
        if ((*slot = gpud_pool_take(pool)))
            return GPUD_OK;
        for (uint32_t i = 0; i < sender->link_count; i++) {
            struct gpud_link *link = sender->links[i];
            if (link->state != GPUD_LINK_DEAD && link->transport && link->transport->page.page)
                gpud_link_reap(link);
        }
        if ((*slot = gpud_pool_take(pool)))
            return GPUD_OK;
        /* Makes the sender's queue wait for slots that receivers' devices still read, if those
         * receivers may delay the sender. */
        int64_t now = gpud_now();
        struct gpud_transport *blocking[GPUD_RECEIVERS_MAX];
        uint32_t count = 0;
        for (uint32_t i = 0; i < sender->link_count; i++) {
            const struct gpud_link *link = sender->links[i];
            if (link->state != GPUD_LINK_DEAD && link->transport &&
                gpud_link_policy(link) == GPUD_SLOW_BLOCK)
                blocking[count++] = link->transport;
        }
        if (gpud_transports_await_release(blocking, count, sender->queue) ||
            gpud_waiting_reclaim_slot(
                sender, pool, now >= deadline || now >= sender->epoch_began + GROWTH_PATIENCE))
            continue;
        if (atomic_load(&sender->interrupted))
            return gpud_sender_interrupted(error);
        sender->lacks_slot = true;
        if (now >= deadline)
            return gpud_pool_explain(pool, error);
        /* Every receiver has its own share of the ring, so the application holds the sender's. */
        struct gpud_pool *kept = pool;
        gpud_pool_ref(kept);
        gpud_sender_unlock(sender);
        gpud_pool_wait(kept, now + GPUD_MSEC < deadline ? now + GPUD_MSEC : deadline);
        gpud_sender_lock(sender);
        gpud_pool_unref(&kept);
        if (epoch != sender->epoch)
            return gpud_fail(error, GPUD_INVALID, "the format changed meanwhile");
        enum gpud_status status = gpud_sender_get_pool(sender, place, &pool, error);
        if (status != GPUD_OK)
            return status;
    }
}

enum gpud_status gpud_sender_acquire(struct gpud_sender *sender, int64_t timeout_ns,
                                     struct gpud_frame **frame, struct gpud_error *error)
{
    if (timeout_ns < 0)
        return gpud_sender_bad_timeout(error);
    struct gpud_slot *slot = NULL;
    gpud_sender_lock(sender);
    if (timeout_ns == 0)
        gpud_sender_poll_disarm(sender);
    enum gpud_status status = GPUD_OK;
    struct gpud_pool *pool;
    if (!sender->configured)
        status = not_configured(error);
    else
        status = gpud_sender_get_pool(sender, GPUD_RING_SENDER_DEVICE, &pool, error);
    /* Reading the clock costs more than taking a slot that is free. */
    if (status == GPUD_OK && !(slot = gpud_pool_take(pool)))
        status = take_slot(sender, pool, gpud_deadline(timeout_ns), &slot, error);
    if (status == GPUD_TIMEOUT && timeout_ns == 0)
        poll_arm(sender);
    gpud_sender_unlock(sender);
    if (status == GPUD_OK)
        *frame = &slot->frame;
    return status;
}

/* --- sleeping for credits ------------------------------------------------------------------ */

/* How often to check for other events: a dead peer cannot wake this side. */
#define SLICE (50 * GPUD_MSEC)

/* Nor can a device that is still reading: checked at the pace of a frame. */
#define DEVICE_SLICE (50 * GPUD_USEC)

/* A wait for credits of a link. */
struct credit_wait {
    const struct gpud_page *page;
    uint32_t returned; /* entries returned so far */
    const atomic_bool *interrupted;
};

static bool has_returns(void *arg)
{
    const struct credit_wait *wait = arg;
    return atomic_load_explicit(&wait->page->receiver.returned, memory_order_acquire) !=
               wait->returned ||
           atomic_load_explicit(wait->interrupted, memory_order_relaxed);
}

/* Sleeps until credits may have been returned, the transport is woken, or the deadline passes.
 * Drops the lock meanwhile. */
static void await_credits(struct gpud_link *link, int64_t deadline)
{
    struct gpud_sender *sender = link->sender;
    struct gpud_transport *transport = link->transport;
    struct gpud_page_tx *page = &transport->page;
    struct credit_wait wait = {page->page, page->returned, &sender->interrupted};
    /* Half the ring: one wake for several frames. A receiver that runs dry wakes us earlier. */
    uint32_t wanted = page->entries > 1 ? page->entries / 2 : 1;
    bool by_device = transport->releasing_count > 0; /* a device has yet to finish */
    sender->info.waits_cpu++;
    transport->references++;
    gpud_sender_unlock(sender);
    /* While a device copies, spinning would only heat the processor. */
    if (by_device || !gpud_spin(&link->spin, has_returns, &wait)) {
        int64_t start = gpud_now();
        int64_t slice = start + (by_device ? DEVICE_SLICE : SLICE);
        atomic_store_explicit(&page->page->sender.wanted, wanted, memory_order_relaxed);
        gpud_page_sleep(&page->end, has_returns, &wait, slice < deadline ? slice : deadline);
        gpud_spin_learn(&link->spin, gpud_now() - start);
    }
    gpud_sender_lock(sender);
    link->waiting.is_armed = false; /* sleeping on the page revokes the request for a KICK */
    gpud_transport_unref(&transport);
}

/* --- submitting ---------------------------------------------------------------------------- */

/* Once for each key frame that the link waits for. */
static void ask_for_key(struct gpud_link *link)
{
    struct gpud_key_request *request = &link->sender->key_request;
    if (link->key_asked)
        return;
    link->key_asked = true;
    if (!request->size)
        *request = (struct gpud_key_request){.size = sizeof(*request), .time_ns = GPUD_TIME_NONE};
    request->at_once = request->all_headers = true;
}

/* References the links that get this frame; later ones do not, nor, if the frame depends on others,
 * those that have not begun. */
static uint32_t snapshot(struct gpud_sender *sender, bool delta,
                         struct gpud_link *links[GPUD_RECEIVERS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sender->link_count; i++) {
        if (!gpud_link_takes_frames(sender->links[i]))
            continue;
        struct gpud_link *link = sender->links[i];
        if (!link->started && delta) {
            ask_for_key(link);
            continue;
        }
        if (!link->started) {
            link->started = true;
            link->start = sender->sequence;
            if (link->transport && link->transport->page.page)
                gpud_page_start(&link->transport->page, link->start);
        }
        links[count++] = link;
        link->references++;
    }
    return count;
}

/* Takes back the oldest frame that the receiver has not taken, and those behind it that are of no
 * use without it. GPUD_AGAIN: it has taken all. */
static enum gpud_status revoke_oldest(struct gpud_link *link)
{
    const struct gpud_descriptor *next;
    bool awaits_key = link->awaits_key;
    struct gpud_error reason;
    do {
        enum gpud_status status = gpud_transport_revoke(link->transport, &reason);
        if (status == GPUD_PEER)
            gpud_link_kill(link, GPUD_LOG_WARNING, reason.reason);
        if (status != GPUD_OK)
            return status;
        gpud_link_uncount(link, 1);
        gpud_link_count_drop(link, &link->info.dropped_oldest);
        next = gpud_page_peek_oldest(&link->transport->page);
    } while (next && next->flags & GPUD_FRAME_DELTA);
    if (next)
        link->awaits_key = awaits_key;
    return GPUD_OK;
}

/* Frees an entry of each receiver that may delay the sender and has none left, as take_credit()
 * does of one, by one call of the driver. */
static void await_entries(struct gpud_sender *sender, struct gpud_link *const *links,
                          uint32_t count)
{
    struct gpud_transport *waiting[GPUD_RECEIVERS_MAX];
    uint32_t some = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_link *link = links[i];
        if (gpud_link_is_ready(link) && gpud_link_policy(link) == GPUD_SLOW_BLOCK &&
            link->transport->page.free_count == 0 && gpud_link_reap(link) &&
            link->transport->page.free_count == 0)
            waiting[some++] = link->transport;
    }
    if (some > 0)
        gpud_transports_await_release(waiting, some, sender->queue);
}

/* Model (tests/model): credit.1 to credit.4 in ring.pml.
 *
 * Takes a credit of one receiver, by its policy. delta: the frame depends on those before it.
 * GPUD_OK with *target filled; GPUD_CLOSED: it gets nothing (it is dead, or the frame is dropped
 * for it, which counts as *drop); GPUD_AGAIN, GPUD_TIMEOUT: it blocks. */
static enum gpud_status take_credit(struct gpud_link *link, bool delta, int64_t deadline,
                                    struct gpud_delivery_target *target, uint64_t **drop,
                                    struct gpud_error *error)
{
    struct gpud_sender *sender = link->sender;
    *drop = NULL;
    GPUD_STOP_POINT("sender: before a credit is taken");
    for (;;) {
        if (!gpud_link_takes_frames(link))
            return GPUD_CLOSED;
        bool ready = gpud_link_is_ready(link);
        if (ready && !gpud_link_reap(link))
            continue;
        if (ready && link->waiting.frames) {
            gpud_waiting_advance(link);
            if (!gpud_link_is_ready(link))
                continue;
        }
        enum gpud_slow_receiver policy = gpud_link_policy(link);
        bool blocks = policy == GPUD_SLOW_BLOCK;
        uint32_t entry;
        if (delta && link->awaits_key) {
            *drop = policy == GPUD_SLOW_DROP_NEWEST ? &link->info.dropped_newest
                    : ready                         ? &link->info.dropped_oldest
                                                    : &link->info.dropped_format;
            return GPUD_CLOSED;
        }
        if (ready && !gpud_link_is_behind(link) && has_room(link->transport) &&
            (gpud_page_take(&link->transport->page, &entry) ||
             (blocks && gpud_transports_await_release(&link->transport, 1, sender->queue) &&
              gpud_page_take(&link->transport->page, &entry)))) {
            gpud_target_take(target, link, entry);
            GPUD_STOP_POINT("sender: credit taken");
            return GPUD_OK;
        }
        enum gpud_waiting_kind waits = waiting_kind(link);
        /* It would replace a frame that it depends on. */
        if (waits != GPUD_WAITING_NONE && delta &&
            link->waiting.count + link->waiting.late >= limit_of(link)) {
            *drop = ready ? &link->info.dropped_oldest : &link->info.dropped_format;
            return GPUD_CLOSED;
        }
        if (waits != GPUD_WAITING_NONE) {
            gpud_target_take(target, link, GPUD_NO_ENTRY);
            link->waiting.late++;
            if (waits == GPUD_WAITING_KEPT) {
                link->waiting.late_kept++;
                gpud_transport_unref(&target->transport);
            }
            return GPUD_OK;
        }
        if (ready && policy == GPUD_SLOW_DROP_OLDEST) {
            if (revoke_oldest(link) != GPUD_AGAIN)
                continue;
        }
        if (!blocks) {
            *drop = ready ? &link->info.dropped_newest : &link->info.dropped_format;
            return GPUD_CLOSED;
        }
        if (atomic_load(&sender->interrupted))
            return gpud_sender_interrupted(error);
        if (gpud_now() >= deadline) {
            char peer_text[GPUD_PEER_TEXT_MAX];
            return gpud_fail(error, GPUD_TIMEOUT, "receiver %s (%s) takes no frame",
                             link->peer.name, gpud_peer_text(&link->channel->peer, peer_text));
        }
        if (ready)
            await_credits(link, deadline);
        else
            gpud_sender_wait_for_change(sender, deadline);
    }
}

static void submit_give_up(struct gpud_delivery *delivery)
{
    for (uint32_t i = 0; i < delivery->count; i++) {
        struct gpud_delivery_target *target = &delivery->target[i];
        if (target->entry == GPUD_NO_ENTRY) {
            target->link->waiting.late--;
            target->link->waiting.late_kept -= !target->transport;
            gpud_waiting_advance(target->link);
        } else {
            gpud_page_untake(&target->transport->page, target->entry);
        }
        gpud_transport_unref(&target->transport);
        gpud_link_unref(target->link);
    }
    if (delivery->device_slot)
        gpud_slot_drop(delivery->device_slot);
    if (delivery->host_slot)
        gpud_slot_drop(delivery->host_slot);
}

/* The slots that a frame needs: by routes that share the sender's own slots, and by those that
 * share its slots on the host. */
enum { NEEDS_LOCAL = 1, NEEDS_STAGED = 2 };

static unsigned needs_of(const struct gpud_sender *sender, const struct gpud_transport *transport,
                         bool waits)
{
    if (waits)
        return NEEDS_LOCAL;
    if (!transport || !gpud_transport_shares_slots(transport))
        return 0; /* the receiver owns the ring */
    return transport->on_host && sender->device != sender->host ? NEEDS_STAGED : NEEDS_LOCAL;
}

/* The frame's own slot, if this pool lent it, or a free one. */
static enum gpud_status take_slot_for(struct gpud_sender *sender, enum gpud_ring_place place,
                                      struct gpud_frame *frame, int64_t deadline,
                                      struct gpud_slot **slot, struct gpud_error *error)
{
    struct gpud_pool *pool;
    enum gpud_status status = gpud_sender_get_pool(sender, place, &pool, error);
    if (status != GPUD_OK)
        return status;
    *slot = gpud_pool_slot_of(pool, frame);
    if (!*slot)
        return take_slot(sender, pool, deadline, slot, error);
    gpud_slot_hold(*slot);
    return GPUD_OK;
}

/* Takes those that the delivery does not have yet. */
static enum gpud_status take_slots(struct gpud_sender *sender, unsigned needs, int64_t deadline,
                                   struct gpud_delivery *delivery, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    if (needs & NEEDS_LOCAL && !delivery->device_slot)
        status = take_slot_for(sender, GPUD_RING_SENDER_DEVICE, delivery->frame, deadline,
                               &delivery->device_slot, error);
    if (needs & NEEDS_STAGED && !delivery->host_slot && status == GPUD_OK)
        status = take_slot_for(sender, GPUD_RING_SENDER_HOST, delivery->frame, deadline,
                               &delivery->host_slot, error);
    return status;
}

/* Wakes receivers for `more` frames that will be submitted; 0 withdraws the announcement. */
static void submit_announce(struct gpud_sender *sender, struct gpud_link **links, uint32_t count,
                            uint32_t more)
{
    struct gpud_transport *ready[GPUD_RECEIVERS_MAX];
    uint32_t some = 0;
    for (uint32_t i = 0; i < count; i++)
        if (gpud_link_is_ready(links[i]))
            ready[some++] = links[i]->transport;
    gpud_transports_announce(sender, ready, some, more);
}

void gpud_sender_announce(struct gpud_sender *sender)
{
    gpud_sender_lock(sender);
    submit_announce(sender, sender->links, sender->link_count, 1);
    gpud_sender_unlock(sender);
}

/* How a frame is submitted. */
enum submission {
    CONSUME,
    KEEP,
    BY_LINES, /* it is kept, and still written */
};

/* Takes slots, then credits, then the slots that turned out to be needed as well, and delivers;
 * under the lock. *rearm: a signal nears its limit. */
static enum gpud_status submit_submit(struct gpud_sender *sender, struct gpud_frame *frame,
                                      enum submission how, int64_t deadline, bool *rearm,
                                      struct gpud_error *error)
{
    struct gpud_link *links[GPUD_RECEIVERS_MAX];
    uint64_t *drop[GPUD_RECEIVERS_MAX]; /* where a drop of this frame counts for the link */
    bool delta = is_delta(&frame->info);
    uint32_t count = snapshot(sender, delta, links);
    struct gpud_delivery delivery;
    delivery.frame = frame;
    delivery.info = &frame->info;
    delivery.submitted = 0;
    delivery.consume = how == CONSUME;
    delivery.by_lines = how == BY_LINES;
    delivery.canary = delivery.corrupted = false;
    delivery.device_slot = delivery.host_slot = NULL;
    delivery.copied = delivery.lines = 0;
    delivery.count = 0;

    uint32_t epoch = sender->epoch;
    unsigned needs = 0;
    for (uint32_t i = 0; i < count; i++)
        needs |= needs_of(sender, links[i]->transport,
                          (!gpud_link_is_ready(links[i]) || gpud_link_is_behind(links[i])) &&
                              waiting_kind(links[i]) == GPUD_WAITING_KEPT);
    enum gpud_status status = take_slots(sender, needs, deadline, &delivery, error);
    if (status == GPUD_OK)
        await_entries(sender, links, count);
    for (uint32_t i = 0; i < count && status == GPUD_OK; i++) {
        status = take_credit(links[i], delta, deadline, &delivery.target[delivery.count], &drop[i],
                             error);
        if (status == GPUD_OK)
            delivery.count++;
        else if (status == GPUD_CLOSED)
            status = GPUD_OK;
    }
    /* While a credit was awaited, a handshake may have ended with another route. */
    for (uint32_t i = 0; i < delivery.count; i++)
        needs |= needs_of(sender, delivery.target[i].transport, !delivery.target[i].transport);
    if (status == GPUD_OK)
        status = take_slots(sender, needs, deadline, &delivery, error);
    if (status == GPUD_OK && epoch != sender->epoch)
        status = gpud_fail(error, GPUD_INVALID,
                           "the format changed while the frame was being submitted");
    if (status == GPUD_OK) {
        delivery.sequence = ++sender->sequence;
        GPUD_PROBE(submit, sender, delivery.count, delivery.sequence);
        sender->ended = false;
        for (uint32_t i = 0; i < count; i++) {
            links[i]->awaits_key &= delta;
            links[i]->key_asked &= delta;
            if (drop[i])
                gpud_link_count_drop(links[i], drop[i]);
            if (drop[i] && delta)
                ask_for_key(links[i]);
        }
        status = gpud_deliver(sender, &delivery, error);
    } else {
        submit_give_up(&delivery);
        submit_announce(sender, links, count, 0);
    }

    for (uint32_t i = 0; i < count; i++) {
        *rearm |= gpud_link_is_ready(links[i]) && links[i]->transport->value >= GPUD_SIGNAL_LIMIT;
        gpud_link_unref(links[i]);
    }
    return status;
}

static enum gpud_status no_frame(struct gpud_error *error)
{
    return gpud_fail(
        error, GPUD_INVALID,
        "there is no frame to submit: it was not acquired, or was submitted or released "
        "before");
}

static enum gpud_status check_frame(const struct gpud_sender *sender, struct gpud_frame *frame,
                                    enum submission how, struct gpud_error *error)
{
    if (!sender->configured)
        return not_configured(error);
    if (sender->writing)
        return gpud_fail(error, GPUD_INVALID,
                         "the frame before is whole up to line %u of %u: submit the rest of its "
                         "lines, or release it",
                         sender->lines, gpud_deliver_writing(sender)->info.layout.height);
    if (how == BY_LINES && (frame->ops != &gpud_lent_ops ||
                            ((const struct gpud_pool *)frame->owner)->lender != sender))
        return gpud_fail(error, GPUD_INVALID,
                         "only a frame that this sender lent can be submitted line by line");
    if (how == BY_LINES && frame->info.flags & GPUD_FRAME_READ_ONLY)
        return gpud_fail(error, GPUD_INVALID, "the frame is whole: acquire the next one");
    if (frame->maps && !(how == BY_LINES && frame->memory->host))
        return gpud_fail(error, GPUD_INVALID,
                         "the frame is still mapped: gpud_frame_unmap() it first");
    enum gpud_status status = gpud_frame_check(frame, error);
    if (status != GPUD_OK)
        return status;
    if (!gpud_layout_same_picture(&frame->info.layout, &sender->layout) &&
        !gpud_layout_same_picture(&frame->info.layout, &sender->rows))
        return gpud_fail(
            error, GPUD_INVALID, "the frame is %s %ux%u, the sender's format is %s %ux%u",
            frame->info.layout.format, frame->info.layout.width, frame->info.layout.height,
            sender->layout.format, sender->layout.width, sender->layout.height);
    if (frame->info.large_meta_size > sender->large_meta_max)
        return gpud_fail(error, GPUD_INVALID,
                         "a large meta of %zu bytes, and gpud_sender_params.large_meta_max is %u",
                         frame->info.large_meta_size, sender->large_meta_max);
    uint64_t bytes = frame->info.bytes;
    struct gpud_media_units units = gpud_media_get_units(&sender->media);
    if (bytes && !gpud_media_units_allow(&units, bytes))
        return gpud_fail(error, GPUD_INVALID,
                         "%llu bytes of the frame are in use: all, or a multiple of %u behind the "
                         "first %llu, can be sent",
                         (unsigned long long)bytes, units.unit, (unsigned long long)units.first);
    return GPUD_OK;
}

/* *delivered: the links have the frame; one that is not kept is the delivery's from then on. */
static enum gpud_status submit_frame(struct gpud_sender *sender, struct gpud_frame *frame,
                                     enum submission how, int64_t timeout_ns, bool *delivered,
                                     struct gpud_error *error)
{
    if (!frame)
        return no_frame(error);
    if (timeout_ns < 0)
        return gpud_sender_bad_timeout(error);
    gpud_sender_lock(sender);
    if (timeout_ns == 0)
        gpud_sender_poll_disarm(sender);
    enum gpud_status status = check_frame(sender, frame, how, error);
    bool rearm = false;
    struct gpud_pool *old[2] = {NULL};
    if (status == GPUD_OK) {
        uint64_t before = sender->sequence;
        int64_t now = gpud_now();
        status =
            submit_submit(sender, frame, how, gpud_deadline_from(now, timeout_ns), &rearm, error);
        *delivered = sender->sequence != before;
        if (*delivered)
            sender->submitted = now;
        if (*delivered && sender->is_at_rest) {
            sender->is_at_rest = false;
            gpud_sender_wake_listener(sender);
        }
        if (status == GPUD_TIMEOUT && timeout_ns == 0)
            poll_arm(sender);
    }
    if (rearm)
        sender_start_epoch(sender, old);
    gpud_sender_unlock(sender);
    gpud_pool_unref(&old[0]);
    gpud_pool_unref(&old[1]);
    return status;
}

enum gpud_status gpud_sender_submit(struct gpud_sender *sender, struct gpud_frame **frame,
                                    int64_t timeout_ns, struct gpud_error *error)
{
    bool delivered = false;
    enum gpud_status status = submit_frame(sender, *frame, CONSUME, timeout_ns, &delivered, error);
    if (delivered)
        *frame = NULL; /* the delivery owns it */
    else if (status != GPUD_AGAIN && status != GPUD_TIMEOUT)
        gpud_frame_release(frame);
    return status;
}

enum gpud_status gpud_sender_submit_keep(struct gpud_sender *sender, struct gpud_frame *frame,
                                         int64_t timeout_ns, struct gpud_error *error)
{
    bool delivered = false;
    enum gpud_status status = submit_frame(sender, frame, KEEP, timeout_ns, &delivered, error);
    if (delivered)
        frame->info.flags |= GPUD_FRAME_READ_ONLY;
    return status;
}

/* How long a device may take to write what was posted on a frame. */
#define WRITTEN_DEADLINE GPUD_SEC

enum gpud_status gpud_sender_submit_lines(struct gpud_sender *sender, struct gpud_frame *frame,
                                          uint32_t lines, int64_t timeout_ns,
                                          struct gpud_error *error)
{
    if (!frame)
        return no_frame(error);
    const struct gpud_layout *layout = &frame->info.layout;
    enum gpud_status status = GPUD_OK;
    bool delivered = false;
    if (gpud_layout_is_block(layout))
        return gpud_fail(error, GPUD_INVALID, "a block has no lines: submit it as a whole");
    if (lines > layout->height)
        return gpud_fail(error, GPUD_INVALID, "%u lines of a picture that has %u", lines,
                         layout->height);
    if (frame->queue)
        status = gpud_queue_finish(frame->queue, gpud_deadline(WRITTEN_DEADLINE), error);
    if (status != GPUD_OK)
        return status;
    gpud_sender_lock(sender);
    bool begun = gpud_deliver_writing(sender) == frame;
    gpud_sender_unlock(sender);
    if (!begun)
        status = submit_frame(sender, frame, BY_LINES, timeout_ns, &delivered, error);
    return status == GPUD_OK ? gpud_lines_advance(sender, frame, lines, error) : status;
}

bool gpud_sender_take_key_request(struct gpud_sender *sender, struct gpud_key_request *request)
{
    gpud_sender_lock(sender);
    struct gpud_key_request *all = &sender->key_request, said;
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_transport *transport = sender->links[i]->transport;
        if (!transport || !transport->page.page ||
            !gpud_page_take_key_request(&transport->page, &transport->key_serial, &said))
            continue;
        all->at_once |= said.at_once;
        all->all_headers |= said.all_headers;
        if (!all->size || said.time_ns < all->time_ns) /* NONE is later than all */
            all->time_ns = said.time_ns;
        all->size = sizeof(*all);
    }
    bool some = all->size > 0;
    if (some)
        gpud_sized_copy(request, request->size, all, sizeof(*all));
    *all = (struct gpud_key_request){0};
    gpud_sender_unlock(sender);
    return some;
}

/* === messages ================================================================================ */

static void send_to_all(struct gpud_sender *sender, struct gpud_message *message)
{
    for (uint32_t i = 0; i < sender->link_count; i++)
        if (gpud_link_takes_frames(sender->links[i]))
            waiting_send(sender->links[i], message);
}

static enum gpud_status keep_sticky(struct gpud_sender *sender,
                                    const struct gpud_user_message *event, struct gpud_error *error)
{
    int place = 0;
    while (place < GPUD_STICKY_MAX && sender->sticky[place] &&
           sender->sticky[place]->kind != event->kind)
        place++;
    if (place == GPUD_STICKY_MAX)
        return gpud_fail(error, GPUD_INVALID, "more than %d kinds of sticky events",
                         GPUD_STICKY_MAX);
    if (!sender->sticky[place] && !(sender->sticky[place] = malloc(sizeof(*event))))
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for an event");
    *sender->sticky[place] = *event;
    return GPUD_OK;
}

enum gpud_status gpud_sender_send_event(struct gpud_sender *sender, uint32_t kind, const void *data,
                                        size_t size, struct gpud_error *error)
{
    if (size > GPUD_EVENT_SIZE_MAX)
        return gpud_fail(error, GPUD_INVALID, "an event of %zu bytes: at most %d are possible",
                         size, GPUD_EVENT_SIZE_MAX);
    struct gpud_message message = {.type = GPUD_MESSAGE_EVENT};
    message.event.kind = kind;
    message.event.size = (uint32_t)size;
    memcpy(message.event.data, data ? data : "", size);
    enum gpud_status status = GPUD_OK;
    gpud_sender_lock(sender);
    if (kind & GPUD_EVENT_STICKY)
        status = keep_sticky(sender, &message.event, error);
    if (status == GPUD_OK)
        send_to_all(sender, &message);
    GPUD_STOP_POINT("sender: event sent");
    gpud_sender_unlock(sender);
    return status;
}

enum gpud_status gpud_sender_send_eos(struct gpud_sender *sender, struct gpud_error *error)
{
    struct gpud_message message = {.type = GPUD_MESSAGE_EOS};
    gpud_sender_lock(sender);
    message.epoch = sender->epoch;
    sender->ended = true;
    gpud_log_info(&sender->context->log, AREA, "the stream ends after %" PRIu64 " frames",
                  sender->sequence);
    send_to_all(sender, &message);
    GPUD_STOP_POINT("sender: EOS sent");
    gpud_sender_unlock(sender);
    return GPUD_OK;
}

/* --- waking the application ---------------------------------------------------------------- */

/* Wakes threads that wait for a receiver or a slot. */
static void wake_waiting(struct gpud_sender *sender)
{
    gpud_sender_changed(sender);
    for (uint32_t i = 0; i < sender->link_count; i++)
        if (sender->links[i]->transport)
            gpud_transport_wake_sender(sender->links[i]->transport);
    if (sender->device_pool)
        gpud_pool_wake(sender->device_pool);
}

void gpud_sender_interrupt(struct gpud_sender *sender, bool interrupted)
{
    atomic_store(&sender->interrupted, interrupted);
    if (!interrupted)
        return;
    gpud_sender_lock(sender);
    /* Frames still wait for a receiver that prepares its ring, and for any one behind an EOS. */
    for (uint32_t i = 0; i < sender->link_count && !sender->ended; i++)
        if (!waiting_is_preparing(sender->links[i]))
            waiting_drop(sender->links[i]);
    wake_waiting(sender);
    gpud_sender_unlock(sender);
}

enum gpud_status gpud_sender_set_slow_receiver(struct gpud_sender *sender,
                                               enum gpud_slow_receiver slow_receiver,
                                               struct gpud_error *error)
{
    enum gpud_status status = gpud_route_check_params(0, slow_receiver, NULL, error);
    if (status != GPUD_OK)
        return status;
    gpud_sender_lock(sender);
    sender->slow_receiver = slow_receiver ? slow_receiver : GPUD_SLOW_BLOCK;
    wake_waiting(sender);
    gpud_sender_unlock(sender);
    return GPUD_OK;
}
