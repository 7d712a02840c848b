/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Puts the device work that each receiver of a frame needs on queues: copies, signals, and the
 * route's own operations. */
#include "stream/sender/copies.h"

#include "base/stop.h"
#include "frame/layout.h"
#include "stream/sender/source.h"

/* Copies a frame in host memory by the host's queue, to spare it the way through the device. */
static enum gpud_status copy_to_host(struct gpud_sender *sender,
                                     const struct gpud_delivery *delivery, bool begun,
                                     struct gpud_memory *source, struct gpud_memory *host,
                                     struct gpud_memory *view, uint64_t offset,
                                     struct gpud_error *error)
{
    struct gpud_memory *memory = delivery->frame->memory;
    if (memory->device == sender->host)
        return gpud_source_copy(sender, sender->host_queue, delivery, begun, memory, host, offset,
                                error);
    return gpud_source_copy(sender, sender->queue, delivery, begun, source, view, offset, error);
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
    return gpud_source_copy(sender, sender->queue, delivery, target->stepwise, source, view, offset,
                            error);
}

/* Whether earlier steps have filled a part of the host's slot. */
static bool host_slot_is_begun(const struct gpud_delivery *delivery)
{
    for (uint32_t i = 0; i < delivery->count; i++)
        if (delivery->target[i].stepwise && delivery->target[i].transport->pool)
            return true;
    return false;
}

struct gpud_slot *gpud_copies_are_stream_ordered(const struct gpud_sender *sender,
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
        status = gpud_source_copy(sender, queues->copy, delivery, target->stepwise, source, memory,
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
static enum gpud_status send(struct gpud_sender *sender, const struct gpud_delivery *delivery,
                             struct gpud_delivery_target *target, struct gpud_memory *source,
                             struct gpud_error *error)
{
    struct gpud_transport *transport = target->transport;
    enum gpud_status status = GPUD_OK;
    if (transport->queues.own)
        return give_slot(sender, delivery, target, error);
    if (transport->queues.copy)
        return send_on_own_queues(sender, delivery, target, source, error);
    if (!transport->pool)
        status = copy_to_receiver(sender, delivery, target, source, error);
    if (status == GPUD_OK && transport->place != GPUD_SIGNAL_NONE && !delivery->lines)
        status = gpud_transport_post(transport, target->entry, sender->queue, error);
    return status;
}

enum gpud_status gpud_copies_enqueue(struct gpud_sender *sender, struct gpud_delivery *delivery,
                                     struct gpud_error *error)
{
    struct gpud_queue *queue = sender->queue;
    const struct gpud_frame *frame = delivery->frame;
    struct gpud_memory *source;
    if (gpud_source_is_elsewhere(sender, frame))
        return gpud_source_fetch(sender, delivery, error);
    enum gpud_status status = gpud_source_find(sender, frame, &source, error);
    if (status == GPUD_OK)
        status = gpud_source_order(sender, queue, delivery, error);
    if (status != GPUD_OK)
        return status;

    if (delivery->device_slot && &delivery->device_slot->frame != frame)
        status = gpud_source_copy(sender, queue, delivery, false, source,
                                  delivery->device_slot->frame.memory,
                                  delivery->device_slot->frame.offset, error);
    if (delivery->host_slot && status == GPUD_OK)
        status = copy_to_host(sender, delivery, host_slot_is_begun(delivery), source,
                              delivery->host_slot->frame.memory, delivery->host_slot->view,
                              delivery->host_slot->frame.offset, error);
    for (uint32_t i = 0; i < delivery->count && status == GPUD_OK; i++) {
        if (!delivery->target[i].transport)
            continue;
        status = send(sender, delivery, &delivery->target[i], source, error);
        if (!gpud_target_waits(&delivery->target[i]))
            GPUD_STOP_POINT("sender: signal posted");
    }
    GPUD_STOP_POINT("sender: copy enqueued");
    if (status == GPUD_OK)
        status = gpud_queue_flush(queue, error);
    return status == GPUD_OK ? gpud_source_finish(sender, delivery, error) : status;
}
