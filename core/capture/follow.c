/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Follows a change of the signal while frames are captured: sets the card, and goes on with the
 * same format in a new ring. */
#include "capture/follow.h"

#include "base/clock.h"
#include "capture/publish.h"
#include "capture/setup.h"
#include "capture/stream.h"
#include "capture/watch.h"

#include <errno.h>
#include <linux/videodev2.h>
#include <string.h>

/* --- another signal ------------------------------------------------------------------------ */

/* Whether a new configuration is needed. If only colours or the rate changed, the next frame's
 * epoch says so. */
static bool look(struct gpud_capture *capture)
{
    struct gpud_input found;
    bool was_present = capture->source.present;
    gpud_input_detect(&capture->node, &found);
    bool moved = found.width != capture->source.width || found.height != capture->source.height ||
                 found.interlaced != capture->source.interlaced;
    capture->source = found;
    gpud_capture_publish_signal(capture);
    if (!found.present)
        return false;
    if (!was_present)
        capture->discontinuity = true;
    if (!gpud_input_is_set(&capture->node, &found) || (moved && !capture->wanted.width_min))
        return true;
    if (gpud_capture_publish_format(capture)) {
        capture->epoch++;
        gpud_capture_count_change(capture);
    }
    return false;
}

/* Looks at the signal, and follows a change. If the driver has an event for changes and there was
 * none, it only looks while the signal is lost. *held: the driver keeps buffers that the
 * application holds, so the change is followed once they are released. On another failure there is
 * no ring. */
static enum gpud_status follow(struct gpud_capture *capture, bool *held, struct gpud_error *error)
{
    *held = false;
    if (!capture->change_pending) {
        capture->look_at = gpud_now() + GPUD_CAPTURE_LOOK;
        bool event = capture->has_change_event && gpud_input_take_events(&capture->node);
        if (!event && capture->has_change_event && capture->source.present)
            return GPUD_OK;
        capture->change_pending = look(capture);
    }
    if (!capture->change_pending)
        return GPUD_OK;
    gpud_log_info(&capture->context->log, "capture", "%s has another signal: %ux%u",
                  capture->node.path, capture->source.width, capture->source.height);
    enum gpud_status status = gpud_capture_drop_ring(capture, false, error);
    *held = status == GPUD_IO;
    if (status == GPUD_OK && capture->next_input >= 0)
        gpud_capture_select_input(capture);
    if (status == GPUD_OK)
        status = gpud_capture_begin(capture, error);
    if (status == GPUD_OK)
        gpud_capture_count_change(capture);
    return status;
}

enum gpud_status gpud_capture_keep_up(struct gpud_capture *capture, bool *held,
                                      struct gpud_error *error)
{
    struct gpud_error why;
    *held = false;
    if (!capture->event_pending && !capture->change_pending)
        return GPUD_OK;
    capture->event_pending = false;
    enum gpud_status status = follow(capture, held, &why);
    return status == GPUD_OK || *held ? GPUD_OK : gpud_capture_end_stream(capture, &why, error);
}

/* --- no signal at the start ---------------------------------------------------------------- */

/* Tries again: GPUD_OK, and perhaps a ring. */
static enum gpud_status try_start(struct gpud_capture *capture, struct gpud_error *error)
{
    struct v4l2_capability capability;
    if (gpud_v4l2_call(&capture->node, VIDIOC_QUERYCAP, &capability) < 0)
        return gpud_fail_native(error, GPUD_NO_DEVICE, "errno", errno,
                                "%s was unplugged, or its driver removed", capture->node.path);
    gpud_input_detect(&capture->node, &capture->source);
    gpud_capture_publish_signal(capture);
    if (!capture->source.present)
        return GPUD_OK;
    capture->start_deferred = false;
    enum gpud_status status = gpud_capture_begin(capture, error);
    if (!capture->start_deferred)
        gpud_capture_disarm(capture);
    return status;
}

static enum gpud_status await_start(struct gpud_capture *capture, int64_t deadline,
                                    struct gpud_error *error)
{
    while (capture->start_deferred) {
        struct pollfd fds[] = {
            {.fd = capture->timer_fd, .events = POLLIN},
            {.fd = capture->interrupt_fd, .events = POLLIN},
        };
        struct timespec left = gpud_time_left(deadline);
        ppoll(fds, 2, &left, NULL);
        if (atomic_load(&capture->interrupted))
            return gpud_fail(error, GPUD_AGAIN, "the capture was interrupted");
        enum gpud_status status =
            gpud_capture_is_time(capture) ? try_start(capture, error) : GPUD_OK;
        if (status != GPUD_OK)
            return status;
        if (capture->start_deferred && gpud_now() >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT, "%s", capture->source.reason);
    }
    return GPUD_OK;
}

enum gpud_status gpud_capture_await_start(struct gpud_capture *capture, int64_t deadline,
                                          struct gpud_error *error)
{
    struct gpud_error why;
    enum gpud_status status = await_start(capture, deadline, &why);
    if (status != GPUD_OK && status != GPUD_TIMEOUT && status != GPUD_AGAIN)
        return gpud_capture_end_stream(capture, &why, error);
    if (status != GPUD_OK && error)
        *error = why;
    return status;
}
