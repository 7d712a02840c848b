/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Epochs: a format and the rings made for it. */
#ifndef GPUD_STREAM_SENDER_EPOCH_H
#define GPUD_STREAM_SENDER_EPOCH_H

#include "route/ops.h"
#include "stream/sender/pool.h"
#include "stream/sender/state.h"

/* How frames lie in a ring: only the device's own slots may be images. Under the lock. */
static inline const struct gpud_layout *gpud_sender_layout(const struct gpud_sender *sender,
                                                           enum gpud_ring_place place)
{
    return place == GPUD_RING_SENDER_DEVICE ? &sender->layout : &sender->rows;
}

/* The pool that a route shares, created on first use. Under the lock, which is dropped while
 * creating one. GPUD_INVALID: the format changed meanwhile. */
enum gpud_status gpud_sender_get_pool(struct gpud_sender *sender, enum gpud_ring_place place,
                                      struct gpud_pool **pool, struct gpud_error *error);

/* The previous epoch's pools; release them without the lock, because that may free memory. */
struct gpud_old_pools {
    struct gpud_pool *device, *host;
};

/* Starts a new epoch with the current layout; the listener's thread offers its ring to every
 * receiver. Under the lock. */
struct gpud_old_pools gpud_sender_start_epoch(struct gpud_sender *sender);
void gpud_old_pools_release(struct gpud_old_pools *pools);

/* Before the next format, and before the end of the sender: waits, for a moment, until frames have
 * gone out whose receivers still prepare their rings. Under the lock, which is dropped meanwhile.
 */
void gpud_sender_settle_change(struct gpud_sender *sender);
void gpud_sender_settle_end(struct gpud_sender *sender);

/* Delivers frames that waited for a ring (waiting.h) and take work of the device. In the listener's
 * thread; under the lock, which is dropped meanwhile. */
void gpud_sender_deliver_waiting(struct gpud_sender *sender);

/* Fails a call during which the epoch ended. */
enum gpud_status gpud_sender_new_format(struct gpud_error *error);

#endif
