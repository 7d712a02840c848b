/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which addresses are this host's own, and which of its cards leads to others. */
#ifndef GPUD_WIRE_RDMA_NEAR_H
#define GPUD_WIRE_RDMA_NEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* A kind's find_card in wire/address.c: the card's PCI address, or "". Sends nothing, and looks up
 * no names. */
void gpud_rdma_find_card(const char *place, char *pci, size_t size);

/* Whether an interface of this host, or of this container, has the address. */
bool gpud_rdma_is_own(const struct sockaddr_storage *address);

#endif
