/* SPDX-FileCopyrightText: 2026 gpudirect authors */
/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A card's inputs and controls. */
#include "capture/internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* === controls ================================================================================ */
/* A card's controls: found by name, checked against the driver's limits, set. */

/* Limits a driver that never ends its list. */
#define CONTROLS_MAX 1024
#define MENU_MAX 256

/* --- names --------------------------------------------------------------------------------- */

/* The name as v4l2-ctl and v4l2src write it: "Exposure, Auto" is exposure_auto. */
static void normalise(const char *name, char *text, size_t size)
{
    size_t used = 0;
    bool gap = false;
    for (; *name && used + 2 < size; name++) {
        if (!isalnum((unsigned char)*name)) {
            gap = used > 0;
            continue;
        }
        if (gap)
            text[used++] = '_';
        gap = false;
        text[used++] = (char)tolower((unsigned char)*name);
    }
    text[used] = '\0';
}

/* The first control after this id; false: no more. Old drivers know 32-bit ones only. */
static bool next_control(const struct gpud_v4l2 *node, uint32_t after,
                         struct v4l2_query_ext_ctrl *control)
{
    *control = (struct v4l2_query_ext_ctrl){.id = after | V4L2_CTRL_FLAG_NEXT_CTRL};
    if (gpud_v4l2_call(node, VIDIOC_QUERY_EXT_CTRL, control) == 0) {
        control->name[sizeof(control->name) - 1] = '\0';
        return control->id > after;
    }
    if (errno != ENOTTY)
        return false;
    struct v4l2_queryctrl old = {.id = after | V4L2_CTRL_FLAG_NEXT_CTRL};
    if (gpud_v4l2_call(node, VIDIOC_QUERYCTRL, &old) < 0)
        return false;
    *control = (struct v4l2_query_ext_ctrl){
        .id = old.id,
        .type = old.type,
        .flags = old.flags,
        .minimum = old.minimum,
        .maximum = old.maximum,
        .step = (uint64_t)(old.step > 0 ? old.step : 1),
    };
    gpud_print(control->name, "%.*s", (int)sizeof(old.name), (const char *)old.name);
    return control->id > after;
}

static bool can_be_set(const struct v4l2_query_ext_ctrl *control)
{
    if (control->flags & V4L2_CTRL_FLAG_DISABLED)
        return false;
    switch (control->type) {
    case V4L2_CTRL_TYPE_INTEGER:
    case V4L2_CTRL_TYPE_BOOLEAN:
    case V4L2_CTRL_TYPE_MENU:
    case V4L2_CTRL_TYPE_INTEGER_MENU:
    case V4L2_CTRL_TYPE_BUTTON:
    case V4L2_CTRL_TYPE_INTEGER64:
    case V4L2_CTRL_TYPE_BITMASK:
        return !(control->flags & V4L2_CTRL_FLAG_HAS_PAYLOAD); /* an array */
    case V4L2_CTRL_TYPE_STRING:
        return true;
    default:
        return false; /* the title of a class, or a struct */
    }
}

/* Lists those first that the user may have meant, because a long list is cut. */
static void name_controls(const struct gpud_v4l2 *node, char *text, size_t size)
{
    struct v4l2_query_ext_ctrl control;
    text[0] = '\0';
    for (uint32_t id = 0, i = 0; i < CONTROLS_MAX && next_control(node, id, &control); i++) {
        char name[sizeof(control.name) + 1];
        size_t used = strlen(text);
        id = control.id;
        if (!can_be_set(&control) || control.flags & V4L2_CTRL_FLAG_READ_ONLY)
            continue;
        normalise(control.name, name, sizeof(name));
        if (used + strlen(name) + 6 > size) {
            gpud_print_n(text + used, size - used, "…");
            return;
        }
        gpud_print_n(text + used, size - used, "%s%s", used ? ", " : "", name);
    }
    if (!text[0])
        gpud_print_n(text, size, "none");
}

static enum gpud_status controls_find(const struct gpud_v4l2 *node, const char *wanted,
                                      struct v4l2_query_ext_ctrl *control, struct gpud_error *error)
{
    char name[sizeof(control->name) + 1], own[64], offered[300];
    char *end;
    unsigned long number = strtoul(wanted, &end, 0);
    normalise(wanted, own, sizeof(own));
    for (uint32_t id = 0, i = 0; i < CONTROLS_MAX && next_control(node, id, control); i++) {
        id = control->id;
        normalise(control->name, name, sizeof(name));
        bool named = strcmp(name, own) == 0 || (!*end && end != wanted && number == control->id);
        if (named && can_be_set(control))
            return GPUD_OK;
    }
    name_controls(node, offered, sizeof(offered));
    return gpud_fail(error, GPUD_INVALID, "%s has no control \"%.40s\"; it has %s", node->path,
                     wanted, offered);
}

/* --- values -------------------------------------------------------------------------------- */

/* A menu entry as text; false: no entry has this number. */
static bool menu_entry(const struct gpud_v4l2 *node, const struct v4l2_query_ext_ctrl *control,
                       int64_t number, char text[40])
{
    struct v4l2_querymenu entry = {.id = control->id, .index = (uint32_t)number};
    if (gpud_v4l2_call(node, VIDIOC_QUERYMENU, &entry) < 0)
        return false;
    if (control->type == V4L2_CTRL_TYPE_INTEGER_MENU)
        gpud_print_n(text, 40, "%lld", (long long)entry.value);
    else
        gpud_print_n(text, 40, "%.*s", (int)sizeof(entry.name), (const char *)entry.name);
    return true;
}

/* The value to set, from what the user gave. */
static enum gpud_status controls_read_value(const struct gpud_v4l2 *node,
                                            const struct v4l2_query_ext_ctrl *control,
                                            const struct gpud_capture_control *wanted,
                                            int64_t *value, struct gpud_error *error)
{
    char text[40], number[24];
    *value = wanted->value;
    if (control->type == V4L2_CTRL_TYPE_STRING) {
        size_t length = wanted->text ? strlen(wanted->text) : 0;
        if (!wanted->text)
            return gpud_fail(error, GPUD_INVALID, "the control \"%s\" of %s takes a text",
                             control->name, node->path);
        if ((int64_t)length < control->minimum || (int64_t)length > control->maximum)
            return gpud_fail(error, GPUD_INVALID,
                             "the control \"%s\" of %s takes a text of %lld to %lld characters",
                             control->name, node->path, (long long)control->minimum,
                             (long long)control->maximum);
        return GPUD_OK;
    }
    if (control->type == V4L2_CTRL_TYPE_MENU || control->type == V4L2_CTRL_TYPE_INTEGER_MENU) {
        for (int64_t i = control->minimum; i <= control->maximum && i < MENU_MAX; i++) {
            bool meant = menu_entry(node, control, i, text) &&
                         (wanted->text ? strcmp(wanted->text, text) == 0 : wanted->value == i);
            if (!meant)
                continue;
            *value = i;
            return GPUD_OK;
        }
        char offered[300] = "";
        for (int64_t i = control->minimum; i <= control->maximum && i < MENU_MAX; i++) {
            size_t used = strlen(offered);
            if (menu_entry(node, control, i, text))
                gpud_print_n(offered + used, sizeof(offered) - used, "%s%lld \"%s\"",
                             used ? ", " : "", (long long)i, text);
        }
        gpud_print(number, "%lld", (long long)wanted->value);
        return gpud_fail(error, GPUD_INVALID,
                         "the control \"%s\" of %s has no entry %.40s; it has %s", control->name,
                         node->path, wanted->text ? wanted->text : number, offered);
    }
    if (wanted->text)
        return gpud_fail(error, GPUD_INVALID, "the control \"%s\" of %s takes a number",
                         control->name, node->path);
    bool bits = control->type == V4L2_CTRL_TYPE_BITMASK;
    if (control->type == V4L2_CTRL_TYPE_BUTTON)
        return GPUD_OK;
    if (bits && !(wanted->value & ~control->maximum))
        return GPUD_OK;
    uint64_t step = control->step ? control->step : 1;
    if (bits || wanted->value < control->minimum || wanted->value > control->maximum ||
        ((uint64_t)wanted->value - (uint64_t)control->minimum) % step)
        return gpud_fail(error, GPUD_INVALID,
                         "the control \"%s\" of %s takes %lld to %lld in steps of %llu, not %lld",
                         control->name, node->path, (long long)control->minimum,
                         (long long)control->maximum, (unsigned long long)step,
                         (long long)wanted->value);
    return GPUD_OK;
}

/* --- setting ------------------------------------------------------------------------------- */

static int controls_set(const struct gpud_v4l2 *node, const struct v4l2_query_ext_ctrl *control,
                        int64_t value, const char *text)
{
    bool plain =
        control->type != V4L2_CTRL_TYPE_STRING && control->type != V4L2_CTRL_TYPE_INTEGER64;
    if (plain) { /* every driver knows this call */
        struct v4l2_control old = {.id = control->id, .value = (int32_t)value};
        return gpud_v4l2_call(node, VIDIOC_S_CTRL, &old);
    }
    struct v4l2_ext_control one = {.id = control->id, .value64 = value};
    char *copy = NULL;
    if (control->type == V4L2_CTRL_TYPE_STRING) {
        copy = text ? calloc(1, (size_t)control->maximum + 1) : NULL;
        if (!copy) {
            errno = text ? ENOMEM : EINVAL; /* a number was to be set */
            return -1;
        }
        memcpy(copy, text, strlen(text));
        one.size = (uint32_t)control->maximum + 1;
        one.string = copy;
    }
    struct v4l2_ext_controls all = {
        .ctrl_class = V4L2_CTRL_ID2CLASS(control->id), .count = 1, .controls = &one};
    int result = gpud_v4l2_call(node, VIDIOC_S_EXT_CTRLS, &all), number = errno;
    free(copy);
    errno = number;
    return result;
}

/* *asleep: another control disables it, and may be set later. */
static enum gpud_status set_one(const struct gpud_v4l2 *node,
                                const struct gpud_capture_control *wanted, bool *asleep,
                                struct gpud_error *error)
{
    struct v4l2_query_ext_ctrl control;
    int64_t value;
    *asleep = false;
    enum gpud_status status = controls_find(node, wanted->name, &control, error);
    if (status != GPUD_OK)
        return status;
    if (control.flags & V4L2_CTRL_FLAG_READ_ONLY)
        return gpud_fail(error, GPUD_UNSUPPORTED, "the control \"%s\" of %s can only be read",
                         control.name, node->path);
    status = controls_read_value(node, &control, wanted, &value, error);
    if (status != GPUD_OK)
        return status;
    *asleep = control.flags & V4L2_CTRL_FLAG_INACTIVE;
    if (*asleep)
        return gpud_fail(error, GPUD_UNSUPPORTED,
                         "the control \"%s\" of %s has no effect now: another one, such as its "
                         "automatic, switches it off",
                         control.name, node->path);
    if (controls_set(node, &control, value, wanted->text) == 0)
        return GPUD_OK;
    if (errno == EBUSY)
        return gpud_fail_native(error, GPUD_IO, "errno", EBUSY,
                                "the control \"%s\" of %s cannot be changed now: another program "
                                "holds it, or it has to be set before frames are captured",
                                control.name, node->path);
    return gpud_fail_errno(error, "%s does not take its control \"%s\"", node->path, control.name);
}

enum gpud_status gpud_controls_set(const struct gpud_v4l2 *node,
                                   const struct gpud_capture_control *controls, uint32_t count,
                                   struct gpud_error *error)
{
    uint64_t later = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool asleep;
        enum gpud_status status = set_one(node, &controls[i], &asleep, error);
        if (asleep)
            later |= UINT64_C(1) << i;
        else if (status != GPUD_OK)
            return status;
    }
    for (uint32_t i = 0; i < count; i++) {
        bool asleep;
        enum gpud_status status =
            later >> i & 1 ? set_one(node, &controls[i], &asleep, error) : GPUD_OK;
        if (status != GPUD_OK)
            return status;
    }
    return GPUD_OK;
}

static bool find_alpha(const struct gpud_v4l2 *node, struct v4l2_query_ext_ctrl *control)
{
    return next_control(node, V4L2_CID_ALPHA_COMPONENT - 1, control) &&
           control->id == V4L2_CID_ALPHA_COMPONENT && can_be_set(control) &&
           !(control->flags & V4L2_CTRL_FLAG_READ_ONLY);
}

bool gpud_controls_have_alpha(const struct gpud_v4l2 *node)
{
    struct v4l2_query_ext_ctrl control;
    return find_alpha(node, &control);
}

bool gpud_controls_make_opaque(const struct gpud_v4l2 *node)
{
    struct v4l2_query_ext_ctrl control;
    return find_alpha(node, &control) && controls_set(node, &control, control.maximum, NULL) == 0;
}

bool gpud_controls_set_alpha(const struct gpud_controls *kept)
{
    char name[64];
    for (uint32_t i = 0; i < kept->count; i++) {
        normalise(kept->control[i].name, name, sizeof(name));
        if (strcmp(name, "alpha_component") == 0 ||
            strtoul(kept->control[i].name, NULL, 0) == V4L2_CID_ALPHA_COMPONENT)
            return true;
    }
    return false;
}

/* === input =================================================================================== */

/* Limits a driver that never ends its list. */
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

static void explain_absence(const struct gpud_v4l2 *node, uint32_t input, const char *name,
                            const char *why, struct gpud_input *signal)
{
    struct v4l2_edid edid = {.pad = input};
    signal->present = false;
    gpud_print(signal->reason, "no signal at the input \"%s\" of %s: %s", name, node->path, why);
    /* A source does not send to a sink without an EDID, which says what it accepts. */
    if (gpud_v4l2_call(node, VIDIOC_G_EDID, &edid) == 0 && edid.blocks == 0)
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
    v4l2_std_id controls_set = 0, found = 0;
    if (gpud_v4l2_call(node, VIDIOC_G_STD, &controls_set) < 0 || !controls_set)
        return;
    signal->standard = controls_set;
    /* A driver may detect a family of standards. The one that is set is right if it belongs to
     * it. */
    if (gpud_v4l2_call(node, VIDIOC_QUERYSTD, &found) == 0 && found && !(found & controls_set))
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

enum gpud_status gpud_input_find(const struct gpud_v4l2 *node, const char *wanted, int *number,
                                 struct gpud_error *error)
{
    char offered[300] = "", *end;
    unsigned long meant = strtoul(wanted, &end, 10);
    bool numbered = isdigit((unsigned char)*wanted) && !*end;
    for (uint32_t i = 0; i < INPUTS_MAX; i++) {
        struct v4l2_input input = {.index = i};
        size_t used = strlen(offered);
        if (gpud_v4l2_call(node, VIDIOC_ENUMINPUT, &input) < 0)
            break;
        input.name[sizeof(input.name) - 1] = '\0';
        gpud_print_n(offered + used, sizeof(offered) - used, "%s%u \"%s\"", used ? ", " : "", i,
                     (const char *)input.name);
        bool named = strncasecmp(wanted, (const char *)input.name, sizeof(input.name)) == 0;
        if (named || (numbered && meant == input.index)) {
            *number = (int)i;
            return GPUD_OK;
        }
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
