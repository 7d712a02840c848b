/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lets this user's processes on this host query a channel that is sent over a network, without its
 * key: a socket beside those of bare names answers queries (gpudirect-info --channels) and accepts
 * no receiver.
 *
 *     .rdma!10.0.0.1:7174!cam1         for rdma://10.0.0.1:7174/cam1
 *     .rdma!10.0.0.1:7174!cam1.lock    its lock, which names its process */
#ifndef GPUD_WIRE_RDMA_LOCAL_H
#define GPUD_WIRE_RDMA_LOCAL_H

#include "wire/channel.h"
#include "wire/unix/socket.h"

/* Listens for queries about an address: "rdma://10.0.0.1:7174/cam1". */
enum gpud_status gpud_rdma_local_open(struct gpud_socket_listener *local, const char *place,
                                      struct gpud_error *error);

/* As accept of gpud_channel_ops. */
enum gpud_status gpud_rdma_local_accept(struct gpud_socket_listener *local,
                                        struct gpud_channel **channel, struct gpud_peer *peer,
                                        struct gpud_error *error);

/* As tell of gpud_channel_ops. */
void gpud_rdma_local_tell(const struct gpud_socket_listener *local);

/* The other process of this user that listens on the port, on any address: "process 123
 * (gst-launch-1.0)"; "" if none is known. */
void gpud_rdma_local_find(uint16_t port, char *text, size_t size);

/* The same for the process that sends the channel. */
void gpud_rdma_local_find_name(const char *place, char *text, size_t size);

#endif
