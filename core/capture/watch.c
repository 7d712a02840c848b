/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One descriptor for event loops: an epoll of the interrupt's descriptor, the ring's wake-up, and
 * the driver's node while its state is meaningful. The node comes and goes, with configure and with
 * its buffers; the epoll stays. */
#include "capture/watch.h"

#include "base/clock.h"
#include "base/fd.h"
#include "capture/ring_watch.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

static bool add(int watch_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return watch_fd < 0 || fd < 0 || epoll_ctl(watch_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool gpud_capture_watch_too(struct gpud_capture *capture, int fd)
{
    return add(capture->watch_fd, fd);
}

void gpud_capture_close_watched(struct gpud_capture *capture, int *fd)
{
    if (*fd >= 0 && capture->watch_fd >= 0)
        epoll_ctl(capture->watch_fd, EPOLL_CTL_DEL, *fd, NULL);
    gpud_fd_close(fd);
}

bool gpud_capture_arm(struct gpud_capture *capture, int64_t after, int64_t every)
{
    struct itimerspec when = {.it_value = gpud_timespec(after > 0 ? after : 1),
                              .it_interval = gpud_timespec(every)};
    if (capture->timer_fd < 0) {
        capture->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (capture->timer_fd < 0 || !gpud_capture_watch_too(capture, capture->timer_fd)) {
            int number = errno;
            gpud_fd_close(&capture->timer_fd);
            errno = number;
            return false;
        }
    }
    return timerfd_settime(capture->timer_fd, 0, &when, NULL) == 0;
}

bool gpud_capture_is_time(struct gpud_capture *capture)
{
    uint64_t count;
    return capture->timer_fd >= 0 &&
           read(capture->timer_fd, &count, sizeof(count)) == sizeof(count);
}

void gpud_capture_disarm(struct gpud_capture *capture)
{
    gpud_capture_close_watched(capture, &capture->timer_fd);
}

enum gpud_status gpud_capture_get_fd(struct gpud_capture *capture, int *fd,
                                     struct gpud_error *error)
{
    if (capture->watch_fd >= 0) {
        *fd = capture->watch_fd;
        return GPUD_OK;
    }
    int made = epoll_create1(EPOLL_CLOEXEC);
    if (made < 0)
        return gpud_fail_errno(error, "cannot create an epoll descriptor");
    struct epoll_event event = {.events = EPOLLIN};
    enum gpud_status status = GPUD_OK;
    if (epoll_ctl(made, EPOLL_CTL_ADD, capture->interrupt.fd, &event) < 0)
        status = gpud_fail_errno(error, "cannot watch an eventfd");
    if (status == GPUD_OK && !(add(made, capture->card.nodes_fd) && add(made, capture->timer_fd)))
        status = gpud_fail_errno(error, "cannot watch for %s", capture->card.home);
    if (status == GPUD_OK && capture->ring)
        status = gpud_capture_ring_watch(capture->ring, made, error);
    if (status != GPUD_OK) {
        gpud_fd_close(&made);
        return status;
    }
    *fd = capture->watch_fd = made;
    return GPUD_OK;
}
