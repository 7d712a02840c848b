/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What processes of this user on this host can learn of a channel that is sent over a network,
 * without the key of that network: a socket beside those of bare names, which answers questions
 * (gpudirect-info --channels) and takes no receiver.
 *
 *     .rdma!10.0.0.1:7174!cam1         for rdma://10.0.0.1:7174/cam1
 *     .rdma!10.0.0.1:7174!cam1.lock    its lock, which says whose it is */
#ifndef GPUD_WIRE_RDMA_LOCAL_H
#define GPUD_WIRE_RDMA_LOCAL_H

#include "wire/channel.h"
#include "wire/unix/socket.h"

/* Listens for questions about a place: "rdma://10.0.0.1:7174/cam1". */
enum gpud_status gpud_rdma_local_open(struct gpud_socket_listener *local, const char *place,
                                      struct gpud_error *error);

/* As accept of gpud_channel_ops. */
enum gpud_status gpud_rdma_local_accept(struct gpud_socket_listener *local,
                                        struct gpud_channel **channel, struct gpud_peer *peer,
                                        struct gpud_error *error);

/* As tell of gpud_channel_ops. */
void gpud_rdma_local_tell(const struct gpud_socket_listener *local);

/* Which other process of this user listens on the port, of any address: "process 123
 * (gst-launch-1.0)"; "": none that is known. */
void gpud_rdma_local_find(uint16_t port, char *text, size_t size);

#endif
