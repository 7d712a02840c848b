/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A ring in its capture's epoll: its wake-up, and the driver's node while its state is
 * meaningful. */
#include "capture/ring_watch.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

void gpud_capture_ring_set_woken(struct gpud_capture_ring *ring, bool woken)
{
    uint64_t count = 1;
    if (woken && !ring->woken)
        ring->woken = write(ring->wake_fd, &count, sizeof(count)) == sizeof(count);
    else if (!woken && ring->woken)
        ring->woken = read(ring->wake_fd, &count, sizeof(count)) != sizeof(count);
}

/* Buffers that devices have finished with are queued by the next acquire, which is soon enough
 * while the driver still has buffers to fill. */
bool gpud_capture_ring_is_due(const struct gpud_capture_ring *ring)
{
    if (ring->watch_fd < 0)
        return false;
    bool low = __builtin_popcountll(ring->queued) < GPUD_CAPTURE_SPARE;
    /* Stopped but not replaced: the driver waits for frames that are released now. */
    bool due = ring->stopped ? ring->in_place && !ring->acquired : ring->returned && low;
    return ring->ended || ring->watch_error || due;
}

static int watch_node(struct gpud_capture_ring *ring, bool watch, uint32_t events)
{
    struct epoll_event event = {.events = events};
    if (watch == ring->node_watched && (!watch || events == ring->watched_events))
        return 0;
    int operation = !watch ? EPOLL_CTL_DEL : ring->node_watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(ring->watch_fd, operation, ring->node->fd, &event) < 0)
        return errno;
    ring->node_watched = watch;
    ring->watched_events = events;
    return 0;
}

/* poll() reports an error for a driver without a buffer, although nothing is wrong. While the
 * application holds all frames, only the errors count that poll() always reports. */
bool gpud_capture_ring_update_watch(struct gpud_capture_ring *ring)
{
    if (ring->watch_fd < 0)
        return true;
    gpud_lock_take(&ring->lock);
    bool watch = ring->streaming && !ring->ended && ring->queued;
    bool room = (uint32_t)__builtin_popcountll(ring->acquired) < ring->limit;
    gpud_lock_release(&ring->lock);

    /* Without that lock: the kernel asks the driver at once, which may wait. */
    int number = watch_node(ring, watch, room ? EPOLLIN | EPOLLPRI : 0);
    gpud_lock_take(&ring->lock);
    ring->watch_error = number;
    if (!ring->waiting)
        gpud_capture_ring_set_woken(ring, gpud_capture_ring_is_due(ring));
    gpud_lock_release(&ring->lock);
    return number == 0;
}

enum gpud_status gpud_capture_ring_watch(struct gpud_capture_ring *ring, int watch_fd,
                                         struct gpud_error *error)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(watch_fd, EPOLL_CTL_ADD, ring->wake_fd, &event) < 0)
        return gpud_fail_errno(error, "%s cannot be watched for an event loop", ring->node->path);
    gpud_lock_take(&ring->driver_lock);
    gpud_lock_take(&ring->lock);
    ring->watch_fd = watch_fd;
    gpud_lock_release(&ring->lock);
    bool watched = gpud_capture_ring_update_watch(ring);
    int number = ring->watch_error;
    gpud_lock_release(&ring->driver_lock);
    if (watched)
        return GPUD_OK;
    gpud_capture_ring_unwatch(ring);
    errno = number;
    return gpud_fail_errno(error, "%s cannot be watched for an event loop", ring->node->path);
}

/* Explicitly, because an epoll keeps a descriptor as long as any process has the file open. */
void gpud_capture_ring_unwatch(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->driver_lock);
    if (ring->watch_fd >= 0) {
        watch_node(ring, false, 0);
        epoll_ctl(ring->watch_fd, EPOLL_CTL_DEL, ring->wake_fd, NULL);
        gpud_lock_take(&ring->lock);
        ring->watch_fd = -1;
        ring->watch_error = 0;
        gpud_lock_release(&ring->lock);
    }
    gpud_lock_release(&ring->driver_lock);
}

void gpud_capture_ring_end(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->driver_lock);
    gpud_lock_take(&ring->lock);
    ring->ended = true;
    gpud_lock_release(&ring->lock);
    gpud_capture_ring_update_watch(ring);
    gpud_lock_release(&ring->driver_lock);
}
