/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/sender/metas.h"

#include "frame/large_meta.h"
#include "stream/sender/delivery.h"

#include <inttypes.h>

void gpud_metas_ask(struct gpud_link *link)
{
    struct gpud_transport *transport = link->transport;
    struct gpud_message message = {
        .type = GPUD_MESSAGE_METAS,
        .metas = {.epoch = link->epoch, .max = link->sender->large_meta_max, .large_metas.fd = -1},
    };
    link->has_large_metas = true;
    if (!gpud_link_is_ready(link) || !transport->remote || transport->metas ||
        transport->metas_asked)
        return;
    transport->metas_asked = transport->awaits_metas = true;
    link->metas_due++;
    gpud_link_send(link, &message);
}

/* Memory of ours for those of the receiver's, or nothing. */
static void *make(struct gpud_link *link, const struct gpud_metas *answer)
{
    void *metas = NULL;
    struct gpud_error error;
    if (answer->large_metas.type == GPUD_HANDLE_NONE) {
        gpud_print(error.reason, "the receiver has no memory for them, and its log says why");
    } else if (gpud_transport_make_metas(link->transport, link->sender->large_meta_max,
                                         &answer->large_metas, &metas, &error) == GPUD_OK) {
        return metas;
    }
    gpud_log_warning(&link->sender->context->log, "sender",
                     "receiver %" PRIu64 " gets frames without their large metas: %s", link->id,
                     error.reason);
    return NULL;
}

void gpud_metas_take(struct gpud_link *link, const struct gpud_metas *answer)
{
    struct gpud_sender *sender = link->sender;
    gpud_sender_lock(sender);
    struct gpud_transport *transport = link->transport;
    bool expected = link->state < GPUD_LINK_LEAVING && answer->epoch == link->epoch && transport &&
                    transport->awaits_metas; /* else it crossed a new offer */
    link->metas_due--;
    gpud_sender_unlock(sender);
    if (!expected)
        return;
    void *metas = make(link, answer); /* only this thread replaces the transport */
    gpud_sender_lock(sender);
    transport->awaits_metas = false;
    transport->metas = metas;
    transport->meta_room = gpud_large_meta_room(sender->large_meta_max);
    transport->metas_size = transport->page.entries * transport->meta_room;
    gpud_sender_changed(sender);
    gpud_sender_unlock(sender);
}
