/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which of this host's cards an address leads over. */
#ifndef GPUD_WIRE_RDMA_NEAR_H
#define GPUD_WIRE_RDMA_NEAR_H

#include <stddef.h>

/* As a kind's find_card in wire/channel.c: the place on the PCI bus, or "". Sends nothing, and
 * looks no name up. */
void gpud_rdma_find_card(const char *place, char *pci, size_t size);

#endif
