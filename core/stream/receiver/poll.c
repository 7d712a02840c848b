/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/receiver/poll.h"

#include "base/fd.h"
#include "stream/receiver/receiver.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* What no descriptor tells of: a device that stands still. */
#define DEVICE_LOOK (250 * GPUD_MSEC)
/* A message waits for frames before it, and everything behind it in the channel, too; or there are
 * no descriptors left to be told by. */
#define PENDING_LOOK GPUD_MSEC

void gpud_receiver_poll_init(struct gpud_receiver *receiver)
{
    receiver->poll = (struct gpud_receiver_poll){-1, -1, -1, -1, false};
}

void gpud_receiver_poll_finish(struct gpud_receiver *receiver)
{
    gpud_fd_close(&receiver->poll.fd);
    gpud_fd_close(&receiver->poll.timer);
    gpud_fd_close(&receiver->poll.event);
}

static enum gpud_status watch(int epoll, int fd, struct gpud_error *error)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        return gpud_fail_errno(error, "cannot add to an epoll");
    return GPUD_OK;
}

static enum gpud_status make(struct gpud_receiver_poll *poll, struct gpud_error *error)
{
    struct gpud_receiver_poll made = {
        .fd = epoll_create1(EPOLL_CLOEXEC),
        .timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
        .event = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK), /* the first acquire finds out */
        .watched = -1,
    };
    enum gpud_status status = GPUD_OK;
    if (made.fd < 0 || made.timer < 0 || made.event < 0)
        status = gpud_fail_errno(error, "no descriptor to poll");
    if (status == GPUD_OK)
        status = watch(made.fd, made.timer, error);
    if (status == GPUD_OK)
        status = watch(made.fd, made.event, error);
    if (status != GPUD_OK) {
        gpud_fd_close(&made.fd);
        gpud_fd_close(&made.timer);
        gpud_fd_close(&made.event);
        return status;
    }
    *poll = made;
    return GPUD_OK;
}

enum gpud_status gpud_receiver_get_fd(struct gpud_receiver *receiver, int *fd,
                                      struct gpud_error *error)
{
    enum gpud_status status = GPUD_OK;
    pthread_mutex_lock(&receiver->lock);
    if (receiver->poll.fd < 0)
        status = make(&receiver->poll, error);
    if (status == GPUD_OK)
        *fd = receiver->poll.fd;
    pthread_mutex_unlock(&receiver->lock);
    return status;
}

void gpud_receiver_poll_wake(struct gpud_receiver *receiver)
{
    if (receiver->poll.fd >= 0)
        gpud_event_raise(receiver->poll.event);
}

void gpud_receiver_poll_unwatch(struct gpud_receiver *receiver)
{
    struct gpud_receiver_poll *poll = &receiver->poll;
    if (poll->watched >= 0)
        epoll_ctl(poll->fd, EPOLL_CTL_DEL, poll->watched, NULL);
    poll->watched = -1;
}

static void set_timer(const struct gpud_receiver_poll *poll, int64_t at)
{
    struct itimerspec until = {0};
    if (at != INT64_MAX)
        until.it_value = gpud_timespec(at > 0 ? at : 1);
    timerfd_settime(poll->timer, TFD_TIMER_ABSTIME, &until, NULL);
}

/* What this side brings about by itself: a slot to upload into is free. The session may live longer
 * than the receiver. false: no descriptor is left for that. */
static bool watch_session(struct gpud_receiver *receiver)
{
    struct gpud_session *session = receiver->session;
    if (session && atomic_load(&session->wake) < 0)
        atomic_store(&session->wake, fcntl(receiver->poll.event, F_DUPFD_CLOEXEC, 3));
    return !session || atomic_load(&session->wake) >= 0;
}

/* Frames come by the page: the sender is to say so over the channel. */
static void sleep_on_page(struct gpud_receiver *receiver)
{
    struct gpud_session *session = receiver->session;
    atomic_store(&session->idle, true);
    gpud_sleep_begin(&session->view.end.sleeper, GPUD_SLEEP_POLL);
    if (gpud_page_notify(&session->view.end))
        atomic_fetch_add_explicit(&session->kicks, 1, memory_order_relaxed);
    if (gpud_receiver_has_something(receiver))
        gpud_event_raise(receiver->poll.event);
}

void gpud_receiver_poll_arm(struct gpud_receiver *receiver)
{
    struct gpud_receiver_poll *poll = &receiver->poll;
    int64_t look = receiver->deadline;
    if (poll->fd < 0)
        return;
    poll->is_armed = true;
    bool waits_for_frames = receiver->pending;
    if (receiver->channel && !waits_for_frames && poll->watched < 0 &&
        watch(poll->fd, receiver->channel->fd, NULL) == GPUD_OK)
        poll->watched = receiver->channel->fd;
    if (waits_for_frames)
        gpud_receiver_poll_unwatch(receiver);
    if (receiver->state == GPUD_RECEIVER_OFFLINE)
        look = receiver->retry;
    else if (!watch_session(receiver) || waits_for_frames ||
             (receiver->channel && poll->watched < 0))
        look = gpud_now() + PENDING_LOOK;
    else if (receiver->session && receiver->session->watchdog && look == INT64_MAX)
        look = gpud_now() + DEVICE_LOOK;
    set_timer(poll, look);
    if (receiver->state == GPUD_RECEIVER_TESTING || receiver->state == GPUD_RECEIVER_STREAMING)
        sleep_on_page(receiver);
    if (atomic_load(&receiver->interrupted))
        gpud_event_raise(poll->event);
}

void gpud_receiver_poll_disarm(struct gpud_receiver *receiver)
{
    struct gpud_receiver_poll *poll = &receiver->poll;
    uint64_t ignored;
    if (poll->fd < 0)
        return;
    ssize_t got = read(poll->event, &ignored, sizeof(ignored));
    got = read(poll->timer, &ignored, sizeof(ignored));
    (void)got; /* what they count does not matter */
    if (!poll->is_armed)
        return;
    poll->is_armed = false;
    receiver->unread = true; /* KICKs, at least */
    if (!receiver->session)
        return;
    gpud_sleep_end(&receiver->session->view.end.sleeper);
    atomic_store(&receiver->session->idle, false);
}
