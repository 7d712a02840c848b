/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* CPU access to device memory: pinned pages beside it. What is read is copied down by one DMA
 * before the map returns; what was written goes up by one DMA, in the order of the queue, without
 * anybody waiting. */
#ifndef GPUD_DEVICE_BOUNCE_H
#define GPUD_DEVICE_BOUNCE_H

#include "device/async.h"

/* Rows between two addresses, of which the driver knows by itself which lies where. */
struct gpud_rows {
    uint64_t to, from;
    uint32_t to_stride, from_stride;
    uint64_t row_bytes;
    uint32_t rows;
};

/* What bounce pages ask of a driver; results are its own numbers, 0 is success. */
struct gpud_bounce_ops {
    /* Pinned pages that every device of the driver reaches by the CPU's own addresses. */
    long (*alloc)(void **pages, uint64_t size);
    void (*free)(void *pages);
    long (*copy)(void *queue, const struct gpud_rows *rows);
    uint64_t (*address)(const struct gpud_memory *memory);
    enum gpud_status (*fail)(struct gpud_error *error, long result, const char *text);
};

struct gpud_bounce;

/* Those of one device. */
struct gpud_bounces {
    const struct gpud_bounce_ops *ops;
    struct gpud_async *async;
    pthread_mutex_t lock;
    struct gpud_bounce *idle, *used;
};

void gpud_bounces_init(struct gpud_bounces *bounces, const struct gpud_bounce_ops *ops,
                       struct gpud_async *async);
void gpud_bounces_finish(struct gpud_bounces *bounces);

/* The ops of that name for a queue with this handle. */
enum gpud_status gpud_bounce_map(struct gpud_bounces *bounces, void *queue,
                                 struct gpud_memory *memory, uint64_t offset, uint64_t size,
                                 unsigned access, int64_t deadline, void **data,
                                 struct gpud_error *error);
enum gpud_status gpud_bounce_unmap(struct gpud_bounces *bounces, void *queue,
                                   struct gpud_memory *memory, void *data,
                                   struct gpud_error *error);

/* Copies from pageable memory: the bytes are taken at once, and go up in the order of the queue.
 * A driver would do the same, but wait for a queue that stands still. Between enter and leave. */
enum gpud_status gpud_bounce_copy(struct gpud_bounces *bounces, void *queue,
                                  const struct gpud_copy *copy, struct gpud_error *error);

#endif
