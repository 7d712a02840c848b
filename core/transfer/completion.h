/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TRANSFER_COMPLETION_H
#define GPUD_TRANSFER_COMPLETION_H

#include "transfer/transfer.h"

/* Puts the operation into the completion queue. */
void gpud_operation_complete_locked(struct operation *operation, enum gpud_status status);

/* The same for bytes that arrived: whatever a GPU reads from now on sees them. */
void gpud_operation_arrive_locked(struct operation *operation);

/* Completes what the card has done. */
void gpud_operation_reap_locked(struct gpud_connection *connection);

/* Stops the card's access to this process's memory, then completes everything. Idempotent. */
void gpud_connection_end_locked(struct gpud_connection *connection, enum gpud_status status,
                                const char *reason);

/* GPUD_OK, or why the connection has ended. */
enum gpud_status gpud_connection_check_locked(const struct gpud_connection *connection,
                                              struct gpud_error *error);

#endif
