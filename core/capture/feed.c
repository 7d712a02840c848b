/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Moves buffers between a ring and its driver, and decides what to wait for. */
#include "capture/feed.h"

#include "capture/ring_watch.h"

#include <errno.h>
#include <string.h>

void gpud_capture_ring_wake(struct gpud_capture_ring *ring, bool by_device)
{
    uint32_t queued = (uint32_t)__builtin_popcountll(ring->queued);
    bool low = queued < GPUD_CAPTURE_SPARE || 2 * queued < ring->buffer_count;
    if ((ring->waiting && (ring->blind || (by_device && low))) || gpud_capture_ring_is_due(ring))
        gpud_capture_ring_set_woken(ring, true);
}

struct gpud_capture_wait gpud_capture_ring_wait_begin(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->lock);
    struct gpud_capture_wait wait = {
        .fed = ring->queued,
        .back = ring->to_queue,
        .out = ring->acquired || ring->pending,
    };
    ring->waiting = true;
    ring->blind = !wait.fed;
    gpud_capture_ring_set_woken(ring, false);
    gpud_lock_release(&ring->lock);
    return wait;
}

void gpud_capture_ring_wait_end(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->lock);
    ring->waiting = false;
    gpud_capture_ring_set_woken(ring, gpud_capture_ring_is_due(ring));
    bool watched = ring->watch_fd >= 0;
    gpud_lock_release(&ring->lock);
    if (!watched)
        return;
    gpud_lock_take(&ring->driver_lock);
    gpud_capture_ring_update_watch(ring);
    gpud_lock_release(&ring->driver_lock);
}

/* With the lock held. */
static bool has_room(const struct gpud_capture_ring *ring)
{
    return (uint32_t)__builtin_popcountll(ring->acquired) < ring->limit;
}

bool gpud_capture_ring_has_room(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->lock);
    bool room = has_room(ring);
    gpud_lock_release(&ring->lock);
    return room;
}

bool gpud_capture_ring_dequeued(struct gpud_capture_ring *ring, uint32_t index, bool *room)
{
    gpud_lock_take(&ring->lock);
    bool right = index < ring->buffer_count && ring->queued >> index & 1;
    if (right)
        ring->queued &= ~gpud_capture_bit(index);
    *room = has_room(ring);
    gpud_lock_release(&ring->lock);
    return right;
}

void gpud_capture_ring_drop(struct gpud_capture_ring *ring, uint32_t index)
{
    gpud_lock_take(&ring->lock);
    ring->to_queue |= gpud_capture_bit(index);
    gpud_lock_release(&ring->lock);
}

/* --- returned buffers ---------------------------------------------------------------------- */

int gpud_capture_ring_queue(struct gpud_capture_ring *ring, uint32_t index)
{
    return gpud_v4l2_queue(ring->node, &ring->buffers[index].raw);
}

bool gpud_capture_ring_has_back(struct gpud_capture_ring *ring)
{
    gpud_lock_take(&ring->lock);
    bool back = ring->to_queue || ring->watch_fd >= 0;
    gpud_lock_release(&ring->lock);
    return back;
}

/* The driver refused these. True: it has no buffer, and none can come back. */
static bool take_back(struct gpud_capture_ring *ring, uint64_t refused)
{
    gpud_lock_take(&ring->lock);
    ring->queued &= ~refused;
    ring->to_queue |= refused; /* tried again with the next one */
    bool starved = !ring->queued && !ring->pending && !(ring->in_place && ring->acquired);
    ring->returned |= starved; /* the next acquire says so */
    gpud_lock_release(&ring->lock);
    return starved;
}

enum gpud_status gpud_capture_ring_requeue(struct gpud_capture_ring *ring, struct gpud_error *error)
{
    gpud_lock_take(&ring->driver_lock);
    if (!ring->streaming) {
        gpud_lock_release(&ring->driver_lock);
        return GPUD_OK;
    }
    gpud_lock_take(&ring->lock);
    uint64_t back = ring->to_queue;
    ring->to_queue = 0;
    ring->returned = false;
    ring->queued |=
        back; /* before the call: another thread may dequeue it before this one goes on */
    gpud_lock_release(&ring->lock);

    uint64_t refused = 0;
    int number = 0;
    for (uint64_t left = back; left; left &= left - 1) {
        uint32_t index = (uint32_t)__builtin_ctzll(left);
        if (gpud_capture_ring_queue(ring, index) < 0) {
            refused |= gpud_capture_bit(index);
            number = errno;
        }
    }

    bool starved = refused && take_back(ring, refused);
    enum gpud_status status = GPUD_OK;
    bool watched = gpud_capture_ring_update_watch(ring);
    errno = watched ? number : ring->watch_error;
    if (!watched)
        status = gpud_fail_errno(error, "%s cannot be watched for an event loop", ring->node->path);
    else if (starved)
        status = gpud_fail_errno(error, "the driver of %s takes none of its buffers back",
                                 ring->node->path);
    else if (refused)
        gpud_log_debug(ring->log, "capture", "%s refused a buffer (%s): it is offered again",
                       ring->node->path, strerror(number));
    gpud_lock_release(&ring->driver_lock); /* the node may be gone after this */
    return status;
}
