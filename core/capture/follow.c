/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Another signal at the input while frames are captured: it is set, and the same format goes on in
 * a new ring. */
#include "capture/capture.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/videodev2.h>
#include <string.h>

void gpud_capture_publish_signal(struct gpud_capture *capture)
{
    const struct gpud_input *source = &capture->source;
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

static void count_change(struct gpud_capture *capture)
{
    gpud_lock_take(&capture->lock);
    capture->info.signal_changes++;
    gpud_lock_release(&capture->lock);
}

/* --- which input --------------------------------------------------------------------------- */

static void publish_card_format(struct gpud_capture *capture)
{
    struct gpud_v4l2_format format;
    bool known = gpud_v4l2_get_format(&capture->node, &format) == 0;
    const char *name = known ? gpud_capture_name_format(&capture->node, format.fourcc) : NULL;
    gpud_lock_take(&capture->lock);
    gpud_print(capture->info.card_format, "%s", name ? name : "");
    gpud_lock_release(&capture->lock);
}

static void detect(struct gpud_capture *capture)
{
    capture->tells = gpud_input_subscribe(&capture->node);
    gpud_input_detect(&capture->node, &capture->source);
    gpud_capture_publish_signal(capture);
    publish_card_format(capture);
    capture->fourcc = 0;
}

static enum gpud_status set_input(struct gpud_capture *capture, int number,
                                  struct gpud_error *error)
{
    int set = number;
    if (gpud_v4l2_call(&capture->node, VIDIOC_S_INPUT, &set) == 0)
        return GPUD_OK;
    return gpud_fail_errno(error, "%s cannot be switched to its input %d%s", capture->node.path,
                           number, errno == EBUSY ? ", for another program holds it" : "");
}

enum gpud_status gpud_capture_set_up(struct gpud_capture *capture, struct gpud_error *error)
{
    int number, now = -1;
    enum gpud_status status = GPUD_OK;
    if (capture->input[0])
        status = gpud_input_find(&capture->node, capture->input, &number, error);
    bool set = status == GPUD_OK && capture->input[0] &&
               (gpud_v4l2_call(&capture->node, VIDIOC_G_INPUT, &now) < 0 || now != number);
    if (set)
        status = set_input(capture, number, error);
    gpud_lock_take(&capture->node_lock);
    if (status == GPUD_OK)
        status = gpud_controls_set(&capture->node, capture->controls.control,
                                   capture->controls.count, error);
    gpud_lock_release(&capture->node_lock);
    if (status == GPUD_OK)
        detect(capture);
    return status;
}

/* With no buffers. What the driver refuses leaves it at the input that it has. */
static void select_input(struct gpud_capture *capture)
{
    struct gpud_error *why = &capture->input_refused;
    why->status = set_input(capture, capture->next_input, why);
    capture->next_input = -1;
    if (why->status != GPUD_OK)
        gpud_log_warning(&capture->context->log, "capture", "%s", why->reason);
    detect(capture);
}

enum gpud_status gpud_capture_configure_input(struct gpud_capture *capture, const char *input,
                                              struct gpud_error *error)
{
    int number, now = -1;
    bool held = false;
    if (!input || strlen(input) >= sizeof(capture->input))
        return gpud_fail(error, GPUD_INVALID, "an input's number or name is needed");
    if (capture->gone || capture->node.fd < 0)
        return gpud_fail(error, GPUD_NO_DEVICE, "%s is unplugged", capture->home);
    enum gpud_status status = gpud_input_find(&capture->node, input, &number, error);
    if (status != GPUD_OK)
        return status;
    if (gpud_v4l2_call(&capture->node, VIDIOC_G_INPUT, &now) < 0 || now != number) {
        capture->next_input = number;
        capture->input_refused.status = GPUD_OK;
        if (capture->ring && capture->failure.status == GPUD_OK) {
            capture->changed = true;
            status = gpud_capture_keep_up(capture, &held, error);
        } else {
            gpud_capture_drop_ring(capture, true, NULL);
            select_input(capture);
        }
        if (status == GPUD_OK && capture->input_refused.status != GPUD_OK) {
            status = capture->input_refused.status;
            if (error)
                *error = capture->input_refused;
        }
    }
    if (status == GPUD_OK)
        gpud_print(capture->input, "%s", input);
    return status;
}

enum gpud_status gpud_capture_configure_controls(struct gpud_capture *capture,
                                                 const struct gpud_capture_control *controls,
                                                 uint32_t count, struct gpud_error *error)
{
    enum gpud_status status = gpud_controls_check(controls, count, error);
    if (status != GPUD_OK)
        return status;
    gpud_lock_take(&capture->node_lock);
    if (capture->node.fd < 0)
        status = gpud_fail(error, GPUD_NO_DEVICE, "%s is unplugged", capture->home);
    else
        status = gpud_controls_set(&capture->node, controls, count, error);
    if (status == GPUD_OK && !gpud_controls_keep(&capture->controls, controls, count))
        status = gpud_fail(error, GPUD_NO_MEMORY, "no room for more controls");
    gpud_lock_release(&capture->node_lock);
    return status;
}

/* --- another signal ------------------------------------------------------------------------ */

/* Whether another configuration is needed. Where only colours or the rate changed the next frame
 * says so by its epoch. */
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
        count_change(capture);
    }
    return false;
}

enum gpud_status gpud_capture_follow(struct gpud_capture *capture, bool *held,
                                     struct gpud_error *error)
{
    *held = false;
    if (!capture->changed) {
        capture->look_at = gpud_now() + GPUD_CAPTURE_LOOK;
        bool told = capture->tells && gpud_input_take_events(&capture->node);
        if (!told && capture->tells && capture->source.present)
            return GPUD_OK;
        capture->changed = look(capture);
    }
    if (!capture->changed)
        return GPUD_OK;
    gpud_log_info(&capture->context->log, "capture", "%s has another signal: %ux%u",
                  capture->node.path, capture->source.width, capture->source.height);
    enum gpud_status status = gpud_capture_drop_ring(capture, false, error);
    *held = status == GPUD_IO;
    if (status == GPUD_OK && capture->next_input >= 0)
        select_input(capture);
    if (status == GPUD_OK)
        status = gpud_capture_begin(capture, error);
    if (status == GPUD_OK)
        count_change(capture);
    return status;
}

/* --- no signal at the start ---------------------------------------------------------------- */

/* Another look: GPUD_OK, and there may be a ring. */
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
    capture->unstarted = false;
    enum gpud_status status = gpud_capture_begin(capture, error);
    if (!capture->unstarted)
        gpud_capture_disarm(capture);
    return status;
}

enum gpud_status gpud_capture_await_start(struct gpud_capture *capture, int64_t deadline,
                                          struct gpud_error *error)
{
    while (capture->unstarted) {
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
        if (capture->unstarted && gpud_now() >= deadline)
            return gpud_fail(error, GPUD_TIMEOUT, "%s", capture->source.reason);
    }
    return GPUD_OK;
}
