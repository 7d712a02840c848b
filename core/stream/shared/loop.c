/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "stream/shared/loop.h"

#include "base/fd.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum gpud_status gpud_loop_watch(const struct gpud_loop *loop, int fd, struct gpud_error *error)
{
    struct epoll_event readable = {.events = EPOLLIN};
    if (epoll_ctl(loop->fd, EPOLL_CTL_ADD, fd, &readable) < 0)
        return gpud_fail_errno(error, "cannot add to an epoll");
    return GPUD_OK;
}

void gpud_loop_unwatch(const struct gpud_loop *loop, int fd)
{
    epoll_ctl(loop->fd, EPOLL_CTL_DEL, fd, NULL);
}

enum gpud_status gpud_loop_open(struct gpud_loop *loop, struct gpud_error *error)
{
    struct gpud_loop made = {
        .fd = epoll_create1(EPOLL_CLOEXEC),
        .event = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK),
        .timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
    };
    enum gpud_status status = GPUD_OK;
    if (made.fd < 0 || made.event < 0 || made.timer < 0)
        status = gpud_fail_errno(error, "no descriptor to poll");
    if (status == GPUD_OK)
        status = gpud_loop_watch(&made, made.event, error);
    if (status == GPUD_OK)
        status = gpud_loop_watch(&made, made.timer, error);
    if (status == GPUD_OK)
        *loop = made;
    else
        gpud_loop_close(&made);
    return status;
}

void gpud_loop_close(struct gpud_loop *loop)
{
    gpud_fd_close(&loop->fd);
    gpud_fd_close(&loop->event);
    gpud_fd_close(&loop->timer);
}

void gpud_loop_set_timer(const struct gpud_loop *loop, int64_t at)
{
    struct itimerspec until = {0};
    if (at != INT64_MAX)
        until.it_value = gpud_timespec(at > 0 ? at : 1);
    timerfd_settime(loop->timer, TFD_TIMER_ABSTIME, &until, NULL);
}

bool gpud_loop_drain(const struct gpud_loop *loop)
{
    uint64_t ignored;
    bool event = read(loop->event, &ignored, sizeof(ignored)) > 0;
    bool timer = read(loop->timer, &ignored, sizeof(ignored)) > 0;
    return event || timer;
}
