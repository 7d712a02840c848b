/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Suggests why no sender may be found on an address. */
#ifndef GPUD_WIRE_UNIX_HINT_H
#define GPUD_WIRE_UNIX_HINT_H

#include <stddef.h>

/* A sentence about this path, or "". Only examines the file system. */
void gpud_socket_hint(const char *path, char *hint, size_t size);

#endif
