/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* All records of a channel. */
#ifndef GPUD_WIRE_RDMA_RECORDS_H
#define GPUD_WIRE_RDMA_RECORDS_H

#include "wire/rdma/remote.h"

/* Frees a record that is in no list. */
void gpud_rdma_free_record(struct rdma_remote *remote);

/* Writes what the card's queue had no room for. */
void gpud_rdma_catch_up(struct rdma_channel *channel);

/* Wakes threads that sleep on its records. */
void gpud_rdma_wake_records(struct rdma_channel *channel);

/* Frees destroyed records that the peer is known not to write any more; or all, after the end. */
void gpud_rdma_collect_records(struct rdma_channel *channel, bool all);

#endif
