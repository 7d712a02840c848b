/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What gpud_capture_get_info() reports: the signal, the path and the format, as they become
 * known. */
#include "capture/publish.h"

#include "capture/colorimetry.h"
#include "capture/method.h"
#include "capture/modes.h"

#include <linux/videodev2.h>
#include <string.h>

void gpud_capture_publish_signal(struct gpud_capture *capture)
{
    const struct gpud_input *source = &capture->signal.now;
    gpud_lock_take(&capture->lock);
    bool was = capture->info.signal;
    capture->info.signal = source->present;
    gpud_print(capture->info.signal_reason, "%s", source->reason);
    capture->info.signal_width = source->width;
    capture->info.signal_height = source->height;
    gpud_print(capture->info.input, "%s", source->name);
    gpud_lock_release(&capture->lock);
    if (was && !source->present)
        gpud_log_warning(&capture->context->log, "capture", "%s", source->reason);
}

void gpud_capture_count_change(struct gpud_capture *capture)
{
    gpud_lock_take(&capture->lock);
    capture->info.signal_changes++;
    gpud_lock_release(&capture->lock);
}

void gpud_capture_publish_card_format(struct gpud_capture *capture)
{
    struct gpud_v4l2_format format;
    bool known = gpud_v4l2_get_format(&capture->node, &format) == 0;
    const char *name = known ? gpud_capture_name_format(&capture->node, format.fourcc) : NULL;
    gpud_lock_take(&capture->lock);
    gpud_print(capture->info.card_format, "%s", name ? name : "");
    gpud_lock_release(&capture->lock);
}

void gpud_capture_publish_card(struct gpud_capture *capture)
{
    gpud_lock_take(&capture->lock);
    struct gpud_capture_info *info = &capture->info;
    bool was = info->unplugged;
    info->unplugged = capture->state.card != GPUD_CARD_PRESENT;
    if (was && !info->unplugged) {
        info->returns++;
        gpud_print(info->driver, "%s", capture->node.driver);
        gpud_print(info->card, "%s", capture->node.card);
    }
    gpud_lock_release(&capture->lock);
}

/* How buffers will be stamped, as the driver says in those it has; 0: it does not say. */
static uint32_t stamp_flags(const struct gpud_capture_ring *ring)
{
    struct gpud_v4l2_buffer raw = ring->buffers[0].raw;
    return gpud_v4l2_query(ring->node, &raw) == 0 ? raw.flags : 0;
}

void gpud_capture_publish_path(struct gpud_capture *capture)
{
    const struct gpud_capture_ring *ring = capture->ring;
    gpud_lock_take(&capture->lock);
    if (ring->proven)
        gpud_print(capture->info.path, "v4l2-%s", ring->method->name);
    gpud_print(capture->info.fallback_reason, "%s", ring->fallback_reason);
    gpud_lock_release(&capture->lock);
    if (ring->proven)
        gpud_log_info(&capture->context->log, "capture", "%s: frames arrive by v4l2-%s",
                      capture->node.path, ring->method->name);
}

/* What the driver says about its pictures besides their layout. With the lock held. */
void gpud_capture_note_format(struct gpud_capture *capture, const struct gpud_v4l2_format *format,
                              const struct gpud_hdr_metadata *hdr, uint32_t fps_num,
                              uint32_t fps_den)
{
    struct gpud_picture *picture = &capture->info.media.picture;
    bool bottom_first =
        format->field == V4L2_FIELD_INTERLACED_BT ||
        (format->field != V4L2_FIELD_INTERLACED_TB && capture->signal.now.bottom_first);
    gpud_capture_read_colors(format, &picture->colorimetry);
    picture->hdr = *hdr;
    picture->rate = (struct gpud_fraction){fps_num, fps_den};
    picture->scan = gpud_scan_of_field(format->field);
    picture->field_order = picture->scan != GPUD_SCAN_INTERLEAVED ? GPUD_FIELD_ORDER_UNKNOWN
                           : bottom_first                         ? GPUD_FIELD_ORDER_BOTTOM_FIRST
                                                                  : GPUD_FIELD_ORDER_TOP_FIRST;
    gpud_input_aspect(&capture->signal.now, format, &picture->pixel_aspect.num,
                      &picture->pixel_aspect.den);
}

/* The driver's rate, else the signal's. */
void gpud_capture_read_rate(struct gpud_capture *capture, uint32_t *fps_num, uint32_t *fps_den)
{
    gpud_v4l2_rate(&capture->node, fps_num, fps_den);
    if (*fps_num)
        return;
    *fps_num = capture->signal.now.fps_num;
    *fps_den = capture->signal.now.fps_den;
}

void gpud_capture_set_duration(struct gpud_capture *capture, uint32_t fps_num, uint32_t fps_den)
{
    uint32_t fields = capture->stream.alternate ? 2 : 1;
    capture->stream.frame_duration =
        fps_num ? (uint64_t)fps_den * UINT64_C(1000000000) / fps_num / fields : GPUD_TIME_NONE;
}

bool gpud_capture_publish_format(struct gpud_capture *capture)
{
    struct gpud_v4l2_format format;
    struct gpud_hdr_metadata hdr;
    uint32_t fps_num = 0, fps_den = 1;
    if (gpud_v4l2_get_format(&capture->node, &format) < 0)
        return false;
    gpud_capture_read_hdr(&capture->node, &hdr);
    gpud_capture_read_rate(capture, &fps_num, &fps_den);
    gpud_capture_set_duration(capture, fps_num, fps_den);
    gpud_lock_take(&capture->lock);
    struct gpud_capture_info before = capture->info;
    gpud_capture_note_format(capture, &format, &hdr, fps_num, fps_den);
    bool changed = memcmp(&before, &capture->info, sizeof(before)) != 0;
    gpud_lock_release(&capture->lock);
    return changed;
}

void gpud_capture_publish(struct gpud_capture *capture, const struct gpud_v4l2_format *format,
                          uint32_t fps_num, uint32_t fps_den)
{
    const struct gpud_capture_ring *ring = capture->ring;
    uint32_t stamps = stamp_flags(ring);
    struct gpud_hdr_metadata hdr;
    gpud_capture_read_hdr(&capture->node, &hdr);
    gpud_lock_take(&capture->lock);
    struct gpud_capture_info *info = &capture->info;
    gpud_print(info->driver, "%s", capture->node.driver);
    gpud_print(info->card, "%s", capture->node.card);
    info->media.picture.layout = ring->placement.layout;
    gpud_print(info->card_format, "%s", info->media.picture.layout.format);
    info->monotonic = (stamps & V4L2_BUF_FLAG_TIMESTAMP_MASK) == V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
    info->started_ns = (uint64_t)capture->stream.began;
    info->stamps_start = (stamps & V4L2_BUF_FLAG_TSTAMP_SRC_MASK) == V4L2_BUF_FLAG_TSTAMP_SRC_SOE;
    gpud_capture_note_format(capture, format, &hdr, fps_num, fps_den);
    gpud_lock_release(&capture->lock);

    const struct gpud_log *log = &capture->context->log;
    gpud_log_info(log, "capture", "%s (%s): %s %ux%u by v4l2-%s, %u buffers", capture->node.path,
                  capture->node.card, ring->placement.layout.format, ring->placement.layout.width,
                  ring->placement.layout.height, ring->method->name, ring->buffer_count);
    if (ring->fallback_reason[0])
        gpud_log_warning(log, "capture", "%s: %s", capture->node.path, ring->fallback_reason);
    gpud_capture_publish_path(capture);
}

void gpud_capture_unpublish(struct gpud_capture *capture)
{
    gpud_lock_take(&capture->lock);
    struct gpud_capture_info *info = &capture->info;
    gpud_print(info->path, "none");
    info->fallback_reason[0] = '\0';
    info->media = (struct gpud_media){.picture.rate.den = 1};
    info->monotonic = info->stamps_start = false;
    gpud_lock_release(&capture->lock);
}
