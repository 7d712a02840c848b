/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What happens when a signal changes or ends, or a card is unplugged. */
#include "capture/internal.h"

#include "base/base.h"

#include <errno.h>
#include <linux/videodev2.h>
#include <stdbool.h>
#include <stddef.h>

/* === machine ================================================================================= */

/* Bits of the states that a row is for, and its new state: one of these, or the same as before. */
enum {
    IDLE = 1 << GPUD_CAPTURE_IDLE,
    DEFERRED = 1 << GPUD_CAPTURE_DEFERRED,
    STREAMING = 1 << GPUD_CAPTURE_STREAMING,
    DRAINING = 1 << GPUD_CAPTURE_DRAINING,
    FAILED = 1 << GPUD_CAPTURE_FAILED,
    LIVE = DEFERRED | STREAMING | DRAINING,
    ANY = IDLE | LIVE | FAILED,
    PRESENT = 1 << GPUD_CARD_PRESENT,
    UNPLUGGED = 1 << GPUD_CARD_UNPLUGGED,
    AWAITED = 1 << GPUD_CARD_AWAITED,
    ABSENT = UNPLUGGED | AWAITED,
    SAME = 0,
};

struct row {
    enum gpud_capture_event event;
    unsigned phases, cards;
    unsigned phase, card;
    enum gpud_capture_action action;
};

#define ROW(event, phases, cards, phase, card, action)                                \
    {                                                                                 \
        GPUD_CAPTURE_ON_##event, phases, cards, phase, card, GPUD_CAPTURE_DO_##action \
    }

/* clang-format off */
static const struct row table[] = {
    /*  event          in phase         card             to phase   card       action */
    ROW(CONFIGURE,     ANY,             PRESENT,         IDLE,      SAME,      RELEASE),
    ROW(CONFIGURE,     IDLE | FAILED,   ABSENT,          IDLE,      SAME,      REOPEN),
    ROW(START,         IDLE,            PRESENT,         SAME,      SAME,      START),
    ROW(START,         IDLE | FAILED,   ABSENT,          SAME,      SAME,      REFUSE),
    ROW(INPUT,         IDLE | DEFERRED | FAILED, PRESENT, SAME,     SAME,      SELECT),
    ROW(INPUT,         STREAMING | DRAINING,     PRESENT, DRAINING, SAME,      REPLACE),
    ROW(INPUT,         IDLE | FAILED,   ABSENT,          SAME,      SAME,      REFUSE),
    ROW(STOP,          ANY,             PRESENT,         IDLE,      SAME,      DROP),
    ROW(STOP,          IDLE | FAILED,   ABSENT,          IDLE,      SAME,      DROP),
    ROW(WAIT,          IDLE | FAILED,   PRESENT,         SAME,      SAME,      PROBE),
    ROW(WAIT,          IDLE | FAILED,   UNPLUGGED,       SAME,      SAME,      WATCH),

    ROW(CHANGED,       STREAMING,       PRESENT,         DRAINING,  SAME,      REPLACE),
    ROW(RELEASED,      DRAINING,        PRESENT,         SAME,      SAME,      REPLACE),
    ROW(SIGNAL,        DEFERRED,        PRESENT,         SAME,      SAME,      START),
    ROW(METHOD_FAILED, STREAMING,       PRESENT,         SAME,      SAME,      FALL_BACK),
    ROW(DUE,           IDLE | FAILED,   AWAITED,         SAME,      SAME,      RETURN),

    ROW(FAILED,        IDLE,            PRESENT,         SAME,      SAME,      NOTHING),
    ROW(FAILED,        LIVE,            PRESENT,         FAILED,    SAME,      END),
    ROW(FAILED,        IDLE | FAILED,   AWAITED,         FAILED,    PRESENT,   WELCOME),
    ROW(UNPLUGGED,     IDLE | FAILED,   PRESENT,         SAME,      UNPLUGGED, NOTHING),
    ROW(UNPLUGGED,     LIVE,            PRESENT,         FAILED,    UNPLUGGED, END),

    ROW(HELD,          DRAINING,        PRESENT,         SAME,      SAME,      NOTHING),
    ROW(HELD,          IDLE | STREAMING, PRESENT,        FAILED,    SAME,      END),
    ROW(STARTED,       IDLE | LIVE,     PRESENT,         STREAMING, SAME,      NOTHING),
    ROW(STARTED,       IDLE | FAILED,   AWAITED,         STREAMING, PRESENT,   WELCOME),
    ROW(NO_SIGNAL,     IDLE | DEFERRED | DRAINING, PRESENT, DEFERRED, SAME,    NOTHING),
    ROW(NO_SIGNAL,     IDLE | FAILED,   AWAITED,         DEFERRED,  PRESENT,   WELCOME),
    ROW(WATCHED,       IDLE | FAILED,   UNPLUGGED,       SAME,      AWAITED,   LET_GO),
    ROW(RETURNED,      IDLE | FAILED,   ABSENT,          IDLE,      PRESENT,   WELCOME),
    ROW(ABSENT,        IDLE | FAILED,   AWAITED,         SAME,      SAME,      LET_GO),
};

/* clang-format on */

struct gpud_capture_step gpud_capture_next(struct gpud_capture_state state,
                                           enum gpud_capture_event event)
{
    struct gpud_capture_step step = {.state = state, .action = GPUD_CAPTURE_DO_NOTHING};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct row *row = &table[i];
        if (row->event != event || !(row->phases >> state.phase & 1) ||
            !(row->cards >> state.card & 1))
            continue;
        if (row->phase != SAME)
            step.state.phase = (enum gpud_capture_phase)__builtin_ctz(row->phase);
        if (row->card != SAME)
            step.state.card = (enum gpud_capture_card)__builtin_ctz(row->card);
        step.action = row->action;
        break;
    }
    return step;
}

/* === actions ================================================================================= */
/* Carries out the actions of the state machine. The outcome of each is the machine's next event. */

#define NO_EVENT GPUD_CAPTURE_EVENTS

/* Ends the stream whatever the driver says. */
static void actions_drop(struct gpud_capture *capture)
{
    gpud_capture_unpublish(capture);
    gpud_capture_drop_ring(capture, true, NULL);
    if (capture->state.card != GPUD_CARD_AWAITED) /* else the timer is for the card */
        gpud_capture_disarm(capture);
}

static enum gpud_capture_event actions_release(struct gpud_capture *capture, struct gpud_error *why)
{
    gpud_capture_unpublish(capture);
    gpud_capture_disarm(capture);
    why->status = gpud_capture_drop_ring(capture, false, why);
    if (why->status != GPUD_OK)
        return GPUD_CAPTURE_ON_HELD;
    gpud_capture_select_input(capture);
    return NO_EVENT;
}

static enum gpud_capture_event actions_start(struct gpud_capture *capture, struct gpud_error *why)
{
    bool deferred;
    why->status = gpud_capture_begin(capture, &deferred, why);
    return why->status != GPUD_OK ? GPUD_CAPTURE_ON_FAILED
           : deferred             ? GPUD_CAPTURE_ON_NO_SIGNAL
                                  : GPUD_CAPTURE_ON_STARTED;
}

static enum gpud_capture_event replace(struct gpud_capture *capture, struct gpud_error *why)
{
    if (gpud_capture_drop_ring(capture, false, NULL) != GPUD_OK)
        return GPUD_CAPTURE_ON_HELD;
    gpud_capture_select_input(capture);
    enum gpud_capture_event event = actions_start(capture, why);
    if (why->status == GPUD_OK)
        gpud_capture_count_change(capture);
    return event;
}

static enum gpud_capture_event fall_back(struct gpud_capture *capture, struct gpud_error *why)
{
    struct gpud_error reason = *why;
    why->status = gpud_capture_fall_back(capture, &reason, why);
    return why->status == GPUD_OK ? GPUD_CAPTURE_ON_STARTED : GPUD_CAPTURE_ON_FAILED;
}

/* Event loops see that acquire has something to report. */
static void actions_end(struct gpud_capture *capture, const struct gpud_error *why)
{
    capture->failure = *why;
    if (capture->ring)
        gpud_capture_ring_end(capture->ring);
    else /* a replacement was meant to follow, and failed */
        gpud_capture_arm(capture, 0, 0);
}

static enum gpud_capture_event reopen(struct gpud_capture *capture, struct gpud_error *why)
{
    actions_drop(capture);
    why->status = gpud_capture_reopen(capture, why);
    return capture->node.fd >= 0 ? GPUD_CAPTURE_ON_RETURNED : GPUD_CAPTURE_ON_ABSENT;
}

/* A card that is there but not ready, for its firmware is loaded, is tried again. */
static enum gpud_capture_event try_return(struct gpud_capture *capture, struct gpud_error *why)
{
    bool watched = gpud_capture_watch_folders(capture); /* before the look: none is missed */
    why->status = gpud_capture_reopen(capture, why);
    bool opened = capture->node.fd >= 0;
    enum gpud_capture_event event = GPUD_CAPTURE_ON_RETURNED;
    if (why->status == GPUD_OK && capture->wanted.mode.format[0])
        event = actions_start(capture, why);
    if (why->status == GPUD_OK)
        return event;
    if (opened && (why->status == GPUD_UNSUPPORTED || why->status == GPUD_INVALID))
        return GPUD_CAPTURE_ON_FAILED;
    if (opened || why->native != ENOENT || !watched)
        gpud_capture_arm(capture, GPUD_CAPTURE_LOOK, 0);
    return GPUD_CAPTURE_ON_ABSENT;
}

static void welcome(struct gpud_capture *capture, const struct gpud_error *why)
{
    gpud_capture_unwatch_folders(capture);
    if (capture->state.phase != GPUD_CAPTURE_DEFERRED) /* else the timer is for the signal now */
        gpud_capture_disarm(capture);
    if (capture->state.phase == GPUD_CAPTURE_FAILED)
        capture->failure = *why;
}

static enum gpud_capture_event carry_out(struct gpud_capture *capture,
                                         enum gpud_capture_action action, struct gpud_error *why)
{
    switch (action) {
    case GPUD_CAPTURE_DO_NOTHING:
    case GPUD_CAPTURE_ACTIONS:
        break;
    case GPUD_CAPTURE_DO_REFUSE:
        gpud_fail(why, GPUD_NO_DEVICE, "%s is unplugged", capture->card.home);
        break;
    case GPUD_CAPTURE_DO_RELEASE:
        return actions_release(capture, why);
    case GPUD_CAPTURE_DO_DROP:
        actions_drop(capture);
        break;
    case GPUD_CAPTURE_DO_REOPEN:
        return reopen(capture, why);
    case GPUD_CAPTURE_DO_START:
        return actions_start(capture, why);
    case GPUD_CAPTURE_DO_REPLACE:
        return replace(capture, why);
    case GPUD_CAPTURE_DO_FALL_BACK:
        return fall_back(capture, why);
    case GPUD_CAPTURE_DO_SELECT:
        gpud_capture_drop_ring(capture, true, NULL);
        gpud_capture_select_input(capture);
        break;
    case GPUD_CAPTURE_DO_END:
        actions_end(capture, why);
        break;
    case GPUD_CAPTURE_DO_PROBE:
        return gpud_v4l2_is_alive(&capture->node) ? NO_EVENT : GPUD_CAPTURE_ON_UNPLUGGED;
    case GPUD_CAPTURE_DO_WATCH:
        why->status = gpud_capture_watch_for_card(capture, why);
        return why->status == GPUD_OK ? GPUD_CAPTURE_ON_WATCHED : NO_EVENT;
    case GPUD_CAPTURE_DO_LET_GO:
        gpud_capture_drop_ring(capture, true, NULL);
        gpud_capture_close_node(capture);
        break;
    case GPUD_CAPTURE_DO_RETURN:
        return try_return(capture, why);
    case GPUD_CAPTURE_DO_WELCOME:
        welcome(capture, why);
        break;
    }
    return NO_EVENT;
}

enum gpud_status gpud_capture_report(struct gpud_capture *capture, enum gpud_capture_event event,
                                     const struct gpud_error *why, struct gpud_error *error)
{
    struct gpud_error now = {.status = GPUD_OK};
    if (why)
        now = *why;
    while (event != NO_EVENT) {
        if (event == GPUD_CAPTURE_ON_FAILED && now.status == GPUD_NO_DEVICE)
            event = GPUD_CAPTURE_ON_UNPLUGGED;
        struct gpud_capture_step step = gpud_capture_next(capture->state, event);
        bool moved = step.state.card != capture->state.card;
        capture->state = step.state;
        event = carry_out(capture, step.action, &now);
        if (moved)
            gpud_capture_publish_card(capture);
    }
    if (now.status != GPUD_OK && error)
        *error = now;
    return now.status;
}

/* === follow ================================================================================== */
/* Follows a change of the signal while frames are captured: sets the card, and goes on with the
 * same format in a new ring. */

/* Looks at the signal: whether it needs another ring. If only colours or the rate changed, the next
 * frame's epoch says so. */
static bool needs_ring(struct gpud_capture *capture)
{
    struct gpud_input found;
    bool was_present = capture->signal.now.present;
    gpud_input_detect(&capture->node, &found);
    bool moved = found.width != capture->signal.now.width ||
                 found.height != capture->signal.now.height ||
                 found.interlaced != capture->signal.now.interlaced;
    capture->signal.now = found;
    gpud_capture_publish_signal(capture);
    if (!found.present)
        return false;
    if (!was_present)
        capture->count.discontinuity = true;
    if (!gpud_input_is_set(&capture->node, &found) || (moved && !capture->wanted.mode.width_min))
        return true;
    if (gpud_capture_publish_format(capture)) {
        capture->count.epoch++;
        gpud_capture_count_change(capture);
    }
    return false;
}

bool gpud_capture_follow(struct gpud_capture *capture, bool look)
{
    if (capture->state.phase == GPUD_CAPTURE_DRAINING) {
        gpud_capture_report(capture, GPUD_CAPTURE_ON_RELEASED, NULL, NULL);
        return true;
    }
    if (capture->state.phase != GPUD_CAPTURE_STREAMING || !look)
        return false;
    capture->signal.look_at = gpud_now() + GPUD_CAPTURE_LOOK;
    bool event = capture->signal.has_event && gpud_input_take_events(&capture->node);
    /* A driver with an event for changes is asked without one only while the signal is lost. */
    if ((!event && capture->signal.has_event && capture->signal.now.present) ||
        !needs_ring(capture))
        return false;
    gpud_log_info(&capture->context->log, "capture", "%s has another signal: %ux%u",
                  capture->node.path, capture->signal.now.width, capture->signal.now.height);
    gpud_capture_report(capture, GPUD_CAPTURE_ON_CHANGED, NULL, NULL);
    return true;
}

static enum gpud_status look_for_signal(struct gpud_capture *capture, struct gpud_error *error)
{
    if (!gpud_v4l2_is_alive(&capture->node)) {
        struct gpud_error why;
        gpud_fail_native(&why, GPUD_NO_DEVICE, "errno", errno,
                         "%s was unplugged, or its driver removed", capture->node.path);
        return gpud_capture_report(capture, GPUD_CAPTURE_ON_FAILED, &why, error);
    }
    gpud_input_detect(&capture->node, &capture->signal.now);
    gpud_capture_publish_signal(capture);
    return capture->signal.now.present
               ? gpud_capture_report(capture, GPUD_CAPTURE_ON_SIGNAL, NULL, error)
               : GPUD_OK;
}

enum gpud_status gpud_capture_await_signal(struct gpud_capture *capture, int64_t deadline,
                                           struct gpud_error *error)
{
    while (capture->state.phase == GPUD_CAPTURE_DEFERRED) {
        struct pollfd fds[] = {
            {.fd = capture->timer_fd, .events = POLLIN},
            {.fd = capture->interrupt.fd, .events = POLLIN},
        };
        struct timespec left = gpud_time_left(deadline);
        ppoll(fds, 2, &left, NULL);
        if (atomic_load(&capture->interrupt.set))
            return gpud_fail(error, GPUD_AGAIN, "the capture was interrupted");
        enum gpud_status status =
            gpud_capture_is_time(capture) ? look_for_signal(capture, error) : GPUD_OK;
        if (status != GPUD_OK)
            return status;
        if (capture->state.phase == GPUD_CAPTURE_DEFERRED && gpud_now() >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT, "%s", capture->signal.now.reason);
    }
    return GPUD_OK;
}

/* === arrival ================================================================================= */
/* Judges a dequeued buffer. Checks everything that the driver reports about it. */

/* How far a time stamp may lie outside the time in which its frame was captured. */
#define STAMP_SLACK (2 * GPUD_SEC)

/* Frames missing between the last and this one. The driver's number has 32 bits and wraps. It
 * counts pictures: both fields of one have the same number. */
static uint64_t count_missing(struct gpud_capture *capture, const struct gpud_v4l2_buffer *raw)
{
    uint32_t first = capture->signal.now.bottom_first ? V4L2_FIELD_BOTTOM : V4L2_FIELD_TOP;
    uint32_t second = capture->stream.alternate && raw->field != first;
    uint32_t pictures = raw->sequence - capture->count.driver_sequence;
    int64_t step = pictures;
    if (capture->stream.alternate)
        step = 2 * step + second - capture->count.driver_second;
    bool numbered = capture->count.numbered;
    capture->count.driver_sequence = raw->sequence;
    capture->count.driver_second = second;
    capture->count.numbered = true;
    if (!numbered)
        capture->count.driver_count = raw->sequence;
    if (!numbered || step == 0)
        return 0; /* the first frame, or a driver that does not count */
    if (step < 0 || pictures > UINT32_MAX / 2) {
        capture->count.discontinuity = true; /* backwards: the driver started again */
        capture->count.driver_count = raw->sequence;
        return 0;
    }
    capture->count.driver_count += pictures;
    return (uint64_t)step - 1;
}

/* Whether each area holds a whole picture. An impossible data_offset is set to 0, so that the frame
 * stays inside its memory. */
static bool arrival_complete(const struct gpud_capture_ring *ring, struct gpud_v4l2_buffer *raw)
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

/* If the driver says no more than "interlaced", the signal's standard decides which field is first.
 */
static uint32_t field_flags(const struct gpud_capture *capture, uint32_t field)
{
    bool bottom_first = capture->signal.now.bottom_first;
    uint32_t first = bottom_first ? 0 : GPUD_FRAME_TOP_FIRST;
    if (capture->stream.alternate)
        return GPUD_FRAME_INTERLACED | first |
               (field == V4L2_FIELD_BOTTOM ? GPUD_FRAME_BOTTOM_FIELD : GPUD_FRAME_TOP_FIELD);
    const struct gpud_picture *picture = &capture->info.media.picture; /* written by this thread */
    if (picture->scan != GPUD_SCAN_INTERLEAVED)
        return 0;
    switch (field) {
    case V4L2_FIELD_NONE: /* this one is progressive */
        return 0;
    case V4L2_FIELD_INTERLACED_TB:
        return GPUD_FRAME_INTERLACED | GPUD_FRAME_TOP_FIRST;
    case V4L2_FIELD_INTERLACED_BT:
        return GPUD_FRAME_INTERLACED;
    default:
        return GPUD_FRAME_INTERLACED | (picture->field_order == GPUD_FIELD_ORDER_BOTTOM_FIRST
                                            ? 0
                                            : (uint32_t)GPUD_FRAME_TOP_FIRST);
    }
}

/* Whether the driver's time stamp uses the monotonic clock. A frame is captured after the stream
 * began and before it is dequeued, with some slack: some drivers stamp a frame's start with its
 * estimated end. A "monotonic" stamp outside of that is another clock's. */
static bool is_monotonic(const struct gpud_capture *capture, const struct gpud_v4l2_buffer *raw,
                         int64_t came)
{
    if ((raw->flags & V4L2_BUF_FLAG_TIMESTAMP_MASK) != V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC ||
        raw->timestamp > INT64_MAX)
        return false;
    int64_t stamp = (int64_t)raw->timestamp;
    return stamp >= capture->stream.began - STAMP_SLACK && stamp <= came + STAMP_SLACK;
}

struct gpud_arrival gpud_capture_judge(struct gpud_capture *capture, struct gpud_v4l2_buffer *raw,
                                       bool room)
{
    struct gpud_arrival arrival = {.time = gpud_now(), .pts = GPUD_TIME_NONE};
    arrival.action = !capture->signal.now.present ? GPUD_ARRIVAL_NO_SIGNAL
                     : !room                      ? GPUD_ARRIVAL_OVERRUN
                                                  : GPUD_ARRIVAL_ACQUIRE;
    bool monotonic = is_monotonic(capture, raw, arrival.time);
    if (monotonic)
        arrival.pts = raw->timestamp;
    arrival.at_start = (raw->flags & V4L2_BUF_FLAG_TSTAMP_SRC_MASK) == V4L2_BUF_FLAG_TSTAMP_SRC_SOE;
    if (!capture->stream.said_clock) {
        gpud_log_info(
            &capture->context->log, "capture", "%s stamps frames %s, at %s", capture->node.path,
            monotonic ? "with the monotonic clock" : "with an unknown clock: they carry no pts",
            arrival.at_start ? "the start of exposure" : "their end");
        capture->stream.said_clock = true;
    }

    arrival.missing = count_missing(capture, raw);
    capture->count.sequence += 1 + arrival.missing;
    bool corrupted = raw->flags & V4L2_BUF_FLAG_ERROR;
    if (!arrival_complete(capture->ring, raw))
        corrupted = true;
    if (corrupted)
        arrival.flags |= GPUD_FRAME_CORRUPTED;
    arrival.flags |= field_flags(capture, raw->field);
    if (capture->count.discontinuity || arrival.missing)
        arrival.flags |= GPUD_FRAME_DISCONTINUITY;
    return arrival;
}

void gpud_capture_count(struct gpud_capture *capture, const struct gpud_arrival *arrival,
                        bool acquired)
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

void gpud_capture_describe(struct gpud_capture *capture, const struct gpud_v4l2_buffer *raw,
                           const struct gpud_arrival *arrival, struct gpud_frame *frame)
{
    const struct gpud_placement *placement = &capture->ring->placement;
    struct gpud_frame_info *info = &frame->info;
    info->pts_ns = arrival->pts;
    info->dts_ns = GPUD_TIME_NONE;
    info->duration_ns = capture->stream.frame_duration;
    info->offset = capture->count.driver_count;
    info->flags = arrival->flags;
    info->meta_size = 0;
    info->sequence = capture->count.sequence;
    info->dropped = capture->info.dropped; /* written by this thread */
    info->submitted_ns = (uint64_t)arrival->time;
    info->epoch = capture->count.epoch;
    info->layout = placement->layout;
    for (uint32_t i = 0; capture->ring->in_place && i < placement->layout.planes; i++)
        info->layout.plane[i].offset += raw->plane[placement->area_of[i]].data_offset;
}
