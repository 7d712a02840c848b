/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The source of a submitted frame's bytes: a slot of the sender, the application's memory, or a
 * frame of another owner, a receiver or a capture, which may still be incomplete, and which is
 * released once copied. */
#include "stream/sender/source.h"

#include "frame/layout.h"
#include "frame/rows.h"
#include "stream/sender/pool.h"

enum gpud_status gpud_source_copy(struct gpud_sender *sender, struct gpud_queue *queue,
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

enum gpud_status gpud_source_find(struct gpud_sender *sender, const struct gpud_frame *frame,
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

enum gpud_status gpud_source_order(struct gpud_sender *sender, struct gpud_queue *queue,
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

bool gpud_source_is_elsewhere(const struct gpud_sender *sender, const struct gpud_frame *frame)
{
    return (sender->device->caps & GPUD_CAP_CPU_ADDRESSABLE) &&
           frame->memory->device != sender->device && !frame->memory->host;
}

/* Lets the frame's own device copy it into the host's slot. */
enum gpud_status gpud_source_fetch(struct gpud_sender *sender, struct gpud_delivery *delivery,
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
        status = gpud_source_order(sender, frame->queue, delivery, error);
    if (status == GPUD_OK)
        status = gpud_source_copy(sender, frame->queue, delivery, false, frame->memory, view,
                                  slot->frame.offset, error);
    if (status != GPUD_OK)
        return status;
    status = gpud_queue_finish(frame->queue, gpud_deadline(FILLED_DEADLINE), &why);
    return status == GPUD_OK ? GPUD_OK : not_filled(&why, error);
}

/* A kept frame may be given back as soon as the call returns. */
enum gpud_status gpud_source_finish(struct gpud_sender *sender,
                                    const struct gpud_delivery *delivery, struct gpud_error *error)
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
