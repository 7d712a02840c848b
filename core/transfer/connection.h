/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TRANSFER_CONNECTION_H
#define GPUD_TRANSFER_CONNECTION_H

#include "transfer/transfer.h"

/* Takes over the channel, also on failure. */
enum gpud_status gpud_connection_create(struct gpud_transfer *transfer,
                                        struct gpud_channel *channel, bool accepted,
                                        struct gpud_connection **connection,
                                        struct gpud_error *error);

/* Before it is open: handles what the channel has received. */
void gpud_connection_advance_locked(struct gpud_connection *connection);

/* Handles everything that is pending. */
void gpud_connection_progress_locked(struct gpud_connection *connection);

/* Says goodbye, which has until the deadline to arrive, and ends the connection. To leave several
 * at once, say it on all of them first. */
void gpud_connection_say_bye_locked(struct gpud_connection *connection);
void gpud_connection_leave_locked(struct gpud_connection *connection, int64_t deadline);

#endif
