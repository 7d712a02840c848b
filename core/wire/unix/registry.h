/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sockets on which this user's senders listen. Those of bare names lie in the runtime
 * directory. For a socket elsewhere, the sender makes a symbolic link there that is named after the
 * socket's path, so that each path has only one:
 *
 *     cam1                        a socket
 *     cam1.lock                   its lock
 *     cam1!subs                   the socket of the stream cam1/subs
 *     .unix!run!studio!cam2       → /run/studio/cam2
 *     .rdma!10.0.0.1:7174!cam3    a socket for questions about rdma://10.0.0.1:7174/cam3
 *     .received!10.0.0.1:7174!cam3!12.0.lock    process 12 receives rdma://10.0.0.1:7174/cam3
 *     .waiting!0.lock             a receiver waits for a sender (wire/await.h)
 *
 * Watchers of the directory see sockets appear and disappear, and an attribute change when a
 * channel's stream changes.
 *
 * Links are made and removed under the directory's lock, and a sender makes one only after it
 * listens: so a process that holds the lock and finds no listener may remove the link. */
#ifndef GPUD_WIRE_UNIX_REGISTRY_H
#define GPUD_WIRE_UNIX_REGISTRY_H

#include "wire/channel.h"

/* The entry of an address on a network, "rdma://…"; neither host nor name contains a '!'. */
#define GPUD_REGISTRY_RDMA ".rdma!"
#define GPUD_REGISTRY_RECEIVED ".received!"
#define GPUD_REGISTRY_ENTRY_MAX (GPUD_ADDRESS_MAX + sizeof(GPUD_REGISTRY_RECEIVED))
void gpud_registry_rdma_entry(const char *place, char entry[GPUD_REGISTRY_ENTRY_MAX]);
/* Without the process and the number at its end. */
void gpud_registry_received_entry(const char *place, char entry[GPUD_REGISTRY_ENTRY_MAX]);

/* Makes the link for a path that this process listens on. A bare name needs none. */
enum gpud_status gpud_registry_add(const char *path, struct gpud_error *error);

/* Removes it. */
void gpud_registry_remove(const char *path);

/* Sets the time of the socket, or of its link: an event for watchers of the directory. */
void gpud_registry_touch(const char *path);

/* Removes the link of a path that seemed dead, unless a sender listens there by now. */
void gpud_registry_reclaim(const char *path);

/* gpud_address_list() */
enum gpud_status gpud_registry_list(const char *folder, struct gpud_address **found, size_t *count,
                                    size_t *omitted, char directory[GPUD_ADDRESS_MAX],
                                    struct gpud_error *error);

#endif
