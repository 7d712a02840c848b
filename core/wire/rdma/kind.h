/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* clang-format off */
/* The control channel between hosts: a connection of rdma_cm and its queue pair.
 *
 *     receiver                                     sender
 *        the name's address, a route
 *        request: how many receives, a name ─────────▶   which of its channels is meant
 *        ◀──────────────────────────── reply, refusal
 *        ◀═══════ each proves that it has the key ═══▶   wire/auth.h
 *        ◀═════════════════ messages ════════════════▶
 *
 * Receiver and sender are told apart by who connects. Nobody waits in a call: a channel that was
 * asked for is not `connected` yet, and goes on whenever somebody uses it; its descriptor says when
 * that is worth it. */
/* clang-format on */
#ifndef GPUD_WIRE_RDMA_KIND_H
#define GPUD_WIRE_RDMA_KIND_H

#include "wire/channel.h"

extern const struct gpud_channel_ops gpud_rdma_channel_ops;

#endif
