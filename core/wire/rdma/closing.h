/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_WIRE_RDMA_CLOSING_H
#define GPUD_WIRE_RDMA_CLOSING_H

#include "wire/rdma/state.h"

/* Waits until what was sent has arrived and the peer can be told, or for so long, and then
 * disconnects, once; or destroys the channel, which has no reference any more. Not under its lock.
 */
void gpud_rdma_disconnect_later(struct rdma_channel *channel);
void gpud_rdma_destroy_later(struct rdma_channel *channel);

#endif
