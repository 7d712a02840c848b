/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_WIRE_RDMA_CLOSING_H
#define GPUD_WIRE_RDMA_CLOSING_H

#include "wire/rdma/state.h"

/* Disconnects the channel, or destroys it once it has no reference, after its messages have arrived
 * and the peer can be notified, or RDMA_LINGER has passed. Not under its lock. */
void gpud_rdma_disconnect_later(struct rdma_channel *channel);
void gpud_rdma_destroy_later(struct rdma_channel *channel);

#endif
