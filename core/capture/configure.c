/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The calls that set up a card: its mode, its input and its controls. */
#include "base/sized.h"
#include "capture/actions.h"
#include "capture/publish.h"

#include <linux/videodev2.h>
#include <string.h>

void gpud_capture_stop(struct gpud_capture *capture)
{
    gpud_capture_report(capture, GPUD_CAPTURE_ON_STOP, NULL, NULL);
    capture->wanted.mode.format[0] = '\0';
}

static enum gpud_status check_mode(const struct gpud_capture_mode *mode, struct gpud_error *error)
{
    uint32_t width = mode->width_min, height = mode->height_min;
    bool own = width == 0 && height == 0;
    if (!memchr(mode->format, '\0', sizeof(mode->format)) || !mode->format[0] ||
        (!own && (width < 1 || height < 1)) || width > GPUD_DIMENSION_MAX ||
        height > GPUD_DIMENSION_MAX)
        return gpud_fail(error, GPUD_INVALID,
                         "a capture of %.*s %ux%u: a format and 1x1 to %dx%d are needed",
                         (int)sizeof(mode->format), mode->format[0] ? mode->format : "(no format)",
                         width, height, GPUD_DIMENSION_MAX, GPUD_DIMENSION_MAX);
    if (mode->fps_den < 1)
        return gpud_fail(error, GPUD_INVALID, "a rate of %u/%u frames a second", mode->fps_num,
                         mode->fps_den);
    if ((unsigned)mode->scan > GPUD_SCAN_ALTERNATE)
        return gpud_fail(error, GPUD_INVALID, "%u is not a way to scan", (unsigned)mode->scan);
    return GPUD_OK;
}

static enum gpud_status set_mode(struct gpud_capture *capture, const struct gpud_capture_mode *mode,
                                 struct gpud_error *error)
{
    struct gpud_capture_mode wanted;
    enum gpud_status status =
        gpud_sized_read(&wanted, sizeof(wanted), mode,
                        GPUD_END_OF(struct gpud_capture_mode, fps_den), "gpud_capture_mode", error);
    if (status == GPUD_OK)
        status = check_mode(&wanted, error);
    if (status == GPUD_OK)
        status = gpud_capture_report(capture, GPUD_CAPTURE_ON_CONFIGURE, NULL, error);
    if (status != GPUD_OK)
        return status;
    gpud_input_detect(&capture->node, &capture->signal.now);
    gpud_capture_publish_signal(capture);
    const struct gpud_input *source = &capture->signal.now;
    /* A caller that asks for the signal's size also follows later changes of it. */
    if (wanted.width_min == source->width && wanted.height_min == source->height)
        wanted.width_min = wanted.height_min = 0;
    capture->wanted.mode = wanted;
    capture->wanted.fourcc = 0;
    capture->wanted.scales = wanted.width_min && source->width;
    capture->wanted.interlaced = source->interlaced;
    return gpud_capture_report(capture, GPUD_CAPTURE_ON_START, NULL, error);
}

static enum gpud_status set_input(struct gpud_capture *capture, const char *input,
                                  struct gpud_error *error)
{
    int number, now = -1;
    if (strlen(input) >= sizeof(capture->wanted.input))
        return gpud_fail(error, GPUD_INVALID,
                         "\"%.31s…\" is too long for an input's number or name", input);
    if (capture->state.card != GPUD_CARD_PRESENT)
        return gpud_fail(error, GPUD_NO_DEVICE, "%s is unplugged", capture->card.home);
    enum gpud_status status = gpud_input_find(&capture->node, input, &number, error);
    if (status != GPUD_OK)
        return status;
    capture->wanted.next_input = -1; /* one asked for before, while frames were held */
    if (gpud_v4l2_call(&capture->node, VIDIOC_G_INPUT, &now) < 0 || now != number) {
        capture->wanted.next_input = number;
        capture->wanted.input_refused.status = GPUD_OK;
        status = gpud_capture_report(capture, GPUD_CAPTURE_ON_INPUT, NULL, error);
        if (status == GPUD_OK && capture->wanted.input_refused.status != GPUD_OK) {
            status = capture->wanted.input_refused.status;
            if (error)
                *error = capture->wanted.input_refused;
        }
    }
    if (status == GPUD_OK)
        gpud_print(capture->wanted.input, "%s", input);
    return status;
}

static enum gpud_status set_controls(struct gpud_capture *capture,
                                     const struct gpud_capture_control *controls, uint32_t count,
                                     struct gpud_error *error)
{
    enum gpud_status status = gpud_controls_check(controls, count, error);
    if (status != GPUD_OK)
        return status;
    gpud_lock_take(&capture->node_lock);
    if (capture->node.fd < 0)
        status = gpud_fail(error, GPUD_NO_DEVICE, "%s is unplugged", capture->card.home);
    else
        status = gpud_controls_set(&capture->node, controls, count, error);
    if (status == GPUD_OK && !gpud_controls_keep(&capture->wanted.controls, controls, count))
        status = gpud_fail(error, GPUD_NO_MEMORY, "no room for more controls");
    gpud_lock_release(&capture->node_lock);
    return status;
}

enum gpud_status gpud_capture_configure(struct gpud_capture *capture,
                                        const struct gpud_capture_config *config,
                                        struct gpud_error *error)
{
    struct gpud_capture_config own;
    enum gpud_status status =
        gpud_sized_read(&own, sizeof(own), config, GPUD_END_OF(struct gpud_capture_config, mode),
                        "gpud_capture_config", error);
    if (status != GPUD_OK)
        return status;
    if (!own.input && !own.controls && !own.mode)
        return gpud_fail(error, GPUD_INVALID, "an input, controls or a mode are needed");
    if (own.input)
        status = set_input(capture, own.input, error);
    if (status == GPUD_OK && own.controls)
        status = set_controls(capture, own.controls, own.control_count, error);
    if (status == GPUD_OK && own.mode)
        status = set_mode(capture, own.mode, error);
    return status;
}
