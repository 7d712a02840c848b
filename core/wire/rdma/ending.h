/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_WIRE_RDMA_ENDING_H
#define GPUD_WIRE_RDMA_ENDING_H

#include "wire/rdma/state.h"

/* Whether everything sent has arrived, or never will. */
bool gpud_rdma_has_arrived_locked(struct rdma_channel *channel);

/* Whether an rdma_cm message can reach the peer; also true if none would be sent. */
bool gpud_rdma_has_route_locked(const struct rdma_channel *channel);

/* Disconnects, if there is a connection. */
void gpud_rdma_disconnect_locked(struct rdma_channel *channel, const char *why);

/* Destroys the id and releases the queue pair. */
void gpud_rdma_drop_id_locked(struct rdma_channel *channel);

#endif
