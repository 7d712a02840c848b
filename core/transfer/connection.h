/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TRANSFER_CONNECTION_H
#define GPUD_TRANSFER_CONNECTION_H

#include "transfer/transfer.h"

/* Takes the channel, also on failure. */
enum gpud_status gpud_connection_create(struct gpud_transfer *transfer,
                                        struct gpud_channel *channel, bool accepted,
                                        struct gpud_connection **connection,
                                        struct gpud_error *error);

/* Before it is open: goes on with what the channel has. */
void gpud_connection_advance_locked(struct gpud_connection *connection);

/* Goes on with everything. */
void gpud_connection_progress_locked(struct gpud_connection *connection);

/* Says goodbye, which has time to arrive until the deadline, and ends it. To leave several at once,
 * say it to all before the first is left. */
void gpud_connection_say_bye_locked(struct gpud_connection *connection);
void gpud_connection_leave_locked(struct gpud_connection *connection, int64_t deadline);

#endif
