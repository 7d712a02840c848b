/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_WIRE_RDMA_WAKE_H
#define GPUD_WIRE_RDMA_WAKE_H

#include "wire/rdma/state.h"

/* Deals with what the card has done, and tells those who wait for it. */
void gpud_rdma_look_around(struct rdma_channel *channel);

/* The next event makes the connection's descriptor readable, whoever of this side needs it. What
 * came before that has been dealt with; look once more. To receive: for who takes messages and
 * KICKs, and need not be told of them. */
void gpud_rdma_arm_to_sleep(struct rdma_channel *channel);
void gpud_rdma_arm_to_receive(struct rdma_channel *channel);

/* Asks for a KICK; whether there is one, which is taken. */
void gpud_rdma_want_kick(struct rdma_channel *channel);
bool gpud_rdma_take_kick(struct rdma_channel *channel);

#endif
