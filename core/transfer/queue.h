/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TRANSFER_QUEUE_H
#define GPUD_TRANSFER_QUEUE_H

#include "transfer/transfer.h"

/* False: the queue was destroyed, and the record stays the caller's. */
bool gpud_completion_queue_push(struct gpud_completion_queue *queue, struct operation *operation);

#endif
