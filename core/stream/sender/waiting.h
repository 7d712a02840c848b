/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Frames that wait for a link, and the messages after them: the first ones of a new epoch, whose
 * receiver still prepares its ring, and the newest one for a slow receiver, if frames cannot be
 * taken back. All under the lock. */
#ifndef GPUD_STREAM_SENDER_WAITING_H
#define GPUD_STREAM_SENDER_WAITING_H

#include "stream/sender/targets.h"

enum gpud_waiting_kind {
    GPUD_WAITING_NONE,   /* a frame without a credit is dropped, or the call waits */
    GPUD_WAITING_NEWEST, /* it can wait, in a slot of the link's ring */
    GPUD_WAITING_KEPT,   /* likewise, in a slot of the sender's device */
};

/* Whether a frame can wait for a link that cannot take it now, by its policy. */
enum gpud_waiting_kind gpud_waiting_kind(const struct gpud_link *link);

/* Sends the waiting frames for which there are entries, and the messages after them. May end the
 * link. */
void gpud_waiting_advance(struct gpud_link *link);

/* Handles a target without an entry, which submit counted in `late` (and, without a transport, in
 * `late_kept`), when its frame is complete, lost, or not delivered after all. Its references stay
 * the caller's. */
void gpud_waiting_put(const struct gpud_delivery_target *target, const struct gpud_frame_info *info,
                      struct gpud_slot *slot, uint64_t sequence, bool lost);
void gpud_waiting_forget(const struct gpud_delivery_target *target);

/* gpud_link_send() for the application's EVENT or EOS: at once, or after the waiting frames. */
void gpud_waiting_send(struct gpud_link *link, struct gpud_message *message);

/* Drops the waiting frames that cannot be sent; sends the messages after them. */
void gpud_waiting_drop(struct gpud_link *link);

/* The same, and messages go out although the link's ring is not ready: the sender ends. */
void gpud_waiting_end(struct gpud_link *link);

/* Drops a waiting frame whose slot has no other user; last: also one for which the pool has yet to
 * grow. false: this pool has none. */
bool gpud_waiting_reclaim_slot(struct gpud_sender *sender, const struct gpud_pool *pool, bool last);

/* Whether frames wait that the next format, or the end, would lose, because their receiver's ring
 * is not ready or takes work of the device. Not of a receiver that was waited for in vain, until it
 * has caught up. */
bool gpud_waiting_is_preparing(const struct gpud_link *link);

/* Whether the oldest frame waits only for work of the device: see epoch.h. Then takes an entry for
 * it, behind the messages before it; false: not now. May end the link. */
bool gpud_waiting_needs_device(const struct gpud_link *link);
bool gpud_waiting_take_entry(struct gpud_link *link, uint32_t *entry);

/* The link's ring is ready: sends what waits for it. The listener's thread does the rest in its
 * next turn. */
void gpud_waiting_ready(struct gpud_link *link);

/* Whether the OFFER of a new epoch has to wait, too; then the listener's thread is woken when it
 * can be sent. */
bool gpud_waiting_delays_offer(struct gpud_link *link);

/* For the listener's thread: a link's next deadline, and handling all that are due. */
int64_t gpud_waiting_deadline(const struct gpud_link *link);
void gpud_waiting_turn(struct gpud_sender *sender, int64_t now);

#endif
