/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Room in the sender's ring: a share for the sender and one for each receiver that maps it. In the
 * listener's thread, without the lock. */
#ifndef GPUD_STREAM_SENDER_ROOM_H
#define GPUD_STREAM_SENDER_ROOM_H

#include "stream/sender/link.h"

/* Room in the pool for this link; every receiver that maps the pool knows of it then. GPUD_AGAIN:
 * one cannot be told now. */
enum gpud_status gpud_room_make(struct gpud_link *link, struct gpud_pool *pool,
                                struct gpud_error *error);

/* Clears what free slots show of pictures from before this link, which is about to map them.
 * GPUD_AGAIN: later, too many slots are in use. */
enum gpud_status gpud_room_clear(struct gpud_link *link, struct gpud_pool *pool,
                                 struct gpud_error *error);

/* The link's card gets at memories of the pool that are new since it was connected. */
enum gpud_status gpud_link_register_sources(struct gpud_link *link, struct gpud_error *error);

/* Frees memories that have been spare for some seconds. */
void gpud_room_shrink(struct gpud_sender *sender, int64_t now);

#endif
