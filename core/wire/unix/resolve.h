/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where the socket of an address lies. */
#ifndef GPUD_WIRE_UNIX_RESOLVE_H
#define GPUD_WIRE_UNIX_RESOLVE_H

#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

#define GPUD_SOCKET_PATH_MAX sizeof(((struct sockaddr_un *)NULL)->sun_path)

/* "cam1" → a socket in the user's runtime directory (made if need be, 0700); "unix:/path" → that
 * path. */
enum gpud_status gpud_socket_resolve(const char *address, char path[GPUD_SOCKET_PATH_MAX],
                                     struct gpud_error *error);

/* The address of a socket in the runtime directory: "cam1" of the entry cam1, "cam1/subs" of
 * cam1!subs. false: it has neither form. */
bool gpud_socket_entry_address(const char *entry, char *text, size_t size);

#endif
