/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Epochs: a format and the rings made for it. */
#include "stream/sender/epoch.h"

#include "base/stop.h"
#include "frame/layout.h"
#include "route/route.h"
#include "stream/sender/delivery.h"
#include "stream/sender/lines.h"
#include "stream/sender/poll.h"
#include "stream/sender/waiting.h"
#include "stream/shared/image.h"

#include <string.h>

/* How long a change of format, counted from the one before, and the end of the sender wait for
 * receivers that still prepare their rings. */
#define CHANGE_PATIENCE (100 * GPUD_MSEC)
#define END_PATIENCE GPUD_SEC

enum gpud_status gpud_sender_new_format(struct gpud_error *error)
{
    return gpud_fail(error, GPUD_INVALID, "the format changed meanwhile");
}

enum gpud_status gpud_sender_get_pool(struct gpud_sender *sender, enum gpud_ring_place place,
                                      struct gpud_pool **pool, struct gpud_error *error)
{
    bool staging = place == GPUD_RING_SENDER_HOST && sender->device != sender->host;
    struct gpud_pool **own = staging ? &sender->host_pool : &sender->device_pool;
    struct gpud_device *device = staging ? sender->host : sender->device;
    uint32_t epoch = sender->epoch;
    while (!*own && sender->epoch == epoch) {
        struct gpud_pool *made;
        struct gpud_layout layout = *gpud_sender_layout(sender, place);
        bool dmabufs = sender->dmabufs, apart = gpud_route_gives_slots(device);
        uint32_t slots = gpud_sender_slots(sender, apart);
        gpud_sender_unlock(sender);
        enum gpud_status status = gpud_pool_create(
            device, device->caps & GPUD_CAP_SYNCHRONOUS ? NULL : sender->queue,
            device->caps & GPUD_CAP_SHARE ? GPUD_USAGE_SHARE : GPUD_USAGE_LOCAL, dmabufs,
            staging ? sender->device : NULL, &layout, epoch, slots, apart, &made, error);
        gpud_sender_lock(sender);
        if (status != GPUD_OK)
            return status;
        made->lender = sender;
        if (!*own && sender->epoch == epoch) {
            *own = made;
            break;
        }
        gpud_sender_unlock(sender); /* another thread was faster */
        gpud_pool_unref(&made);
        gpud_sender_lock(sender);
    }
    if (sender->epoch != epoch)
        return gpud_sender_new_format(error);
    *pool = *own;
    return GPUD_OK;
}

struct gpud_old_pools gpud_sender_start_epoch(struct gpud_sender *sender)
{
    struct gpud_old_pools old = {.device = sender->device_pool, .host = sender->host_pool};
    gpud_sender_poll_disarm(sender); /* the new epoch has other pools to watch */
    gpud_event_raise(sender->loop.event);
    /* Not reused: receivers may still read slots of the previous epoch. */
    sender->device_pool = sender->host_pool = NULL;
    sender->epoch++;
    sender->epoch_start = sender->sequence;
    sender->epoch_began = gpud_now();
    gpud_sender_wake_listener(sender);
    return old;
}

void gpud_old_pools_release(struct gpud_old_pools *pools)
{
    gpud_pool_unref(&pools->host);
    gpud_pool_unref(&pools->device);
}

/* --- frames that wait for a new ring --------------------------------------------------------- */

static bool some_prepare(const struct gpud_sender *sender)
{
    for (uint32_t i = 0; i < sender->link_count; i++)
        if (gpud_waiting_is_preparing(sender->links[i]))
            return true;
    return false;
}

static void await_prepared(struct gpud_sender *sender, int64_t deadline)
{
    while (some_prepare(sender) && (!atomic_load(&sender->interrupted) || sender->ended) &&
           gpud_now() < deadline)
        gpud_sender_wait_for_change(sender, deadline);
    for (uint32_t i = 0; i < sender->link_count; i++)
        sender->links[i]->waiting.was_late |= gpud_waiting_is_preparing(sender->links[i]);
}

void gpud_sender_settle_change(struct gpud_sender *sender)
{
    await_prepared(sender, sender->epoch_began + CHANGE_PATIENCE);
}

void gpud_sender_settle_end(struct gpud_sender *sender)
{
    await_prepared(sender, gpud_deadline(END_PATIENCE));
}

/* Model: turn.1 in turns.pml.
 *
 * Delivers the link's oldest frame to it alone, like any frame; later ones join those that wait.
 * false: not now. */
static bool deliver_one(struct gpud_link *link)
{
    struct gpud_waiting_frame *frame = link->waiting.frames;
    struct gpud_transport *transport = link->transport;
    uint32_t entry;
    if (!gpud_waiting_take_entry(link, &entry))
        return false;
    struct gpud_delivery delivery = {
        .frame = &frame->slot->frame,
        .info = &frame->info,
        .submitted = frame->info.submitted_ns,
        .device_slot = frame->slot,
        .corrupted = frame->info.flags & GPUD_FRAME_CORRUPTED,
        .sequence = frame->sequence,
        .count = 1,
        .target[0] = {.link = link, .transport = transport, .entry = entry},
    };
    if (transport->pool && transport->pool != frame->slot->pool &&
        !(delivery.host_slot = gpud_pool_take(transport->pool))) {
        gpud_transport_untake(transport, entry);
        return false;
    }
    gpud_link_take_waiting(link);
    link->references++;
    transport->references++;
    gpud_slot_hold(frame->slot);
    link->waiting.late++;
    link->waiting.is_delivering = true;
    gpud_deliver(link->sender, &delivery, NULL);
    link->waiting.is_delivering = false;
    link->waiting.late--;
    gpud_waiting_frame_free(frame);
    GPUD_STOP_POINT("sender: waiting frame published");
    return true;
}

void gpud_sender_deliver_waiting(struct gpud_sender *sender)
{
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        bool some = false;
        while (gpud_waiting_needs_device(link) && deliver_one(link))
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

/* The media's, or that of images where the application asked for them and the driver has some that
 * work. */
static struct gpud_layout choose_layout(const struct gpud_sender *sender,
                                        const struct gpud_media *media,
                                        const struct gpud_layout *rows)
{
    struct gpud_layout image;
    struct gpud_error error;
    if (sender->modifier_count == 0 || media->kind != GPUD_MEDIA_PICTURE || rows->modifier)
        return *rows;
    if (gpud_image_find(sender->device, rows, sender->modifiers, sender->modifier_count, &image,
                        &error) == GPUD_OK &&
        (gpud_layout_equal(&image, &sender->layout) || /* that of before, which was proved */
         gpud_image_prove(sender->queue, sender->host, rows, &image, &error) == GPUD_OK))
        return image;
    gpud_log_info(&sender->context->log, "sender", "frames are lent as rows: %s", error.reason);
    return *rows;
}

enum gpud_status gpud_sender_configure(struct gpud_sender *sender, const struct gpud_media *media,
                                       struct gpud_error *error)
{
    struct gpud_layout layout;
    enum gpud_status status = gpud_media_get_layout(media, &layout, error);
    if (status != GPUD_OK)
        return status;
    struct gpud_layout slots = choose_layout(sender, media, &layout);
    gpud_sender_lock(sender);
    gpud_lines_give_up(sender);
    gpud_sender_settle_change(sender);
    sender->media = *media;
    sender->rows = layout;
    sender->layout = slots;
    atomic_store(&sender->has_images, slots.modifier != layout.modifier);
    sender->configured = true;
    sender->ended = false;
    sender->dmabufs = sender->dmabufs_wanted;
    struct gpud_old_pools old = gpud_sender_start_epoch(sender);
    gpud_sender_unlock(sender);
    gpud_old_pools_release(&old);
    gpud_listener_tell(sender->listener);
    return GPUD_OK;
}
