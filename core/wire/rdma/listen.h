/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Listening: the operations of gpud_channel_ops. Listeners on one address and port share a hub.
 *
 *     gpud_listener cam1 ─┐
 *     gpud_listener cam2 ─┴─ hub: one id of rdma_cm, one descriptor ◀── requests, with a name
 *
 * The first listener's thread to see a request takes it from the hub, and queues it for the
 * listener that it names. */
#ifndef GPUD_WIRE_RDMA_LISTEN_H
#define GPUD_WIRE_RDMA_LISTEN_H

#include "wire/channel.h"

enum gpud_status gpud_rdma_listen(const struct gpud_address *address,
                                  const struct gpud_access_rule *access,
                                  struct gpud_listener **listener, struct gpud_error *error);
void gpud_rdma_unlisten(struct gpud_listener *listener);
void gpud_rdma_tell(struct gpud_listener *listener);
enum gpud_status gpud_rdma_accept(struct gpud_listener *listener, struct gpud_channel **channel,
                                  struct gpud_peer *peer, struct gpud_error *error);

#endif
