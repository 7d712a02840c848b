/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which addresses are this host's own, and over which of its cards others lead. */
#ifndef GPUD_WIRE_RDMA_NEAR_H
#define GPUD_WIRE_RDMA_NEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* As a kind's find_card in wire/address.c: the place on the PCI bus, or "". Sends nothing, and
 * looks no name up. */
void gpud_rdma_find_card(const char *place, char *pci, size_t size);

/* Whether an interface of this host, or of its container, has the address. */
bool gpud_rdma_is_own(const struct sockaddr_storage *address);

#endif
