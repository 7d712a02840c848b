/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The control channel on one host: a Unix socket. */
#ifndef GPUD_WIRE_UNIX_CHANNEL_H
#define GPUD_WIRE_UNIX_CHANNEL_H

#include "wire/unix/kind.h"

/* The operations of new channels of this kind. Tests replace them to add remote ops. */
extern const struct gpud_channel_ops *gpud_unix_channel;

/* Makes a channel with one reference over a connected socket, which it owns from then on; on
 * failure the socket stays the caller's. */
enum gpud_status gpud_unix_channel_create(int fd, const struct gpud_peer *peer,
                                          struct gpud_channel **channel, struct gpud_error *error);

#endif
