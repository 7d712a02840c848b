/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* The control channel between hosts: a connection of rdma_cm and its queue pair.
 *
 *     receiver                                     sender
 *        looks up the address, and a route
 *        request: how many receives, a name ─────────▶   selects the channel
 *        ◀──────────────────────────── reply, refusal
 *        ◀═══════ each proves that it has the key ═══▶   wire/auth.h
 *        ◀═════════════════ messages ════════════════▶
 *
 * The end that connects is the receiver. No call waits: a new channel is not `connected` yet, and
 * every call on it makes progress; its descriptor is readable when that is useful. */
/* clang-format on */
#ifndef GPUD_WIRE_RDMA_KIND_H
#define GPUD_WIRE_RDMA_KIND_H

#include "wire/channel.h"

extern const struct gpud_channel_ops gpud_rdma_channel_ops;

#endif
