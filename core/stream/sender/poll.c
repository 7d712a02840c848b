/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A descriptor for who submits in a loop of their own, armed when a call found no slot or no
 * credit. Receivers then say over their channels that they gave something back, which the
 * listener's thread reads. All under the lock. */
#include "base/fd.h"
#include "stream/sender/sender.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* A device tells nobody when it has read a frame. */
#define DEVICE_LOOK (100 * GPUD_USEC)

static enum gpud_status make(struct gpud_sender_poll *poll, struct gpud_error *error)
{
    struct gpud_sender_poll made = {
        .fd = epoll_create1(EPOLL_CLOEXEC),
        .event = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK), /* nothing has failed yet */
        .timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
    };
    struct epoll_event readable = {.events = EPOLLIN};
    if (made.fd >= 0 && made.event >= 0 && made.timer >= 0 &&
        epoll_ctl(made.fd, EPOLL_CTL_ADD, made.event, &readable) == 0 &&
        epoll_ctl(made.fd, EPOLL_CTL_ADD, made.timer, &readable) == 0) {
        *poll = made;
        return GPUD_OK;
    }
    enum gpud_status status = gpud_fail_errno(error, "no descriptor to poll");
    gpud_sender_poll_close(&made);
    return status;
}

void gpud_sender_poll_close(struct gpud_sender_poll *poll)
{
    gpud_fd_close(&poll->fd);
    gpud_fd_close(&poll->event);
    gpud_fd_close(&poll->timer);
}

enum gpud_status gpud_sender_get_fd(struct gpud_sender *sender, int *fd, struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    gpud_sender_lock(sender);
    if (sender->poll.fd < 0)
        status = make(&sender->poll, error);
    if (status == GPUD_OK)
        *fd = sender->poll.fd;
    gpud_sender_unlock(sender);
    return status;
}

static void watch_pools(struct gpud_sender *sender, int fd)
{
    if (sender->device_pool)
        gpud_pool_set_wake(sender->device_pool, fd);
    if (sender->host_pool)
        gpud_pool_set_wake(sender->host_pool, fd);
}

static bool has_slots(const struct gpud_sender *sender)
{
    return (sender->device_pool && gpud_pool_has_free(sender->device_pool)) ||
           (sender->host_pool && gpud_pool_has_free(sender->host_pool));
}

/* Whether something came back before the link was armed. */
static bool arm_link(struct gpud_link *link, bool *device_reads)
{
    struct gpud_transport *transport = link->transport;
    if (!transport || !transport->page.page)
        return false;
    *device_reads |= transport->releasing_count > 0;
    link->kicks_due++;
    atomic_store_explicit(&transport->page.page->sender.wanted, 1, memory_order_relaxed);
    gpud_sleep_begin(&transport->page.end.sleeper, GPUD_SLEEP_POLL);
    return gpud_page_has_returns(&transport->page);
}

static void drain(int fd)
{
    uint64_t ignored;
    ssize_t got = read(fd, &ignored, sizeof(ignored));
    (void)got; /* what it counts does not matter */
}

void gpud_sender_poll_arm(struct gpud_sender *sender)
{
    struct gpud_sender_poll *poll = &sender->poll;
    bool ready = atomic_load(&sender->interrupted), device_reads = false;
    if (poll->fd < 0)
        return;
    drain(poll->event);
    poll->is_armed = true;
    watch_pools(sender, poll->event);
    for (uint32_t i = 0; i < sender->link_count; i++)
        ready |= arm_link(sender->links[i], &device_reads);
    if (ready || (sender->lacks_slot && has_slots(sender)))
        gpud_event_raise(poll->event);
    struct itimerspec look = {.it_value = {.tv_nsec = device_reads ? DEVICE_LOOK : 0}};
    timerfd_settime(poll->timer, 0, &look, NULL);
}

void gpud_sender_poll_disarm(struct gpud_sender *sender)
{
    struct gpud_sender_poll *poll = &sender->poll;
    sender->lacks_slot = false;
    if (!poll->is_armed)
        return;
    poll->is_armed = false;
    drain(poll->timer);
    watch_pools(sender, -1);
    for (uint32_t i = 0; i < sender->link_count; i++)
        if (sender->links[i]->transport && sender->links[i]->transport->page.page)
            gpud_sleep_end(&sender->links[i]->transport->page.end.sleeper);
}

bool gpud_sender_poll_kick(struct gpud_link *link)
{
    if (link->kicks_due == 0)
        return false;
    link->kicks_due--;
    gpud_event_raise(link->sender->poll.event);
    return true;
}
