/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_WIRE_RDMA_CONNECT_H
#define GPUD_WIRE_RDMA_CONNECT_H

#include "wire/rdma/state.h"

/* Begins to connect; *channel is not connected yet. */
enum gpud_status gpud_rdma_channel_connect(struct rdma_channel *channel, struct gpud_error *error);

/* Takes the request, whose id is the channel's from now on, and reports to channel->events.
 * GPUD_AGAIN: whoever asked has given up. */
enum gpud_status gpud_rdma_channel_accept(struct rdma_channel *channel, struct rdma_cm_id *id,
                                          struct gpud_error *error);

/* Goes on with what rdma_cm has told meanwhile. */
void gpud_rdma_drive_locked(struct rdma_channel *channel);

/* RDMA_PROVING: goes on with what the peer has sent. For who receives. false: it sent nothing. */
bool gpud_rdma_prove_locked(struct rdma_channel *channel);

/* Before RDMA_OPEN: it has ended for this reason. */
void gpud_rdma_end_locked(struct rdma_channel *channel, const struct gpud_error *why);

#endif
