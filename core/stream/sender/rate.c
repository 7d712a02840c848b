/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How fast a link's copies are. What the vendors say of two cards says nothing of the bridges and
 * sockets between them, so it is tried, before the first frame. */
#include "stream/sender/sender.h"

/* A smaller frame's copy is over before it has well begun. */
#define SIZE_MIN (UINT64_C(1) << 20)
#define COPIES 4
#define PATIENCE GPUD_SEC

/* The nanoseconds that it takes; 0: it cannot be done, or not in time. */
static int64_t time_copies(struct gpud_queue *queue, const struct gpud_copy *copy, unsigned count)
{
    int64_t start = gpud_now();
    for (unsigned i = 0; i < count; i++)
        if (gpud_queue_copy(queue, copy, NULL) != GPUD_OK)
            return 0;
    if (gpud_queue_flush(queue, NULL) != GPUD_OK ||
        gpud_queue_finish(queue, gpud_deadline(PATIENCE), NULL) != GPUD_OK)
        return 0;
    return gpud_now() - start;
}

double gpud_transport_measure(struct gpud_transport *transport, struct gpud_queue *queue,
                              uint64_t size)
{
    struct gpud_copy copy = {.row_bytes = size, .rows = 1};
    if (size < SIZE_MIN || gpud_memory_alloc(queue->device, size, &copy.from, NULL) != GPUD_OK)
        return 0;
    copy.to = gpud_transport_slot(transport, 0, &copy.to_offset);
    if (transport->queues.copy)
        queue = transport->queues.copy;
    int64_t time = 0;
    if (time_copies(queue, &copy, 1) > 0) /* the first sets things up */
        time = time_copies(queue, &copy, COPIES);
    gpud_memory_unref(&copy.from);
    return time > 0 ? (double)size * COPIES * 1e9 / (double)time : 0;
}
