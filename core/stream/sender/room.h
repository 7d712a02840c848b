/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Room in the sender's ring: a share for the sender and one for each receiver that maps it. In the
 * listener's thread, without the lock. */
#ifndef GPUD_STREAM_SENDER_ROOM_H
#define GPUD_STREAM_SENDER_ROOM_H

#include "stream/sender/link.h"

/* Chooses the link's share of the pool, makes room for it and notifies every receiver that maps the
 * pool. GPUD_AGAIN: one cannot be notified now. */
enum gpud_status gpud_room_make(struct gpud_link *link, struct gpud_pool *pool,
                                struct gpud_error *error);

/* Lets the link's receiver hold as many frames as it asked for, if that is due, within what
 * receivers may have: the ring grows, and the receiver is told. */
void gpud_room_raise(struct gpud_link *link, int64_t now);

/* How many frames of this pool the link's receiver may hold at most, if it asks. */
uint32_t gpud_room_most(const struct gpud_link *link, const struct gpud_pool *pool);

/* Clears pictures from before this link in free slots, which it is about to map. GPUD_AGAIN: too
 * many slots are in use; try later. */
enum gpud_status gpud_room_clear(struct gpud_link *link, struct gpud_pool *pool,
                                 struct gpud_error *error);

/* Registers the pool's new memories with the link's network card. */
enum gpud_status gpud_link_register_sources(struct gpud_link *link, struct gpud_error *error);

/* Frees memories that have been unneeded for some seconds. */
void gpud_room_shrink(struct gpud_sender *sender, int64_t now);

#endif
