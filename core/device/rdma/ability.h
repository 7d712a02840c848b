/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a network card and the system can do for GPUs' memory, and how much memory a process may
 * register: for connections, and for listings. */
#ifndef GPUD_DEVICE_RDMA_ABILITY_H
#define GPUD_DEVICE_RDMA_ABILITY_H

#include "device/ops.h"
#include <infiniband/verbs.h>

/* The sentence for a card that is for iWARP, or another network still. */
void gpud_rdma_explain_transport(const char *card, char why[GPUD_REASON_MAX]);

/* Asks a card's driver whether it takes dma-bufs, by giving it none: EBADF, as far as it looked at
 * it, where it does; EOPNOTSUPP or EPROTONOSUPPORT where it does not; another errno: not known. */
int gpud_rdma_ask_dmabuf(struct ibv_pd *domain);

/* GPUD_OK for EBADF, else the sentence for such a number. */
enum gpud_status gpud_rdma_explain_dmabuf(int number, const char *card, struct gpud_error *error);

/* Whether the module is loaded that gives network cards' drivers the pages behind an address of the
 * backend's devices. */
enum gpud_status gpud_rdma_check_peermem(const struct gpud_device_ops *backend,
                                         struct gpud_error *error);

/* What the process has registered so far, with whichever card. */
uint64_t gpud_rdma_pinned_bytes(void);

/* What it may register beyond that; UINT64_MAX: no limit but the memory itself. */
uint64_t gpud_rdma_pin_room(void);

/* A sentence if that is too little for a connection with a ring of 4 slots of 3840x2160 at 4 bytes
 * a pixel, else "". */
void gpud_rdma_explain_pin_room(uint64_t room, char why[GPUD_REASON_MAX]);

/* A sentence for a registration of so many bytes, or of queues (0), that failed with this errno. */
enum gpud_status gpud_rdma_fail_register(struct gpud_error *error, int number, const char *card,
                                         uint64_t size);

#endif
