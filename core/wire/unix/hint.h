/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a user may have overlooked where nobody sends on an address. */
#ifndef GPUD_WIRE_UNIX_HINT_H
#define GPUD_WIRE_UNIX_HINT_H

#include <stddef.h>

/* A sentence about this path, of whole characters; "" where there is nothing to say. It looks at
 * the file system alone, and connects to nobody. */
void gpud_socket_hint(const char *path, char *hint, size_t size);

#endif
