/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Judges a dequeued buffer. Checks everything that the driver reports about it. */
#include "capture/arrival.h"

#include "base/clock.h"

#include <linux/videodev2.h>

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
    if (!complete(capture->ring, raw))
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
