/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Epochs: a format, its rings, and everybody who is offered them. */
#include "base/fd.h"
#include "stream/sender/sender.h"

#include <inttypes.h>
#include <string.h>

#define AREA "sender"

enum gpud_status gpud_sender_get_pool(struct gpud_sender *sender, enum gpud_ring_place place,
                                      struct gpud_pool **pool, struct gpud_error *error)
{
    bool on_host = sender->device == sender->host;
    bool staging = place == GPUD_RING_SENDER_HOST && !on_host;
    struct gpud_pool **own = staging ? &sender->host_pool : &sender->device_pool, *made;
    if (*own) {
        *pool = *own;
        return GPUD_OK;
    }
    struct gpud_device *device = staging ? sender->host : sender->device;
    bool shareable = device->caps & GPUD_CAP_SHARE;
    struct gpud_layout layout = sender->layout;
    uint32_t epoch = sender->epoch;
    bool dmabufs = sender->dmabufs;
    gpud_sender_unlock(sender);
    enum gpud_status status = gpud_pool_create(
        device, device->caps & GPUD_CAP_SYNCHRONOUS ? NULL : sender->queue,
        shareable ? GPUD_USAGE_SHARE : GPUD_USAGE_LOCAL, dmabufs, staging ? sender->device : NULL,
        &layout, epoch, sender->slots, device->common != NULL, &made, error);
    gpud_sender_lock(sender);
    if (status != GPUD_OK)
        return status;
    if (sender->epoch != epoch)
        status = gpud_sender_new_format(error);
    else if (!*own)
        *own = made, made = NULL; /* else somebody else was faster */
    gpud_pool_unref(&made);
    if (status == GPUD_OK)
        *pool = *own;
    return status;
}

void gpud_sender_start_epoch(struct gpud_sender *sender)
{
    struct gpud_link *links[GPUD_RECEIVERS_MAX];
    uint32_t count = 0;
    gpud_sender_poll_disarm(sender); /* there are other pools to watch soon */
    gpud_event_raise(sender->loop.event);
    /* Receivers may still read slots of the epoch before. */
    gpud_pool_unref(&sender->host_pool);
    gpud_pool_unref(&sender->device_pool);
    sender->epoch++;
    gpud_log_info(&sender->context->log, AREA, "epoch %u: %ux%u %s, %" PRIu64 " bytes a frame",
                  sender->epoch, sender->layout.width, sender->layout.height, sender->layout.format,
                  sender->layout.size);
    for (uint32_t i = 0; i < sender->link_count; i++) {
        struct gpud_link *link = sender->links[i];
        if (link->state == GPUD_LINK_HELLO || link->state >= GPUD_LINK_LEAVING)
            continue;
        link->trials.failed = 0; /* what was measured stays true */
        /* No frame goes by the old ring, whoever gets the lock meanwhile. */
        link->state = GPUD_LINK_IDLE;
        bool later = gpud_waiting_delays_offer(link);
        if (link->state != GPUD_LINK_IDLE)
            continue;
        link->deadline = INT64_MAX;
        if (later)
            continue;
        links[count++] = link;
        link->references++;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (links[i]->state < GPUD_LINK_LEAVING)
            gpud_link_offer(links[i]);
        gpud_link_unref(links[i]);
    }
}

void gpud_sender_set_dmabufs(struct gpud_sender *sender, bool wanted)
{
    gpud_sender_lock(sender);
    sender->dmabufs_wanted = wanted;
    gpud_sender_unlock(sender);
}

enum gpud_status gpud_sender_configure(struct gpud_sender *sender, const struct gpud_layout *layout,
                                       const void *media, size_t media_size,
                                       struct gpud_error *error)
{
    enum gpud_status status = gpud_layout_check(layout, error);
    if (status != GPUD_OK)
        return status;
    if (media_size > GPUD_MEDIA_MAX)
        return gpud_fail(error, GPUD_INVALID, "%zu bytes of media: at most %d travel", media_size,
                         GPUD_MEDIA_MAX);
    gpud_sender_lock(sender);
    sender->layout = *layout;
    memcpy(sender->media, media ? media : "", media_size);
    sender->media_size = media_size;
    sender->configured = true;
    sender->ended = false;
    sender->dmabufs = sender->dmabufs_wanted;
    gpud_sender_start_epoch(sender);
    gpud_sender_unlock(sender);
    gpud_listener_tell(sender->listener);
    return GPUD_OK;
}
