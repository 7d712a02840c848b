/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What this host lacks for connections by network cards. */
#ifndef GPUD_WIRE_RDMA_HINT_H
#define GPUD_WIRE_RDMA_HINT_H

#include <stddef.h>

/* A sentence with the command that helps, or "". Looks at what the kernel shows below `root`. */
void gpud_rdma_look(const char *root, char *hint, size_t size);

/* As a kind's hint in wire/channel.c. */
void gpud_rdma_hint(const char *place, char *hint, size_t size);

#endif
