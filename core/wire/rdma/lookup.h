/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Looks up a host's addresses by its name without waiting: an answer can take half a minute. */
#ifndef GPUD_WIRE_RDMA_LOOKUP_H
#define GPUD_WIRE_RDMA_LOOKUP_H

#include "wire/rdma/address.h"

#define GPUD_RDMA_ADDRESSES_MAX 8

struct gpud_rdma_lookup;

/* Starts a look-up. fd: an eventfd, which stays the caller's; raised when it is done. */
enum gpud_status gpud_rdma_lookup_begin(const struct gpud_rdma_place *place, int fd,
                                        struct gpud_rdma_lookup **lookup, struct gpud_error *error);

/* GPUD_AGAIN: not done yet. GPUD_CLOSED: the name has no address, with why. */
enum gpud_status gpud_rdma_lookup_get(struct gpud_rdma_lookup *lookup,
                                      struct sockaddr_storage addresses[GPUD_RDMA_ADDRESSES_MAX],
                                      size_t *count, struct gpud_error *error);

/* Releases it, done or not; *lookup may be NULL. */
void gpud_rdma_lookup_end(struct gpud_rdma_lookup **lookup);

#endif
