/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Follows a change of the signal while frames are captured: sets the card, and goes on with the
 * same format in a new ring. */
#include "capture/follow.h"

#include "base/clock.h"
#include "capture/actions.h"
#include "capture/publish.h"
#include "capture/watch.h"

#include <errno.h>

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
