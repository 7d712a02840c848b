/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TRANSFER_WAIT_H
#define GPUD_TRANSFER_WAIT_H

#include "transfer/transfer.h"

/* Waits for the descriptor, asleep. GPUD_TIMEOUT. GPUD_AGAIN: interrupted. */
enum gpud_status gpud_transfer_await(int fd, int interrupt, int64_t deadline);
void gpud_transfer_set_interrupt(int interrupt, bool interrupted);

/* Waits for the connection to change. GPUD_TIMEOUT, GPUD_AGAIN. */
enum gpud_status gpud_connection_wait_locked(struct gpud_connection *connection, int64_t deadline,
                                             struct gpud_error *error);

#endif
