/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Hands a frame on: the entry in each receiver's page, the work of the devices, completions, and
 * the lock. */
#include "stream/sender/sender.h"

#include "base/base.h"
#include "frame/frame.h"
#include "route/route.h"

#include <stdlib.h>
#include <string.h>

/* === entries ================================================================================= */

static void drop_slot(struct gpud_transport *transport, uint32_t entry)
{
    struct gpud_slot *slot = transport->slot_of[entry];
    transport->slot_of[entry] = NULL;
    if (slot)
        gpud_slot_drop(slot);
}

/* Frees the releasing entry at this index. */
static void free_releasing(struct gpud_transport *transport, uint32_t place)
{
    uint32_t entry = transport->releasing[place];
    transport->releasing_count--;
    memmove(&transport->releasing[place], &transport->releasing[place + 1],
            (transport->releasing_count - place) * sizeof(entry));
    drop_slot(transport, entry);
    gpud_page_untake(&transport->page, entry);
}

enum gpud_status gpud_transport_reap(struct gpud_transport *transport, struct gpud_error *error)
{
    uint32_t entry, top;
    int got;
    for (uint32_t i = 0; i < transport->releasing_count;) {
        entry = transport->releasing[i];
        if (gpud_watchdog_reached(transport->watchdog, entry, transport->value_of[entry]))
            free_releasing(transport, i);
        else
            i++;
    }
    while ((got = gpud_page_reap(&transport->page, &entry)) > 0) {
        GPUD_STOP_POINT("sender: reaped");
        if (!transport->watchdog ||
            gpud_watchdog_reached(transport->watchdog, entry, transport->value_of[entry])) {
            drop_slot(transport, entry);
            continue;
        }
        /* The receiver's device still reads it: the same entry, which was just put there. */
        gpud_page_take(&transport->page, &top);
        transport->releasing[transport->releasing_count++] = entry;
    }
    if (got < 0)
        return gpud_fail(error, GPUD_PEER,
                         "the receiver broke the protocol: it gave back a frame it did not have");
    if (transport->watchdog && gpud_watchdog_is_broken(transport->watchdog))
        return gpud_fail(error, GPUD_PEER,
                         "the receiver gave frames back and its device did not finish with them "
                         "within %d s",
                         (int)(GPUD_WATCHDOG_TIMEOUT / GPUD_SEC));
    return GPUD_OK;
}

/* One call of the driver takes the signals of all receivers of a frame. */
_Static_assert(GPUD_RECEIVERS_MAX <= GPUD_SIGNALS_AT_ONCE, "for each receiver a signal");

bool gpud_transports_await_release(struct gpud_transport *const *transports, uint32_t count,
                                   struct gpud_queue *queue)
{
    struct gpud_transport *waiting[GPUD_RECEIVERS_MAX];
    struct gpud_watchdog_word words[GPUD_RECEIVERS_MAX];
    uint32_t shared = 0, freed = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_transport *transport = transports[i];
        const struct gpud_link_queues *queues = &transport->queues;
        if (transport->releasing_count == 0 ||
            !gpud_watchdog_is_free(transport->watchdog, transport->releasing[0]))
            continue;
        uint32_t entry = transport->releasing[0], value = transport->value_of[entry];
        if (!queues->wait) {
            words[shared] = (struct gpud_watchdog_word){transport->watchdog, entry, value};
            waiting[shared++] = transport;
        } else if (gpud_watchdog_wait(transport->watchdog, entry, value, queues->wait, NULL) ==
                       GPUD_OK &&
                   gpud_queue_join(queues->copy, queues->wait, NULL) == GPUD_OK) {
            free_releasing(transport, 0);
            freed++;
        }
    }
    if (shared > 0 && gpud_watchdog_wait_all(words, shared, queue, NULL) == GPUD_OK) {
        for (uint32_t i = 0; i < shared; i++)
            free_releasing(waiting[i], 0);
        freed += shared;
    }
    return freed > 0;
}

enum gpud_status gpud_transport_revoke(struct gpud_transport *transport, struct gpud_error *error)
{
    uint32_t entry;
    int got = gpud_page_revoke(&transport->page, &entry);
    if (got < 0)
        return gpud_fail(error, GPUD_PEER,
                         "the receiver broke the protocol: it claimed a frame that was never sent");
    if (got == 0)
        return GPUD_AGAIN;
    GPUD_STOP_POINT("sender: revoked");
    drop_slot(transport, entry);
    return GPUD_OK;
}

void gpud_transport_describe(struct gpud_transport *transport, uint32_t entry,
                             const struct gpud_frame_info *info, struct gpud_slot *slot,
                             uint64_t sequence, uint64_t dropped, uint64_t submitted)
{
    struct gpud_descriptor *descriptor = gpud_page_descriptor(&transport->page, entry);
    descriptor->sequence = sequence;
    descriptor->dropped = dropped;
    descriptor->pts = info->pts_ns;
    descriptor->dts = info->dts_ns;
    descriptor->duration = info->duration_ns;
    descriptor->offset = info->offset;
    descriptor->submit_time = submitted;
    descriptor->slot = slot && !transport->remote ? slot->frame.slot : entry;
    transport->value_of[entry] = transport->place == GPUD_SIGNAL_NONE ? 0 : ++transport->value;
    descriptor->value = transport->value_of[entry];
    descriptor->flags = info->flags;
    descriptor->bytes = info->bytes;
    descriptor->meta_size = info->meta_size;
    memcpy(descriptor->meta, info->meta, info->meta_size);
    size_t large = transport->metas ? info->large_meta_size : 0;
    descriptor->large_meta_size = (uint32_t)large;
    if (large > 0)
        memcpy((char *)transport->metas + entry * transport->meta_room, info->large_meta, large);
    if (slot) {
        gpud_slot_hold(slot);
        transport->slot_of[entry] = slot;
    }
    transport->pending++;
}

static enum gpud_status write_meta(struct gpud_transport *transport, uint32_t entry)
{
    uint32_t size = gpud_page_descriptor(&transport->page, entry)->large_meta_size;
    return size > 0 ? transport->remote->ops->write_meta(transport->remote,
                                                         entry * transport->meta_room, size, NULL)
                    : GPUD_OK;
}

/* A frame that the carrier had to notify its receiver of counts as a kick, as a wake does. */
static void count_kicks(struct gpud_sender *sender, uint32_t kicks)
{
    if (kicks)
        atomic_fetch_add_explicit(&sender->kicks, kicks, memory_order_relaxed);
}

void gpud_transports_wake(struct gpud_sender *sender, struct gpud_transport *const *transports,
                          uint32_t count)
{
    uint32_t sleep[GPUD_RECEIVERS_MAX], kicks = 0;
    atomic_thread_fence(memory_order_seq_cst); /* see gpud_waker_look(); once for all pages */
    /* All are looked at before one is woken, which takes a system call: meanwhile another one may
     * have taken its frame by itself, and sleep until the next. */
    for (uint32_t i = 0; i < count; i++)
        sleep[i] = gpud_page_look_fenced(&transports[i]->page.end);
    for (uint32_t i = 0; i < count; i++)
        kicks += sleep[i] && gpud_page_wake(&transports[i]->page.end, sleep[i]);
    count_kicks(sender, kicks);
}

void gpud_transports_announce(struct gpud_sender *sender, struct gpud_transport *const *transports,
                              uint32_t count, uint32_t more)
{
    struct gpud_transport *announced[GPUD_RECEIVERS_MAX];
    uint32_t some = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_page_tx *page = &transports[i]->page;
        bool has_credit = page->free_count || gpud_page_has_returns(page);
        uint32_t frames = transports[i]->pending + (has_credit ? more : 0);
        count_kicks(sender, gpud_page_announce(page, frames));
        if (frames)
            announced[some++] = transports[i];
    }
    if (some > 0)
        gpud_transports_wake(sender, announced, some);
}

void gpud_transport_publish(struct gpud_sender *sender, struct gpud_transport *transport,
                            uint32_t entry)
{
    struct gpud_remote *remote = transport->remote;
    transport->pending--;
    if (remote) {
        const struct gpud_slot *slot = transport->slot_of[entry];
        struct gpud_descriptor *descriptor = gpud_page_descriptor(&transport->page, entry);
        if (slot && !(descriptor->flags & GPUD_FRAME_VOID)) {
            uint64_t size = slot->frame.info.layout.size, bytes = descriptor->bytes;
            if (bytes == 0 || bytes > size)
                bytes = size;
            /* Ahead of the words. A failure ends the connection and with it the link, which the
             * listener's thread handles. */
            if (remote->ops->write(remote, entry, 0, slot->frame.memory, slot->frame.offset, bytes,
                                   NULL) != GPUD_OK ||
                write_meta(transport, entry) != GPUD_OK)
                descriptor->flags |= GPUD_FRAME_VOID;
        }
    }
    count_kicks(sender, gpud_page_hand_over(&transport->page, entry));
}

/* Publishes a described frame that is still being written, with no valid rows yet. */
static void publish_early(struct gpud_sender *sender, struct gpud_transport *transport,
                          uint32_t entry, uint64_t sequence)
{
    struct gpud_descriptor *descriptor = gpud_page_descriptor(&transport->page, entry);
    bool described = !transport->remote || write_meta(transport, entry) == GPUD_OK;
    transport->written[entry] = described ? sequence : 0;
    transport->sent[entry] = 0;
    descriptor->flags |= described ? GPUD_FRAME_BY_LINES : GPUD_FRAME_VOID;
    gpud_page_set_lines(&transport->page, entry, 0);
    transport->pending--;
    count_kicks(sender, gpud_page_hand_over(&transport->page, entry));
}

/* Writes the slot's rows up to `lines`, plane by plane, ahead of the word; true: they are. Rows
 * that are too few for a step, or for which the card has no room, are written with the next ones.
 */
static bool write_rows(struct gpud_transport *transport, uint32_t entry, uint32_t lines, bool last)
{
    struct gpud_remote *remote = transport->remote;
    const struct gpud_slot *slot = transport->slot_of[entry];
    struct gpud_rows rows = {transport->sent[entry], lines};
    if (!slot)
        return true; /* the frame was given back */
    const struct gpud_layout *layout = &slot->frame.info.layout;
    if (!last && rows.to - rows.from < gpud_lines_step(layout->height))
        return false;
    remote->ops->catch_up(remote);
    for (uint32_t i = 0; i < layout->planes; i++) {
        uint64_t at, size;
        gpud_rows_of_plane(layout, i, rows, &at, &size);
        if (size > 0 && remote->ops->write(remote, entry, at, slot->frame.memory,
                                           slot->frame.offset + at, size, NULL) != GPUD_OK)
            return false;
    }
    transport->sent[entry] = lines;
    return true;
}

/* Says how many of its rows are valid; between hosts writes them first, where they are enough for a
 * step. last: these are its last ones, all or GPUD_LINES_LOST. false: the frame is lost, now or
 * since before: a late step of it changes nothing, also of the entry's next frame. */
/* Model (tests/model/steps.pml): set_lines. */
static bool set_lines(struct gpud_transport *transport, uint32_t entry, uint64_t sequence,
                      uint32_t lines, bool last)
{
    if (transport->written[entry] != sequence)
        return false;
    if (transport->remote && lines != GPUD_LINES_LOST &&
        !write_rows(transport, entry, lines, last)) {
        if (!last)
            return true;
        lines = GPUD_LINES_LOST;
    }
    if (last)
        transport->written[entry] = 0;
    gpud_page_set_lines(&transport->page, entry, lines);
    return lines != GPUD_LINES_LOST;
}

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
    struct gpud_rows rows = {begun ? delivery->copied : 0,
                             delivery->lines ? delivery->lines : delivery->layout.height};
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
static enum gpud_status source_order(struct gpud_queue *queue, struct gpud_delivery *delivery,
                                     struct gpud_error *error)
{
    struct gpud_frame *frame = delivery->frame;
    struct gpud_error why = {0};
    if (gpud_pool_orders(frame, queue))
        return GPUD_OK;
    enum gpud_status status = gpud_frame_order(frame, queue, gpud_deadline(FILLED_DEADLINE), &why);
    if (status == GPUD_PEER) { /* the bytes never came: pass that on to the receivers */
        delivery->corrupted = true;
        status = GPUD_OK;
    }
    return status == GPUD_OK ? GPUD_OK : not_filled(&why, error);
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
        status = source_order(frame->queue, delivery, error);
    if (status == GPUD_OK)
        status = source_copy(sender, frame->queue, delivery, false, frame->memory, view,
                             slot->frame.offset, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_queue_finish(frame->queue, gpud_deadline(FILLED_DEADLINE), &why);
    return status == GPUD_OK ? GPUD_OK : not_filled(&why, error);
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
    /* Behind copies that are still under way, a signal among them would hold up the next one; once
     * all posted signals are in their words, it comes sooner by the hop from queue to queue. */
    if (!delivery->lines) {
        struct gpud_queue *post =
            gpud_watchdog_is_posted(transport->watchdog, transport->last_posted) ? queues->copy
                                                                                 : queues->post;
        if (post != queues->copy)
            status = gpud_queue_await(post, &copied, error);
        transport->last_posted = target->entry;
        if (status == GPUD_OK)
            status = gpud_watchdog_post(transport->watchdog, target->entry,
                                        transport->value_of[target->entry], post, error);
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

/* Enqueues the work for one receiver. */
static enum gpud_status send_copies(struct gpud_sender *sender,
                                    const struct gpud_delivery *delivery,
                                    struct gpud_delivery_target *target, struct gpud_memory *source,
                                    struct gpud_error *error)
{
    struct gpud_transport *transport = target->transport;
    enum gpud_status status = GPUD_OK;
    if (gpud_transport_gives_slots(transport)) {
        /* After the sender's queue has written the slot. A failure affects that receiver alone. */
        struct gpud_slot *slot = delivery->device_slot;
        const struct gpud_route_slot_ops *route = transport->route->slots;
        atomic_store(&slot->given_by, route);
        status = route->give(transport->queues.own, slot->frame.memory, sender->queue, error);
        target->failed = status != GPUD_OK;
        return delivery->canary ? status : GPUD_OK;
    }
    if (transport->queues.copy)
        return send_on_own_queues(sender, delivery, target, source, error);
    if (!gpud_transport_shares_slots(transport)) {
        /* Into the receiver's ring, on the sender's queue; between host memories the CPU copies at
         * once. */
        uint64_t offset;
        struct gpud_memory *memory = gpud_ring_slot(&transport->ring, target->entry, &offset);
        struct gpud_memory *view = gpud_transport_slot(transport, target->entry, &offset);
        if (transport->on_host)
            status = copy_to_host(sender, delivery, target->stepwise, source, memory, view, offset,
                                  error);
        else
            status = source_copy(sender, sender->queue, delivery, target->stepwise, source, view,
                                 offset, error);
    }
    if (status == GPUD_OK && transport->place == GPUD_SIGNAL_MEMORY && !delivery->lines)
        status = gpud_signal_post(transport->signal[target->entry],
                                  transport->value_of[target->entry], sender->queue, error);
    return status;
}

/* Posts the signals of all receivers that share the sender's slots, which are filled. */
static enum gpud_status post_shared(const struct gpud_sender *sender,
                                    const struct gpud_delivery *delivery, struct gpud_error *error)
{
    struct gpud_watchdog_word words[GPUD_RECEIVERS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < delivery->count && !delivery->lines; i++) {
        const struct gpud_delivery_target *target = &delivery->target[i];
        const struct gpud_transport *transport = target->transport;
        if (transport && transport->watchdog && gpud_transport_shares_slots(transport))
            words[count++] = (struct gpud_watchdog_word){transport->watchdog, target->entry,
                                                         transport->value_of[target->entry]};
    }
    return count > 0 ? gpud_watchdog_post_all(words, count, sender->queue, error) : GPUD_OK;
}

/* Enqueues everything that the delivery's targets need. */
static enum gpud_status copies_enqueue(struct gpud_sender *sender, struct gpud_delivery *delivery,
                                       struct gpud_error *error)
{
    struct gpud_queue *queue = sender->queue;
    const struct gpud_frame *frame = delivery->frame;
    const struct gpud_slot *slot = delivery->device_slot, *host_slot = delivery->host_slot;
    struct gpud_memory *source, *memory = frame->memory;
    if (memory->device != sender->device && !memory->host) {
        /* A sender on the host lets the frame's device copy it into the delivery's slot. */
        if (sender->device->caps & GPUD_CAP_CPU_ADDRESSABLE)
            return source_fetch(sender, delivery, error);
        return gpud_fail(error, GPUD_INVALID,
                         "the frame lies on %s, and the sender works on %s: wrap memory of %s",
                         memory->device->info.name, sender->device->info.name,
                         sender->device->info.name);
    }
    enum gpud_status status = gpud_memory_view(memory, sender->device, &source, error);
    if (status == GPUD_OK)
        status = source_order(queue, delivery, error);
    if (status != GPUD_OK)
        return status;

    if (slot && &slot->frame != frame)
        status = source_copy(sender, queue, delivery, false, source, slot->frame.memory,
                             slot->frame.offset, error);
    if (host_slot && status == GPUD_OK) {
        bool begun = false; /* earlier steps have filled a part of it */
        for (uint32_t i = 0; i < delivery->count; i++)
            begun |= delivery->target[i].stepwise &&
                     gpud_transport_shares_slots(delivery->target[i].transport);
        status = copy_to_host(sender, delivery, begun, source, host_slot->frame.memory,
                              host_slot->view, host_slot->frame.offset, error);
    }
    if (status == GPUD_OK)
        status = post_shared(sender, delivery, error);
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
    if (status != GPUD_OK || delivery->consume || frame->slot == UINT32_MAX ||
        gpud_pool_orders(frame, queue))
        return status;
    /* A kept frame of another owner may be given back as soon as the call returns. */
    struct gpud_error why = {0};
    status = gpud_queue_finish(queue, gpud_deadline(FILLED_DEADLINE), &why);
    return status == GPUD_OK
               ? GPUD_OK
               : gpud_fail_native(error, GPUD_IO, why.origin, why.native, "%s", why.reason);
}

/* === delivery ================================================================================ */

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

/* Publishes the frame, or a void entry in its place if it was lost: messages may follow it. */
static void publish_entry(struct gpud_sender *sender, const struct gpud_delivery *delivery,
                          const struct gpud_delivery_target *target, bool lost)
{
    struct gpud_transport *transport = target->transport;
    struct gpud_link *link = target->link;
    if (target->early) {
        uint32_t lines = lost || delivery->corrupted ? GPUD_LINES_LOST : delivery->layout.height;
        lost |= !set_lines(transport, target->entry, delivery->sequence, lines, true);
    } else {
        struct gpud_descriptor *descriptor = gpud_page_descriptor(&transport->page, target->entry);
        if (delivery->corrupted)
            descriptor->flags |= GPUD_FRAME_CORRUPTED;
        if (lost) {
            descriptor->flags |= GPUD_FRAME_VOID;
            drop_slot(transport, target->entry);
        }
        gpud_transport_publish(sender, transport, target->entry);
    }
    if (delivery->canary)
        return;
    if (lost) {
        gpud_link_uncount(link, target->early);
        gpud_link_count_drop(link, &link->info.dropped_failed);
    } else {
        GPUD_PROBE(publish, sender, link->id, delivery->sequence);
        link->info.delivered += !target->early;
        sender->info.delivered += !target->early;
    }
}

static void delivery_publish(struct gpud_pending_delivery *pending,
                             const struct gpud_delivery_target *target, bool lost)
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
}

/* Wakes the receivers of published targets, and drops their references. */
static void targets_finish(struct gpud_sender *sender, struct gpud_delivery_target *targets,
                           uint32_t count)
{
    struct gpud_transport *published[GPUD_RECEIVERS_MAX];
    uint32_t some = 0;
    for (uint32_t i = 0; i < count; i++)
        if (targets[i].entry != GPUD_NO_ENTRY && !targets[i].early)
            published[some++] = targets[i].transport;
    if (some > 0)
        gpud_transports_wake(sender, published, some);
    for (uint32_t i = 0; i < count; i++) {
        gpud_transport_unref(&targets[i].transport);
        gpud_link_unref(targets[i].link);
    }
}

/* Publishes the targets that do not wait (or, with all, every one; lost: as lost) and keeps the
 * others. All have the frame before the first one is woken, which takes a system call. */
static void publish_targets(struct gpud_pending_delivery *pending, bool all, bool lost)
{
    struct gpud_delivery *delivery = &pending->delivery;
    struct gpud_delivery_target published[GPUD_RECEIVERS_MAX];
    uint32_t kept = 0, count = 0;
    for (uint32_t i = 0; i < delivery->count; i++) {
        const struct gpud_delivery_target *target = &delivery->target[i];
        if (all || !gpud_target_waits(target)) {
            delivery_publish(pending, target, lost);
            published[count++] = *target;
        } else {
            delivery->target[kept++] = *target;
        }
    }
    delivery->count = kept;
    targets_finish(pending->sender, published, count);
}

/* --- the end ------------------------------------------------------------------------------- */

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

/* The last reference is the application's, or that of the last delivery under way. */
void gpud_sender_unref(struct gpud_sender *sender)
{
    if (atomic_fetch_sub(&sender->references, 1) != 1)
        return;
    struct gpud_pending_delivery *gone, *spare = atomic_load(&sender->spare);
    while ((gone = spare)) {
        spare = gone->next;
        free(gone);
    }
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
        struct gpud_delivery *delivery = &pending->delivery;
        delivery->corrupted |= pending->status != GPUD_OK;
        if (!delivery->lines) {
            publish_targets(pending, true, false);
            continue;
        }
        /* A step: its rows are valid, or the frame is lost for those targets. */
        uint32_t lines = delivery->corrupted ? GPUD_LINES_LOST : delivery->lines;
        for (uint32_t i = 0; i < delivery->count; i++) {
            struct gpud_delivery_target *target = &delivery->target[i];
            set_lines(target->transport, target->entry, delivery->sequence, lines,
                      delivery->corrupted);
            gpud_transport_unref(&target->transport);
            gpud_link_unref(target->link);
        }
        delivery->count = 0;
    }
    return oldest;
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
        while (done) {
            struct gpud_pending_delivery *pending = done;
            done = pending->next;
            gpud_delivery_release(&pending->delivery);
            put_record(sender, pending);
            gpud_sender_unref(sender);
        }
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
            targets_finish(sender, target, 1);
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
        if (target->entry == GPUD_NO_ENTRY) {
            made->info = pending->info;
            gpud_large_meta_ref(made->info.large_meta);
        }
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
    publish_targets(pending, true, true);
    gpud_delivery_release(&pending->delivery);
    return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a frame's record");
}

static enum gpud_status deliver_later(struct gpud_sender *sender,
                                      struct gpud_pending_delivery *prepared,
                                      struct gpud_error *error)
{
    struct gpud_pending_delivery *next, *pending = take_record(sender);
    if (!pending)
        return no_record(prepared, error);
    pending->sender = sender;
    copy_delivery(&pending->delivery, &prepared->delivery);
    if (prepared->delivery.is_late) {
        pending->info = prepared->info;
        gpud_large_meta_ref(pending->info.large_meta);
    }
    gpud_sender_unlock(sender);
    enum gpud_status status = copies_enqueue(sender, &pending->delivery, error);
    gpud_sender_lock(sender);
    publish_targets(pending, status != GPUD_OK, status != GPUD_OK);
    struct gpud_pending_delivery *given = split_given(pending);
    atomic_fetch_add(&sender->references, 1);
    gpud_sender_unlock(sender);
    for (; given; given = next) {
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

static enum gpud_status deliver_described(struct gpud_sender *sender,
                                          struct gpud_pending_delivery *pending,
                                          struct gpud_error *error)
{
    struct gpud_delivery *delivery = &pending->delivery;
    bool copies = delivery->copies;
    delivery->ordered = copies_are_stream_ordered(sender, delivery);
    if (delivery->is_late) {
        pending->info = delivery->frame->info;
        pending->info.submitted_ns = delivery->submitted;
    }
    if (!(sender->device->caps & GPUD_CAP_SYNCHRONOUS)) {
        if (!delivery->ordered)
            return deliver_later(sender, pending, error);
        sender->undelivered_run = delivery->count ? 0 : sender->undelivered_run + 1;
        if (sender->undelivered_run >= UNPACED_MAX) {
            sender->undelivered_run = 0;
            gpud_sender_unlock(sender);
            gpud_queue_finish(sender->queue, gpud_deadline(GPUD_SEC), NULL);
            gpud_sender_lock(sender);
        }
        /* Wakes receivers early, because the driver's calls take about as long as waking up. */
        struct gpud_transport *transports[GPUD_RECEIVERS_MAX];
        uint32_t count = 0;
        for (uint32_t i = 0; i < delivery->count; i++)
            if (delivery->target[i].transport)
                transports[count++] = delivery->target[i].transport;
        gpud_transports_announce(sender, transports, count, 0);
        copies = delivery->count > 0;
    }
    /* Without a record, because no copy is still under way when the call returns. */
    enum gpud_status status = GPUD_OK;
    if (copies) {
        gpud_sender_unlock(sender);
        status = copies_enqueue(sender, delivery, error);
        gpud_sender_lock(sender);
    }
    publish_targets(pending, true, status != GPUD_OK);
    gpud_delivery_release(delivery);
    return status;
}

/* --- a frame that is still written --------------------------------------------------------- */

static void on_release(struct gpud_slot *slot, void *arg);

/* Publishes the frame for those that take it while it is written, and keeps it. Model
 * (tests/model/lines.pml): begin.1 and begin.2. */
static enum gpud_status keep_writing(struct gpud_sender *sender,
                                     struct gpud_pending_delivery *pending,
                                     struct gpud_error *error)
{
    struct gpud_pending_delivery *kept = take_record(sender);
    if (!kept)
        return no_record(pending, error);
    struct gpud_delivery *delivery = &kept->delivery;
    struct gpud_transport *published[GPUD_RECEIVERS_MAX];
    uint32_t count = 0;
    kept->sender = sender;
    copy_delivery(delivery, &pending->delivery);
    for (uint32_t i = 0; i < delivery->count; i++) {
        struct gpud_delivery_target *target = &delivery->target[i];
        const struct gpud_transport *transport = target->transport;
        /* Whether the receiver asked for rows as they come, and the route can hand them over; not
         * ahead of a frame before this one, whose copy is not complete. */
        if (target->entry == GPUD_NO_ENTRY || gpud_transport_gives_slots(transport) ||
            transport->pending > 1 || transport->place == GPUD_SIGNAL_MEMORY ||
            !atomic_load_explicit(&transport->page.page->receiver.by_lines, memory_order_relaxed))
            continue;
        /* Whether the receiver reads the rows elsewhere than where they are written. Into a slot
         * for receivers that map it, a frame of an earlier pool is copied as a whole. */
        const struct gpud_slot *slot = slot_for(delivery, transport);
        bool copied = !slot || &slot->frame != delivery->frame;
        if (copied && slot && slot == delivery->device_slot)
            continue;
        if ((copied || transport->remote) && delivery->layout.modifier)
            continue;
        target->early = true;
        target->stepwise = copied;
        target->link->info.delivered++;
        sender->info.delivered++;
        publish_early(sender, target->transport, target->entry, delivery->sequence);
        published[count++] = target->transport;
    }
    if (count > 0)
        gpud_transports_wake(sender, published, count);
    sender->writing = kept;
    sender->lines = 0;
    struct gpud_slot *written = (struct gpud_slot *)delivery->frame;
    atomic_fetch_add(&sender->references, 1);
    written->on_release = on_release;
    atomic_store(&written->on_release_arg, sender);
    return GPUD_OK;
}

const struct gpud_frame *gpud_deliver_writing(const struct gpud_sender *sender)
{
    return sender->writing ? sender->writing->delivery.frame : NULL;
}

/* The copies of the rows up to `lines` for the stepwise targets; NULL: they are too few for a step,
 * or nothing copies them. They keep the frame's slot: an application that gives the frame up may
 * release it before they are done. */
static struct gpud_pending_delivery *make_step(struct gpud_sender *sender, uint32_t lines)
{
    struct gpud_delivery *writing = &sender->writing->delivery;
    bool some = false;
    for (uint32_t i = 0; i < writing->count; i++)
        some |= writing->target[i].stepwise;
    if (!some || lines - writing->copied < gpud_lines_step(writing->layout.height))
        return NULL;
    struct gpud_pending_delivery *made = take_record(sender);
    if (!made)
        return NULL; /* a later step, or the end, copies these rows, too */
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
            set_lines(target->transport, target->entry, delivery->sequence, lines, false);
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

enum gpud_status gpud_deliver(struct gpud_sender *sender, const struct gpud_delivery *given,
                              struct gpud_error *error)
{
    struct gpud_pending_delivery pending; /* not zeroed: some fields are not used for each frame */
    struct gpud_delivery *delivery = &pending.delivery;
    pending.sender = sender;
    copy_delivery(delivery, given);
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
                                target->link->info.dropped, delivery->submitted);
        GPUD_STOP_POINT("sender: described");
        delivery->copies |= !gpud_transport_shares_slots(target->transport);
    }
    return delivery->by_lines ? keep_writing(sender, &pending, error)
                              : deliver_described(sender, &pending, error);
}

/* === lines =================================================================================== */

/* The frame is whole, or lost: delivers it to the other receivers. Under the lock, which is dropped
 * meanwhile. The frame's release does not concern the sender any more; its thread may have noticed
 * the release before, and holds the reference then. */
static enum gpud_status lines_end(struct gpud_sender *sender, bool lost, struct gpud_error *error)
{
    struct gpud_pending_delivery pending;
    enum gpud_status status = GPUD_OK;
    pending.sender = sender;
    copy_delivery(&pending.delivery, &sender->writing->delivery);
    struct gpud_frame *frame = pending.delivery.frame;
    bool referenced = atomic_exchange(&((struct gpud_slot *)frame)->on_release_arg, NULL);
    frame->info.flags |= GPUD_FRAME_READ_ONLY;
    put_record(sender, sender->writing);
    sender->writing = NULL;
    if (lost) {
        if (pending.delivery.is_late)
            pending.info = frame->info;
        publish_targets(&pending, true, true);
        gpud_delivery_release(&pending.delivery);
    } else {
        status = deliver_described(sender, &pending, error);
    }
    if (referenced) /* never the last one: the caller has its own */
        atomic_fetch_sub(&sender->references, 1);
    return status;
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

/* Model (tests/model/lines.pml): advance.2, and give_up.1 below. */
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
        status = lines_end(sender, false, error);
    else if (lines > sender->lines)
        status = deliver_lines(sender, lines, error);
    GPUD_STOP_POINT("sender: lines written");
    gpud_sender_unlock(sender);
    return status;
}

void gpud_lines_give_up(struct gpud_sender *sender)
{
    if (sender->writing)
        lines_end(sender, true, NULL);
}
