/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A note for other processes of this user that a channel is received here over a network: a lock
 * file in the runtime directory, which the kernel unlocks when the process dies.
 *
 *     .received!10.0.0.1:7174!cam1!1234.0.lock    process 1234 receives rdma://10.0.0.1:7174/cam1
 */
#ifndef GPUD_WIRE_UNIX_RECEIVED_H
#define GPUD_WIRE_UNIX_RECEIVED_H

#include "wire/unix/socket.h"

struct gpud_received {
    int lock; /* -1: there is no note */
    char path[GPUD_SOCKET_PATH_MAX];
};

/* place: "rdma://10.0.0.1:7174/cam1". Where the note cannot be written the channel is not listed,
 * which costs the receiver nothing. */
void gpud_received_note(struct gpud_received *received, const char *place);
void gpud_received_remove(struct gpud_received *received);

#endif
