/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The newest frame for a slow receiver, if frames cannot be taken back, and the messages after it.
 * All under the lock. */
#ifndef GPUD_STREAM_SENDER_WAITING_H
#define GPUD_STREAM_SENDER_WAITING_H

#include "stream/sender/targets.h"

/* Whether a frame can wait for the link, which has a transport. */
bool gpud_waiting_is_possible(const struct gpud_link *link);

/* Sends the waiting frame, if there is an entry, and the messages after it. May end the link. */
void gpud_waiting_advance(struct gpud_link *link);

/* Handles a target without an entry, which submit counted in `late`, when its frame is complete,
 * lost, or not delivered after all. Its references stay the caller's. */
void gpud_waiting_put(const struct gpud_delivery_target *target, const struct gpud_frame_info *info,
                      struct gpud_slot *slot, uint64_t sequence, bool lost);
void gpud_waiting_forget(const struct gpud_delivery_target *target);

/* gpud_link_send() for the application's EVENT or EOS: at once, or after the waiting frame. */
void gpud_waiting_send(struct gpud_link *link, struct gpud_message *message);

/* Drops the waiting frame if it cannot be sent; sends the messages after it. */
void gpud_waiting_drop(struct gpud_link *link);

/* Drops a waiting frame whose slot has no other user. false: this pool has none. */
bool gpud_waiting_reclaim_slot(struct gpud_sender *sender, const struct gpud_pool *pool);

/* Whether the OFFER of a new epoch has to wait, too; then the listener's thread is woken when it
 * can be sent. */
bool gpud_waiting_delays_offer(struct gpud_link *link);

/* For the listener's thread: a link's next deadline, and handling all that are due. */
int64_t gpud_waiting_deadline(const struct gpud_link *link);
void gpud_waiting_turn(struct gpud_sender *sender, int64_t now);

#endif
