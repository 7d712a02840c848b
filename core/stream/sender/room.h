/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Room in the sender's ring: a share for the sender and one for each receiver that maps it. In the
 * listener's thread, without the lock. */
#ifndef GPUD_STREAM_SENDER_ROOM_H
#define GPUD_STREAM_SENDER_ROOM_H

#include "stream/sender/link.h"

/* Makes room in the pool for this link and notifies every receiver that maps the pool. GPUD_AGAIN:
 * one cannot be notified now. */
enum gpud_status gpud_room_make(struct gpud_link *link, struct gpud_pool *pool,
                                struct gpud_error *error);

/* Clears pictures from before this link in free slots, which it is about to map. GPUD_AGAIN: too
 * many slots are in use; try later. */
enum gpud_status gpud_room_clear(struct gpud_link *link, struct gpud_pool *pool,
                                 struct gpud_error *error);

/* Registers the pool's new memories with the link's network card. */
enum gpud_status gpud_link_register_sources(struct gpud_link *link, struct gpud_error *error);

/* Frees memories that have been unneeded for some seconds. */
void gpud_room_shrink(struct gpud_sender *sender, int64_t now);

#endif
