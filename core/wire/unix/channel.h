/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The control channel on one host: a Unix socket. */
#ifndef GPUD_WIRE_UNIX_CHANNEL_H
#define GPUD_WIRE_UNIX_CHANNEL_H

#include "wire/unix/kind.h"

/* What channels of this kind are made with. Tests put one here that has remote ops. */
extern const struct gpud_channel_ops *gpud_unix_channel;

/* A channel over a connected socket, with one reference. The socket is the channel's from now on;
 * on failure it stays the caller's. */
enum gpud_status gpud_unix_channel_create(int fd, const struct gpud_peer *peer,
                                          struct gpud_channel **channel, struct gpud_error *error);

#endif
