/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which sockets senders of this user listen on. Those of bare names lie in the runtime directory.
 * For one that lies elsewhere the sender makes a symbolic link there, named after the socket's
 * path, so that a path has only one:
 *
 *     cam1                        a socket
 *     cam1.lock                   its lock
 *     .unix!run!studio!cam2       → /run/studio/cam2
 *     .rdma!10.0.0.1:7174!cam3    a socket for questions about rdma://10.0.0.1:7174/cam3
 *     .received!10.0.0.1:7174!cam3!12.0.lock    process 12 receives rdma://10.0.0.1:7174/cam3
 *
 * Whoever watches the directory sees channels come and go, and their attributes change when a
 * channel has something else to say of itself.
 *
 * These links are made and removed under the directory's lock, and only a sender that listens
 * already makes one: whoever holds the lock and finds nobody listening may remove the link. */
#ifndef GPUD_WIRE_UNIX_REGISTRY_H
#define GPUD_WIRE_UNIX_REGISTRY_H

#include "wire/channel.h"

/* The entry of a place on a network: "rdma://…", of which neither host nor name has a '!'. */
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

/* Sets the time of the socket, or of its link: an event for whoever watches the directory. */
void gpud_registry_touch(const char *path);

/* Removes it unless somebody listens: for a path where nobody did a moment ago. */
void gpud_registry_reclaim(const char *path);

/* gpud_address_list() */
enum gpud_status gpud_registry_list(const char *folder, struct gpud_address **found, size_t *count,
                                    size_t *omitted, char directory[GPUD_ADDRESS_MAX],
                                    struct gpud_error *error);

#endif
