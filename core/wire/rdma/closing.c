/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The end of a connection, behind the last words: disconnecting takes back what the card has not
 * sent yet, and whoever hangs up behind a REFUSE or a BYE wants it heard. Nobody waits for that: a
 * thread looks after all connections that end, as long as there are any. A process that exits right
 * away gives it the time. */
#include "base/clock.h"
#include "base/lock.h"
#include "wire/rdma/internal.h"

#include <unistd.h>

#define LOOK GPUD_MSEC

static struct gpud_lock closing_lock =
    GPUD_LOCK_INITIALIZER(GPUD_RANK_RDMA_CLOSING); /* for all below */
static struct rdma_channel *closing;
static pthread_t thread;
static bool is_running, is_joinable;
static pid_t started_by; /* a child has these, and no thread */

bool gpud_rdma_has_arrived_locked(struct rdma_channel *channel)
{
    return !channel->rdma || gpud_rdma_has_failed(channel->rdma, NULL) ||
           gpud_rdma_is_done(channel->rdma, gpud_rdma_posted(channel->rdma));
}

/* Also where the other side has ended it meanwhile. */
static bool is_over(struct rdma_channel *channel)
{
    gpud_lock_take(&channel->lock);
    gpud_rdma_drive_locked(channel);
    gpud_lock_release(&channel->lock);
    return gpud_rdma_has_failed(channel->rdma, NULL) ||
           gpud_rdma_is_done(channel->rdma, channel->last_posted) || gpud_now() >= channel->linger;
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

static struct rdma_channel *take_over(void)
{
    struct rdma_channel *over = NULL, **link = &closing;
    while (*link) {
        struct rdma_channel *one = *link;
        if (!is_over(one)) {
            link = &one->next_closing;
            continue;
        }
        *link = one->next_closing;
        one->next_closing = over;
        over = one;
    }
    return over;
}

static void nap(void)
{
    clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = LOOK}, NULL);
}

static void *run(void *arg)
{
    gpud_lock_take(&closing_lock);
    while (closing) {
        struct rdma_channel *over = take_over();
        gpud_lock_release(&closing_lock);
        if (!over)
            nap();
        while (over) {
            struct rdma_channel *one = over;
            over = one->next_closing;
            finish(one); /* which may add another */
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
        pthread_join(thread, NULL); /* it has nothing left to do but to return */
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
    while (!is_over(channel)) /* there is no thread to be had */
        nap();
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
    gpud_lock_release(&closing_lock);
    if (join) /* RDMA_LINGER at most */
        pthread_join(thread, NULL);
}
