/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The host as a device: memory is pages, a queue works synchronously, a signal is a word with a
 * futex. */
#ifndef GPUD_HOST_HOST_H
#define GPUD_HOST_HOST_H

#include "device/device.h"

struct host_part {
    struct host_part *next;
    uint64_t from, size;
    int dmabuf;
};

struct host_memory {
    int fd;          /* a memfd; -1: none */
    int dmabuf;      /* of the whole memory; -1: none */
    void *base;      /* start of the mapping */
    uint64_t mapped; /* of the mapping, in bytes */
    /* The parts of shared read-only memory that have a dma-buf. The kernel makes none once the
     * memory is shared, so they are made before and kept; under map_lock. */
    struct host_part *parts;
};

/* --- dmabuf.c ------------------------------------------------------------------------------ */

/* A dma-buf of whole pages of a sealed memfd; -1 and errno on failure. */
int gpud_host_udmabuf(int memfd, uint64_t from, uint64_t size);

/* Allocates zeroed memory with a dma-buf. GPUD_UNSUPPORTED: this system cannot make one. Sets fd,
 * dmabuf, mapped. */
enum gpud_status gpud_host_alloc_dmabuf(struct host_memory *made, uint64_t size, void **data,
                                        struct gpud_error *error);
void gpud_host_drop_parts(struct host_memory *host);

extern const struct gpud_memory_ops gpud_host_memory_ops;
extern const struct gpud_dmabuf_ops gpud_host_dmabuf_ops;
extern const struct gpud_queue_ops gpud_host_queue_ops;
extern const struct gpud_signal_ops gpud_host_signal_ops;

#endif
