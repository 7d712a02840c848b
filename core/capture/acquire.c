/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Waits for frames. Checks everything that the driver reports about them. */
#include "base/clock.h"
#include "capture/actions.h"
#include "capture/arrival.h"
#include "capture/canary.h"
#include "capture/feed.h"
#include "capture/follow.h"
#include "capture/frames.h"
#include "capture/method.h"
#include "capture/publish.h"

#include <errno.h>
#include <linux/videodev2.h>
#include <string.h>

/* A wait looks at the driver again after this long, even if poll() reports nothing. */
#define SLICE (500 * GPUD_MSEC)

/* --- when the driver fails ----------------------------------------------------------------- */

static enum gpud_status dequeue_failed(struct gpud_capture *capture, struct gpud_error *error)
{
    struct gpud_error why;
    int number = errno;
    const char *path = capture->node.path;
    if (number == ENODEV || number == ENXIO)
        gpud_fail_native(&why, GPUD_NO_DEVICE, "errno", number,
                         "%s was unplugged, or its driver removed", path);
    else if (number == EIO)
        gpud_fail_native(&why, GPUD_IO, "errno", number,
                         "the driver of %s failed: start the capture again; the kernel's log "
                         "(dmesg) may say why",
                         path);
    else
        gpud_fail_errno(&why, "the driver of %s gives no frames any more: start the capture again",
                        path);
    return gpud_capture_report(capture, GPUD_CAPTURE_ON_FAILED, &why, error);
}

/* poll() reports an error, but no buffer of the driver explains it. */
static enum gpud_status explain_poll(struct gpud_capture *capture, struct gpud_error *error)
{
    if (gpud_v4l2_is_alive(&capture->node))
        errno = EIO;
    return dequeue_failed(capture, error);
}

/* --- waiting ------------------------------------------------------------------------------- */

/* What poll() saw, and is not handled yet. */
struct news {
    bool event;  /* or a look at the signal is due */
    bool failed; /* the next dequeue shall explain it */
};

/* Makes the card's writes into a device's memory visible, and checks that they arrived there.
 * flags: in an incomplete frame the canary may remain. */
static bool check_memory(struct gpud_capture *capture, uint32_t index, uint32_t flags,
                         struct gpud_error *why)
{
    struct gpud_capture_ring *ring = capture->ring;
    bool proven = ring->proven;
    if (ring->method->on_device &&
        gpud_memory_flush_remote(ring->buffers[index].memory, why) != GPUD_OK)
        return false;
    if (!(ring->unproven >> index & 1) || flags & GPUD_FRAME_CORRUPTED)
        return true;
    if (gpud_capture_ring_prove(ring, index, why) != GPUD_OK)
        return false;
    if (!proven)
        gpud_capture_publish_path(capture);
    return true;
}

static void drop(struct gpud_capture *capture, uint32_t index, const struct gpud_arrival *arrival)
{
    bool full = arrival->action == GPUD_ARRIVAL_OVERRUN;
    gpud_capture_ring_drop(capture->ring, index);
    gpud_capture_count(capture, arrival, false);
    capture->count.discontinuity = true;
    if (full && !capture->stream.said_full)
        gpud_log_warning(&capture->context->log, "capture",
                         "frames of %s are dropped, because the application holds all %u",
                         capture->node.path, capture->ring->limit);
    capture->stream.said_full |= full;
}

/* Dequeues one buffer, if the driver has one. *frame stays NULL if it gives no frame; *idle: no
 * buffer was dropped either. */
static enum gpud_status dequeue(struct gpud_capture *capture, struct news *news,
                                struct gpud_frame **frame, bool *idle, struct gpud_error *error)
{
    struct gpud_capture_ring *ring = capture->ring;
    struct gpud_v4l2_buffer raw = {.memory = ring->method->memory};
    *idle = false;
    if (gpud_v4l2_dequeue(&capture->node, &raw) < 0) {
        if (errno != EAGAIN)
            return dequeue_failed(capture, error);
        if (news->failed)
            return explain_poll(capture, error);
        *idle = true;
        return GPUD_OK;
    }
    news->failed = false;
    bool room;
    if (!gpud_capture_ring_dequeued(ring, raw.index, &room)) {
        struct gpud_error why;
        gpud_fail(&why, GPUD_IO,
                  "the driver of %s gave buffer %u, which it did not have: start the capture again",
                  capture->node.path, raw.index);
        return gpud_capture_report(capture, GPUD_CAPTURE_ON_FAILED, &why, error);
    }

    struct gpud_arrival arrival = gpud_capture_judge(capture, &raw, room);
    if (arrival.action != GPUD_ARRIVAL_ACQUIRE) {
        drop(capture, raw.index, &arrival);
        return GPUD_OK;
    }
    struct gpud_error why;
    struct gpud_frame *taken;
    if (!check_memory(capture, raw.index, arrival.flags, &why)) {
        gpud_capture_count(capture, &arrival, false);
        gpud_capture_ring_drop(ring, raw.index);
        return gpud_capture_report(capture, GPUD_CAPTURE_ON_METHOD_FAILED, &why, error);
    }
    if (gpud_capture_ring_acquire(ring, &raw, &taken, &why) != GPUD_OK)
        return gpud_capture_report(capture, GPUD_CAPTURE_ON_FAILED, &why, error);
    gpud_capture_count(capture, &arrival, true);
    gpud_capture_describe(capture, &raw, &arrival, taken);
    capture->count.discontinuity = false;
    capture->stream.last_frame = arrival.time;
    *frame = taken;
    return GPUD_OK;
}

/* poll() reports an error for a driver without a buffer, which is not a failure, so it is not
 * polled then. False: another event came, and the driver need not be asked for a frame. */
static bool wait_for_news(const struct gpud_capture *capture, struct gpud_capture_wait wait,
                          int64_t deadline, struct news *news)
{
    short events = capture->signal.has_event ? POLLIN | POLLPRI : POLLIN;
    struct pollfd fds[] = {
        {.fd = wait.fed ? capture->node.fd : -1, .events = events},
        {.fd = wait.out ? capture->ring->wake_fd : -1, .events = POLLIN},
        {.fd = capture->interrupt.fd, .events = POLLIN},
    };
    int64_t left = deadline - gpud_now();
    struct timespec slice = gpud_timespec(left < SLICE ? left : SLICE);
    int count = capture->node.system->ppoll(fds, 3, &slice, NULL);
    if (count < 0)
        return false; /* a Unix signal: the caller looks again */
    bool event = fds[0].revents & POLLPRI;
    bool failed = fds[0].revents & (POLLERR | POLLHUP | POLLNVAL);
    news->event |= event;
    news->failed = failed;
    /* A changed video signal may be the cause of the failure, and the next frame may belong to it,
     * so the change is handled first. */
    return !event && (fds[0].revents & POLLIN || failed || count == 0);
}

/* Whether to check the signal although poll() reported nothing: while it is lost, and while no
 * frame comes if the driver has no event for it or the caller does not poll. */
static bool is_look_due(const struct gpud_capture *capture, bool wait, bool idle)
{
    int64_t now = gpud_now();
    if (now < capture->signal.look_at)
        return false;
    if (!capture->signal.now.present)
        return true;
    bool silent = now - capture->stream.last_frame > SLICE || (capture->signal.has_event && !wait);
    return idle && silent;
}

/* Whether something must be handled before GPUD_TIMEOUT is returned. An event loop that sees an
 * error or an event must not get GPUD_TIMEOUT forever. */
static bool has_news(const struct gpud_capture *capture, bool polled, bool idle, struct news *news)
{
    if (idle && !polled && capture->watch_fd >= 0)
        wait_for_news(capture, gpud_capture_ring_wait_begin(capture->ring), 0, news);
    return news->event || (idle && news->failed);
}

static enum gpud_status no_frame(struct gpud_capture *capture, bool held, struct gpud_error *error)
{
    struct gpud_capture_ring *ring = capture->ring;
    if (held)
        return gpud_fail(error, GPUD_TIMEOUT,
                         "the driver of %s waits for the frames that are held, for its signal has "
                         "changed: release them",
                         capture->node.path);
    if (!capture->signal.now.present)
        return gpud_fail(error, GPUD_TIMEOUT, "%s", capture->signal.now.reason);
    if (gpud_capture_ring_has_room(ring))
        return gpud_fail(error, GPUD_TIMEOUT,
                         "no frame from %s by the deadline: is there a signal?",
                         capture->node.path);
    return gpud_fail(error, GPUD_TIMEOUT, "the application holds all %u frames of %s: release one",
                     ring->limit, capture->node.path);
}

static enum gpud_status requeue(struct gpud_capture *capture, struct gpud_error *error)
{
    struct gpud_error why;
    return gpud_capture_ring_requeue(capture->ring, &why) == GPUD_OK
               ? GPUD_OK
               : gpud_capture_report(capture, GPUD_CAPTURE_ON_FAILED, &why, error);
}

/* Sleeps until the node, a returned buffer, an interrupt or the deadline. *ask: whether to ask the
 * driver for a frame. */
static enum gpud_status await_news(struct gpud_capture *capture, int64_t deadline,
                                   struct news *news, bool *ask, struct gpud_error *error)
{
    struct gpud_capture_wait begun = gpud_capture_ring_wait_begin(capture->ring);
    enum gpud_status status = begun.back ? requeue(capture, error) : GPUD_OK;
    if (status == GPUD_OK)
        *ask = wait_for_news(capture, begun, deadline, news);
    return status;
}

/* Whether frames can come, or why not. */
static enum gpud_status check_phase(const struct gpud_capture *capture, struct gpud_error *error)
{
    if (capture->state.phase == GPUD_CAPTURE_IDLE)
        return gpud_fail(error, GPUD_INVALID,
                         "the capture is not configured: it has no format to stream");
    if (capture->state.phase != GPUD_CAPTURE_FAILED)
        return GPUD_OK;
    if (error)
        *error = capture->failure;
    return capture->failure.status;
}

/* A frame costs one poll, one DQBUF and, for returned buffers, one QBUF; without a wait no poll. */
static enum gpud_status acquire(struct gpud_capture *capture, bool wait, int64_t deadline,
                                struct gpud_frame **frame, struct gpud_error *error)
{
    struct news news = {0};
    for (bool last = false;;) {
        enum gpud_status status = check_phase(capture, error);
        if (status != GPUD_OK)
            return status;
        if (atomic_load(&capture->interrupt.set))
            return gpud_fail(error, GPUD_AGAIN, "the capture was interrupted");
        if (gpud_capture_follow(capture, news.event))
            news.failed = false; /* it may have been the old ring's */
        news.event = false;
        if (capture->state.phase == GPUD_CAPTURE_FAILED)
            continue;
        if (capture->state.phase == GPUD_CAPTURE_DEFERRED) {
            status = gpud_capture_await_signal(capture, deadline, error);
            if (status != GPUD_OK)
                return status;
            continue;
        }
        bool held = capture->state.phase == GPUD_CAPTURE_DRAINING, idle = true, ask = true;
        bool sleep = wait && (held || !news.failed);
        /* Else an event loop that always finds a frame would miss a change of the signal. */
        bool peek = !sleep && !held && capture->watch_fd >= 0 && !news.failed;
        struct gpud_capture_ring *ring = capture->ring; /* a dequeue may replace it */
        if (gpud_capture_ring_has_back(ring))
            status = requeue(capture, error);
        if (status == GPUD_OK && (sleep || peek))
            status = await_news(capture, sleep ? deadline : 0, &news, &ask, error);
        if (status == GPUD_OK && ask && !held)
            status = dequeue(capture, &news, frame, &idle, error);
        if (status != GPUD_OK || *frame)
            return status;
        news.event |= is_look_due(capture, wait, idle);
        if (capture->ring != ring || gpud_now() < deadline)
            continue;
        if (last || held || !has_news(capture, peek, idle, &news))
            return no_frame(capture, held, error);
        last = true;
    }
}

enum gpud_status gpud_capture_acquire(struct gpud_capture *capture, int64_t timeout_ns,
                                      struct gpud_frame **frame, struct gpud_error *error)
{
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    struct gpud_frame *found = NULL;
    enum gpud_status status =
        acquire(capture, timeout_ns > 0, gpud_deadline(timeout_ns), &found, error);
    if (status == GPUD_OK)
        *frame = found;
    if (capture->ring)
        gpud_capture_ring_wait_end(capture->ring);
    return status;
}
