/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Epochs: a format, and the rings that are made for it. */
#ifndef GPUD_STREAM_SENDER_EPOCH_H
#define GPUD_STREAM_SENDER_EPOCH_H

#include "route/ops.h"
#include "stream/sender/pool.h"
#include "stream/sender/state.h"

/* The pool that a route shares, made when it is first needed. Under the lock, which is dropped
 * while one is made. GPUD_INVALID: the format changed meanwhile. */
enum gpud_status gpud_sender_get_pool(struct gpud_sender *sender, enum gpud_ring_place place,
                                      struct gpud_pool **pool, struct gpud_error *error);

/* The pools of an epoch that is over; released without the lock, since that may free memory. */
struct gpud_old_pools {
    struct gpud_pool *device, *host;
};

/* A new ring for everybody, with the layout that is set: the listener's thread offers it. Under the
 * lock. */
struct gpud_old_pools gpud_sender_start_epoch(struct gpud_sender *sender);
void gpud_old_pools_release(struct gpud_old_pools *pools);

/* The refusal of a call during which the epoch ended. */
enum gpud_status gpud_sender_new_format(struct gpud_error *error);

#endif
