/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "capture/input.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Limits a driver that always has one more event. */
#define EVENTS_MAX 64
#define INPUTS_MAX 64

/* --- digital inputs ------------------------------------------------------------------------ */

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* A measured pixel clock is never exact: within 0.02 % of N or N·1000/1001 it is taken as that. */
static void round_rate(uint64_t num, uint64_t den, struct gpud_input *signal)
{
    uint64_t whole = (num + den / 2) / den;
    uint64_t ntsc = (num * 1001 + den * 500) / (den * 1000);
    double rate = (double)num / (double)den;
    double off = rate / (double)whole - 1, off_ntsc = rate * 1.001 / (double)ntsc - 1;
    if (whole && off < 0.0002 && off > -0.0002) {
        num = whole;
        den = 1;
    } else if (ntsc && off_ntsc < 0.0002 && off_ntsc > -0.0002) {
        num = ntsc * 1000;
        den = 1001;
    }
    uint64_t by = gcd(num, den);
    while (num / by > INT32_MAX || den / by > INT32_MAX)
        by *= 2;
    signal->fps_num = (uint32_t)(num / by);
    signal->fps_den = (uint32_t)(den / by);
}

static void describe_timings(const struct v4l2_bt_timings *bt, struct gpud_input *signal)
{
    signal->width = bt->width;
    signal->height = bt->height;
    signal->interlaced = bt->interlaced == V4L2_DV_INTERLACED;
    uint64_t across = V4L2_DV_BT_FRAME_WIDTH(bt), down = V4L2_DV_BT_FRAME_HEIGHT(bt);
    if (bt->pixelclock && across && down && across * down < bt->pixelclock) {
        bool slower = bt->flags & V4L2_DV_FL_REDUCED_FPS;
        round_rate(bt->pixelclock * (slower ? 1000 : 1), across * down * (slower ? 1001 : 1),
                   signal);
    }
    if (bt->flags & V4L2_DV_FL_HAS_PICTURE_ASPECT && bt->picture_aspect.numerator &&
        bt->picture_aspect.denominator && bt->width && bt->height) {
        uint64_t x = (uint64_t)bt->picture_aspect.numerator * bt->height;
        uint64_t y = (uint64_t)bt->picture_aspect.denominator * bt->width, by = gcd(x, y);
        signal->aspect_x = (uint32_t)(x / by);
        signal->aspect_y = (uint32_t)(y / by);
    }
}

/* A source does not send to a sink without an EDID, which says what it accepts. */
static bool lacks_edid(const struct gpud_v4l2 *node, uint32_t input)
{
    struct v4l2_edid edid = {.pad = input};
    return gpud_v4l2_call(node, VIDIOC_G_EDID, &edid) == 0 && edid.blocks == 0;
}

static void explain_absence(const struct gpud_v4l2 *node, uint32_t input, const char *name,
                            const char *why, struct gpud_input *signal)
{
    signal->present = false;
    gpud_print(signal->reason, "no signal at the input \"%s\" of %s: %s", name, node->path, why);
    if (lacks_edid(node, input))
        gpud_print(signal->reason,
                   "no signal at the input \"%s\" of %s: it has no EDID, so sources do not send; "
                   "set one with v4l2-ctl --set-edid",
                   name, node->path);
}

/* False: the input is not digital. */
static bool detect_digital(const struct gpud_v4l2 *node, uint32_t input, const char *name,
                           struct gpud_input *signal)
{
    struct v4l2_dv_timings timings = {0};
    bool found = gpud_v4l2_call(node, VIDIOC_QUERY_DV_TIMINGS, &timings) == 0;
    int number = found ? 0 : errno;
    if (number == ENODATA || number == ENOTTY || number == EINVAL)
        return false;
    if (found) {
        signal->digital = true;
        signal->timings = timings;
        describe_timings(&timings.bt, signal);
        return true;
    }
    explain_absence(node, input, name,
                    number == ENOLINK  ? "is a source connected, and on?"
                    : number == ENOLCK ? "the card cannot lock to it"
                    : number == ERANGE ? "its timings are beyond what the card can capture"
                                       : strerror(number),
                    signal);
    /* The card is set to what it would capture. */
    if (gpud_v4l2_call(node, VIDIOC_G_DV_TIMINGS, &timings) == 0)
        describe_timings(&timings.bt, signal);
    return true;
}

/* --- analogue inputs ----------------------------------------------------------------------- */

static void detect_analogue(const struct gpud_v4l2 *node, struct gpud_input *signal)
{
    v4l2_std_id set = 0, found = 0;
    if (gpud_v4l2_call(node, VIDIOC_G_STD, &set) < 0 || !set)
        return;
    signal->standard = set;
    /* A driver may detect a family of standards. The one that is set is right if it belongs to
     * it. */
    if (gpud_v4l2_call(node, VIDIOC_QUERYSTD, &found) == 0 && found && !(found & set))
        signal->standard = found;
    bool lines_525 = signal->standard & V4L2_STD_525_60;
    signal->interlaced = true;
    signal->bottom_first = lines_525;
    signal->width = 720;
    signal->height = lines_525 ? 480 : 576;
    signal->fps_num = lines_525 ? 30000 : 25;
    signal->fps_den = lines_525 ? 1001 : 1;
}

/* V4L2 gives a pixel's height divided by its width. */
static void read_aspect(const struct gpud_v4l2 *node, struct gpud_input *signal)
{
    struct v4l2_cropcap cap = {.type = node->type};
    if (gpud_v4l2_call(node, VIDIOC_CROPCAP, &cap) < 0)
        return;
    if (cap.pixelaspect.numerator && cap.pixelaspect.denominator) {
        signal->aspect_x = cap.pixelaspect.denominator;
        signal->aspect_y = cap.pixelaspect.numerator;
    }
    if (signal->standard && cap.defrect.width && cap.defrect.height) {
        signal->width = cap.defrect.width;
        signal->height = cap.defrect.height;
    }
}

/* --- choosing an input --------------------------------------------------------------------- */

static bool is_meant(const struct v4l2_input *input, const char *wanted)
{
    char *end;
    unsigned long number = strtoul(wanted, &end, 10);
    return strncasecmp(wanted, (const char *)input->name, sizeof(input->name)) == 0 ||
           (isdigit((unsigned char)*wanted) && !*end && number == input->index);
}

enum gpud_status gpud_input_find(const struct gpud_v4l2 *node, const char *wanted, int *number,
                                 struct gpud_error *error)
{
    char offered[300] = "";
    for (uint32_t i = 0; i < INPUTS_MAX; i++) {
        struct v4l2_input input = {.index = i};
        size_t used = strlen(offered);
        if (gpud_v4l2_call(node, VIDIOC_ENUMINPUT, &input) < 0)
            break;
        input.name[sizeof(input.name) - 1] = '\0';
        gpud_print_n(offered + used, sizeof(offered) - used, "%s%u \"%s\"", used ? ", " : "", i,
                     (const char *)input.name);
        if (!is_meant(&input, wanted))
            continue;
        *number = (int)i;
        return GPUD_OK;
    }
    return gpud_fail(error, GPUD_INVALID, "%s has no input \"%.40s\"; it has %s", node->path,
                     wanted, offered[0] ? offered : "none to choose from");
}

/* --- both kinds ---------------------------------------------------------------------------- */

void gpud_input_detect(const struct gpud_v4l2 *node, struct gpud_input *signal)
{
    *signal = (struct gpud_input){.present = true, .fps_den = 1};
    int number = 0;
    struct v4l2_input input = {0};
    if (gpud_v4l2_call(node, VIDIOC_G_INPUT, &number) == 0) {
        input.index = (uint32_t)number;
        if (gpud_v4l2_call(node, VIDIOC_ENUMINPUT, &input) < 0)
            input = (struct v4l2_input){.index = (uint32_t)number};
    }
    input.name[sizeof(input.name) - 1] = '\0';
    gpud_print(signal->name, "%s", (const char *)input.name);
    const char *name = signal->name;
    bool digital = detect_digital(node, input.index, name, signal);
    if (!digital)
        detect_analogue(node, signal);
    if (!signal->aspect_x)
        read_aspect(node, signal);
    if (!signal->aspect_x)
        signal->aspect_x = signal->aspect_y = 1;
    if (signal->present && input.status & (V4L2_IN_ST_NO_POWER | V4L2_IN_ST_NO_SIGNAL))
        explain_absence(node, input.index, name, "is a source connected, and on?", signal);
    else if (signal->present && input.status & (V4L2_IN_ST_NO_H_LOCK | V4L2_IN_ST_NO_SYNC))
        explain_absence(node, input.index, name, "the card cannot lock to it", signal);
}

/* Both sides have measured clocks; 59.94 and 60 differ by 0.1 %. */
static bool same_timings(const struct v4l2_bt_timings *a, const struct v4l2_bt_timings *b)
{
    uint64_t off = a->pixelclock > b->pixelclock ? a->pixelclock - b->pixelclock
                                                 : b->pixelclock - a->pixelclock;
    return a->width == b->width && a->height == b->height && a->interlaced == b->interlaced &&
           V4L2_DV_BT_FRAME_WIDTH(a) == V4L2_DV_BT_FRAME_WIDTH(b) &&
           V4L2_DV_BT_FRAME_HEIGHT(a) == V4L2_DV_BT_FRAME_HEIGHT(b) && off < a->pixelclock / 2000 &&
           ((a->flags ^ b->flags) & V4L2_DV_FL_REDUCED_FPS) == 0;
}

bool gpud_input_is_set(const struct gpud_v4l2 *node, const struct gpud_input *signal)
{
    struct v4l2_dv_timings timings = {0};
    v4l2_std_id standard = 0;
    if (!signal->present)
        return true;
    if (signal->digital)
        return gpud_v4l2_call(node, VIDIOC_G_DV_TIMINGS, &timings) < 0 ||
               same_timings(&timings.bt, &signal->timings.bt);
    return !signal->standard || gpud_v4l2_call(node, VIDIOC_G_STD, &standard) < 0 ||
           standard & signal->standard;
}

void gpud_input_set(const struct gpud_v4l2 *node, const struct gpud_input *signal)
{
    if (gpud_input_is_set(node, signal))
        return;
    struct v4l2_dv_timings timings = signal->timings;
    v4l2_std_id standard = signal->standard;
    if (signal->digital)
        gpud_v4l2_call(node, VIDIOC_S_DV_TIMINGS, &timings);
    else
        gpud_v4l2_call(node, VIDIOC_S_STD, &standard);
}

/* --- pictures ------------------------------------------------------------------------------ */

enum gpud_scan gpud_scan_of_field(uint32_t field)
{
    switch (field) {
    case V4L2_FIELD_ANY: /* a driver that says nothing about fields */
    case V4L2_FIELD_NONE:
    case V4L2_FIELD_TOP:
    case V4L2_FIELD_BOTTOM:
        return GPUD_SCAN_PROGRESSIVE;
    case V4L2_FIELD_INTERLACED:
    case V4L2_FIELD_INTERLACED_TB:
    case V4L2_FIELD_INTERLACED_BT:
        return GPUD_SCAN_INTERLEAVED;
    case V4L2_FIELD_ALTERNATE:
        return GPUD_SCAN_ALTERNATE;
    default:
        return GPUD_SCAN_ANY;
    }
}

uint32_t gpud_field_of_scan(enum gpud_scan scan)
{
    return scan == GPUD_SCAN_PROGRESSIVE   ? V4L2_FIELD_NONE
           : scan == GPUD_SCAN_INTERLEAVED ? V4L2_FIELD_INTERLACED
           : scan == GPUD_SCAN_ALTERNATE   ? V4L2_FIELD_ALTERNATE
                                           : V4L2_FIELD_ANY;
}

void gpud_input_aspect(const struct gpud_input *signal, const struct gpud_v4l2_format *format,
                       uint32_t *x, uint32_t *y)
{
    uint64_t height = format->height * (format->field == V4L2_FIELD_ALTERNATE ? 2ull : 1ull);
    *x = signal->aspect_x;
    *y = signal->aspect_y;
    if (!signal->width || !signal->height || !format->width || !height)
        return;
    uint64_t across = (uint64_t)signal->width * height,
             down = (uint64_t)signal->height * format->width;
    uint64_t by = gcd(across, down);
    across = across / by * signal->aspect_x;
    down = down / by * signal->aspect_y;
    by = gcd(across, down);
    if (across / by <= INT32_MAX && down / by <= INT32_MAX) {
        *x = (uint32_t)(across / by);
        *y = (uint32_t)(down / by);
    }
}

/* --- events -------------------------------------------------------------------------------- */

bool gpud_input_subscribe(const struct gpud_v4l2 *node)
{
    int input = 0;
    struct v4l2_event_subscription wish = {.type = V4L2_EVENT_SOURCE_CHANGE};
    bool subscribed = gpud_v4l2_call(node, VIDIOC_SUBSCRIBE_EVENT, &wish) == 0;
    /* The event's id is the input's number with some drivers, and 0 with others. */
    if (gpud_v4l2_call(node, VIDIOC_G_INPUT, &input) == 0 && input > 0) {
        wish = (struct v4l2_event_subscription){.type = V4L2_EVENT_SOURCE_CHANGE,
                                                .id = (uint32_t)input};
        subscribed |= gpud_v4l2_call(node, VIDIOC_SUBSCRIBE_EVENT, &wish) == 0;
    }
    return subscribed;
}

bool gpud_input_take_events(const struct gpud_v4l2 *node)
{
    bool any = false;
    for (unsigned i = 0; i < EVENTS_MAX; i++) {
        struct v4l2_event event = {0};
        if (gpud_v4l2_call(node, VIDIOC_DQEVENT, &event) < 0)
            break;
        any |= event.type == V4L2_EVENT_SOURCE_CHANGE;
    }
    return any;
}
