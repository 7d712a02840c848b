/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TRANSFER_POST_H
#define GPUD_TRANSFER_POST_H

#include "transfer/transfer.h"

/* Gives the card the waiting operations, in order, while it has room and their queues are done. */
void gpud_operation_post_locked(struct gpud_connection *connection);

/* Whether the peer took the region back. */
bool gpud_operation_is_revoked(const struct gpud_connection *connection,
                               const struct transfer_message *target);

#endif
