/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TRANSFER_EXCHANGE_H
#define GPUD_TRANSFER_EXCHANGE_H

#include "transfer/transfer.h"

/* Sends the message as soon as the peer has room for it. */
void gpud_connection_say_locked(struct gpud_connection *connection,
                                const struct transfer_message *message);
void gpud_connection_flush_locked(struct gpud_connection *connection);

/* Handles the peer's messages. */
void gpud_connection_hear_locked(struct gpud_connection *connection);

/* Tells the peer which of the regions that it took back are no longer written. */
void gpud_connection_confirm_locked(struct gpud_connection *connection);

#endif
