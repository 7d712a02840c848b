/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Lingering: disconnecting discards what the card has not sent yet, and a side that hangs up after
 * a REFUSE or a BYE wants it delivered. One thread handles all connections that are ending, while
 * there are any; a process that exits waits a second for it.
 *
 * Destroying an id makes the kernel send an rdma_cm message. With soft-RoCE, such a message without
 * a route permanently stops the queue pair that the whole host uses for them: no program can
 * connect by that card any more. So an id is kept while its route is missing. */
#include "wire/rdma/closing.h"

#include "base/clock.h"
#include "wire/rdma/connect.h"
#include "wire/rdma/ending.h"
#include "wire/rdma/lifetime.h"

#include <unistd.h>

#define LOOK GPUD_MSEC
#define ROUTE_LOOK (50 * GPUD_MSEC)
/* When to give up on a route that does not come back, as after a change of addresses. */
#define ROUTE_PATIENCE (600 * GPUD_SEC)

static struct gpud_lock closing_lock =
    GPUD_LOCK_INITIALIZER(GPUD_RANK_RDMA_CLOSING); /* for the variables below */
static struct rdma_channel *closing;
static pthread_t thread;
static bool is_running, is_joinable, is_exiting;
static pid_t started_by; /* a child of fork() has these variables, but no thread */

/* Also true if the other side has ended it meanwhile. */
static bool is_over(struct rdma_channel *channel)
{
    gpud_lock_take(&channel->lock);
    gpud_rdma_drive_locked(channel);
    gpud_lock_release(&channel->lock);
    return gpud_rdma_has_failed(channel->rdma, NULL) ||
           gpud_rdma_is_done(channel->rdma, channel->last_posted) || gpud_now() >= channel->linger;
}

/* Whether its id can be destroyed now. */
static bool may_end(struct rdma_channel *channel)
{
    gpud_lock_take(&channel->lock);
    bool may = is_exiting || gpud_now() >= channel->linger + ROUTE_PATIENCE ||
               gpud_rdma_has_route_locked(channel);
    gpud_lock_release(&channel->lock);
    return may;
}

static void finish(struct rdma_channel *channel)
{
    struct gpud_channel *base = &channel->base;
    if (atomic_load(&base->references) == 0) {
        gpud_rdma_channel_destroy(channel);
        return;
    }
    gpud_lock_take(&channel->lock);
    gpud_rdma_disconnect_locked(channel, "this side hung up");
    gpud_lock_release(&channel->lock);
    gpud_channel_unref(&base);
}

/* Unlinks the connections that can be finished. *pause: how long the others may wait. */
static struct rdma_channel *take_over(int64_t *pause)
{
    struct rdma_channel *over = NULL, **link = &closing;
    *pause = ROUTE_LOOK;
    while (*link) {
        struct rdma_channel *one = *link;
        bool has_ended = is_over(one);
        if (!has_ended)
            *pause = LOOK;
        if (!has_ended || !may_end(one)) {
            link = &one->next_closing;
            continue;
        }
        *link = one->next_closing;
        one->next_closing = over;
        over = one;
    }
    return over;
}

static void nap(int64_t pause)
{
    clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = pause}, NULL);
}

static void *run(void *arg)
{
    gpud_lock_take(&closing_lock);
    while (closing) {
        int64_t pause;
        struct rdma_channel *over = take_over(&pause);
        gpud_lock_release(&closing_lock);
        if (!over)
            nap(pause);
        while (over) {
            struct rdma_channel *one = over;
            over = one->next_closing;
            finish(one); /* may add another */
        }
        gpud_lock_take(&closing_lock);
    }
    is_running = false;
    gpud_lock_release(&closing_lock);
    return NULL;
}

static bool start(void)
{
    if (is_running && started_by == getpid())
        return true;
    if (is_joinable && started_by == getpid())
        pthread_join(thread, NULL); /* it is already returning */
    is_joinable = is_running = pthread_create(&thread, NULL, run, NULL) == 0;
    started_by = getpid();
    return is_running;
}

static void add(struct rdma_channel *channel)
{
    channel->last_posted = gpud_rdma_posted(channel->rdma);
    channel->linger = gpud_deadline(RDMA_LINGER);
    gpud_lock_take(&closing_lock);
    if (started_by != getpid())
        closing = NULL; /* a parent's */
    channel->next_closing = closing;
    closing = channel;
    bool started = start();
    if (!started)
        closing = channel->next_closing;
    gpud_lock_release(&closing_lock);
    if (started)
        return;
    while (!is_over(channel)) /* without a thread, the caller waits */
        nap(LOOK);
    finish(channel);
}

void gpud_rdma_disconnect_later(struct rdma_channel *channel)
{
    gpud_channel_ref(&channel->base);
    add(channel);
}

void gpud_rdma_destroy_later(struct rdma_channel *channel)
{
    add(channel);
}

__attribute__((destructor)) static void await_thread(void)
{
    gpud_lock_take(&closing_lock);
    bool join = is_joinable && started_by == getpid();
    is_exiting = true;
    gpud_lock_release(&closing_lock);
    if (join) /* RDMA_LINGER at most */
        pthread_join(thread, NULL);
}
