/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Listening and connecting. */
#include "base/fd.h"
#include "base/sized.h"
#include "transfer/completion.h"
#include "transfer/connection.h"
#include "transfer/references.h"
#include "transfer/thread.h"
#include "transfer/wait.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define AREA "transfer"

/* --- creating ------------------------------------------------------------------------------ */

static enum gpud_status resolve(const char *text, struct gpud_address *address,
                                struct gpud_error *error)
{
    enum gpud_status status = gpud_address_resolve(text, address, error);
    if (status == GPUD_OK && !address->ops->verbs)
        status = gpud_fail(error, GPUD_UNSUPPORTED,
                           "%s is an address of this host: transfers go by network cards, to "
                           "rdma://host:port",
                           address->place);
    return status;
}

static enum gpud_status listen_on(struct gpud_transfer *transfer, const char *text,
                                  struct gpud_error *error)
{
    struct gpud_address address;
    enum gpud_status status = resolve(text, &address, error);
    if (status == GPUD_OK)
        status = gpud_listener_open(&address, &transfer->access, &transfer->listener, error);
    if (status == GPUD_OK && transfer->listener->note[0])
        gpud_log_info(&transfer->context->log, AREA, "%s", transfer->listener->note);
    return status;
}

static enum gpud_status start(struct gpud_transfer *transfer,
                              const struct gpud_transfer_params *params, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    transfer->access.allow_unauthenticated = params->allow_unauthenticated;
    if (transfer->wake < 0 || transfer->waiting < 0 || transfer->interrupt < 0)
        status = gpud_fail_errno(error, "no descriptors for transfers");
    if (status == GPUD_OK)
        status = gpud_access_set_key(&transfer->access, params->psk_file, error);
    if (status == GPUD_OK)
        status = gpud_access_check(&transfer->access, true, error);
    if (status == GPUD_OK && params->address)
        status = listen_on(transfer, params->address, error);
    if (status != GPUD_OK)
        return status;
    int failed = pthread_create(&transfer->thread, NULL, gpud_transfer_run, transfer);
    if (failed)
        return gpud_fail_native(error, GPUD_NO_MEMORY, "errno", failed,
                                "cannot start the thread of transfers");
    return GPUD_OK;
}

enum gpud_status gpud_transfer_create(struct gpud_context *context,
                                      const struct gpud_transfer_params *params,
                                      struct gpud_transfer **transfer, struct gpud_error *error)
{
    struct gpud_transfer_params own = GPUD_PARAMS_INIT(own);
    enum gpud_status status = GPUD_OK;
    if (!context || !transfer)
        return gpud_fail(error, GPUD_INVALID, "no context, or no place for the transfer");
    if (params)
        status = gpud_sized_read(&own, sizeof(own), params,
                                 GPUD_END_OF(struct gpud_transfer_params, size),
                                 "gpud_transfer_params", error);
    if (status != GPUD_OK)
        return status;
    struct gpud_transfer *made = calloc(1, sizeof(*made));
    if (!made)
        return gpud_fail(error, GPUD_NO_MEMORY, "out of memory for transfers");
    atomic_init(&made->references, 1);
    made->context = context;
    made->access.kind = GPUD_ACCESS_USER;
    made->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    made->waiting = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    made->interrupt = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    gpud_lock_init(&made->lock, GPUD_RANK_TRANSFER);
    status = start(made, &own, error);
    if (status == GPUD_OK)
        *transfer = made;
    else
        gpud_transfer_unref(made);
    return status;
}

/* A GPU's queue that still has to call back needs the connection, so a connection with a stuck
 * queue is kept. */
static void await_callbacks(struct gpud_connection *connection)
{
    int64_t deadline = gpud_deadline(GPUD_SEC);
    const struct timespec nap = {.tv_nsec = GPUD_MSEC / 2};
    while (atomic_load(&connection->callbacks) > 0 && gpud_now() < deadline)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    if (atomic_load(&connection->callbacks) > 0)
        gpud_log_error(&connection->transfer->context->log, AREA,
                       "a GPU's queue does not go on: a connection that waits for it is kept");
    else
        gpud_connection_unref(connection);
}

void gpud_transfer_destroy(struct gpud_transfer **transfer)
{
    if (!transfer || !*transfer)
        return;
    struct gpud_transfer *gone = *transfer;
    *transfer = NULL;
    atomic_store(&gone->stopping, true);
    gpud_event_raise(gone->wake);
    pthread_join(gone->thread, NULL);
    gpud_listener_close(&gone->listener);
    int64_t deadline = gpud_deadline(TRANSFER_LINGER);
    gpud_lock_take(&gone->lock);
    for (uint32_t i = 0; i < gone->count; i++) {
        gpud_lock_take(&gone->connections[i]->lock);
        gpud_connection_say_bye_locked(gone->connections[i]);
        gpud_lock_release(&gone->connections[i]->lock);
    }
    gpud_lock_release(&gone->lock);
    for (;;) {
        gpud_lock_take(&gone->lock);
        struct gpud_connection *last = gone->count ? gone->connections[--gone->count] : NULL;
        gpud_lock_release(&gone->lock);
        if (!last)
            break;
        gpud_lock_take(&last->lock);
        gpud_connection_leave_locked(last, deadline);
        gpud_lock_release(&last->lock);
        await_callbacks(last);
    }
    gpud_transfer_unref(gone);
}

/* --- accepting ----------------------------------------------------------------------------- */

/* Takes the first established connection that was not accepted yet, and gives it the queue. */
static struct gpud_connection *take_newcomer(struct gpud_transfer *transfer,
                                             struct gpud_completion_queue *queue)
{
    struct gpud_connection *found = NULL;
    uint64_t ignored;
    gpud_lock_take(&transfer->lock);
    ssize_t got = read(transfer->waiting, &ignored, sizeof(ignored));
    (void)got; /* non-blocking; the count does not matter */
    for (uint32_t i = 0; i < transfer->count; i++) {
        struct gpud_connection *one = transfer->connections[i];
        gpud_lock_take(&one->lock);
        bool waits = one->accepted && !one->queue && one->phase == CONNECTION_OPEN;
        if (waits && !found) {
            one->queue = gpud_completion_queue_ref(queue);
            gpud_event_raise(one->event); /* messages of the peer may be handled now */
            found = gpud_connection_ref(one);
        } else if (waits) {
            gpud_event_raise(transfer->waiting);
        }
        gpud_lock_release(&one->lock);
    }
    gpud_lock_release(&transfer->lock);
    return found;
}

enum gpud_status gpud_transfer_accept(struct gpud_transfer *transfer,
                                      struct gpud_completion_queue *queue, int64_t timeout_ns,
                                      struct gpud_connection **connection, struct gpud_error *error)
{
    if (!transfer || !queue || !connection || timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID,
                         "no transfer, completion queue or place for the connection, or a negative "
                         "timeout");
    if (!transfer->listener)
        return gpud_fail(error, GPUD_INVALID,
                         "no peer can connect: the transfer was created without an address");
    int64_t deadline = gpud_deadline(timeout_ns);
    for (;;) {
        struct gpud_connection *found = take_newcomer(transfer, queue);
        if (found) {
            *connection = found;
            return GPUD_OK;
        }
        enum gpud_status status =
            gpud_transfer_await(transfer->waiting, transfer->interrupt, deadline);
        if (status == GPUD_TIMEOUT)
            return gpud_fail(error, status, "no peer connected in time");
        if (status != GPUD_OK)
            return gpud_fail(error, status, "interrupted");
    }
}

enum gpud_status gpud_transfer_get_fd(struct gpud_transfer *transfer, int *fd,
                                      struct gpud_error *error)
{
    (void)error;
    *fd = transfer->waiting;
    return GPUD_OK;
}

/* --- connecting ---------------------------------------------------------------------------- */

static enum gpud_status await_open(struct gpud_connection *connection, int64_t timeout_ns,
                                   struct gpud_error *error)
{
    int64_t deadline = gpud_deadline(timeout_ns);
    enum gpud_status status = GPUD_OK;
    gpud_lock_take(&connection->lock);
    while (status == GPUD_OK && connection->phase < CONNECTION_OPEN)
        status = gpud_connection_wait_locked(connection, deadline, error);
    if (status == GPUD_TIMEOUT)
        status = gpud_fail(error, status, "not connected in time");
    if (status == GPUD_OK)
        status = gpud_connection_check_locked(connection, error);
    gpud_lock_release(&connection->lock);
    return status;
}

enum gpud_status gpud_transfer_connect(struct gpud_transfer *transfer, const char *address,
                                       struct gpud_completion_queue *queue, int64_t timeout_ns,
                                       struct gpud_connection **connection,
                                       struct gpud_error *error)
{
    struct gpud_address found;
    struct gpud_channel *channel;
    struct gpud_connection *made;
    if (!transfer || !queue || !connection || timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID,
                         "no transfer, completion queue or place for the connection, or a negative "
                         "timeout");
    enum gpud_status status = resolve(address, &found, error);
    if (status == GPUD_OK)
        status = gpud_channel_connect(&found, &transfer->access, &channel, error);
    if (status == GPUD_OK)
        status = gpud_connection_create(transfer, channel, false, &made, error);
    if (status != GPUD_OK)
        return status;
    gpud_connection_ref(made); /* the caller's, besides the list's */
    if (!gpud_transfer_add(transfer, made)) {
        gpud_connection_unref(made);
        gpud_connection_unref(made);
        return gpud_fail(error, GPUD_NO_MEMORY, "there are %d connections, which are the most",
                         GPUD_CONNECTIONS_MAX);
    }
    status = await_open(made, timeout_ns, error);
    if (status != GPUD_OK) {
        gpud_connection_close(&made);
        return status;
    }
    gpud_lock_take(&made->lock);
    made->queue = gpud_completion_queue_ref(queue);
    gpud_event_raise(made->event);       /* messages of the peer may be handled now */
    if (made->phase == CONNECTION_ENDED) /* it may have ended meanwhile */
        gpud_operation_complete_locked(&made->last, made->end.status);
    gpud_lock_release(&made->lock);
    *connection = made;
    return GPUD_OK;
}

void gpud_transfer_interrupt(struct gpud_transfer *transfer, bool interrupted)
{
    atomic_store(&transfer->interrupted, interrupted);
    gpud_transfer_set_interrupt(transfer->interrupt, interrupted);
    gpud_lock_take(&transfer->lock);
    for (uint32_t i = 0; i < transfer->count; i++) {
        struct gpud_connection *one = transfer->connections[i];
        gpud_lock_take(&one->lock);
        pthread_cond_broadcast(&one->changed);
        gpud_lock_release(&one->lock);
    }
    gpud_lock_release(&transfer->lock);
}
