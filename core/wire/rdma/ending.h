/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_WIRE_RDMA_ENDING_H
#define GPUD_WIRE_RDMA_ENDING_H

#include "wire/rdma/state.h"

/* Whether what was sent has arrived, or never will. */
bool gpud_rdma_has_arrived_locked(struct rdma_channel *channel);

/* Whether the peer can be told of the end: a message of rdma_cm would find its way. Also where none
 * would be sent. */
bool gpud_rdma_has_route_locked(const struct rdma_channel *channel);

/* Ends the connection, if there is one. */
void gpud_rdma_disconnect_locked(struct rdma_channel *channel, const char *why);

/* Lets go of id and queue pair. */
void gpud_rdma_drop_id_locked(struct rdma_channel *channel);

#endif
