/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Keeps transfers, connections and completion queues alive, and frees them with the last
 * reference. */
#include "transfer/references.h"

#include "base/fd.h"

#include <stdlib.h>

struct gpud_transfer *gpud_transfer_ref(struct gpud_transfer *transfer)
{
    atomic_fetch_add_explicit(&transfer->references, 1, memory_order_relaxed);
    return transfer;
}

void gpud_transfer_unref(struct gpud_transfer *transfer)
{
    if (atomic_fetch_sub_explicit(&transfer->references, 1, memory_order_acq_rel) != 1)
        return;
    gpud_listener_close(&transfer->listener);
    gpud_fd_close(&transfer->wake);
    gpud_fd_close(&transfer->waiting);
    gpud_fd_close(&transfer->interrupt);
    gpud_lock_destroy(&transfer->lock);
    free(transfer);
}

struct gpud_completion_queue *gpud_completion_queue_ref(struct gpud_completion_queue *queue)
{
    atomic_fetch_add_explicit(&queue->references, 1, memory_order_relaxed);
    return queue;
}

void gpud_completion_queue_unref(struct gpud_completion_queue *queue)
{
    if (!queue || atomic_fetch_sub_explicit(&queue->references, 1, memory_order_acq_rel) != 1)
        return;
    gpud_fd_close(&queue->event);
    gpud_fd_close(&queue->interrupt);
    gpud_lock_destroy(&queue->lock);
    free(queue);
}

struct gpud_connection *gpud_connection_ref(struct gpud_connection *connection)
{
    atomic_fetch_add_explicit(&connection->references, 1, memory_order_relaxed);
    return connection;
}

void gpud_connection_unref(struct gpud_connection *connection)
{
    if (atomic_fetch_sub_explicit(&connection->references, 1, memory_order_acq_rel) != 1)
        return;
    gpud_channel_unref(&connection->channel);
    gpud_completion_queue_unref(connection->queue);
    gpud_fd_close(&connection->event);
    pthread_cond_destroy(&connection->changed);
    gpud_lock_destroy(&connection->lock);
    gpud_transfer_unref(connection->transfer);
    free(connection);
}
