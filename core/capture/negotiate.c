/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Agrees with the driver on a format: its name, size and fields. */
#include "capture/negotiate.h"

#include "capture/modes.h"

#include <errno.h>
#include <linux/videodev2.h>
#include <string.h>

static enum gpud_status choose_format(struct gpud_capture *capture, const char *format,
                                      uint32_t *fourcc, struct gpud_error *error)
{
    if (!capture->wanted.fourcc) /* a change of the signal does not change it */
        capture->wanted.fourcc = gpud_capture_find_format(&capture->node, format);
    *fourcc = capture->wanted.fourcc;
    if (*fourcc)
        return GPUD_OK;
    if (gpud_format_fourcc(format, 0) == 0)
        return gpud_fail(error, GPUD_UNSUPPORTED, "\"%.16s\" is not a format that is captured here",
                         format);
    char offered[128];
    gpud_capture_name_formats(&capture->node, offered, sizeof(offered));
    return gpud_fail(error, GPUD_UNSUPPORTED, "%s does not offer %s; it has %s", capture->node.path,
                     format, offered);
}

static const char *scan_name(uint32_t field)
{
    switch (gpud_scan_of_field(field)) {
    case GPUD_SCAN_PROGRESSIVE:
        return "progressive pictures";
    case GPUD_SCAN_INTERLEAVED:
        return "interleaved fields";
    case GPUD_SCAN_ALTERNATE:
        return "single fields";
    default:
        break;
    }
    return "two fields one below the other, which no frame can be";
}

/* Height is that of both fields together, format.height that of one buffer. */
static int ask(const struct gpud_v4l2 *node, uint32_t field, uint32_t width, uint32_t height,
               struct gpud_v4l2_format *format)
{
    *format = (struct gpud_v4l2_format){
        .fourcc = format->fourcc,
        .width = width,
        .height = field == V4L2_FIELD_ALTERNATE ? height / 2 : height,
        .field = field,
    };
    return gpud_v4l2_set_format(node, format);
}

static bool one_below_the_other(uint32_t field)
{
    return field == V4L2_FIELD_SEQ_TB || field == V4L2_FIELD_SEQ_BT;
}

/* A driver that is free to choose uses its signal's fields. Single fields have a height of their
 * own; if both lie one below the other, the driver may support another way. */
static int ask_for_scan(const struct gpud_v4l2 *node, enum gpud_scan scan, uint32_t width,
                        uint32_t height, struct gpud_v4l2_format *format)
{
    uint32_t field = gpud_field_of_scan(scan);
    int result = ask(node, field, width, height, format);
    if (result == 0 && one_below_the_other(format->field) && scan == GPUD_SCAN_ANY)
        result = ask(node, V4L2_FIELD_INTERLACED, width, height, format);
    bool single = format->field == V4L2_FIELD_ALTERNATE && field != V4L2_FIELD_ALTERNATE;
    bool stuck = one_below_the_other(format->field);
    if (result == 0 && scan == GPUD_SCAN_ANY && (single || stuck))
        result = ask(node, V4L2_FIELD_ALTERNATE, width, height, format);
    return result;
}

static enum gpud_status refused(struct gpud_capture *capture, const char *name, uint32_t width,
                                uint32_t height, struct gpud_error *error)
{
    int number = errno;
    if (number == EBUSY)
        return gpud_fail_native(error, GPUD_IO, "errno", EBUSY, "%s is in use by another program",
                                capture->node.path);
    char offered[128];
    gpud_capture_name_formats(&capture->node, offered, sizeof(offered));
    errno = number;
    return gpud_fail_errno(error, "%s does not take the format %s %ux%u; it has %s",
                           capture->node.path, name, width, height, offered);
}

enum gpud_status gpud_capture_negotiate(struct gpud_capture *capture,
                                        struct gpud_v4l2_format *format,
                                        struct gpud_placement *placement, struct gpud_error *error)
{
    const struct gpud_capture_mode *wanted = &capture->wanted.mode;
    const char *name = wanted->format;
    /* If another input has no size of its own, the pictures keep their size. */
    const struct gpud_layout *last =
        &capture->info.media.picture.layout; /* written by this thread only */
    bool own = capture->signal.now.width && capture->signal.now.height;
    bool asked = wanted->width_min && (capture->wanted.scales || !own);
    uint32_t width = asked ? wanted->width_min : own ? capture->signal.now.width : last->width;
    uint32_t height = asked ? wanted->height_min
                      : own ? capture->signal.now.height
                            : last->height * (capture->stream.alternate ? 2 : 1);
    if (!width || !height)
        return gpud_fail(error, GPUD_INVALID,
                         "%s has no signal with a size of its own: ask for one of its sizes",
                         capture->node.path);
    enum gpud_status status = choose_format(capture, name, &format->fourcc, error);
    if (status != GPUD_OK)
        return status;
    /* From a signal of the other kind the card makes what it can. */
    enum gpud_scan asked_scan =
        capture->signal.now.interlaced == capture->wanted.interlaced ? wanted->scan : GPUD_SCAN_ANY;
    if (ask_for_scan(&capture->node, asked_scan, width, height, format) < 0)
        return refused(capture, name, width, height, error);
    gpud_v4l2_reset_compose(&capture->node);
    enum gpud_scan scan = gpud_scan_of_field(format->field);
    if (scan == GPUD_SCAN_ANY || (asked_scan != GPUD_SCAN_ANY && scan != asked_scan))
        return gpud_fail(error, GPUD_UNSUPPORTED, "%s makes %s of its signal%s", capture->node.path,
                         scan_name(format->field),
                         scan == GPUD_SCAN_ANY ? ": set the source to progressive"
                                               : ": ask for these");
    status = gpud_format_place(format, placement, error);
    const char *opaque = status == GPUD_OK ? gpud_format_opaque(placement->layout.format) : NULL;
    if (opaque && strcmp(opaque, name) == 0) /* its alpha is meaningless */
        gpud_print(placement->layout.format, "%s", opaque);
    else if (gpud_format_has_alpha(name) && !gpud_controls_set_alpha(&capture->wanted.controls))
        gpud_controls_make_opaque(&capture->node);
    if (status == GPUD_OK && strcmp(placement->layout.format, name) != 0)
        status = gpud_fail(error, GPUD_UNSUPPORTED, "%s offers %s, but gives %s instead",
                           capture->node.path, name, placement->layout.format);
    return status;
}
