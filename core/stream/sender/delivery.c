/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

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
#include "stream/sender/delivery.h"

#include "base/probe.h"
#include "base/stop.h"
#include "frame/large_meta.h"
#include "frame/layout.h"
#include "frame/rows.h"
#include "stream/sender/copies.h"
#include "stream/sender/waiting.h"

#include <stdlib.h>
#include <string.h>

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
    if (!transport->pool)
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

static void publish(struct gpud_pending_delivery *pending, struct gpud_delivery_target *target,
                    bool lost)
{
    const struct gpud_delivery *delivery = &pending->delivery;
    if (target->entry == GPUD_NO_ENTRY) {
        if (delivery->corrupted)
            pending->info.flags |= GPUD_FRAME_CORRUPTED;
        gpud_waiting_put(target, &pending->info, slot_for(delivery, target->transport),
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
        publish(pending, &delivery->target[i], true);
    delivery->count = 0;
}

/* Publishes the targets that wait (or, with all, every one) and keeps the others. */
static void publish_targets(struct gpud_pending_delivery *pending, bool all)
{
    struct gpud_delivery *delivery = &pending->delivery;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < delivery->count; i++) {
        if (all || !gpud_target_waits(&delivery->target[i]))
            publish(pending, &delivery->target[i], false);
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

static void finish(struct gpud_pending_delivery *list)
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
        finish(done);
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
        status = gpud_copies_enqueue(sender, &pending->delivery, error);
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
        if (!target->transport || !target->transport->queues.own) {
            delivery->target[kept++] = *target;
            continue;
        }
        struct gpud_pending_delivery *made = take_record(sender);
        if (!made || target->failed) {
            gpud_link_kill(target->link, GPUD_LOG_WARNING,
                           made ? "its device accepts no more frames"
                                : "out of memory for a frame's record");
            publish(pending, target, true);
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

static enum gpud_status deliver_later(struct gpud_sender *sender,
                                      struct gpud_pending_delivery *prepared, bool is_late,
                                      struct gpud_error *error)
{
    struct gpud_pending_delivery *pending = take_record(sender);
    enum gpud_status status = GPUD_NO_MEMORY;
    if (!pending) {
        gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a frame's record");
        pending = prepared;
    } else {
        pending->sender = sender;
        copy_delivery(&pending->delivery, &prepared->delivery);
        if (is_late)
            set_info(pending, &prepared->info);
        gpud_sender_unlock(sender);
        status = gpud_copies_enqueue(sender, &pending->delivery, error);
        gpud_sender_lock(sender);
    }
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
    if (pending == prepared) {
        release_parts(&pending->delivery);
        gpud_sender_unref(sender);
    } else {
        enum gpud_status told =
            complete_with(sender->queue, pending, status == GPUD_OK ? error : NULL);
        status = status == GPUD_OK ? told : status;
    }
    gpud_sender_lock(sender);
    return status;
}

/* Without receivers no credits keep an application from running ahead of its device, whose queues
 * are long: so after this many frames it waits for the device. */
#define UNPACED_MAX 64
static void pace(struct gpud_sender *sender, const struct gpud_delivery *delivery)
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
static void announce(struct gpud_sender *sender, const struct gpud_delivery *delivery)
{
    for (uint32_t i = 0; i < delivery->count; i++)
        if (delivery->target[i].transport &&
            gpud_transport_announce(delivery->target[i].transport, 0))
            atomic_fetch_add_explicit(&sender->kicks, 1, memory_order_relaxed);
}

static void describe(struct gpud_sender *sender, struct gpud_delivery *delivery)
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
        delivery->copies |= !target->transport->pool;
    }
}

static enum gpud_status deliver_described(struct gpud_sender *sender,
                                          struct gpud_pending_delivery *pending,
                                          struct gpud_error *error)
{
    struct gpud_delivery *delivery = &pending->delivery;
    delivery->ordered = gpud_copies_are_stream_ordered(sender, delivery);
    if (delivery->is_late) {
        pending->info = delivery->frame->info;
        pending->info.submitted_ns = delivery->submitted;
    }
    if (sender->device->caps & GPUD_CAP_SYNCHRONOUS)
        return deliver_now(sender, pending, delivery->copies, error);
    if (delivery->ordered) {
        pace(sender, delivery);
        announce(sender, delivery);
        return deliver_now(sender, pending, delivery->count > 0, error);
    }
    return deliver_later(sender, pending, delivery->is_late, error);
}

/* --- a frame that is still written --------------------------------------------------------- */

/* Whether the receiver asked for a frame's rows as they come, and the route can hand them over. */
static bool takes_lines(const struct gpud_delivery_target *target)
{
    const struct gpud_transport *transport = target->transport;
    return target->entry != GPUD_NO_ENTRY && !transport->queues.own &&
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
    if (!kept) {
        cancel_all(pending);
        release_parts(&pending->delivery);
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a frame's record");
    }
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
        if (target->transport->pool)
            step->host_slot = writing->host_slot;
    }
    if (step->host_slot)
        gpud_slot_hold(step->host_slot);
    return made;
}

enum gpud_status gpud_deliver_lines(struct gpud_sender *sender, uint32_t lines,
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
    enum gpud_status status = gpud_copies_enqueue(sender, &step->delivery, error);
    if (status == GPUD_OK && !(sender->device->caps & GPUD_CAP_SYNCHRONOUS))
        status = complete_with(sender->queue, step, error);
    else
        on_copied(step, status);
    gpud_sender_lock(sender);
    return status;
}

enum gpud_status gpud_deliver_rest(struct gpud_sender *sender, bool lost, struct gpud_error *error)
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
    describe(sender, &pending.delivery);
    return delivery->by_lines ? keep_writing(sender, &pending, error)
                              : deliver_described(sender, &pending, error);
}
