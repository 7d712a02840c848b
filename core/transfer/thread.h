/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_TRANSFER_THREAD_H
#define GPUD_TRANSFER_THREAD_H

#include "transfer/transfer.h"

/* The pthread function of a gpud_transfer's thread, which looks after its connections. */
void *gpud_transfer_run(void *transfer);

/* Adds to the list, which takes over the caller's reference. False: the list is full. */
bool gpud_transfer_add(struct gpud_transfer *transfer, struct gpud_connection *connection);

#endif
