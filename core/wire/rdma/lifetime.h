/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#ifndef GPUD_WIRE_RDMA_LIFETIME_H
#define GPUD_WIRE_RDMA_LIFETIME_H

#include "wire/rdma/state.h"

/* Makes a channel with one reference and no id yet. */
enum gpud_status gpud_rdma_channel_create(bool is_sender, const struct gpud_rdma_place *place,
                                          struct rdma_channel **channel, struct gpud_error *error);

/* Frees a channel without other users, with everything that it owns. */
void gpud_rdma_channel_destroy(struct rdma_channel *channel);

bool gpud_rdma_channel_watch(const struct rdma_channel *channel, int fd);

#endif
