/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The carrier of ring pages between hosts: publish.c writes published ranges, and wake.c wakes a
 * thread that sleeps on a page. */
#include "base/clock.h"
#include "base/fd.h"
#include "wire/rdma/connect.h"
#include "wire/rdma/publish.h"
#include "wire/rdma/wake.h"

#include <poll.h>
#include <unistd.h>

#define BEHIND_LOOK GPUD_MSEC        /* poll for room in the queue, for which no event may come */
#define FAILED_LOOK (20 * GPUD_MSEC) /* after a failure, wake to let the caller notice it */

static void publish(const struct gpud_page_end *end, size_t offset, size_t size)
{
    gpud_rdma_publish((struct rdma_remote *)end->remote, offset, size);
}

/* Called at least once a frame on either side, so it also reposts receives and wakes waiters. */
static bool notify(struct gpud_page_end *end)
{
    struct rdma_remote *remote = (struct rdma_remote *)end->remote;
    bool published = gpud_rdma_publish_notice(remote);
    gpud_rdma_look_around(remote->channel);
    return published;
}

static bool publish_and_notify(struct gpud_page_end *end, size_t offset, size_t size)
{
    struct rdma_remote *remote = (struct rdma_remote *)end->remote;
    bool published = gpud_rdma_publish_with_notice(remote, offset, size);
    gpud_rdma_look_around(remote->channel);
    return published;
}

/* --- sleeping ------------------------------------------------------------------------------ */

static void drain_event(int fd)
{
    uint64_t ignored;
    ssize_t got = read(fd, &ignored, sizeof(ignored));
    (void)got; /* non-blocking; the count does not matter */
}

static void wait_for_events(struct rdma_remote *remote, int64_t deadline)
{
    struct rdma_channel *channel = remote->channel;
    bool has_failed = gpud_rdma_has_failed(remote->rdma, NULL);
    int64_t look = gpud_now() + (has_failed ? FAILED_LOOK : BEHIND_LOOK);
    if ((has_failed || atomic_load(&channel->behind) > 0) && look < deadline)
        deadline = look;
    /* The descriptors of a failed connection stay readable, so they are not polled. */
    struct pollfd fds[] = {
        {.fd = remote->event, .events = POLLIN},
        {.fd = has_failed ? -1 : gpud_rdma_get_fd(remote->rdma), .events = POLLIN},
        {.fd = has_failed ? -1 : channel->events->fd, .events = POLLIN},
    };
    struct timespec left = gpud_time_left(deadline);
    ppoll(fds, sizeof(fds) / sizeof(fds[0]), &left, NULL);
    if (fds[2].revents) {
        gpud_lock_take(&channel->lock);
        gpud_rdma_drive_locked(channel);
        gpud_lock_release(&channel->lock);
    }
    gpud_rdma_look_around(channel);
}

static void sleep_on(struct gpud_page_end *end, bool (*ready)(void *arg), void *arg,
                     int64_t deadline)
{
    struct rdma_remote *remote = (struct rdma_remote *)end->remote;
    struct rdma_channel *channel = remote->channel;
    unsigned notices = atomic_load(&channel->notices);
    drain_event(remote->event);
    atomic_store(&remote->asleep, true);
    atomic_fetch_add(&channel->sleepers, 1);
    gpud_rdma_arm_to_sleep(channel);
    if (!ready(arg) && notices == atomic_load(&channel->notices))
        wait_for_events(remote, deadline);
    atomic_fetch_sub(&channel->sleepers, 1);
    atomic_store(&remote->asleep, false);
}

static void rouse(struct gpud_page_end *end)
{
    const struct rdma_remote *remote = (const struct rdma_remote *)end->remote;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&remote->asleep))
        gpud_event_raise(remote->event);
}

static void poll_begin(struct gpud_page_end *end)
{
    const struct rdma_remote *remote = (const struct rdma_remote *)end->remote;
    gpud_rdma_want_kick(remote->channel);
}

const struct gpud_page_carrier gpud_rdma_carrier = {
    .name = "a network card",
    .ask_after = GPUD_RDMA_SILENCE,
    .publish = publish,
    .notify = notify,
    .publish_and_notify = publish_and_notify,
    .sleep = sleep_on,
    .rouse = rouse,
    .poll_begin = poll_begin,
};
