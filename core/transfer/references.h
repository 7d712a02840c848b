/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TRANSFER_REFERENCES_H
#define GPUD_TRANSFER_REFERENCES_H

#include "transfer/transfer.h"

struct gpud_transfer *gpud_transfer_ref(struct gpud_transfer *transfer);
void gpud_transfer_unref(struct gpud_transfer *transfer);

struct gpud_connection *gpud_connection_ref(struct gpud_connection *connection);
void gpud_connection_unref(struct gpud_connection *connection);

struct gpud_completion_queue *gpud_completion_queue_ref(struct gpud_completion_queue *queue);
void gpud_completion_queue_unref(struct gpud_completion_queue *queue);

#endif
