/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_WIRE_RDMA_PUBLISH_H
#define GPUD_WIRE_RDMA_PUBLISH_H

#include "wire/rdma/remote.h"

/* Writes this range of our half into the other side's page, ordered after earlier ranges. Does
 * nothing before the record is attached or after it is detached. */
void gpud_rdma_publish(struct rdma_remote *remote, size_t offset, size_t size);

/* Send a notice, ordered after what was published; the second one publishes a range first. False:
 * the record is not attached. */
bool gpud_rdma_publish_notice(struct rdma_remote *remote);
bool gpud_rdma_publish_with_notice(struct rdma_remote *remote, size_t offset, size_t size);

/* Writes the ranges for which the queue had no room. True: nothing is left. */
bool gpud_rdma_catch_up_record(struct rdma_remote *remote);

/* Detaches the record: nothing is published any more. */
void gpud_rdma_stop_publishing(struct rdma_remote *remote);

#endif
