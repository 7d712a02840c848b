/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The fake driver's input and signal. */
#include "support/fake_input.h"

#include <errno.h>
#include <string.h>

/* The metadata of a display with the primaries of BT.2020; a card without it has no controls. */
int fake_get_controls(const struct fake_driver *driver, struct v4l2_ext_controls *raw)
{
    static const struct v4l2_ctrl_hdr10_cll_info light = {1000, 400};
    static const struct v4l2_ctrl_hdr10_mastering_display display = {
        {8500, 6550, 35400}, {39850, 2300, 14600}, 15635, 16450, 10000000, 50};
    struct v4l2_ext_control *control = raw->controls;
    bool one = control->id == V4L2_CID_COLORIMETRY_HDR10_CLL_INFO;
    if (raw->count != 1 || !driver->has_hdr ||
        (!one && control->id != V4L2_CID_COLORIMETRY_HDR10_MASTERING_DISPLAY))
        return EINVAL;
    if (control->size < (one ? sizeof(light) : sizeof(display)))
        return ENOSPC;
    if (one)
        memcpy(control->ptr, &light, sizeof(light));
    else
        memcpy(control->ptr, &display, sizeof(display));
    return 0;
}

static void detect(struct fake_driver *driver, uint32_t width, uint32_t height, bool interlaced)
{
    driver->detected = (struct v4l2_bt_timings){
        .width = width,
        .height = height,
        .interlaced = interlaced,
        .hsync = 80,
        .vsync = 20,
        .pixelclock = (uint64_t)(width + 80) * (height + 20) * 30000 / 1001,
    };
}

static int select_input(struct fake_driver *driver, int input)
{
    if (input < 0 || input >= 4 || !driver->inputs[input])
        return EINVAL;
    if (driver->count)
        return EBUSY;
    driver->input = input;
    if (driver->widths[input])
        detect(driver, driver->widths[input], driver->widths[input] * 9 / 16, false);
    return 0;
}

static int enum_input(const struct fake_driver *driver, struct v4l2_input *input)
{
    if (input->index >= 4 || !driver->inputs[input->index])
        return driver->inputs[0] ? EINVAL : ENOTTY;
    strncpy((char *)input->name, driver->inputs[input->index], sizeof(input->name) - 1);
    return 0;
}

int fake_input_call(struct fake_driver *driver, unsigned long request, void *argument)
{
    struct v4l2_dv_timings *timings = argument;
    v4l2_std_id *standard = argument;
    switch (request) {
    case VIDIOC_ENUMINPUT:
        return enum_input(driver, argument);
    case VIDIOC_G_INPUT:
        *(int *)argument = driver->input;
        return driver->inputs[0] ? 0 : ENOTTY;
    case VIDIOC_S_INPUT:
        return driver->inputs[0] ? select_input(driver, *(int *)argument) : ENOTTY;
    case VIDIOC_QUERY_DV_TIMINGS:
        if (!driver->digital)
            return ENOTTY;
        timings->bt = driver->detected;
        return driver->detects;
    case VIDIOC_G_DV_TIMINGS:
        timings->bt = driver->timings;
        return driver->digital ? 0 : ENODATA;
    case VIDIOC_S_DV_TIMINGS:
        if (!driver->digital || driver->count)
            return driver->digital ? EBUSY : ENODATA;
        driver->timings = timings->bt;
        return 0;
    case VIDIOC_G_STD:
        *standard = driver->standard;
        return driver->standard ? 0 : ENODATA;
    case VIDIOC_CROPCAP:
        ((struct v4l2_cropcap *)argument)->pixelaspect = driver->aspect;
        return driver->aspect.numerator ? 0 : ENODATA;
    case VIDIOC_SUBSCRIBE_EVENT:
        return driver->tells ? 0 : EINVAL;
    case VIDIOC_DQEVENT:
        if (!driver->events)
            return ENOENT;
        driver->events--;
        ((struct v4l2_event *)argument)->type = V4L2_EVENT_SOURCE_CHANGE;
        return 0;
    default:
        return -1;
    }
}

void fake_signal(struct fake_driver *to, uint32_t width, uint32_t height, bool interlaced, int why)
{
    pthread_mutex_lock(&to->lock);
    to->detects = width ? 0 : why;
    detect(to, width, height, interlaced);
    to->events += to->tells;
    pthread_mutex_unlock(&to->lock);
}

int fake_enum_size(const struct fake_driver *driver, struct v4l2_frmsizeenum *raw)
{
    if (driver->sizes == FAKE_SILENT)
        return ENOTTY;
    if (driver->sizes == FAKE_STEPWISE) {
        raw->type = V4L2_FRMSIZE_TYPE_STEPWISE;
        raw->stepwise = (struct v4l2_frmsize_stepwise){64, 640, 16, 32, 360, 4};
        return raw->index ? EINVAL : 0;
    }
    raw->type = V4L2_FRMSIZE_TYPE_DISCRETE;
    raw->discrete.width = raw->index ? 640 : 320;
    raw->discrete.height = raw->index ? 360 : 180;
    return raw->index > 1 ? EINVAL : 0;
}

int fake_enum_interval(const struct fake_driver *driver, struct v4l2_frmivalenum *raw)
{
    if (driver->sizes == FAKE_STEPWISE) {
        raw->type = V4L2_FRMIVAL_TYPE_CONTINUOUS;
        raw->stepwise.min = (struct v4l2_fract){1, 120};
        raw->stepwise.max = (struct v4l2_fract){1, 1};
        return raw->index ? EINVAL : 0;
    }
    /* Slow first, and the fastest in the middle: no order is promised. */
    static const uint32_t rates[] = {5, 60, 30};
    uint32_t scale = raw->width == 320 ? 1 : 2;
    if (raw->index >= 3)
        return EINVAL;
    raw->type = V4L2_FRMIVAL_TYPE_DISCRETE;
    raw->discrete = (struct v4l2_fract){scale, rates[raw->index]};
    return 0;
}
