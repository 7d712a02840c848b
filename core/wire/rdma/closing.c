/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The end of a connection, behind the last words: disconnecting takes back what the card has not
 * sent yet, and whoever hangs up behind a REFUSE or a BYE wants it heard. Nobody waits for that: a
 * thread looks after all connections that end. A process that exits right away gives it the time.
 */
#include "base/clock.h"
#include "wire/rdma/internal.h"

#include <unistd.h>

#define LOOK GPUD_MSEC

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct gpud_worker worker;
static pid_t started_by; /* a child has the record, and no thread */

static void init_worker(void)
{
    gpud_worker_init(&worker);
    if (gpud_worker_start(&worker, NULL) == GPUD_OK)
        started_by = getpid();
}

static bool has_worker(void)
{
    pthread_once(&once, init_worker);
    return started_by == getpid();
}

__attribute__((destructor)) static void finish_worker(void)
{
    if (started_by != getpid())
        return;
    int64_t deadline = gpud_deadline(RDMA_LINGER);
    while (!gpud_worker_is_idle(&worker) && gpud_now() < deadline)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = LOOK}, NULL);
    started_by = 0;
    gpud_worker_finish(&worker);
}

bool gpud_rdma_has_arrived_locked(struct rdma_channel *channel)
{
    return !channel->rdma || gpud_rdma_has_failed(channel->rdma, NULL) ||
           gpud_rdma_is_done(channel->rdma, gpud_rdma_posted(channel->rdma));
}

static void begin(struct rdma_channel *channel)
{
    channel->last_posted = gpud_rdma_posted(channel->rdma);
    channel->linger = gpud_deadline(RDMA_LINGER);
}

static bool is_over(const struct rdma_channel *channel)
{
    return gpud_rdma_has_failed(channel->rdma, NULL) ||
           gpud_rdma_is_done(channel->rdma, channel->last_posted) || gpud_now() >= channel->linger;
}

/* Where there is no thread. */
static void wait_here(const struct rdma_channel *channel)
{
    while (!is_over(channel))
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = LOOK}, NULL);
}

static int64_t disconnect(void *arg)
{
    struct rdma_channel *channel = arg;
    struct gpud_channel *base = &channel->base;
    if (!is_over(channel))
        return LOOK;
    pthread_mutex_lock(&channel->lock);
    gpud_rdma_disconnect_locked(channel, "this side hung up");
    pthread_mutex_unlock(&channel->lock);
    gpud_channel_unref(&base);
    return -1;
}

void gpud_rdma_disconnect_later_locked(struct rdma_channel *channel)
{
    begin(channel);
    if (has_worker()) {
        gpud_channel_ref(&channel->base);
        gpud_worker_add(&worker, &channel->closing, disconnect, channel);
        return;
    }
    wait_here(channel);
    gpud_rdma_disconnect_locked(channel, "this side hung up");
}

static int64_t destroy(void *arg)
{
    struct rdma_channel *channel = arg;
    if (!is_over(channel))
        return LOOK;
    gpud_rdma_channel_destroy(channel);
    return -1;
}

void gpud_rdma_destroy_later(struct rdma_channel *channel)
{
    begin(channel);
    if (has_worker()) {
        gpud_worker_add(&worker, &channel->closing, destroy, channel);
        return;
    }
    wait_here(channel);
    gpud_rdma_channel_destroy(channel);
}
