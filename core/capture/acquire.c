/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Waiting for frames. Everything that the driver reports of them is checked. */
#include "base/clock.h"
#include "capture/canary.h"
#include "capture/feed.h"
#include "capture/follow.h"
#include "capture/frames.h"
#include "capture/method.h"
#include "capture/publish.h"
#include "capture/stream.h"

#include <errno.h>
#include <linux/videodev2.h>
#include <string.h>

/* A wait looks at the driver again after this long, whatever poll() says. */
#define SLICE (500 * GPUD_MSEC)

/* How far a stamp may lie outside the time in which its frame was captured. */
#define STAMP_SLACK (2 * GPUD_SEC)

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
    return gpud_capture_end_stream(capture, &why, error);
}

/* poll() says that something is wrong, and the driver has no buffer that would tell what. */
static enum gpud_status explain_poll(struct gpud_capture *capture, struct gpud_error *error)
{
    struct v4l2_capability capability;
    if (gpud_v4l2_call(&capture->node, VIDIOC_QUERYCAP, &capability) == 0)
        errno = EIO;
    return dequeue_failed(capture, error);
}

/* --- judging a buffer ---------------------------------------------------------------------- */

struct arrival {
    int64_t time;
    uint64_t pts;
    bool at_start;    /* pts is of the start of exposure */
    uint64_t missing; /* frames that the driver dropped before this one */
    uint32_t flags;   /* enum gpud_frame_flags */
};

/* Frames missing between the last and this one. The driver's number has 32 bits and wraps, and
 * counts pictures: its two fields have one number. */
static uint64_t count_missing(struct gpud_capture *capture, const struct gpud_v4l2_buffer *raw)
{
    uint32_t first = capture->source.bottom_first ? V4L2_FIELD_BOTTOM : V4L2_FIELD_TOP;
    uint32_t second = capture->alternate && raw->field != first;
    uint32_t pictures = raw->sequence - capture->driver_sequence;
    int64_t step = pictures;
    if (capture->alternate)
        step = 2 * step + second - capture->driver_second;
    bool numbered = capture->numbered;
    capture->driver_sequence = raw->sequence;
    capture->driver_second = second;
    capture->numbered = true;
    if (!numbered)
        capture->driver_count = raw->sequence;
    if (!numbered || step == 0)
        return 0; /* the first one, or a driver that does not count */
    if (step < 0 || pictures > UINT32_MAX / 2) {
        capture->discontinuity = true; /* backwards: it began anew */
        capture->driver_count = raw->sequence;
        return 0;
    }
    capture->driver_count += pictures;
    return (uint64_t)step - 1;
}

/* Whether each area holds a whole picture. An impossible data_offset is made 0: the frame stays
 * inside its memory. */
static bool complete(const struct gpud_capture_ring *ring, struct gpud_v4l2_buffer *raw)
{
    const struct gpud_placement *placement = &ring->placement;
    bool whole = raw->planes == placement->areas;
    for (uint32_t i = 0; i < placement->areas; i++) {
        uint64_t end = (uint64_t)raw->plane[i].data_offset + placement->area[i].filled;
        if (i >= raw->planes || end > placement->area[i].size) {
            raw->plane[i].data_offset = 0;
            whole = false;
        } else if (raw->plane[i].bytesused < end) {
            whole = false;
        }
    }
    return whole;
}

/* Where the driver says no more than "interlaced", the signal's standard tells which field is the
 * first. */
static uint32_t field_flags(const struct gpud_capture *capture, uint32_t field)
{
    bool bottom_first = capture->source.bottom_first;
    uint32_t first = bottom_first ? 0 : GPUD_FRAME_TOP_FIRST;
    if (capture->alternate)
        return GPUD_FRAME_INTERLACED | first |
               (field == V4L2_FIELD_BOTTOM ? GPUD_FRAME_BOTTOM_FIELD : GPUD_FRAME_TOP_FIELD);
    if (capture->info.scan != GPUD_SCAN_INTERLEAVED) /* written by this thread alone */
        return 0;
    switch (field) {
    case V4L2_FIELD_NONE: /* this one is progressive */
        return 0;
    case V4L2_FIELD_INTERLACED_TB:
        return GPUD_FRAME_INTERLACED | GPUD_FRAME_TOP_FIRST;
    case V4L2_FIELD_INTERLACED_BT:
        return GPUD_FRAME_INTERLACED;
    default:
        return GPUD_FRAME_INTERLACED |
               (capture->info.bottom_first ? 0 : (uint32_t)GPUD_FRAME_TOP_FIRST);
    }
}

/* Whether the driver's stamp is the monotonic clock's. A frame was not captured before the stream
 * began, nor after it came, give or take what drivers compute: some say at a frame's start when it
 * will end. Whatever else is called monotonic is another clock. */
static bool is_monotonic(const struct gpud_capture *capture, const struct gpud_v4l2_buffer *raw,
                         int64_t came)
{
    if ((raw->flags & V4L2_BUF_FLAG_TIMESTAMP_MASK) != V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC ||
        raw->timestamp > INT64_MAX)
        return false;
    int64_t stamp = (int64_t)raw->timestamp;
    return stamp >= capture->began - STAMP_SLACK && stamp <= came + STAMP_SLACK;
}

static struct arrival inspect(struct gpud_capture *capture, struct gpud_v4l2_buffer *raw)
{
    struct arrival arrival = {.time = gpud_now(), .pts = GPUD_TIME_NONE};
    bool monotonic = is_monotonic(capture, raw, arrival.time);
    if (monotonic)
        arrival.pts = raw->timestamp;
    arrival.at_start = (raw->flags & V4L2_BUF_FLAG_TSTAMP_SRC_MASK) == V4L2_BUF_FLAG_TSTAMP_SRC_SOE;
    if (!capture->said_clock) {
        gpud_log_info(
            &capture->context->log, "capture", "%s stamps frames %s, at %s", capture->node.path,
            monotonic ? "with the monotonic clock" : "with an unknown clock: they carry no pts",
            arrival.at_start ? "the start of exposure" : "their end");
        capture->said_clock = true;
    }

    arrival.missing = count_missing(capture, raw);
    capture->sequence += 1 + arrival.missing;
    bool corrupted = raw->flags & V4L2_BUF_FLAG_ERROR;
    if (!complete(capture->ring, raw))
        corrupted = true;
    if (corrupted)
        arrival.flags |= GPUD_FRAME_CORRUPTED;
    arrival.flags |= field_flags(capture, raw->field);
    if (capture->discontinuity || arrival.missing)
        arrival.flags |= GPUD_FRAME_DISCONTINUITY;
    return arrival;
}

static void count(struct gpud_capture *capture, const struct arrival *arrival, bool acquired)
{
    const struct gpud_capture_ring *ring = capture->ring;
    gpud_lock_take(&capture->lock);
    struct gpud_capture_info *info = &capture->info;
    info->monotonic = arrival->pts != GPUD_TIME_NONE;
    info->stamps_start = arrival->at_start;
    info->dropped += arrival->missing + !acquired;
    if (acquired) {
        info->frames++;
        info->corrupted += arrival->flags & GPUD_FRAME_CORRUPTED ? 1 : 0;
        info->copies_gpu += !ring->in_place;
        info->copies_cpu += ring->buffers[0].bounce != NULL;
    }
    gpud_lock_release(&capture->lock);
}

static void describe(struct gpud_capture *capture, const struct gpud_v4l2_buffer *raw,
                     const struct arrival *arrival, struct gpud_frame *frame)
{
    const struct gpud_placement *placement = &capture->ring->placement;
    struct gpud_frame_info *info = &frame->info;
    info->pts = arrival->pts;
    info->dts = GPUD_TIME_NONE;
    info->duration = capture->frame_duration;
    info->offset = capture->driver_count;
    info->flags = arrival->flags;
    info->meta_size = 0;
    info->sequence = capture->sequence;
    info->dropped = capture->info.dropped; /* written by this thread alone */
    info->submit_time = (uint64_t)arrival->time;
    info->epoch = capture->epoch;
    info->layout = placement->layout;
    for (uint32_t i = 0; capture->ring->in_place && i < placement->layout.planes; i++)
        info->layout.plane[i].offset += raw->plane[placement->area_of[i]].data_offset;
}

/* --- waiting ------------------------------------------------------------------------------- */

/* What the card wrote into a device's memory is there for all who read it, and not elsewhere.
 * flags: of a frame that is not whole the canary may be left. */
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

/* One buffer, if the driver has one. *frame stays NULL if there is none to acquire; *idle: nor was
 * there one to drop. */
static enum gpud_status dequeue(struct gpud_capture *capture, struct gpud_frame **frame, bool *idle,
                                struct gpud_error *error)
{
    struct gpud_capture_ring *ring = capture->ring;
    struct gpud_v4l2_buffer raw = {.memory = ring->method->memory};
    *idle = false;
    if (gpud_v4l2_dequeue(&capture->node, &raw) < 0) {
        if (errno != EAGAIN)
            return dequeue_failed(capture, error);
        if (capture->poll_failed)
            return explain_poll(capture, error);
        *idle = true;
        return GPUD_OK;
    }
    capture->poll_failed = false;
    bool room;
    if (!gpud_capture_ring_dequeued(ring, raw.index, &room)) {
        struct gpud_error why;
        gpud_fail(&why, GPUD_IO,
                  "the driver of %s gave buffer %u, which it did not have: start the capture again",
                  capture->node.path, raw.index);
        return gpud_capture_end_stream(capture, &why, error);
    }

    struct arrival arrival = inspect(capture, &raw);
    if (!capture->source.present) { /* noise, or what the card shows instead */
        gpud_capture_ring_drop(ring, raw.index);
        count(capture, &arrival, false);
        capture->discontinuity = true;
        return GPUD_OK;
    }
    if (!room) {
        gpud_capture_ring_drop(ring, raw.index);
        count(capture, &arrival, false);
        capture->discontinuity = true;
        if (!capture->said_full)
            gpud_log_warning(&capture->context->log, "capture",
                             "frames of %s are dropped, because the application holds all %u",
                             capture->node.path, ring->limit);
        capture->said_full = true;
        return GPUD_OK;
    }
    struct gpud_error why;
    struct gpud_frame *taken;
    if (!check_memory(capture, raw.index, arrival.flags, &why)) {
        count(capture, &arrival, false);
        gpud_capture_ring_drop(ring, raw.index);
        struct gpud_error refused = why;
        return gpud_capture_fall_back(capture, &refused, &why) == GPUD_OK
                   ? GPUD_OK
                   : gpud_capture_end_stream(capture, &why, error);
    }
    if (gpud_capture_ring_acquire(ring, &raw, &taken, &why) != GPUD_OK)
        return gpud_capture_end_stream(capture, &why, error);
    count(capture, &arrival, true);
    describe(capture, &raw, &arrival, taken);
    capture->discontinuity = false;
    capture->last_frame = arrival.time;
    *frame = taken;
    return GPUD_OK;
}

/* A driver that has no buffer shows poll() an error, which is none: it is not asked then. False:
 * something else came, and the driver need not be asked for a frame. */
static bool wait_for_news(struct gpud_capture *capture, struct gpud_capture_wait wait,
                          int64_t deadline)
{
    short events = capture->has_change_event ? POLLIN | POLLPRI : POLLIN;
    struct pollfd fds[] = {
        {.fd = wait.fed ? capture->node.fd : -1, .events = events},
        {.fd = wait.out ? capture->ring->wake_fd : -1, .events = POLLIN},
        {.fd = capture->interrupt_fd, .events = POLLIN},
    };
    int64_t left = deadline - gpud_now();
    struct timespec slice = gpud_timespec(left < SLICE ? left : SLICE);
    int count = capture->node.system->ppoll(fds, 3, &slice, NULL);
    if (count < 0)
        return false; /* a signal: the caller looks again */
    bool event = fds[0].revents & POLLPRI;
    bool failed = fds[0].revents & (POLLERR | POLLHUP | POLLNVAL);
    capture->event_pending = capture->event_pending || event;
    capture->poll_failed = failed;
    /* Another signal may be why it failed, and what is captured now may be of it: that is looked at
     * first. */
    return !event && (fds[0].revents & POLLIN || failed || count == 0);
}

/* Whether the signal shall be looked at though poll() does not say so: while it is lost, and where
 * no frame comes, if the driver has no event for it or nobody polls. */
static bool is_look_due(const struct gpud_capture *capture, bool wait, bool idle)
{
    int64_t now = gpud_now();
    if (now < capture->look_at)
        return false;
    if (!capture->source.present)
        return true;
    bool silent = now - capture->last_frame > SLICE || (capture->has_change_event && !wait);
    return idle && silent;
}

/* Whether there is something to see to before the answer is that no frame came. An event loop that
 * sees an error or an event, too, must not be told GPUD_TIMEOUT for ever. */
static bool has_news(struct gpud_capture *capture, bool polled, bool idle)
{
    if (idle && !polled && capture->watch_fd >= 0)
        wait_for_news(capture, gpud_capture_ring_wait_begin(capture->ring), 0);
    return capture->event_pending || (idle && capture->poll_failed);
}

static enum gpud_status no_frame(struct gpud_capture *capture, bool held, struct gpud_error *error)
{
    struct gpud_capture_ring *ring = capture->ring;
    if (held)
        return gpud_fail(error, GPUD_TIMEOUT,
                         "the driver of %s waits for the frames that are held, for its signal has "
                         "changed: release them",
                         capture->node.path);
    if (!capture->source.present)
        return gpud_fail(error, GPUD_TIMEOUT, "%s", capture->source.reason);
    if (gpud_capture_ring_has_room(ring))
        return gpud_fail(error, GPUD_TIMEOUT,
                         "no frame from %s by the deadline: is there a signal?",
                         capture->node.path);
    return gpud_fail(error, GPUD_TIMEOUT, "the application holds all %u frames of %s: release one",
                     ring->limit, capture->node.path);
}

/* A frame costs one poll, one DQBUF and, with what came back, one QBUF; without a wait no poll. */
static enum gpud_status acquire(struct gpud_capture *capture, bool wait, int64_t deadline,
                                struct gpud_frame **frame, struct gpud_error *error)
{
    for (bool last = false;;) {
        if (atomic_load(&capture->interrupted))
            return gpud_fail(error, GPUD_AGAIN, "the capture was interrupted");
        struct gpud_error why;
        bool held, idle = true, ask = true, polled = false;
        enum gpud_status status = gpud_capture_keep_up(capture, &held, error);
        if (status != GPUD_OK)
            return status;
        if (capture->start_deferred) {
            status = gpud_capture_await_start(capture, deadline, error);
            if (status != GPUD_OK)
                return status;
            continue;
        }
        struct gpud_capture_ring *ring = capture->ring; /* which a dequeue may replace */
        if (gpud_capture_ring_has_back(ring) && gpud_capture_ring_requeue(ring, &why) != GPUD_OK)
            return gpud_capture_end_stream(capture, &why, error);
        if (wait && (held || !capture->poll_failed)) {
            struct gpud_capture_wait begun = gpud_capture_ring_wait_begin(ring);
            if (begun.back && gpud_capture_ring_requeue(ring, &why) != GPUD_OK)
                return gpud_capture_end_stream(capture, &why, error);
            ask = wait_for_news(capture, begun, deadline);
        } else if (capture->watch_fd >= 0 && !held && !capture->poll_failed) {
            /* An event loop that always finds a frame would never hear of another signal. */
            ask = wait_for_news(capture, gpud_capture_ring_wait_begin(ring), 0);
            polled = true;
        }
        if (ask && !held) {
            status = dequeue(capture, frame, &idle, error);
            if (status != GPUD_OK || *frame)
                return status;
        }
        capture->event_pending = capture->event_pending || is_look_due(capture, wait, idle);
        if (capture->ring != ring || gpud_now() < deadline)
            continue;
        if (last || held || !has_news(capture, polled, idle))
            return no_frame(capture, held, error);
        last = true;
    }
}

enum gpud_status gpud_capture_acquire(struct gpud_capture *capture, int64_t timeout_ns,
                                      struct gpud_frame **frame, struct gpud_error *error)
{
    if (timeout_ns < 0)
        return gpud_fail(error, GPUD_INVALID, "a negative timeout: every wait needs an end");
    if (capture->failure.status != GPUD_OK) {
        if (error)
            *error = capture->failure;
        return capture->failure.status;
    }
    if (!capture->ring && !capture->start_deferred)
        return gpud_fail(error, GPUD_INVALID,
                         "the capture is not configured: it has no format to stream");
    struct gpud_frame *found = NULL;
    enum gpud_status status =
        acquire(capture, timeout_ns > 0, gpud_deadline(timeout_ns), &found, error);
    if (status == GPUD_OK)
        *frame = found;
    if (capture->ring)
        gpud_capture_ring_wait_end(capture->ring);
    return status;
}
