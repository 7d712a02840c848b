/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which addresses of this user there are. The sockets of bare names lie in the runtime directory.
 * Of a socket that lies elsewhere its sender leaves a sign there: a symbolic link, whose target is
 * the socket's path and whose name is made of it, so that a path has one sign whoever leaves it:
 *
 *     cam1                        a socket
 *     cam1.lock                   its lock
 *     .unix!run!studio!cam2       → /run/studio/cam2
 *
 * Signs are made and taken down with the directory's lock in hand, and made by senders that listen
 * already: whoever has the lock and finds that nobody listens may take a sign down. */
#ifndef GPUD_WIRE_UNIX_REGISTRY_H
#define GPUD_WIRE_UNIX_REGISTRY_H

#include "wire/channel.h"

/* Leaves the sign of a path on which this process listens; nothing for a bare name's. */
enum gpud_status gpud_registry_add(const char *path, struct gpud_error *error);

/* Takes it down. */
void gpud_registry_remove(const char *path);

/* The same, of a path on which nobody listened a moment ago, unless somebody does now. */
void gpud_registry_reclaim(const char *path);

/* What there is, by address; there may be nobody behind it. At most max. *directory: where it was
 * looked for. */
enum gpud_status gpud_registry_list(struct gpud_address *found, size_t max, size_t *count,
                                    char directory[GPUD_ADDRESS_MAX], struct gpud_error *error);

#endif
