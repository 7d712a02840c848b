/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The completion queue: records that belong to connections, and return to them once read. */
#include "transfer/queue.h"

#include "base/fd.h"
#include "base/sized.h"
#include "transfer/references.h"
#include "transfer/wait.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum gpud_status gpud_completion_queue_create(struct gpud_context *context,
                                              struct gpud_completion_queue **queue,
                                              struct gpud_error *error)
{
    if (!context || !queue)
        return gpud_fail(error, GPUD_INVALID, "no context, or no place for the completion queue");
    struct gpud_completion_queue *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for a completion queue");
    made->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    made->interrupt = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->event < 0 || made->interrupt < 0) {
        enum gpud_status status = gpud_fail_errno(error, "no descriptors for a completion queue");
        gpud_fd_close(&made->event);
        gpud_fd_close(&made->interrupt);
        free(made);
        return status;
    }
    atomic_init(&made->references, 1);
    gpud_lock_init(&made->lock, GPUD_RANK_TRANSFER_COMPLETIONS);
    *queue = made;
    return GPUD_OK;
}

bool gpud_completion_queue_push(struct gpud_completion_queue *queue, struct operation *operation)
{
    gpud_lock_take(&queue->lock);
    bool wanted = !queue->abandoned;
    if (wanted) {
        bool was_empty = !queue->list.first;
        gpud_connection_ref(operation->connection);
        gpud_operation_append(&queue->list, operation);
        if (was_empty)
            gpud_event_raise(queue->event);
    }
    gpud_lock_release(&queue->lock);
    return wanted;
}

static struct operation *take(struct gpud_completion_queue *queue)
{
    uint64_t ignored;
    gpud_lock_take(&queue->lock);
    struct operation *taken = gpud_operation_take(&queue->list);
    if (taken && !queue->list.first) {
        ssize_t got = read(queue->event, &ignored, sizeof(ignored));
        (void)got; /* non-blocking; the count does not matter */
    }
    gpud_lock_release(&queue->lock);
    return taken;
}

/* The connection can use the record again, and can report that it has room. */
static void give_back(struct operation *operation)
{
    struct gpud_connection *connection = operation->connection;
    gpud_lock_take(&connection->lock);
    operation->busy = false;
    if (operation->home)
        gpud_operation_append(operation->home, operation);
    if (connection->stalled || connection->wants_operation || connection->wants_receive ||
        connection->wants_target)
        gpud_event_raise(connection->event);
    pthread_cond_broadcast(&connection->changed);
    gpud_lock_release(&connection->lock);
    gpud_connection_unref(connection);
}

void gpud_completion_queue_destroy(struct gpud_completion_queue **queue)
{
    if (!queue || !*queue)
        return;
    struct gpud_completion_queue *gone = *queue;
    struct operation *operation;
    *queue = NULL;
    gpud_lock_take(&gone->lock);
    gone->abandoned = true;
    gpud_lock_release(&gone->lock);
    while ((operation = take(gone)))
        give_back(operation);
    gpud_completion_queue_unref(gone);
}

enum gpud_status gpud_completion_queue_wait(struct gpud_completion_queue *queue, int64_t timeout_ns,
                                            struct gpud_completion *list, size_t max, size_t *count,
                                            struct gpud_error *error)
{
    if (!queue || !list || !count || max == 0 || timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID,
                         "no completion queue, no room for a completion, or a negative timeout");
    int64_t deadline = gpud_deadline(timeout_ns);
    struct operation *operation;
    for (;;) {
        size_t taken = 0;
        if (atomic_load(&queue->interrupted))
            return gpud_fail(error, GPUD_AGAIN, "interrupted");
        while (taken < max && (operation = take(queue))) {
            gpud_sized_entry(list, max, taken++, &operation->completion,
                             sizeof(operation->completion));
            give_back(operation);
        }
        if (taken) {
            *count = taken;
            return GPUD_OK;
        }
        enum gpud_status status = gpud_transfer_await(queue->event, queue->interrupt, deadline);
        if (status == GPUD_TIMEOUT)
            return gpud_fail(error, status, "nothing was completed in time");
        if (status != GPUD_OK)
            return gpud_fail(error, status, "interrupted");
    }
}

enum gpud_status gpud_completion_queue_get_fd(struct gpud_completion_queue *queue, int *fd,
                                              struct gpud_error *error)
{
    (void)error;
    *fd = queue->event;
    return GPUD_OK;
}

void gpud_completion_queue_interrupt(struct gpud_completion_queue *queue, bool interrupted)
{
    atomic_store(&queue->interrupted, interrupted);
    gpud_transfer_set_interrupt(queue->interrupt, interrupted);
}
