/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The public object, and its thread. */
#include "transfer/transfer.h"

#include "base/base.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* === wait ==================================================================================== */
/* How calls sleep, and what wakes them. */

/* Waits for the descriptor, asleep. GPUD_TIMEOUT. GPUD_AGAIN: interrupted. */
static enum gpud_status await_event(int fd, int interrupt, int64_t deadline)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = interrupt, .events = POLLIN}};
    for (;;) {
        struct timespec left = gpud_time_left(deadline);
        int ready = ppoll(fds, 2, &left, NULL);
        if (ready > 0)
            return fds[1].revents ? GPUD_AGAIN : GPUD_OK;
        if (gpud_now() >= deadline) /* else a signal interrupted it */
            return GPUD_TIMEOUT;
    }
}

static void drain(int fd)
{
    uint64_t ignored;
    ssize_t got = read(fd, &ignored, sizeof(ignored));
    (void)got; /* non-blocking; the count does not matter */
}

static void set_interrupt(int interrupt, bool interrupted)
{
    if (interrupted)
        gpud_event_raise(interrupt);
    else
        drain(interrupt);
}

/* === thread ================================================================================== */
/* The thread of a gpud_transfer: it accepts connections and handles events of their cards and of
 * GPUs' queues. Calls for operations handle events, too. */

#define AREA "transfer"

/* How often to check peers: no descriptor reports a host that lost power. */
#define TURN_MAX GPUD_SEC
#define ACCEPTS_A_TURN 16

/* Connections not yet accepted by the application, or not yet authenticated. */
#define NEWCOMERS_MAX 64

/* How long to wait after accepting failed, as without a free descriptor. */
#define ACCEPT_PAUSE (100 * GPUD_MSEC)

/* --- the list ------------------------------------------------------------------------------ */

/* Adds to the list, which takes over the caller's reference. False: the list is full. */
static bool transfer_add(struct gpud_transfer *transfer, struct gpud_connection *connection)
{
    gpud_lock_take(&transfer->lock);
    bool has_place = transfer->count < GPUD_CONNECTIONS_MAX;
    if (has_place)
        transfer->connections[transfer->count++] = connection;
    gpud_lock_release(&transfer->lock);
    if (has_place)
        gpud_event_raise(transfer->wake);
    return has_place;
}

/* Drops the ended connections that the application has closed, or never had. */
static void collect(struct gpud_transfer *transfer)
{
    struct gpud_connection *gone[GPUD_CONNECTIONS_MAX];
    uint32_t gone_count = 0, kept = 0;
    gpud_lock_take(&transfer->lock);
    for (uint32_t i = 0; i < transfer->count; i++) {
        struct gpud_connection *connection = transfer->connections[i];
        gpud_lock_take(&connection->lock);
        bool over = connection->phase == CONNECTION_ENDED &&
                    (connection->closed || (connection->accepted && !connection->queue));
        gpud_lock_release(&connection->lock);
        if (over && atomic_load(&connection->callbacks) == 0)
            gone[gone_count++] = connection;
        else
            transfer->connections[kept++] = connection;
    }
    transfer->count = kept;
    gpud_lock_release(&transfer->lock);
    while (gone_count > 0)
        gpud_connection_unref(gone[--gone_count]);
}

/* --- accepting ----------------------------------------------------------------------------- */

static uint32_t count_newcomers(struct gpud_transfer *transfer)
{
    uint32_t count = 0;
    gpud_lock_take(&transfer->lock);
    for (uint32_t i = 0; i < transfer->count; i++) {
        struct gpud_connection *connection = transfer->connections[i];
        gpud_lock_take(&connection->lock);
        count += connection->accepted && !connection->queue;
        gpud_lock_release(&connection->lock);
    }
    gpud_lock_release(&transfer->lock);
    return count;
}

static void accept_newcomers(struct gpud_transfer *transfer)
{
    const struct gpud_log *log = &transfer->context->log;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        struct gpud_error error = {.reason = ""};
        struct gpud_connection *connection;
        struct gpud_channel *channel;
        struct gpud_peer peer;
        enum gpud_status status = gpud_listener_accept(transfer->listener, &channel, &peer, &error);
        if (status == GPUD_AGAIN)
            return;
        if (status == GPUD_OK)
            status = gpud_connection_create(transfer, channel, true, &connection, &error);
        if (status == GPUD_OK && !transfer_add(transfer, connection)) {
            gpud_log_warning(log, AREA, "%s turned away: there are %d connections, the most",
                             peer.host, GPUD_CONNECTIONS_MAX);
            gpud_connection_unref(connection);
            return;
        }
        if (status == GPUD_NO_ACCESS) {
            gpud_log_warning(log, AREA, "%s turned away: %s", peer.host, error.reason);
        } else if (status != GPUD_OK) {
            if (!transfer->accept_pause)
                gpud_log_error(log, AREA, "%s", error.reason); /* logged once */
            transfer->accept_pause = gpud_deadline(ACCEPT_PAUSE);
            return;
        } else {
            transfer->accept_pause = 0;
        }
    }
}

/* --- looking after connections ------------------------------------------------------------- */

static bool stands(const struct gpud_connection *connection)
{
    return connection->phase == CONNECTION_GREETING || connection->phase == CONNECTION_OPEN;
}

static void look_after(struct gpud_connection *connection)
{
    drain(connection->event);
    gpud_lock_take(&connection->lock);
    if (connection->phase == CONNECTION_CONNECTING)
        gpud_connection_advance_locked(connection);
    if (stands(connection))
        connection->channel->ops->verbs->arm(connection->channel);
    gpud_connection_progress_locked(connection);
    gpud_lock_release(&connection->lock);
}

static void check_on(struct gpud_connection *connection)
{
    gpud_lock_take(&connection->lock);
    if (stands(connection)) {
        gpud_channel_is_dead(connection->channel); /* checks the peer, and fails if it is dead */
        gpud_connection_progress_locked(connection);
    }
    if (connection->phase == CONNECTION_GREETING && gpud_now() >= connection->deadline)
        gpud_connection_end_locked(connection, GPUD_PEER,
                                   "the peer did not greet: it transfers nothing, or is stopped");
    gpud_lock_release(&connection->lock);
}

/* --- the thread ---------------------------------------------------------------------------- */

/* The pthread function of a gpud_transfer's thread, which looks after its connections. */
static void *transfer_run(void *arg)
{
    struct gpud_transfer *transfer = arg;
    struct gpud_connection *list[GPUD_CONNECTIONS_MAX];
    struct pollfd fds[2 + 2 * GPUD_CONNECTIONS_MAX];
    int64_t turn = gpud_now();
    while (!atomic_load(&transfer->stopping)) {
        int64_t now = gpud_now();
        bool is_open = transfer->listener && now >= transfer->accept_pause &&
                       count_newcomers(transfer) < NEWCOMERS_MAX;
        gpud_lock_take(&transfer->lock);
        uint32_t count = transfer->count;
        for (uint32_t i = 0; i < count; i++)
            list[i] = gpud_connection_ref(transfer->connections[i]);
        gpud_lock_release(&transfer->lock);
        fds[0] = (struct pollfd){.fd = transfer->wake, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = is_open ? transfer->listener->fd : -1, .events = POLLIN};
        for (uint32_t i = 0; i < count; i++) {
            gpud_lock_take(&list[i]->lock);
            bool lives = list[i]->phase != CONNECTION_ENDED;
            gpud_lock_release(&list[i]->lock);
            fds[2 + 2 * i] =
                (struct pollfd){.fd = lives ? list[i]->channel->fd : -1, .events = POLLIN};
            fds[3 + 2 * i] = (struct pollfd){.fd = list[i]->event, .events = POLLIN};
        }
        int64_t until = turn + TURN_MAX;
        if (transfer->accept_pause > now && transfer->accept_pause < until)
            until = transfer->accept_pause;
        struct timespec left = gpud_time_left(until);
        bool is_idle = count == 0 && transfer->accept_pause <= now;
        ppoll(fds, 2 + 2 * count, is_idle ? NULL : &left, NULL);
        drain(transfer->wake);
        if (fds[1].revents)
            accept_newcomers(transfer);
        bool is_turn = gpud_now() >= turn + TURN_MAX;
        for (uint32_t i = 0; i < count; i++) {
            if (fds[2 + 2 * i].revents || fds[3 + 2 * i].revents)
                look_after(list[i]);
            if (is_turn)
                check_on(list[i]);
            gpud_connection_unref(list[i]);
        }
        if (is_turn)
            turn = gpud_now();
        collect(transfer);
    }
    return NULL;
}

/* === endpoint ================================================================================ */
/* Listening and connecting. */

/* --- creating ------------------------------------------------------------------------------ */

static enum gpud_status endpoint_resolve(const char *text, struct gpud_address *address,
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
    if (status == GPUD_OK)
        status = gpud_openssl_open(error); /* for the seals of keys, between any ends */
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
    made->access.allow_unauthenticated = own.allow_unauthenticated;
    if (made->wake < 0 || made->waiting < 0 || made->interrupt < 0)
        status = gpud_fail_errno(error, "no descriptors for transfers");
    if (status == GPUD_OK)
        status = gpud_access_set_key(&made->access, own.psk_file, error);
    if (status == GPUD_OK)
        status = gpud_access_check(&made->access, true, error);
    if (status == GPUD_OK && own.address) {
        struct gpud_address address;
        status = endpoint_resolve(own.address, &address, error);
        if (status == GPUD_OK)
            status = gpud_listener_open(&address, &made->access, &made->listener, error);
        if (status == GPUD_OK && made->listener->note[0])
            gpud_log_info(&context->log, AREA, "%s", made->listener->note);
    }
    int failed = status == GPUD_OK ? pthread_create(&made->thread, NULL, transfer_run, made) : 0;
    if (failed)
        status = gpud_fail_native(error, GPUD_NO_MEMORY, "errno", failed,
                                  "cannot start the thread of transfers");
    if (status == GPUD_OK)
        *transfer = made;
    else
        gpud_transfer_unref(made);
    return status;
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
        /* A GPU's queue that still has to call back needs the connection, so a connection with a
         * stuck queue is kept. */
        const struct timespec nap = {.tv_nsec = GPUD_MSEC / 2};
        int64_t until = gpud_deadline(GPUD_SEC);
        while (atomic_load(&last->callbacks) > 0 && gpud_now() < until)
            clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
        if (atomic_load(&last->callbacks) > 0)
            gpud_log_error(&gone->context->log, AREA,
                           "a GPU's queue does not go on: a connection that waits for it is kept");
        else
            gpud_connection_unref(last);
    }
    gpud_transfer_unref(gone);
}

/* --- accepting ----------------------------------------------------------------------------- */

/* Takes the first established connection that was not accepted yet, and gives it the queue. */
static struct gpud_connection *take_newcomer(struct gpud_transfer *transfer,
                                             struct gpud_completion_queue *queue)
{
    struct gpud_connection *found = NULL;
    gpud_lock_take(&transfer->lock);
    drain(transfer->waiting);
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
        enum gpud_status status = await_event(transfer->waiting, transfer->interrupt, deadline);
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
    enum gpud_status status = endpoint_resolve(address, &found, error);
    if (status == GPUD_OK)
        status = gpud_channel_connect(&found, &transfer->access, &channel, error);
    if (status == GPUD_OK)
        status = gpud_connection_create(transfer, channel, false, &made, error);
    if (status != GPUD_OK)
        return status;
    gpud_connection_ref(made); /* the caller's, besides the list's */
    if (!transfer_add(transfer, made)) {
        gpud_connection_unref(made);
        gpud_connection_unref(made);
        return gpud_fail(error, GPUD_NO_MEMORY, "there are %d connections, which are the most",
                         GPUD_CONNECTIONS_MAX);
    }
    int64_t deadline = gpud_deadline(timeout_ns);
    gpud_lock_take(&made->lock);
    while (status == GPUD_OK && made->phase < CONNECTION_OPEN)
        status = gpud_connection_wait_locked(made, deadline, error);
    if (status == GPUD_TIMEOUT)
        status = gpud_fail(error, status, "not connected in time");
    if (status == GPUD_OK)
        status = gpud_connection_check_locked(made, error);
    gpud_lock_release(&made->lock);
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
    set_interrupt(transfer->interrupt, interrupted);
    gpud_lock_take(&transfer->lock);
    for (uint32_t i = 0; i < transfer->count; i++) {
        struct gpud_connection *one = transfer->connections[i];
        gpud_lock_take(&one->lock);
        pthread_cond_broadcast(&one->changed);
        gpud_lock_release(&one->lock);
    }
    gpud_lock_release(&transfer->lock);
}

/* === queue =================================================================================== */
/* The completion queue: records that belong to connections, and return to them once read. */

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

static struct operation *queue_take(struct gpud_completion_queue *queue)
{
    gpud_lock_take(&queue->lock);
    struct operation *taken = gpud_operation_take(&queue->list);
    if (taken && !queue->list.first)
        drain(queue->event);
    gpud_lock_release(&queue->lock);
    return taken;
}

/* The connection can use the record again, and can report that it has room. */
static void queue_give_back(struct operation *operation)
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
    while ((operation = queue_take(gone)))
        queue_give_back(operation);
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
        while (taken < max && (operation = queue_take(queue))) {
            gpud_sized_entry(list, max, taken++, &operation->completion,
                             sizeof(operation->completion));
            queue_give_back(operation);
        }
        if (taken) {
            *count = taken;
            return GPUD_OK;
        }
        enum gpud_status status = await_event(queue->event, queue->interrupt, deadline);
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
    set_interrupt(queue->interrupt, interrupted);
}
