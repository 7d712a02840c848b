/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sets up a card that was just opened, or switches it to another input. */
#include "capture/setup.h"

#include "capture/publish.h"

#include <errno.h>
#include <linux/videodev2.h>

static void detect(struct gpud_capture *capture)
{
    capture->has_change_event = gpud_input_subscribe(&capture->node);
    gpud_input_detect(&capture->node, &capture->source);
    gpud_capture_publish_signal(capture);
    gpud_capture_publish_card_format(capture);
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

void gpud_capture_select_input(struct gpud_capture *capture)
{
    struct gpud_error *why = &capture->input_refused;
    why->status = set_input(capture, capture->next_input, why);
    capture->next_input = -1;
    if (why->status != GPUD_OK)
        gpud_log_warning(&capture->context->log, "capture", "%s", why->reason);
    detect(capture);
}
