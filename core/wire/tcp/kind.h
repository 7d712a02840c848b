/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What other files of wire/ know of connections by TCP: see wire/tcp/tcp.h. */
#ifndef GPUD_WIRE_TCP_KIND_H
#define GPUD_WIRE_TCP_KIND_H

#include "wire/network.h"
#include "wire/wire.h"

extern const struct gpud_channel_ops gpud_tcp_channel_ops;

/* From looking up the name to the proof of who the ends are: 5 s. Tests change it. */
extern int64_t gpud_tcp_handshake_deadline;

/* A kind's hint in wire/channel.c: always "", because the connection's own reasons are enough. */
void gpud_tcp_hint(const char *place, char *hint, size_t size);

/* Asks another host for the names of the channels at one of its ports. It takes no key.
 * GPUD_CLOSED: nothing listens there, or its answer did not arrive by the deadline. */
enum gpud_status gpud_tcp_ask_names(const struct gpud_place *place, const char *port,
                                    int64_t deadline, char *names, size_t size,
                                    struct gpud_error *error);

#endif
