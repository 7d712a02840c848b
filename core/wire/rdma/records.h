/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* All records of a channel. */
#ifndef GPUD_WIRE_RDMA_RECORDS_H
#define GPUD_WIRE_RDMA_RECORDS_H

#include "wire/rdma/remote.h"

/* Frees one that is in no list. */
void gpud_rdma_free_record(struct rdma_remote *remote);

/* Writes what had no room. */
void gpud_rdma_catch_up(struct rdma_channel *channel);

/* Wakes those of its records that sleep. */
void gpud_rdma_wake_records(struct rdma_channel *channel);

/* Frees what was kept for the peer's sake: where it is proved that it does not write there any
 * more; or all, after the end. */
void gpud_rdma_collect_records(struct rdma_channel *channel, bool all);

#endif
