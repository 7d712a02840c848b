/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The newest frame of a receiver that is slow, where none can be taken back, and the messages
 * behind it. All under the lock. */
#ifndef GPUD_STREAM_SENDER_WAITING_H
#define GPUD_STREAM_SENDER_WAITING_H

#include "stream/sender/targets.h"

/* Whether a frame can wait for the link, which has a transport. */
bool gpud_waiting_is_possible(const struct gpud_link *link);

/* Writes what waits, if there is an entry, and what follows it. May end the link. */
void gpud_waiting_advance(struct gpud_link *link);

/* A target without an entry, which submit counted in `late`: its frame is complete, or lost; or it
 * is not delivered after all. Its references stay the caller's. */
void gpud_waiting_put(const struct gpud_delivery_target *target, const struct gpud_frame_info *info,
                      struct gpud_slot *slot, uint64_t sequence, bool lost);
void gpud_waiting_forget(const struct gpud_delivery_target *target);

/* gpud_link_send() for an EVENT or EOS of the application's: now, or in its turn. */
void gpud_waiting_send(struct gpud_link *link, struct gpud_message *message);

/* The frame that waits is dropped, if it cannot be written; what waited for it is sent. */
void gpud_waiting_drop(struct gpud_link *link);

/* Drops a frame whose slot has no other user. false: there is none in this pool. */
bool gpud_waiting_reclaim_slot(struct gpud_sender *sender, const struct gpud_pool *pool);

/* Whether the OFFER of a new epoch has to wait, too: then the listener's thread is woken when it
 * may be sent. */
bool gpud_waiting_delays_offer(struct gpud_link *link);

/* In the thread: when it looks at the link at the latest, and its look at all of them. */
int64_t gpud_waiting_deadline(const struct gpud_link *link);
void gpud_waiting_turn(struct gpud_sender *sender, int64_t now);

#endif
