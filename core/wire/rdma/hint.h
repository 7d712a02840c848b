/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What this host lacks for RDMA connections. */
#ifndef GPUD_WIRE_RDMA_HINT_H
#define GPUD_WIRE_RDMA_HINT_H

#include <stddef.h>

/* A kind's hint in wire/address.c: a sentence with the command that helps, or "". */
void gpud_rdma_hint(const char *place, char *hint, size_t size);

#endif
