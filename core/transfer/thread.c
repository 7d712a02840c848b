/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The thread of a gpud_transfer: it accepts connections and handles events of their cards and of
 * GPUs' queues. Calls for operations handle events, too. */
#include "transfer/thread.h"

#include "base/fd.h"
#include "transfer/completion.h"
#include "transfer/connection.h"
#include "transfer/references.h"

#include <poll.h>
#include <unistd.h>

#define AREA "transfer"
/* How often to check peers: no descriptor reports a host that lost power. */
#define TURN_MAX GPUD_SEC
#define ACCEPTS_A_TURN 16
/* Connections not yet accepted by the application, or not yet authenticated. */
#define NEWCOMERS_MAX 64
/* How long to wait after accepting failed, as without a free descriptor. */
#define ACCEPT_PAUSE (100 * GPUD_MSEC)

/* --- the list ------------------------------------------------------------------------------ */

bool gpud_transfer_add(struct gpud_transfer *transfer, struct gpud_connection *connection)
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

static bool is_over(struct gpud_connection *connection)
{
    gpud_lock_take(&connection->lock);
    bool over = connection->phase == CONNECTION_ENDED &&
                (connection->closed || (connection->accepted && !connection->queue));
    gpud_lock_release(&connection->lock);
    return over && atomic_load(&connection->callbacks) == 0;
}

/* Drops the ended connections that the application has closed, or never had. */
static void collect(struct gpud_transfer *transfer)
{
    struct gpud_connection *gone[GPUD_CONNECTIONS_MAX];
    uint32_t gone_count = 0, kept = 0;
    gpud_lock_take(&transfer->lock);
    for (uint32_t i = 0; i < transfer->count; i++) {
        struct gpud_connection *connection = transfer->connections[i];
        if (is_over(connection))
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
        if (status == GPUD_OK && !gpud_transfer_add(transfer, connection)) {
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

static void drain(int fd)
{
    uint64_t ignored;
    ssize_t got = read(fd, &ignored, sizeof(ignored));
    (void)got; /* non-blocking; the count does not matter */
}

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

static void poll_connection(struct gpud_connection *connection, struct pollfd fds[2])
{
    gpud_lock_take(&connection->lock);
    bool lives = connection->phase != CONNECTION_ENDED;
    gpud_lock_release(&connection->lock);
    fds[0] = (struct pollfd){.fd = lives ? connection->channel->fd : -1, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = connection->event, .events = POLLIN};
}

/* --- the thread ---------------------------------------------------------------------------- */

static uint32_t take_list(struct gpud_transfer *transfer,
                          struct gpud_connection *list[GPUD_CONNECTIONS_MAX])
{
    gpud_lock_take(&transfer->lock);
    uint32_t count = transfer->count;
    for (uint32_t i = 0; i < count; i++)
        list[i] = gpud_connection_ref(transfer->connections[i]);
    gpud_lock_release(&transfer->lock);
    return count;
}

void *gpud_transfer_run(void *arg)
{
    struct gpud_transfer *transfer = arg;
    struct gpud_connection *list[GPUD_CONNECTIONS_MAX];
    struct pollfd fds[2 + 2 * GPUD_CONNECTIONS_MAX];
    int64_t turn = gpud_now();
    while (!atomic_load(&transfer->stopping)) {
        int64_t now = gpud_now();
        bool is_open = transfer->listener && now >= transfer->accept_pause &&
                       count_newcomers(transfer) < NEWCOMERS_MAX;
        uint32_t count = take_list(transfer, list);
        fds[0] = (struct pollfd){.fd = transfer->wake, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = is_open ? transfer->listener->fd : -1, .events = POLLIN};
        for (uint32_t i = 0; i < count; i++)
            poll_connection(list[i], fds + 2 + 2 * i);
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
