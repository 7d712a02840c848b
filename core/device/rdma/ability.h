/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a network card and the system can do with GPUs' memory, and how much memory a process may
 * register: for connections, and for lists. */
#ifndef GPUD_DEVICE_RDMA_ABILITY_H
#define GPUD_DEVICE_RDMA_ABILITY_H

#include "device/ops.h"
#include <infiniband/verbs.h>

/* Explains why a card for iWARP, or for another network, cannot be used. */
void gpud_rdma_explain_transport(const char *card, char why[GPUD_REASON_MAX]);

/* Asks a card's driver whether it takes dma-bufs, by passing none. EBADF: it does; EOPNOTSUPP or
 * EPROTONOSUPPORT: it does not; another errno: unknown. */
int gpud_rdma_ask_dmabuf(struct ibv_pd *domain);

/* GPUD_OK for EBADF, else the reason for such an errno. */
enum gpud_status gpud_rdma_explain_dmabuf(int number, const char *card, struct gpud_error *error);

/* Whether the module is loaded that gives network cards' drivers the pages behind an address of the
 * backend's devices. */
enum gpud_status gpud_rdma_check_peermem(const struct gpud_device_ops *backend,
                                         struct gpud_error *error);

/* Bytes that the process has registered so far, with any card. */
uint64_t gpud_rdma_pinned_bytes(void);

/* Bytes that it may still register; UINT64_MAX: only memory limits it. */
uint64_t gpud_rdma_pin_room(void);

/* The reason if that is too little for a connection with a ring of 4 slots of 3840x2160 at 4 bytes
 * a pixel, else "". */
void gpud_rdma_explain_pin_room(uint64_t room, char why[GPUD_REASON_MAX]);

/* The reason why registering so many bytes, or creating queues (0), failed with this errno. */
enum gpud_status gpud_rdma_fail_register(struct gpud_error *error, int number, const char *card,
                                         uint64_t size);

#endif
