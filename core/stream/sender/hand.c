/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Hands a frame on: the work of the devices, the entry in each receiver's page; frames that wait;
 * completions, and the lock. */
#include "stream/sender/sender.h"

#include "base/base.h"
#include "frame/frame.h"

#include <stdlib.h>
#include <string.h>

/* === source ================================================================================== */
/* The source of a submitted frame's bytes: a slot of the sender, the application's memory, or a
 * frame of another owner, a receiver or a capture, which may still be incomplete, and which is
 * released once copied. */

/* Enqueues a copy of the frame's bytes in use from its memory, as the queue sees it, to the
 * delivery's layout: plane by plane, or at once if the layouts are equal; where one of them is an
 * image, the device rearranges it. With `begun` the rows that earlier steps have copied are left
 * out. */
static enum gpud_status source_copy(struct gpud_sender *sender, struct gpud_queue *queue,
                                    const struct gpud_delivery *delivery, bool begun,
                                    struct gpud_memory *from, struct gpud_memory *to,
                                    uint64_t to_offset, struct gpud_error *error)
{
    const struct gpud_frame *frame = delivery->frame;
    const struct gpud_slot *slot = delivery->device_slot; /* of those only, frames may be images */
    const struct gpud_layout *from_layout = &frame->info.layout;
    const struct gpud_layout *to_layout =
        slot && to == slot->frame.memory ? &delivery->layout : &delivery->rows;
    struct gpud_rows rows = {begun ? delivery->copied : 0, gpud_delivery_end(delivery)};
    struct gpud_copy copy = {
        .to = to,
        .from = from,
        .to_offset = to_offset,
        .from_offset = frame->offset,
        .row_bytes = gpud_frame_bytes(frame),
        .rows = 1,
    };
    bool whole = rows.from == 0 && rows.to == to_layout->height;
    enum gpud_status status =
        from_layout->modifier != to_layout->modifier
            ? gpud_image_copy(queue, &copy, to_layout, from_layout, error)
        : whole && gpud_layout_equal(from_layout, to_layout)
            ? gpud_queue_copy(queue, &copy, error)
            : gpud_rows_copy(queue, &copy, to_layout, from_layout, rows, error);
    if (rows.to == to_layout->height)
        gpud_queue_count_copy(queue, from, &sender->copies_cpu, &sender->copies_gpu);
    return status;
}

/* The frame's memory as the sender's device sees it. */
static enum gpud_status source_find(struct gpud_sender *sender, const struct gpud_frame *frame,
                                    struct gpud_memory **source, struct gpud_error *error)
{
    struct gpud_memory *memory = frame->memory;
    if (memory->device != sender->device && !memory->host)
        return gpud_fail(error, GPUD_INVALID,
                         "the frame lies on %s, and the sender works on %s: wrap memory of %s",
                         memory->device->info.name, sender->device->info.name,
                         sender->device->info.name);
    return gpud_memory_view(memory, sender->device, source, error);
}

/* --- frames of other owners ---------------------------------------------------------------- */

/* How long a frame's owner may still be writing it. */
#define FILLED_DEADLINE GPUD_SEC

static enum gpud_status not_filled(const struct gpud_error *why, struct gpud_error *error)
{
    /* Not GPUD_TIMEOUT, which would mean that the frame can be submitted again. */
    return gpud_fail_native(error, GPUD_IO, why->origin, why->native,
                            "the frame to send on is not complete: %s", why->reason);
}

/* Orders later work on the queue after the frame's bytes. */
static enum gpud_status source_order(struct gpud_sender *sender, struct gpud_queue *queue,
                                     struct gpud_delivery *delivery, struct gpud_error *error)
{
    struct gpud_frame *frame = delivery->frame;
    struct gpud_error why = {0};
    enum gpud_status status = GPUD_OK;
    if (gpud_pool_orders(frame, queue))
        return GPUD_OK;
    status = gpud_frame_order(frame, queue, gpud_deadline(FILLED_DEADLINE), &why);
    if (status == GPUD_PEER) { /* the bytes never came: pass that on to the receivers */
        delivery->corrupted = true;
        status = GPUD_OK;
    }
    return status == GPUD_OK ? GPUD_OK : not_filled(&why, error);
}

/* Whether the sender is on the host and the frame is not; then source_fetch() lets the frame's
 * device copy it into the delivery's slot. */
static bool source_is_elsewhere(const struct gpud_sender *sender, const struct gpud_frame *frame)
{
    return (sender->device->caps & GPUD_CAP_CPU_ADDRESSABLE) &&
           frame->memory->device != sender->device && !frame->memory->host;
}

/* Lets the frame's own device copy it into the host's slot. */
static enum gpud_status source_fetch(struct gpud_sender *sender, struct gpud_delivery *delivery,
                                     struct gpud_error *error)
{
    struct gpud_frame *frame = delivery->frame;
    const struct gpud_slot *slot = delivery->device_slot;
    struct gpud_memory *view;
    struct gpud_error why = {0};
    if (!slot || &slot->frame == frame)
        return GPUD_OK;
    enum gpud_status status = gpud_frame_need_queue(frame, error);
    if (status == GPUD_OK)
        status = gpud_memory_view(slot->frame.memory, frame->memory->device, &view, error);
    if (status == GPUD_OK)
        status = source_order(sender, frame->queue, delivery, error);
    if (status == GPUD_OK)
        status = source_copy(sender, frame->queue, delivery, false, frame->memory, view,
                             slot->frame.offset, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_queue_finish(frame->queue, gpud_deadline(FILLED_DEADLINE), &why);
    return status == GPUD_OK ? GPUD_OK : not_filled(&why, error);
}

/* Call after enqueuing the copies: waits for them if the frame is kept and has another owner, to
 * which it may be released as soon as the call returns. */
/* A kept frame may be given back as soon as the call returns. */
static enum gpud_status source_finish(struct gpud_sender *sender,
                                      const struct gpud_delivery *delivery,
                                      struct gpud_error *error)
{
    struct gpud_error why = {0};
    if (delivery->consume || delivery->frame->slot == UINT32_MAX ||
        gpud_pool_orders(delivery->frame, sender->queue))
        return GPUD_OK;
    enum gpud_status status =
        gpud_queue_finish(sender->queue, gpud_deadline(FILLED_DEADLINE), &why);
    return status == GPUD_OK
               ? GPUD_OK
               : gpud_fail_native(error, GPUD_IO, why.origin, why.native, "%s", why.reason);
}

/* === copies ================================================================================== */
/* Puts the device work that each receiver of a frame needs on queues: copies, signals, and the
 * route's own operations. */

/* Copies a frame in host memory by the host's queue, to spare it the way through the device. */
static enum gpud_status copy_to_host(struct gpud_sender *sender,
                                     const struct gpud_delivery *delivery, bool begun,
                                     struct gpud_memory *source, struct gpud_memory *host,
                                     struct gpud_memory *view, uint64_t offset,
                                     struct gpud_error *error)
{
    struct gpud_memory *memory = delivery->frame->memory;
    if (memory->device == sender->host)
        return source_copy(sender, sender->host_queue, delivery, begun, memory, host, offset,
                           error);
    return source_copy(sender, sender->queue, delivery, begun, source, view, offset, error);
}

/* Copies into the receiver's ring, on the sender's queue; between host memories the CPU copies at
 * once. */
static enum gpud_status copy_to_receiver(struct gpud_sender *sender,
                                         const struct gpud_delivery *delivery,
                                         const struct gpud_delivery_target *target,
                                         struct gpud_memory *source, struct gpud_error *error)
{
    const struct gpud_transport *transport = target->transport;
    uint64_t offset;
    struct gpud_memory *memory = gpud_ring_slot(&transport->ring, target->entry, &offset);
    struct gpud_memory *view = gpud_transport_slot(transport, target->entry, &offset);
    if (transport->on_host)
        return copy_to_host(sender, delivery, target->stepwise, source, memory, view, offset,
                            error);
    return source_copy(sender, sender->queue, delivery, target->stepwise, source, view, offset,
                       error);
}

/* Whether earlier steps have filled a part of the host's slot. */
static bool host_slot_is_begun(const struct gpud_delivery *delivery)
{
    for (uint32_t i = 0; i < delivery->count; i++)
        if (delivery->target[i].stepwise &&
            gpud_transport_shares_slots(delivery->target[i].transport))
            return true;
    return false;
}

/* The frame's slot, if the delivery is finished once its work is on the queues: the receivers'
 * devices wait for signals, and the same queue orders the slot's next writer. Else NULL. Under the
 * lock. */
static struct gpud_slot *copies_are_stream_ordered(const struct gpud_sender *sender,
                                                   const struct gpud_delivery *delivery)
{
    struct gpud_slot *slot =
        sender->device_pool ? gpud_pool_slot_of(sender->device_pool, delivery->frame) : NULL;
    /* Without fences an application's own queue cannot be ordered after ours. */
    if (!slot || delivery->frame->memory->host || delivery->host_slot ||
        !gpud_device_has_fences(sender->device))
        return NULL;
    for (uint32_t i = 0; i < delivery->count; i++)
        if (gpud_target_waits(&delivery->target[i]))
            return NULL;
    return slot;
}

/* Copies into one receiver's ring and posts its signal, on the link's own queues. */
static enum gpud_status send_on_own_queues(struct gpud_sender *sender,
                                           const struct gpud_delivery *delivery,
                                           const struct gpud_delivery_target *target,
                                           struct gpud_memory *source, struct gpud_error *error)
{
    struct gpud_transport *transport = target->transport;
    const struct gpud_link_queues *queues = &transport->queues;
    struct gpud_slot *slot = delivery->ordered;
    struct gpud_fence copied;
    uint64_t offset;
    struct gpud_memory *memory = gpud_transport_slot(transport, target->entry, &offset);
    enum gpud_status status = gpud_queue_join(queues->copy, sender->queue, error);
    if (status == GPUD_OK)
        status = source_copy(sender, queues->copy, delivery, target->stepwise, source, memory,
                             offset, error);
    if (status == GPUD_OK)
        status = gpud_queue_mark(queues->copy, &copied, error);
    if (status != GPUD_OK)
        return status;
    /* Behind copies that are still under way, a signal among them would hold up the next one;
     * alone, it comes sooner by the hop from queue to queue. */
    if (!delivery->lines) {
        struct gpud_queue *post =
            gpud_transport_is_drained(transport) ? queues->copy : queues->post;
        if (post != queues->copy)
            status = gpud_queue_await(post, &copied, error);
        if (status == GPUD_OK)
            status = gpud_transport_post(transport, target->entry, post, error);
    }
    /* The next writer of the frame's memory comes after the copy. */
    if (slot) {
        gpud_slot_add_read(slot, &copied);
        return status;
    }
    enum gpud_status awaited = gpud_queue_await(sender->queue, &copied, error);
    gpud_fence_drop(&copied);
    return status == GPUD_OK ? awaited : status;
}

/* Gives the slot to the receiver's device, after the sender's queue has written it. A failure
 * affects that receiver alone. */
static enum gpud_status give_slot(struct gpud_sender *sender, const struct gpud_delivery *delivery,
                                  struct gpud_delivery_target *target, struct gpud_error *error)
{
    struct gpud_slot *slot = delivery->device_slot;
    const struct gpud_route_slot_ops *route = target->transport->route->slots;
    atomic_store(&slot->given_by, route);
    enum gpud_status status =
        route->give(target->transport->queues.own, slot->frame.memory, sender->queue, error);
    target->failed = status != GPUD_OK;
    return delivery->canary ? status : GPUD_OK;
}

/* Enqueues the work for one receiver. */
static enum gpud_status send_copies(struct gpud_sender *sender,
                                    const struct gpud_delivery *delivery,
                                    struct gpud_delivery_target *target, struct gpud_memory *source,
                                    struct gpud_error *error)
{
    struct gpud_transport *transport = target->transport;
    enum gpud_status status = GPUD_OK;
    if (gpud_transport_gives_slots(transport))
        return give_slot(sender, delivery, target, error);
    if (transport->queues.copy)
        return send_on_own_queues(sender, delivery, target, source, error);
    if (!gpud_transport_shares_slots(transport))
        status = copy_to_receiver(sender, delivery, target, source, error);
    if (status == GPUD_OK && transport->place != GPUD_SIGNAL_NONE && !delivery->lines)
        status = gpud_transport_post(transport, target->entry, sender->queue, error);
    return status;
}

/* Enqueues everything that the delivery's targets need. */
static enum gpud_status copies_enqueue(struct gpud_sender *sender, struct gpud_delivery *delivery,
                                       struct gpud_error *error)
{
    struct gpud_queue *queue = sender->queue;
    const struct gpud_frame *frame = delivery->frame;
    struct gpud_memory *source;
    if (source_is_elsewhere(sender, frame))
        return source_fetch(sender, delivery, error);
    enum gpud_status status = source_find(sender, frame, &source, error);
    if (status == GPUD_OK)
        status = source_order(sender, queue, delivery, error);
    if (status != GPUD_OK)
        return status;

    if (delivery->device_slot && &delivery->device_slot->frame != frame)
        status =
            source_copy(sender, queue, delivery, false, source, delivery->device_slot->frame.memory,
                        delivery->device_slot->frame.offset, error);
    if (delivery->host_slot && status == GPUD_OK)
        status = copy_to_host(sender, delivery, host_slot_is_begun(delivery), source,
                              delivery->host_slot->frame.memory, delivery->host_slot->view,
                              delivery->host_slot->frame.offset, error);
    for (uint32_t i = 0; i < delivery->count && status == GPUD_OK; i++) {
        if (!delivery->target[i].transport)
            continue;
        status = send_copies(sender, delivery, &delivery->target[i], source, error);
        if (!gpud_target_waits(&delivery->target[i]))
            GPUD_STOP_POINT("sender: signal posted");
    }
    GPUD_STOP_POINT("sender: copy enqueued");
    if (status == GPUD_OK)
        status = gpud_queue_flush(queue, error);
    return status == GPUD_OK ? source_finish(sender, delivery, error) : status;
}

/* === waiting ================================================================================= */
/* Frames that wait for a link, and the messages after them: the first ones of a new epoch, whose
 * receiver still prepares its ring, and the newest one for a slow receiver, if frames cannot be
 * taken back. All under the lock. */

/* clang-format off */
/* Frames that wait for a link which cannot take them yet, oldest first, in two cases:
 *
 *     a new epoch       its receiver has not answered the OFFER, or not confirmed the test. That is
 *                       no slowness: as many frames wait as its share of the ring has slots
 *     drop-oldest       for page carriers that cannot take back (wire/wire.h): the newest frame
 *                       waits until the next one replaces it
 *
 *     submit            no credit: a target without an entry, `late` until its copies are done
 *     copies done       the frame joins the waiting ones, or is sent at once
 *     READY             the listener's thread sends them; submit.c those that take work of a device
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
                   gpud_transport_shares_slots(link->transport)
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

static void waiting_keep(struct gpud_waiting *waiting, struct gpud_held_message *held)
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
    waiting_keep(waiting, held);
}

/* --- frames -------------------------------------------------------------------------------- */

static bool take_entry(struct gpud_link *link, uint32_t *entry)
{
    return gpud_transport_has_room(link->transport) &&
           gpud_page_take(&link->transport->page, entry);
}

static void delivery_publish(struct gpud_pending_delivery *pending,
                             struct gpud_delivery_target *target, bool lost);

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
static void waiting_finish(struct gpud_link *link)
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
    waiting_finish(link);
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

/* Handles a target without an entry, which submit counted in `late` (and, without a transport, in
 * `late_kept`), when its frame is complete, lost, or not delivered after all. Its references stay
 * the caller's. */
/* Model: put.1. */
static void waiting_put(const struct gpud_delivery_target *target,
                        const struct gpud_frame_info *info, struct gpud_slot *slot,
                        uint64_t sequence, bool lost)
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

/* === delivery ================================================================================ */
/* Hands frames over to receivers; and the sender's lock, whose holder publishes frames whose copies
 * have completed meanwhile. */

/* clang-format off */
/* Delivers a frame to several receivers.
 *
 *   route            copy                          published
 *   map              none, or frame → slot         when the sender's queue is done
 *   with a queue     the same; the route gives     when that queue is done
 *   of its own       the slot away
 *   staged           none, or frame → host slot    when the sender's queue is done
 *   staged-push      frame → the receiver's slot   when the sender's queue is done
 *   into the ring    frame → the receiver's slot   at once: the receiver's queue waits for
 *   of the receiver                                the signal
 *   any, with        the same                      at once
 *   signals
 *   map, by lines    none                          at once; what else is done for the frame
 *                                                  follows when it is whole
 *   others, by lines in steps of rows, then        at once; the word `lines` follows each step
 *                    the rest                      when the sender's queue is done with it
 *
 * The host's queue is done when a call returns. On another device the queue's completion publishes
 * the targets that must wait, in the order of the queue, which is the order of the frames. */
/* clang-format on */

/* How often a call that waits for a link checks for other events. */
#define SLICE (50 * GPUD_MSEC)

/* A delivery's record for the queue's completion; it outlives the call. */
struct gpud_pending_delivery {
    struct gpud_pending_delivery *next; /* among those whose copies are done */
    enum gpud_status status;
    struct gpud_sender *sender;
    struct gpud_delivery delivery;
    /* Of the frame; set if a target has no entry. Its large meta is a reference. */
    struct gpud_frame_info info;
};

/* --- publishing; under the lock ------------------------------------------------------------ */

static struct gpud_slot *slot_for(const struct gpud_delivery *delivery,
                                  const struct gpud_transport *transport)
{
    if (!transport)
        return delivery->device_slot;
    if (!gpud_transport_shares_slots(transport))
        return NULL;
    return transport->on_host && delivery->host_slot ? delivery->host_slot : delivery->device_slot;
}

/* Publishes the frame, or a void entry in its place if it was lost. */
static void publish_entry(struct gpud_sender *sender, const struct gpud_delivery *delivery,
                          const struct gpud_delivery_target *target, bool lost)
{
    if (delivery->corrupted && !target->early)
        gpud_page_descriptor(&target->transport->page, target->entry)->flags |=
            GPUD_FRAME_CORRUPTED;
    bool kicked = false;
    if (target->early)
        lost |= !gpud_transport_set_lines(
            target->transport, target->entry, delivery->sequence,
            lost || delivery->corrupted ? GPUD_LINES_LOST : delivery->layout.height, true);
    else
        kicked = lost ? gpud_transport_cancel(target->transport, target->entry)
                      : gpud_transport_publish(target->transport, target->entry);
    if (kicked)
        atomic_fetch_add_explicit(&sender->kicks, 1, memory_order_relaxed);
    if (!delivery->canary) {
        if (lost) {
            gpud_link_uncount(target->link, target->early);
            gpud_link_count_drop(target->link, &target->link->dropped_failed);
        } else {
            GPUD_PROBE(publish, sender, target->link->id, delivery->sequence);
            target->link->delivered += !target->early;
            sender->delivered += !target->early;
        }
    }
}

static void delivery_publish(struct gpud_pending_delivery *pending,
                             struct gpud_delivery_target *target, bool lost)
{
    const struct gpud_delivery *delivery = &pending->delivery;
    if (target->entry == GPUD_NO_ENTRY) {
        if (delivery->corrupted)
            pending->info.flags |= GPUD_FRAME_CORRUPTED;
        waiting_put(target, &pending->info, slot_for(delivery, target->transport),
                    delivery->sequence, lost);
    } else {
        publish_entry(pending->sender, delivery, target, lost);
    }
    gpud_transport_unref(&target->transport);
    gpud_link_unref(target->link);
}

/* A step is done: its rows are valid, or the frame is lost for those targets. */
static void publish_step(struct gpud_delivery *step)
{
    for (uint32_t i = 0; i < step->count; i++) {
        struct gpud_delivery_target *target = &step->target[i];
        gpud_transport_set_lines(target->transport, target->entry, step->sequence,
                                 step->corrupted ? GPUD_LINES_LOST : step->lines, step->corrupted);
        gpud_transport_unref(&target->transport);
        gpud_link_unref(target->link);
    }
    step->count = 0;
}

static void cancel_all(struct gpud_pending_delivery *pending)
{
    struct gpud_delivery *delivery = &pending->delivery;
    for (uint32_t i = 0; i < delivery->count; i++)
        delivery_publish(pending, &delivery->target[i], true);
    delivery->count = 0;
}

/* Publishes the targets that wait (or, with all, every one) and keeps the others. */
static void publish_targets(struct gpud_pending_delivery *pending, bool all)
{
    struct gpud_delivery *delivery = &pending->delivery;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < delivery->count; i++) {
        if (all || !gpud_target_waits(&delivery->target[i]))
            delivery_publish(pending, &delivery->target[i], false);
        else
            delivery->target[kept++] = delivery->target[i];
    }
    delivery->count = kept;
}

/* --- the end ------------------------------------------------------------------------------- */

static void release_parts(struct gpud_delivery *delivery)
{
    if (delivery->host_slot)
        gpud_slot_drop(delivery->host_slot);
    if (delivery->device_slot)
        gpud_slot_drop(delivery->device_slot);
    if (delivery->consume)
        gpud_frame_release(&delivery->frame);
}

/* Reuses records of finished deliveries. Takes one under the lock; any thread puts them back. */
static struct gpud_pending_delivery *take_record(struct gpud_sender *sender)
{
    struct gpud_pending_delivery *spare = atomic_load(&sender->spare);
    while (spare && !atomic_compare_exchange_weak(&sender->spare, &spare, spare->next))
        ;
    if (!spare)
        spare = malloc(sizeof(*spare));
    if (spare)
        spare->info.large_meta = NULL;
    return spare;
}

static void set_info(struct gpud_pending_delivery *record, const struct gpud_frame_info *info)
{
    record->info = *info;
    gpud_large_meta_ref(info->large_meta);
}

/* Without the targets that it does not have, which are most of it. */
static void copy_delivery(struct gpud_delivery *to, const struct gpud_delivery *from)
{
    memcpy(to, from,
           offsetof(struct gpud_delivery, target) + from->count * sizeof(from->target[0]));
}

static void put_record(struct gpud_sender *sender, struct gpud_pending_delivery *record)
{
    gpud_large_meta_clear(&record->info);
    record->next = atomic_load(&sender->spare);
    while (!atomic_compare_exchange_weak(&sender->spare, &record->next, record))
        ;
}

static void free_records(struct gpud_sender *sender)
{
    struct gpud_pending_delivery *spare = atomic_exchange(&sender->spare, NULL);
    while (spare) {
        struct gpud_pending_delivery *gone = spare;
        spare = gone->next;
        free(gone);
    }
}

/* The last reference is the application's, or that of the last delivery under way. */
void gpud_sender_unref(struct gpud_sender *sender)
{
    if (atomic_fetch_sub(&sender->references, 1) != 1)
        return;
    free_records(sender);
    gpud_links_free(sender->retired_links);
    gpud_loop_close(&sender->loop);
    gpud_pool_unref(&sender->host_pool);
    gpud_pool_unref(&sender->device_pool);
    gpud_queue_unref(&sender->host_queue);
    gpud_queue_unref(&sender->queue);
    gpud_device_close(&sender->host);
    gpud_device_close(&sender->device);
    for (int i = 0; i < GPUD_STICKY_MAX; i++)
        free(sender->sticky[i]);
    gpud_lock_destroy(&sender->lock);
    free(sender);
}

/* Publishes the frames of completed deliveries, oldest first, and returns the deliveries. Under the
 * lock. */
static struct gpud_pending_delivery *publish_completed(struct gpud_sender *sender)
{
    struct gpud_pending_delivery *latest = atomic_exchange(&sender->completed, NULL),
                                 *oldest = NULL;
    while (latest) {
        struct gpud_pending_delivery *pending = latest;
        latest = pending->next;
        pending->next = oldest;
        oldest = pending;
    }
    for (struct gpud_pending_delivery *pending = oldest; pending; pending = pending->next) {
        pending->delivery.corrupted |= pending->status != GPUD_OK;
        if (pending->delivery.lines)
            publish_step(&pending->delivery);
        else
            publish_targets(pending, true);
    }
    return oldest;
}

static void delivery_finish(struct gpud_pending_delivery *list)
{
    while (list) {
        struct gpud_pending_delivery *pending = list;
        list = pending->next;
        struct gpud_sender *sender = pending->sender;
        release_parts(&pending->delivery);
        put_record(sender, pending);
        gpud_sender_unref(sender);
    }
}

void gpud_sender_lock(struct gpud_sender *sender)
{
    gpud_lock_take(&sender->lock);
}

void gpud_sender_unlock(struct gpud_sender *sender)
{
    gpud_lock_release(&sender->lock);
    /* A completion that found the lock taken relies on its holder to check again here. A failed
     * trylock orders nothing in POSIX: the two fences ensure that either the holder sees the
     * completion, or the trylock sees the lock free. Model (tests/model): handover.pml. */
    for (;;) {
        atomic_thread_fence(memory_order_seq_cst);
        if (!atomic_load(&sender->completed) || !gpud_lock_try(&sender->lock))
            return;
        struct gpud_pending_delivery *done = publish_completed(sender);
        gpud_lock_release(&sender->lock);
        delivery_finish(done);
    }
}

void gpud_sender_wait_for_change(struct gpud_sender *sender, int64_t deadline)
{
    int64_t slice = gpud_now() + SLICE;
    uint32_t seen = atomic_load(&sender->changes);
    gpud_sender_unlock(sender);
    gpud_futex_wait(&sender->changes, seen, slice < deadline ? slice : deadline);
    gpud_sender_lock(sender);
}

static void on_copied(void *arg, enum gpud_status status)
{
    struct gpud_pending_delivery *pending = arg;
    struct gpud_sender *sender = pending->sender;
    atomic_fetch_add(&sender->references, 1); /* any thread may finish the delivery from here on */
    pending->status = status;
    pending->next = atomic_load(&sender->completed);
    while (!atomic_compare_exchange_weak(&sender->completed, &pending->next, pending))
        ;
    atomic_thread_fence(memory_order_seq_cst); /* see gpud_sender_unlock() */
    if (gpud_lock_try(&sender->lock))
        gpud_sender_unlock(sender);
    gpud_sender_unref(sender);
}

/* Delivers without a record, because no copy is still under way when the call returns. */
static enum gpud_status deliver_now(struct gpud_sender *sender,
                                    struct gpud_pending_delivery *pending, bool copies,
                                    struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    if (copies) {
        gpud_sender_unlock(sender);
        status = copies_enqueue(sender, &pending->delivery, error);
        gpud_sender_lock(sender);
    }
    if (status == GPUD_OK)
        publish_targets(pending, true);
    else
        cancel_all(pending);
    release_parts(&pending->delivery);
    return status;
}

/* Completes the delivery when the queue is done. If the driver cannot report that, this thread
 * waits, with a deadline. */
static enum gpud_status complete_with(struct gpud_queue *queue,
                                      struct gpud_pending_delivery *pending,
                                      struct gpud_error *error)
{
    struct gpud_error why;
    if (gpud_queue_on_complete(queue, on_copied, pending, NULL) == GPUD_OK)
        return GPUD_OK;
    bool done = gpud_queue_finish(queue, gpud_deadline(GPUD_SEC), &why) == GPUD_OK;
    on_copied(pending, done ? GPUD_OK : GPUD_IO);
    return done ? GPUD_OK
                : gpud_fail_native(error, GPUD_IO, why.origin, why.native, "%s", why.reason);
}

/* Moves targets whose route has a queue of its own into deliveries of their own, which are handed
 * over when that queue is done, independently of the others. Under the lock. */
static struct gpud_pending_delivery *split_given(struct gpud_pending_delivery *pending)
{
    struct gpud_sender *sender = pending->sender;
    struct gpud_delivery *delivery = &pending->delivery;
    struct gpud_pending_delivery *given = NULL;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < delivery->count; i++) {
        struct gpud_delivery_target *target = &delivery->target[i];
        if (!target->transport || !gpud_transport_gives_slots(target->transport)) {
            delivery->target[kept++] = *target;
            continue;
        }
        struct gpud_pending_delivery *made = take_record(sender);
        if (!made || target->failed) {
            gpud_link_kill(target->link, GPUD_LOG_WARNING,
                           made ? "its device accepts no more frames"
                                : "out of memory for a frame's record");
            delivery_publish(pending, target, true);
            if (made)
                put_record(sender, made);
            continue;
        }
        made->sender = sender;
        made->delivery = (struct gpud_delivery){
            .canary = delivery->canary,
            .corrupted = delivery->corrupted,
            .device_slot = delivery->device_slot,
            .sequence = delivery->sequence,
            .count = 1,
            .target[0] = *target,
        };
        if (target->entry == GPUD_NO_ENTRY)
            set_info(made, &pending->info);
        made->next = given;
        given = made;
        gpud_slot_hold(delivery->device_slot);
        atomic_fetch_add(&sender->references, 1);
    }
    delivery->count = kept;
    return given;
}

/* The frame is lost for its receivers. Under the lock. */
static enum gpud_status no_record(struct gpud_pending_delivery *pending, struct gpud_error *error)
{
    cancel_all(pending);
    release_parts(&pending->delivery);
    return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a frame's record");
}

static enum gpud_status deliver_later(struct gpud_sender *sender,
                                      struct gpud_pending_delivery *prepared, bool is_late,
                                      struct gpud_error *error)
{
    struct gpud_pending_delivery *pending = take_record(sender);
    if (!pending)
        return no_record(prepared, error);
    pending->sender = sender;
    copy_delivery(&pending->delivery, &prepared->delivery);
    if (is_late)
        set_info(pending, &prepared->info);
    gpud_sender_unlock(sender);
    enum gpud_status status = copies_enqueue(sender, &pending->delivery, error);
    gpud_sender_lock(sender);
    if (status != GPUD_OK)
        cancel_all(pending);
    else
        publish_targets(pending, false);
    struct gpud_pending_delivery *given = split_given(pending);
    atomic_fetch_add(&sender->references, 1);
    gpud_sender_unlock(sender);
    for (struct gpud_pending_delivery *next; given; given = next) {
        next = given->next;
        complete_with(given->delivery.target[0].transport->queues.own, given, NULL);
    }
    enum gpud_status told = complete_with(sender->queue, pending, status == GPUD_OK ? error : NULL);
    gpud_sender_lock(sender);
    return status == GPUD_OK ? told : status;
}

/* Without receivers no credits keep an application from running ahead of its device, whose queues
 * are long: so after this many frames it waits for the device. */
#define UNPACED_MAX 64

static void delivery_pace(struct gpud_sender *sender, const struct gpud_delivery *delivery)
{
    sender->undelivered_run = delivery->count ? 0 : sender->undelivered_run + 1;
    if (sender->undelivered_run < UNPACED_MAX)
        return;
    sender->undelivered_run = 0;
    gpud_sender_unlock(sender);
    gpud_queue_finish(sender->queue, gpud_deadline(GPUD_SEC), NULL);
    gpud_sender_lock(sender);
}

/* Wakes receivers early, because the driver's calls take about as long as waking up. */
static void delivery_announce(struct gpud_sender *sender, const struct gpud_delivery *delivery)
{
    for (uint32_t i = 0; i < delivery->count; i++)
        if (delivery->target[i].transport &&
            gpud_transport_announce(delivery->target[i].transport, 0))
            atomic_fetch_add_explicit(&sender->kicks, 1, memory_order_relaxed);
}

static void delivery_describe(struct gpud_sender *sender, struct gpud_delivery *delivery)
{
    delivery->layout = sender->layout;
    delivery->rows = sender->rows;
    delivery->is_late = false;
    if (!delivery->submitted)
        delivery->submitted = (uint64_t)gpud_now();
    delivery->copies = delivery->host_slot ||
                       (delivery->device_slot && &delivery->device_slot->frame != delivery->frame);
    for (uint32_t i = 0; i < delivery->count; i++) {
        const struct gpud_delivery_target *target = &delivery->target[i];
        if (target->entry == GPUD_NO_ENTRY) {
            delivery->is_late = true;
            continue;
        }
        gpud_transport_describe(target->transport, target->entry, delivery->info,
                                slot_for(delivery, target->transport), delivery->sequence,
                                target->link->dropped, delivery->submitted);
        GPUD_STOP_POINT("sender: described");
        delivery->copies |= !gpud_transport_shares_slots(target->transport);
    }
}

static enum gpud_status deliver_described(struct gpud_sender *sender,
                                          struct gpud_pending_delivery *pending,
                                          struct gpud_error *error)
{
    struct gpud_delivery *delivery = &pending->delivery;
    delivery->ordered = copies_are_stream_ordered(sender, delivery);
    if (delivery->is_late) {
        pending->info = delivery->frame->info;
        pending->info.submitted_ns = delivery->submitted;
    }
    if (sender->device->caps & GPUD_CAP_SYNCHRONOUS)
        return deliver_now(sender, pending, delivery->copies, error);
    if (delivery->ordered) {
        delivery_pace(sender, delivery);
        delivery_announce(sender, delivery);
        return deliver_now(sender, pending, delivery->count > 0, error);
    }
    return deliver_later(sender, pending, delivery->is_late, error);
}

/* --- a frame that is still written --------------------------------------------------------- */

/* Whether the receiver asked for a frame's rows as they come, and the route can hand them over. */
static bool takes_lines(const struct gpud_delivery_target *target)
{
    const struct gpud_transport *transport = target->transport;
    return target->entry != GPUD_NO_ENTRY && !gpud_transport_gives_slots(transport) &&
           transport->place != GPUD_SIGNAL_MEMORY &&
           atomic_load_explicit(&transport->page.page->receiver.by_lines, memory_order_relaxed);
}

/* Whether the receiver reads the rows elsewhere than where they are written. */
static bool is_copied(const struct gpud_delivery *delivery,
                      const struct gpud_delivery_target *target)
{
    const struct gpud_slot *slot = slot_for(delivery, target->transport);
    return !slot || &slot->frame != delivery->frame;
}

static enum gpud_status keep_writing(struct gpud_sender *sender,
                                     struct gpud_pending_delivery *pending,
                                     struct gpud_error *error)
{
    struct gpud_pending_delivery *kept = take_record(sender);
    if (!kept)
        return no_record(pending, error);
    kept->sender = sender;
    copy_delivery(&kept->delivery, &pending->delivery);
    for (uint32_t i = 0; i < kept->delivery.count; i++) {
        struct gpud_delivery_target *target = &kept->delivery.target[i];
        if (!takes_lines(target))
            continue;
        bool copied = is_copied(&kept->delivery, target);
        /* Into a slot for receivers that map it, a frame of an earlier pool is copied as a whole.
         */
        if (copied && slot_for(&kept->delivery, target->transport) == kept->delivery.device_slot &&
            kept->delivery.device_slot)
            continue;
        bool in_place = !copied && !target->transport->remote;
        if (!in_place && kept->delivery.layout.modifier)
            continue;
        target->early = true;
        target->stepwise = copied;
        target->link->delivered++;
        sender->delivered++;
        if (gpud_transport_publish_early(target->transport, target->entry, kept->delivery.sequence))
            atomic_fetch_add_explicit(&sender->kicks, 1, memory_order_relaxed);
    }
    sender->writing = kept;
    sender->lines = 0;
    return GPUD_OK;
}

const struct gpud_frame *gpud_deliver_writing(const struct gpud_sender *sender)
{
    return sender->writing ? sender->writing->delivery.frame : NULL;
}

static bool has_stepwise(const struct gpud_delivery *delivery)
{
    for (uint32_t i = 0; i < delivery->count; i++)
        if (delivery->target[i].stepwise)
            return true;
    return false;
}

/* The copies of the rows up to `lines` for the stepwise targets; NULL: they are too few for a step,
 * or nothing copies them. They keep the frame's slot: an application that gives the frame up may
 * release it before they are done. */
static struct gpud_pending_delivery *make_step(struct gpud_sender *sender, uint32_t lines)
{
    struct gpud_delivery *writing = &sender->writing->delivery;
    struct gpud_pending_delivery *made = NULL;
    if (has_stepwise(writing) && lines - writing->copied >= gpud_lines_step(writing->layout.height))
        made = take_record(sender);
    if (!made)
        return NULL; /* without memory a later step, or the end, copies these rows, too */
    made->sender = sender;
    made->delivery = (struct gpud_delivery){
        .frame = writing->frame,
        .device_slot = (struct gpud_slot *)writing->frame,
        .layout = writing->layout,
        .rows = writing->rows,
        .copied = writing->copied,
        .lines = lines,
        .sequence = writing->sequence,
    };
    struct gpud_delivery *step = &made->delivery;
    writing->copied = lines;
    gpud_slot_hold(step->device_slot);
    for (uint32_t i = 0; i < writing->count; i++) {
        const struct gpud_delivery_target *target = &writing->target[i];
        if (!target->stepwise)
            continue;
        step->target[step->count++] = *target;
        target->link->references++;
        target->transport->references++;
        if (gpud_transport_shares_slots(target->transport))
            step->host_slot = writing->host_slot;
    }
    if (step->host_slot)
        gpud_slot_hold(step->host_slot);
    return made;
}

/* More rows are valid, but not all. If they are enough for a step, copies them, and drops the lock
 * meanwhile; the receivers' words follow when the queue is done. A failure loses the frame for
 * those that it is copied for. */
static enum gpud_status deliver_lines(struct gpud_sender *sender, uint32_t lines,
                                      struct gpud_error *error)
{
    const struct gpud_delivery *delivery = &sender->writing->delivery;
    sender->lines = lines;
    for (uint32_t i = 0; i < delivery->count; i++) {
        const struct gpud_delivery_target *target = &delivery->target[i];
        if (target->early && !target->stepwise)
            gpud_transport_set_lines(target->transport, target->entry, delivery->sequence, lines,
                                     false);
    }
    struct gpud_pending_delivery *step = make_step(sender, lines);
    if (!step)
        return GPUD_OK;
    atomic_fetch_add(&sender->references, 1);
    gpud_sender_unlock(sender);
    enum gpud_status status = copies_enqueue(sender, &step->delivery, error);
    if (status == GPUD_OK && !(sender->device->caps & GPUD_CAP_SYNCHRONOUS))
        status = complete_with(sender->queue, step, error);
    else
        on_copied(step, status);
    gpud_sender_lock(sender);
    return status;
}

/* The frame is whole, or lost: delivers it to the other receivers. Drops the lock meanwhile. */
static enum gpud_status deliver_rest(struct gpud_sender *sender, bool lost,
                                     struct gpud_error *error)
{
    struct gpud_pending_delivery pending;
    pending.sender = sender;
    copy_delivery(&pending.delivery, &sender->writing->delivery);
    put_record(sender, sender->writing);
    sender->writing = NULL;
    if (!lost)
        return deliver_described(sender, &pending, error);
    if (pending.delivery.is_late)
        pending.info = pending.delivery.frame->info;
    cancel_all(&pending);
    release_parts(&pending.delivery);
    return GPUD_OK;
}

enum gpud_status gpud_deliver(struct gpud_sender *sender, const struct gpud_delivery *delivery,
                              struct gpud_error *error)
{
    struct gpud_pending_delivery pending; /* not zeroed: some fields are not used for each frame */
    pending.sender = sender;
    copy_delivery(&pending.delivery, delivery);
    delivery_describe(sender, &pending.delivery);
    return delivery->by_lines ? keep_writing(sender, &pending, error)
                              : deliver_described(sender, &pending, error);
}

/* === lines =================================================================================== */
/* A frame that is handed over while the application writes it: from its first submission until its
 * last line, its release, or a new format. There is one at a time, so that frames stay in order. */

/* Under the lock: the frame's release does not concern the sender any more. Its thread may have
 * noticed the release before, and holds the reference then. */
static void lines_end(struct gpud_sender *sender, bool lost, enum gpud_status *status,
                      struct gpud_error *error)
{
    struct gpud_frame *frame = (struct gpud_frame *)gpud_deliver_writing(sender);
    struct gpud_slot *slot = (struct gpud_slot *)frame;
    bool referenced = atomic_exchange(&slot->on_release_arg, NULL);
    frame->info.flags |= GPUD_FRAME_READ_ONLY;
    *status = deliver_rest(sender, lost, error);
    if (referenced) /* never the last one: the caller has its own */
        atomic_fetch_sub(&sender->references, 1);
}

/* The application released the frame before its last line. */
static void on_release(struct gpud_slot *slot, void *arg)
{
    struct gpud_sender *sender = arg;
    gpud_sender_lock(sender);
    if (gpud_deliver_writing(sender) == &slot->frame)
        gpud_lines_give_up(sender);
    gpud_sender_unlock(sender);
    gpud_sender_unref(sender);
}

/* Model (tests/model/lines.pml): gpud_deliver() does begin.1 and begin.2, and what follows is
 * advance.2 and give_up.1. */
void gpud_lines_begin(struct gpud_sender *sender, struct gpud_slot *slot)
{
    atomic_fetch_add(&sender->references, 1);
    slot->on_release = on_release;
    atomic_store(&slot->on_release_arg, sender);
}

enum gpud_status gpud_lines_advance(struct gpud_sender *sender, struct gpud_frame *frame,
                                    uint32_t lines, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    gpud_sender_lock(sender);
    if (gpud_deliver_writing(sender) != frame)
        status = gpud_fail(error, GPUD_INVALID,
                           "the sender's format changed while the frame was being written");
    else if (lines < sender->lines)
        status = gpud_fail(error, GPUD_INVALID, "%u lines after %u: lines do not become fewer",
                           lines, sender->lines);
    else if (lines == frame->info.layout.height)
        lines_end(sender, false, &status, error);
    else if (lines > sender->lines)
        status = deliver_lines(sender, lines, error);
    GPUD_STOP_POINT("sender: lines written");
    gpud_sender_unlock(sender);
    return status;
}

void gpud_lines_give_up(struct gpud_sender *sender)
{
    enum gpud_status status;
    if (sender->writing)
        lines_end(sender, true, &status, NULL);
}
