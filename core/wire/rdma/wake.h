/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_WIRE_RDMA_WAKE_H
#define GPUD_WIRE_RDMA_WAKE_H

#include "wire/rdma/state.h"

/* Takes the card's completions and wakes the threads that wait for them. */
void gpud_rdma_look_around(struct rdma_channel *channel);

/* Arm the card: its next event makes the connection's descriptor readable. Earlier events have been
 * handled by then; check once more. The second one is for the thread that receives messages and
 * KICKs, which need not be woken for them. */
void gpud_rdma_arm_to_sleep(struct rdma_channel *channel);
void gpud_rdma_arm_to_receive(struct rdma_channel *channel);

/* Requests a KICK; and takes it: false if there is none yet. */
void gpud_rdma_want_kick(struct rdma_channel *channel);
bool gpud_rdma_take_kick(struct rdma_channel *channel);

#endif
