/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/sender/lines.h"

#include "base/stop.h"

/* Under the lock: the frame's release does not concern the sender any more. Its thread may have
 * noticed the release before, and holds the reference then. */
static void end(struct gpud_sender *sender, bool lost, enum gpud_status *status,
                struct gpud_error *error)
{
    struct gpud_frame *frame = (struct gpud_frame *)gpud_deliver_writing(sender);
    struct gpud_slot *slot = (struct gpud_slot *)frame;
    bool referenced = atomic_exchange(&slot->on_release_arg, NULL);
    frame->info.flags |= GPUD_FRAME_READ_ONLY;
    *status = gpud_deliver_rest(sender, lost, error);
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
        end(sender, false, &status, error);
    else if (lines > sender->lines)
        status = gpud_deliver_lines(sender, lines, error);
    GPUD_STOP_POINT("sender: lines written");
    gpud_sender_unlock(sender);
    return status;
}

void gpud_lines_give_up(struct gpud_sender *sender)
{
    enum gpud_status status;
    if (sender->writing)
        end(sender, true, &status, NULL);
}
