/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What other rooms of wire/ know of connections by network cards. */
#ifndef GPUD_WIRE_RDMA_KIND_H
#define GPUD_WIRE_RDMA_KIND_H

#include "base/base.h"
#include "wire/network.h"
#include "wire/wire.h"
#include <stdbool.h>
#include <stddef.h>

/* === kind ==================================================================================== */
/* clang-format off */
/* The control channel between hosts: a connection of rdma_cm and its queue pair.
 *
 *     receiver                                     sender
 *        looks up the address, and a route
 *        request: how many receives, a name ─────────▶   selects the channel
 *        ◀──────────────────────────── reply, refusal
 *        ◀═══════ each proves that it has the key ═══▶   wire/wire.h
 *        ◀═════════════════ messages ════════════════▶
 *
 * The end that connects is the receiver. No call waits: a new channel is not `connected` yet, and
 * every call on it makes progress; its descriptor is readable when that is useful. */
/* clang-format on */

extern const struct gpud_channel_ops gpud_rdma_channel_ops;

/* With fewer receives posted at the other end, nothing could be sent: see device/rdma/rdma.h. */
#define GPUD_RDMA_RECEIVES_MIN 33

/* === hint ==================================================================================== */
/* What this host lacks for RDMA connections. */

/* A kind's hint in wire/channel.c: a sentence with the command that helps, or "". */
void gpud_rdma_hint(const char *place, char *hint, size_t size);

/* === names =================================================================================== */
/* Asks another host for the names of the channels at one of its ports. It takes no key, as a
 * refusal lists them, too. */

/* GPUD_CLOSED: nothing listens there, or its answer did not arrive by the deadline. */
enum gpud_status gpud_rdma_ask_names(const struct gpud_place *place, const char *port,
                                     int64_t deadline, char *names, size_t size,
                                     struct gpud_error *error);

#endif
