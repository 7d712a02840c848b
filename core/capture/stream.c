/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A capture's stream: started, with the card set to its signal and to what is wanted; continued by
 * another method; ended. */
#include "capture/stream.h"

#include "base/clock.h"
#include "capture/buffers.h"
#include "capture/negotiate.h"
#include "capture/publish.h"
#include "capture/ring.h"
#include "capture/ring_watch.h"
#include "capture/watch.h"

#include <errno.h>
#include <linux/videodev2.h>

enum gpud_status gpud_capture_drop_ring(struct gpud_capture *capture, bool must,
                                        struct gpud_error *error)
{
    if (!capture->ring)
        return GPUD_OK;
    enum gpud_status status = gpud_capture_ring_stop(capture->ring, error);
    if (status != GPUD_OK && !must)
        return status;
    gpud_capture_ring_unwatch(capture->ring);
    gpud_capture_ring_unref(capture->ring);
    capture->ring = NULL;
    return GPUD_OK;
}

/* Whether a missing signal is why the driver does not start. */
static bool lacks_signal(struct gpud_capture *capture, long number)
{
    struct gpud_input *source = &capture->signal.now;
    if (number == ENODEV || number == ENXIO ||
        (source->present && number != ENOLINK && number != ENOLCK))
        return false;
    if (source->present)
        gpud_print(source->reason,
                   "%s does not start without a signal: is a source connected, and on?",
                   capture->node.path);
    source->present = false;
    gpud_capture_publish_signal(capture);
    return true;
}

/* Streams by the best allowed method. *refused: the driver did not start, for the reason in *error,
 * which *refused gets too. */
static enum gpud_status stream(struct gpud_capture *capture, const struct gpud_placement *placement,
                               const struct gpud_capture_choice *choice, bool *refused,
                               struct gpud_error *error)
{
    enum gpud_status status =
        gpud_capture_ring_create(&capture->node, capture->device, capture->host, placement,
                                 capture->slots, choice, &capture->ring, error);
    *refused = false;
    if (status != GPUD_OK)
        return status;
    capture->stream.began = gpud_now();
    status = gpud_capture_ring_start(capture->ring, error);
    *refused = status != GPUD_OK;
    if (status == GPUD_OK && capture->watch_fd >= 0)
        status = gpud_capture_ring_watch(capture->ring, capture->watch_fd, error);
    if (status != GPUD_OK)
        gpud_capture_drop_ring(capture, true, NULL);
    return status;
}

static struct gpud_capture_choice choice_of(const struct gpud_capture *capture)
{
    return (struct gpud_capture_choice){
        .method = capture->method[0] ? capture->method : NULL,
        .direct = capture->direct,
    };
}

/* Only the buffers change: the card stays set up. */
enum gpud_status gpud_capture_fall_back(struct gpud_capture *capture, const struct gpud_error *why,
                                        struct gpud_error *error)
{
    const struct gpud_capture_ring *ring = capture->ring;
    struct gpud_placement placement = ring->placement;
    struct gpud_capture_choice choice = choice_of(capture);
    struct gpud_v4l2_format format;
    char reasons[GPUD_REASON_MAX];
    gpud_print(reasons, "%s%sv4l2-%s: %s", ring->fallback_reason,
               ring->fallback_reason[0] ? "; " : "", ring->method->name, why->reason);
    choice.below = ring->method;
    choice.reason = reasons;
    struct gpud_fraction rate = capture->info.media.picture.rate;
    bool refused;

    gpud_capture_unpublish(capture);
    enum gpud_status status = gpud_capture_drop_ring(capture, false, error);
    if (status == GPUD_OK && gpud_v4l2_get_format(&capture->node, &format) < 0)
        status = gpud_fail_errno(error, "%s does not tell its format", capture->node.path);
    if (status == GPUD_OK)
        status = stream(capture, &placement, &choice, &refused, error);
    if (status != GPUD_OK)
        return status;
    capture->count.numbered = false;
    capture->count.discontinuity = true;
    capture->count.epoch++; /* the memory is new */
    gpud_capture_publish(capture, &format, rate.num, rate.den);
    return GPUD_OK;
}

/* The configuration stands: frames come when there is a signal. */
static enum gpud_status defer_start(struct gpud_capture *capture,
                                    const struct gpud_placement *placement,
                                    const struct gpud_v4l2_format *format, uint32_t fps_num,
                                    uint32_t fps_den, struct gpud_error *error)
{
    struct gpud_hdr_metadata hdr = {0};
    if (!gpud_capture_arm(capture, GPUD_CAPTURE_LOOK, GPUD_CAPTURE_LOOK))
        return gpud_fail_errno(error, "%s cannot be waited for", capture->node.path);
    gpud_capture_unpublish(capture);
    gpud_lock_take(&capture->lock);
    capture->info.media.picture.layout = placement->layout;
    gpud_capture_note_format(capture, format, &hdr, fps_num, fps_den);
    gpud_lock_release(&capture->lock);
    return GPUD_OK;
}

enum gpud_status gpud_capture_begin(struct gpud_capture *capture, bool *deferred,
                                    struct gpud_error *error)
{
    struct gpud_placement placement;
    struct gpud_v4l2_format format = {0};
    struct gpud_error why;
    uint32_t fps_num = capture->wanted.mode.fps_num, fps_den = capture->wanted.mode.fps_den;
    bool refused = false;
    gpud_capture_disarm(capture);
    gpud_input_set(&capture->node, &capture->signal.now);
    enum gpud_status status = gpud_capture_negotiate(capture, &format, &placement, &why);
    if (status == GPUD_OK) {
        gpud_capture_read_rate(capture, &fps_num, &fps_den);
        struct gpud_capture_choice choice = choice_of(capture);
        status = stream(capture, &placement, &choice, &refused, &why);
    }
    capture->stream.alternate = format.field == V4L2_FIELD_ALTERNATE;
    *deferred = refused && lacks_signal(capture, why.native);
    if (*deferred)
        return defer_start(capture, &placement, &format, fps_num, fps_den, error);
    if (status != GPUD_OK) {
        if (error)
            *error = why;
        return status;
    }
    gpud_capture_set_duration(capture, fps_num, fps_den);
    gpud_capture_publish(capture, &format, fps_num, fps_den);
    capture->stream.said_full = capture->stream.said_clock = capture->count.numbered = false;
    capture->count.discontinuity = capture->count.epoch > 0;
    capture->count.epoch++;
    return GPUD_OK;
}
