/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_WIRE_RDMA_CONNECT_H
#define GPUD_WIRE_RDMA_CONNECT_H

#include "wire/rdma/state.h"

/* Begins to connect; *channel is not connected yet. */
enum gpud_status gpud_rdma_channel_connect(struct rdma_channel *channel, struct gpud_error *error);

/* Accepts the request. The channel owns the id from now on; its events go to channel->events.
 * GPUD_AGAIN: the receiver has given up. */
enum gpud_status gpud_rdma_channel_accept(struct rdma_channel *channel, struct rdma_cm_id *id,
                                          struct gpud_error *error);

/* Handles rdma_cm's pending events and the timer. */
void gpud_rdma_drive_locked(struct rdma_channel *channel);

/* RDMA_PROVING: handles an authentication message from the peer; false if there is none. Only for
 * the thread that receives. */
bool gpud_rdma_prove_locked(struct rdma_channel *channel);

/* Before RDMA_OPEN: ends the channel for this reason. */
void gpud_rdma_end_locked(struct rdma_channel *channel, const struct gpud_error *why);

#endif
